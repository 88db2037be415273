//! Moves playbacks to the pacer of another thread, between two trains.
//!
//! Commands for a playback still go to the pacer on which it was opened, which passes them on in order. So a
//! playback moves at most once. The playbacks of a connection move together with its writer, to which the
//! same applies.

use wirepath_engine::{Context, Handle, now_us};

use super::{Entry, Pacer};
use crate::frame_writer::FrameWriter;
use crate::paced_playback::PacedPlayback;
use crate::thread_state::ThreadMembership;

impl Pacer {
    /// Moves playing playbacks that wait only for time until `most` have moved, each with the others on the
    /// same connection.
    pub(crate) fn hand_over(&mut self, most: usize, to: &Handle<Pacer>, context: &mut Context<'_>) {
        let movable = self.playbacks.iter().filter(|(_, Entry { playback, .. })| self.can_move(playback));
        let keys: Vec<usize> = movable.map(|(key, _)| key).take(most).collect();
        for key in keys {
            // Those of a connection moved with its first playback.
            match self.playbacks.get(key).map(|entry| entry.playback.writer()) {
                Some(Some(writer)) => self.hand_over_connection(writer, to, context),
                Some(None) => self.hand_over_playback(key, to),
                None => {}
            }
        }
        self.thread.set_burst();
        self.set_timer(context);
    }

    /// Returns whether a playback plays and can move, together with all that send to its connection.
    fn can_move(&self, playback: &PacedPlayback) -> bool {
        let is_movable =
            |key: &usize| self.playbacks.get(*key).is_some_and(|entry| entry.playback.is_movable());
        let others_can = |writer| {
            let writer: Option<&FrameWriter> = self.thread.writers.get(writer);
            writer.is_some_and(|writer| writer.is_idle() && writer.playbacks().iter().all(is_movable))
        };
        playback.plays() && playback.is_movable() && playback.writer().is_none_or(others_can)
    }

    fn hand_over_playback(&mut self, key: usize, to: &Handle<Pacer>) {
        let (id, playback) = self.release_playback(key, to);
        to.with(move |pacer, context| {
            pacer.take_over(id, playback, context);
            pacer.set_timer(context);
        });
    }

    fn hand_over_connection(&mut self, key: usize, to: &Handle<Pacer>, context: &mut Context<'_>) {
        let mut writer = self.thread.writers.remove(key);
        let id = writer.id();
        context.watcher().remove(writer.socket());
        self.writer_keys.remove(&id);
        self.moved.insert(id, to.clone());
        let playbacks: Vec<_> =
            writer.take_playbacks().into_iter().map(|key| self.release_playback(key, to)).collect();
        to.with(move |pacer, context| {
            pacer.insert_writer(writer, context);
            for (playback_id, playback) in playbacks {
                pacer.take_over_interleaved(id, playback_id, playback, context);
            }
            pacer.set_timer(context);
        });
    }

    /// Removes a playback, whose commands go to another pacer from now on.
    fn release_playback(&mut self, key: usize, to: &Handle<Pacer>) -> (u64, Box<PacedPlayback>) {
        self.wheel.cancel(key);
        let Entry { id, playback } = self.playbacks.remove(key);
        self.keys.remove(&id);
        self.moved.insert(id, to.clone());
        self.thread.counters.moves.increment();
        (id, playback)
    }

    /// Adds a playback of another pacer.
    fn take_over(&mut self, id: u64, mut playback: Box<PacedPlayback>, context: &mut Context<'_>) {
        self.adopt(id, &mut playback, context);
        let key = self.add(id, playback);
        self.resume(key);
    }

    /// Adds a playback of another pacer that sends to a writer which has moved here already.
    pub(super) fn take_over_interleaved(
        &mut self,
        writer_id: u64,
        id: u64,
        mut playback: Box<PacedPlayback>,
        context: &mut Context<'_>,
    ) {
        self.adopt(id, &mut playback, context);
        if let Some(key) = self.attach(writer_id, id, playback) {
            self.resume(key);
        }
    }

    /// Assigns a playback to this thread.
    fn adopt(&self, id: u64, playback: &mut PacedPlayback, context: &Context<'_>) {
        let membership = ThreadMembership::new(&self.thread.counters, context.add_load());
        playback.move_to(membership, context.handle::<Pacer>().waker(id));
    }

    /// Continues a playing playback.
    fn resume(&mut self, key: usize) {
        self.thread.set_burst();
        if self.playbacks.get(key).is_some_and(|entry| entry.playback.plays()) {
            self.step(key, now_us());
        }
        self.flush();
    }

    /// The pacer of the thread to which a playback or a writer was moved.
    pub(super) fn moved_to(&self, id: u64) -> Option<Handle<Pacer>> {
        self.moved.get(&id).cloned()
    }
}
