//! Custom patterns of outputs: the trait, its answers, and its view of the outputs.

use crate::outputs::Output;
use crate::port::Port;

/// Custom pattern of outputs: KStreams' pushing order, for
/// [`StreamBuilder::pattern_by`](crate::StreamBuilder::pattern_by).
///
/// The stream asks for the outputs of each record, on the thread that runs the stream. The pattern must not
/// block. An answer with a port that is not an output of the stream ends the stream
/// ([`StreamError::Pattern`](crate::StreamError)), and so does a panic; in the first case, records that
/// outputs got before are still sent.
pub trait PushingOrder: Send {
    /// Bytes at the beginning of each record that [`PushingOrder::next`] needs. With 0, the default, large
    /// records take the zero-copy route if they go to one output, to all outputs, or to outputs that were
    /// attached consecutively; the pattern may then be asked before a record has arrived. With more than 0,
    /// inputs are divided into whole records of at most 16 MiB.
    fn head_bytes(&self) -> usize {
        0
    }

    /// Returns whether the stream continues without an output that failed, as long as there is another
    /// output. Called once, when the stream is built.
    fn survives_outputs(&self) -> bool {
        false
    }

    /// Chooses the outputs of the next record. `head` has its first [`PushingOrder::head_bytes`] bytes, or
    /// all bytes of a shorter record. Called once for each record, and again after [`Push::Wait`] or if the
    /// chosen output was removed.
    fn next(&mut self, head: &[u8], outputs: &mut OutputChoice<'_>) -> Push;
}

/// Answer of a [`PushingOrder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// The record goes to this output.
    To(Port),
    /// The record goes to all outputs.
    All,
    /// The record goes to the outputs given to [`OutputChoice::choose`], at least one.
    Chosen,
    /// The record is dropped, and its bytes are counted in
    /// [`StreamStatus::bytes_dropped`](crate::StreamStatus::bytes_dropped).
    Drop,
    /// The record waits until an output has sent something; an error if all outputs have room.
    Wait,
}

/// Outputs of a stream, to choose from.
pub struct OutputChoice<'a> {
    pub(super) outputs: &'a [Output],
    pub(super) chosen: &'a mut Vec<Port>,
    pub(super) now_us: u64,
}

/// State of an output.
#[derive(Clone, Copy)]
pub struct OutputState<'a> {
    pub(super) output: &'a Output,
    pub(super) now_us: u64,
}

impl<'a> OutputChoice<'a> {
    /// Iterates over the outputs in the order in which they were attached.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = OutputState<'a>> + use<'a> {
        let now_us = self.now_us;
        self.outputs.iter().map(move |output| OutputState { output, now_us })
    }

    /// Chooses an output, for [`Push::Chosen`].
    pub fn choose(&mut self, output: Port) {
        if !self.chosen.contains(&output) {
            self.chosen.push(output);
        }
    }
}

impl<'a> OutputState<'a> {
    /// Port of the output.
    pub fn port(self) -> Port {
        self.output.port
    }

    /// Name of the output.
    pub fn name(self) -> &'a str {
        &self.output.object.name
    }

    /// Bytes that the output took.
    pub fn bytes(self) -> u64 {
        self.output.bytes
    }

    /// Bytes that wait for the output.
    pub fn waiting_bytes(self) -> usize {
        self.output.outbox.bytes + self.output.bytes_beyond()
    }

    /// Returns whether a record would neither wait for the output nor be dropped by the output's rule.
    pub fn has_room(self) -> bool {
        !self.output.outbox.is_full() && self.output.held() == 0
    }

    /// Estimated time in seconds until the output has taken the waiting bytes, by its throughput of the last
    /// seconds.
    pub fn wait_s(self) -> f64 {
        self.output.throughput.wait_s(self.waiting_bytes(), self.now_us)
    }
}
