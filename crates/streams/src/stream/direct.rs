//! Streams whose bytes nobody looks at: they go from one descriptor to another, or to several, through pipes of the kernel, and are
//! never copied to the program and back. From a file to a connection `sendfile` does it without a pipe.
//!
//! That is done where there is one input without framing, no handler, outputs that wait, and a pattern that gives everything to one
//! or to all. When that changes, what is in pipes leaves first.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;
use wirepath_datapath::{Pipe, SendError, sendfile};

use super::{Input, Job, Order, Output, Storage, Stream, StreamError};
use crate::object::{Kind, Object, ObjectError, StoredFile};
use crate::pattern::Spread;

/// Most bytes that one call of `sendfile` is asked for.
const SENDFILE: usize = 1 << 20;

impl Stream {
    /// Takes from the input what all outputs get, when they have sent what they had; answers whether anything was done.
    pub(super) fn move_unseen(&mut self, now_us: u64) -> Result<bool, StreamError> {
        if self.outputs.iter().any(|output| output.held() > 0 || output.busy) {
            return Ok(false);
        }
        match self.fill_pipes(now_us) {
            Err(error) if error.errno == Errno::INVAL => {
                // A terminal, or another thing that takes and gives only what is copied.
                self.settings.moves_unseen = false;
                Ok(true)
            }
            filled => Ok(filled?),
        }
    }

    /// Whether nobody has to look at what moves now.
    pub(super) fn can_move_unseen(&self) -> bool {
        let nothing_waits =
            self.pending.is_empty() && self.outputs.iter().all(|output| output.outbox.is_empty());
        nothing_waits && self.will_move_unseen()
    }

    /// Whether nobody has to look at what comes next: when all that was read has left, it can be moved unseen.
    pub(super) fn will_move_unseen(&self) -> bool {
        let [input] = &self.inputs[..] else { return false };
        let to_all_or_one = match &self.spread {
            Spread::Mirror => !self.outputs.is_empty(),
            Spread::Turns(_) | Spread::Capacity { .. } => self.outputs.len() == 1,
            Spread::Bytes { .. } | Spread::Shares(_) => false,
        };
        self.settings.moves_unseen
            && to_all_or_one
            && self.chain.is_empty()
            && matches!(self.order, Order::Turns(_) | Order::Arrival { .. })
            && input.can_be_moved_unseen()
            && self.outputs.iter().all(|output| output.takes_unseen(self.outputs.len()))
    }

    /// Takes from the input what all outputs get.
    fn fill_pipes(&mut self, now_us: u64) -> Result<bool, ObjectError> {
        let [input] = &mut self.inputs[..] else { return Ok(false) };
        if !input.readable || input.busy || input.at_end {
            return Ok(false);
        }
        let is_file = matches!(input.object.kind, Kind::File(_));
        let sends_file =
            is_file && matches!(&self.outputs[..], [one] if matches!(one.object.kind, Kind::Stream(_)));
        if !sends_file && !have_equal_pipes(&mut self.outputs) {
            // No descriptor is left, or this user's pipes have used up their pages: then tee would not have room for all.
            self.settings.moves_unseen = false;
            return Ok(true);
        }
        let filled = match &mut self.outputs[..] {
            [Output { object: Object { kind: Kind::Stream(connection), .. }, .. }] if sends_file => {
                let connection = connection.descriptor.as_fd();
                let sent = input.send_file(connection)?;
                if let Sent::Bytes(bytes) = sent {
                    let output = &mut self.outputs[0];
                    output.note_taken(bytes, now_us);
                    self.counts.bytes_out += bytes as u64;
                }
                sent
            }
            [first, others @ ..] => {
                let pipe = first.pipe()?;
                let sent = input.fill_pipe(pipe)?;
                for other in others {
                    let pipe = first.pipe.as_ref().filter(|pipe| pipe.held() > 0);
                    let (Some(pipe), Some(into)) = (pipe, &mut other.pipe) else { break };
                    pipe.copy_to(into).map_err(|errno| other.object.error("tee", errno))?;
                }
                sent
            }
            [] => return Ok(false),
        };
        match filled {
            Sent::Bytes(bytes) => {
                input.bytes += bytes as u64;
                self.counts.bytes_in += bytes as u64;
                self.counts.bytes_unseen += bytes as u64;
            }
            Sent::Nothing => {
                input.readable = false;
                self.put_pipes_away();
                return Ok(false);
            }
            Sent::Full => {
                self.outputs[0].writable = false;
                return Ok(false);
            }
            Sent::End => input.at_end = true,
            Sent::Cold(file, range) => {
                input.busy = true;
                self.storage.push(Storage { port: input.port, job: Job::Warm(file, range) });
            }
        }
        Ok(true)
    }

    /// While nothing comes, others may need pipes more.
    fn put_pipes_away(&mut self) {
        self.outputs.iter_mut().filter_map(|output| output.pipe.take()).for_each(Pipe::put_away);
    }
}

/// Gives every output a pipe; answers whether all have one, of one size.
fn have_equal_pipes(outputs: &mut [Output]) -> bool {
    let rooms = outputs.iter_mut().map(|output| output.pipe().ok().map(|pipe| pipe.room()));
    let rooms: Option<Vec<usize>> = rooms.collect();
    rooms.is_some_and(|rooms| rooms.windows(2).all(|pair| pair[0] == pair[1]))
}

/// What came of moving.
enum Sent {
    Bytes(usize),
    /// The input has nothing now.
    Nothing,
    /// The output has no room now.
    Full,
    End,
    /// To be brought into memory first.
    Cold(Arc<File>, Range<u64>),
}

impl Input {
    fn can_be_moved_unseen(&self) -> bool {
        let movable = match &self.object.kind {
            Kind::Stream(connection) => !connection.is_file,
            Kind::File(_) => true,
            _ => false,
        };
        let nothing_seen = self.buffer.is_empty() && self.ready.is_empty() && self.object.unread.is_empty();
        movable && nothing_seen && self.splitter.is_whole() && !self.at_end && self.detach.is_none()
    }

    fn fill_pipe(&mut self, pipe: &mut Pipe) -> Result<Sent, ObjectError> {
        let room = pipe.room();
        let filled = match &mut self.object.kind {
            Kind::Stream(connection) => match connection.room(room) {
                0 => Ok(0),
                room => {
                    let filled = pipe.fill(connection.descriptor.as_fd(), None, room);
                    connection.left -= filled.unwrap_or(0) as u64;
                    filled
                }
            },
            Kind::File(file) => match file.warm_room(room) {
                Ok(0) => Ok(0),
                Ok(room) => {
                    let mut offset = file.offset;
                    let filled = pipe.fill(file.file.as_fd(), Some(&mut offset), room);
                    file.offset += filled.unwrap_or(0) as u64;
                    filled
                }
                Err((file, range)) => return Ok(Sent::Cold(file, range)),
            },
            _ => Err(Errno::INVAL),
        };
        match filled {
            Ok(0) => Ok(Sent::End),
            Ok(bytes) => Ok(Sent::Bytes(bytes)),
            Err(Errno::AGAIN) => Ok(Sent::Nothing),
            Err(errno) => Err(self.object.error("splice", errno)),
        }
    }

    /// From a file straight to a connection.
    fn send_file(&mut self, connection: std::os::fd::BorrowedFd<'_>) -> Result<Sent, ObjectError> {
        let Kind::File(file) = &mut self.object.kind else { return Ok(Sent::Nothing) };
        let room = match file.warm_room(SENDFILE) {
            Ok(0) => return Ok(Sent::End),
            Ok(room) => room,
            Err((file, range)) => return Ok(Sent::Cold(file, range)),
        };
        match sendfile::to_stream(connection, &file.file, file.offset, room) {
            Ok(bytes) => {
                file.offset += bytes as u64;
                Ok(Sent::Bytes(bytes))
            }
            Err(SendError::Full { .. }) => Ok(Sent::Full),
            Err(SendError::Storage { errno: Errno::NODATA, .. }) => Ok(Sent::End),
            Err(
                SendError::Unsupported { call, errno }
                | SendError::NetworkDown { call, errno }
                | SendError::Storage { call, errno }
                | SendError::Other { call, errno },
            ) => Err(self.object.error(call, errno)),
            Err(SendError::Refused { call }) => Err(self.object.error(call, Errno::CONNREFUSED)),
        }
    }
}

impl Output {
    fn takes_unseen(&self, outputs: usize) -> bool {
        let movable = match &self.object.kind {
            Kind::Stream(connection) => !connection.is_file,
            Kind::File(_) => outputs == 1,
            _ => false,
        };
        movable && self.chain.is_empty() && self.outbox.waits() && self.detach.is_none()
    }

    /// Bytes that wait in its pipe.
    pub(super) fn held(&self) -> usize {
        self.pipe.as_ref().map_or(0, Pipe::held)
    }

    fn pipe(&mut self) -> Result<&mut Pipe, ObjectError> {
        if self.pipe.is_none() {
            self.pipe = Some(Pipe::empty().map_err(|errno| self.object.error("pipe2", errno))?);
        }
        self.pipe.as_mut().ok_or_else(|| self.object.error("pipe2", Errno::MFILE))
    }

    /// Takes of its pipe; answers how many bytes, or None if nothing could be done.
    pub(super) fn drain_pipe(
        &mut self,
        storage: &mut Vec<Storage>,
        now_us: u64,
    ) -> Result<Option<usize>, ObjectError> {
        let Some(pipe) = self.pipe.as_mut().filter(|pipe| pipe.held() > 0) else { return Ok(None) };
        if !self.writable || self.busy {
            return Ok(None);
        }
        let drained = match &mut self.object.kind {
            Kind::Stream(connection) => pipe.drain(connection.descriptor.as_fd(), None, false),
            Kind::File(StoredFile { file, offset, .. }) => {
                let (file, at, held) = (Arc::clone(file), *offset, pipe.held());
                *offset += held as u64;
                self.busy = true;
                if let Some(pipe) = self.pipe.take() {
                    storage.push(Storage { port: self.port, job: Job::Drain { pipe, file, offset: at } });
                }
                return Ok(Some(0));
            }
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
            Err(errno) => Err(self.object.error("splice", errno)),
        }
    }

    pub(super) fn note_taken(&mut self, bytes: usize, now_us: u64) {
        self.bytes += bytes as u64;
        self.lately.add(bytes, now_us);
        if let Kind::File(StoredFile { growth: Some(growth), .. }) = &self.object.kind {
            growth.add(bytes as u64);
        }
    }
}
