//! State of an engine thread for its playbacks.

use std::sync::Arc;

use slab::Slab;
use wirepath_datapath::{JoinedTrains, LendingSwitch, SendContext, Support};
use wirepath_engine::LoadUnit;

use crate::burst::Burst;
use crate::counters::ThreadCounters;
use crate::frame_writer::FrameWriter;
use crate::slots::Slots;
use crate::timetable::Timetable;

pub(crate) struct ThreadState {
    pub(crate) context: SendContext,
    /// Trains of the departure that is being sent; kept for its memory.
    pub(crate) trains: JoinedTrains,
    pub(crate) counters: Arc<ThreadCounters>,
    pub(crate) support: Arc<Support>,
    pub(crate) slots: Slots,
    /// True if trains are sent from mappings of files by io_uring, where the kernel copies nothing.
    pub(crate) maps: bool,
    /// Rule by which trains are sent without a copy.
    pub(crate) lending: LendingSwitch,
    /// Writers of RTSP connections, by key.
    pub(crate) writers: Slab<FrameWriter>,
    pub(crate) burst: Burst,
    /// Length of bursts that begin from now on, in microseconds.
    pub(crate) burst_us: u64,
}

impl ThreadState {
    /// Sets the length of bursts by the number of playing playbacks.
    pub(crate) fn set_burst(&mut self) {
        self.burst_us = self.burst.length_us(self.counters.playing.value());
    }
}

/// Counts a playback in the load of its thread until this is dropped.
pub(crate) struct ThreadMembership {
    counters: Arc<ThreadCounters>,
    _load: LoadUnit,
}

impl ThreadMembership {
    pub(crate) fn new(counters: &Arc<ThreadCounters>, load: LoadUnit) -> ThreadMembership {
        counters.playbacks.increment();
        ThreadMembership { counters: Arc::clone(counters), _load: load }
    }

    /// Counters of the thread.
    pub(crate) fn counters(&self) -> &Arc<ThreadCounters> {
        &self.counters
    }
}

impl Drop for ThreadMembership {
    fn drop(&mut self) {
        self.counters.playbacks.decrement();
    }
}

/// The timetable of a playing playback, which is counted until this is dropped.
pub(crate) struct Playing {
    pub(crate) timetable: Timetable,
    counters: Arc<ThreadCounters>,
}

impl Playing {
    pub(crate) fn new(timetable: Timetable, counters: &Arc<ThreadCounters>) -> Playing {
        counters.playing.increment();
        counters.speed_thousandths.add(timetable.speed().thousandths());
        Playing { timetable, counters: Arc::clone(counters) }
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        self.counters.playing.decrement();
        self.counters.speed_thousandths.subtract(self.timetable.speed().thousandths());
    }
}
