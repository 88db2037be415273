//! A round of two streams: one spreads records over links, the other merges them in the order that reverses
//! the spreading.

use std::time::Instant;

use wirepath_streams::{
    Framing, HandlerChangeError, HandlerId, InputOrder, Late, OutputOptions, OutputPattern, StreamBuilder,
    WhenFull,
};

use crate::PATIENCE;
use crate::carrier::Carrier;
use crate::custom::{InTurn, ToOne};
use crate::dice::{Dice, Tally};
use crate::ends::{Sink, Source, link};
use crate::engines::Engines;
use crate::observer::{self, Heads, Seen};
use crate::record::{Sizes, in_front, record, tag};

/// Operations of a round.
const STEPS: usize = 300;

/// Most links.
const LINKS: usize = 6;

/// Most bytes of a record, or of a part of a stripe, that may be in progress when a handler is added.
const LONGEST: usize = 60_000;

pub(crate) struct Weave<'a> {
    dice: Dice,
    tally: Tally,
    engines: &'a Engines,
    /// The stream that spreads, and the stream that collects.
    carriers: [Carrier; 2],
    source: Source,
    sink: Sink,
    sent: Vec<u8>,
    /// Bytes of `sent` that were written.
    written: usize,
    records: u32,
    sizes: Sizes,
    /// Number of links, if the records of all links are joined to one.
    joined: Option<u32>,
    is_watched: bool,
    /// Handlers that were added while the streams ran, each with an upper bound of the bytes made before.
    watchers: Vec<(Seen, usize)>,
    /// Place of the stream, and number, of each added handler.
    added: Vec<(usize, HandlerId)>,
    /// A handler of the spreading stream that peeks at its records.
    heads: Option<Heads>,
}

impl<'a> Weave<'a> {
    pub(crate) fn new(seed: u64, engines: &'a Engines) -> Weave<'a> {
        let (mut dice, mut tally) = (Dice(seed), Tally::default());
        let is_fixed = dice.one_in(2);
        let sizes = Sizes::any(&mut dice, is_fixed);
        let is_watched = dice.one_in(3);
        let unit = match sizes {
            Sizes::Small => 1 + dice.below(2000),
            Sizes::Mixed => sizes.any_length(&mut dice) + 1,
            Sizes::Fixed(bytes) => bytes + dice.below(2000),
        };
        let custom = [(); 2].map(|()| dice.one_in(3));
        let (pattern, parts, builder) = match dice.below(4) {
            0 => (OutputPattern::Stripe, None, StreamBuilder::default()),
            1 => {
                let order = InputOrder::Random { seed };
                (OutputPattern::Random { seed }, None, StreamBuilder::default().order(order))
            }
            2 => {
                // The window is never full, so no record leaves before its turn.
                let builder = StreamBuilder::default().order_by_tag(usize::MAX, usize::MAX, Late::Drop, tag);
                (OutputPattern::Capacity, None, builder)
            }
            _ => (OutputPattern::StripeBytes(unit), Some(unit), StreamBuilder::default()),
        };
        let by_turns = pattern == OutputPattern::Stripe;
        let builder = if by_turns && custom[0] { builder.order_by(InTurn::default()) } else { builder };
        let joins = by_turns && is_fixed && dice.one_in(2);
        let builder = if joins {
            tally.note("order: a join of portions");
            builder.join(1 + dice.below(20), 1 + dice.below(200_000))
        } else {
            builder
        };
        let (source, inlet) = Source::any(&mut dice, &mut tally);
        let (sink, outlet) = Sink::any("sink".to_owned(), &mut dice, &mut tally);
        let mut spread = StreamBuilder::default().pattern(pattern).input(inlet, sizes.framing());
        if by_turns && custom[1] {
            let head_bytes = if dice.one_in(2) { dice.below(100) } else { 0 };
            spread = spread.pattern_by(ToOne { dice: Dice(seed), head_bytes, turns: Some(0) });
            tally.note("pattern: a custom one that gives to one output");
        }
        if by_turns && custom[0] && !joins {
            tally.note("order: a custom one that takes turns");
        }
        let mut merge = builder.output(outlet);
        let links = 1 + dice.below(LINKS - 1);
        for _ in 0..links {
            let (from, into) = link(&mut dice, &mut tally);
            let waiting_bytes = 1 + dice.below(5000);
            spread = spread.output_with(from, OutputOptions { waiting_bytes, ..OutputOptions::default() });
            merge = merge.input(into, parts.map_or_else(|| sizes.framing(), Framing::Fixed));
        }
        let peeked = dice.one_in(2).then(|| observer::peeker(1 + dice.below(1000), &mut tally));
        let heads = peeked.map(|(handler, heads)| {
            spread = std::mem::take(&mut spread).handler(handler);
            heads
        });
        let carriers = [spread, merge].map(|builder| Carrier::Held(Box::new(builder.build())));
        Weave {
            dice,
            tally,
            engines,
            carriers,
            source,
            sink,
            sent: Vec::new(),
            written: 0,
            records: 0,
            sizes,
            joined: joins.then_some(links as u32),
            is_watched,
            watchers: Vec::new(),
            added: Vec::new(),
            heads,
        }
    }

    /// Runs the round to its end, and checks that all records arrived in order.
    pub(crate) fn play(mut self) -> Tally {
        for _ in 0..STEPS {
            match self.dice.below(25) {
                0..7 => self.add_record(),
                7..11 => self.write_some(),
                11..15 => self.read_some(),
                15 => self.read_byte_by_byte(),
                16..20 => self.stop_or_start(),
                20 => self.call_one(),
                21 => self.change_options(),
                22 => self.carriers[self.dice.below(2)].change_rate(&mut self.dice, &mut self.tally),
                23 if self.is_watched => self.add_handler(),
                24 => self.control_handler(),
                _ => {}
            }
        }
        // The last portions must form a whole record.
        while self.joined.is_some_and(|links| !self.records.is_multiple_of(links)) {
            self.add_record();
        }
        let (dice, tally) = (&mut self.dice, &mut self.tally);
        self.carriers.iter_mut().for_each(|carrier| carrier.start(self.engines, dice, tally));
        let have_come = [
            !self.source.is_awaited() || self.source.call(tally),
            !self.sink.is_awaited() || self.sink.call(tally),
        ];
        assert_eq!(have_come, [true; 2], "somebody is not waited for any more");
        let patience = Instant::now() + PATIENCE;
        while !self.carriers.iter().all(Carrier::has_ended) {
            assert!(Instant::now() < patience, "it does not end: {:?}", self.states());
            self.write(usize::MAX);
            if self.written == self.sent.len() {
                self.source.close();
            }
            self.sink.read(usize::MAX, 1 << 16);
            std::thread::yield_now();
        }
        self.verify()
    }

    fn add_record(&mut self) {
        let length = self.sizes.any_length(&mut self.dice);
        self.sent.extend(record(0, self.records, self.records, length));
        self.records += 1;
        self.tally.note("records");
    }

    fn write_some(&mut self) {
        let most = self.sizes.some_bytes(&mut self.dice, 10_000);
        self.write(most);
        self.tally.note("operation: write");
    }

    fn write(&mut self, most: usize) {
        self.written += self.source.write(&self.sent[self.written..], most);
    }

    fn read_some(&mut self) {
        let most = self.sizes.some_bytes(&mut self.dice, 20_000);
        self.sink.read(most, most);
        self.tally.note("operation: read");
    }

    fn stop_or_start(&mut self) {
        let carrier = &mut self.carriers[self.dice.below(2)];
        carrier.stop_or_start(self.engines, true, &mut self.dice, &mut self.tally);
    }

    fn read_byte_by_byte(&mut self) {
        self.sink.read(300, 1);
        self.tally.note("fault: a reader of single bytes");
    }

    /// Connects to a listener that waits, or to one that is connected already.
    fn call_one(&mut self) {
        let listens = match self.dice.below(2) {
            0 => self.source.call(&mut self.tally),
            _ => self.sink.call(&mut self.tally),
        };
        assert!(listens, "nobody is waited for, and nobody has come");
    }

    /// Changes the number of bytes that may wait for one of the outputs.
    fn change_options(&mut self) {
        let (place, waiting_bytes) = (self.dice.below(LINKS), 1 + self.dice.below(5000));
        let set = self.carriers[0].ask(move |stream| {
            let port = stream.status().outputs.get(place)?.port;
            Some(stream.set_output_options(port, WhenFull::Block, waiting_bytes))
        });
        if let Some(Some(is_there)) = set {
            assert!(is_there, "an output is gone");
            self.tally.note("operation: set the options of an output");
        }
    }

    fn add_handler(&mut self) {
        let place = self.dice.below(2);
        let carrier = &mut self.carriers[place];
        let (handler, seen) = observer::any(&mut self.dice, &mut self.tally);
        if let Some(id) = carrier.ask(move |stream| stream.add_handler(handler)) {
            let longest = self.joined.map_or(LONGEST, |links| LONGEST * links as usize);
            self.watchers.push((seen, self.sent.len() + longest));
            self.added.push((place, id));
            self.tally.note("operation: add a handler");
        }
    }

    /// Controls an added handler, which must get the message between two records.
    fn control_handler(&mut self) {
        let Some((place, id)) = self.added.last().copied() else { return };
        let accepted = self.carriers[place].ask(move |stream| stream.control_handler(id, &b"?"[..], drop));
        match accepted {
            Some(Ok(())) => self.tally.note("operation: control a handler"),
            Some(Err(error)) => assert!(matches!(error, HandlerChangeError::Busy(_)), "{error}"),
            None => {}
        }
    }

    fn states(&mut self) -> Vec<Option<wirepath_streams::StreamStatus>> {
        self.carriers.iter_mut().map(Carrier::status).collect()
    }

    fn verify(mut self) -> Tally {
        for carrier in self.carriers {
            let end = carrier.end();
            assert_eq!(end.result, Ok(()));
            let status = end.status;
            assert_eq!((status.bytes_in, status.bytes_out), (self.sent.len() as u64, self.sent.len() as u64));
            self.tally.add("bytes in", status.bytes_in);
            self.tally.add("bytes out", status.bytes_out);
            self.tally.add("bytes in, that nobody looked at", status.zero_copy_bytes);
            if matches!(self.sizes, Sizes::Mixed) {
                self.tally
                    .add("bytes in behind their lengths, that nobody looked at", status.zero_copy_bytes);
            }
        }
        self.source.check();
        self.sink.read_to_end(self.sent.len() as u64);
        assert!(self.sink.bytes == self.sent, "{} bytes came, not those that went", self.sink.bytes.len());
        self.heads.iter().for_each(|heads| heads.check(in_front(&self.sent)));
        for (seen, before) in &self.watchers {
            let bytes = seen.bytes();
            assert!(self.sent.ends_with(&bytes) && seen.is_from_beginning(), "a handler saw other bytes");
            let begin = self.sent.len() - bytes.len();
            assert!(
                begin <= *before,
                "a handler saw nothing of {begin} bytes, of which it had to from {before} on"
            );
        }
        self.tally.note("ending: all together again, in order");
        self.tally
    }
}
