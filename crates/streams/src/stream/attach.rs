//! Adding inputs and outputs to a stream that is being built or is running.

use super::Stream;
use super::listening::Role;
use crate::error::StreamError;
use crate::framing::{Framing, LONGEST};
use crate::object::{Kind, Object};
use crate::outputs::{Output, OutputOptions};
use crate::port::Port;
use crate::secret::MOST_SHARES;
use crate::shared::{READING, WRITING};

/// Error of attaching an input to a stream that has ended or failed. Returns the object.
#[derive(Debug, thiserror::Error)]
#[error("{}: the stream has ended and takes no more inputs", .0.name())]
pub struct TooLate(pub Box<Object>);

impl Stream {
    /// Attaches an input after the others.
    ///
    /// # Errors
    /// All inputs have ended and outputs were told about the end, even if their peers have not acknowledged
    /// everything yet; or the stream has failed and only sends the records it has.
    pub fn attach_input(&mut self, object: Object, framing: Framing) -> Result<Port, TooLate> {
        if self.is_finishing || self.shared.is_failing() {
            return Err(TooLate(Box::new(object)));
        }
        Ok(self.add_input(object, framing, false))
    }

    pub(super) fn add_input(&mut self, object: Object, framing: Framing, delays_begin: bool) -> Port {
        let port = self.next_port();
        self.shared.watch_attached(port, &object, READING);
        if object.is_listening() {
            self.listening.expect(port, object, Role::Input(framing), delays_begin);
        } else {
            self.insert_input(port, object, framing);
        }
        port
    }

    /// Inserts an input that is already watched.
    pub(super) fn insert_input(&mut self, port: Port, object: Object, framing: Framing) {
        self.settle_seen();
        let has_records = object.has_records();
        self.keeps_datagrams |= self.intake.insert(port, object, framing);
        if has_records {
            self.takes_datagrams = true;
            self.drop_refused_records();
            self.keep_datagrams();
        }
    }

    /// Attaches an output after the others. The output gets records that come from now on; of a byte stream
    /// without framing, bytes from now on. If it is the first output that needs whole records or datagrams,
    /// inputs are divided accordingly from their next record on. With
    /// [`OutputPattern::Shares`](crate::OutputPattern::Shares), more than [`MOST_SHARES`] outputs end the
    /// stream.
    pub fn attach_output(&mut self, object: Object, options: OutputOptions) -> Port {
        self.add_output(object, options, false)
    }

    pub(super) fn add_output(
        &mut self,
        object: Object,
        mut options: OutputOptions,
        delays_begin: bool,
    ) -> Port {
        let port = self.next_port();
        let chain = self.new_chain(std::mem::take(&mut options.handlers));
        if object.is_listening() {
            self.shared.watch_attached(port, &object, READING);
            self.listening.expect(port, object, Role::Output(options, Box::new(chain)), delays_begin);
            return port;
        }
        let output = Output::new(port, object, &options, chain);
        if output.is_watched {
            self.shared.watch_attached(port, &output.object, WRITING);
        }
        self.insert_output(output, false);
        port
    }

    /// Inserts an output that is already watched if it needs to be: in the order of ports, or after the
    /// others.
    pub(super) fn insert_output(&mut self, mut output: Output, in_order: bool) {
        self.meet_needs(&output);
        // An endless record has no later beginning at which the output could join.
        let is_awaited = self.outputs.is_empty()
            && self.intake.last_is_unframed
            && self.spread.pending.front().is_some_and(|run| !run.begins);
        output.within_record = self.spread.is_mirror() && (self.intake.is_within_unframed() || is_awaited);
        if self.takes_datagrams {
            output.chain.drop_refused();
        }
        self.outputs.insert(output, in_order);
        let outputs = self.outputs.len();
        if self.spread.makes_shares() && outputs > MOST_SHARES {
            self.shared.failed = Some(StreamError::TooManyOutputs { outputs, most: MOST_SHARES });
        }
        self.keep_datagrams();
    }

    /// Makes datagram outputs keep record boundaries, if inputs have datagrams.
    fn keep_datagrams(&mut self) {
        for output in &mut self.outputs.current {
            if let Kind::Datagrams(datagrams) = &mut output.object.kind {
                datagrams.keeps_records = self.keeps_datagrams;
            }
        }
    }

    /// Makes handlers drop the records that they refuse, if inputs have datagrams.
    pub(super) fn drop_refused_records(&mut self) {
        if self.takes_datagrams {
            self.chain.drop_refused();
            self.outputs.current.iter_mut().for_each(|output| output.chain.drop_refused());
        }
    }

    /// Divides inputs as required by an output.
    fn meet_needs(&mut self, output: &Output) {
        self.settle_seen();
        let packet_bytes = match &output.object.kind {
            Kind::Datagrams(datagrams) => Some(datagrams.packet_bytes),
            _ => None,
        };
        output.chain.handlers().for_each(|handler| self.intake.meet(handler.reach()));
        if output.outbox.drops_records() || packet_bytes.is_some() {
            self.intake.need_whole(LONGEST);
        }
        if let Some(packet_bytes) = packet_bytes {
            self.intake.divide_into_datagrams(packet_bytes);
        }
    }
}
