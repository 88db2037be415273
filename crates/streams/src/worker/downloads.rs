//! Downloads on an engine thread.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rustix::event::epoll;
use rustix::io::Errno;
use wirepath_datapath::{SendError, socket};

use super::{Command, Task, Work, Worker};
use crate::blocking::warm;
use crate::clock::now_us;
use crate::download::{DownloadError, DownloadTask, Turn, Waiting};
use crate::panics::caught;
use crate::playback::RETRY_US;
use crate::schedule::Cost;
use crate::standstill::{STANDSTILL_LOOKS, Standstill};

impl Worker {
    /// Gives a download a turn.
    pub(super) fn turn(&mut self, key: usize) {
        let begun_ns = self.processor_ns();
        let Some(Task { id, work: Work::Download(task) }) = self.tasks.get_mut(key) else { return };
        let (id, before) = (*id, task.sent());
        let turn = task.turn();
        let (sent, now_us) = (task.sent() - before, now_us());
        if sent > 0 {
            self.sending.counters.download_octets.add(sent);
        }
        let cost = Cost { shared: self.processor_ns_since(begun_ns).unwrap_or(sent), rated: sent };
        self.scheduler.acted(key, cost, matches!(turn, Turn::More), now_us);
        let Some(Task { work: Work::Download(task), .. }) = self.tasks.get_mut(key) else { return };
        match turn {
            Turn::More => {}
            Turn::Full => {
                task.waiting = Waiting::Room;
                self.look_later(key, now_us);
            }
            Turn::Over(error) => self.end_download(key, error),
            Turn::CaughtUp(growth, there) => {
                task.waiting = Waiting::Growth;
                if !growth.tell(there, &self.mailbox, id) {
                    self.rouse(key, Waiting::Growth);
                }
            }
            Turn::Cold(file, range) => {
                self.sending.counters.cold_waits.add(1);
                let mailbox = Arc::clone(&self.mailbox);
                let job = move || {
                    // It waits for an answer, so a panic is one as well.
                    let warmed = caught(|| warm(&file, range.clone()));
                    let result =
                        warmed.unwrap_or_else(|words| Err(io::Error::other(words))).map(|()| range.end);
                    mailbox.send(Command::Warmed { id, result });
                };
                if self.readers.submit(job) {
                    task.waiting = Waiting::Storage;
                } else {
                    self.wheel.set(key, now_us + RETRY_US); // the readers have too much to do
                }
            }
        }
    }

    /// Has a download take a turn, if it waits for what has come.
    pub(super) fn rouse(&mut self, key: usize, what_came: Waiting) {
        if let Some(Task { work: Work::Download(task), .. }) = self.tasks.get_mut(key)
            && task.waiting == what_came
        {
            task.waiting = Waiting::Turn;
            self.wheel.cancel(key);
            self.scheduler.ready(key);
        }
    }

    /// Ends a download of which nothing has come any further for too long, or looks again later.
    pub(super) fn check_stall(&mut self, key: usize, now_us: u64) {
        let Some(Task { work: Work::Download(task), .. }) = self.tasks.get_mut(key) else { return };
        let on_its_way = socket::unacknowledged(task.socket.as_fd()).unwrap_or(0);
        if task.standstill.of((task.sent(), on_its_way), now_us) >= self.options.download_stall_us {
            self.end_download(key, Some(DownloadError::Stalled));
        } else {
            self.look_later(key, now_us);
        }
    }

    fn look_later(&mut self, key: usize, now_us: u64) {
        self.wheel.set(key, now_us + self.options.download_stall_us / u64::from(STANDSTILL_LOOKS));
    }

    pub(super) fn add_download(&mut self, id: u64, task: Box<DownloadTask>) {
        let key = self.add(id, Work::Download(task));
        self.scheduler.add(key, 0, None);
        let Some(Task { work: Work::Download(task), .. }) = self.tasks.get(key) else { return };
        let data = epoll::EventData::new_u64(key as u64);
        let flags = epoll::EventFlags::OUT | epoll::EventFlags::ET;
        match epoll::add(&self.epoll, &task.socket, data, flags) {
            Ok(()) => self.rouse(key, Waiting::Room),
            Err(errno) => {
                self.end_download(key, Some(SendError::Other { call: "epoll_ctl", errno }.into()));
            }
        }
    }

    pub(super) fn grew(&mut self, id: u64) {
        let Some(key) = self.keys.get(&id).copied() else { return };
        if let Some(Task { work: Work::Download(task), .. }) = self.tasks.get_mut(key) {
            task.standstill = Standstill::default(); // it was not the client who took nothing until now
        }
        self.rouse(key, Waiting::Growth);
    }

    pub(super) fn warmed(&mut self, id: u64, result: io::Result<u64>) {
        let Some(key) = self.keys.get(&id).copied() else { return };
        let Some(Task { work: Work::Download(task), .. }) = self.tasks.get_mut(key) else { return };
        match result {
            Ok(until) => {
                task.warmed(until);
                self.rouse(key, Waiting::Storage);
            }
            Err(error) => {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                self.end_download(key, Some(SendError::Storage { call: "pread", errno }.into()));
            }
        }
    }

    pub(super) fn end_download(&mut self, key: usize, error: Option<DownloadError>) {
        let Some(Task { work: Work::Download(task), .. }) = self.tasks.get_mut(key) else { return };
        // The caller holds the same connection under another descriptor, so closing ours would not remove it here.
        if let Err(errno) = epoll::delete(&self.epoll, &task.socket)
            && errno != Errno::NOENT
        {
            tracing::error!(%errno, "a connection could not be taken out of epoll");
        }
        task.end(error);
        self.forget(key);
        self.sending.counters.downloads.fetch_sub(1, Relaxed);
    }
}
