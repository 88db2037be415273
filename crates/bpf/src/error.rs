//! Errors, in words for the operator.

use std::path::PathBuf;

/// Object that cannot be used, or kernel that does not take it.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The file could not be read.
    #[error("cannot read {0}: {1}")]
    File(PathBuf, std::io::Error),
    /// The file is no object with a handler.
    #[error("{0} has no handler: {1}; build it from a .bpf.c file that includes wirepath.bpf.h")]
    Object(PathBuf, String),
    /// The file is no object with a handler of paced runs.
    #[error(
        "{0} has no handler of paced runs: {1}; build it from a .bpf.c file that includes wirepath_paced.bpf.h"
    )]
    Paced(PathBuf, String),
    /// The kernel does not run the handler.
    #[error("{0}")]
    Kernel(String),
}

impl BpfError {
    pub(crate) fn kernel(doing: &str, error: impl std::error::Error) -> BpfError {
        let mut words = format!("{doing}: {error}");
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_words = cause.to_string();
            if !words.contains(&cause_words) {
                words = format!("{words}: {cause_words}");
            }
            source = cause.source();
        }
        // The log of the verifier has thousands of lines.
        BpfError::Kernel(words.lines().next().unwrap_or_default().to_owned())
    }
}
