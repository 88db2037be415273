//! Settings of all playbacks of an engine.

use std::sync::Arc;

use wirepath_datapath::Support;

use crate::burst::Burst;
use crate::ring_use::RingUse;

/// Settings of all playbacks of an engine.
#[derive(Clone, Debug)]
pub struct PlaybackSettings {
    /// Data paths that the host and its routes support.
    pub support: Arc<Support>,
    /// Use of an io_uring by each thread, to send from [registered](crate::Playbacks::register) memory.
    pub ring: RingUse,
    /// Length of bursts.
    pub burst: Burst,
}
