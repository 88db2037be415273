//! Links served by one thread, with edge-triggered epoll; links with more work take turns.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use super::Prepared;

/// Bytes that a link moves per turn.
pub(super) const TURN: usize = 256 * 1024;

/// Result of a turn.
pub(super) enum Turn {
    More,
    Blocked,
    Ended,
}

/// Pair of descriptors that data is moved between.
pub(super) trait Link {
    /// Descriptors of the link.
    fn ends(&self) -> [BorrowedFd<'_>; 2];

    /// Moves about as many bytes as a turn allows.
    fn act(&mut self) -> io::Result<Turn>;
}

/// Prepares moving all data of `links`, and watches idle connections.
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
        // One round over the links queued now: links with more work are queued behind links that became ready
        // during the round.
        for _ in 0..queue.len() {
            let Some(index) = queue.pop_front() else { break };
            match links[index].act()? {
                Turn::More => queue.push_back(index),
                Turn::Blocked => queued[index] = false,
                Turn::Ended => left -= 1, // it stays marked as queued, so it is not queued again
            }
        }
        if left > 0 {
            wait(epoll, &mut queued, &mut queue)?;
        }
    }
    Ok(())
}

/// Queues links that became ready; waits for one if there is no other work.
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
        // Idle connections have no data to move; they end with the forwarder.
        if let Some(queued @ false) = queued.get_mut(index) {
            *queued = true;
            queue.push_back(index);
        }
    }
    Ok(())
}
