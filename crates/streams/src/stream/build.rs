//! Builder of streams.

use std::time::Duration;

use wirepath_datapath::LendingSwitch;

use super::listening::Listening;
use super::{Pace, Stream};
use crate::chain::Chain;
use crate::event::{OnEvent, StreamEvent};
use crate::framing::{Framing, LONGEST};
use crate::handler::{Handler, Reach};
use crate::intake::{InputOrder, Intake, Late, Order, PollingOrder};
use crate::object::Object;
use crate::outputs::{OutputOptions, Outputs};
use crate::shared::{Settings, Shared};
use crate::spread::{OutputPattern, Pattern, PushingOrder, Spread};

/// Default of [`StreamBuilder::stall`].
const STALL_US: u64 = 60_000_000;

/// Builder of a stream.
#[must_use]
pub struct StreamBuilder {
    order: Order,
    pattern: Pattern,
    handlers: Vec<Handler>,
    inputs: Vec<(Object, Framing)>,
    outputs: Vec<(Object, OutputOptions)>,
    settings: Settings,
    lending: LendingSwitch,
    on_event: Option<Box<OnEvent>>,
}

impl Default for StreamBuilder {
    fn default() -> StreamBuilder {
        StreamBuilder {
            order: Order::of(InputOrder::RoundRobin),
            pattern: OutputPattern::Stripe.into(),
            handlers: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            settings: Settings { stall_us: STALL_US, ..Settings::default() },
            lending: LendingSwitch::default(),
            on_event: None,
        }
    }
}

impl StreamBuilder {
    /// Sets the order of inputs; round robin by default.
    pub fn order(mut self, order: InputOrder) -> StreamBuilder {
        self.order = Order::of(order);
        self
    }

    /// Sets a custom order of inputs.
    pub fn order_by(mut self, order: impl PollingOrder + 'static) -> StreamBuilder {
        self.order = Order::custom(Box::new(order));
        self
    }

    /// Orders records by their tags. At most `window` records of about `waiting_bytes` wait for others; one
    /// record for each input may exceed the bounds. When the window is full, the record with the smallest tag
    /// leaves, even if smaller tags may still come, and is [counted](crate::MergeCounts::unawaited). For late
    /// records see [`Late`].
    pub fn order_by_tag(
        mut self,
        window: usize,
        waiting_bytes: usize,
        late: Late,
        tag: impl FnMut(&[u8]) -> Option<u64> + Send + 'static,
    ) -> StreamBuilder {
        self.order = Order::by_tag(Box::new(tag), window, waiting_bytes, late);
        self
    }

    /// Joins the n-th records (portions) of all inputs to one record, in the order of inputs (KStreams: "a
    /// single record is constructed from portions arriving on multiple links"). For inputs that lose nothing.
    ///
    /// At most `window` records wait for portions, with portions of about `waiting_bytes` of memory: their
    /// lengths plus 256 bytes each. One portion for each input may exceed the bounds. When the window is
    /// full, inputs that are ahead are not read until the others have caught up.
    ///
    /// A record is given up, and counted ([`JoinCounts`](crate::JoinCounts)), when one of its portions would
    /// come from an ended input, and the other inputs have brought theirs. An attached input takes the place
    /// of an ended input, or the last place, from the next record on. Records do not wait for a detached
    /// input. A record longer than handlers allow, or longer than 16 MiB, is dropped and counted.
    pub fn join(mut self, window: usize, waiting_bytes: usize) -> StreamBuilder {
        self.order = Order::joined(None, window, waiting_bytes);
        self
    }

    /// Joins records (portions) with the same key, one of each input, to one record, in the order of inputs.
    /// `key` reads the key of a portion; portions without a key are dropped and counted. Records leave in the
    /// order in which they become complete.
    ///
    /// The window is that of [`StreamBuilder::join`], and so are the rules for records that are given up and
    /// for inputs that are attached and detached. When the window is full, byte streams that have brought
    /// their portion of the oldest waiting record are not read; when another input brings a new key, or its
    /// portion exceeds `waiting_bytes`, the oldest records are given up and counted. The same holds for
    /// datagrams, except that they cannot be made to wait.
    pub fn join_by_key(
        mut self,
        window: usize,
        waiting_bytes: usize,
        key: impl FnMut(&[u8]) -> Option<u64> + Send + 'static,
    ) -> StreamBuilder {
        self.order = Order::joined(Some(Box::new(key)), window, waiting_bytes);
        self
    }

    /// Combines shares that [`OutputPattern::Shares`] made with this threshold, in order. A share with
    /// another threshold is refused and counted: in a byte stream it is an error, as a datagram it is
    /// dropped.
    ///
    /// At most `window` records wait for shares, with shares of about `waiting_bytes` of memory: their
    /// lengths plus 256 bytes each. One share for each input may exceed the bounds. When the window is full,
    /// byte streams that are ahead are not read until the others have caught up, so that no record is given
    /// up whose shares can still come from them.
    ///
    /// A record is given up, and counted ([`ShareCounts`](crate::ShareCounts)), when fewer byte streams can
    /// still bring a share of it than shares are missing, because the others are past the record or have
    /// ended; if the stream also takes datagrams, only when the bounds are exceeded. An incomplete share at
    /// the end of an input is ignored, as if the input had ended before it, and so are shares that are
    /// inconsistent with enough others of their record.
    pub fn collect_shares(mut self, threshold: u8, window: usize, waiting_bytes: usize) -> StreamBuilder {
        self.order = Order::of_shares(threshold, window, waiting_bytes);
        self
    }

    /// Sets the pattern of outputs; stripe by default.
    pub fn pattern(mut self, pattern: OutputPattern) -> StreamBuilder {
        self.pattern = pattern.into();
        self
    }

    /// Sets a custom pattern of outputs.
    pub fn pattern_by(mut self, pattern: impl PushingOrder + 'static) -> StreamBuilder {
        self.pattern = Pattern::Custom(Box::new(pattern));
        self
    }

    /// Adds a handler after the others.
    pub fn handler(mut self, handler: Handler) -> StreamBuilder {
        self.handlers.push(handler);
        self
    }

    /// Adds an input after the others.
    pub fn input(mut self, object: Object, framing: Framing) -> StreamBuilder {
        self.inputs.push((object, framing));
        self
    }

    /// Adds an output after the others.
    pub fn output(self, object: Object) -> StreamBuilder {
        self.output_with(object, OutputOptions::default())
    }

    /// Adds an output with options after the others.
    pub fn output_with(mut self, object: Object, options: OutputOptions) -> StreamBuilder {
        self.outputs.push((object, options));
        self
    }

    /// Shuts connections down (`shutdown`) when the stream has ended well.
    pub fn finish_outputs(mut self) -> StreamBuilder {
        self.settings.finishes_outputs = true;
        self
    }

    /// Continues without inputs that fail. If all inputs fail, the stream has failed.
    pub fn survive_inputs(mut self) -> StreamBuilder {
        self.settings.survives_inputs = true;
        self
    }

    /// Ends the stream as soon as a connection fails, on either side and whatever the stream waits for, after
    /// moving everything that can be moved. Bytes for which there is no room are lost. Only on an engine.
    pub fn end_with_connections(mut self) -> StreamBuilder {
        self.settings.ends_with_connections = true;
        self
    }

    /// Time limit of an output that takes nothing while the stream has nothing else to do; a minute by
    /// default. An output that exceeds the limit has failed. The limit applies to connections that were
    /// [shut down](StreamBuilder::finish_outputs) and whose peer acknowledges nothing; to detached outputs
    /// that have something to send, after the last other output has failed or has sent everything; and, if
    /// the stream fails, to every output that has something to send.
    pub fn stall(mut self, limit: Duration) -> StreamBuilder {
        self.settings.stall_us = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        self
    }

    /// Fails outputs that take nothing for this time, whatever else the stream has to do: for responses to
    /// clients. Only on an engine.
    pub fn output_timeout(mut self, limit: Duration) -> StreamBuilder {
        self.settings.limits_stalls = true;
        self.stall(limit)
    }

    /// Sets the switch of the rule for lending pages that another process may write.
    pub fn lending(mut self, switch: LendingSwitch) -> StreamBuilder {
        self.lending = switch;
        self
    }

    /// Sets the receiver of events, called on the thread that runs the stream. The receiver must not block.
    pub fn on_event(mut self, on_event: impl FnMut(StreamEvent) + Send + 'static) -> StreamBuilder {
        self.on_event = Some(Box::new(on_event));
        self
    }

    /// Builds the stream.
    pub fn build(self) -> Stream {
        let whole = self.whole_records();
        let survives_outputs = self.pattern.survives_outputs();
        let settings = Settings { survives_outputs, ..self.settings };
        let takes_slices =
            self.handlers.iter().any(|handler| matches!(handler.reach(), Reach::Slices { .. }));
        let mut stream = Stream {
            intake: Intake::new(self.order, whole),
            chain: Chain::default(),
            spread: Spread::new(self.pattern),
            outputs: Outputs::default(),
            shared: Shared::new(settings, self.lending, self.on_event),
            listening: Listening::default(),
            keeps_datagrams: false,
            takes_datagrams: false,
            next_port: 0,
            next_handler: 0,
            has_changes: false,
            broken: None,
            is_finishing: false,
            processor_ns: None,
            pace: Pace::default(),
            made: Vec::new(),
        };
        stream.chain = stream.new_chain(self.handlers);
        if takes_slices {
            stream.intake.keep_short_whole();
        }
        for (object, options) in self.outputs {
            stream.add_output(object, options, true);
        }
        for (object, framing) in self.inputs {
            stream.add_input(object, framing, true);
        }
        stream
    }

    /// Most bytes of a record, if order, handlers or settings need whole records.
    fn whole_records(&self) -> Option<usize> {
        let of_order = self.order.needs_whole_records();
        let of_pattern = self.pattern.whole_records();
        // If an input fails, a part of its record must not be joined with the records of other inputs.
        let of_stream = (of_order || self.settings.survives_inputs).then_some(LONGEST);
        let of_handlers = self.handlers.iter().filter_map(|handler| match handler.reach() {
            Reach::Records { limit } => Some(limit),
            Reach::Pieces | Reach::Slices { .. } => None,
        });
        let of_slices = self.handlers.iter().filter_map(|handler| match handler.reach() {
            Reach::Slices { limit } => Some(limit),
            Reach::Pieces | Reach::Records { .. } => None,
        });
        let whole = of_handlers.chain(of_stream).chain(of_pattern).min()?;
        Some(of_slices.chain([whole, LONGEST]).fold(usize::MAX, usize::min))
    }
}
