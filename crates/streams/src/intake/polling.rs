//! Custom orders of inputs: the trait and its view of ready inputs.

use std::collections::VecDeque;

use super::Input;
use crate::port::Port;

/// Custom order of inputs: KStreams' polling order, for
/// [`StreamBuilder::order_by`](crate::StreamBuilder::order_by).
///
/// The stream asks for the input of each record, on the thread that runs the stream. The order must not
/// block. An order needs no bytes, so large records take the zero-copy route.
///
/// An answer that is not among the ready inputs ends the stream ([`StreamError::Order`](crate::StreamError)),
/// and so does a panic. In the first case, bytes that were read before are still sent.
pub trait PollingOrder: Send {
    /// Chooses the input of the next record among the ready inputs. With None the stream waits until another
    /// input is ready; None is an error if all inputs are ready.
    fn next(&mut self, ready: &ReadyInputs<'_>) -> Option<Port>;

    /// Called after a record of this input was taken; if there is only one input, after several records. If
    /// the chosen input has nothing after all, it is no longer ready, and the order is asked again.
    fn taken(&mut self, _input: Port) {}

    /// Called after an input was removed.
    fn gone(&mut self, _input: Port) {}
}

/// Inputs that may have data: no read has found them empty since they became ready.
pub struct ReadyInputs<'a> {
    pub(super) inputs: &'a [Input],
    pub(super) queue: &'a VecDeque<Port>,
}

/// State of a ready input.
#[derive(Clone, Copy)]
pub struct InputState<'a>(&'a Input);

impl<'a> ReadyInputs<'a> {
    /// Iterates over the inputs, each once, in the order in which they became ready or gave their last
    /// record.
    pub fn iter(&self) -> impl Iterator<Item = InputState<'a>> {
        let inputs = self.inputs;
        let place = |port: &Port| inputs.binary_search_by_key(port, |input| input.port).ok();
        self.queue.iter().filter_map(move |port| place(port).map(|place| InputState(&inputs[place])))
    }

    /// The input with this port, if it is ready.
    pub fn get(&self, port: Port) -> Option<InputState<'a>> {
        let place = self.inputs.binary_search_by_key(&port, |input| input.port).ok()?;
        let input = &self.inputs[place];
        input.is_queued.then_some(InputState(input))
    }
}

impl<'a> InputState<'a> {
    /// Port of the input.
    pub fn port(self) -> Port {
        self.0.port
    }

    /// Name of the input.
    pub fn name(self) -> &'a str {
        &self.0.object.name
    }

    /// Bytes read from the input.
    pub fn bytes(self) -> u64 {
        self.0.bytes
    }

    /// Records of the input that have begun, including records that wait to be taken.
    pub fn records(self) -> u64 {
        self.0.records
    }

    /// Bytes read from the input and not taken yet.
    pub fn waiting_bytes(self) -> usize {
        self.0.kept()
    }
}
