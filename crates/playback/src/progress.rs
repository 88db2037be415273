//! Progress of a playback, written by its engine thread and read by others.

use std::sync::atomic::{AtomicBool, AtomicI8, AtomicI32, AtomicU8, AtomicU16, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use wirepath_counters::LocalCounter;
use wirepath_datapath::{DataPath, SendError};

use crate::scale::Scale;
use crate::speed::Speed;

/// Progress of a playback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// RTP packets sent, of all streams.
    pub packets: u64,
    /// RTP payload bytes sent, of all streams, without padding.
    pub payload_bytes: u64,
    /// Packets that the network rejected or storage failed to deliver.
    pub packets_lost: u64,
    /// Error number of the last send that lost packets.
    pub loss_errno: Option<i32>,
    /// Departure of the last train sent, in microseconds from the start of the source.
    pub position_us: u64,
    /// True while the playback plays.
    pub is_playing: bool,
    /// Current or last speed.
    pub speed: Speed,
    /// Current or last scale.
    pub scale: Scale,
    /// Number of skips forward because a client over TCP read too slowly.
    pub forward_skips: u64,
    /// The data path that sent the last train, or that is tried for the first one; over TCP `wire_uring` or
    /// none.
    pub path: Option<DataPath>,
    /// Length of the last burst in microseconds; 0 before the first.
    pub burst_us: u64,
}

/// Progress of a stream of a playback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamProgress {
    /// RTP packets sent.
    pub packets: u64,
    /// RTP payload bytes sent, without padding.
    pub payload_bytes: u64,
    /// The RTP clock, while the playback plays.
    pub clock: Option<RtpClock>,
}

/// Relation of a stream's RTP timestamps to time while its playback plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpClock {
    /// A time, in microseconds of CLOCK_MONOTONIC.
    pub at_us: u64,
    /// RTP timestamp of that time.
    pub timestamp: u32,
    /// Speed at which timestamps grow.
    pub speed: Speed,
}

#[derive(Debug)]
pub(crate) struct SharedProgress {
    packets_lost: LocalCounter,
    /// 0 before the first loss.
    loss_errno: AtomicI32,
    pub(crate) forward_skips: LocalCounter,
    position_us: AtomicU64,
    /// Index in [`DataPath::ALL`]; [`NO_PATH`] before one is set.
    path: AtomicU8,
    is_playing: AtomicBool,
    speed_thousandths: AtomicU16,
    scale: AtomicI8,
    burst_us: AtomicU64,
    /// Stream 0, stored in place, since most sources have only one.
    first: SharedStreamProgress,
    /// The further streams of the source by number, sent or not.
    others: Box<[SharedStreamProgress]>,
}

#[derive(Debug, Default)]
pub(crate) struct SharedStreamProgress {
    pub(crate) packets: LocalCounter,
    pub(crate) payload_bytes: LocalCounter,
    clock: Mutex<Option<RtpClock>>,
}

const NO_PATH: u8 = u8::MAX;

impl SharedProgress {
    /// Progress of a playback whose source has so many streams.
    pub(crate) fn new(streams: u8) -> SharedProgress {
        SharedProgress {
            packets_lost: LocalCounter::default(),
            loss_errno: AtomicI32::default(),
            forward_skips: LocalCounter::default(),
            position_us: AtomicU64::default(),
            path: AtomicU8::new(NO_PATH),
            is_playing: AtomicBool::default(),
            speed_thousandths: AtomicU16::new(Speed::NORMAL.thousandths() as u16),
            scale: AtomicI8::new(Scale::NORMAL.factor()),
            burst_us: AtomicU64::default(),
            first: SharedStreamProgress::default(),
            others: (1..streams).map(|_| SharedStreamProgress::default()).collect(),
        }
    }

    pub(crate) fn read(&self) -> Progress {
        let streams = || [&self.first].into_iter().chain(&self.others);
        Progress {
            packets: streams().map(|stream| stream.packets.value()).sum(),
            payload_bytes: streams().map(|stream| stream.payload_bytes.value()).sum(),
            packets_lost: self.packets_lost.value(),
            loss_errno: Some(self.loss_errno.load(Relaxed)).filter(|errno| *errno != 0),
            position_us: self.position_us(),
            is_playing: self.is_playing.load(Relaxed),
            speed: Speed::nearest(f64::from(self.speed_thousandths.load(Relaxed)) / 1000.0),
            scale: Scale::nearest(f64::from(self.scale.load(Relaxed))),
            forward_skips: self.forward_skips.value(),
            path: DataPath::ALL.get(usize::from(self.path.load(Relaxed))).copied(),
            burst_us: self.burst_us.load(Relaxed),
        }
    }

    /// Progress of a stream; the first stream's for numbers that the source does not have.
    #[inline]
    pub(crate) fn stream(&self, number: u8) -> &SharedStreamProgress {
        let other = usize::from(number).checked_sub(1);
        other.and_then(|index| self.others.get(index)).unwrap_or(&self.first)
    }

    /// Notes that so many packets were lost because of this error.
    pub(crate) fn note_loss(&self, packets: u32, error: &SendError) {
        self.packets_lost.add(packets.into());
        self.loss_errno.store(error.errno().raw_os_error(), Relaxed);
    }

    pub(crate) fn position_us(&self) -> u64 {
        self.position_us.load(Relaxed)
    }

    pub(crate) fn set_position(&self, at_us: u64) {
        self.position_us.store(at_us, Relaxed);
    }

    pub(crate) fn set_path(&self, path: Option<DataPath>) {
        let index = path.and_then(|path| DataPath::ALL.iter().position(|other| *other == path));
        self.path.store(index.map_or(NO_PATH, |index| index as u8), Relaxed);
    }

    pub(crate) fn set_burst(&self, burst_us: u64) {
        self.burst_us.store(burst_us, Relaxed);
    }

    /// Notes that the clocks of streams are set, at this speed and scale.
    pub(crate) fn begin(&self, speed: Speed, scale: Scale) {
        self.scale.store(scale.factor(), Relaxed);
        self.speed_thousandths.store(speed.thousandths() as u16, Relaxed);
        self.is_playing.store(true, Relaxed);
    }

    /// Notes that nothing plays: no stream has a clock.
    pub(crate) fn rest(&self) {
        self.is_playing.store(false, Relaxed);
        for stream in [&self.first].into_iter().chain(&self.others) {
            stream.set_clock(None);
        }
    }
}

impl SharedStreamProgress {
    pub(crate) fn read(&self) -> StreamProgress {
        StreamProgress {
            packets: self.packets.value(),
            payload_bytes: self.payload_bytes.value(),
            clock: *self.clock.lock(),
        }
    }

    pub(crate) fn set_clock(&self, clock: Option<RtpClock>) {
        *self.clock.lock() = clock;
    }
}
