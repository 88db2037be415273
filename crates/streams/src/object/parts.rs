//! A sequence of file extents and bytes in memory: the body of a response.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use wirepath_datapath::{PageCache, SendError, sendfile};

use super::outcome::{ReadOutcome, ReadResult, SendOutcome, TRUNCATED, Unread};
use super::{Connection, Extents, Kind, Object, StoredFile};
use crate::write_progress::WriteProgress;

/// A part of an [`Object::parts`].
#[derive(Debug)]
pub enum ObjectPart {
    /// These bytes.
    Bytes(Bytes),
    /// An extent of a file.
    Extent {
        /// The file.
        file: Arc<File>,
        /// First byte and the byte after the last.
        range: Range<u64>,
    },
    /// Many extents of a file.
    Extents(Extents),
    /// An extent of a file that is still being written, read up to the write progress.
    Following {
        /// The file.
        file: Arc<File>,
        /// First byte and the byte after the last.
        range: Range<u64>,
        /// Progress of the writer.
        progress: Arc<WriteProgress>,
    },
}

impl ObjectPart {
    /// Length in bytes.
    pub fn length(&self) -> u64 {
        match self {
            ObjectPart::Bytes(bytes) => bytes.len() as u64,
            ObjectPart::Extent { range, .. } | ObjectPart::Following { range, .. } => range.end - range.start,
            ObjectPart::Extents(extents) => extents.bytes(),
        }
    }

    /// File of the part; None for bytes in memory.
    pub fn file(&self) -> Option<&Arc<File>> {
        match self {
            ObjectPart::Bytes(_) => None,
            ObjectPart::Extent { file, .. } | ObjectPart::Following { file, .. } => Some(file),
            ObjectPart::Extents(extents) => Some(extents.file()),
        }
    }

    /// Returns whether the whole part is in memory now; for many extents, those that the next call can send.
    /// Pages that are being read count as in memory, so [`ObjectPart::send`] may wait for a read that is
    /// under way, but starts none. Bytes that a writer has yet to write do not count.
    pub fn is_in_memory(&self) -> bool {
        match self {
            ObjectPart::Bytes(_) => true,
            ObjectPart::Extent { file, range } => PageCache::of(file, range.clone()) != PageCache::Cold,
            ObjectPart::Extents(extents) => extents.is_trusted() || extents.is_in_memory(),
            ObjectPart::Following { .. } => false,
        }
    }

    /// Same as [`ObjectPart::is_in_memory`], for all extents. More than a mebibyte of extents, or more than
    /// 1024 extents, count as not in memory.
    pub fn is_all_in_memory(&self) -> bool {
        let has_more = matches!(self, ObjectPart::Extents(extents) if extents.has_more());
        !has_more && self.is_in_memory()
    }

    /// Returns whether [`ObjectPart::is_in_memory`] has to be called before each send, because its answer was
    /// for other extents.
    pub fn goes_in_windows(&self) -> bool {
        matches!(self, ObjectPart::Extents(_))
    }

    /// Sends the front of the part, of a file at most `most` bytes, to a non-blocking TCP connection, and
    /// keeps the rest. Holds back a segment that is not full if `is_followed`: more follows at once.
    ///
    /// # Errors
    /// `WouldBlock` if the connection is full; `Unsupported` for bytes that a writer has yet to write;
    /// otherwise the file is truncated or cannot be read, or the connection has failed.
    pub fn send(&mut self, socket: impl AsFd, most: u64, is_followed: bool) -> io::Result<SendOutcome> {
        match self {
            ObjectPart::Bytes(bytes) => {
                let sent = send(socket, bytes, flags(is_followed))?;
                bytes.advance(sent);
                Ok(SendOutcome { bytes: sent, fills_socket: !bytes.is_empty() })
            }
            ObjectPart::Extent { file, range } => {
                let length = most.min(range.end - range.start) as usize;
                let sent = sendfile::to_stream(socket, file, range.start, length).map_err(io_error)?;
                range.start += sent as u64;
                // A short send may also be due to a truncated file: only the next call can tell.
                Ok(SendOutcome { bytes: sent, fills_socket: false })
            }
            ObjectPart::Extents(extents) => {
                // Pages found in memory are trusted from then on, for a limited time.
                if !extents.is_trusted() {
                    extents.note_warm();
                }
                extents.send(socket.as_fd(), true, most, is_followed).map_err(io_error)
            }
            ObjectPart::Following { .. } => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

fn io_error(error: SendError) -> io::Error {
    match error {
        SendError::Full { .. } => io::ErrorKind::WouldBlock.into(),
        SendError::Storage { errno: Errno::NODATA, .. } => io::Error::other(TRUNCATED),
        error => io::Error::other(error),
    }
}

fn flags(is_followed: bool) -> SendFlags {
    let more = if is_followed { SendFlags::MORE } else { SendFlags::empty() };
    SendFlags::DONTWAIT | SendFlags::NOSIGNAL | more
}

pub(crate) struct ObjectParts {
    waiting: VecDeque<Source>,
    /// Parts that were read; kept until the stream is dropped, because closing a file may block.
    done: Vec<Source>,
}

pub(crate) enum Source {
    Bytes(Bytes),
    File(StoredFile),
    Extents(Extents),
}

impl Object {
    /// A sequence of file extents and bytes in memory. To a connection they leave by `sendfile`, without a
    /// copy to the program.
    pub fn parts(name: &str, parts: Vec<ObjectPart>) -> Object {
        let waiting = parts.into_iter().map(Source::from).collect();
        Object::new(name, Kind::Parts(ObjectParts { waiting, done: Vec::new() }))
    }
}

impl From<ObjectPart> for Source {
    fn from(part: ObjectPart) -> Source {
        let file = |file, range: Range<u64>, follows| {
            let Range { start: offset, end } = range;
            Source::File(StoredFile { offset, end, follows, ..StoredFile::new(file) })
        };
        match part {
            ObjectPart::Bytes(bytes) => Source::Bytes(bytes),
            ObjectPart::Extent { file: of, range } => file(of, range, None),
            ObjectPart::Following { file: of, range, progress } => file(of, range, Some(progress)),
            ObjectPart::Extents(extents) => Source::Extents(extents),
        }
    }
}

impl Source {
    fn is_read(&self) -> bool {
        match self {
            Source::Bytes(bytes) => bytes.is_empty(),
            Source::File(file) => file.offset >= file.end,
            Source::Extents(extents) => extents.is_read(),
        }
    }

    fn may_wait(&self) -> bool {
        matches!(self, Source::File(StoredFile { follows: Some(_), .. }))
    }
}

impl ObjectParts {
    /// The next part, and whether bytes follow it that can be sent at once.
    pub(crate) fn next(&mut self) -> Option<(&mut Source, bool)> {
        while self.waiting.front().is_some_and(Source::is_read) {
            self.done.extend(self.waiting.pop_front());
        }
        let next = self.waiting.iter().skip(1).find(|next| !next.is_read());
        let is_followed = next.is_some_and(|next| !next.may_wait());
        self.waiting.front_mut().map(|front| (front, is_followed))
    }

    pub(super) fn read_into(&mut self, buffer: &mut BytesMut, room: usize) -> ReadResult {
        match self.next() {
            None => Ok(ReadOutcome::End),
            Some((Source::Bytes(bytes), _)) => {
                let length = room.min(bytes.len());
                buffer.extend_from_slice(&bytes[..length]);
                bytes.advance(length);
                Ok(ReadOutcome::Bytes(length))
            }
            Some((Source::File(file), _)) => match file.read_into(buffer, room)? {
                ReadOutcome::End => Err(Unread::Failed(TRUNCATED, Errno::NODATA)),
                outcome => Ok(outcome),
            },
            Some((Source::Extents(extents), _)) => extents.read_into(buffer, room),
        }
    }
}

impl Connection {
    /// Sends the front of bytes in memory. Holds back a segment that is not full if more follows at once, so
    /// that a head leaves together with its body.
    pub(crate) fn send_bytes(&self, bytes: &mut Bytes, is_followed: bool) -> Result<usize, Errno> {
        let sent = if self.is_socket {
            send(&self.descriptor, bytes, flags(is_followed))?
        } else {
            rustix::io::write(&self.descriptor, bytes)?
        };
        bytes.advance(sent);
        Ok(sent)
    }
}
