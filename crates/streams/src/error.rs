//! Errors that end a stream.

use crate::chain::ChainError;
use crate::framing::FramingError;
use crate::handler::HandlerError;
use crate::object::ObjectError;
use crate::secret::ShareError;

/// Error that ended a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// An input or output failed.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The bytes of an input do not match its framing.
    #[error("{name}: {error}")]
    Framing {
        /// The input.
        name: String,
        /// The error.
        error: FramingError,
    },
    /// Shares of an input cannot be combined.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// There are fewer outputs than the threshold of shares.
    #[error("too few outputs for shares: {outputs}, and the threshold is {threshold}")]
    TooFewOutputs {
        /// Number of outputs.
        outputs: usize,
        /// Shares needed to recover a record.
        threshold: u8,
    },
    /// There are more outputs than a record can have shares.
    #[error("too many outputs for shares: {outputs}, and a record has at most {most}")]
    TooManyOutputs {
        /// Number of outputs.
        outputs: usize,
        /// Most shares of a record.
        most: usize,
    },
    /// The record is too long for sharing: its receiver needs whole shares, and a share stores the length of
    /// the record in three bytes.
    #[error("record of {bytes} bytes: at most {most} can be shared; choose a framing with shorter records")]
    TooLongToShare {
        /// Bytes of the record.
        bytes: usize,
        /// Most bytes of a record that can be shared.
        most: usize,
    },
    /// A custom [`PollingOrder`](crate::PollingOrder) failed.
    #[error("custom order of inputs: {0}; it may choose one of the ready inputs")]
    Order(String),
    /// A custom [`PushingOrder`](crate::PushingOrder) failed.
    #[error("custom pattern of outputs: {0}; it may choose among the outputs that it is given")]
    Pattern(String),
    /// A handler failed.
    #[error("handler {handler}: {error}")]
    Handler {
        /// Name of the handler.
        handler: String,
        /// The error.
        error: HandlerError,
    },
    /// A handler, a framing, a tag function, a custom order or a custom pattern panicked.
    #[error("a callback of the stream panicked: {0}")]
    Panicked(String),
    /// The engine thread of the stream panicked.
    #[error("the engine thread of the stream panicked, which is a bug: report it with the panic's message")]
    ThreadPanicked,
    /// A storage job panicked.
    #[error("{name}: reading ahead or writing panicked: {message}")]
    StoragePanicked {
        /// The input or output.
        name: String,
        /// Message of the panic.
        message: String,
    },
    /// All inputs failed, in a stream that [survives failed inputs](crate::StreamBuilder::survive_inputs).
    #[error("no input is left; the last one: {0}")]
    NoInput(String),
    /// No output is left.
    #[error("no output is left; the last one: {0}")]
    NoOutput(String),
    /// The stream was stopped.
    #[error("the stream was stopped")]
    Stopped,
}

impl From<ChainError> for StreamError {
    fn from(error: ChainError) -> StreamError {
        StreamError::Handler { handler: error.handler.to_owned(), error: error.error }
    }
}
