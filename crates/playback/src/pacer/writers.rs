//! The pacer's connections: their writers, and the playbacks that send to them.

use std::os::fd::OwnedFd;

use rustix::event::epoll::EventFlags;
use wirepath_engine::Context;

use super::Pacer;
use crate::frame_writer::{FrameWriter, OnSent};
use crate::paced_playback::PacedPlayback;
use crate::request::PlayError;

impl Pacer {
    pub(crate) fn add_writer(&mut self, id: u64, socket: OwnedFd, context: &mut Context<'_>) {
        self.insert_writer(FrameWriter::new(id, socket), context);
    }

    pub(super) fn insert_writer(&mut self, writer: FrameWriter, context: &mut Context<'_>) {
        let id = writer.id();
        let key = self.thread.writers.insert(writer);
        self.writer_keys.insert(id, key);
        let writer = &mut self.thread.writers[key];
        // Edge-triggered: a connection with room for which nobody waits causes no wake-up.
        let flags = EventFlags::OUT | EventFlags::ET;
        if let Err(errno) = context.watcher().add(writer.socket(), key as u32, flags) {
            tracing::error!(%errno, "epoll_ctl failed to add an RTSP connection; it is closed");
            writer.fail();
        }
    }

    /// Removes a writer whose playbacks are gone. Its descriptor is closed on the pool.
    pub(crate) fn remove_writer(&mut self, id: u64, context: &mut Context<'_>) {
        if let Some(pacer) = self.moved.remove(&id) {
            return pacer.with(move |pacer, context| pacer.remove_writer(id, context));
        }
        let Some(key) = self.writer_keys.remove(&id) else { return };
        let writer = self.thread.writers.remove(key);
        context.watcher().remove(writer.socket());
        context.pool().discard(writer);
    }

    /// Adds a playback that sends to a writer, on the writer's thread.
    pub(crate) fn add_interleaved(&mut self, writer_id: u64, id: u64, playback: Box<PacedPlayback>) {
        if let Some(pacer) = self.moved_to(writer_id) {
            self.moved.insert(id, pacer.clone());
            return pacer.with(move |pacer, context| {
                pacer.take_over_interleaved(writer_id, id, playback, context);
            });
        }
        self.attach(writer_id, id, playback);
    }

    /// Adds a playback that sends to a writer. Returns its key; none if the writer is gone.
    pub(super) fn attach(
        &mut self,
        writer_id: u64,
        id: u64,
        mut playback: Box<PacedPlayback>,
    ) -> Option<usize> {
        let Some(writer) = self.writer_keys.get(&writer_id).copied() else {
            playback.fail(PlayError::Over);
            return None;
        };
        playback.attach(writer);
        let key = self.add(id, playback);
        self.thread.writers[writer].attach(key);
        Some(key)
    }

    pub(crate) fn write(&mut self, id: u64, bytes: Vec<u8>, on_sent: OnSent) {
        if let Some(pacer) = self.moved_to(id) {
            return pacer.with(move |pacer, _| pacer.write(id, bytes, on_sent));
        }
        if let Some(key) = self.writer_keys.get(&id) {
            self.thread.writers[*key].write(&bytes, on_sent);
        }
    }

    pub(crate) fn write_report(&mut self, id: u64, frame: Vec<u8>) {
        if let Some(pacer) = self.moved_to(id) {
            return pacer.with(move |pacer, _| pacer.write_report(id, frame));
        }
        if let Some(key) = self.writer_keys.get(&id) {
            self.thread.writers[*key].write_report(&frame);
        }
    }

    /// Releases a playback whose first packet waits for the response to PLAY.
    pub(crate) fn release(&mut self, id: u64, context: &mut Context<'_>) {
        if let Some(pacer) = self.moved_to(id) {
            return pacer.with(move |pacer, context| pacer.release(id, context));
        }
        if let Some((key, playback)) = self.find(id)
            && playback.release()
        {
            self.step_alone(key);
            self.set_timer(context);
        }
    }

    /// Continues a connection that has room again: the playbacks that waited for it are due now.
    pub(super) fn resume_writer(&mut self, key: usize) {
        let Pacer { thread, playbacks, wheel, .. } = self;
        let Some(writer) = thread.writers.get_mut(key) else { return };
        if !writer.resume() {
            return;
        }
        for key in writer.take_waiting() {
            if playbacks.get(key).is_some_and(|entry| entry.playback.waits_for_room()) {
                wheel.set(key, 0);
            }
        }
    }
}
