//! The pipe of an output, for the zero-copy route.

use std::os::fd::AsFd;

use rustix::io::Errno;
use wirepath_datapath::Pipe;

use super::Output;
use crate::object::{Kind, ObjectError};
use crate::record::Run;
use crate::shared::Shared;
use crate::storage::{Job, StorageJob};

impl Output {
    /// Returns whether this output, one of `outputs`, supports the zero-copy route.
    pub(super) fn can_zero_copy(&self, outputs: usize) -> bool {
        let movable = match &self.object.kind {
            Kind::Stream(_) => true,
            Kind::File(file) => outputs == 1 && !file.shares_place,
            Kind::Mapping(_) => outputs == 1,
            _ => false,
        };
        movable && self.chain.is_empty() && self.outbox.waits() && self.detach.is_none() && !self.copies
    }

    pub(crate) fn held(&self) -> usize {
        self.pipe.as_ref().map_or(0, Pipe::held)
    }

    pub(crate) fn pipe(&mut self) -> Result<&mut Pipe, ObjectError> {
        if self.pipe.is_none() {
            self.pipe = Some(Pipe::empty().map_err(|errno| self.object.error("pipe2", errno))?);
        }
        self.pipe.as_mut().ok_or_else(|| self.object.error("pipe2", Errno::MFILE))
    }

    /// Drains the pipe; returns the number of bytes, or None if nothing could be done.
    pub(super) fn drain_pipe(
        &mut self,
        shared: &mut Shared,
        now_us: u64,
    ) -> Result<Option<usize>, ObjectError> {
        let Some(pipe) = self.pipe.as_mut().filter(|pipe| pipe.held() > 0) else { return Ok(None) };
        if !self.writable || self.busy {
            return Ok(None);
        }
        if let Some(target) = self.object.target() {
            (self.busy, self.storing) = (true, pipe.held());
            if let Some(pipe) = self.pipe.take() {
                shared.storage.push(StorageJob { port: self.port, job: Job::Drain { pipe, target } });
            }
            return Ok(Some(0));
        }
        let drained = match &self.object.kind {
            Kind::Stream(connection) => pipe.drain(connection.descriptor.as_fd(), None, false),
            _ => Err(Errno::INVAL),
        };
        match drained {
            Ok(bytes) => {
                self.note_taken(bytes, now_us);
                Ok(Some(bytes))
            }
            Err(Errno::AGAIN) => {
                self.writable = false;
                Ok(None)
            }
            // `splice` is not supported: the bytes in the pipe are copied.
            Err(Errno::INVAL) => {
                let bytes = pipe.take().map_err(|errno| self.object.error("read", errno))?;
                self.outbox.push_front(Run::single(bytes, false, false));
                self.copies = true;
                Ok(Some(0))
            }
            Err(errno) => Err(self.object.error("splice", errno)),
        }
    }
}
