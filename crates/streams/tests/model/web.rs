//! A round of one stream: inputs and outputs that come, go and fail, while the stream is stopped and started.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use wirepath_streams::{
    Engine, Framing, InputOrder, Late, Object, OutputOptions, OutputPattern, Port, StreamBuilder, StreamEnd,
    WhenFull,
};

use crate::PATIENCE;
use crate::carrier::Carrier;
use crate::dice::{Dice, Tally};
use crate::ends::{Sink, Source};
use crate::record::{record, tag};

/// Operations of a round.
const STEPS: usize = 300;

/// Most inputs and outputs.
const FEEDS: usize = 6;
const OUTLETS: usize = 8;

/// Where records come from.
pub(crate) struct Feed {
    number: u32,
    source: Source,
    /// Where the stream has it; None while it is detached.
    port: Option<Port>,
    pub(crate) records: u32,
    /// Not written yet.
    pending: Vec<u8>,
    /// All of it was there from the beginning.
    is_stored: bool,
    pub(crate) was_reset: bool,
}

/// Where records go.
#[derive(Debug)]
pub(crate) struct Outlet {
    pub(crate) sink: Sink,
    pub(crate) port: Port,
    /// Attached when the round began.
    pub(crate) was_first: bool,
    /// It was detached.
    pub(crate) has_left: bool,
}

/// How a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All is written, all inputs end, all is read.
    Clean,
    /// The stream is ended with what it has.
    Abandoned,
    /// By something that the stream cannot survive.
    Fault,
}

pub(crate) struct Web<'a> {
    dice: Dice,
    pub(crate) tally: Tally,
    engine: &'a Engine,
    carrier: Carrier,
    pub(crate) mirror: bool,
    pub(crate) tags: Option<Late>,
    survives_inputs: bool,
    pub(crate) feeds: Vec<Feed>,
    pub(crate) outlets: Vec<Outlet>,
    /// Inputs that were detached, by the number of their feed.
    parked: Receiver<(u32, Object)>,
    park: Sender<(u32, Object)>,
    /// Records of all feeds.
    next_tag: u32,
}

impl<'a> Web<'a> {
    pub(crate) fn new(seed: u64, engine: &'a Engine) -> Web<'a> {
        let mut dice = Dice(seed);
        let (mirror, survives_inputs) = (dice.one_in(2), dice.one_in(2));
        let tags = dice.one_in(4).then(|| if dice.one_in(2) { Late::Drop } else { Late::Pass });
        let (park, parked) = channel();
        let mut web = Web {
            dice,
            tally: Tally::default(),
            engine,
            carrier: Carrier::Nowhere,
            mirror,
            tags,
            survives_inputs,
            feeds: Vec::new(),
            outlets: Vec::new(),
            parked,
            park,
            next_tag: 0,
        };
        web.build(seed);
        web
    }

    fn build(&mut self, seed: u64) {
        let mut builder = self.builder(seed);
        let mut sinks = Vec::new();
        for number in 0..=self.dice.below(4) {
            let (mut sink, object) = self.any_sink(number);
            // Nothing is dropped for the first, nor is it ever killed or let go of: it has what others are compared with.
            let (mut when_full, waiting_bytes) = (WhenFull::Block, 1 + self.dice.below(5000));
            if number > 0 {
                let rules =
                    [WhenFull::Block, WhenFull::DropNewest, WhenFull::DropOldest, WhenFull::Disconnect];
                when_full = rules[self.dice.below(rules.len())];
            }
            let options = OutputOptions { when_full, waiting_bytes, ..OutputOptions::default() };
            builder = builder.output_with(object, options);
            sink.when_full = when_full;
            sinks.push(sink);
        }
        for _ in 0..=self.dice.below(3) {
            let object = self.any_feed();
            builder = builder.input(object, Framing::rtp());
        }
        let stream = builder.build();
        let status = stream.status();
        for (sink, known) in sinks.into_iter().zip(&status.outputs) {
            self.outlets.push(Outlet { sink, port: known.port, was_first: true, has_left: false });
        }
        for (feed, known) in self.feeds.iter_mut().zip(&status.inputs) {
            feed.port = Some(known.port);
        }
        self.carrier = Carrier::Held(Box::new(stream));
    }

    fn builder(&mut self, seed: u64) -> StreamBuilder {
        let pattern = match self.dice.below(3) {
            _ if self.mirror => OutputPattern::Mirror,
            0 => OutputPattern::Stripe,
            1 => OutputPattern::Random { seed },
            _ => OutputPattern::Capacity,
        };
        let mut builder = StreamBuilder::default().pattern(pattern);
        builder = match (self.tags, self.dice.below(3)) {
            (Some(late), _) => builder.order_by_tag(1 + self.dice.below(40), late, tag),
            (None, 0) => builder.order(InputOrder::RoundRobin),
            (None, 1) => builder.order(InputOrder::Random { seed }),
            (None, _) => builder.order(InputOrder::Arrival),
        };
        if self.survives_inputs {
            builder = builder.survive_inputs();
        }
        builder
    }

    /// Plays the round to its end, and checks what came.
    pub(crate) fn play(mut self) -> Tally {
        for _ in 0..STEPS {
            match self.dice.below(32) {
                0..10 => self.add_record(),
                10..15 => self.write_some(),
                15..19 => self.read_some(),
                19..21 => self.read_byte_by_byte(),
                21 => self.attach_input(),
                22 => self.detach_input(),
                23 => self.attach_output(),
                24 => self.detach_output(),
                25..28 => self.stop_or_start(),
                28 => self.audit(),
                29 => self.stall_or_go_on(),
                30 if self.mirror => self.kill_one(),
                31 if self.survives_inputs => drop(self.reset_one()),
                _ => {}
            }
        }
        let ending = match self.dice.below(6) {
            0 => Ending::Abandoned,
            1 => Ending::Fault,
            _ => Ending::Clean,
        };
        self.end(ending)
    }

    fn add_record(&mut self) {
        let (place, length) = (self.dice.below(self.feeds.len()), self.dice.below(3000));
        self.add_record_to(place, length);
    }

    fn add_record_to(&mut self, place: usize, length: usize) {
        let feed = &mut self.feeds[place];
        if feed.source.is_open() {
            feed.pending.extend(record(feed.number, feed.records, self.next_tag, length));
            feed.records += 1;
            self.next_tag += 1;
            self.tally.note("records");
        }
    }

    fn write_some(&mut self) {
        let (place, most) = (self.dice.below(self.feeds.len()), 1 + self.dice.below(10_000));
        self.feeds[place].write(most);
        self.tally.note("operation: write");
    }

    fn read_some(&mut self) {
        let (place, most) = (self.dice.below(self.outlets.len()), 1 + self.dice.below(20_000));
        self.read(place, most, most);
        self.tally.note("operation: read");
    }

    /// As little room as there can be, again and again.
    fn read_byte_by_byte(&mut self) {
        let (place, most) = (self.dice.below(self.outlets.len()), 1 + self.dice.below(500));
        self.read(place, most, 1);
        self.tally.note("fault: a reader of single bytes");
    }

    fn read(&mut self, place: usize, most: usize, part: usize) {
        let sink = &mut self.outlets[place].sink;
        if !sink.is_stalled {
            sink.read(most, part);
        }
    }

    fn attach_input(&mut self) {
        if !self.carrier.listens() {
        } else if let Ok(parked) = self.parked.try_recv() {
            self.unpark(parked);
        } else if self.feeds.len() < FEEDS {
            let object = self.any_feed();
            let port = self.carrier.ask(move |stream| stream.attach_input(object, Framing::rtp()));
            self.feeds.last_mut().unwrap().port = port;
            self.tally.note("operation: attach an input");
        }
    }

    fn unpark(&mut self, (number, object): (u32, Object)) {
        let port = self.carrier.ask(move |stream| stream.attach_input(object, Framing::rtp()));
        self.feeds[number as usize].port = port;
        self.tally.note("operation: attach an input again");
    }

    /// Never the first, so that the stream goes on.
    fn detach_input(&mut self) {
        let place = 1 + self.dice.below(FEEDS);
        let Some(feed) = self.feeds.get_mut(place).filter(|_| self.carrier.listens()) else { return };
        let Some(port) = feed.port.take() else { return };
        let (park, number) = (self.park.clone(), feed.number);
        let is_there = self
            .carrier
            .ask(move |stream| stream.detach_input(port, move |object| park.send((number, object)).unwrap()));
        if is_there == Some(false) {
            assert!(feed.is_stored || feed.was_reset, "an input is gone that has not ended");
            feed.port = Some(port);
        }
        self.tally.note("operation: detach an input");
    }

    fn attach_output(&mut self) {
        if self.outlets.len() < OUTLETS && self.carrier.listens() {
            let (sink, object) = self.any_sink(self.outlets.len());
            let port = self.carrier.ask(move |stream| stream.attach_output(object, OutputOptions::default()));
            let Some(port) = port else { return };
            self.outlets.push(Outlet { sink, port, was_first: false, has_left: false });
            self.tally.note("operation: attach an output");
        }
    }

    /// Never the first.
    fn detach_output(&mut self) {
        let place = 1 + self.dice.below(OUTLETS);
        let Some(outlet) = self.outlets.get_mut(place).filter(|_| self.carrier.listens()) else { return };
        if outlet.has_left {
            return;
        }
        let port = outlet.port;
        // Closed when it has sent what it had: whoever reads sees the end.
        outlet.has_left = self.carrier.ask(move |stream| stream.detach_output(port, drop)) == Some(true);
        self.tally.note("operation: detach an output");
    }

    fn stop_or_start(&mut self) {
        if self.carrier.is_held() {
            // A thread cannot be told to attach what is detached.
            let may_leave = self.feeds.iter().all(|feed| feed.port.is_some());
            if may_leave && self.dice.one_in(8) {
                self.carrier.start_on_thread();
                return self.tally.note("operation: start on a thread");
            }
            self.carrier.start(self.engine);
            self.tally.note("operation: start on the engine");
        } else if self.carrier.stop() {
            self.tally.note("operation: stop");
        }
    }

    fn stall_or_go_on(&mut self) {
        let place = self.dice.below(self.outlets.len());
        let sink = &mut self.outlets[place].sink;
        sink.is_stalled = !sink.is_stalled;
        self.tally.add("fault: a reader that stops", u64::from(sink.is_stalled));
    }

    fn kill_one(&mut self) {
        let place = 1 + self.dice.below(OUTLETS);
        if let Some(outlet) = self.outlets.get_mut(place).filter(|outlet| !outlet.has_left) {
            outlet.sink.kill(&mut self.tally);
        }
    }

    fn reset_one(&mut self) -> bool {
        let place = 1 + self.dice.below(FEEDS);
        let Some(feed) = self.feeds.get_mut(place) else { return false };
        let was_reset = feed.source.reset();
        feed.was_reset |= was_reset;
        self.tally.add("fault: a writer that resets its connection", u64::from(was_reset));
        was_reset
    }

    /// Everything that was read must be accounted for, at any time.
    fn audit(&mut self) {
        if let Some(status) = self.carrier.status() {
            self.check_account(&status);
            self.tally.note("operation: audit");
        }
    }

    fn end(mut self, ending: Ending) -> Tally {
        self.carrier.start(self.engine);
        if ending == Ending::Fault {
            self.break_something();
        }
        if ending == Ending::Abandoned {
            self.carrier.abandon();
        }
        self.outlets.iter_mut().for_each(|outlet| outlet.sink.is_stalled = false);
        let patience = Instant::now() + PATIENCE;
        while !self.carrier.has_ended() {
            assert!(Instant::now() < patience, "it does not end: {:?}", self.carrier.status());
            while let Ok(parked) = self.parked.try_recv() {
                self.unpark(parked);
            }
            (0..self.outlets.len()).for_each(|place| self.read(place, usize::MAX, 1 << 16));
            self.write_and_close();
            std::thread::yield_now();
        }
        let end = std::mem::replace(&mut self.carrier, Carrier::Nowhere).end();
        self.judge(ending, end)
    }

    /// Inputs that are being detached come back before the first one ends, and with it the stream.
    fn write_and_close(&mut self) {
        self.feeds.iter_mut().for_each(|feed| feed.write(usize::MAX));
        let all_attached = self.feeds.iter().all(|feed| feed.port.is_some());
        if self.tags.is_some() && !all_attached && self.feeds[0].pending.is_empty() {
            self.add_record_to(0, 0); // what is to leave waits in the merge for a greater tag
        }
        for feed in &mut self.feeds {
            if feed.pending.is_empty() && (feed.number > 0 || all_attached) {
                feed.source.close();
            }
        }
    }

    /// Something that the stream cannot do without.
    fn break_something(&mut self) {
        if !self.survives_inputs && self.dice.one_in(2) && self.reset_one() {
            return;
        }
        let killed = if self.mirror { self.outlets.len() } else { 1 };
        self.outlets.iter_mut().take(killed).for_each(|outlet| {
            outlet.sink.kill(&mut self.tally);
        });
    }

    fn judge(mut self, ending: Ending, end: StreamEnd) -> Tally {
        if ending == Ending::Clean {
            assert_eq!(end.result, Ok(()));
        }
        self.tally.note(match &end.result {
            Ok(()) => "ending: well",
            Err(wirepath_streams::StreamError::Stopped) => "ending: stopped",
            Err(_) => "ending: by a fault",
        });
        self.verify(&end);
        self.tally.add("bytes in", end.status.bytes_in);
        self.tally.add("bytes out", end.status.bytes_out);
        self.tally
    }

    fn any_feed(&mut self) -> Object {
        let number = self.feeds.len() as u32;
        let mut feed = Feed {
            number,
            source: Source::Closed,
            port: None,
            records: 0,
            pending: Vec::new(),
            is_stored: number > 0 && self.dice.one_in(6),
            was_reset: false,
        };
        let object = if feed.is_stored {
            feed.records = self.dice.below(20) as u32;
            let tags = self.next_tag..self.next_tag + feed.records;
            let of = |(index, tag)| record(number, index, tag, self.dice.below(3000));
            let bytes: Vec<u8> = (0..).zip(tags).flat_map(of).collect();
            self.next_tag += feed.records;
            self.tally.add("records", feed.records.into());
            Source::stored(&bytes)
        } else {
            let (source, object) = Source::any(&mut self.dice);
            feed.source = source;
            object
        };
        self.feeds.push(feed);
        object
    }

    fn any_sink(&mut self, number: usize) -> (Sink, Object) {
        let name = format!("sink {number}");
        if number > 0 && self.dice.one_in(4) {
            // Of a mirror's files some are soon full.
            let room = if self.mirror { 1 + self.dice.below(200_000) as u64 } else { 1 << 30 };
            return Sink::file(name, room, &mut self.tally);
        }
        Sink::any(name, &mut self.dice, &mut self.tally)
    }
}

impl Feed {
    fn write(&mut self, most: usize) {
        let written = self.source.write(&self.pending, most);
        self.pending.drain(..written);
        if !self.source.is_open() {
            self.pending.clear();
        }
    }
}
