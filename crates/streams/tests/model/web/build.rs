//! How a round of one stream is set up: its pattern and order, what it reads and what it writes.

use wirepath_streams::{InputOrder, Object, OutputOptions, OutputPattern, StreamBuilder, WhenFull};

use super::{Feed, Outlet, Web};
use crate::carrier::Carrier;
use crate::ends::{Sink, Source};
use crate::record::{record, tag, that_follow};

impl Web<'_> {
    pub(super) fn build(&mut self, seed: u64) {
        let mut builder = self.builder(seed);
        let mut sinks = Vec::new();
        for number in 0..=self.dice.below(4) {
            let (mut sink, object) = self.any_sink(number);
            // Nothing is dropped for the first, nor is it ever killed or let go of: it has what others are compared with.
            let (mut when_full, waiting_bytes) = (WhenFull::Block, 1 + self.dice.below(5000));
            if number > 0 && self.dice.one_in(2) {
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
            builder = builder.input(object, self.framing());
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

    pub(super) fn any_feed(&mut self) -> Object {
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
            let fixed = self.record_bytes.map(that_follow);
            let of = |(index, tag)| {
                let length = self.dice.below(3000);
                record(number, index, tag, fixed.unwrap_or(length))
            };
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

    pub(super) fn any_sink(&mut self, number: usize) -> (Sink, Object) {
        let name = format!("sink {number}");
        if number > 0 && self.dice.one_in(4) {
            // Of a mirror's files some are soon full.
            let room = if self.mirror { 1 + self.dice.below(200_000) as u64 } else { 1 << 30 };
            return Sink::file(name, room, &mut self.tally);
        }
        Sink::any(name, &mut self.dice, &mut self.tally)
    }
}
