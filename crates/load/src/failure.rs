//! Failures of sessions.

use std::io;

use wirepath_http::{ChunkedError, HeadError};
use wirepath_media::hls::PlaylistError;
use wirepath_media::rtsp::ServerFault;

/// Why a session failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// No connection to the server.
    #[error("connecting failed: {0}")]
    Connect(#[source] io::Error),
    /// No answer in time.
    #[error("{0} was not answered in time")]
    Timeout(&'static str),
    /// An answer other than 200.
    #[error("{method} was refused: {status} {reason}")]
    Refused {
        /// Method of the request.
        method: &'static str,
        /// Status of the answer.
        status: u16,
        /// Reason of the answer.
        reason: String,
    },
    /// End of the connection.
    #[error("the server closed the connection")]
    Closed,
    /// Error of the connection.
    #[error("the connection failed: {0}")]
    Connection(#[source] io::Error),
    /// The server's bytes are not RTSP.
    #[error("invalid RTSP from the server: {0}")]
    Server(#[from] ServerFault),
    /// The server takes nothing any more.
    #[error("the server does not read from its connection")]
    Unread,
    /// Nothing to play.
    #[error("DESCRIBE has neither audio nor video")]
    NoTrack,
    /// No usable transport.
    #[error("SETUP was answered with another transport: {0}")]
    Transport(String),
    /// No sockets for media.
    #[error("opening UDP sockets failed: {0}")]
    Sockets(#[source] io::Error),
    /// Error of a socket for media.
    #[error("receiving failed: {0}")]
    Receive(#[source] io::Error),
    /// The run is over: no failure of the session.
    #[error("the run was over")]
    Stopped,
    /// PLAY was answered, and nothing came.
    #[error("no packet came after PLAY")]
    Silent,
    /// The server's bytes are not HTTP.
    #[error("invalid HTTP from the server: {0}")]
    Head(#[from] HeadError),
    /// A chunked body is not.
    #[error("invalid HTTP from the server: {0}")]
    Chunked(#[from] ChunkedError),
    /// Another transfer coding.
    #[error("unsupported Transfer-Encoding: expected chunked without Content-Length")]
    Coding,
    /// The connection ended inside a body with a length.
    #[error("the body is shorter than its Content-Length")]
    Short,
    /// The connection ended inside a chunked body.
    #[error("the body ended before its last chunk")]
    Truncated,
    /// Another length than that of the range.
    #[error("the body has another length than the requested range")]
    RangeLength,
    /// No 206.
    #[error("GET with Range was answered with 200: the server does not support ranges")]
    NoRange,
    /// Nothing came inside a body.
    #[error("the body stalled: no data in time")]
    Stalled,
    /// The asset is elsewhere.
    #[error("GET was redirected to {0}: name that URL, redirects are not followed")]
    Redirected(String),
    /// A playlist that cannot be played.
    #[error("invalid playlist: {0}")]
    Playlist(#[from] PlaylistError),
    /// A playlist is too long.
    #[error("the playlist is longer than {} bytes", wirepath_media::hls::PLAYLIST_LIMIT)]
    PlaylistSize,
    /// Playlists take too much memory.
    #[error("the playlists of all sessions take too much memory")]
    PlaylistMemory,
    /// A variant without segments.
    #[error("the variant of the master playlist is a master playlist")]
    NestedPlaylist,
}

/// Letters of a server's text that are kept.
const KEPT: usize = 80;

impl Failure {
    pub(crate) fn refused(method: &'static str, status: u16, reason: &str) -> Failure {
        Failure::Refused { method, status, reason: shortened(reason) }
    }

    pub(crate) fn redirected(location: &str) -> Failure {
        Failure::Redirected(shortened(location))
    }

    pub(crate) fn transport(text: &str) -> Failure {
        Failure::Transport(shortened(text))
    }
}

fn shortened(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(KEPT).collect()
}
