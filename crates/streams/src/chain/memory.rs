//! Memory of a run between handlers.

use std::ops::Deref;

use bytes::{Bytes, BytesMut};
use wirepath_datapath::Blocks;

use crate::record::Run;

/// Bytes of a run.
#[derive(Debug)]
pub(crate) enum Memory {
    /// Owned: no other holder, so the bytes may be changed in place.
    Own(BytesMut),
    Shared(Bytes),
}

impl Memory {
    /// Takes the first `length` bytes. Nothing is copied.
    pub(super) fn split_to(&mut self, length: usize) -> Memory {
        match self {
            Memory::Own(bytes) => Memory::Own(bytes.split_to(length)),
            Memory::Shared(bytes) => Memory::Shared(bytes.split_to(length)),
        }
    }

    pub(super) fn freeze(self) -> Bytes {
        match self {
            Memory::Own(bytes) => bytes.freeze(),
            Memory::Shared(bytes) => bytes,
        }
    }

    /// Converts to owned bytes; copies them if they are shared.
    pub(super) fn into_own(self, blocks: &mut Blocks) -> BytesMut {
        match self {
            Memory::Own(bytes) => bytes,
            Memory::Shared(bytes) => bytes.try_into_mut().unwrap_or_else(|bytes| {
                blocks.room(bytes.len())[..bytes.len()].copy_from_slice(&bytes);
                blocks.take(bytes.len())
            }),
        }
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::Own(BytesMut::new())
    }
}

impl From<BytesMut> for Memory {
    fn from(bytes: BytesMut) -> Memory {
        Memory::Own(bytes)
    }
}

impl From<Bytes> for Memory {
    fn from(bytes: Bytes) -> Memory {
        Memory::Shared(bytes)
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Memory::Own(bytes) => bytes,
            Memory::Shared(bytes) => bytes,
        }
    }
}

impl Run<Memory> {
    /// Takes the records of the first `length` bytes, without a copy. `length` must end between records.
    pub(super) fn take_bytes(&mut self, length: usize) -> Run<Memory> {
        self.take_by(length, Memory::split_to)
    }
}
