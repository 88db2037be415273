//! The synchronous engine: a stream on its caller's thread (KStreams' `runstream`).

use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, EventData};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{Acted, Stream};
use crate::error::StreamError;
use crate::object::Kind;
use crate::port::Port;
use crate::shared::WRITING;
use wirepath_engine::now_us;

/// Bytes of a turn.
const ALLOWANCE: u64 = 4 * 1024 * 1024;

impl Stream {
    /// Runs the stream until its inputs end or it fails. [`Stream::status`] reports the progress.
    ///
    /// # Errors
    /// The error that ended the stream.
    pub fn run(&mut self) -> Result<(), StreamError> {
        let ended = self.run_to_its_end();
        // Pending writes are completed: otherwise the number of written bytes would be unknown.
        let ended = ended.and(self.do_storage());
        self.give_back();
        drop(self.take_deferred_drops());
        self.shared.events.end();
        ended
    }

    fn run_to_its_end(&mut self) -> Result<(), StreamError> {
        let mut delivery = None;
        loop {
            let acted = self.act(ALLOWANCE, now_us()).0;
            drop(self.take_deferred_drops());
            match acted {
                Acted::More => {}
                Acted::Wait if self.shared.storage.is_empty() => self.poll()?,
                Acted::Wait => self.do_storage()?,
                Acted::Deliver => self.await_delivery(&mut delivery)?,
                Acted::Ended(ended) => return ended,
            }
        }
    }

    /// Runs all storage jobs, even after one fails.
    fn do_storage(&mut self) -> Result<(), StreamError> {
        let mut result = Ok(());
        for storage in self.take_storage().collect::<Vec<_>>() {
            result = result.and(self.stored(storage.run(), now_us()));
        }
        result
    }

    fn poll(&mut self) -> Result<(), StreamError> {
        let awaited: Vec<(Port, PollFlags, BorrowedFd<'_>)> = self.awaited().collect();
        let look_again_us = self.look_again_us();
        if awaited.is_empty() && look_again_us.is_none() {
            return Err(StreamError::NoOutput(
                "none is attached, or nothing that could be waited for".to_owned(),
            ));
        }
        let mut descriptors: Vec<PollFd<'_>> = awaited
            .iter()
            .map(|(_, flags, descriptor)| PollFd::from_borrowed_fd(*descriptor, *flags))
            .collect();
        let limit = look_again_us.map(timespec);
        match poll(&mut descriptors, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => {
                return Err(crate::ObjectError { name: "stream".to_owned(), call: "poll", errno }.into());
            }
        }
        let ready = awaited.iter().zip(&descriptors).filter(|(_, polled)| !polled.revents().is_empty());
        let ready: Vec<(Port, PollFlags)> =
            ready.map(|((port, _, _), polled)| (*port, polled.revents())).collect();
        for (port, flags) in ready {
            self.note_ready(port);
            if flags.contains(PollFlags::PRI) {
                self.note_urgent(port);
            }
        }
        Ok(())
    }

    /// Waits for a limited time until a peer has acknowledged more. This is an edge, which only epoll
    /// reports: after `shutdown`, `poll` reports room all the time.
    fn await_delivery(&self, epoll: &mut Option<OwnedFd>) -> Result<(), StreamError> {
        let failed = |call| move |errno| crate::ObjectError { name: "stream".to_owned(), call, errno };
        if epoll.is_none() {
            let opened = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed("epoll_create"))?;
            for output in &self.outputs.current {
                let Some(descriptor) = output.object.descriptor() else { continue };
                match epoll::add(&opened, descriptor, EventData::new_u64(output.port.0), WRITING) {
                    Ok(()) | Err(Errno::PERM) => {} // a device that is always ready
                    Err(errno) => return Err(output.object.error("epoll_ctl", errno).into()),
                }
            }
            *epoll = Some(opened);
        }
        let mut events = [const { MaybeUninit::uninit() }; 16];
        let timeout = timespec(self.stall_sample_us());
        match epoll.as_ref().map(|epoll| epoll::wait(epoll, &mut events[..], Some(&timeout))) {
            Some(Err(errno)) if errno != Errno::INTR => Err(failed("epoll_wait")(errno).into()),
            _ => Ok(()),
        }
    }

    fn awaited(&self) -> impl Iterator<Item = (Port, PollFlags, BorrowedFd<'_>)> {
        let reading = self.spread.pending.is_empty() && !self.shared.is_failing();
        let inputs = self.intake.inputs.iter().filter(move |input| reading && !input.readable);
        let inputs = inputs.filter_map(|input| {
            // Urgent data is reported repeatedly, even before it can be read.
            let is_known = matches!(&input.object.kind, Kind::Stream(connection) if connection.has_urgent);
            let flags = if is_known { PollFlags::IN } else { PollFlags::IN | PollFlags::PRI };
            Some((input.port, flags, input.object.descriptor()?))
        });
        let outputs = self
            .outputs
            .all()
            .filter(|output| !output.writable)
            .filter_map(|output| Some((output.port, PollFlags::OUT, output.object.descriptor()?)));
        let expected = self.listening.awaited();
        let expected =
            expected.filter_map(|(port, object)| Some((port, PollFlags::IN, object.descriptor()?)));
        inputs.chain(outputs).chain(expected)
    }
}

fn timespec(us: u64) -> Timespec {
    Timespec { tv_sec: (us / 1_000_000) as i64, tv_nsec: (us % 1_000_000 * 1000) as i64 }
}
