//! Failures of sessions.

use std::io;

use wirepath_http::{ChunkedError, HeadError};
use wirepath_media::hls::PlaylistError;
use wirepath_media::rtsp::ServerFault;

/// Reason why a session failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Connecting to the server failed.
    #[error("connecting failed: {0}")]
    Connect(#[source] io::Error),
    /// No response in time.
    #[error("{0} was not answered in time")]
    Timeout(&'static str),
    /// Response with an unexpected status.
    #[error("{method} was refused: {status} {reason}")]
    Refused {
        /// Method of the request.
        method: &'static str,
        /// Status of the response.
        status: u16,
        /// Reason phrase of the response.
        reason: String,
    },
    /// The connection ended.
    #[error("the server closed the connection")]
    Closed,
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Connection(#[source] io::Error),
    /// The bytes from the server are not valid RTSP.
    #[error("invalid RTSP from the server: {0}")]
    Server(#[from] ServerFault),
    /// The server does not read requests any more.
    #[error("the server does not read from its connection")]
    Unread,
    /// The presentation has no playable track.
    #[error("DESCRIBE has neither audio nor video")]
    NoTrack,
    /// The server offered no usable transport.
    #[error("SETUP was answered with another transport: {0}")]
    Transport(String),
    /// The sockets for media could not be opened.
    #[error("opening UDP sockets failed: {0}")]
    Sockets(#[source] io::Error),
    /// A socket for media failed.
    #[error("receiving failed: {0}")]
    Receive(#[source] io::Error),
    /// The run is over. This is not a failure of the session.
    #[error("the run was over")]
    Stopped,
    /// PLAY succeeded, but no media arrived.
    #[error("no packet came after PLAY")]
    Silent,
    /// The bytes from the server are not valid HTTP.
    #[error("invalid HTTP from the server: {0}")]
    Head(#[from] HeadError),
    /// The chunked coding of a body is invalid.
    #[error("invalid HTTP from the server: {0}")]
    Chunked(#[from] ChunkedError),
    /// The transfer coding is not supported.
    #[error("unsupported Transfer-Encoding: expected chunked without Content-Length")]
    Coding,
    /// The connection ended in a body with Content-Length.
    #[error("the body is shorter than its Content-Length")]
    Short,
    /// The connection ended in a chunked body.
    #[error("the body ended before its last chunk")]
    Truncated,
    /// The body does not have the length of the requested range.
    #[error("the body has another length than the requested range")]
    RangeLength,
    /// The response has a range that was not requested.
    #[error("GET with Range was answered with another range: {0}")]
    OtherRange(String),
    /// The length is greater than any file size.
    #[error("Content-Length is above {}", i64::MAX)]
    Length,
    /// The server sent too many informational responses before the final response.
    #[error("no final response: too many informational responses, or too many bytes before it")]
    NoFinalResponse,
    /// The body is empty, but media were expected.
    #[error("no media: empty body")]
    EmptyBody,
    /// The segments of the playlist have no duration.
    #[error("the playlist has no duration: the #EXTINF of all segments is 0")]
    NoDuration,
    /// The server does not support ranges: it did not respond with 206.
    #[error("GET with Range was answered with 200: the server does not support ranges")]
    NoRange,
    /// No data of a body arrived in time.
    #[error("the body stalled: no data in time")]
    Stalled,
    /// The asset has moved to this location.
    #[error("GET was redirected to {0}: name that URL, redirects are not followed")]
    Redirected(String),
    /// The asset has moved, and the response has no Location.
    #[error("GET was redirected without Location")]
    NoLocation,
    /// The playlist cannot be played.
    #[error("invalid playlist: {0}")]
    Playlist(#[from] PlaylistError),
    /// The playlist is too long.
    #[error("the playlist is longer than {} bytes", wirepath_media::hls::PLAYLIST_LIMIT)]
    PlaylistSize,
    /// The playlists of all sessions use too much memory.
    #[error(
        "the playlists of all sessions take more than {} MiB: use fewer --sessions",
        crate::session::PLAYLIST_MEMORY >> 20
    )]
    PlaylistMemory,
    /// The variant of a master playlist has no segments.
    #[error("the variant of the master playlist is a master playlist")]
    NestedPlaylist,
}

/// Maximum number of characters kept of a text from the server.
const KEPT: usize = 80;

impl Failure {
    pub(crate) fn refused(method: &'static str, status: u16, reason: &str) -> Failure {
        Failure::Refused { method, status, reason: shortened(reason) }
    }

    pub(crate) fn redirected(location: &str) -> Failure {
        Failure::Redirected(shortened(location))
    }

    pub(crate) fn other_range(range: &str) -> Failure {
        Failure::OtherRange(shortened(range))
    }

    pub(crate) fn transport(text: &str) -> Failure {
        Failure::Transport(shortened(text))
    }
}

fn shortened(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(KEPT).collect()
}
