//! Handlers of a running stream: adding, control messages, removal and replacement.

use bytes::Bytes;

use super::Stream;
use crate::chain::{Chain, Change, MAX_WAITING_CHANGES, What};
use crate::handler::{Handler, HandlerError, HandlerId};
use crate::outputs::Output;
use crate::port::Port;
use crate::trust::Trust;

/// Most bytes of a control message.
const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// Error of a change of handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandlerChangeError {
    /// There is no such handler.
    #[error("no handler {0}: it was removed, or never was; the status of the stream has the numbers")]
    Missing(HandlerId),
    /// Too many changes are deferred to the end of a record.
    #[error("handler {0}: {MAX_WAITING_CHANGES} changes wait for the end of a record; try again later")]
    Busy(HandlerId),
    /// The message is too long.
    #[error("control message of {0} bytes: at most {MAX_MESSAGE_BYTES} are allowed; send several")]
    TooLong(usize),
}

impl Stream {
    /// Handlers of the stream in the order in which they see records, without those of outputs.
    pub fn handlers(&self) -> impl Iterator<Item = &Handler> {
        self.chain.handlers()
    }

    /// Returns whether changes of handlers wait for the end of a record.
    pub fn has_waiting_changes(&self) -> bool {
        self.has_changes
    }

    /// Adds a handler after the others (`addstreamhandler`). The handler sees records that reach it from now
    /// on, from their beginning, and no records that have already passed the other handlers and wait for
    /// outputs. If it takes only whole records, inputs are divided accordingly from their next record on. A
    /// byte stream without framing has no other record: there the handler sees the bytes that are read from
    /// now on, in pieces or as one record. Bytes on the zero-copy route leave first, and the handler does not
    /// see them.
    pub fn add_handler(&mut self, handler: Handler) -> HandlerId {
        self.meet_handler(&handler);
        let id = self.next_handler();
        if self.intake.is_within_unframed() {
            self.chain.push(id, handler);
        } else {
            self.chain.push_for_next(id, handler);
        }
        self.note_handler();
        id
    }

    /// Adds a handler of an output after its other handlers, under the rules of [`Stream::add_handler`]: the
    /// handler sees no records that already wait for the output. None if there is no such output.
    pub fn add_output_handler(&mut self, port: Port, handler: Handler) -> Option<HandlerId> {
        if let Some((_, chain)) = self.listening.output(port) {
            let id = HandlerId(self.next_handler);
            self.next_handler += 1;
            chain.push(id, handler);
            return Some(id);
        }
        self.outputs.get_mut(port)?;
        self.meet_handler(&handler);
        let id = self.next_handler();
        let has_records = self.outputs_have_records();
        let output = self.outputs.get_mut(port)?;
        if has_records {
            output.chain.push_for_next(id, handler);
        } else {
            output.chain.push(id, handler);
        }
        self.note_handler();
        Some(id)
    }

    /// Adds a handler of an output as [`Stream::add_output_handler`] does, in force only while the trust in
    /// the output's peer is below a value. While the handler is not in force, records pass without it, also
    /// without a copy.
    pub fn add_output_handler_below(
        &mut self,
        port: Port,
        below: Trust,
        handler: Handler,
    ) -> Option<HandlerId> {
        let id = self.add_output_handler(port, handler)?;
        self.chain_of(id)?.limit_last(below);
        Some(id)
    }

    /// Sets the trust in the peer of an output; other outputs are not affected. Handlers that
    /// [depend on the trust](Stream::add_output_handler_below) come into force with the next record, all at
    /// once: neither this record nor any later one passes without them. Records that already wait for the
    /// output leave unchanged. Handlers that are no longer needed are suspended at the end of the current
    /// record. A byte stream without framing has no records: there both happen at once. Returns false if
    /// there is no such output.
    pub fn set_trust(&mut self, port: Port, trust: Trust) -> bool {
        if let Some((_, chain)) = self.listening.output(port) {
            chain.set_trust(trust, false);
        } else if let Some(output) = self.outputs.get_mut(port) {
            let come = output.chain.reaches_wanted(trust);
            self.settle_seen();
            come.into_iter().for_each(|reach| self.intake.meet(reach));
            let has_records = self.outputs_have_records();
            let output = self.outputs.get_mut(port);
            output.into_iter().for_each(|output| output.chain.set_trust(trust, has_records));
        } else {
            return false;
        }
        self.has_changes = true;
        self.make_changes();
        true
    }

    /// Returns whether outputs get records, and not the rest of an endless record.
    fn outputs_have_records(&self) -> bool {
        self.spread.divides_bytes() || !self.intake.is_within_unframed()
    }

    /// Sends a control message to a handler (`handlercontrol`). The handler gets it between two records; in a
    /// byte stream without framing, between two pieces. `on_answer` is called with the handler's answer, on
    /// the thread that runs the stream; it must not block. It is dropped if the stream ends before.
    ///
    /// # Errors
    /// There is no such handler, too many messages and changes wait, or the message is too long.
    pub fn control_handler(
        &mut self,
        id: HandlerId,
        message: impl Into<Bytes>,
        on_answer: impl FnOnce(Result<Vec<u8>, HandlerError>) + Send + 'static,
    ) -> Result<(), HandlerChangeError> {
        let message = message.into();
        if message.len() > MAX_MESSAGE_BYTES {
            return Err(HandlerChangeError::TooLong(message.len()));
        }
        self.change_handler(id, What::Control(message, Box::new(on_answer)))
    }

    /// Removes a handler between two records; in a byte stream without framing at once, unless the handler is
    /// dropping it. `on_removed` gets the handler, on the thread that runs the stream; the handler's `end` is
    /// not called. `on_removed` must not block, and is dropped if the stream ends before. Inputs stay divided
    /// as the handler needed.
    ///
    /// # Errors
    /// There is no such handler, or too many changes wait.
    pub fn remove_handler(
        &mut self,
        id: HandlerId,
        on_removed: impl FnOnce(Handler) + Send + 'static,
    ) -> Result<(), HandlerChangeError> {
        self.change_handler(id, What::Remove(Box::new(on_removed)))
    }

    /// Replaces a handler between two records, as [`Stream::remove_handler`] removes a handler. The new
    /// handler takes its place and number.
    ///
    /// # Errors
    /// There is no such handler, or too many changes wait.
    pub fn replace_handler(
        &mut self,
        id: HandlerId,
        handler: Handler,
        on_removed: impl FnOnce(Handler) + Send + 'static,
    ) -> Result<(), HandlerChangeError> {
        if self.chain_of(id).is_none() {
            return Err(HandlerChangeError::Missing(id));
        }
        self.meet_handler(&handler);
        self.change_handler(id, What::Replace(Box::new(handler), Box::new(on_removed)))
    }

    fn change_handler(&mut self, id: HandlerId, what: What) -> Result<(), HandlerChangeError> {
        let chain = self.chain_of(id).ok_or(HandlerChangeError::Missing(id))?;
        if !chain.add_change(Change { id, what }) {
            return Err(HandlerChangeError::Busy(id));
        }
        self.settle_seen();
        self.has_changes = true;
        self.make_changes();
        Ok(())
    }

    /// Makes the changes of handlers that are possible now.
    pub(super) fn make_changes(&mut self) {
        if !self.has_changes {
            return;
        }
        let is_endless = self.intake.is_within_unframed();
        let of_outputs = is_endless && !self.spread.divides_bytes();
        let Stream { chain, outputs, listening, shared, .. } = self;
        let chains = std::iter::once((chain, is_endless))
            .chain(outputs.current.iter_mut().map(|output| (&mut output.chain, of_outputs)))
            .chain(listening.chains().map(|chain| (chain, false)));
        self.has_changes = false;
        for (chain, is_endless) in chains {
            if let Err(error) = chain.make_changes(is_endless) {
                shared.fail(error.into());
            }
            self.has_changes |= chain.has_changes();
        }
        self.note_handler();
    }

    fn chain_of(&mut self, id: HandlerId) -> Option<&mut Chain> {
        let Stream { chain, outputs, listening, .. } = self;
        let of_outputs = outputs.current.iter_mut().map(|output: &mut Output| &mut output.chain);
        std::iter::once(chain).chain(of_outputs).chain(listening.chains()).find(|chain| chain.has(id))
    }

    pub(super) fn next_handler(&mut self) -> HandlerId {
        let id = HandlerId(self.next_handler);
        self.next_handler += 1;
        id
    }

    /// Makes a chain of these handlers.
    pub(super) fn new_chain(&mut self, handlers: Vec<Handler>) -> Chain {
        let mut chain = Chain::default();
        for handler in handlers {
            chain.push(self.next_handler(), handler);
        }
        chain
    }

    fn meet_handler(&mut self, handler: &Handler) {
        self.settle_seen();
        self.intake.meet(handler.reach());
    }

    fn note_handler(&mut self) {
        self.drop_refused_records();
        self.outputs.put_pipes_away();
    }
}
