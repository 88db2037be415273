//! Links that are copied by `read` and `write`: a loop as a careful programmer writes it, with a buffer for
//! each link.

use std::fs::File;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use super::links::{Link, TURN, Turn};
use super::{Ends, Prepared, links};
use crate::relay::task::{MASK, Shape, Task};

/// Copied through a buffer of its own.
struct Copied {
    from: OwnedFd,
    to: OwnedFd,
    /// Connection to shut down at the end of input.
    connection: Option<TcpStream>,
    buffer: Box<[u8]>,
    /// Range of the buffer still to be written.
    start: usize,
    end: usize,
    /// True if every byte is touched.
    touch: bool,
}

pub(super) fn prepare(task: &Task, ends: Ends) -> io::Result<Prepared> {
    let mut copied = Vec::new();
    let mut inputs = ends.inputs.into_iter();
    match &task.shape {
        Shape::FileToSocket(path) => {
            for output in ends.outputs {
                let (from, to) = (File::open(path)?.into(), output.try_clone()?.into());
                copied.push(Copied::new(from, to, Some(output), task)?);
            }
        }
        Shape::SocketToFile(paths) => {
            for (input, path) in inputs.by_ref().zip(paths) {
                let file = File::options().write(true).open(path)?;
                copied.push(Copied::new(input.into(), file.into(), None, task)?);
            }
        }
        _ => {
            for (output, input) in ends.outputs.into_iter().zip(inputs.by_ref()) {
                copied.push(Copied::new(input.into(), output.try_clone()?.into(), Some(output), task)?);
            }
        }
    }
    links::prepare(copied, inputs.collect())
}

impl Copied {
    fn new(from: OwnedFd, to: OwnedFd, connection: Option<TcpStream>, task: &Task) -> io::Result<Copied> {
        rustix::io::ioctl_fionbio(&from, true)?;
        rustix::io::ioctl_fionbio(&to, true)?;
        let buffer = vec![0; task.block_bytes].into();
        Ok(Copied { from, to, connection, buffer, start: 0, end: 0, touch: task.touch })
    }
}

impl Link for Copied {
    fn ends(&self) -> [BorrowedFd<'_>; 2] {
        [self.from.as_fd(), self.to.as_fd()]
    }

    fn act(&mut self) -> io::Result<Turn> {
        let mut moved = 0;
        while moved < TURN {
            if self.start < self.end {
                match rustix::io::write(&self.to, &self.buffer[self.start..self.end]) {
                    Ok(written) => self.start += written,
                    Err(Errno::AGAIN) => return Ok(Turn::Blocked),
                    Err(errno) => return Err(errno.into()),
                }
                continue;
            }
            let read = match rustix::io::read(&self.from, &mut self.buffer[..]) {
                Ok(0) => {
                    if let Some(connection) = &self.connection {
                        connection.shutdown(Shutdown::Write)?;
                    }
                    return Ok(Turn::Ended);
                }
                Ok(read) => read,
                Err(Errno::AGAIN) => return Ok(Turn::Blocked),
                Err(errno) => return Err(errno.into()),
            };
            if self.touch {
                touch_all(&mut self.buffer[..read]);
            }
            (self.start, self.end) = (0, read);
            moved += read;
        }
        Ok(Turn::More)
    }
}

/// Rewrites bytes in place, as the handler of the stream service does.
pub(super) fn touch_all(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte ^= MASK);
}
