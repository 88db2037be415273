//! Patterns of outputs of others' types: the trait, its answers, and the outputs to choose from.

use crate::outputs::Output;
use crate::port::Port;

/// Pattern of outputs: KStreams' pushing order, for
/// [`StreamBuilder::pattern_by`](crate::StreamBuilder::pattern_by).
///
/// The stream asks it for the outputs of each record, on the thread that runs the stream. It must not block.
/// An answer that names no output of the stream ends it ([`StreamError::Pattern`](crate::StreamError)), and
/// so does a panic; what the pattern had given to outputs before is sent in the first case.
pub trait PushingOrder: Send {
    /// Bytes of the beginning of each record that [`PushingOrder::next`] looks at. With 0, which is the
    /// default, large records of fixed size take the zero-copy route if they go to one output, to all, or to
    /// some that were attached one after the other; then the pattern may be asked before a record has come.
    /// With more, inputs are divided into whole records, of at most 16 MiB.
    fn head_bytes(&self) -> usize {
        0
    }

    /// True if the stream goes on without an output that failed, as long as there is another. Asked once,
    /// when the stream is built.
    fn survives_outputs(&self) -> bool {
        false
    }

    /// The outputs of the next record. `head` has its first bytes: [`PushingOrder::head_bytes`], or all of a
    /// shorter record. Asked once for each record, and again after [`Push::Wait`] or if the output that it
    /// chose is gone.
    fn next(&mut self, head: &[u8], outputs: &mut OutputChoice<'_>) -> Push;
}

/// Answer of a [`PushingOrder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// The record goes to this output.
    To(Port),
    /// It goes to all.
    All,
    /// It goes to the outputs given to [`OutputChoice::choose`], at least one.
    Chosen,
    /// It is dropped, and its bytes are counted in
    /// [`StreamStatus::bytes_dropped`](crate::StreamStatus::bytes_dropped).
    Drop,
    /// It waits until an output has sent something: an error if all have room.
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
    /// The outputs in the order in which they were attached.
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
    /// Its port.
    pub fn port(self) -> Port {
        self.output.port
    }

    /// Its name.
    pub fn name(self) -> &'a str {
        &self.output.object.name
    }

    /// Bytes that it took.
    pub fn bytes(self) -> u64 {
        self.output.bytes
    }

    /// Bytes that wait for it.
    pub fn waiting_bytes(self) -> usize {
        self.output.outbox.bytes + self.output.bytes_beyond()
    }

    /// Returns whether a record would neither wait for it nor be dropped by its rule.
    pub fn has_room(self) -> bool {
        !self.output.outbox.is_full() && self.output.held() == 0
    }

    /// Estimated time in seconds until it has taken what waits, by its throughput of the last seconds.
    pub fn wait_s(self) -> f64 {
        self.output.throughput.wait_s(self.waiting_bytes(), self.now_us)
    }
}
