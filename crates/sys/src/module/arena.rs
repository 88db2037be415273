//! Requests as bytes, with arbitrary field values, also invalid ones: for tests of the kernel module.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mprotect};

use super::layout::{self, Structure};
use super::{Module, Started};
use crate::ioctl;
use crate::memory::Memory;

/// Memory that requests point into: accessible pages, followed by the same number of inaccessible pages.
#[derive(Debug)]
pub struct Arena {
    memory: Memory,
    length: usize,
}

impl Arena {
    /// Arena of `length` zero bytes, in whole pages.
    pub fn new(length: usize) -> io::Result<Arena> {
        let length = length.next_multiple_of(rustix::param::page_size());
        let memory = Memory::anonymous(reserved(length), ProtFlags::empty(), MapFlags::PRIVATE)?;
        let protection = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: this is the first part of what has just been mapped, and nobody uses it yet.
        unsafe { mprotect(memory.start().cast(), length, protection)? };
        Ok(Arena { memory, length })
    }

    /// Number of accessible bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Address of a byte; addresses from [`Arena::length`] on are inaccessible.
    pub fn address(&self, offset: usize) -> u64 {
        self.memory.start().expose_provenance() as u64 + offset as u64
    }

    /// Writes bytes.
    ///
    /// # Panics
    /// For a range outside of the arena.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes_mut()[offset..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Writes a structure.
    ///
    /// # Panics
    /// For a range outside of the arena.
    pub fn put<T: Structure>(&mut self, offset: usize, structure: &T) {
        self.write(offset, structure.bytes());
    }

    /// Reads a structure.
    ///
    /// # Panics
    /// For a range outside of the arena.
    pub fn take<T: Structure>(&self, offset: usize) -> T {
        T::from_bytes(&self.bytes()[offset..])
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: this part is mapped for as long as `self`; the kernel writes to it only while it is
        // borrowed mutably.
        unsafe { std::slice::from_raw_parts(self.memory.start(), self.length) }
    }

    /// All bytes, mutable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nobody else has it.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start(), self.length) }
    }

    /// Returns whether the kernel cannot write to memory of this process at this address, except the arena's
    /// own: the address is in the arena or after it, or can never be mapped.
    fn is_harmless(&self, address: u64) -> bool {
        let ours = self.address(0)..self.address(reserved(self.length) - ROOM);
        !(4096..1 << 63).contains(&address) || ours.contains(&address)
    }

    /// Refuses requests that might make the kernel write elsewhere: to the argument itself, or, for SEND, to
    /// the run's RTP state.
    fn check(&self, request: u32, argument: u64) {
        assert!(self.is_harmless(argument), "a request's structure must lie in the arena");
        let offset = argument.wrapping_sub(self.address(0)) as usize;
        let room = self.bytes().get(offset..).unwrap_or_default();
        if number_of(request) == SEND && room.len() >= size_of::<layout::Run>() {
            let header = layout::Run::from_bytes(room).header;
            assert!(self.is_harmless(header), "a run's header must lie in the arena");
        }
    }
}

/// Maximum number of bytes that the kernel writes to one structure.
const ROOM: usize = 4096;

/// Size of an arena's address range, including inaccessible addresses.
fn reserved(length: usize) -> usize {
    2 * length + ROOM
}

impl Module {
    /// Sends any request to this device with any argument; returns the started run, if there is one.
    ///
    /// # Panics
    /// If the kernel might write to memory outside of the arena.
    pub fn ask(&self, request: u32, arena: &mut Arena, argument: u64) -> io::Result<Option<Started>> {
        arena.check(request, argument);
        answer(&self.device, request, argument)
    }
}

impl Started {
    /// Sends any request to this run with any argument.
    ///
    /// # Panics
    /// If the kernel might write to memory outside of the arena.
    pub fn ask_with(&self, request: u32, arena: &mut Arena, argument: u64) -> io::Result<()> {
        arena.check(request, argument);
        answer(&self.run, request, argument).map(drop)
    }
}

/// Time limit for the completion of a request: no request of a test takes as long.
const LIMIT_SECONDS: u64 = 60;

/// Ring for requests to the device.
pub struct CommandRing {
    ring: io_uring::IoUring,
}

impl CommandRing {
    /// Ring for one request at a time.
    pub fn new() -> io::Result<CommandRing> {
        Ok(CommandRing { ring: io_uring::IoUring::new(4)? })
    }

    /// Like [`Module::ask`], by the ring; waits for the completion, and ends the process if there is none.
    ///
    /// # Panics
    /// If the kernel might write to memory outside of the arena.
    pub fn ask(
        &mut self,
        module: &Module,
        request: u32,
        arena: &mut Arena,
        command: [u64; 2],
    ) -> io::Result<Option<Started>> {
        arena.check(request, command[0]);
        let device = io_uring::types::Fd(module.device.as_raw_fd());
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&command[0].to_ne_bytes());
        bytes[8..].copy_from_slice(&command[1].to_ne_bytes());
        let entry = io_uring::opcode::UringCmd16::new(device, request).cmd(bytes).build();
        // SAFETY: what the kernel writes it writes into the arena, as was checked, which is borrowed until it
        // has answered.
        unsafe { self.ring.submission().push(&entry) }.expect("the queue is empty");
        let limit = io_uring::types::Timespec::new().sec(LIMIT_SECONDS);
        let limit = io_uring::types::SubmitArgs::new().timespec(&limit);
        while self.ring.completion().is_empty() {
            match self.ring.submitter().submit_with_args(1, &limit) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The kernel may still write to the arena, so it must not be freed.
                Err(error) if error.raw_os_error() == Some(libc::ETIME) => {
                    eprintln!("request {request:#x} by a ring has not completed in {LIMIT_SECONDS} s");
                    std::process::abort();
                }
                submitted => _ = submitted?,
            }
        }
        let answer = self.ring.completion().next().expect("a completion is there").result();
        let error = || io::Error::from_raw_os_error(-answer);
        // SAFETY: the kernel has just answered this request.
        unsafe { answered(request, usize::try_from(answer).map_err(|_| error())) }
    }
}

fn answer(device: &impl AsFd, request: u32, argument: u64) -> io::Result<Option<Started>> {
    // SAFETY: what the kernel writes for this request it writes into the arena, as was checked; the requests
    // that all files know write no more than a number. It has just answered this request.
    unsafe { answered(request, ioctl(device, request, argument as *mut u8)) }
}

/// Magic and number of a request, without direction and size.
const fn number_of(request: u32) -> u32 {
    request & 0xffff
}

const SEND: u32 = number_of(layout::SEND);
const START: u32 = number_of(layout::START);

/// # Safety
/// The kernel has given this answer to the request.
unsafe fn answered(request: u32, answer: io::Result<usize>) -> io::Result<Option<Started>> {
    // The module also accepts the number without direction and size.
    match (number_of(request), answer?) {
        // SAFETY: the kernel has just made this descriptor for this call.
        (START, run) => Ok(Some(Started::new(unsafe { OwnedFd::from_raw_fd(run as i32) }))),
        (_, 0) => Ok(None),
        (_, other) => Err(io::Error::other(format!("request {request:#x} answered {other}, not 0"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    #[test]
    fn structures_come_back() {
        let mut arena = Arena::new(1).unwrap();
        let run = layout::Run { size: 104, offset: u64::MAX, copied_bytes: 7, ..layout::Run::default() };
        arena.put(13, &run);
        assert_eq!(arena.take::<layout::Run>(13), run);
        assert_eq!(arena.bytes()[13], 104);
    }

    #[test]
    fn what_is_behind_is_not_there() {
        let mut arena = Arena::new(4096).unwrap();
        let null = Module { device: OpenOptions::new().write(true).read(true).open("/dev/null").unwrap() };
        let end = arena.address(arena.length());
        let error = null.ask(libc::FIONBIO as u32, &mut arena, end).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
        let error = null.ask(layout::QUERY, &mut arena, end).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
    }

    #[test]
    #[should_panic(expected = "must lie in the arena")]
    fn memory_of_others_is_never_written() {
        let mut arena = Arena::new(1).unwrap();
        let other = Box::new(0_u64);
        let device = OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
        let header = (&raw const *other).expose_provenance() as u64;
        arena.put(0, &layout::Run { header, ..layout::Run::default() });
        let argument = arena.address(0);
        Module { device }.ask(layout::SEND, &mut arena, argument).ok();
    }
}
