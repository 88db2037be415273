//! Tracks and samples, the common types of all containers for packing and sending.
//!
//! A container's reader returns [`Track`]s, and then their [`Sample`]s as extents, in decode order over all
//! tracks. It never reads media. Its `next` returns a [`Next`].

mod audio_config;
mod codec;
mod configuration;
mod fields;

pub use audio_config::AudioConfig;
pub use codec::{Av1, Avc, Codec, Hevc, Pcm, PcmKind, Sound};
pub(crate) use configuration::{av1, avc, hevc, vp9_profile};
pub(crate) use fields::Fields;
pub use wirepath_http::Extent;

/// Longest sample that is read. Lossless pictures of the largest format are shorter.
pub(crate) const MAX_SAMPLE_BYTES: u64 = 64 << 20;

/// Bytes at the end of a file that are searched for its last samples, in turn.
pub(crate) const TAILS: [u64; 3] = [1 << 17, 1 << 20, 8 << 20];

/// Most places at the end of a file that are tried, so that the cost of a hostile file is bounded.
const MAX_LAST_PLACES: usize = 16;

/// Time of the first sample in microseconds from which a stated duration is not used without the end of the
/// file.
pub(crate) const STATED_FROM_US: u64 = 1_000_000;

/// Extent at the end of a file or segment, from `begin` to `end`, by its index in [`TAILS`]; `None` if it is
/// not longer than the one before.
pub(crate) fn tail(index: usize, begin: u64, end: u64) -> Option<Extent> {
    let all = end.saturating_sub(begin);
    let length = (*TAILS.get(index)?).min(all);
    let is_longer = index.checked_sub(1).is_none_or(|before| TAILS[before] < all);
    (length > 0 && is_longer).then_some(Extent { offset: end - length, length })
}

/// Duration from the first sample, at `begin_us`, to `end_us`; if there is no end, the stated one, which some
/// writers count from the first sample and others from time 0.
pub(crate) fn duration_from(begin_us: u64, end_us: Option<u64>, stated_us: Option<u64>) -> Option<u64> {
    let until_end = end_us.map(|end_us| end_us.saturating_sub(begin_us)).filter(|us| *us > 0);
    until_end.or(stated_us.map(|stated_us| match stated_us.checked_sub(begin_us) {
        Some(rest @ 1..) => rest,
        Some(0) | None => stated_us,
    }))
}

/// Places of a code in bytes, the last one first.
pub(crate) fn last_places<'a>(bytes: &'a [u8], code: &'a [u8; 4]) -> impl Iterator<Item = usize> + 'a {
    let mut before = bytes.len();
    let next = move || {
        let place = bytes[..before].windows(4).rposition(|window| window == code)?;
        before = place + 3;
        Some(place)
    };
    std::iter::from_fn(next).take(MAX_LAST_PLACES)
}

/// Four-character code of a box, codec or brand.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FourCc(pub [u8; 4]);

impl std::fmt::Display for FourCc {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.0.escape_ascii())
    }
}

impl std::fmt::Debug for FourCc {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{self}")
    }
}

/// Track of a movie.
#[derive(Clone, Debug)]
pub struct Track {
    /// Identifier in the file, not 0.
    pub id: u32,
    /// Kind of media.
    pub kind: TrackKind,
    /// Codec of the samples.
    pub codec: Codec,
    /// Ticks per second of the track's times.
    pub timescale: u32,
    /// Duration in the file, in units of `timescale`; 0 if unknown.
    pub duration: u64,
    /// Language as three letters of ISO 639-2 or as a BCP 47 tag, if the file contains it.
    pub language: Option<String>,
    /// Width and height in pixels, for video.
    pub picture: Option<(u16, u16)>,
    /// Frames per second in the file, for video; the average if derived from a sample table.
    pub frame_rate: Option<f64>,
    /// Channels and sample rate, for audio.
    pub sound: Option<Sound>,
    /// Offset added to sample times, from the edit list or the codec delay, in units of `timescale`.
    pub shift: i64,
    /// End of the shown media by the edit list, as a presentation time without `shift`, in units of
    /// `timescale`; `None` for the end of the track.
    pub end: Option<u64>,
    /// Number of edits that are not applied: all after the first edit that shows media, unless they continue
    /// it.
    pub edits_left_out: u32,
    /// Number of applied edits whose rate is not: their media is shown at the normal rate.
    pub edit_rates_left_out: u32,
    /// Number of sample descriptions. Only samples of the first have this `codec`.
    pub descriptions: u32,
    /// True if the samples are in another file.
    pub external: bool,
}

/// Kind of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackKind {
    /// Video.
    Video,
    /// Audio.
    Audio,
    /// Others, such as subtitles and timecodes.
    Other(FourCc),
}

/// Sample of a track: an access unit of video or a frame of audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Index of the track.
    pub track: usize,
    /// Place in the file.
    pub extent: Extent,
    /// Decode time in units of the track's timescale, without `shift`.
    pub decode_time: u64,
    /// Duration in units of the track's timescale.
    pub duration: u32,
    /// Presentation time minus decode time, in units of the track's timescale.
    pub composition_offset: i64,
    /// True if a decoder can start here.
    pub sync: bool,
    /// Number of samples of linear PCM; 1 for every other codec.
    pub count: u32,
}

/// Next step of a sample reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Bytes of the file that the reader needs.
    Read(Extent),
    /// Next sample.
    Sample(Sample),
    /// The file has to grow before the next sample is known. Only samples of a growing file return this.
    Growth,
    /// No further samples.
    End,
}

impl Track {
    /// Decode time in microseconds since the beginning of the movie; negative before it.
    pub fn decode_us(&self, sample: &Sample) -> i64 {
        self.us(i128::from(sample.decode_time) + i128::from(self.shift))
    }

    /// Presentation time in microseconds since the beginning of the movie.
    pub fn presentation_us(&self, sample: &Sample) -> i64 {
        self.us(i128::from(sample.decode_time)
            + i128::from(sample.composition_offset)
            + i128::from(self.shift))
    }

    /// Returns whether the edit list shows a sample, or it is before the shown media.
    pub(crate) fn is_before_end(&self, sample: &Sample) -> bool {
        let presented = i128::from(sample.decode_time) + i128::from(sample.composition_offset);
        self.end.is_none_or(|end| presented < end.into())
    }

    /// End of the shown media by the edit list, in microseconds since the beginning of the movie.
    pub(crate) fn end_us(&self) -> Option<u64> {
        Some(self.movie_us(self.end?))
    }

    /// End of the track in microseconds, from the duration in the file and the edit list; `None` if unknown.
    pub fn duration_us(&self) -> Option<u64> {
        let length = i128::from(self.duration) + i128::from(self.shift);
        let us = length.max(0) * 1_000_000 / i128::from(self.timescale);
        let us = us.min(i128::from(u64::MAX)) as u64;
        (self.duration > 0).then_some(us.min(self.end_us().unwrap_or(u64::MAX)))
    }

    /// Microseconds since the beginning of the movie of a time without `shift`; 0 for a time before it.
    pub(crate) fn movie_us(&self, time: u64) -> u64 {
        self.us(i128::from(time) + i128::from(self.shift)).max(0).unsigned_abs()
    }

    /// Converts a time of the track to microseconds.
    pub(crate) fn us(&self, time: i128) -> i64 {
        let us = (time * 1_000_000).div_euclid(self.timescale.into());
        us.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }
}
