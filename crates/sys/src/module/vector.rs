//! `sendfilew`: any interleaving of ranges of files and memory, sent as packets or as consecutive bytes.

use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::net::SocketAddrAny;

use super::layout;
use super::run::{MEMORY, address};
use crate::mapping::Mapping;

/// A part of a [`Vector`]: at least one byte of a file, of a mapping, or of memory that is copied.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Part<'a> {
    raw: layout::Part,
    borrowed: PhantomData<&'a [u8]>,
}

impl<'a> Part<'a> {
    /// None yet: to make room for parts with. The kernel refuses it.
    pub const EMPTY: Part<'static> = Part::new(MEMORY, layout::PART_COPY, 0, 0);

    const fn new(file: i32, flags: u32, offset: u64, length: u64) -> Part<'a> {
        Part { raw: layout::Part { file, flags, offset, length }, borrowed: PhantomData }
    }

    /// A range of a regular file, by reference.
    #[inline]
    pub fn of_file(file: BorrowedFd<'a>, offset: u64, length: u64) -> Part<'a> {
        Part::new(file.as_raw_fd(), 0, offset, length)
    }

    /// A range of a mapping, by reference.
    ///
    /// # Errors
    /// `EINVAL` for a range outside the mapping.
    pub fn of_mapping(mapping: &'a Mapping, range: Range<usize>) -> io::Result<Part<'a>> {
        let vector = mapping.vector(range)?;
        Ok(Part::new(MEMORY, 0, address(vector.iov_base), vector.iov_len as u64))
    }

    /// Bytes, which are copied.
    #[inline]
    pub fn of_bytes(bytes: &'a [u8]) -> Part<'a> {
        Part::new(MEMORY, layout::PART_COPY, address(bytes.as_ptr()), bytes.len() as u64)
    }

    /// The same as the last part of a packet; on TCP, of what waits for nothing more.
    #[inline]
    pub fn at_end(mut self) -> Part<'a> {
        self.raw.flags |= layout::PART_END;
        self
    }
}

/// Parts to be sent to a UDP or TCP socket, and what was sent of them.
#[derive(Clone, Debug)]
pub struct Vector<'a> {
    raw: layout::Vector,
    borrowed: PhantomData<&'a [u8]>,
}

impl<'a> Vector<'a> {
    /// All of `parts`, of which the kernel takes up to [`layout::PART_COUNT_MAX`].
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

    /// To this address and not to whom the (UDP) socket is connected.
    pub fn to(mut self, to: &'a SocketAddrAny) -> Vector<'a> {
        self.raw.address = address(to.as_ptr());
        self.raw.address_bytes = to.addr_len();
        self
    }

    /// All of it is copied.
    pub fn copied(mut self) -> Vector<'a> {
        self.raw.flags |= layout::COPY;
        self
    }

    /// Never waits: not for room in the socket, nor for storage.
    pub fn without_waiting(mut self) -> Vector<'a> {
        self.raw.flags |= layout::DONTWAIT;
        self
    }

    /// Bytes of the vector that were sent, by all calls.
    pub fn bytes(&self) -> u64 {
        self.raw.bytes
    }

    /// Packets that were sent (UDP), or the module's calls into TCP.
    pub fn packets(&self) -> u64 {
        self.raw.packets
    }

    /// Bytes of files and mappings that were copied, as far as the module can tell.
    pub fn copied_bytes(&self) -> u64 {
        self.raw.copied_bytes
    }

    /// The structure for the kernel.
    pub(super) fn prepare(&mut self, socket: BorrowedFd<'_>) -> *mut layout::Vector {
        self.raw.socket = socket.as_raw_fd();
        &raw mut self.raw
    }
}
