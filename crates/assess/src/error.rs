//! Errors of an assessment.

use std::io;
use std::path::Path;

/// Error that ends an assessment, or leaves a part of it out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call failed that has to work; the assessment ends.
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
    /// The sink went away, or stopped taking anything; the assessment ends.
    #[error("the sink {sink} stopped: {why}")]
    SinkStopped {
        /// Its address.
        sink: String,
        /// Observed failure.
        why: String,
    },
    /// Impossible here; the rest can be measured.
    #[error("{0}")]
    Unable(String),
    /// Wrong or lost bytes: no figure is given, and the assessment fails at its end.
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
    /// The error with what was tried in front of it.
    fn doing(self, doing: &str) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, doing: &str) -> Result<T, Error> {
        self.map_err(|error| Error::System { doing: doing.to_owned(), source: error.into() })
    }
}
