//! Receives data, discards it, and reports its amount.

use std::io::{self, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use wirepath_sys::socket::set_receive_low_watermark;

use super::protocol::{QUESTION_LENGTH, Report};
use crate::sockets::is_readable;

/// Timeout for data or a question.
const IDLE: Duration = Duration::from_secs(60);

/// Timeout for data after the question.
const GRACE: Duration = Duration::from_millis(500);

/// Bytes of a stream that justify a wake-up.
const STREAM_WAKE: u32 = 256 << 10;

/// Bytes of a stream taken by one call.
const STREAM_CHUNK: usize = 1 << 20;

/// Source of data.
pub(super) enum Source<'a> {
    /// Datagrams of at most `packet` bytes, possibly several coalesced into one.
    Datagrams { socket: &'a UdpSocket, packet: u64 },
    /// Stream.
    Stream(&'a TcpStream),
}

/// Counts until the sender has asked its question and has its answer, or has closed the connection. Sends a
/// report for each quarter of the window received.
pub(super) fn count(mut control: &TcpStream, source: &Source<'_>, window: u64) -> io::Result<()> {
    let mut came = Report::default();
    let mut reported = 0;
    let mut drain = Drain::new(source);
    source.wake_for(STREAM_WAKE)?;
    loop {
        let (data, question) = wait(source.socket(), control.as_fd(), IDLE)?;
        if !data && !question {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no data for a minute"));
        }
        while drain.some(&mut came)? {
            if came.bytes - reported >= (window / 4).max(1) {
                control.write_all(&came.write())?;
                reported = came.bytes;
            }
        }
        if question {
            let mut sent = [0; QUESTION_LENGTH];
            if control.read(&mut sent[..1])? == 0 {
                return Ok(()); // the sender closed the connection
            }
            control.read_exact(&mut sent[1..])?;
            let sent = u64::from_be_bytes(sent);
            source.wake_for(1)?;
            while came.bytes < sent && !drain.ended && is_readable(source.socket(), GRACE)? {
                while drain.some(&mut came)? {}
            }
            return control.write_all(&Report { last: true, ..came }.write());
        }
        if drain.ended {
            // An ended stream is always readable.
            if !is_readable(control, IDLE)? {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "no question from the sender for a minute",
                ));
            }
        }
    }
}

impl Source<'_> {
    /// Sets the low-water mark of a stream. A sender pays for waking its receiver; a real receiver is on
    /// another machine, and is woken by its own network card at intervals.
    fn wake_for(&self, bytes: u32) -> io::Result<()> {
        match self {
            Source::Stream(stream) => set_receive_low_watermark(stream.as_fd(), bytes),
            Source::Datagrams { .. } => Ok(()),
        }
    }

    fn socket(&self) -> BorrowedFd<'_> {
        match self {
            Source::Datagrams { socket, .. } => socket.as_fd(),
            Source::Stream(stream) => stream.as_fd(),
        }
    }
}

struct Drain<'a> {
    source: &'a Source<'a>,
    room: Box<[u8]>,
    ended: bool,
}

impl<'a> Drain<'a> {
    fn new(source: &'a Source<'a>) -> Drain<'a> {
        let room = match source {
            Source::Datagrams { .. } => 1, // MSG_TRUNC returns the length of the whole datagram
            Source::Stream(_) => STREAM_CHUNK,
        };
        Drain { source, room: vec![0; room].into(), ended: false }
    }

    /// Receives by one call; returns whether there was data.
    fn some(&mut self, came: &mut Report) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        // MSG_TRUNC: the kernel discards bytes of a stream without copying (tcp(7)).
        let flags = RecvFlags::TRUNC | RecvFlags::DONTWAIT;
        match (recv(self.source.socket(), &mut self.room[..], flags), self.source) {
            (Ok((_, 0)), Source::Stream(_)) => {
                self.ended = true;
                Ok(false)
            }
            (Ok((_, length)), Source::Stream(_)) => {
                came.bytes += length as u64;
                Ok(true)
            }
            (Ok((_, length)), Source::Datagrams { packet, .. }) => {
                came.bytes += length as u64;
                came.packets += (length as u64).div_ceil(*packet).max(1);
                Ok(true)
            }
            (Err(Errno::AGAIN), _) => Ok(false),
            // ICMP error about a packet that this socket never sent: anyone can forge it.
            (Err(Errno::CONNREFUSED), Source::Datagrams { .. }) => Ok(true),
            (Err(errno), _) => Err(errno.into()),
        }
    }
}

/// Waits for data or the question; returns which of them is readable.
fn wait(data: BorrowedFd<'_>, control: BorrowedFd<'_>, patience: Duration) -> io::Result<(bool, bool)> {
    let mut both = [PollFd::new(&data, PollFlags::IN), PollFd::new(&control, PollFlags::IN)];
    let timeout = Timespec::try_from(patience).map_err(io::Error::other)?;
    poll(&mut both, Some(&timeout))?;
    Ok((!both[0].revents().is_empty(), !both[1].revents().is_empty()))
}
