//! Orders of inputs of others' types.

use std::collections::VecDeque;

use super::Input;
use crate::port::Port;

/// Order of inputs: KStreams' polling order, for [`StreamBuilder::order_by`](crate::StreamBuilder::order_by).
///
/// The stream asks it for the input of each record, on the thread that runs the stream. It must not block.
/// An order needs no bytes, so large records of fixed size take the zero-copy route.
///
/// An answer that is not among the ready inputs ends the stream ([`StreamError::Order`](crate::StreamError)),
/// and so does a panic. What was read before is sent in the first case.
pub trait PollingOrder: Send {
    /// The input of the next record, one of those that are ready. With None the stream waits until another
    /// input is ready, which is an error if all are.
    fn next(&mut self, ready: &ReadyInputs<'_>) -> Option<Port>;

    /// Notes that a record of this input was taken; of the only input, several at once. An input that was chosen and has nothing after all is
    /// ready no more, and the order is asked again.
    fn taken(&mut self, _input: Port) {}

    /// Notes that an input is gone.
    fn gone(&mut self, _input: Port) {}
}

/// Inputs that may have something: no read has found one of them empty since it was ready.
pub struct ReadyInputs<'a> {
    pub(super) inputs: &'a [Input],
    pub(super) queue: &'a VecDeque<Port>,
}

/// State of an input that is ready.
#[derive(Clone, Copy)]
pub struct InputState<'a>(&'a Input);

impl<'a> ReadyInputs<'a> {
    /// The inputs in the order in which they became ready or gave their last record: each once.
    pub fn iter(&self) -> impl Iterator<Item = InputState<'a>> {
        let inputs = self.inputs;
        let place = |port: &Port| inputs.binary_search_by_key(port, |input| input.port).ok();
        self.queue.iter().filter_map(move |port| place(port).map(|place| InputState(&inputs[place])))
    }

    /// An input, if it is ready.
    pub fn get(&self, port: Port) -> Option<InputState<'a>> {
        let place = self.inputs.binary_search_by_key(&port, |input| input.port).ok()?;
        let input = &self.inputs[place];
        input.is_queued.then_some(InputState(input))
    }
}

impl<'a> InputState<'a> {
    /// Its port.
    pub fn port(self) -> Port {
        self.0.port
    }

    /// Its name.
    pub fn name(self) -> &'a str {
        &self.0.object.name
    }

    /// Bytes that were read of it.
    pub fn bytes(self) -> u64 {
        self.0.bytes
    }

    /// Records of it that were begun, those that wait to be taken too.
    pub fn records(self) -> u64 {
        self.0.records
    }

    /// Bytes that were read of it and not taken.
    pub fn waiting_bytes(self) -> usize {
        self.0.kept()
    }
}
