//! Building a stream.

use std::time::Duration;

use super::listening::Listening;
use super::{Pace, Stream};
use crate::chain::Chain;
use crate::event::{OnEvent, StreamEvent};
use crate::framing::{Framing, LONGEST};
use crate::handler::{Handler, Reach};
use crate::intake::{InputOrder, Intake, Late, Order, PollingOrder};
use crate::lending::LendingSwitch;
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

    /// Has inputs read in an order of the caller's type.
    pub fn order_by(mut self, order: impl PollingOrder + 'static) -> StreamBuilder {
        self.order = Order::custom(Box::new(order));
        self
    }

    /// Orders records by the tag that each has. At most `window` records of about `waiting_bytes` wait for
    /// others; one for each input may exceed it. When the window is full, the record with the smallest tag
    /// goes, whatever may still come, and is [counted](crate::MergeCounts::unawaited). See [`Late`].
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

    /// Joins the n-th records of all inputs, in the order of inputs, to one: their portions (KStreams: "a single
    /// record is constructed from portions arriving on multiple links"). For inputs that lose nothing.
    ///
    /// At most `window` records wait for portions, and portions of about `waiting_bytes` of memory, which is
    /// 256 bytes for each beside its own; one for each input may exceed it. When the window is full, inputs
    /// that are ahead are not read until the others have come as far.
    ///
    /// A record is given up, and counted ([`JoinCounts`](crate::JoinCounts)), when one of its portions is of
    /// an input that has ended, and the other inputs have brought theirs. An input that is attached takes the
    /// place of one that has ended, or the last, from the next record on. An input that is detached is not
    /// missed. A record longer than handlers allow, or than 16 MiB, is dropped and counted.
    pub fn join(mut self, window: usize, waiting_bytes: usize) -> StreamBuilder {
        self.order = Order::joined(None, window, waiting_bytes);
        self
    }

    /// Joins records with one key, one of each input, to one, in the order of inputs. `key` reads the key of
    /// a portion; portions without one are dropped and counted. Records leave in the order in which they are
    /// complete.
    ///
    /// The bounds are those of [`StreamBuilder::join`], and so are the rules for records that are given up and
    /// for inputs that come and go. If the window is full, streams of bytes that have brought their portion of
    /// the record that waits longest are not read; when another brings a further key, that record is given up,
    /// and counted. For datagrams, the same, but for the wait.
    pub fn join_by_key(
        mut self,
        window: usize,
        waiting_bytes: usize,
        key: impl FnMut(&[u8]) -> Option<u64> + Send + 'static,
    ) -> StreamBuilder {
        self.order = Order::joined(Some(Box::new(key)), window, waiting_bytes);
        self
    }

    /// Combines shares that [`OutputPattern::Shares`] made with this threshold, in order. A share of another
    /// threshold is refused and counted: it is an error of a stream of bytes, and dropped of datagrams.
    ///
    /// At most `window` records wait for shares, and shares of about `waiting_bytes` of memory, which is 256
    /// bytes for each beside its own; one for each input may exceed it. When the window is full, inputs of
    /// streams of bytes that are ahead are not read until the others have come as far, so that no record is
    /// given up whose shares can still come by them.
    ///
    /// A record is given up, and counted ([`ShareCounts`](crate::ShareCounts)), when all streams of bytes
    /// that have not brought a share of it are past it or at their end and are needed; or, if it takes
    /// datagrams, when more waits than may. A share that its input ends within counts for nothing, as if the
    /// input had ended before it, and so do shares that do not agree with enough others of their record.
    pub fn collect_shares(mut self, threshold: u8, window: usize, waiting_bytes: usize) -> StreamBuilder {
        self.order = Order::of_shares(threshold, window, waiting_bytes);
        self
    }

    /// Sets the pattern of outputs; stripe by default.
    pub fn pattern(mut self, pattern: OutputPattern) -> StreamBuilder {
        self.pattern = pattern.into();
        self
    }

    /// Has records distributed by a pattern of the caller's type.
    pub fn pattern_by(mut self, pattern: impl PushingOrder + 'static) -> StreamBuilder {
        self.pattern = Pattern::Custom(Box::new(pattern));
        self
    }

    /// Adds a handler, behind the others.
    pub fn handler(mut self, handler: Handler) -> StreamBuilder {
        self.handlers.push(handler);
        self
    }

    /// Adds an input, behind the others.
    pub fn input(mut self, object: Object, framing: Framing) -> StreamBuilder {
        self.inputs.push((object, framing));
        self
    }

    /// Adds an output, behind the others.
    pub fn output(self, object: Object) -> StreamBuilder {
        self.output_with(object, OutputOptions::default())
    }

    /// Adds an output with options, behind the others.
    pub fn output_with(mut self, object: Object, options: OutputOptions) -> StreamBuilder {
        self.outputs.push((object, options));
        self
    }

    /// Tells connections the end (`shutdown`) when the stream has ended well.
    pub fn finish_outputs(mut self) -> StreamBuilder {
        self.settings.finishes_outputs = true;
        self
    }

    /// Survives inputs that fail. If all do, the stream has failed.
    pub fn survive_inputs(mut self) -> StreamBuilder {
        self.settings.survives_inputs = true;
        self
    }

    /// Ends the stream as soon as a connection fails, on either side and whatever it waits for, when all that
    /// could be moved has been. Bytes without room are lost. Only on an engine.
    pub fn end_with_connections(mut self) -> StreamBuilder {
        self.settings.ends_with_connections = true;
        self
    }

    /// Time limit of an output that takes nothing when the stream has nothing else to do; a minute by
    /// default. It holds for connections that were [told the end](StreamBuilder::finish_outputs) and whose
    /// peer acknowledges nothing; for detached ones that have something to send, after the last of the others
    /// has failed or has everything; and, of a stream that fails, for any with something to send. Then the
    /// output has failed as well.
    pub fn stall(mut self, limit: Duration) -> StreamBuilder {
        self.settings.stall_us = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        self
    }

    /// Fails outputs that take nothing for this time, whatever else the stream has to do: for answers to
    /// clients. Only on an engine.
    pub fn output_timeout(mut self, limit: Duration) -> StreamBuilder {
        self.settings.limits_stalls = true;
        self.stall(limit)
    }

    /// Sets the switch of the rule by which pages are lent that somebody else may write.
    pub fn lending(mut self, switch: LendingSwitch) -> StreamBuilder {
        self.lending = switch;
        self
    }

    /// Sets the receiver of events, called on the thread that runs the stream; must not block.
    pub fn on_event(mut self, on_event: impl FnMut(StreamEvent) + Send + 'static) -> StreamBuilder {
        self.on_event = Some(Box::new(on_event));
        self
    }

    /// The stream.
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

    /// Most bytes of a record, if not only outputs need whole records.
    fn whole_records(&self) -> Option<usize> {
        let of_order = self.order.needs_whole_records();
        let of_pattern = self.pattern.whole_records();
        // If an input fails, others must not get a part of a record to join theirs to.
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
