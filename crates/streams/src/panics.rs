//! Panics of others' code, or of ours, that must not take with them what does not depend on it.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What `work` answers, or what its panic said. What it was changing then is the caller's to give up.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let words = panic.downcast_ref::<&str>().map(|words| (*words).to_owned());
        let words = words.or_else(|| panic.downcast_ref::<String>().cloned());
        words.unwrap_or_else(|| "without words".to_owned())
    })
}
