//! Links that are copied by `read` and `write`: a loop as a careful programmer writes it. One thread, epoll with edges, a buffer for
//! each link, links that have more to do take turns.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use super::{Ends, Prepared};
use crate::relay::task::{MASK, Shape, Task};

/// What a link moves before others have their turn.
const TURN: usize = 256 * 1024;

/// From one descriptor to another.
struct Link {
    from: OwnedFd,
    to: OwnedFd,
    /// Told that nothing more comes.
    connection: Option<TcpStream>,
    buffer: Box<[u8]>,
    /// What of the buffer is still to be written.
    start: usize,
    end: usize,
    /// Whether it stands in the queue of those that have something to do.
    queued: bool,
}

/// What came of a turn.
enum Turn {
    More,
    Blocked,
    Ended,
}

pub(super) fn prepare(task: &Task, ends: Ends) -> io::Result<Prepared> {
    let mut links = Vec::new();
    match &task.shape {
        Shape::FileToSocket(path) => {
            for output in ends.outputs {
                links.push(Link::new(
                    File::open(path)?.into(),
                    output.try_clone()?.into(),
                    Some(output),
                    task,
                )?);
            }
        }
        Shape::SocketToFile(paths) => {
            for (input, path) in ends.inputs.into_iter().zip(paths) {
                let file = File::options().write(true).open(path)?;
                links.push(Link::new(input.into(), file.into(), None, task)?);
            }
        }
        _ => {
            for (input, output) in ends.inputs.into_iter().zip(ends.outputs) {
                links.push(Link::new(input.into(), output.try_clone()?.into(), Some(output), task)?);
            }
        }
    }
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    for (index, link) in links.iter().enumerate() {
        watch(&epoll, link.from.as_fd(), index, EventFlags::IN | EventFlags::RDHUP)?;
        watch(&epoll, link.to.as_fd(), index, EventFlags::OUT)?;
    }
    let touch = task.touch;
    Ok(Box::new(move || run(&epoll, links, touch)))
}

fn watch(epoll: &OwnedFd, descriptor: BorrowedFd<'_>, index: usize, flags: EventFlags) -> io::Result<()> {
    match epoll::add(epoll, descriptor, EventData::new_u64(index as u64), flags | EventFlags::ET) {
        Ok(()) | Err(Errno::PERM) => Ok(()), // a file is always ready
        Err(errno) => Err(errno.into()),
    }
}

fn run(epoll: &OwnedFd, mut links: Vec<Link>, touch: bool) -> io::Result<()> {
    let mut queue: VecDeque<usize> = (0..links.len()).collect();
    let mut left = links.len();
    while left > 0 {
        // As many as stand there now: those that have more to do stand behind those that became ready meanwhile.
        for _ in 0..queue.len() {
            let Some(index) = queue.pop_front() else { break };
            match links[index].act(touch)? {
                Turn::More => queue.push_back(index),
                Turn::Blocked => links[index].queued = false,
                Turn::Ended => left -= 1, // what is queued for ever is queued no more
            }
        }
        if left > 0 {
            wait(epoll, &mut links, &mut queue)?;
        }
    }
    Ok(())
}

/// Queues links that became ready; waits for one if there is nothing else to do.
fn wait(epoll: &OwnedFd, links: &mut [Link], queue: &mut VecDeque<usize>) -> io::Result<()> {
    let mut events = [const { MaybeUninit::<Event>::uninit() }; 256];
    let timeout = (!queue.is_empty()).then(rustix::event::Timespec::default);
    let ready = match epoll::wait(epoll, &mut events[..], timeout.as_ref()) {
        Ok((ready, _)) => ready,
        Err(Errno::INTR) => return Ok(()),
        Err(errno) => return Err(errno.into()),
    };
    for event in ready.iter() {
        let index = event.data.u64() as usize;
        if !links[index].queued {
            links[index].queued = true;
            queue.push_back(index);
        }
    }
    Ok(())
}

impl Link {
    fn new(from: OwnedFd, to: OwnedFd, connection: Option<TcpStream>, task: &Task) -> io::Result<Link> {
        rustix::io::ioctl_fionbio(&from, true)?;
        rustix::io::ioctl_fionbio(&to, true)?;
        let buffer = vec![0; task.block_bytes].into();
        Ok(Link { from, to, connection, buffer, start: 0, end: 0, queued: true })
    }

    fn act(&mut self, touch: bool) -> io::Result<Turn> {
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
            if touch {
                touch_all(&mut self.buffer[..read]);
            }
            (self.start, self.end) = (0, read);
            moved += read;
        }
        Ok(Turn::More)
    }
}

/// What the handler of the stream service does, in place.
pub(super) fn touch_all(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte ^= MASK);
}
