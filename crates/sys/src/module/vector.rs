//! `sendfilew`: any interleaving of ranges of files and memory, sent as packets or as consecutive bytes.

use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::net::SocketAddrAny;

use super::layout;
use super::run::{MEMORY, address};
use crate::mapping::Mapping;

/// Part of a [`Vector`]: at least one byte of a file, of a mapping, or of memory that is copied.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Part<'a> {
    raw: layout::Part,
    borrowed: PhantomData<&'a [u8]>,
}

impl<'a> Part<'a> {
    /// Placeholder for arrays of parts. The kernel refuses it.
    pub const EMPTY: Part<'static> = Part::new(MEMORY, layout::PART_COPY, 0, 0);

    const fn new(file: i32, flags: u32, offset: u64, length: u64) -> Part<'a> {
        Part { raw: layout::Part { file, flags, offset, length }, borrowed: PhantomData }
    }

    /// Range of a regular file, by reference.
    #[inline]
    pub fn of_file(file: BorrowedFd<'a>, offset: u64, length: u64) -> Part<'a> {
        Part::new(file.as_raw_fd(), 0, offset, length)
    }

    /// Range of a mapping, by reference.
    ///
    /// # Errors
    /// `EINVAL` for a range outside the mapping.
    pub fn of_mapping(mapping: &'a Mapping, range: Range<usize>) -> io::Result<Part<'a>> {
        let vector = mapping.vector(range)?;
        Ok(Part::new(MEMORY, 0, address(vector.iov_base), vector.iov_len as u64))
    }

    /// Copied bytes.
    #[inline]
    pub fn of_bytes(bytes: &'a [u8]) -> Part<'a> {
        Part::new(MEMORY, layout::PART_COPY, address(bytes.as_ptr()), bytes.len() as u64)
    }

    /// Marks the part as the last of a packet; on TCP, as the last before data may leave without waiting for
    /// more.
    #[inline]
    pub fn at_end(mut self) -> Part<'a> {
        self.raw.flags |= layout::PART_END;
        self
    }
}

/// Parts to send to a UDP or TCP socket, and their progress.
#[derive(Clone, Debug)]
pub struct Vector<'a> {
    raw: layout::Vector,
    borrowed: PhantomData<&'a [u8]>,
}

impl<'a> Vector<'a> {
    /// Vector of all `parts`, of which the kernel accepts up to [`layout::PART_COUNT_MAX`].
    pub fn new(parts: &'a [Part<'a>]) -> Vector<'a> {
        let raw = layout::Vector {
            size: size_of::<layout::Vector>() as u32,
            part_count: u32::try_from(parts.len()).unwrap_or(u32::MAX),
            parts: address(parts.as_ptr()),
            part_bytes: size_of::<layout::Part>() as u32,
            ..layout::Vector::default()
        };
        Vector { raw, borrowed: PhantomData }
    }

    /// Sends to this address instead of the (UDP) socket's connected peer.
    pub fn to(mut self, to: &'a SocketAddrAny) -> Vector<'a> {
        self.raw.address = address(to.as_ptr());
        self.raw.address_bytes = to.addr_len();
        self
    }

    /// Copies all parts.
    pub fn copied(mut self) -> Vector<'a> {
        self.raw.flags |= layout::COPY;
        self
    }

    /// Never waits, neither for room in the socket nor for storage.
    pub fn without_waiting(mut self) -> Vector<'a> {
        self.raw.flags |= layout::DONTWAIT;
        self
    }

    /// Bytes of the vector sent by all calls.
    pub fn bytes(&self) -> u64 {
        self.raw.bytes
    }

    /// Packets sent (UDP), or the module's calls into TCP.
    pub fn packets(&self) -> u64 {
        self.raw.packets
    }

    /// Bytes of files and mappings that were copied, as far as the module knows.
    pub fn copied_bytes(&self) -> u64 {
        self.raw.copied_bytes
    }

    /// Structure for the kernel.
    pub(super) fn prepare(&mut self, socket: BorrowedFd<'_>) -> *mut layout::Vector {
        self.raw.socket = socket.as_raw_fd();
        &raw mut self.raw
    }
}
