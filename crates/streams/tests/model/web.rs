//! A round of one stream: inputs and outputs are attached, detached, fail and change, while the stream is
//! stopped and started.

mod attach;
mod build;
mod calls;
mod change;
mod ending;
mod seen;

use std::sync::mpsc::{Receiver, Sender, channel};

use wirepath_streams::{Framing, Late, Object, Port};

use crate::carrier::Carrier;
use crate::dice::{Dice, Tally};
use crate::ends::{Sink, Source};
use crate::engines::Engines;
use crate::observer::Seen;
use crate::record::{Sizes, record};
use change::Watcher;
pub(crate) use change::any_trust;
use ending::Ending;

/// Operations of a round.
const STEPS: usize = 300;

/// Most inputs, and most outputs.
const FEEDS: usize = 6;
const OUTLETS: usize = 8;

/// Source of records.
pub(crate) struct Feed {
    number: u32,
    pub(crate) source: Source,
    /// Port of the feed; None while it is detached.
    port: Option<Port>,
    /// The stream was built with the feed, which was never detached.
    was_first: bool,
    pub(crate) records: u32,
    /// Bytes that are not written yet.
    pending: Vec<u8>,
    /// The whole feed existed from the beginning.
    is_stored: bool,
    pub(crate) was_reset: bool,
}

/// Sink of records.
#[derive(Debug)]
pub(crate) struct Outlet {
    pub(crate) sink: Sink,
    pub(crate) port: Port,
    /// Attached at the beginning of the round.
    pub(crate) was_first: bool,
    /// The outlet was detached.
    pub(crate) has_left: bool,
    /// The stream reported that it has no such output.
    pub(crate) is_gone: bool,
}

pub(crate) struct Web<'a> {
    dice: Dice,
    pub(crate) tally: Tally,
    engines: &'a Engines,
    carrier: Carrier,
    pub(crate) mirror: bool,
    pub(crate) tags: Option<Late>,
    survives_inputs: bool,
    /// Handlers are added while the stream runs.
    is_watched: bool,
    pub(crate) watchers: Vec<Watcher>,
    /// Handlers that are in force while an output has little trust.
    pub(crate) guards: Vec<Seen>,
    sizes: Sizes,
    pub(crate) feeds: Vec<Feed>,
    pub(crate) outlets: Vec<Outlet>,
    /// Detached inputs, with the numbers of their feeds.
    parked: Receiver<(u32, Object)>,
    park: Sender<(u32, Object)>,
    /// Number of records of all feeds.
    next_tag: u32,
}

impl<'a> Web<'a> {
    pub(crate) fn new(seed: u64, engines: &'a Engines) -> Web<'a> {
        let mut dice = Dice(seed);
        let (mirror, survives_inputs) = (dice.one_in(2), dice.one_in(2));
        let tags = dice.one_in(4).then(|| if dice.one_in(2) { Late::Drop } else { Late::Pass });
        let is_fixed = dice.one_in(3);
        let sizes = Sizes::any(&mut dice, is_fixed);
        let is_watched = dice.one_in(3);
        let (park, parked) = channel();
        let mut web = Web {
            dice,
            tally: Tally::default(),
            engines,
            carrier: Carrier::Nowhere,
            mirror,
            tags,
            survives_inputs,
            is_watched,
            watchers: Vec::new(),
            guards: Vec::new(),
            sizes,
            feeds: Vec::new(),
            outlets: Vec::new(),
            parked,
            park,
            next_tag: 0,
        };
        web.build(seed);
        web
    }

    /// Runs the round to its end, and checks the received records.
    pub(crate) fn play(mut self) -> Tally {
        for _ in 0..STEPS {
            match self.dice.below(40) {
                0..10 => self.add_record(),
                10..15 => self.write_some(),
                15..19 => self.read_some(),
                19..21 => self.read_byte_by_byte(),
                21 => self.attach_input(),
                22 => self.detach_input(),
                23 => self.attach_output(),
                24 => self.detach_output(),
                25..28 => self.stop_or_start(),
                28 => self.call_one(),
                29..32 => self.audit(),
                32 => self.stall_or_go_on(),
                33 => self.change_options(),
                34 => self.carrier.change_rate(&mut self.dice, &mut self.tally),
                35 if self.is_watched => self.add_handler(),
                36 if self.is_watched => self.add_output_handler(),
                39 if self.is_watched => self.set_trust(),
                37 if self.mirror => self.kill_one(),
                38 if self.survives_inputs => drop(self.reset_one()),
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

    fn framing(&self) -> Framing {
        self.sizes.framing()
    }

    fn add_record(&mut self) {
        let place = self.dice.below(self.feeds.len());
        self.add_record_to(place);
    }

    fn add_record_to(&mut self, place: usize) {
        let length = self.sizes.any_length(&mut self.dice);
        let feed = &mut self.feeds[place];
        if feed.source.is_open() {
            feed.pending.extend(record(feed.number, feed.records, self.next_tag, length));
            feed.records += 1;
            self.next_tag += 1;
            self.tally.note("records");
        }
    }

    fn write_some(&mut self) {
        let place = self.dice.below(self.feeds.len());
        let most = self.sizes.some_bytes(&mut self.dice, 10_000);
        self.feeds[place].write(most);
        self.tally.note("operation: write");
    }

    fn read_some(&mut self) {
        let place = self.dice.below(self.outlets.len());
        let most = self.sizes.some_bytes(&mut self.dice, 20_000);
        self.read(place, most, most);
        self.tally.note("operation: read");
    }

    /// Reads repeatedly with the smallest possible room.
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

    fn stop_or_start(&mut self) {
        // A stream on a thread of its own cannot attach detached inputs.
        let may_leave = self.feeds.iter().all(|feed| feed.port.is_some());
        self.carrier.stop_or_start(self.engines, may_leave, &mut self.dice, &mut self.tally);
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

    /// Checks that all bytes read are accounted for; may be called at any time.
    fn audit(&mut self) {
        if let Some(status) = self.carrier.status() {
            self.check_account(&status);
            self.tally.note("operation: audit");
        }
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
