//! A playback: a source's trains to one receiver, each when it is due.

use std::net::UdpSocket;
use std::sync::Arc;

use wirepath_datapath::SendError;
use wirepath_datapath::srtp::MasterKey;
use wirepath_engine::Handle;

use crate::connection_writer::ConnectionWriter;
use crate::numbering::Timestamps;
use crate::pacer::Pacer;
use crate::progress::{Progress, SharedProgress, StreamProgress};
use crate::scale::Scale;
use crate::source::{Cursor, TrainSource};
use crate::speed::Speed;

/// Options of a playback.
pub struct PlaybackOptions {
    /// The source of the trains.
    pub source: Arc<dyn TrainSource>,
    /// Number of its streams, at most [`MOST_STREAMS`].
    pub streams: u8,
    /// The first stream that is sent. [`Playbacks::add`](crate::Playbacks::add) adds others.
    pub sink: StreamSink,
    /// Longest burst that the receiver takes, in microseconds, whatever the [settings](crate::Burst) allow.
    /// The source's time is divided into bursts; packets of a burst leave together when it begins.
    pub most_burst_us: u64,
    /// Called with each event on an engine thread; must not block.
    pub on_event: Box<dyn Fn(PlaybackEvent) + Send>,
}

/// Most streams of a source that can be sent.
pub const MOST_STREAMS: u8 = 64;

/// A stream of a source, and the receiver of its packets.
pub struct StreamSink {
    /// Number of the stream in the source, counted from 0.
    pub stream: u8,
    /// Relation of its timestamps to the time of the source.
    pub timestamps: Timestamps,
    /// The receiver.
    pub sink: PlaybackSink,
    /// Key by which the packets are encrypted as SRTP; in the clear without one. Only this stream may have it.
    pub key: Option<MasterKey>,
}

impl From<PlaybackSink> for StreamSink {
    /// The first stream of a source whose timestamps are departures, such as a transport stream.
    fn from(sink: PlaybackSink) -> StreamSink {
        StreamSink { stream: 0, timestamps: Timestamps::Departure, sink, key: None }
    }
}

/// Receiver of a stream's packets.
pub enum PlaybackSink {
    /// A UDP receiver.
    Udp {
        /// A socket connected to it.
        socket: UdpSocket,
        /// Size of the source's packets in bytes, headers included.
        packet_size: u16,
    },
    /// A UDP receiver, or group of receivers, that did not ask for the packets: those that cannot be sent or read
    /// are lost, and the playback goes on. The headers are made from the trains' runs, so that a source may
    /// change what is stored.
    Push {
        /// A socket connected to it.
        socket: UdpSocket,
        /// Size of the source's packets in bytes, headers included.
        packet_size: u16,
        /// False if packets leave without headers: a plain transport stream in UDP.
        has_headers: bool,
    },
    /// A channel of an RTSP connection. Its packets wait for [`Playback::release`].
    Interleaved {
        /// The connection.
        writer: Arc<ConnectionWriter>,
        /// Channel of the packets.
        channel: u8,
        /// Lateness in microseconds beyond which a playback whose client reads too slowly skips forward to
        /// the [next start](TrainSource::next_start).
        max_lag_us: u64,
    },
}

/// Event of a playback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaybackEvent {
    /// The requested range, or the source, was sent to its end. The playback rests there.
    Finished,
    /// The playback cannot go on and is over.
    Failed(PlayError),
}

/// Error of a request to a playback, or of the playback.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlayError {
    /// A packet could not be sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The source cannot deliver; the text says why.
    #[error("{0}")]
    Source(Arc<str>),
    /// The requested time is beyond the end of the source.
    #[error("the requested time is beyond the end")]
    BeyondEnd,
    /// A later request replaced this one before it was done.
    #[error("a later request replaced this one")]
    Superseded,
    /// The playback or its engine is over.
    #[error("the playback has ended")]
    Over,
}

impl PlayError {
    /// Returns whether the receiver answered that nobody listens on its port (ICMP port unreachable).
    pub fn is_unreachable(&self) -> bool {
        matches!(self, PlayError::Send(SendError::Refused { .. }))
    }
}

/// Request to play.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlayRequest {
    /// Place of the first packet; where the playback rests or is if none.
    pub from: Option<Cursor>,
    /// Time after the start of the source, in microseconds, at which the first packet leaves that is not
    /// played; the end of the source if none.
    pub until_us: Option<u64>,
    /// Speed.
    pub speed: Speed,
    /// Only pictures that can be decoded alone, forward or backward, at the normal speed; all packets if none.
    /// Played backward, `until_us` is the earliest time that is played.
    pub pictures: Option<Pictures>,
}

/// Fast forward or rewind by the pictures of a stream that can be decoded alone, which the source's
/// [starts](TrainSource::next_start) are. Nothing of other streams is sent. The last packet of a picture has a
/// marker, and its packets have one timestamp of presentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pictures {
    /// Scale, not the normal one.
    pub scale: Scale,
    /// Number of the stream, which is set up.
    pub stream: u8,
    /// Bit rate that is not exceeded on average.
    pub bits_per_second: u64,
}

/// Beginning of a request to play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Departure of the first packet, in microseconds from the start of the source.
    pub at_us: u64,
    /// The streams that are sent, in the order in which they were set up.
    pub streams: Vec<StreamPosition>,
}

/// First packet of a stream in a request to play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPosition {
    /// Number of the stream in the source.
    pub stream: u8,
    /// RTP sequence number of its first packet, unless that is stored far behind the beginning.
    pub sequence: Option<u16>,
    /// RTP timestamp of the beginning.
    pub timestamp: u32,
}

/// Called with the result of a request on an engine thread; must not block.
pub(crate) type Reply<T> = Box<dyn FnOnce(Result<T, PlayError>) + Send>;

/// A playback on an engine thread. It ends when this is dropped.
///
/// Replies to requests, and events, come in the order in which things happen. If the engine ends before a
/// request was handled, its reply is dropped without being called.
pub struct Playback {
    pub(crate) id: u64,
    pub(crate) pacer: Handle<Pacer>,
    /// Number of streams of the source.
    pub(crate) streams: u8,
    pub(crate) progress: Arc<SharedProgress>,
    pub(crate) reason: Arc<str>,
    /// Writer of the connection, which ends after the playback.
    pub(crate) writer: Option<Arc<ConnectionWriter>>,
}

impl Playback {
    /// Plays from a place, or from where the playback rests, up to the packet that leaves `until_us` after
    /// the start of the source, as recorded. The first request uses the headers stored in the source; after a
    /// request with a place, packets have headers that continue where the last ones ended (RFC 2326 appendix
    /// B). The reply names the first packet.
    pub fn play(
        &self,
        from: Option<Cursor>,
        until_us: Option<u64>,
        reply: impl FnOnce(Result<Position, PlayError>) + Send + 'static,
    ) {
        self.play_as(PlayRequest { from, until_us, ..PlayRequest::default() }, reply);
    }

    /// Plays as [`Playback::play`] does, at the speed of the request. Without a place no packet is lost or
    /// repeated, also of a playback that plays at another speed. Fast forward and rewind begin with the next
    /// picture of their direction then, and what follows them with the picture that they were at.
    pub fn play_as(
        &self,
        request: PlayRequest,
        reply: impl FnOnce(Result<Position, PlayError>) + Send + 'static,
    ) {
        let (id, reply) = (self.id, Box::new(reply));
        self.pacer.with(move |pacer, context| pacer.play(id, request, reply, context));
    }

    /// Lets the packets leave that a request to play has led to. On a connection they wait for this, so that
    /// the response to PLAY can be [written](ConnectionWriter::write) before; to a UDP receiver they do not.
    pub fn release(&self) {
        let id = self.id;
        self.pacer.with(move |pacer, context| pacer.release(id, context));
    }

    /// Pauses after the train that is being sent. The reply gives the departure of the next packet, in
    /// microseconds from the start of the source.
    pub fn pause(&self, reply: impl FnOnce(Result<u64, PlayError>) + Send + 'static) {
        let (id, reply) = (self.id, Box::new(reply));
        self.pacer.with(move |pacer, context| pacer.pause(id, reply, context));
    }

    /// Reason for the first data path, in words. Later ones are among the
    /// [step-downs](wirepath_datapath::Support::step_downs).
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Progress so far.
    pub fn progress(&self) -> Progress {
        self.progress.read()
    }

    /// Progress of a stream so far; zeros for one that is not sent.
    pub fn stream_progress(&self, stream: u8) -> StreamProgress {
        self.progress.stream(stream).read()
    }
}

impl Drop for Playback {
    fn drop(&mut self) {
        let id = self.id;
        self.pacer.with(move |pacer, context| pacer.remove(id, context));
    }
}
