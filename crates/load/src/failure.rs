//! Failures of sessions.

use std::io;

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
}

/// Letters of a server's text that are kept.
const KEPT: usize = 80;

impl Failure {
    pub(crate) fn refused(method: &'static str, status: u16, reason: &str) -> Failure {
        Failure::Refused { method, status, reason: shortened(reason) }
    }

    pub(crate) fn transport(text: &str) -> Failure {
        Failure::Transport(shortened(text))
    }
}

fn shortened(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(KEPT).collect()
}
