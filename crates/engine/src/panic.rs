//! Handling of panics in callbacks. A panic must not end work that does not depend on the callback.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`. Returns its result, or the message of its panic. After a panic, the caller discards the
/// values that `work` was changing.
pub fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let message = panic.downcast_ref::<&str>().map(|message| (*message).to_owned());
        let message = message.or_else(|| panic.downcast_ref::<String>().cloned());
        message.unwrap_or_else(|| "without a message".to_owned())
    })
}
