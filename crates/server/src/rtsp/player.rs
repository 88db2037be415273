//! The interface to whatever plays for RTSP sessions.
//!
//! RTSP knows paths, ranges and sockets; behind these traits are the image store and the engine's playbacks.
//! Replies and events come from engine threads: they are sent on and never block.

use std::future::Future;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;

use wirepath_playback::{PlayError, PlaybackEvent, Position, Progress};

/// An answer that may take a while: storage is read, an asset examined.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Called once with the result of a request, from any thread; dropped without a call only if the playback is
/// over.
pub type Reply<T> = Box<dyn FnOnce(Result<T, PlayError>) + Send>;

/// Called with each event of a playback, from any thread. Events and replies come in the order in which
/// things happen.
pub type OnEvent = Box<dyn Fn(PlaybackEvent) + Send + Sync>;

/// Finds presentations.
pub trait Player: Send + Sync {
    /// Opens the presentation at a path: names joined by `/`, none empty, `.` or `..`; empty for the root.
    fn open<'a>(&'a self, path: &'a [u8]) -> BoxFuture<'a, Result<Arc<dyn Presentation>, OpenError>>;
}

/// Something that can be played.
pub trait Presentation: Send + Sync {
    /// Describes the presentation as it is now.
    fn describe(&self) -> Description;

    /// Opens a playback to a connected UDP socket. It rests at the start until told to play, and ends when it
    /// is dropped. The path's MTU is the socket's.
    fn set_up(
        &self,
        socket: UdpSocket,
        on_event: OnEvent,
    ) -> BoxFuture<'_, Result<Box<dyn Playback>, OpenError>>;
}

/// A session's playback of a presentation.
pub trait Playback: Send + Sync {
    /// Synchronisation source of the packets.
    fn ssrc(&self) -> u32;

    /// Plays from the last place at or before a time where a client can begin, or from where the playback
    /// rests, to a time or the end; both in microseconds from the start.
    fn play(&self, from_us: Option<u64>, until_us: Option<u64>, reply: Reply<Position>);

    /// Pauses; the reply gives the place, in microseconds from the start.
    fn pause(&self, reply: Reply<u64>);

    /// Progress of the playback.
    fn progress(&self) -> Progress;

    /// Reason for its first data path, for the status page.
    fn reason(&self) -> &str;
}

/// Description of a presentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Name for people.
    pub name: String,
    /// Identity among the presentations of this server.
    pub id: u64,
    /// Version: goes up when the media change.
    pub version: u64,
    /// Duration; none while it is not known.
    pub duration_us: Option<u64>,
    /// Mean bit rate with all headers; none while it is not known.
    pub bits_per_second: Option<u64>,
}

/// A presentation cannot be played.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Nothing has this name. The client's fault.
    #[error("not found")]
    NotFound,
    /// The asset cannot be played; the text says why. Whoever put it there should look at it.
    #[error("{0}")]
    NotPlayable(String),
    /// The server is at a limit; trying later may help. The text is for the log.
    #[error("{0}")]
    Busy(String),
    /// The server failed; the text says where, for the log.
    #[error("{0}")]
    Failed(String),
}
