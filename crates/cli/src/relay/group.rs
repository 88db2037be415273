//! Streams on one engine, from opening their addresses to the last one's end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use wirepath_engine::{Engine, Placement, Rate};
use wirepath_relay::{Configuration, Opening, StreamPlan};
use wirepath_streams::{
    Dropped, Port, RunningStream, Stream, StreamEnd, StreamError, StreamEvent, StreamOptions, StreamStatus,
};

use super::report;
use super::row::{Pace, Row, State};
use crate::format;

/// Streams that are asked how far they are together, before the engine may go on with its work: some 100 microseconds.
const ASKED_TOGETHER: usize = 64;

/// Stack of a thread that opens addresses: it looks names up.
const OPENER_STACK_BYTES: usize = 256 * 1024;

/// All streams of a command.
pub(super) struct Group {
    engine: Arc<Engine>,
    members: Vec<Member>,
    /// When the streams were looked at last.
    looked: Instant,
    tell: Sender<Note>,
    told: Receiver<Note>,
}

struct Member {
    name: String,
    class_name: String,
    class: usize,
    thread: usize,
    rate: Option<Rate>,
    deadline_us: Option<u64>,
    stage: Stage,
    /// For whom its opening waits: whoever has the other end of a FIFO.
    waiting_for: Option<String>,
    /// Inputs and outputs that somebody is still to connect to, and where.
    awaited: Vec<(Port, String)>,
    begun: Instant,
    time: Duration,
    status: StreamStatus,
    pace: Pace,
    /// What stands before a line about it: nothing if there is no other.
    prefix: String,
}

enum Stage {
    Opening(Opening),
    Running(RunningStream),
    Over(State, Option<String>),
}

/// What happens to the stream of this place.
struct Note {
    place: usize,
    what: What,
}

enum What {
    Waiting(String),
    Opened(Box<Result<Stream, String>>),
    Happened(StreamEvent),
    Ended(Box<StreamEnd>),
}

impl Group {
    /// Begins to open all streams. Each has a thread until it is open: names are asked for and connections waited for, and none
    /// waits for another's.
    pub(super) fn open(configuration: &Configuration, engine: Arc<Engine>, named: bool) -> Group {
        let (tell, told) = channel();
        let placement = configuration.placement(engine.threads());
        let members = configuration.streams.iter().enumerate().map(|(place, plan)| {
            let opening = Opening::default();
            if let Err(error) = open(place, plan, opening.clone(), tell.clone()) {
                // Heard below, where errors are said.
                let opened = Err(format!("starting a thread: {error}"));
                drop(tell.send(Note { place, what: What::Opened(Box::new(opened)) }));
            }
            Member {
                name: plan.name.clone(),
                class_name: configuration.class_name(plan).to_owned(),
                class: plan.class,
                thread: placement[place],
                rate: plan.rate,
                deadline_us: plan.deadline.map(|time| time.as_micros() as u64),
                stage: Stage::Opening(opening),
                waiting_for: None,
                awaited: Vec::new(),
                begun: Instant::now(),
                time: Duration::ZERO,
                status: StreamStatus::default(),
                pace: Pace::default(),
                prefix: if named { format!("{}: ", plan.name) } else { String::new() },
            }
        });
        Group { engine, members: members.collect(), looked: Instant::now(), tell, told }
    }

    /// Whether all are over.
    pub(super) fn is_over(&self) -> bool {
        self.members.iter().all(|member| matches!(member.stage, Stage::Over(..)))
    }

    /// Waits until something happens, at most so long, and answers what there is to say of it, a line each.
    pub(super) fn attend(&mut self, most: Duration) -> Vec<String> {
        let first = self.told.recv_timeout(most).ok();
        let notes: Vec<Note> = first.into_iter().chain(self.told.try_iter()).collect();
        notes.into_iter().flat_map(|note| self.take(note)).collect()
    }

    /// Ends all; those that are not open yet at once, and a line is answered for each of them.
    pub(super) fn stop(&mut self) -> Vec<String> {
        self.members.iter_mut().filter_map(Member::stop).collect()
    }

    /// Asks all that run how far they are.
    pub(super) fn look(&mut self) {
        let time = self.looked.elapsed();
        self.looked = Instant::now();
        for members in self.members.chunks_mut(ASKED_TOGETHER) {
            let (tell, told) = channel();
            for (place, member) in members.iter().enumerate() {
                if let Stage::Running(running) = &member.stage {
                    let tell = tell.clone();
                    // If nobody listens, nobody needs to know.
                    running.with(move |stream| drop(tell.send((place, stream.status()))));
                }
            }
            drop(tell);
            // Ends when all have answered; one that is over meanwhile does not, and its end is on its way.
            for (place, status) in told {
                let member = &mut members[place];
                member.pace = Pace::between(&member.status, &status, time);
                (member.status, member.time) = (status, member.begun.elapsed());
            }
        }
    }

    /// The streams as they were seen last.
    pub(super) fn rows(&self) -> Vec<Row> {
        self.members.iter().map(Member::row).collect()
    }

    fn take(&mut self, Note { place, what }: Note) -> Option<String> {
        let words = match what {
            What::Waiting(whom) => self.members[place].wait_for(whom),
            What::Opened(opened) => self.opened(place, *opened),
            What::Happened(event) => {
                self.members[place].note(&event);
                in_words(event)
            }
            What::Ended(end) => Some(self.members[place].end(*end)),
        };
        words.map(|words| self.members[place].line(&words))
    }

    /// Starts a stream that is open, unless it was stopped meanwhile.
    fn opened(&mut self, place: usize, opened: Result<Stream, String>) -> Option<String> {
        let member = &mut self.members[place];
        member.waiting_for = None;
        let is_named = !member.prefix.is_empty();
        match (opened, &member.stage) {
            (_, Stage::Running(_) | Stage::Over(..)) => None,
            (Err(error), Stage::Opening(_)) => {
                member.stage = Stage::Over(State::Failed, Some(error.clone()));
                Some(if is_named { format!("failed: {error}") } else { error })
            }
            (Ok(stream), Stage::Opening(_)) => {
                let tell = self.tell.clone();
                // If nobody listens, nobody needs to know.
                let on_end = move |end| drop(tell.send(Note { place, what: What::Ended(Box::new(end)) }));
                let Member { class, thread, rate, deadline_us, .. } = *member;
                let (thread, on_end) = (Some(thread), Some(Box::new(on_end) as _));
                let options =
                    StreamOptions { placement: Placement { thread, class, rate }, deadline_us, on_end };
                member.begun = Instant::now();
                member.stage = Stage::Running(stream.start(&self.engine, options));
                is_named.then(|| "started".to_owned())
            }
        }
    }
}

impl Member {
    /// A line about it.
    fn line(&self, words: &str) -> String {
        format!("wirepath: {}{words}", self.prefix)
    }

    /// Says for whom its opening waits, unless it was stopped meanwhile.
    fn wait_for(&mut self, whom: String) -> Option<String> {
        if !matches!(self.stage, Stage::Opening(_)) {
            return None;
        }
        let words = format!("waiting for {whom}");
        self.waiting_for = Some(whom);
        Some(words)
    }

    /// Ends it; if it is not open yet, at once, with what there is to say.
    fn stop(&mut self) -> Option<String> {
        match &self.stage {
            // Whoever opens it may be in the kernel until the process ends.
            Stage::Opening(opening) => opening.give_up(),
            Stage::Running(running) => {
                running.stop();
                return None;
            }
            Stage::Over(..) => return None,
        }
        self.time = self.begun.elapsed();
        self.stage = Stage::Over(State::Stopped, Some(StreamError::Stopped.to_string()));
        let stopped = if self.prefix.is_empty() { "" } else { "stopped: " };
        let mut words = format!("{stopped}{}", report::in_words(&self.status, self.time));
        if let Some(whom) = self.waiting_for.take() {
            words += &format!(", still waiting for {whom}");
        }
        Some(self.line(&words))
    }

    /// Its time counts from when everybody has come who was waited for.
    fn note(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::Listening { port, address, .. } => self.awaited.push((*port, address.clone())),
            StreamEvent::Connected { port, .. }
            | StreamEvent::InputFailed { port, .. }
            | StreamEvent::OutputFailed { port, .. } => {
                let before = self.awaited.len();
                self.awaited.retain(|(awaited, _)| awaited != port);
                if self.awaited.len() < before {
                    self.begun = Instant::now();
                }
            }
            _ => {}
        }
    }

    fn row(&self) -> Row {
        let (state, error) = match &self.stage {
            Stage::Opening(_) => (State::Opening, None),
            Stage::Running(_) if !self.awaited.is_empty() => (State::Opening, None),
            Stage::Running(_) => (State::Running, None),
            Stage::Over(state, error) => (*state, error.clone()),
        };
        Row {
            name: self.name.clone(),
            class: self.class_name.clone(),
            thread: self.thread,
            state,
            error,
            time: self.time,
            status: self.status.clone(),
            pace: self.pace.clone(),
        }
    }

    /// Keeps what came of it, and puts it in words.
    fn end(&mut self, end: StreamEnd) -> String {
        (self.time, self.status, self.pace) = (self.begun.elapsed(), end.status, Pace::default());
        let mut did = report::in_words(&self.status, self.time);
        if !self.awaited.is_empty() {
            let places: Vec<&str> = self.awaited.iter().map(|(_, address)| address.as_str()).collect();
            did += &format!(", nobody connected to {}", places.join(", "));
        }
        // Why the last is gone was said when it went.
        let why = match &end.result {
            Ok(()) => String::new(),
            Err(StreamError::NoOutput(_)) => "no output is left".to_owned(),
            Err(StreamError::NoInput(_)) => "no input is left".to_owned(),
            Err(error) => error.to_string(),
        };
        let (state, words) = match (&end.result, self.prefix.is_empty()) {
            (Ok(()), true) => (State::Ended, did),
            (Ok(()), false) => (State::Ended, format!("ended: {did}")),
            (Err(StreamError::Stopped), true) => (State::Stopped, did),
            (Err(StreamError::Stopped), false) => (State::Stopped, format!("stopped: {did}")),
            (Err(_), true) => (State::Failed, format!("{did}\nwirepath: {why}")),
            (Err(_), false) => (State::Failed, format!("failed: {why}; {did}")),
        };
        let error = end.result.err().map(|error| error.to_string());
        self.stage = Stage::Over(state, error);
        words
    }
}

/// Opens a stream's addresses on a thread of its own.
fn open(place: usize, plan: &StreamPlan, opening: Opening, tell: Sender<Note>) -> std::io::Result<()> {
    let wiring = plan.wiring.clone();
    let work = move || {
        let (events, waits) = (tell.clone(), tell.clone());
        // If nobody listens any more, a signal came.
        let on_event = move |event| drop(events.send(Note { place, what: What::Happened(event) }));
        let on_wait = move |whom| drop(waits.send(Note { place, what: What::Waiting(whom) }));
        let opened = catch_unwind(AssertUnwindSafe(|| wiring.stream(&opening, on_event, on_wait)));
        let opened = match opened {
            Ok(opened) => opened.map_err(|error| error.to_string()),
            Err(_) => Err("opening addresses panicked".to_owned()),
        };
        if opened.is_err() {
            opening.give_up(); // before anybody is told, who may end the process then: names of sockets would stay
        }
        drop(tell.send(Note { place, what: What::Opened(Box::new(opened)) }));
    };
    let thread = std::thread::Builder::new().name("opening".to_owned()).stack_size(OPENER_STACK_BYTES);
    thread.spawn(work).map(drop)
}

/// Undivided streams have no records to count.
fn dropped_in_words(dropped: Dropped) -> String {
    let bytes = format::size(dropped.bytes);
    match dropped.records {
        0 => format!("{bytes} were"),
        1 => format!("1 record ({bytes}) was"),
        records => format!("{} ({bytes}) were", format::counted(records, "record", "records")),
    }
}

/// What happens to a stream that goes on, if it is worth a line.
fn in_words(event: StreamEvent) -> Option<String> {
    match event {
        StreamEvent::Listening { address, .. } => Some(format!("waiting for a connection at {address}")),
        StreamEvent::ListeningFailed { error, .. } => {
            Some(format!("nobody can connect now, which is tried again every second: {error}"))
        }
        StreamEvent::InputFailed { error, .. } => Some(format!("goes on without an input: {error}")),
        StreamEvent::OutputFailed { error, dropped, .. } => {
            Some(format!("an output failed: {error}; {} not delivered to it", dropped_in_words(dropped)))
        }
        StreamEvent::OutputDisconnected { name, dropped, .. } => Some(format!(
            "{name} did not keep up and was let go of; {} not delivered to it",
            dropped_in_words(dropped)
        )),
        StreamEvent::RecordRefused { by, error } => {
            Some(format!("{by}: {error}; this is dropped, and what follows like it is only counted"))
        }
        _ => None,
    }
}
