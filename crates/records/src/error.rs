//! Errors of a request.

use std::io;
use std::time::Duration;

/// A request that cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// A query or a format description that cannot be understood, or that these records do not have. The client's
    /// fault.
    #[error("{0}")]
    Query(String),
    /// A file that is not served in this way.
    #[error("unsupported records: {0}")]
    Unsupported(String),
    /// A file that breaks the rules of its format.
    #[error("invalid Arrow file at byte {at}: {why}; store the records again")]
    Invalid {
        /// Place of the error.
        at: u64,
        /// The reason.
        why: String,
    },
    /// An answer that would take too much room.
    #[error("the answer is too long: {0}; select less")]
    Long(String),
    /// An answer for which too many bytes of other answers are made and not yet sent.
    #[error("answers that are being sent take all of {0} bytes: try again later, or select less")]
    Full(u64),
    /// An answer that takes too long to make.
    #[error("making the answer took longer than {0:?}: select less")]
    Slow(Duration),
    /// A file that cannot be read, or an answer that cannot be kept.
    #[error("reading the records failed: {0}")]
    Read(#[from] io::Error),
}

impl RecordsError {
    pub(crate) fn invalid(at: u64, why: impl Into<String>) -> RecordsError {
        RecordsError::Invalid { at, why: why.into() }
    }

    pub(crate) fn query(why: impl Into<String>) -> RecordsError {
        RecordsError::Query(why.into())
    }
}

/// Result of reading records.
pub(crate) type Result<T> = std::result::Result<T, RecordsError>;
