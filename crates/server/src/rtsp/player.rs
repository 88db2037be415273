//! The interface to the playbacks of RTSP sessions.
//!
//! RTSP knows paths, ranges and sockets; the image store and the engine's playbacks implement these traits.
//! Replies and events come from engine threads, so handling them must never block.

use std::future::Future;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;

use crate::admission::Overload;
use crate::played_as::PlayedAs;
use wirepath_media::rtsp::{PortPair, ReplyDelivery};
use wirepath_media::sdp::Description;
use wirepath_media::srtp::{MasterKey, TAG_LENGTH};
use wirepath_playback::{
    ConnectionWriter, PlayError, PlaybackEvent, Position, Progress, Scale, Speed, StreamProgress,
};

/// A result that may take a while, because storage is read or an asset is examined.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Called once with the result of a request, from any thread. It is dropped without a call only if the
/// playback has ended.
pub(crate) type Reply<T> = Box<dyn FnOnce(Result<T, PlayError>) + Send>;

/// Called with each event of a playback, from any thread. Events and replies come in order.
pub(crate) type OnEvent = Box<dyn Fn(PlaybackEvent) + Send + Sync>;

/// A range of a presentation to play, in microseconds from its beginning, with speed and scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlayRange {
    /// Start; none for the current position.
    pub(crate) from_us: Option<u64>,
    /// End; none for the end of the presentation.
    pub(crate) until_us: Option<u64>,
    /// Speed of delivery (RFC 2326 section 12.35).
    pub(crate) speed: Speed,
    /// Scale (RFC 2326 section 12.34). For backward play, the end is before the start, and the end of the
    /// presentation is its beginning.
    pub(crate) scale: Scale,
    /// ONVIF replay parameters.
    pub(crate) replay: ReplayPlay,
}

/// ONVIF replay parameters of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplayPlay {
    /// Low byte of the CSeq of the PLAY.
    pub(crate) cseq: u8,
    /// True if packets leave as fast as the RTSP connection takes them.
    pub(crate) unpaced: bool,
    /// Least interval between pictures, in microseconds as recorded, if only pictures that can be decoded
    /// alone are played.
    pub(crate) intra_us: Option<u64>,
}

/// Finds presentations.
pub(crate) trait Player: Send + Sync {
    /// Opens the presentation at a path, for a client at an address. The path consists of names joined by
    /// `/`, none of them empty, `.` or `..`; it is empty for the root.
    /// A presentation that has only one form is opened in that form, whatever is asked for.
    fn open<'a>(
        &'a self,
        path: &'a [u8],
        played_as: PlayedAs,
        client: IpAddr,
    ) -> BoxFuture<'a, Result<Arc<dyn Presentation>, OpenError>>;

    /// The player that opens what can be opened now, whatever a reload changes; none if nothing changes.
    fn snapshot(&self) -> Option<Arc<dyn Player>> {
        None
    }

    /// Returns whether a reload has changed nothing since this [snapshot](Self::snapshot).
    fn is_current(&self) -> bool {
        true
    }

    /// Admits a session by the load and by its payload's bit rate, if known, or returns the reason of the
    /// refusal.
    fn admit(&self, bits_per_second: Option<u64>) -> Result<(), Overload>;

    /// Admits an increase of speed of sessions by so many times the bit rate of one, or returns the reason of
    /// the refusal.
    fn admit_faster(&self, more: f64) -> Result<(), Overload>;

    /// Returns whether there are multicast groups to send to.
    fn has_groups(&self) -> bool;

    /// Opens the writer of a connection. `socket` is a duplicate of its descriptor.
    fn open_writer(&self, socket: OwnedFd) -> io::Result<ConnectionWriter>;
}

/// Receiver of a track's packets.
pub(crate) enum MediaSink {
    /// A socket connected to the client, with a key if packets are encrypted.
    Udp(UdpSocket, Option<MasterKey>),
    /// A channel of the RTSP connection, with a key if packets are encrypted.
    Interleaved(Arc<ConnectionWriter>, u8, Option<MasterKey>),
}

/// Bytes after each packet's payload for a sink with this key.
pub(crate) fn trailer(key: Option<&MasterKey>) -> u32 {
    if key.is_some() { TAG_LENGTH as u32 } else { 0 }
}

/// Address of a multicast group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupAddress {
    pub(crate) address: IpAddr,
    /// Port of the first track's RTP.
    pub(crate) port: u16,
    /// Time to live, or hop limit.
    pub(crate) ttl: u8,
}

impl GroupAddress {
    /// The transport of a track in the response to SETUP: each track has two ports.
    pub(crate) fn delivery(&self, track: u8) -> ReplyDelivery {
        let rtp = self.port.saturating_add(2 * u16::from(track));
        let ports = PortPair { rtp, rtcp: rtp.saturating_add(1) };
        ReplyDelivery::Multicast { group: self.address, ports, ttl: self.ttl }
    }
}

/// Part of a session in a group.
pub(crate) struct Joined {
    pub(crate) playback: Box<dyn SessionPlayback>,
    pub(crate) group: GroupAddress,
}

/// Something that can be played.
pub(crate) trait Presentation: Send + Sync {
    /// Describes the presentation in its current state.
    fn describe(&self) -> Description;

    /// Mean bit rate of its payload, if known.
    fn bits_per_second(&self) -> Option<u64> {
        None
    }

    /// The same presentation, whose packets have the header extensions of ONVIF replay; none if it is no
    /// recording with a wall clock.
    fn with_replay(&self) -> Option<Arc<dyn Presentation>> {
        None
    }

    /// Number of its tracks, at least one. They are counted from 0 here and from 1 in URLs.
    fn tracks(&self) -> u8;

    /// Opens a playback of a track. It rests at the start until it is told to play, and ends when it is
    /// dropped. The path's MTU is that of the UDP socket. Bursts are no longer than `most_burst_us`, if the
    /// client requests that.
    fn set_up(
        &self,
        track: u8,
        sink: MediaSink,
        most_burst_us: Option<u64>,
        on_event: OnEvent,
    ) -> BoxFuture<'_, Result<Box<dyn SessionPlayback>, OpenError>>;

    /// Joins the group to which all tracks are sent, for all sessions that join.
    fn join(&self, on_event: OnEvent) -> BoxFuture<'_, Result<Joined, OpenError>>;
}

/// A session's playback of a presentation.
pub(crate) trait SessionPlayback: Send + Sync {
    /// Number of tracks of the presentation.
    fn tracks(&self) -> u8;

    /// Adds another track, over the same lower transport as the first.
    fn add(&self, track: u8, sink: MediaSink) -> Result<(), OpenError>;

    /// Returns whether other sessions play the same packets, so that a session cannot choose range and speed.
    fn is_shared(&self) -> bool {
        false
    }

    /// Returns whether the presentation has no beginning and end, so that PLAY continues at its current
    /// position.
    fn is_live(&self) -> bool {
        false
    }

    /// Track whose random access points can be played alone, for scales other than 1, if any.
    fn scanned_track(&self) -> Option<u8>;

    /// Track of which pictures that can be decoded alone are played for ONVIF replay, if any.
    fn intra_track(&self) -> Option<u8> {
        None
    }

    /// Time 0 of the presentation on the wall clock, in microseconds since 1970, if it has one.
    fn clock_origin_us(&self) -> Option<i64> {
        None
    }

    /// Time at which a client begins that plays a presentation from now on while it is recorded, in microseconds
    /// from its beginning; `None` for other presentations.
    fn newest_us(&self) -> BoxFuture<'_, Option<u64>> {
        Box::pin(std::future::ready(None))
    }

    /// Source of a track's packets.
    fn source(&self, track: u8) -> TrackSource;

    /// Plays a range, from the last random access point at or before its start or from the current position.
    fn play(&self, range: PlayRange, reply: Reply<Position>);

    /// Releases packets after PLAY, when its response has been written. Packets over UDP do not wait for
    /// this.
    fn release(&self);

    /// Pauses when the access units that have begun are complete; the reply is the position in microseconds
    /// from the start.
    fn pause(&self, reply: Reply<u64>);

    /// Pauses at once, for a session that ends or is refused.
    fn stop(&self, reply: Reply<u64>);

    fn progress(&self) -> Progress;

    /// Progress of a track.
    fn track_progress(&self, track: u8) -> StreamProgress;

    /// Reason for which the presentation cannot be played any further, in words for clients, and whether the
    /// presentation is at fault.
    fn failure(&self) -> Option<PlaybackFailure>;

    /// Duration of the presentation in microseconds, if known.
    fn duration_us(&self) -> Option<u64>;

    /// Reason for its first data path, for the status page.
    fn reason(&self) -> &str;

    /// Name of the asset that is played, which may be spelled differently in the URL. None if the URL names no single
    /// asset.
    fn asset(&self) -> Option<&str> {
        None
    }

    /// Counts a play of the asset. Called when the session plays for the first time, on the control thread.
    fn count_play(&self);
}

/// Source of a track's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrackSource {
    /// Synchronisation source.
    pub(crate) ssrc: u32,
    /// Ticks of its timestamps per second.
    pub(crate) clock_hz: u32,
}

/// Reason why a presentation cannot be played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlaybackFailure {
    /// In words for clients.
    pub(crate) reason: String,
    /// True if the asset is at fault; else trying again later may help.
    pub(crate) is_asset: bool,
}

/// A presentation cannot be played.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OpenError {
    /// Missing, or not served.
    #[error("no such file")]
    NotFound,
    /// A folder that is not an archive.
    #[error(
        "this is a folder: DESCRIBE a file in it (HTTP lists them), or serve its recordings as one timeline \
         (--archive)"
    )]
    Folder,
    /// The server has no permission to read it; the text is for clients.
    #[error("{0}")]
    Forbidden(String),
    /// The asset is at fault; the text is for clients.
    #[error("{0}")]
    NotPlayable(String),
    /// Too many files are open; the text is for the log.
    #[error("{0}")]
    Exhausted(String),
    /// The server is at a limit; trying later may help. The text is for the log.
    #[error("{0}")]
    Busy(String),
    /// There is nothing to play yet; the text is for clients.
    #[error("{0}")]
    NotYet(String),
    /// The image does not fit the cache; the text is for clients.
    #[error("{0}")]
    NoSpace(String),
    /// A limit of this client is reached; the text is for clients.
    #[error("{0}")]
    AtLimit(String),
    /// The server failed; the text is for the log.
    #[error("{0}")]
    Failed(String),
}
