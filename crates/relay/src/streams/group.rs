//! Group: the streams of a configuration on a single engine, from opening the first address to the end of the
//! last stream.

use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use wirepath_engine::{Engine, EngineOptions, Placement, Rate, Sharing};
use wirepath_net::metrics::Metrics;
use wirepath_net::raise_descriptor_limit;
use wirepath_net::status::Status;
use wirepath_streams::{
    LendingSwitch, Port, RunningStream, StreamEnd, StreamError, StreamEvent, StreamOptions,
};

use super::configuration::{Configuration, StreamPlan};
use super::control::{Access, Call, ControlSite, Controlled, HandlerFolder};
use super::kernel::{Changeable, HAS_RATE, HandlerPlace, KernelHandler};
use super::metrics;
use super::open_handle::OpenHandle;
use super::snapshot::{LatestSnapshots, Rates, StreamSnapshot, StreamState};
use super::stream_config::OpenedStream;
use crate::metrics::MetricsEndpoint;

/// Number of streams whose status is requested together: some 100 microseconds of the engine's time, after
/// which it may continue its other work.
const SAMPLED_TOGETHER: usize = 64;

/// Stack size of a thread that opens addresses; the thread resolves names.
const OPENER_STACK_BYTES: usize = 256 * 1024;

/// Interval at which [`StreamGroup::run`] checks whether to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// Interval of queries while a change waits for the end of a record.
const ASK_AGAIN_INTERVAL: Duration = Duration::from_millis(50);

/// Interval at which [`StreamGroup::run`] checks whether the kernel can take over a stream.
const HAND_OVER_INTERVAL: Duration = Duration::from_millis(10);

/// Interval at which [`StreamGroup::run`] samples the streams.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// Streams of a configuration, and the engine that runs them.
///
/// ```
/// use wirepath_relay::{Configuration, GroupEvent, Observer, StreamGroup, StreamSnapshot};
///
/// struct Log;
/// impl Observer for Log {
///     fn event(&mut self, stream: &StreamSnapshot, event: &GroupEvent) {
///         println!("{}: {event:?}", stream.name);
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("relay.toml");
/// # std::fs::write(folder.path().join("a"), "some bytes")?;
/// # std::fs::write(&file, "[[stream]]\nname = \"copy\"\nin = [\"file:a\"]\nout = [\"file:b\"]\n")?;
/// let configuration = Configuration::from_file(&file)?;
/// let mut group = StreamGroup::new(&configuration, 1)?;
/// group.start(&configuration);
/// group.run(|| false, &mut Log);
/// let streams = group.finish();
/// assert!(streams.iter().all(|stream| stream.is_complete()));
/// # assert_eq!(std::fs::read(folder.path().join("b"))?, b"some bytes");
/// # Ok(())
/// # }
/// ```
pub struct StreamGroup {
    engine: Arc<Engine>,
    members: Vec<Member>,
    sampled: Instant,
    latest: LatestSnapshots,
    sharing: Sharing,
    lending: LendingSwitch,
    sender: Sender<Message>,
    messages: Receiver<Message>,
}

/// Event of a stream in a group.
#[derive(Debug)]
pub enum GroupEvent {
    /// Opening blocks until a peer opens the other end of a FIFO. The text names the peer.
    WaitingFor(String),
    /// All addresses are open, and the stream runs.
    Started,
    /// The stream's `bpf` handler runs in this place from now on.
    HandlerPlaced(HandlerPlace),
    /// Opening an address failed; the snapshot has the error.
    OpenFailed,
    /// Event of the running stream.
    Running(StreamEvent),
    /// The stream has ended; its snapshot is final.
    Ended(Result<(), StreamError>),
}

/// Observer of the streams of a group.
pub trait Observer {
    /// Handles an event of a stream.
    fn event(&mut self, stream: &StreamSnapshot, event: &GroupEvent);

    /// Returns whether the observer uses [`Observer::sample`]. A sample costs each stream a message.
    fn wants_samples(&self) -> bool {
        false
    }

    /// Handles snapshots of all streams, taken once a second.
    fn sample(&mut self, _streams: &[StreamSnapshot]) {}
}

/// Stream of a group.
struct Member {
    snapshot: StreamSnapshot,
    class: usize,
    rate: Option<Rate>,
    deadline_us: Option<u64>,
    stage: Stage,
    kernel: Option<KernelHandler>,
    /// Queries of settings after calls that may have changed the stream.
    queries: usize,
    /// A change waits for the end of a record: the settings are to be queried again at this time.
    asks_again: Option<Instant>,
    handler_folder: Option<PathBuf>,
    /// Peers that have to open a FIFO (without a port) or to connect to a listener.
    awaited: Vec<(Option<Port>, String)>,
    begun: Instant,
}

enum Stage {
    Opening(OpenHandle),
    Running(RunningStream),
    Ended,
}

/// Message about the stream with this index.
struct Message {
    stream: usize,
    content: Content,
}

enum Content {
    WaitingFor(String),
    Opened(Box<Result<OpenedStream, String>>),
    /// The stream has started, with a handler that may run in the kernel.
    Placed,
    /// Settings of the stream after a call that may have changed it.
    Called(Box<Changeable>),
    Event(StreamEvent),
    Ended(Box<StreamEnd>),
    /// Call to the stream. Dropped if the stream does not run.
    Call(Call, Access),
    Stop,
}

impl StreamGroup {
    /// Starts an engine with `threads` threads. No address is opened before [`StreamGroup::start`].
    ///
    /// # Errors
    /// The engine could not be started.
    pub fn new(configuration: &Configuration, threads: usize) -> io::Result<StreamGroup> {
        raise_descriptor_limit();
        let sharing = configuration.sharing.clone();
        let options = EngineOptions { threads, sharing: sharing.clone(), ..EngineOptions::default() };
        let engine = Arc::new(Engine::start(options)?);
        let (sender, messages) = channel();
        let placement = configuration.placement(engine.threads());
        let members = configuration.streams.iter().zip(placement);
        let members =
            members.map(|(plan, thread)| Member::new(plan, configuration.class_name(plan), thread)).collect();
        let latest = LatestSnapshots::default();
        let sampled = Instant::now();
        let lending = configuration.lending.clone();
        Ok(StreamGroup { engine, members, sampled, latest, sharing, lending, sender, messages })
    }

    /// Starts opening all streams. Each stream has its own thread until it is open, so that name resolution
    /// and connections of a stream do not delay the others.
    pub fn start(&mut self, configuration: &Configuration) {
        for (index, (plan, member)) in configuration.streams.iter().zip(&self.members).enumerate() {
            let Stage::Opening(handle) = &member.stage else { continue };
            let mut plan = plan.clone();
            plan.config.lending = self.lending.clone();
            if let Err(error) = spawn_opener(index, &plan, handle.clone(), self.sender.clone()) {
                let error = format!("cannot start a thread: {error}");
                send(&self.sender, index, Content::Opened(Box::new(Err(error))));
            }
        }
    }

    /// Runs until all streams have ended. Stops all streams as soon as `stop` returns true.
    pub fn run(&mut self, mut stop: impl FnMut() -> bool, observer: &mut impl Observer) {
        let (mut stopping, mut next_sample) = (false, Instant::now());
        while !self.has_ended() {
            if Instant::now() >= next_sample && (observer.wants_samples() || self.latest.is_shared()) {
                next_sample = Instant::now() + SAMPLE_INTERVAL;
                self.sample();
                observer.sample(&self.latest.load());
            }
            self.ask_again();
            let interval = if self.hand_over() { HAND_OVER_INTERVAL } else { STOP_INTERVAL };
            for (index, event) in self.wait(interval) {
                observer.event(&self.members[index].snapshot, &event);
            }
            if !stopping && stop() {
                self.stop();
                stopping = true;
            }
        }
    }

    /// Lets the kernel take over streams that have sent all records left to user space. Returns whether a
    /// stream is mirrored in the kernel.
    fn hand_over(&self) -> bool {
        let mut any = false;
        for Member { stage, kernel, .. } in &self.members {
            if let (Stage::Running(running), Some(kernel)) = (stage, kernel) {
                any |= kernel.hand_over(running);
            }
        }
        any
    }

    /// Queries the settings of streams again in which a change waited for the end of a record.
    fn ask_again(&mut self) {
        for (index, member) in self.members.iter_mut().enumerate() {
            let is_due = member.asks_again.is_some_and(|at| at <= Instant::now());
            if let (Stage::Running(running), true) = (&member.stage, is_due) {
                (member.asks_again, member.queries) = (None, member.queries + 1);
                query_settings(index, running, self.sender.clone());
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.members.iter().all(|member| matches!(member.stage, Stage::Ended))
    }

    /// Waits at most `limit` for events of streams. Returns the events with the indices of their streams.
    fn wait(&mut self, limit: Duration) -> Vec<(usize, GroupEvent)> {
        let first = self.messages.recv_timeout(limit).ok();
        let messages: Vec<Message> = first.into_iter().chain(self.messages.try_iter()).collect();
        let events = messages.into_iter().filter_map(|message| Some((message.stream, self.handle(message)?)));
        events.collect()
    }

    /// Stops all streams. Their ends are reported as events.
    fn stop(&self) {
        for stream in 0..self.members.len() {
            send(&self.sender, stream, Content::Stop);
        }
    }

    /// Updates the status and the rates of all running streams.
    fn sample(&mut self) {
        let time = self.sampled.elapsed();
        self.sampled = Instant::now();
        for members in self.members.chunks_mut(SAMPLED_TOGETHER) {
            let (sender, statuses) = channel();
            for (index, member) in members.iter().enumerate() {
                if let Stage::Running(running) = &member.stage {
                    let sender = sender.clone();
                    running.with(move |stream| drop(sender.send((index, stream.status()))));
                }
            }
            drop(sender);
            // The channel closes when all streams have answered. A stream that has ended meanwhile does not
            // answer.
            for (index, status) in statuses {
                let Member { snapshot, begun, .. } = &mut members[index];
                snapshot.rates = Rates::between(&snapshot.status, &status, time);
                (snapshot.status, snapshot.time) = (status, begun.elapsed());
            }
        }
        self.latest.store(self.snapshots());
    }

    /// Snapshots of the streams when they were last sampled, or when they ended.
    fn snapshots(&self) -> Vec<StreamSnapshot> {
        self.members.iter().map(|member| member.snapshot.clone()).collect()
    }

    /// Opens an HTTP endpoint with metrics, status and control of handlers, for clients on this machine or
    /// `from_anywhere`. [`StreamGroup::run`] samples the streams for the endpoint.
    pub fn open_metrics(&self, address: SocketAddr, from_anywhere: bool) -> io::Result<MetricsEndpoint> {
        let register = |all: &mut Metrics, status: &mut Status| {
            metrics::register(&self.latest, &self.sharing, &self.lending, all, status);
        };
        let controlled = |member: &Member| {
            let handler_folder = member.handler_folder.as_deref().map(HandlerFolder::open).transpose()?;
            Ok(Controlled { name: member.snapshot.name.clone(), handler_folder })
        };
        let streams = self.members.iter().map(controlled).collect::<io::Result<_>>()?;
        let sender = self.sender.clone();
        let call = move |stream, call, access| send(&sender, stream, Content::Call(call, access));
        MetricsEndpoint::open_site(address, Arc::clone(&self.engine), register, |endpoint| {
            ControlSite::new(endpoint, streams, self.lending.clone(), Box::new(call), from_anywhere)
        })
    }

    /// Ends the engine and removes the paths of Unix sockets that were listened on. Returns the final
    /// snapshots.
    pub fn finish(self) -> Vec<StreamSnapshot> {
        let snapshots = self.snapshots();
        let StreamGroup { engine, members, .. } = self;
        let pool = engine.pool().clone();
        drop((engine, members));
        pool.wait_for_discarded();
        snapshots
    }

    fn handle(&mut self, Message { stream, content }: Message) -> Option<GroupEvent> {
        let member = &mut self.members[stream];
        match (content, &member.stage) {
            (_, Stage::Ended) => None,
            (Content::WaitingFor(peer), _) => {
                member.awaited.push((None, peer.clone()));
                member.update_awaited();
                Some(GroupEvent::WaitingFor(peer))
            }
            (Content::Opened(opened), Stage::Opening(_)) => match *opened {
                Ok(opened) => Some(self.start_stream(stream, opened)),
                Err(error) => Some(member.end(StreamState::Failed, Some(error), GroupEvent::OpenFailed)),
            },
            (Content::Opened(_), Stage::Running(_)) => None,
            (Content::Placed, _) => member.note_place(),
            (Content::Event(event), _) => {
                member.note(&event);
                Some(GroupEvent::Running(event))
            }
            (Content::Ended(end), _) => Some(member.end_with(*end)),
            (Content::Call(call, access), Stage::Running(running)) => {
                let kernel = member.kernel.as_mut().filter(|_| access == Access::Change);
                let may_move = kernel.map(KernelHandler::take_out).is_some();
                call(running);
                if may_move {
                    member.queries += 1;
                    query_settings(stream, running, self.sender.clone());
                    // Shown, but no event: it lasts until the change has been made.
                    member.note_place();
                }
                None
            }
            (Content::Called(mut settings), Stage::Running(_)) => {
                member.queries -= 1;
                member.asks_again = (!settings.is_settled).then(|| Instant::now() + ASK_AGAIN_INTERVAL);
                // User space runs the handler until the last of several changes was made.
                let has_changed = member.queries == 0 && settings.is_settled;
                let kernel = member.kernel.as_mut().filter(|_| has_changed)?;
                let class = self.sharing.classes.get(member.class);
                settings.has_rate |= class.is_some_and(|class| class.rate.is_some());
                let is_new = kernel.place_again(&settings);
                member.note_place().filter(|_| is_new)
            }
            (Content::Call(..) | Content::Called(_), Stage::Opening(_)) => None,
            // The opening thread may stay in a system call until the process ends.
            (Content::Stop, Stage::Opening(handle)) => {
                handle.cancel();
                let (error, end) = (StreamError::Stopped.to_string(), Err(StreamError::Stopped));
                Some(member.end(StreamState::Stopped, Some(error), GroupEvent::Ended(end)))
            }
            (Content::Stop, Stage::Running(running)) => {
                running.stop();
                None
            }
        }
    }

    fn start_stream(&mut self, index: usize, OpenedStream { stream, kernel }: OpenedStream) -> GroupEvent {
        let sender = self.sender.clone();
        let on_end = move |end| send(&sender, index, Content::Ended(Box::new(end)));
        let member = &mut self.members[index];
        let options = StreamOptions {
            placement: Placement {
                thread: Some(member.snapshot.thread),
                class: member.class,
                rate: member.rate,
            },
            deadline_us: member.deadline_us,
            on_end: Some(Box::new(on_end)),
        };
        member.awaited.retain(|(port, _)| port.is_some());
        member.begun = Instant::now();
        member.stage = Stage::Running(stream.start(&self.engine, options));
        let class = self.sharing.classes.get(member.class);
        if let Some(mut kernel) = kernel {
            let has_rate = member.rate.is_some() || class.is_some_and(|class| class.rate.is_some());
            if has_rate && kernel.placed() == HandlerPlace::Kernel {
                kernel.drop_early(HAS_RATE.to_owned());
            }
            send(&self.sender, index, Content::Placed);
            member.kernel = Some(kernel);
        }
        member.update_awaited();
        GroupEvent::Started
    }
}

impl Member {
    fn new(plan: &StreamPlan, class: &str, thread: usize) -> Member {
        Member {
            snapshot: StreamSnapshot {
                name: plan.name.clone(),
                class: class.to_owned(),
                thread,
                ..StreamSnapshot::default()
            },
            class: plan.class,
            rate: plan.rate,
            deadline_us: plan.deadline.map(|time| time.as_micros() as u64),
            stage: Stage::Opening(OpenHandle::default()),
            kernel: None,
            queries: 0,
            asks_again: None,
            handler_folder: plan.config.handler_folder.clone(),
            awaited: Vec::new(),
            begun: Instant::now(),
        }
    }

    /// Updates the place of the handler in the snapshot. Returns the event, if the stream has such a handler.
    fn note_place(&mut self) -> Option<GroupEvent> {
        let kernel = self.kernel.as_ref().filter(|kernel| kernel.has_handler());
        self.snapshot.handler_place = kernel.map(KernelHandler::placed);
        self.snapshot.handler_place.clone().map(GroupEvent::HandlerPlaced)
    }

    /// Updates the list of connections that listeners wait for. The time of the stream starts when the last
    /// of them is made.
    fn note(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::Listening { port, address, .. } => {
                self.awaited.push((Some(*port), format!("a connection at {address}")));
            }
            StreamEvent::Connected { port, .. }
            | StreamEvent::InputFailed { port, .. }
            | StreamEvent::OutputFailed { port, .. } => {
                let before = self.awaited.len();
                self.awaited.retain(|(awaited, _)| *awaited != Some(*port));
                if self.awaited.len() < before {
                    self.begun = Instant::now();
                }
            }
            _ => return,
        }
        self.update_awaited();
    }

    fn update_awaited(&mut self) {
        let is_open = matches!(self.stage, Stage::Running(_)) && self.awaited.is_empty();
        self.snapshot.state = if is_open { StreamState::Running } else { StreamState::Opening };
        self.snapshot.awaited = self.awaited.iter().map(|(_, peer)| peer.clone()).collect();
    }

    fn end_with(&mut self, StreamEnd { result, status, .. }: StreamEnd) -> GroupEvent {
        self.snapshot.status = status;
        let state = match result {
            Ok(()) => StreamState::Ended,
            Err(StreamError::Stopped) => StreamState::Stopped,
            Err(_) => StreamState::Failed,
        };
        let error = result.as_ref().err().map(ToString::to_string);
        self.end(state, error, GroupEvent::Ended(result))
    }

    fn end(&mut self, state: StreamState, error: Option<String>, event: GroupEvent) -> GroupEvent {
        self.stage = Stage::Ended;
        self.kernel = None;
        let time = self.begun.elapsed();
        let rates = Rates::default();
        self.snapshot = StreamSnapshot { state, error, time, rates, ..std::mem::take(&mut self.snapshot) };
        event
    }
}

/// Sends the settings of a running stream as a message, after all calls before.
fn query_settings(index: usize, running: &RunningStream, sender: Sender<Message>) {
    running.with(move |stream| send(&sender, index, Content::Called(Box::new(Changeable::of(stream)))));
}

/// Opens the addresses of a stream on a new thread.
fn spawn_opener(
    stream: usize,
    plan: &StreamPlan,
    handle: OpenHandle,
    sender: Sender<Message>,
) -> io::Result<()> {
    let config = plan.config.clone();
    let open = move || {
        let (events, waits) = (sender.clone(), sender.clone());
        let on_event = move |event| send(&events, stream, Content::Event(event));
        let on_wait = move |peer| send(&waits, stream, Content::WaitingFor(peer));
        let opened = catch_unwind(AssertUnwindSafe(|| config.open(&handle, on_event, on_wait)));
        let opened = match opened {
            Ok(opened) => opened.map_err(|error| error.to_string()),
            Err(_) => Err("opening addresses panicked".to_owned()),
        };
        if opened.is_err() {
            // Cancels before the message is sent: the process may end after the message, and the paths of
            // Unix sockets would stay.
            handle.cancel();
        }
        send(&sender, stream, Content::Opened(Box::new(opened)));
    };
    let thread = std::thread::Builder::new().name("opener".to_owned()).stack_size(OPENER_STACK_BYTES);
    thread.spawn(open).map(drop)
}

/// Sends a message. Sending fails only when the group is gone; the message is then dropped.
fn send(sender: &Sender<Message>, stream: usize, content: Content) {
    drop(sender.send(Message { stream, content }));
}
