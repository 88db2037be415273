//! Tracks (RFC 9559 section 5.1.4), and conversion of the times of their blocks.

use super::Error;
use super::codec::{codec, mpeg_layer, sound};
use super::depth;
use super::ebml::Elements;
use super::entry::Entry;
use super::id::TRACK_ENTRY;
use crate::track::{Codec, FourCc, Pcm, Track, TrackKind};

/// Most tracks.
const MAX_TRACKS: usize = 64;

/// Nanoseconds per second.
pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// Time before 0 at which decode times may begin, if the frame interval is unknown: the reordering depth at 8
/// frames per second.
const UNSTATED_LEAD_NS: u64 = 2 * SECOND_NS;

/// Conversion of a track's blocks to samples.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Number of the track in blocks.
    pub(super) number: u64,
    /// Nanoseconds per tick.
    tick_ns: u64,
    timescale: u32,
    /// Time added to the times of the file, so that decode times are not negative.
    lead: u64,
    pub(super) length: FrameLength,
    /// Reordering depth, if known.
    pub(super) depth: Option<usize>,
    /// Interval between frames, if known, in units of the track's timescale.
    pub(super) interval: Option<u64>,
}

/// Duration of an audio frame in audio samples, which are the units of the track's timescale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameLength {
    /// Number of samples.
    Samples(u64),
    /// Number of bytes for each sample of all channels: PCM.
    Bytes(u64),
    /// Unknown.
    Unknown,
}

impl Plan {
    /// Converts ticks to units of the track, rounded; times before 0 become 0.
    pub(super) fn time(&self, ticks: i64) -> u64 {
        let time = self.units(i128::from(ticks).saturating_mul(self.tick_ns.into()));
        time.saturating_add(self.lead.into()).clamp(0, i64::MAX.into()) as u64
    }

    /// Converts a number of ticks to units of the track.
    pub(super) fn ticks(&self, ticks: u64) -> u64 {
        let ns = i128::from(ticks).saturating_mul(self.tick_ns.into());
        u64::try_from(self.units(ns)).unwrap_or(u64::MAX)
    }

    /// Largest rounding error of times in the file, in units of the track.
    pub(super) fn rounding(&self) -> u64 {
        self.ticks(1) + 1
    }

    fn units(&self, ns: i128) -> i128 {
        units(ns, self.timescale)
    }
}

/// Converts nanoseconds to units, rounded.
fn units(ns: i128, timescale: u32) -> i128 {
    let scaled = ns.saturating_mul(timescale.into());
    scaled.saturating_add((SECOND_NS / 2).into()).div_euclid(SECOND_NS.into())
}

/// Reads the data of a `Tracks` element at `offset`.
pub(super) fn read(data: &[u8], offset: u64, tick_ns: u64) -> Result<(Vec<Track>, Vec<Plan>), Error> {
    let (mut tracks, mut plans) = (Vec::<Track>::new(), Vec::<Plan>::new());
    for found in Elements::new(data, offset) {
        let found = found?;
        if found.header.id != TRACK_ENTRY {
            continue;
        }
        if tracks.len() == MAX_TRACKS {
            return Err(Error::Limit { what: "tracks", limit: MAX_TRACKS as u64 });
        }
        let entry = Entry::read(&found)?;
        let id = u32::try_from(entry.number).ok().filter(|id| *id > 0);
        let id = id.ok_or_else(|| found.header.error("its number is 0, or above 4294967295"))?;
        if plans.iter().any(|plan| plan.number == entry.number) {
            return Err(found.header.error("another track has its number"));
        }
        let (track, plan) = track(entry, id, tick_ns);
        tracks.push(track);
        plans.push(plan);
    }
    Ok((tracks, plans))
}

/// Makes the track of an entry, and the plan of its blocks.
fn track(entry: Entry<'_>, id: u32, tick_ns: u64) -> (Track, Plan) {
    let kind = match entry.kind {
        1 => TrackKind::Video,
        2 => TrackKind::Audio,
        17 => TrackKind::Other(FourCc(*b"subt")),
        _ => TrackKind::Other(FourCc(*b"meta")),
    };
    let plain = codec(&entry);
    let sound = (kind == TrackKind::Audio).then(|| sound(&entry, &plain));
    let rate = sound.map(|sound| sound.sample_rate).filter(|rate| *rate > 0);
    // Times of audio are made exact; those of pictures stay as they are.
    let whole = SECOND_NS.is_multiple_of(tick_ns).then_some(SECOND_NS / tick_ns);
    let timescale = rate.unwrap_or(whole.unwrap_or(SECOND_NS) as u32);
    let length = match &plain {
        Codec::Pcm(Pcm { bits, .. }) => {
            FrameLength::Bytes(u64::from(bits.div_ceil(8)).saturating_mul(entry.channels))
        }
        Codec::G711A | Codec::G711Mu => FrameLength::Bytes(entry.channels),
        Codec::Aac(config) => config.frame_length().map_or(FrameLength::Unknown, FrameLength::Samples),
        Codec::Ac3 | Codec::Eac3 => FrameLength::Samples(1536),
        Codec::MpegAudio => match mpeg_layer(&entry) {
            Some(1) => FrameLength::Samples(384),
            Some(3) if timescale < 32_000 => FrameLength::Samples(576),
            Some(_) => FrameLength::Samples(1152),
            None => FrameLength::Unknown,
        },
        _ => FrameLength::Unknown,
    };
    let length =
        if rate.is_none() || length == FrameLength::Bytes(0) { FrameLength::Unknown } else { length };
    let scaled = |ns: u64| u64::try_from(units(ns.into(), timescale)).unwrap_or(u64::MAX);
    let interval = entry.default_duration_ns.map(scaled).filter(|interval| *interval > 0);
    let frame_rate = entry.default_duration_ns.filter(|_| kind == TrackKind::Video);
    let depth = if kind == TrackKind::Video { depth::stated(&plain) } else { Some(0) };
    let reordered = depth.unwrap_or(depth::MAX_DEPTH) as u64;
    let lead = interval.map(|interval| interval.saturating_mul(reordered));
    let lead = lead.unwrap_or(if reordered > 0 { scaled(UNSTATED_LEAD_NS) } else { 0 });
    let lead = lead.min(u64::from(u32::MAX));
    let shift = 0i64.saturating_sub_unsigned(scaled(entry.delay_ns)).saturating_sub_unsigned(lead);
    let track = Track {
        id,
        kind,
        language: language(entry.tag.unwrap_or(entry.language)),
        picture: if kind == TrackKind::Video { entry.picture } else { None },
        frame_rate: frame_rate.map(|ns| SECOND_NS as f64 / ns as f64),
        sound,
        codec: entry.encoding.unwrap_or(plain),
        timescale,
        duration: 0,
        shift,
        end: None,
        edits_left_out: 0,
        edit_rates_left_out: 0,
        descriptions: 1,
        external: false,
    };
    let number = entry.number;
    (track, Plan { number, tick_ns, timescale, lead, length, depth, interval })
}

/// Returns the language if it is known and printable.
fn language(text: &str) -> Option<String> {
    let plain = text.len() <= 35 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (plain && !text.is_empty() && text != "und").then(|| text.to_owned())
}
