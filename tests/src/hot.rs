//! Servers with hot memory, and what they say of it.

use anyhow::{Context, Result};
use serde_json::Value;
use wirepath_datapath::SendContext;

use crate::{Deadline, require};

/// Skips the test where io_uring is not to be had.
pub fn require_ring() -> Result<()> {
    let ring = SendContext::default().open_ring();
    require!(ring.is_ok(), "there is no io_uring to send with here: {:?}", ring.err());
    Ok(())
}

/// Waits until the only session's trains leave by `path`, by the server's own account.
pub fn wait_for_path(path: &str, mut status: impl FnMut() -> Result<Value>) -> Result<()> {
    let mut last = Value::Null;
    let look = || {
        last = status()?["sessions"][0]["data_path"].clone();
        Ok((last == path).then_some(()))
    };
    Deadline::seconds(10.0).wait_for(path, look).with_context(|| format!("the path in use is {last}"))
}

/// A number that the playbacks count.
pub fn counted(status: &Value, name: &str) -> Result<u64> {
    let counters = &status["counters"]["playback"];
    counters[name].as_u64().with_context(|| format!("no {name} in {counters}"))
}
