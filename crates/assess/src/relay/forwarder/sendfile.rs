//! A file to many connections by `sendfile` and nothing else: the lower bound of sending a file. One thread,
//! epoll with edges.

use std::fs::File;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::io::Errno;

use super::links::{self, Link, Turn};
use super::{Ends, Prepared};

/// Bytes asked of one call: as much as a call of the stream service.
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

    /// Sends until the connection takes no more, beyond a turn: nothing else is to be done meanwhile.
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
