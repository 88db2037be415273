//! A file to many connections by `sendfile` only: the lower bound of sending a file. One thread,
//! edge-triggered epoll.

use std::fs::File;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::io::Errno;

use super::links::{self, Link, Turn};
use super::{Ends, Prepared};

/// Bytes requested per call: as in the stream service.
const CALL: usize = 1 << 20;

struct Sent {
    file: File,
    offset: u64,
    length: u64,
    to: TcpStream,
}

pub(super) fn prepare(path: &Path, ends: Ends) -> io::Result<Prepared> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let link = |to: TcpStream| {
        to.set_nonblocking(true)?;
        Ok(Sent { file: file.try_clone()?, offset: 0, length, to })
    };
    let sent = ends.outputs.into_iter().map(link).collect::<io::Result<_>>()?;
    links::prepare::<Sent>(sent, Vec::new())
}

impl Link for Sent {
    fn ends(&self) -> [BorrowedFd<'_>; 2] {
        [self.file.as_fd(), self.to.as_fd()]
    }

    /// Sends until the connection's buffer is full, even beyond a turn: there is no other work.
    fn act(&mut self) -> io::Result<Turn> {
        while self.offset < self.length {
            match rustix::fs::sendfile(&self.to, &self.file, Some(&mut self.offset), CALL) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(Errno::AGAIN) => return Ok(Turn::Blocked),
                Err(errno) => return Err(errno.into()),
            }
        }
        self.to.shutdown(Shutdown::Write)?;
        Ok(Turn::Ended)
    }
}
