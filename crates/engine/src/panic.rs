//! Panics of callbacks, which must not end what does not depend on them.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`; returns its result, or the message of its panic. The caller discards what `work` was
/// changing.
pub fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let message = panic.downcast_ref::<&str>().map(|message| (*message).to_owned());
        let message = message.or_else(|| panic.downcast_ref::<String>().cloned());
        message.unwrap_or_else(|| "without a message".to_owned())
    })
}
