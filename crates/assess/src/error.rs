//! Errors of an assessment.

use std::io;
use std::path::Path;

/// Error that ends an assessment, or leaves out a part of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A required call failed; the assessment ends.
    #[error("{doing}: {source}")]
    System {
        /// Failed operation.
        doing: String,
        /// Error of the call.
        source: io::Error,
    },
    /// Invalid or impossible request; the assessment does not begin.
    #[error("{0}")]
    Input(String),
    /// The sink disconnected, or stopped receiving; the assessment ends.
    #[error("the sink {sink} stopped: {why}")]
    SinkStopped {
        /// Address of the sink.
        sink: String,
        /// Observed failure.
        why: String,
    },
    /// Not possible on this machine; the rest can be measured.
    #[error("{0}")]
    Unable(String),
    /// Wrong or lost bytes: the case has no figure, and the assessment fails at its end.
    #[error("{0}")]
    Faulty(String),
    /// Stop requested by the user.
    #[error("stopped")]
    Stopped,
}

impl Error {
    pub(crate) fn of_file(doing: &str, file: &Path, source: io::Error) -> Error {
        Error::System { doing: format!("cannot {doing} {}", file.display()), source }
    }
}

/// Context for errors of calls.
pub(crate) trait Doing<T> {
    /// Prefixes the error with the operation that failed.
    fn doing(self, doing: &str) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, doing: &str) -> Result<T, Error> {
        self.map_err(|error| Error::System { doing: doing.to_owned(), source: error.into() })
    }
}
