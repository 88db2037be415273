//! The zero-copy route from one input: into a pipe, or directly to a connection.

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use wirepath_datapath::{Pipe, SendError, sendfile};

use super::Fault;
use crate::intake::Input;
use crate::object::{
    Awaited, Connection, Extents, Kind, Mapped, Object, ObjectError, Source, StoredFile, TRUNCATED, Unread,
};

/// Result of moving bytes.
pub(super) enum Moved {
    Bytes(usize),
    /// Bytes of a dropped record.
    Dropped(usize),
    /// The input has nothing now.
    Nothing,
    /// The output has no room now.
    Full,
    /// The output has to send its earlier bytes first.
    Wait,
    /// The bytes have to be copied from now on.
    Copied,
    End,
    /// The input has to wait for this event.
    Blocked(Awaited),
}

impl Input {
    /// Moves up to `room` bytes into a pipe.
    pub(super) fn fill_pipe(&mut self, pipe: &mut Pipe, room: usize) -> Result<Moved, ObjectError> {
        let room = room.min(pipe.room());
        let filled = match &mut self.object.kind {
            Kind::Stream(connection) => match connection.fill_pipe(pipe, room) {
                Ok(0) if connection.has_urgent => return Ok(Moved::Copied),
                filled => filled.map_err(|errno| Unread::Failed("splice", errno)),
            },
            Kind::File(file) => file.available(room).and_then(|room| file.fill_pipe(pipe, room)),
            Kind::Mapping(mapped) => mapped.available(room).and_then(|room| mapped.fill_pipe(pipe, room)),
            _ => Err(Unread::Failed("splice", Errno::INVAL)),
        };
        match filled {
            Ok(0) => Ok(Moved::End),
            Ok(bytes) => Ok(Moved::Bytes(bytes)),
            Err(Unread::Failed(_, Errno::AGAIN)) => Ok(Moved::Nothing),
            Err(Unread::Failed(call, errno)) => Err(self.object.error(call, errno)),
            Err(Unread::Blocked(awaited)) => Ok(Moved::Blocked(awaited)),
        }
    }

    /// Sends up to `room` bytes of a file directly to a connection, which is the output at `place`.
    pub(super) fn send_file(&mut self, to: &Object, place: usize, room: usize) -> Result<Moved, Fault> {
        let Kind::Stream(connection) = &to.kind else { return Ok(Moved::Nothing) };
        let moved = match &mut self.object.kind {
            Kind::File(file) => file.send_to(connection, room),
            Kind::Parts(parts) => match parts.next() {
                None => Ok(Moved::End),
                Some((Source::File(file), _)) => match file.send_to(connection, room) {
                    Ok(Moved::End) => Err(Side::Input(TRUNCATED, Errno::NODATA)),
                    moved => moved,
                },
                Some((Source::Extents(extents), is_followed)) => {
                    extents.send_to(connection, room, is_followed)
                }
                Some((Source::Bytes(bytes), is_followed)) => {
                    match connection.send_bytes(bytes, is_followed) {
                        Ok(bytes) => Ok(Moved::Bytes(bytes)),
                        Err(Errno::AGAIN) => Ok(Moved::Full),
                        Err(errno) => Err(Side::Output("send", errno)),
                    }
                }
            },
            _ => Ok(Moved::Nothing),
        };
        moved.map_err(|side| match side {
            Side::Input(call, errno) => Fault::Input(self.object.error(call, errno)),
            Side::Output(call, errno) => Fault::Output(place, to.error(call, errno)),
        })
    }
}

/// The side whose call failed.
enum Side {
    Input(&'static str, Errno),
    Output(&'static str, Errno),
}

impl StoredFile {
    fn fill_pipe(&mut self, pipe: &mut Pipe, room: usize) -> Result<usize, Unread> {
        if room == 0 {
            return Ok(0);
        }
        let mut offset = self.offset;
        let filled = pipe.fill(self.file.as_fd(), Some(&mut offset), room);
        self.offset += filled.unwrap_or(0) as u64;
        filled.map_err(|errno| Unread::Failed("splice", errno))
    }

    /// Sends up to `room` bytes directly to a connection.
    fn send_to(&mut self, connection: &Connection, room: usize) -> Result<Moved, Side> {
        let room = match self.available(room) {
            Ok(0) => return Ok(Moved::End),
            Ok(room) => room,
            Err(Unread::Blocked(awaited)) => return Ok(Moved::Blocked(awaited)),
            Err(Unread::Failed(call, errno)) => return Err(Side::Input(call, errno)),
        };
        match sendfile::to_stream(connection.descriptor.as_fd(), &self.file, self.offset, room) {
            Ok(bytes) => {
                self.offset += bytes as u64;
                Ok(Moved::Bytes(bytes))
            }
            Err(SendError::Storage { errno: Errno::NODATA, .. }) => Ok(Moved::End),
            Err(error) => not_sent(error),
        }
    }
}

impl Extents {
    /// Sends up to about `room` bytes directly to a connection.
    fn send_to(&mut self, connection: &Connection, room: usize, is_followed: bool) -> Result<Moved, Side> {
        let socket = connection.descriptor.as_fd();
        match self.send_warm(socket, connection.is_socket, room as u64, is_followed) {
            Err(awaited) => Ok(Moved::Blocked(awaited)),
            Ok(Ok(outcome)) => Ok(Moved::Bytes(outcome.bytes)),
            Ok(Err(SendError::Storage { errno: Errno::NODATA, .. })) => {
                Err(Side::Input(TRUNCATED, Errno::NODATA))
            }
            Ok(Err(error)) => not_sent(error),
        }
    }
}

fn not_sent(error: SendError) -> Result<Moved, Side> {
    match error {
        SendError::Full { .. } => Ok(Moved::Full),
        SendError::Storage { call, errno } => Err(Side::Input(call, errno)),
        SendError::Unsupported { call, errno }
        | SendError::NetworkDown { call, errno }
        | SendError::Other { call, errno } => Err(Side::Output(call, errno)),
        SendError::Refused { call } => Err(Side::Output(call, Errno::CONNREFUSED)),
    }
}

impl Mapped {
    fn fill_pipe(&mut self, pipe: &mut Pipe, room: usize) -> Result<usize, Unread> {
        if room == 0 {
            return Ok(0);
        }
        let filled = pipe.fill_from(&self.mapping, self.offset..self.offset + room);
        self.offset += filled.unwrap_or(0);
        filled.map_err(|errno| Unread::Failed("splice", errno))
    }
}

impl Connection {
    /// Moves up to `room` bytes; 0 at the end, or before urgent data.
    fn fill_pipe(&mut self, pipe: &mut Pipe, room: usize) -> Result<usize, Errno> {
        let room = self.room(room);
        if room == 0 {
            return Ok(0);
        }
        let filled = pipe.fill(self.descriptor.as_fd(), None, room)?;
        self.left -= filled as u64;
        self.has_urgent = filled == 0 && !self.has_ended()?;
        Ok(filled)
    }

    /// Returns whether the peer has ended when `splice` reports the end: it also reports the end before
    /// urgent data, if the peer has ended after sending it.
    fn has_ended(&self) -> Result<bool, Errno> {
        if !self.is_socket {
            return Ok(true);
        }
        let peeked = recv(&self.descriptor, &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        peeked.map(|(bytes, _)| bytes == 0)
    }
}
