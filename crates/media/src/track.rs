//! Tracks and samples, as every container gives them to what packs and sends.
//!
//! A reader of a container gives [`Track`]s and then their [`Sample`]s as extents, in decode order over
//! tracks: it never reads media. Its `next` is a [`Next`].

mod audio_config;
mod codec;
mod configuration;
mod fields;

pub use audio_config::AudioConfig;
pub use codec::{Av1, Avc, Codec, Hevc, Pcm, PcmKind, Sound};
pub(crate) use configuration::{av1, avc, hevc, vp9_profile};
pub(crate) use fields::Fields;
pub use wirepath_http::Extent;

/// Longest sample that is read: a picture without loss of the largest format has less.
pub(crate) const MAX_SAMPLE_BYTES: u64 = 64 << 20;

/// Four characters that name a box, a codec or a brand.
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
    /// Kind of its media.
    pub kind: TrackKind,
    /// Codec of its samples.
    pub codec: Codec,
    /// Units of its times in a second.
    pub timescale: u32,
    /// Duration that the file states, in units of `timescale`; 0 where the file does not know it.
    pub duration: u64,
    /// Language as three letters of ISO 639-2, or as a tag of BCP 47, where the file has one.
    pub language: Option<String>,
    /// Width and height in pixels, of video.
    pub picture: Option<(u16, u16)>,
    /// Frames per second that the file states, of video; of a table, on average.
    pub frame_rate: Option<f64>,
    /// Channels and sample rate, of audio.
    pub sound: Option<Sound>,
    /// Offset that its edit list or its codec's delay adds to the times of samples, in units of `timescale`.
    pub shift: i64,
    /// Edits that are not applied: all after the first that shows media.
    pub edits_left_out: u32,
    /// Sample descriptions; samples of a second one cannot be read with this `codec`.
    pub descriptions: u32,
    /// True if its samples are in another file.
    pub external: bool,
}

/// Kind of a track, by its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackKind {
    /// Pictures.
    Video,
    /// Sound.
    Audio,
    /// Anything else, such as subtitles and timecodes.
    Other(FourCc),
}

/// Sample of a track: an access unit of video, a frame of audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Index of its track.
    pub track: usize,
    /// Place in the file.
    pub extent: Extent,
    /// Decode time in units of the track's timescale, `shift` not applied.
    pub decode_time: u64,
    /// Duration in units of the track's timescale.
    pub duration: u32,
    /// Presentation time less decode time, in units of the track's timescale.
    pub composition_offset: i64,
    /// True if a decoder can start here.
    pub sync: bool,
    /// Samples of linear PCM that it stands for; 1 for every other codec.
    pub count: u32,
}

/// Next step of a reader of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Bytes of the file that the reader is to be given.
    Read(Extent),
    /// A sample.
    Sample(Sample),
    /// There are no more.
    End,
}

impl Track {
    /// Decode time in microseconds after the beginning of the movie; of what precedes that, less than 0.
    pub fn decode_us(&self, sample: &Sample) -> i64 {
        self.us(i128::from(sample.decode_time) + i128::from(self.shift))
    }

    /// Presentation time in microseconds after the beginning of the movie.
    pub fn presentation_us(&self, sample: &Sample) -> i64 {
        self.us(i128::from(sample.decode_time)
            + i128::from(sample.composition_offset)
            + i128::from(self.shift))
    }

    /// Time in microseconds at which it ends, as the file states it; none where it does not know it.
    pub fn duration_us(&self) -> Option<u64> {
        let length = i128::from(self.duration) + i128::from(self.shift);
        let us = length.max(0) * 1_000_000 / i128::from(self.timescale);
        (self.duration > 0).then_some(us.min(i128::from(u64::MAX)) as u64)
    }

    fn us(&self, time: i128) -> i64 {
        let us = (time * 1_000_000).div_euclid(self.timescale.into());
        us.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }
}
