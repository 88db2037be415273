//! Builds a round of one stream: pattern, order, inputs and outputs.

use wirepath_streams::{InputOrder, Object, OutputOptions, OutputPattern, StreamBuilder, WhenFull};

use super::change::any_rule;
use super::{Feed, Outlet, Web};
use crate::carrier::Carrier;
use crate::custom::{AnyReady, ToAll, ToOne};
use crate::dice::Dice;
use crate::ends::{Sink, Source};
use crate::record::{record, tag};

impl Web<'_> {
    pub(super) fn build(&mut self, seed: u64) {
        let mut builder = self.builder(seed);
        let mut sinks = Vec::new();
        for number in 0..=self.dice.below(4) {
            let (mut sink, object) = self.any_sink(number);
            // The first output never drops records, and is never killed or disconnected: the others are
            // compared with it.
            let (mut when_full, waiting_bytes) = (WhenFull::Block, 1 + self.dice.below(5000));
            if number > 0 && self.dice.one_in(2) {
                when_full = any_rule(&mut self.dice);
            }
            let options = OutputOptions { when_full, waiting_bytes, ..OutputOptions::default() };
            builder = builder.output_with(object, options);
            sink.note_rule(when_full);
            sinks.push(sink);
        }
        for _ in 0..=self.dice.below(3) {
            let object = self.any_feed();
            builder = builder.input(object, self.framing());
        }
        let stream = builder.build();
        let status = stream.status();
        for (sink, known) in sinks.into_iter().zip(&status.outputs) {
            self.outlets.push(Outlet {
                sink,
                port: known.port,
                was_first: true,
                has_left: false,
                is_gone: false,
            });
        }
        for (feed, known) in self.feeds.iter_mut().zip(&status.inputs) {
            (feed.port, feed.was_first) = (Some(known.port), true);
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
        if self.dice.one_in(4) {
            builder = self.custom_pattern(builder, seed);
        }
        builder = match (self.tags, self.dice.below(3)) {
            (Some(late), _) => {
                let window = 1 + self.dice.below(40);
                builder.order_by_tag(window, 100 * window, late, tag)
            }
            (None, 0) => builder.order(InputOrder::RoundRobin),
            (None, 1) => builder.order(InputOrder::Random { seed }),
            (None, _) if self.dice.one_in(3) => {
                self.tally.note("order: a custom one of what is ready");
                builder.order_by(AnyReady(Dice(seed)))
            }
            (None, _) => builder.order(InputOrder::Arrival),
        };
        if self.survives_inputs {
            builder = builder.survive_inputs();
        }
        builder
    }

    fn custom_pattern(&mut self, builder: StreamBuilder, seed: u64) -> StreamBuilder {
        if self.mirror {
            self.tally.note("pattern: a custom one that gives to all outputs");
            return builder.pattern_by(ToAll(Dice(seed)));
        }
        self.tally.note("pattern: a custom one that gives to one output");
        let head_bytes = if self.dice.one_in(2) { self.dice.below(5000) } else { 0 };
        builder.pattern_by(ToOne { dice: Dice(seed), head_bytes, turns: None })
    }

    pub(super) fn any_feed(&mut self) -> Object {
        let number = self.feeds.len() as u32;
        let is_stored = number > 0 && self.dice.one_in(6);
        let records = if is_stored { self.dice.below(20) as u32 } else { 0 };
        let (source, object) = if is_stored {
            let bytes = self.any_records(number, records);
            Source::stored(&bytes, &mut self.dice, &mut self.tally)
        } else {
            Source::any(&mut self.dice, &mut self.tally)
        };
        self.feeds.push(Feed {
            number,
            source,
            port: None,
            was_first: false,
            records,
            pending: Vec::new(),
            is_stored,
            was_reset: false,
        });
        object
    }

    /// The first records of a feed.
    fn any_records(&mut self, feed: u32, count: u32) -> Vec<u8> {
        let tags = self.next_tag..self.next_tag + count;
        self.next_tag += count;
        self.tally.add("records", count.into());
        let of = |(index, tag)| record(feed, index, tag, self.sizes.any_length(&mut self.dice));
        (0..).zip(tags).flat_map(of).collect()
    }

    pub(super) fn any_sink(&mut self, number: usize) -> (Sink, Object) {
        let name = format!("sink {number}");
        if number > 0 && self.dice.one_in(4) {
            // Some sinks of a mirror fill up soon.
            let room = if self.mirror { 1 + self.dice.below(200_000) } else { 1 << 26 };
            return Sink::stored(name, room, &mut self.dice, &mut self.tally);
        }
        Sink::any(name, &mut self.dice, &mut self.tally)
    }
}
