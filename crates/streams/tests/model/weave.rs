//! A round of two streams: one spreads records over links, the other merges them in the order that reverses
//! the spreading.

mod handlers;
mod scheme;
mod verify;

use std::time::Instant;

use wirepath_streams::{OutputOptions, WhenFull};

use crate::PATIENCE;
use crate::carrier::Carrier;
use crate::dice::{Dice, Tally};
use crate::ends::{Sink, Source, link};
use crate::engines::Engines;
use crate::lender::Lender;
use crate::mask::Mask;
use crate::observer::{self, Heads};
use crate::options::{self, checked, set_limits};
use crate::record::{Sizes, record};
use handlers::{Pair, Watcher, of_pair};
use scheme::Scheme;

/// Operations of a round.
const STEPS: usize = 300;

/// Most links.
const LINKS: usize = 6;

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
    scheme: Scheme,
    /// Number of links that were not detached, and of those that there were.
    links: usize,
    links_at_first: usize,
    lenders: [Lender; 2],
    /// The change that a handler of the spreading stream makes, and one of the other stream undoes.
    mask: Option<Mask>,
    /// Handlers are added, replaced and removed while the streams run.
    is_watched: bool,
    watchers: Vec<Watcher>,
    /// A handler of the spreading stream that peeks at its records.
    heads: Option<Heads>,
}

impl<'a> Weave<'a> {
    pub(crate) fn new(seed: u64, engines: &'a Engines) -> Weave<'a> {
        let (mut dice, mut tally) = (Dice(seed), Tally::default());
        let is_fixed = dice.one_in(2);
        let sizes = Sizes::any(&mut dice, is_fixed);
        let links = 1 + dice.below(LINKS - 1);
        let scheme = Scheme::any(sizes, links, &mut dice);
        let lenders = [(); 2].map(|()| Lender::any(&mut dice, &mut tally));
        let (source, inlet) = Source::any(&mut dice, &mut tally);
        let (sink, outlet) = Sink::any("sink".to_owned(), &mut dice, &mut tally);
        let mut spread = scheme.spread(seed, &mut dice, &mut tally).input(inlet, sizes.framing());
        let mut merge = scheme.merge(seed, links, &mut dice, &mut tally).output(outlet);
        for _ in 0..links {
            let (from, into) = link(&mut dice, &mut tally);
            let waiting_bytes = 1 + dice.below(5000);
            spread = spread.output_with(from, OutputOptions { waiting_bytes, ..OutputOptions::default() });
            merge = merge.input(into, scheme.framing(sizes));
        }
        let mut heads = None;
        if dice.one_in(2) {
            let (handler, of_peeker) = observer::peeker(1 + dice.below(1000), &mut tally);
            spread = spread.handler(handler);
            heads = Some(of_peeker);
        }
        let mask = scheme.mask().filter(|_| dice.one_in(3));
        let (mut builders, mut seen) = ([spread, merge], None);
        if let Some(mask) = mask {
            let (with_pair, of_pair) = Pair::new(mask, &mut dice, &mut tally).add(builders);
            (builders, seen) = (with_pair, Some(of_pair));
        }
        let [spread, merge] = builders;
        let builders = [spread.lending(lenders[0].switch()), merge.lending(lenders[1].switch())];
        let mut carriers = builders.map(|builder| Carrier::Held(Box::new(builder.build())));
        let watchers = seen.map(|seen| of_pair(seen, &mut carriers)).unwrap_or_default();
        let is_watched = dice.one_in(3);
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
            scheme,
            links,
            links_at_first: links,
            lenders,
            mask,
            is_watched,
            watchers,
            heads,
        }
    }

    /// Runs the round to its end, and checks that all records arrived in order.
    pub(crate) fn play(mut self) -> Tally {
        for _ in 0..STEPS {
            match self.dice.below(30) {
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
                25 => self.replace_handler(),
                26 => self.remove_handler(),
                27 => self.change_lending(),
                28 => {
                    options::change(&mut self.carriers[self.dice.below(2)], &mut self.dice, &mut self.tally)
                }
                29 => self.detach_link(),
                _ => {}
            }
        }
        // The last portions must form a whole record.
        while self.joined().is_some_and(|links| !(self.records as usize).is_multiple_of(links)) {
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
        let (limits, by_key) = ((WhenFull::Block, waiting_bytes), self.dice.one_in(2));
        let set = self.carriers[0].ask(move |stream| {
            let port = stream.status().outputs.get(place).map(|output| output.port);
            port.map(|port| set_limits(stream, port, limits, by_key)).transpose()
        });
        if let Some(Some(is_there)) = checked(set) {
            assert!(is_there || self.links < self.links_at_first, "an output is gone");
            self.tally.note("operation: set the options of an output");
            self.tally.add("operation: set the options of an output by their keys", u64::from(by_key));
        }
    }

    fn change_lending(&mut self) {
        let place = self.dice.below(2);
        self.lenders[place].change(&mut self.carriers[place], &mut self.dice, &mut self.tally);
    }

    /// Detaches a link, if the shares on the other links suffice for all later records.
    fn detach_link(&mut self) {
        let Scheme::Shares(threshold) = self.scheme else { return };
        if self.links <= threshold.into() {
            return;
        }
        let place = self.dice.below(self.links);
        let detached = self.carriers[0].ask(move |stream| {
            let status = stream.status();
            // Before the stream has begun, links may wait for their connections.
            let port = status.outputs.get(place).filter(|_| status.bytes_in > 0)?.port;
            Some(stream.detach_output(port, drop))
        });
        if detached == Some(Some(true)) {
            self.links -= 1;
            self.tally.note("operation: detach a link whose shares are not needed");
        }
    }

    /// Number of links, if the records of all links are joined to one.
    fn joined(&self) -> Option<usize> {
        matches!(self.scheme, Scheme::Join { .. }).then_some(self.links)
    }

    fn states(&mut self) -> Vec<Option<wirepath_streams::StreamStatus>> {
        self.carriers.iter_mut().map(Carrier::status).collect()
    }
}
