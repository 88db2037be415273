//! Adding inputs and outputs, to a stream that is put together or one that runs.

use std::collections::VecDeque;

use bytes::BytesMut;

use super::build::longest_whole;
use super::expected::Expected;
use super::watch::{READING, WRITING, is_watched_always};
use super::{Input, Order, Output, OutputOptions, Port, Stream, StreamError, Supply};
use crate::chain::Chain;
use crate::framing::{Framing, LONGEST, Splitter};
use crate::object::{Kind, Object};
use crate::outbox::{Dropped, Outbox};
use crate::pattern::{Lately, Spread};
use crate::secret::MOST_SHARES;
use wirepath_engine::StallDetector;

/// A stream has come to the end of its inputs, or failed: it takes no more inputs. What was to be one is given back.
#[derive(Debug, thiserror::Error)]
#[error("{}: the stream has come to its end and takes no more inputs", .0.name())]
pub struct TooLate(pub Box<Object>);

impl Stream {
    /// One more input, behind the others.
    ///
    /// # Errors
    /// If all inputs have come to their end and outputs were told, whether or not their peers have everything yet; or if the stream has
    /// failed and only sends what it has.
    pub fn attach_input(&mut self, object: Object, framing: Framing) -> Result<Port, TooLate> {
        if self.is_finishing || self.failing.is_some() {
            return Err(TooLate(Box::new(object)));
        }
        if !object.is_listening() {
            return Ok(self.add_input(object, framing));
        }
        let port = self.next_port();
        self.watch_one(port, &object, READING);
        self.expected.push(Expected::input(port, object, framing));
        Ok(port)
    }

    pub(super) fn add_input(&mut self, object: Object, framing: Framing) -> Port {
        let port = self.next_port();
        self.watch_one(port, &object, READING);
        self.seat_input(port, object, framing);
        port
    }

    /// Has an input take part, which is waited for already; answers its place.
    pub(super) fn seat_input(&mut self, port: Port, object: Object, framing: Framing) -> usize {
        let mut splitter = Splitter::new(framing, self.settings.whole);
        if let Some(packet_bytes) = self.settings.packet_bytes.filter(|_| !object.has_records()) {
            splitter.divide_into(packet_bytes);
        }
        let place = self.inputs.partition_point(|input| input.port < port);
        self.inputs_unchanged = false;
        match &mut self.order {
            Order::Tags { merge, .. } => merge.add_input(place),
            Order::Turns(turns) => turns.inserted(place),
            Order::Arrival(_) | Order::Shares(_) => {}
        }
        if object.has_records() {
            self.settings.takes_datagrams = true;
            self.chain.forgive();
            self.outputs.iter_mut().for_each(|output| output.chain.forgive());
            self.settings.keeps_datagrams |= splitter.is_whole();
            self.keep_datagrams();
        }
        self.inputs.insert(
            place,
            Input {
                port,
                object,
                splitter,
                buffer: BytesMut::new(),
                ready: VecDeque::new(),
                readable: true,
                is_queued: false,
                busy: false,
                supply: if self.failing.is_none() { Supply::Open } else { Supply::Cut },
                detach: None,
                bytes: 0,
                records: 0,
                next_share: 0,
                malformed: Dropped::default(),
                misfit: None,
            },
        );
        self.wake_input(place);
        place
    }

    /// One more output, behind the others. It gets records that come from now on, none if the stream has come to its end; of a stream of
    /// bytes without framing, bytes. If it needs what others did not, whole records or datagrams, inputs are divided so from their next
    /// record on. With [`OutputPattern::Shares`](crate::OutputPattern::Shares), more than [`MOST_SHARES`] outputs end the stream.
    pub fn attach_output(&mut self, object: Object, options: OutputOptions) -> Port {
        if !object.is_listening() {
            return self.add_output(object, options);
        }
        let port = self.next_port();
        self.watch_one(port, &object, WRITING);
        self.expected.push(Expected::output(port, object, options));
        port
    }

    pub(super) fn add_output(&mut self, object: Object, options: OutputOptions) -> Port {
        let port = self.next_port();
        if is_watched_always(&object) {
            self.watch_one(port, &object, WRITING);
        }
        self.seat_output(port, object, options);
        port
    }

    /// Has an output take part, which is waited for already if it is to be; answers its place.
    pub(super) fn seat_output(&mut self, port: Port, object: Object, options: OutputOptions) -> usize {
        self.no_output = None;
        self.meet_needs(&object, &options);
        // A record without end has no other place to begin at than here.
        let is_awaited = self.outputs.is_empty()
            && self.is_endless_pending
            && self.pending.front().is_some_and(|run| !run.begins);
        let mut output = Output::new(port, object, options);
        output.within = matches!(self.spread, Spread::Mirror) && (self.is_within_endless() || is_awaited);
        if self.settings.takes_datagrams {
            output.chain.forgive();
        }
        self.outputs.push(output);
        let outputs = self.outputs.len();
        if matches!(self.spread, Spread::Shares(_)) && outputs > MOST_SHARES {
            self.failed = Some(StreamError::TooManyOutputs { outputs, most: MOST_SHARES });
        }
        self.keep_datagrams();
        outputs - 1
    }

    /// Has outputs of datagrams leave records as they are, if such come as datagrams.
    fn keep_datagrams(&mut self) {
        for output in &mut self.outputs {
            if let Kind::Datagrams(datagrams) = &mut output.object.kind {
                datagrams.keeps_records = self.settings.keeps_datagrams;
            }
        }
    }

    /// Sees to it that inputs are divided as an output needs it.
    fn meet_needs(&mut self, object: &Object, options: &OutputOptions) {
        let packet_bytes = match &object.kind {
            Kind::Datagrams(datagrams) => Some(datagrams.packet_bytes),
            _ => None,
        };
        let whole = (options.when_full.drops_records() || packet_bytes.is_some()).then_some(LONGEST);
        if let Some(limit) = longest_whole(&options.handlers).into_iter().chain(whole).min() {
            self.need_whole(limit);
        }
        if let (Some(packet_bytes), None) = (packet_bytes, self.settings.packet_bytes) {
            self.settings.packet_bytes = Some(packet_bytes);
            self.inputs_unchanged = false;
            // A stream of bytes has no end for a datagram to leave at.
            for input in self.inputs.iter_mut().filter(|input| !input.object.has_records()) {
                input.cut();
                input.splitter.divide_into(packet_bytes);
            }
            self.wake_inputs();
        }
    }

    /// From their next record on, inputs hand on only whole ones of at most `limit` bytes.
    pub(super) fn need_whole(&mut self, limit: usize) {
        if self.settings.whole.is_some_and(|before| before <= limit) {
            return;
        }
        self.settings.whole = Some(limit);
        self.inputs_unchanged = false;
        for input in &mut self.inputs {
            input.cut();
            input.splitter.need_whole(limit);
        }
        self.wake_inputs();
    }

    fn next_port(&mut self) -> Port {
        let port = Port(self.next_port);
        self.next_port += 1;
        port
    }
}

impl Output {
    pub(super) fn new(port: Port, object: Object, options: OutputOptions) -> Output {
        let mut chain = Chain::default();
        options.handlers.into_iter().for_each(|handler| chain.push(handler));
        let watched = is_watched_always(&object);
        Output {
            port,
            object,
            chain,
            outbox: Outbox::new(options.waiting_bytes, options.when_full),
            pipe: None,
            copies: false,
            writable: true,
            watched,
            busy: false,
            storing: 0,
            is_disconnected: false,
            within: false,
            detach: None,
            stall_detector: StallDetector::default(),
            lately: Lately::default(),
            bytes: 0,
            lost_bytes: 0,
        }
    }
}
