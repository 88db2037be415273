//! Plans of images, which are determined before packing.

use crate::payload::MIN_PAYLOAD;
use crate::rtp::{CLOCK_HZ, HEADER_LENGTH, PAYLOAD_TYPE_MP2T};
use crate::ts::PACKET_LENGTH;

/// Most transport stream packets in an RTP packet: the number that fits a path MTU of 9,000 bytes.
pub const MAX_TS_PER_PACKET: u16 = 47;

/// Burst window of images in microseconds. Sessions with a shorter burst split trains, sessions with a longer
/// burst join them.
pub const USUAL_BURST_US: u32 = 20_000;

/// Longest burst in microseconds: receivers' jitter buffers are not larger.
pub const MAX_BURST_US: u32 = 500_000;

/// Identity of the asset of an image. The image is stale if any field differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Length in bytes.
    pub size: u64,
    /// Time of the last modification, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Inode number.
    pub inode: u64,
    /// Device number of the inode.
    pub device: u64,
}

/// Most streams of an image: video, and audio in many languages.
pub const MAX_STREAMS: usize = 16;

/// Division of an asset into packets and trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Recipe {
    /// Payload of a packet.
    pub payload: PayloadRecipe,
    /// Burst window in microseconds, at most [`MAX_BURST_US`]: packets leave early by at most this time.
    pub burst_us: u32,
}

/// Payload of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PayloadRecipe {
    /// Packets of a transport stream.
    TransportStream {
        /// Transport stream packets in each RTP packet, 1 to [`MAX_TS_PER_PACKET`]. Seven fit an Ethernet
        /// frame.
        ts_per_packet: u16,
    },
    /// Samples of tracks, in their payload formats.
    Tracks {
        /// Most bytes of a payload, at least [`MIN_PAYLOAD`].
        limit: u16,
        /// Most audio frames in a packet, at least 1.
        frames: u8,
        /// True if the asset is a transport stream.
        demuxed: bool,
    },
}

/// Stream of an image: initial values and common fields of its RTP headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamPlan {
    /// Synchronisation source.
    pub ssrc: u32,
    /// Sequence number of the first packet.
    pub sequence: u16,
    /// Timestamp at the beginning of the image, in ticks of the clock.
    pub timestamp: u32,
    /// Payload type, 0 to 127.
    pub payload_type: u8,
    /// Clock rate in Hz, not 0.
    pub clock_hz: u32,
}

/// Streams of an image by number, 1 to [`MAX_STREAMS`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    plans: [StreamPlan; MAX_STREAMS],
    count: u8,
}

/// Plan of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Identity of the asset.
    pub identity: Identity,
    /// Division into packets and trains.
    pub recipe: Recipe,
    /// Streams: one for a transport stream, or one for each track of a movie.
    pub streams: Streams,
}

/// Limits of packets on a network path, for all kinds of assets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathLimits {
    /// Most bytes of payload in a packet, enough for at least one transport stream packet.
    pub payload: u16,
    /// Burst window in microseconds.
    pub burst_us: u32,
}

/// Most audio frames in a packet: several reduce the number of packets and calls, and a lost packet loses
/// about 90 ms of audio.
const FRAMES_PER_PACKET: u8 = 4;

impl PathLimits {
    /// Limits for a path MTU in bytes, less the RTP, UDP and IP headers (`ip_header` is 20 bytes, or 40 for
    /// IPv6); `None` if no transport stream packet fits.
    pub fn for_mtu(mtu: u16, ip_header: u16, burst_us: u32) -> Option<Self> {
        const UDP_HEADER: u16 = 8;
        let payload = mtu.checked_sub(ip_header + UDP_HEADER + HEADER_LENGTH as u16)?;
        (usize::from(payload) >= PACKET_LENGTH).then_some(Self { payload, burst_us })
    }

    /// Recipe for a transport stream, with as many transport stream packets as fit.
    pub fn transport_stream(self) -> Recipe {
        let fit = self.payload / PACKET_LENGTH as u16;
        Recipe::transport_stream(fit.min(MAX_TS_PER_PACKET), self.burst_us)
    }

    /// Recipe for the same kind of asset as `recipe`.
    pub fn recipe_like(self, recipe: Recipe) -> Recipe {
        match recipe.payload {
            PayloadRecipe::TransportStream { .. } => self.transport_stream(),
            PayloadRecipe::Tracks { demuxed: true, .. } => self.demuxed(),
            PayloadRecipe::Tracks { .. } => self.tracks(),
        }
    }

    /// Recipe for the tracks of a movie. Full packets have an even length, because the kernel computes wrong
    /// checksums of pages by reference after parts of odd length.
    pub fn tracks(self) -> Recipe {
        self.tracks_of(false)
    }

    /// Recipe for the tracks of a demultiplexed transport stream.
    pub fn demuxed(self) -> Recipe {
        self.tracks_of(true)
    }

    fn tracks_of(self, demuxed: bool) -> Recipe {
        let payload = PayloadRecipe::Tracks { limit: self.payload & !1, frames: FRAMES_PER_PACKET, demuxed };
        Recipe { payload, burst_us: self.burst_us }
    }
}

/// Invalid recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Number of transport stream packets out of range.
    #[error("invalid number of TS packets per RTP packet {0}: expected 1 to {MAX_TS_PER_PACKET}")]
    TsPerPacket(u16),
    /// Limit of payloads out of range.
    #[error("invalid limit of RTP payloads {0}: expected at least {MIN_PAYLOAD} bytes")]
    Limit(u16),
    /// No frames in a packet.
    #[error("invalid number of frames in an RTP packet 0: expected at least 1")]
    Frames,
    /// Recipe for another kind of asset.
    #[error("the recipe is for another kind of asset than the packer")]
    Kind,
    /// Burst too long.
    #[error("invalid burst of {0} µs: expected at most {MAX_BURST_US} µs")]
    Burst(u32),
}

impl Recipe {
    /// Recipe for a transport stream.
    pub const fn transport_stream(ts_per_packet: u16, burst_us: u32) -> Self {
        Self { payload: PayloadRecipe::TransportStream { ts_per_packet }, burst_us }
    }

    /// Most bytes of payload in a packet. For a transport stream, all packets except the last have this
    /// payload.
    pub fn payload_length(self) -> usize {
        match self.payload {
            PayloadRecipe::TransportStream { ts_per_packet } => usize::from(ts_per_packet) * PACKET_LENGTH,
            PayloadRecipe::Tracks { limit, .. } => limit.into(),
        }
    }

    /// Most bytes of a packet, including the RTP header. For a transport stream, all packets except the last
    /// have this size.
    pub fn packet_size(self) -> u16 {
        (HEADER_LENGTH + self.payload_length()).min(u16::MAX.into()) as u16
    }

    /// Returns whether the packets contain transport stream packets.
    pub fn is_transport_stream(self) -> bool {
        matches!(self.payload, PayloadRecipe::TransportStream { .. })
    }

    /// Returns whether the asset is a transport stream whose tracks are sent separately.
    pub fn is_demuxed(self) -> bool {
        matches!(self.payload, PayloadRecipe::Tracks { demuxed: true, .. })
    }

    /// Checks the ranges of the fields.
    pub fn check(self) -> Result<(), PlanError> {
        /// Most bytes of payload whose packet's length, including the header, fits 16 bits.
        const MAX_LIMIT: u16 = u16::MAX - HEADER_LENGTH as u16;
        match self.payload {
            PayloadRecipe::TransportStream { ts_per_packet } => match ts_per_packet {
                1..=MAX_TS_PER_PACKET => {}
                number => return Err(PlanError::TsPerPacket(number)),
            },
            PayloadRecipe::Tracks { limit, .. } if !(MIN_PAYLOAD as u16..=MAX_LIMIT).contains(&limit) => {
                return Err(PlanError::Limit(limit));
            }
            PayloadRecipe::Tracks { frames: 0, .. } => return Err(PlanError::Frames),
            PayloadRecipe::Tracks { .. } => {}
        }
        if self.burst_us > MAX_BURST_US { Err(PlanError::Burst(self.burst_us)) } else { Ok(()) }
    }
}

impl StreamPlan {
    /// Stream for a transport stream.
    pub const fn transport_stream(ssrc: u32, sequence: u16, timestamp: u32) -> Self {
        Self { ssrc, sequence, timestamp, payload_type: PAYLOAD_TYPE_MP2T, clock_hz: CLOCK_HZ }
    }

    /// Sequence number of packet `packet` of the stream, counted from 0.
    pub fn sequence_of(&self, packet: u64) -> u16 {
        self.sequence.wrapping_add(packet as u16)
    }

    /// Timestamp of a time in microseconds since the beginning of the image, rounded down.
    pub fn timestamp_at(&self, us: u64) -> u32 {
        let ticks = u128::from(us) * u128::from(self.clock_hz) / 1_000_000;
        self.timestamp.wrapping_add(ticks as u32)
    }
}

impl Streams {
    /// Makes the list of streams; `None` if there are none or too many.
    pub fn new(streams: &[StreamPlan]) -> Option<Self> {
        let mut plans = [StreamPlan::default(); MAX_STREAMS];
        plans.get_mut(..streams.len()).filter(|plans| !plans.is_empty())?.copy_from_slice(streams);
        Some(Self { plans, count: streams.len() as u8 })
    }
}

impl From<StreamPlan> for Streams {
    fn from(stream: StreamPlan) -> Self {
        let mut plans = [StreamPlan::default(); MAX_STREAMS];
        plans[0] = stream;
        Self { plans, count: 1 }
    }
}

impl std::ops::Deref for Streams {
    type Target = [StreamPlan];

    fn deref(&self) -> &[StreamPlan] {
        &self.plans[..usize::from(self.count)]
    }
}

impl std::fmt::Debug for Streams {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}
