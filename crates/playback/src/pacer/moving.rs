//! Moving playbacks to the pacer of another thread, between two trains.
//!
//! The pacer that a playback was opened on stays its address: commands for the playback are passed on from
//! there, in order. So a playback moves at most once.

use std::sync::Arc;

use wirepath_engine::{Context, Handle, LoadUnit, now_us};

use super::{Entry, Pacer};
use crate::counters::ThreadCounters;
use crate::paced_playback::PacedPlayback;
use crate::thread_state::ThreadMembership;

/// Thread that playbacks move to.
pub(crate) struct Destination {
    pub(crate) pacer: Handle<Pacer>,
    pub(crate) counters: Arc<ThreadCounters>,
    pub(crate) load: LoadUnit,
}

impl Pacer {
    /// Moves up to `most` playbacks that play to UDP receivers, and wait for nothing but time.
    pub(crate) fn hand_over(&mut self, most: usize, to: &Destination, context: &mut Context<'_>) {
        let movable = self.playbacks.iter().filter(|(_, entry)| entry.playback.is_movable());
        let keys: Vec<usize> = movable.map(|(key, _)| key).take(most).collect();
        for key in keys {
            self.wheel.cancel(key);
            let Entry { id, mut playback } = self.playbacks.remove(key);
            self.keys.remove(&id);
            playback.move_to(ThreadMembership::new(&to.counters, to.load.clone()), to.pacer.waker(id));
            self.moved.insert(id, to.pacer.clone());
            self.thread.counters.moves.increment();
            to.pacer.with(move |pacer, context| pacer.take_over(id, playback, context));
        }
        self.thread.set_burst();
        self.set_timer(context);
    }

    fn take_over(&mut self, id: u64, playback: Box<PacedPlayback>, context: &mut Context<'_>) {
        self.add(id, playback);
        self.thread.set_burst();
        if let Some((key, _)) = self.find(id) {
            self.step(key, now_us());
        }
        self.flush();
        self.set_timer(context);
    }

    /// The pacer of the thread that a playback was moved to.
    pub(super) fn moved_to(&self, id: u64) -> Option<Handle<Pacer>> {
        self.moved.get(&id).cloned()
    }
}
