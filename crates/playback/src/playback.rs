//! A playback: sends a source's trains to one receiver, each when it is due.

use std::net::UdpSocket;
use std::sync::Arc;

use wirepath_datapath::srtp::MasterKey;
use wirepath_engine::Handle;

use crate::connection_writer::ConnectionWriter;
use crate::numbering::Timestamps;
use crate::pacer::Pacer;
use crate::progress::{Progress, SharedProgress, StreamProgress};
use crate::replay::AccessUnits;
use crate::request::{PlayError, PlayRequest, PlaybackEvent, Position};
use crate::source::{Cursor, TrainSource};

/// Options of a playback.
pub struct PlaybackOptions {
    /// The source of the trains.
    pub source: Arc<dyn TrainSource>,
    /// Number of its streams, at most [`MOST_STREAMS`].
    pub streams: u8,
    /// The first sent stream. [`Playbacks::add`](crate::Playbacks::add) adds others.
    pub sink: StreamSink,
    /// Longest burst that the receiver accepts, in microseconds, in addition to the limit of the
    /// [settings](crate::Burst). The source's time is divided into bursts; the packets of a burst leave
    /// together at its beginning.
    pub most_burst_us: u64,
    /// Called with each event on an engine thread; must not block.
    pub on_event: Box<dyn Fn(PlaybackEvent) + Send>,
}

/// Most streams of a source.
pub const MOST_STREAMS: u8 = 64;

/// A stream of a source, and the receiver of its packets.
pub struct StreamSink {
    /// Number of the stream in the source, counted from 0.
    pub stream: u8,
    /// Relation of its timestamps to the time of the source.
    pub timestamps: Timestamps,
    /// The receiver.
    pub sink: PlaybackSink,
    /// Key with which the packets are encrypted as SRTP; without one they are not encrypted. Only this stream
    /// may use the key.
    pub key: Option<MasterKey>,
    /// Kind of its access units, if packets have header extensions of ONVIF replay, 16 bytes each.
    pub replay: Option<AccessUnits>,
}

impl From<PlaybackSink> for StreamSink {
    /// The first stream of a source whose timestamps are departures, such as a transport stream.
    fn from(sink: PlaybackSink) -> StreamSink {
        StreamSink { stream: 0, timestamps: Timestamps::Departure, sink, key: None, replay: None }
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
    /// A UDP receiver, or group of receivers, that did not request the packets. Packets that cannot be sent
    /// or read are lost, and the playback continues. The headers are made from the trains' runs, so that a
    /// source may change the stored numbers.
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
        /// Lateness in microseconds beyond which a playback skips forward to the [next
        /// start](TrainSource::next_start), because its client reads too slowly.
        max_lag_us: u64,
    },
}

/// A playback on an engine thread. It ends when this is dropped.
///
/// Replies to requests, and events, come in the order in which they happen. If the engine ends before a
/// request was handled, its reply is dropped without a call.
pub struct Playback {
    pub(crate) id: u64,
    pub(crate) pacer: Handle<Pacer>,
    /// Number of streams of the source.
    pub(crate) streams: u8,
    pub(crate) progress: Arc<SharedProgress>,
    pub(crate) reason: Arc<str>,
    /// Writer of the connection; it outlives the playback.
    pub(crate) writer: Option<Arc<ConnectionWriter>>,
}

impl Playback {
    /// Plays from a position, or from the paused position, up to the packet that leaves `until_us` after the
    /// start of the source, as recorded. The first request uses the headers stored in the source. After a
    /// request with a position, packets have headers that continue the last ones (RFC 2326 appendix B). The
    /// reply names the first packet.
    pub fn play(
        &self,
        from: Option<Cursor>,
        until_us: Option<u64>,
        reply: impl FnOnce(Result<Position, PlayError>) + Send + 'static,
    ) {
        self.play_as(PlayRequest { from, until_us, ..PlayRequest::default() }, reply);
    }

    /// Plays like [`Playback::play`], at the speed of the request. A playing playback leaves its position for
    /// another when the access units that have begun are complete, as with [`Playback::pause`]. Without a
    /// position no packet is lost or repeated, also if the speed of a playing playback changes. Fast forward
    /// and rewind then begin with the next picture in their direction; normal play after them begins with
    /// their current picture.
    pub fn play_as(
        &self,
        request: PlayRequest,
        reply: impl FnOnce(Result<Position, PlayError>) + Send + 'static,
    ) {
        let (id, reply) = (self.id, Box::new(reply));
        self.pacer.with(move |pacer, context| pacer.play(id, request, reply, context));
    }

    /// Releases the packets of a request to play. On a connection they wait for this, so that the response to
    /// PLAY can be [written](ConnectionWriter::write) first; over UDP they do not wait.
    pub fn release(&self) {
        let id = self.id;
        self.pacer.with(move |pacer, context| pacer.release(id, context));
    }

    /// Pauses when the access units that have begun are complete in all streams, but at most a second later.
    /// The reply contains the departure of the next packet, in microseconds from the start of the source. A
    /// later request ends the wait: it follows the reply. Each datagram of a transport stream is complete, so
    /// that the playback of one pauses at once.
    pub fn pause(&self, reply: impl FnOnce(Result<u64, PlayError>) + Send + 'static) {
        let (id, reply) = (self.id, Box::new(reply));
        self.pacer.with(move |pacer, context| pacer.pause(id, reply, context));
    }

    /// Pauses at once, like [`Playback::pause`] without regard to access units: for a receiver that is
    /// leaving.
    pub fn stop(&self, reply: impl FnOnce(Result<u64, PlayError>) + Send + 'static) {
        let (id, reply) = (self.id, Box::new(reply));
        self.pacer.with(move |pacer, context| pacer.stop(id, reply, context));
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

    /// Progress of a stream; zeros for a stream that is not sent.
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
