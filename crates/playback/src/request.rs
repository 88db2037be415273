//! Requests to a playback: their parameters, results and errors, and the events that follow.

use std::sync::Arc;

use wirepath_datapath::SendError;

use crate::replay::ReplayRequest;
use crate::scale::Scale;
use crate::source::Cursor;
use crate::speed::Speed;

/// Request to play.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlayRequest {
    /// Position of the first packet; none for the current or paused position.
    pub from: Option<Cursor>,
    /// Departure of the first packet that is not played, in microseconds from the start of the source; none
    /// for the end of the source.
    pub until_us: Option<u64>,
    /// Speed.
    pub speed: Speed,
    /// Fast forward or rewind by pictures that can be decoded alone, at the normal speed; none to play all
    /// packets. For backward play, `until_us` is the earliest time that is played.
    pub pictures: Option<Pictures>,
    /// ONVIF replay parameters.
    pub replay: ReplayRequest,
}

/// Fast forward or rewind: sends only pictures of one stream that can be decoded alone, at the
/// [starts](crate::TrainSource::next_start) of the source, and nothing of other streams. The last packet of a
/// picture has a marker, and its packets have the same presentation timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pictures {
    /// Scale, not the normal one.
    pub scale: Scale,
    /// Number of the stream, which must be set up.
    pub stream: u8,
    /// Limit of the mean bit rate.
    pub bits_per_second: u64,
}

/// Beginning of a request to play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Departure of the first packet, in microseconds from the start of the source.
    pub at_us: u64,
    /// The sent streams, in the order in which they were set up.
    pub streams: Vec<StreamPosition>,
}

/// First packet of a stream in a request to play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPosition {
    /// Number of the stream in the source.
    pub stream: u8,
    /// RTP sequence number of its first packet, unless that packet is stored far after the start position.
    pub sequence: Option<u16>,
    /// RTP timestamp of the beginning.
    pub timestamp: u32,
}

/// Error of a request to a playback, or of the playback.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlayError {
    /// A packet could not be sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The source failed; the text is the reason.
    #[error("{0}")]
    Source(Arc<str>),
    /// There is nothing to play yet.
    #[error("{reason}")]
    NotYet {
        /// The reason.
        reason: Arc<str>,
        /// Seconds after which there may be something.
        retry_after_s: u64,
    },
    /// The requested time is beyond the end of the source.
    #[error("the requested time is beyond the end")]
    BeyondEnd,
    /// A later request replaced this one before it was complete.
    #[error("a later request replaced this one")]
    Superseded,
    /// The playback or its engine has ended.
    #[error("the playback has ended")]
    Over,
}

impl PlayError {
    /// Returns whether the receiver answered that nobody listens on its port (ICMP port unreachable).
    pub fn is_unreachable(&self) -> bool {
        matches!(self, PlayError::Send(SendError::Refused { .. }))
    }
}

/// Event of a playback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaybackEvent {
    /// The requested range, or the source, was sent to its end. The playback rests there.
    Finished,
    /// The playback failed and has ended.
    Failed(PlayError),
}

/// Called with the result of a request on an engine thread; must not block.
pub(crate) type Reply<T> = Box<dyn FnOnce(Result<T, PlayError>) + Send>;
