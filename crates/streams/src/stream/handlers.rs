//! Handlers of a running stream: more of them, control messages, removal and replacement.

use bytes::Bytes;

use super::Stream;
use crate::chain::{Chain, Change, MAX_WAITING_CHANGES, What};
use crate::handler::{Handler, HandlerError, HandlerId};
use crate::outputs::Output;
use crate::port::Port;
use crate::trust::Trust;

/// Most bytes of a control message.
const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// Error of a change of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandlerChangeError {
    /// There is no such handler.
    #[error("no handler {0}: it was removed, or never was; the status of the stream has the numbers")]
    Missing(HandlerId),
    /// Too many changes wait for the end of a record.
    #[error("handler {0}: {MAX_WAITING_CHANGES} changes wait for the end of a record; try again later")]
    Busy(HandlerId),
    /// The message is too long.
    #[error("control message of {0} bytes: at most {MAX_MESSAGE_BYTES} are allowed; send several")]
    TooLong(usize),
}

impl Stream {
    /// Adds a handler, behind the others (`addstreamhandler`). It sees records that reach it from now on,
    /// from their beginning, and nothing of what has passed the others already and waits for outputs. If it
    /// takes only whole records, inputs are divided so from their next record on. A stream of bytes without
    /// framing has no other record: there it sees what is read from now on, by pieces or as one record. Bytes
    /// of the zero-copy route leave first, and are not seen.
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

    /// Adds a handler of an output, behind its others, under the rules of [`Stream::add_handler`]: it sees
    /// nothing of what waits for the output. None if there is no such output.
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
    /// the output's peer is below a value. While it is not, records pass it, also without a copy.
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

    /// Sets the trust in the peer of an output, which other outputs do not notice. Handlers that
    /// [depend on it](Stream::add_output_handler_below) come into force with the next record, all at once:
    /// neither it nor any behind it passes them by. What waits for the output already leaves as it is. Handlers
    /// that are not wanted any more are suspended when the current record has ended. A stream of bytes without
    /// framing has no records: there both happen at once. Returns false if there is no such output.
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

    /// Returns whether outputs get records: not the rest of the one without end.
    fn outputs_have_records(&self) -> bool {
        self.spread.divides_bytes() || !self.intake.is_within_unframed()
    }

    /// Sends a control message to a handler (`handlercontrol`), which gets it between two records; of a
    /// stream of bytes without framing, between two pieces. `on_answer` is called with the handler's answer, on the
    /// thread that runs the stream; it must not block. It is dropped if the stream ends before.
    ///
    /// # Errors
    /// If there is no such handler, too many messages and changes wait, or the message is too long.
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

    /// Removes a handler between two records; of a stream of bytes without framing at once, unless the
    /// handler drops it. `on_removed` gets the handler, which is not told an end, on the thread that runs the stream.
    /// It must not block, and is dropped if the stream ends before. Inputs stay divided as the handler needed
    /// them.
    ///
    /// # Errors
    /// If there is no such handler, or too many changes wait.
    pub fn remove_handler(
        &mut self,
        id: HandlerId,
        on_removed: impl FnOnce(Handler) + Send + 'static,
    ) -> Result<(), HandlerChangeError> {
        self.change_handler(id, What::Remove(Box::new(on_removed)))
    }

    /// Replaces a handler between two records, as [`Stream::remove_handler`] removes one. The new one takes
    /// its place and number.
    ///
    /// # Errors
    /// If there is no such handler, or too many changes wait.
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

    /// Makes the changes of handlers that need not wait any more.
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

    /// A chain of these handlers.
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
