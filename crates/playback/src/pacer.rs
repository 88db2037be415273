//! Playbacks on an engine thread.

use super::{Task, Work, Worker};
use crate::clock::now_us;
use crate::playback::{Outcome, PlayError, PlaybackTask, Position, Reply, TRAINS_PER_TURN};
use crate::source::Cursor;

impl Worker {
    pub(super) fn play(&mut self, id: u64, from: Option<Cursor>, until_us: u64, reply: Reply<Position>) {
        let Some((key, task)) = self.playback(id) else { return reply(Err(PlayError::Over)) };
        task.play(from, until_us, reply);
        self.fire(key);
        self.flush(); // what comes next may be a command for the same playback
    }

    pub(super) fn pause(&mut self, id: u64, reply: Reply<u64>) {
        let Some((key, task)) = self.playback(id) else { return reply(Err(PlayError::Over)) };
        let at_us = task.pause();
        self.wheel.cancel(key);
        reply(Ok(at_us));
    }

    /// Sends what was queued, in one call, and has each playback go on with its answer. Some may have more that is due and queue
    /// again; after some turns they wait until others had theirs.
    pub(super) fn flush(&mut self) {
        let mut turn = 0;
        while self.sending.scratch.queued() > 0 {
            turn += 1;
            self.send_queued();
            let now_us = now_us();
            for index in 0..self.answers.len() {
                let (key, result) = (self.answers[index].0 as usize, self.answers[index].1);
                let Some(Task { work: Work::Playback(task), .. }) = self.tasks.get_mut(key) else { continue };
                match task.answered(result, &mut self.sending, now_us) {
                    Outcome::Again(at_us) if at_us <= now_us && turn < TRAINS_PER_TURN => {
                        self.fire_at(key, now_us);
                    }
                    outcome => self.conclude(key, outcome),
                }
            }
        }
    }

    fn send_queued(&mut self) {
        let Worker { sending, answers, .. } = self;
        answers.clear();
        sending.scratch.flush(|key, result| answers.push((key, result)));
        sending.counters.batches.add(1);
    }

    pub(super) fn playbacks_of(&self, keys: &[usize]) -> impl Iterator<Item = &PlaybackTask> {
        keys.iter().filter_map(|key| match &self.tasks.get(*key)?.work {
            Work::Playback(task) => Some(&**task),
            Work::Download(_) | Work::Stream(_) => None,
        })
    }

    pub(super) fn conclude(&mut self, key: usize, outcome: Outcome) {
        match outcome {
            Outcome::Again(at_us) => self.wheel.set(key, at_us),
            Outcome::Queued | Outcome::Rest => {}
            Outcome::Over(error) => self.remove(key, Some(error)),
        }
    }

    pub(super) fn playback(&mut self, id: u64) -> Option<(usize, &mut PlaybackTask)> {
        let key = *self.keys.get(&id)?;
        match &mut self.tasks.get_mut(key)?.work {
            Work::Playback(task) => Some((key, task)),
            Work::Download(_) | Work::Stream(_) => None,
        }
    }
}
