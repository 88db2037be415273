//! Ring that copies between connections through registered memory, with one call for all of them.
//!
//! The memory is pinned once and the descriptors are registered, so that the kernel need not look them up. It
//! waits for data and room itself, without epoll.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;

use super::opening::open;
use crate::pages::PageBuffer;

/// Links copied by one ring, each through its own memory.
pub struct Copying {
    // Declared first: the ring is closed before its memory and descriptors are released.
    ring: IoUring,
    _memory: PageBuffer,
    /// Start of the memory.
    memory: *mut u8,
    links: Vec<Link>,
    block_bytes: usize,
}

/// Link from one connection to another.
struct Link {
    /// Held to stay open.
    _from: OwnedFd,
    to: OwnedFd,
    /// Range of the memory that remains to be sent.
    start: usize,
    end: usize,
}

impl Copying {
    /// Tests whether a ring can be created, and this much memory registered with it.
    pub fn attempt(bytes: usize) -> io::Result<()> {
        let (ring, buffer) = (open(1)?, PageBuffer::new(bytes)?);
        register(&ring, &buffer)?;
        // Memory of a closed ring would count against the limit for some time.
        ring.submitter().unregister_buffers()
    }

    /// Ring for these links, from the first connection of each to the second: TCP connections in blocking
    /// mode. Receives up to `block_bytes` at a time per link.
    ///
    /// # Errors
    /// `EINVAL` without links or without bytes, `ENOSYS` if the kernel has no io_uring, `EPERM` if it is not
    /// allowed, `ENOMEM` if the limit of locked memory is too low, else errors of the calls.
    pub fn new(links: Vec<(OwnedFd, OwnedFd)>, block_bytes: usize) -> io::Result<Copying> {
        let entries = u32::try_from(links.len()).map_err(|_| Errno::INVAL)?.next_power_of_two();
        let mut buffer = PageBuffer::new(links.len() * block_bytes)?;
        let ring = open(entries)?;
        let descriptors: Vec<i32> =
            links.iter().flat_map(|(from, to)| [from.as_raw_fd(), to.as_raw_fd()]).collect();
        ring.submitter().register_files(&descriptors)?;
        register(&ring, &buffer)?;
        let links = links.into_iter().map(|(from, to)| Link { _from: from, to, start: 0, end: 0 });
        let memory = buffer.as_mut_ptr();
        Ok(Copying { ring, _memory: buffer, memory, links: links.collect(), block_bytes })
    }

    /// Copies until all links have ended. Must run on the thread that created the ring.
    pub fn run(mut self) -> io::Result<()> {
        let mut left = self.links.len();
        (0..left).try_for_each(|place| self.receive(place))?;
        let mut answers = Vec::with_capacity(self.links.len());
        while left > 0 {
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            answers.extend(self.ring.completion().map(|entry| (entry.user_data() as usize, entry.result())));
            for (place, result) in answers.drain(..) {
                let bytes = usize::try_from(result);
                let bytes = bytes.map_err(|_| io::Error::from_raw_os_error(result.wrapping_neg()))?;
                left -= usize::from(!self.go_on(place, bytes)?);
            }
        }
        Ok(())
    }

    /// Continues a link after `bytes` bytes were received or sent; returns whether it goes on.
    fn go_on(&mut self, place: usize, bytes: usize) -> io::Result<bool> {
        let link = &mut self.links[place];
        if link.start == link.end {
            if bytes == 0 {
                rustix::net::shutdown(&link.to, rustix::net::Shutdown::Write)?;
                return Ok(false);
            }
            (link.start, link.end) = (0, bytes);
        } else {
            link.start += bytes;
        }
        if link.start < link.end {
            self.send(place)?
        } else {
            self.receive(place)?
        }
        Ok(true)
    }

    fn receive(&mut self, place: usize) -> io::Result<()> {
        let (memory, length) = (self.part(place, 0), self.block_bytes as u32);
        let entry = opcode::ReadFixed::new(types::Fixed(2 * place as u32), memory, length, 0).build();
        self.push(entry, place)
    }

    fn send(&mut self, place: usize) -> io::Result<()> {
        let Link { start, end, .. } = self.links[place];
        let memory = self.part(place, start);
        let to = types::Fixed(2 * place as u32 + 1);
        let entry = opcode::WriteFixed::new(to, memory, (end - start) as u32, 0).build();
        self.push(entry, place)
    }

    /// Address in a link's memory, at offset `start`.
    fn part(&self, place: usize, start: usize) -> *mut u8 {
        self.memory.wrapping_add(place * self.block_bytes + start)
    }

    fn push(&mut self, entry: squeue::Entry, place: usize) -> io::Result<()> {
        let entry = entry.user_data(place as u64);
        // SAFETY: the bytes lie in the registered memory, in the part that is this link's alone, and a link
        // has one entry at a time; memory and descriptors are held until the ring is closed.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_: squeue::PushError| Errno::BUSY.into())
    }
}

/// Pins memory for a ring, which has to be closed before the memory is freed.
fn register(ring: &IoUring, memory: &PageBuffer) -> io::Result<()> {
    let vector = libc::iovec { iov_base: memory.as_ptr().cast_mut().cast(), iov_len: memory.len() };
    // SAFETY: the vector is that of the memory, whose pages the ring holds itself.
    unsafe { ring.submitter().register_buffers(&[vector]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn every_byte_of_every_link_is_copied() {
        let (sources, sinks) = ((0..3).map(|_| connection()), (0..3).map(|_| connection()));
        let (sources, froms): (Vec<_>, Vec<_>) = sources.unzip();
        let (tos, sinks): (Vec<_>, Vec<_>) = sinks.unzip();
        let links = froms.into_iter().zip(tos).map(|(from, to)| (from.into(), to.into())).collect();
        let copying = Copying::new(links, 4096).unwrap();
        let sent =
            |number: usize| -> Vec<u8> { (0..500_000 + number).map(|at| (at * 7 + number) as u8).collect() };
        let writing = sources
            .into_iter()
            .enumerate()
            .map(|(number, mut source)| std::thread::spawn(move || source.write_all(&sent(number)).unwrap()));
        let writing: Vec<_> = writing.collect();
        let reading = sinks.into_iter().map(|mut sink| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                sink.read_to_end(&mut bytes).unwrap();
                bytes
            })
        });
        let reading: Vec<_> = reading.collect();
        copying.run().unwrap();
        writing.into_iter().for_each(|writing| writing.join().unwrap());
        for (number, reading) in reading.into_iter().enumerate() {
            assert!(reading.join().unwrap() == sent(number), "link {number}");
        }
    }

    #[test]
    fn nothing_to_copy_is_an_error() {
        assert!(Copying::new(Vec::new(), 4096).is_err());
    }
}
