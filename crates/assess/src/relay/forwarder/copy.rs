//! Links copied by `read` and `write`: a carefully written loop with a buffer for each link.

use std::fs::File;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use super::function::Buffer;
use super::links::{Link, TURN, Turn};
use super::{Ends, Prepared, links};
use crate::relay::task::{Shape, Task};

/// Link with its own buffer.
struct Copied {
    from: OwnedFd,
    to: OwnedFd,
    /// Connection to shut down at the end of input.
    connection: Option<TcpStream>,
    buffer: Buffer,
    /// Range of the buffer still to be written.
    waiting: Range<usize>,
    has_ended: bool,
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
        Ok(Copied { from, to, connection, buffer: Buffer::new(task), waiting: 0..0, has_ended: false })
    }
}

impl Link for Copied {
    fn ends(&self) -> [BorrowedFd<'_>; 2] {
        [self.from.as_fd(), self.to.as_fd()]
    }

    fn act(&mut self) -> io::Result<Turn> {
        let mut moved = 0;
        while moved < TURN {
            if !self.waiting.is_empty() {
                match rustix::io::write(&self.to, self.buffer.bytes(self.waiting.clone())) {
                    Ok(written) => self.waiting.start += written,
                    Err(Errno::AGAIN) => return Ok(Turn::Blocked),
                    Err(errno) => return Err(errno.into()),
                }
                continue;
            }
            if self.has_ended {
                self.connection.iter().try_for_each(|connection| connection.shutdown(Shutdown::Write))?;
                return Ok(Turn::Ended);
            }
            match rustix::io::read(&self.from, self.buffer.room()) {
                Ok(0) => {
                    self.waiting = self.buffer.rest();
                    self.has_ended = true;
                }
                Ok(read) => {
                    self.waiting = self.buffer.handle(read);
                    moved += read;
                }
                Err(Errno::AGAIN) => return Ok(Turn::Blocked),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(Turn::More)
    }
}
