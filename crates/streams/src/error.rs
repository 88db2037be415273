//! Why a stream ended.

use crate::chain::ChainError;
use crate::framing::FramingError;
use crate::handler::HandlerError;
use crate::object::ObjectError;
use crate::secret::ShareError;

/// Why a stream ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// An input or output failed.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// An input has no records where they should be.
    #[error("{name}: {error}")]
    Framing {
        /// The input.
        name: String,
        /// What is wrong.
        error: FramingError,
    },
    /// An input's shares cannot be put together.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// There are fewer outputs than shares are needed to give a record back.
    #[error("{outputs} outputs are fewer than the threshold of {threshold} shares")]
    TooFewOutputs {
        /// How many there are.
        outputs: usize,
        /// How many it takes.
        threshold: u8,
    },
    /// There are more outputs than a record can have shares.
    #[error("{outputs} outputs are more than the {most} shares that a record can have")]
    TooManyOutputs {
        /// How many there are.
        outputs: usize,
        /// How many shares there can be.
        most: usize,
    },
    /// A handler gave up.
    #[error("handler {handler}: {error}")]
    Handler {
        /// Its name.
        handler: String,
        /// Why.
        error: HandlerError,
    },
    /// A handler, a framing or a tag panicked.
    #[error("a callback of the stream panicked: {0}")]
    Panicked(String),
    /// What reads a file ahead, or writes one, panicked.
    #[error("{name}: reading ahead or writing panicked: {message}")]
    StoragePanicked {
        /// The input or output.
        name: String,
        /// Its message.
        message: String,
    },
    /// All inputs failed that the stream [survived](crate::StreamBuilder::survive_inputs): nobody can tell
    /// where the end would have been.
    #[error("no input is left; the last one: {0}")]
    NoInput(String),
    /// There is no output left.
    #[error("no output is left; the last one: {0}")]
    NoOutput(String),
    /// It was stopped.
    #[error("the stream was stopped")]
    Stopped,
}

impl From<ChainError> for StreamError {
    fn from(error: ChainError) -> StreamError {
        StreamError::Handler { handler: error.handler.to_owned(), error: error.error }
    }
}
