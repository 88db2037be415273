//! Links that are served by one thread: epoll with edges, and those that have more to do take turns.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use super::Prepared;

/// Bytes that a link moves in a turn.
pub(super) const TURN: usize = 256 * 1024;

/// Result of a turn.
pub(super) enum Turn {
    More,
    Blocked,
    Ended,
}

/// Pair of descriptors that data is moved between.
pub(super) trait Link {
    /// Its descriptors.
    fn ends(&self) -> [BorrowedFd<'_>; 2];

    /// Moves about as much as a turn may.
    fn act(&mut self) -> io::Result<Turn>;
}

/// Moves all that comes over `links`, and watches connections that nothing comes over.
pub(super) fn prepare<L: Link + 'static>(links: Vec<L>, idle: Vec<TcpStream>) -> io::Result<Prepared> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    for (index, link) in links.iter().enumerate() {
        let [from, to] = link.ends();
        watch(&epoll, from, index, EventFlags::IN | EventFlags::RDHUP)?;
        watch(&epoll, to, index, EventFlags::OUT)?;
    }
    for (place, connection) in idle.iter().enumerate() {
        let index = links.len() + place;
        watch(&epoll, connection.as_fd(), index, EventFlags::IN | EventFlags::RDHUP)?;
    }
    Ok(Box::new(move || {
        let _idle = idle;
        run(&epoll, links)
    }))
}

fn watch(epoll: &OwnedFd, descriptor: BorrowedFd<'_>, index: usize, flags: EventFlags) -> io::Result<()> {
    match epoll::add(epoll, descriptor, EventData::new_u64(index as u64), flags | EventFlags::ET) {
        Ok(()) | Err(Errno::PERM) => Ok(()), // a file is always ready
        Err(errno) => Err(errno.into()),
    }
}

fn run<L: Link>(epoll: &OwnedFd, mut links: Vec<L>) -> io::Result<()> {
    let mut queue: VecDeque<usize> = (0..links.len()).collect();
    let mut queued = vec![true; links.len()];
    let mut left = links.len();
    while left > 0 {
        // As many as stand there now: those that have more to do stand behind those that became ready
        // meanwhile.
        for _ in 0..queue.len() {
            let Some(index) = queue.pop_front() else { break };
            match links[index].act()? {
                Turn::More => queue.push_back(index),
                Turn::Blocked => queued[index] = false,
                Turn::Ended => left -= 1, // what is queued for ever is queued no more
            }
        }
        if left > 0 {
            wait(epoll, &mut queued, &mut queue)?;
        }
    }
    Ok(())
}

/// Queues links that became ready; waits for one if there is nothing else to do.
fn wait(epoll: &OwnedFd, queued: &mut [bool], queue: &mut VecDeque<usize>) -> io::Result<()> {
    let mut events = [const { MaybeUninit::<Event>::uninit() }; 256];
    let timeout = (!queue.is_empty()).then(rustix::event::Timespec::default);
    let ready = match epoll::wait(epoll, &mut events[..], timeout.as_ref()) {
        Ok((ready, _)) => ready,
        Err(Errno::INTR) => return Ok(()),
        Err(errno) => return Err(errno.into()),
    };
    for event in ready.iter() {
        let index = event.data.u64() as usize;
        // Of the idle ones, which end with the whole, there is nothing to be moved.
        if let Some(queued @ false) = queued.get_mut(index) {
            *queued = true;
            queue.push_back(index);
        }
    }
    Ok(())
}
