//! Links through kernel pipes by `splice` only: the lower bound of moving bytes between connections by
//! reference. A link has a pipe only while it contains data, as in HAProxy.

use std::cell::RefCell;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use super::links::{Link, TURN, Turn};
use super::{Ends, Prepared, links};

/// Capacity of a pipe, and bytes requested per call: as in the stream service.
const ROOM: usize = 1 << 20;

const FLAGS: SpliceFlags = SpliceFlags::MOVE.union(SpliceFlags::NONBLOCK);

/// Pipe: read end and write end.
type Pipe = (OwnedFd, OwnedFd);

/// Empty pipes.
type Spare = Rc<RefCell<Vec<Pipe>>>;

struct Spliced {
    from: TcpStream,
    to: TcpStream,
    spare: Spare,
    /// Pipe and the number of bytes in it.
    pipe: Option<(Pipe, usize)>,
}

pub(super) fn prepare(ends: Ends) -> io::Result<Prepared> {
    let Ends { inputs, outputs, .. } = ends;
    inputs.iter().chain(&outputs).try_for_each(|connection| connection.set_nonblocking(true))?;
    let spare = Spare::default();
    let mut inputs = inputs.into_iter();
    let link = |(to, from)| Spliced { from, to, spare: Rc::clone(&spare), pipe: None };
    let spliced: Vec<Spliced> = outputs.into_iter().zip(inputs.by_ref()).map(link).collect();
    links::prepare(spliced, inputs.collect())
}

impl Link for Spliced {
    fn ends(&self) -> [BorrowedFd<'_>; 2] {
        [self.from.as_fd(), self.to.as_fd()]
    }

    fn act(&mut self) -> io::Result<Turn> {
        let mut moved = 0;
        while moved < TURN {
            match self.step(&mut moved) {
                Ok(true) => {}
                Ok(false) => return Ok(Turn::Ended),
                Err(Errno::AGAIN) => return Ok(Turn::Blocked),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(Turn::More)
    }
}

impl Spliced {
    /// Empties the pipe, or fills one; returns whether there was data.
    fn step(&mut self, moved: &mut usize) -> Result<bool, Errno> {
        if let Some((pipe, held)) = &mut self.pipe {
            *held -= splice(&pipe.0, None, &self.to, None, *held, FLAGS)?;
            if *held == 0 {
                let empty = self.pipe.take().map(|(pipe, _)| pipe);
                self.spare.borrow_mut().extend(empty);
            }
            return Ok(true);
        }
        let kept = self.spare.borrow_mut().pop();
        let pipe = kept.map_or_else(open, Ok)?;
        let filled = splice(&self.from, None, &pipe.1, None, ROOM, FLAGS);
        match filled {
            Ok(held @ 1..) => {
                self.pipe = Some((pipe, held));
                *moved += held;
                return Ok(true);
            }
            Ok(0) => self.to.shutdown(Shutdown::Write).map_err(|_| Errno::PIPE)?,
            Err(_) => {}
        }
        self.spare.borrow_mut().push(pipe);
        filled.map(|_| false)
    }
}

fn open() -> Result<Pipe, Errno> {
    let pipe = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    // The capacity stays at the default if this user's pipes have used up their page limit.
    fcntl_setpipe_size(&pipe.1, ROOM).ok();
    Ok(pipe)
}
