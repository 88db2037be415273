//! A round of a mirror of bytes that nobody looks at: they go by `splice`, `tee` and `sendfile`, and are copied while something
//! stands in the way.

use std::time::Instant;

use wirepath_streams::{Engine, Framing, OutputOptions, OutputPattern, Port, StreamBuilder, StreamEnd};

use crate::PATIENCE;
use crate::carrier::Carrier;
use crate::dice::{Dice, Tally};
use crate::ends::{Sink, Source};

/// Operations of a round.
const STEPS: usize = 200;

/// Most outputs.
const OUTLETS: usize = 5;

/// Bytes whose place is found again.
const LANDMARK: usize = 32;

struct Outlet {
    sink: Sink,
    port: Port,
    was_first: bool,
    has_left: bool,
}

pub(crate) struct Pour<'a> {
    dice: Dice,
    tally: Tally,
    engine: &'a Engine,
    carrier: Carrier,
    source: Source,
    /// All that will be sent: numbers in eight bytes each.
    sent: Vec<u8>,
    written: usize,
    outlets: Vec<Outlet>,
}

impl<'a> Pour<'a> {
    pub(crate) fn new(seed: u64, engine: &'a Engine) -> Pour<'a> {
        let (mut dice, mut tally) = (Dice(seed), Tally::default());
        let sent: Vec<u8> = (0..dice.below(100_000) as u64).flat_map(u64::to_be_bytes).collect();
        let (mut source, mut inlet) = Source::any(&mut dice);
        if dice.one_in(4) {
            (source, inlet) = (Source::Closed, Source::stored(&sent));
        }
        let mut builder = StreamBuilder::default().pattern(OutputPattern::Mirror);
        let mut sinks = Vec::new();
        for number in 0..=dice.below(3) {
            let name = format!("sink {number}");
            let (sink, object) = match dice.below(5) {
                0 => Sink::file(name, 1 << 30, &mut tally),
                _ => Sink::any(name, &mut dice, &mut tally),
            };
            builder = builder.output(object);
            sinks.push(sink);
        }
        let stream = builder.input(inlet, Framing::Whole).build();
        let known = stream.status().outputs;
        let outlet = |(sink, port)| Outlet { sink, port, was_first: true, has_left: false };
        let outlets = sinks.into_iter().zip(known.iter().map(|output| output.port)).map(outlet).collect();
        let carrier = Carrier::Held(Box::new(stream));
        Pour { dice, tally, engine, carrier, source, sent, written: 0, outlets }
    }

    /// Plays the round to its end, and checks what came.
    pub(crate) fn play(mut self) -> Tally {
        for _ in 0..STEPS {
            match self.dice.below(20) {
                0..6 => self.write_some(),
                6..12 => self.read_some(),
                12 => self.read_byte_by_byte(),
                13..16 => self.stop_or_start(),
                16 => self.attach_output(),
                17 => self.detach_output(),
                18 => self.kill_one(),
                _ => self.audit(),
            }
        }
        self.carrier.start(self.engine);
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

    fn stop_or_start(&mut self) {
        if !self.carrier.is_held() {
            self.tally.add("operation: stop", u64::from(self.carrier.stop()));
        } else if self.dice.one_in(8) {
            self.carrier.start_on_thread();
            self.tally.note("operation: start on a thread");
        } else {
            self.carrier.start(self.engine);
            self.tally.note("operation: start on the engine");
        }
    }

    fn attach_output(&mut self) {
        if self.outlets.len() < OUTLETS && self.carrier.listens() {
            let name = format!("sink {}", self.outlets.len());
            let (sink, object) = Sink::any(name, &mut self.dice, &mut self.tally);
            let port = self.carrier.ask(move |stream| stream.attach_output(object, OutputOptions::default()));
            let Some(port) = port else { return };
            self.outlets.push(Outlet { sink, port, was_first: false, has_left: false });
            self.tally.note("operation: attach an output");
        }
    }

    /// Never the first, so that there is one.
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

    fn audit(&mut self) {
        let Some(status) = self.carrier.status() else { return };
        for output in &status.outputs {
            let is_whole =
                |outlet: &Outlet| outlet.was_first && !outlet.has_left && outlet.port == output.port;
            if self.outlets.iter().any(is_whole) {
                let known = output.bytes + output.waiting_bytes + status.bytes_pending;
                assert_eq!(status.bytes_in, known, "{output:?} of {status:?}");
            }
        }
        self.tally.note("operation: audit");
    }

    fn verify(mut self, end: &StreamEnd) -> Tally {
        assert_eq!(end.result, Ok(()));
        let status = &end.status;
        assert_eq!((status.bytes_in, status.bytes_dropped), (self.sent.len() as u64, 0), "{status:?}");
        for outlet in &mut self.outlets {
            let Outlet { sink, port, was_first, has_left } = outlet;
            sink.read_to_end(None);
            let known = status.outputs.iter().find(|output| output.port == *port).map(|output| output.bytes);
            let ended =
                status.ended_outputs.iter().find(|ended| ended.port == *port).map(|ended| ended.bytes);
            let taken = known.or(ended).unwrap();
            assert!(sink.is_lossy || sink.bytes.len() as u64 == taken, "{}: {status:?}", sink.name);
            let (begin, length) = (find(&self.sent, &sink.bytes), sink.bytes.len());
            assert!(begin.is_some(), "{} has {length} other bytes", sink.name);
            let begin = begin.unwrap_or(0);
            assert!(self.sent[begin..].starts_with(&sink.bytes), "{} has {length} other bytes", sink.name);
            assert!(!*was_first || begin == 0, "{} lacks the first {begin} bytes", sink.name);
            // One that came late may have come after the last byte.
            if !sink.is_broken && !*has_left && (*was_first || length >= LANDMARK) {
                assert_eq!(begin + length, self.sent.len(), "{} lacks the end", sink.name);
            }
        }
        self.tally.add("bytes in", status.bytes_in);
        self.tally.add("bytes out", status.bytes_out);
        self.tally.add("bytes in, that nobody looked at", status.bytes_unseen);
        self.tally.note("ending: well");
        self.tally
    }
}

/// Where in `all` these bytes begin; of fewer than a landmark, where they may.
fn find(all: &[u8], bytes: &[u8]) -> Option<usize> {
    let landmark = &bytes[..LANDMARK.min(bytes.len())];
    if all.starts_with(landmark) {
        return Some(0);
    }
    all.windows(landmark.len()).position(|window| window == landmark)
}
