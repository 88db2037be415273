//! What the RTSP door needs from whatever plays: this file is the whole of it.
//!
//! The door knows paths, ranges and sockets; behind these traits are the image store and the engine. Replies and
//! events come from engine threads: they are sent on and never block.

use std::future::Future;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;

/// An answer that may take a while: storage is read, an asset looked at.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Given once, from any thread; dropped without being called only when the playback is over.
pub type Reply<T> = Box<dyn FnOnce(Result<T, PlayError>) + Send>;

/// Told what happens to a playback, from any thread, in the order it happens, replies included.
pub type OnEvent = Box<dyn Fn(Event) + Send + Sync>;

/// Finds presentations.
pub trait Player: Send + Sync {
    /// The presentation at a path: names joined by `/`, none empty, `.` or `..`; empty for the root.
    fn open<'a>(&'a self, path: &'a [u8]) -> Later<'a, Result<Arc<dyn Presentation>, OpenError>>;
}

/// Something that can be played.
pub trait Presentation: Send + Sync {
    /// What is known of it now.
    fn facts(&self) -> Facts;

    /// Makes a playback to a connected UDP socket. It rests at the beginning until told to play, and ends when
    /// it is dropped. The path's MTU is the socket's.
    fn set_up(&self, socket: UdpSocket, on_event: OnEvent)
    -> Later<'_, Result<Box<dyn Playback>, OpenError>>;
}

/// One session's playing of a presentation.
pub trait Playback: Send + Sync {
    /// Synchronisation source of its packets.
    fn ssrc(&self) -> u32;

    /// Plays from the last place at or before a time where a client can begin, or from where it rests, to a
    /// time or the end; both in microseconds from the beginning.
    fn play(&self, from_us: Option<u64>, until_us: Option<u64>, reply: Reply<Position>);

    /// Rests; the reply is where, in microseconds from the beginning.
    fn pause(&self, reply: Reply<u64>);

    /// What it did so far.
    fn progress(&self) -> Progress;

    /// Why it began with the data path that it began with, for the status page.
    fn reason(&self) -> &str;
}

/// What is known of a presentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its name, for people.
    pub name: String,
    /// Tells presentations of this server apart.
    pub id: u64,
    /// Goes up when its media change.
    pub version: u64,
    /// How long it is; nothing while that is not known.
    pub duration_us: Option<u64>,
    /// Its mean rate with all headers; nothing while that is not known.
    pub bits_per_second: Option<u64>,
}

/// The first packet that a request to play leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Its sequence number.
    pub sequence: u16,
    /// Its timestamp.
    pub timestamp: u32,
    /// Its place, in microseconds from the beginning.
    pub at_us: u64,
}

/// What a playback did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Packets sent.
    pub packets: u64,
    /// Payload bytes sent.
    pub octets: u64,
    /// Packets that the network did not take.
    pub packets_lost: u64,
    /// Where it is, in microseconds from the beginning.
    pub position_us: u64,
    /// How timestamps relate to time, while it plays.
    pub clock: Option<RtpClock>,
    /// Name of the data path in use.
    pub path: &'static str,
}

/// A moment on two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpClock {
    /// In microseconds of CLOCK_MONOTONIC.
    pub at_us: u64,
    /// As an RTP timestamp.
    pub timestamp: u32,
}

/// What a playback tells on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The range asked for, or the presentation, has been sent to its end. It rests there.
    Finished,
    /// The client's port answers that nobody listens. The playback is over.
    Unreachable,
    /// It cannot go on and is over; the words say why.
    Failed(String),
}

/// Why a presentation cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// There is nothing of this name. The client's fault.
    #[error("there is nothing of this name")]
    NotFound,
    /// It is there but cannot be played; the words say why. Whoever put it there should look at it.
    #[error("{0}")]
    NotPlayable(String),
    /// The server is at a limit; trying later may help. The words are for the log.
    #[error("{0}")]
    Busy(String),
    /// The server failed; the words say where. They are for the log.
    #[error("{0}")]
    Failed(String),
}

/// Why a request to play or pause did not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlayError {
    /// There is nothing at or after that place. The client's fault.
    #[error("there is nothing at or after that time")]
    BeyondEnd,
    /// It cannot go on; the words say why. They are for the log.
    #[error("{0}")]
    Failed(String),
}
