//! A round of a mirror of bytes that no handler sees: they move by `splice`, `tee` and `sendfile`, and are
//! copied while the zero-copy route is not possible.

mod handlers;
mod verify;

use std::time::Instant;

use wirepath_streams::{Framing, OutputOptions, OutputPattern, Port, Stream, StreamBuilder, WhenFull};

use crate::PATIENCE;
use crate::carrier::Carrier;
use crate::dice::{Dice, Tally};
use crate::ends::{Sink, Source};
use crate::engines::Engines;
use crate::lender::Lender;
use crate::observer::{self, Heads};
use crate::options::{self, checked, set_limits};
use handlers::Watcher;

/// Operations of a round.
const STEPS: usize = 200;

/// Most outputs.
const OUTLETS: usize = 5;

struct Outlet {
    sink: Sink,
    port: Port,
    was_first: bool,
    has_left: bool,
    is_gone: bool,
}

pub(crate) struct Pour<'a> {
    dice: Dice,
    tally: Tally,
    engines: &'a Engines,
    carrier: Carrier,
    source: Source,
    /// The whole input existed from the beginning.
    is_stored: bool,
    /// All bytes of the input: numbers of eight bytes each, of which no top bit is set.
    sent: Vec<u8>,
    written: usize,
    outlets: Vec<Outlet>,
    lender: Lender,
    /// Rules of outputs are changed, and handlers are added, replaced and removed.
    is_changed: bool,
    watchers: Vec<Watcher>,
    /// A handler that peeks at the beginning.
    heads: Option<Heads>,
}

impl<'a> Pour<'a> {
    pub(crate) fn new(seed: u64, engines: &'a Engines) -> Pour<'a> {
        let (mut dice, mut tally) = (Dice(seed), Tally::default());
        let sent: Vec<u8> = (0..dice.below(100_000)).flat_map(number).collect();
        let (mut source, mut inlet) = Source::any(&mut dice, &mut tally);
        let is_stored = dice.one_in(4);
        if is_stored {
            (source, inlet) = Source::stored(&sent, &mut dice, &mut tally);
        }
        let lender = Lender::any(&mut dice, &mut tally);
        let mut builder = StreamBuilder::default().pattern(OutputPattern::Mirror).lending(lender.switch());
        let mut sinks = Vec::new();
        for number in 0..=dice.below(3) {
            let name = format!("sink {number}");
            let (sink, object) = match dice.below(5) {
                0 => Sink::stored(name, sent.len(), &mut dice, &mut tally),
                _ => Sink::any(name, &mut dice, &mut tally),
            };
            builder = builder.output(object);
            sinks.push(sink);
        }
        let (mut first, mut heads) = (None, None);
        match dice.below(6) {
            0 => {
                let (handler, seen) = observer::reader(&mut tally);
                builder = builder.handler(handler);
                first = Some(seen);
            }
            1 => {
                let (handler, of_peeker) = observer::peeker(1 + dice.below(1000), &mut tally);
                builder = builder.handler(handler);
                heads = Some(of_peeker);
            }
            _ => {}
        }
        let stream = builder.input(inlet, Framing::Whole).build();
        let status = stream.status();
        let of_first = |seen| Watcher::new(None, status.handlers[0].id, seen, 0);
        let watchers = first.map(of_first).into_iter().collect();
        let known = status.outputs;
        let outlet = |(sink, port)| Outlet { sink, port, was_first: true, has_left: false, is_gone: false };
        let outlets = sinks.into_iter().zip(known.iter().map(|output| output.port)).map(outlet).collect();
        let carrier = Carrier::Held(Box::new(stream));
        let (is_changed, written) = (dice.one_in(3), if is_stored { sent.len() } else { 0 });
        Pour {
            dice,
            tally,
            engines,
            carrier,
            source,
            is_stored,
            sent,
            written,
            outlets,
            lender,
            is_changed,
            watchers,
            heads,
        }
    }

    /// Runs the round to its end, and checks the received bytes.
    pub(crate) fn play(mut self) -> Tally {
        for _ in 0..STEPS {
            match self.dice.below(31) {
                0..6 => self.write_some(),
                6..12 => self.read_some(),
                12 => self.read_byte_by_byte(),
                13..16 => self.carrier.stop_or_start(self.engines, true, &mut self.dice, &mut self.tally),
                16 => self.attach_output(),
                17 => self.detach_output(),
                18 => self.kill_one(),
                19..21 => self.call_one(),
                21 => self.carrier.change_rate(&mut self.dice, &mut self.tally),
                22 if self.is_changed => self.change_options(),
                23 if self.is_changed => self.add_handler(),
                24 if self.is_changed => self.add_output_handler(),
                25 if self.is_changed => self.change_trust(),
                26 if self.is_changed => self.replace_handler(),
                27 if self.is_changed => self.remove_handler(),
                28 => self.lender.change(&mut self.carrier, &mut self.dice, &mut self.tally),
                29 => options::change(&mut self.carrier, &mut self.dice, &mut self.tally),
                _ => self.audit(),
            }
        }
        self.carrier.start(self.engines, &mut self.dice, &mut self.tally);
        self.call_who_is_left();
        let patience = Instant::now() + PATIENCE;
        while !self.carrier.has_ended() {
            assert!(Instant::now() < patience, "it does not end: {:?}", self.carrier.status());
            self.write(usize::MAX);
            if self.written == self.sent.len() {
                self.source.close();
            }
            self.outlets.iter_mut().for_each(|outlet| outlet.sink.read(usize::MAX, 1 << 16));
            std::thread::yield_now();
        }
        let end = std::mem::replace(&mut self.carrier, Carrier::Nowhere).end();
        self.verify(&end)
    }

    fn write_some(&mut self) {
        let most = 1 + self.dice.below(60_000);
        self.write(most);
        self.tally.note("operation: write");
    }

    fn write(&mut self, most: usize) {
        self.written += self.source.write(&self.sent[self.written..], most);
    }

    fn read_some(&mut self) {
        let (place, most) = (self.dice.below(self.outlets.len()), 1 + self.dice.below(100_000));
        self.outlets[place].sink.read(most, most);
        self.tally.note("operation: read");
    }

    fn read_byte_by_byte(&mut self) {
        let place = self.dice.below(self.outlets.len());
        self.outlets[place].sink.read(300, 1);
        self.tally.note("fault: a reader of single bytes");
    }

    fn attach_output(&mut self) {
        if self.outlets.len() < OUTLETS && self.carrier.listens() {
            let name = format!("sink {}", self.outlets.len());
            let (sink, object) = Sink::any(name, &mut self.dice, &mut self.tally);
            let port = self.carrier.ask(move |stream| stream.attach_output(object, OutputOptions::default()));
            let Some(port) = port else { return };
            self.outlets.push(Outlet { sink, port, was_first: false, has_left: false, is_gone: false });
            self.tally.note("operation: attach an output");
        }
    }

    /// Detaches an output, but never the first, so that one remains.
    fn detach_output(&mut self) {
        let place = 1 + self.dice.below(OUTLETS);
        let Some(outlet) = self.outlets.get_mut(place).filter(|_| self.carrier.listens()) else { return };
        let port = outlet.port;
        outlet.has_left |= self.carrier.ask(move |stream| stream.detach_output(port, drop)) == Some(true);
        self.tally.note("operation: detach an output");
    }

    fn kill_one(&mut self) {
        let place = 1 + self.dice.below(OUTLETS);
        if let Some(outlet) = self.outlets.get_mut(place).filter(|outlet| !outlet.has_left) {
            outlet.sink.kill(&mut self.tally);
        }
    }

    /// Connects to a listener that waits, or to one that is connected already. If the whole stored input has
    /// been sent, an output attached later may not listen any more.
    fn call_one(&mut self) {
        let place = self.dice.below(self.outlets.len() + 1);
        let Some(outlet) = self.outlets.get_mut(place) else {
            return assert!(self.source.call(&mut self.tally), "the source finds nobody");
        };
        if !(outlet.has_left && outlet.sink.is_awaited()) {
            let may_be_over = self.is_stored && !outlet.was_first;
            assert!(outlet.sink.call(&mut self.tally) || may_be_over, "{} finds nobody", outlet.sink.name);
        }
    }

    /// Connects to all listeners that the stream was built to wait for.
    fn call_who_is_left(&mut self) {
        let mut have_come = !self.source.is_awaited() || self.source.call(&mut self.tally);
        let is_left = |outlet: &&mut Outlet| outlet.was_first && !outlet.has_left && outlet.sink.is_awaited();
        for outlet in self.outlets.iter_mut().filter(is_left) {
            have_come &= outlet.sink.call(&mut self.tally);
        }
        assert!(have_come, "somebody is not waited for any more");
    }

    /// Changes the options of an output. The first output always blocks: it has all bytes that the stream
    /// must have sent.
    fn change_options(&mut self) {
        let (place, waiting_bytes) = (self.dice.below(OUTLETS), 1 + self.dice.below(100_000));
        let disconnects = place > 0 && self.dice.one_in(2);
        let when_full = if disconnects { WhenFull::Disconnect } else { WhenFull::Block };
        let by_key = self.dice.one_in(2);
        if self.change_output(place, move |stream, port| {
            set_limits(stream, port, (when_full, waiting_bytes), by_key)
        }) {
            self.outlets[place].sink.note_rule(when_full);
            self.tally.note("operation: set the options of an output");
            self.tally.add("operation: set the options of an output by their keys", u64::from(by_key));
        }
    }

    /// Changes an output that was not detached; false if there is none.
    fn change_output(
        &mut self,
        place: usize,
        change: impl FnOnce(&mut Stream, Port) -> Result<bool, String> + Send + 'static,
    ) -> bool {
        let Some(outlet) = self.outlets.get_mut(place).filter(|outlet| !outlet.has_left) else {
            return false;
        };
        let port = outlet.port;
        let is_there = checked(self.carrier.ask(move |stream| change(stream, port)));
        outlet.is_gone |= is_there == Some(false);
        is_there == Some(true)
    }
}

/// A number in eight bytes of seven bits each.
fn number(number: usize) -> [u8; 8] {
    std::array::from_fn(|at| (number >> (7 * (7 - at))) as u8 & 0x7f)
}
