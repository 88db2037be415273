//! State of an engine thread that playbacks use.

use std::sync::Arc;

use wirepath_datapath::{SendContext, Support};
use wirepath_engine::LoadUnit;

use crate::counters::ThreadCounters;
use crate::slots::Slots;

pub(crate) struct ThreadState {
    pub(crate) context: SendContext,
    pub(crate) counters: Arc<ThreadCounters>,
    pub(crate) support: Arc<Support>,
    pub(crate) slots: Slots,
}

/// Counts a playback in the load of its thread until this is dropped.
pub(crate) struct Place {
    counters: Arc<ThreadCounters>,
    _load: LoadUnit,
}

impl Place {
    pub(crate) fn new(counters: &Arc<ThreadCounters>, load: LoadUnit) -> Place {
        counters.playbacks.increment();
        Place { counters: Arc::clone(counters), _load: load }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.counters.playbacks.decrement();
    }
}
