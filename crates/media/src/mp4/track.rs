//! A track: `trak` and what is in it (ISO/IEC 14496-12 section 8.3 to 8.6).

use super::boxes::{Fields, MemoryBox};
use super::codec::{Codec, SampleEntry, Sound};
use super::table::Table;
use super::{Error, FourCc, Sample};

/// Track of a movie.
#[derive(Clone, Debug)]
pub struct Track {
    /// Identifier in the file, not 0.
    pub id: u32,
    /// What it is.
    pub kind: TrackKind,
    /// Codec of its samples.
    pub codec: Codec,
    /// Units of its times in a second.
    pub timescale: u32,
    /// Duration that the file states, in units of `timescale`; 0 where the file does not know it.
    pub duration: u64,
    /// Language as three letters of ISO 639-2, where the file has one.
    pub language: Option<String>,
    /// Width and height in pixels, of video.
    pub picture: Option<(u16, u16)>,
    /// Channels and sample rate, of audio.
    pub sound: Option<Sound>,
    /// Offset that its edit list adds to the times of samples, in units of `timescale`.
    pub shift: i64,
    /// Edits that are not applied: all after the first that shows media.
    pub edits_left_out: u32,
    /// Sample descriptions; samples of a second one cannot be read with this `codec`.
    pub descriptions: u32,
    /// True if its samples are in another file.
    pub external: bool,
    pub(super) table: Table,
    /// Defaults of fragments from `trex`.
    pub(super) defaults: Defaults,
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

/// Values of fragments that do not say otherwise (`trex`, section 8.8.3).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Defaults {
    pub(super) duration: u32,
    pub(super) size: u32,
    pub(super) flags: u32,
}

/// Flag of a sample at which a decoder cannot start (section 8.8.3.1).
pub(super) const NON_SYNC: u32 = 0x1_0000;

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

    fn us(&self, time: i128) -> i64 {
        let us = (time * 1_000_000).div_euclid(self.timescale.into());
        us.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// Frames per second on average by the header and the table; none where the file has no table.
    pub fn frame_rate(&self) -> Option<f64> {
        let rate = f64::from(self.table.samples) * f64::from(self.timescale) / self.duration as f64;
        (self.duration > 0 && rate > 0.0).then_some(rate)
    }

    /// Identifier of the track in a `trak` box.
    pub(super) fn id_of(trak: &MemoryBox) -> Result<u32, Error> {
        trak.need(b"tkhd", "no tkhd box")?.fields(track_id)
    }

    /// Reads a `trak` box of a movie with this timescale.
    pub(super) fn read(trak: &MemoryBox, movie_timescale: u32) -> Result<Self, Error> {
        let id = Self::id_of(trak)?;
        let mdia = trak.need(b"mdia", "no mdia box")?;
        let (timescale, duration, language) = mdia.need(b"mdhd", "no mdhd box")?.fields(media_header)?;
        if timescale == 0 {
            return Err(mdia.error("its timescale is 0"));
        }
        let handler = mdia.need(b"hdlr", "no hdlr box")?.fields(handler)?;
        let kind = match &handler.0 {
            b"vide" => TrackKind::Video,
            b"soun" => TrackKind::Audio,
            _ => TrackKind::Other(handler),
        };
        let minf = mdia.need(b"minf", "no minf box")?;
        let stbl = minf.need(b"stbl", "no stbl box")?;
        let stsd = stbl.need(b"stsd", "no stsd box")?;
        let descriptions = stsd.fields(|fields| {
            fields.version()?;
            fields.u32()
        })?;
        let entry = Codec::read(&stsd, kind == TrackKind::Audio, kind == TrackKind::Video)?;
        let SampleEntry { codec, picture, sound, reference } = entry;
        let edits = edits(trak, movie_timescale, timescale)?;
        Ok(Self {
            id,
            kind,
            codec,
            timescale,
            duration: if duration == u64::MAX || duration == u64::from(u32::MAX) { 0 } else { duration },
            language,
            picture,
            sound,
            shift: edits.shift,
            edits_left_out: edits.left_out,
            descriptions,
            external: external(&minf, reference)?,
            table: Table::read(&stbl)?,
            defaults: Defaults::default(),
        })
    }
}

fn track_id(fields: &mut Fields<'_>) -> Option<u32> {
    let (version, _) = fields.version()?;
    fields.bytes(if version == 1 { 16 } else { 8 })?;
    fields.u32()
}

/// Timescale, duration and language.
fn media_header(fields: &mut Fields<'_>) -> Option<(u32, u64, Option<String>)> {
    let (version, _) = fields.version()?;
    fields.bytes(if version == 1 { 16 } else { 8 })?;
    let (timescale, duration) = (fields.u32()?, fields.long(version)?);
    let packed = fields.u16()?;
    let letters = [10, 5, 0].map(|shift| (packed >> shift & 0x1f) as u8);
    // QuickTime has numbers below 1024 here: no three letters.
    let language = letters.iter().all(|letter| (1..=26).contains(letter));
    let language = language.then(|| letters.map(|letter| char::from(letter + 0x60)).iter().collect());
    Some((timescale, duration, language.filter(|language| language != "und")))
}

fn handler(fields: &mut Fields<'_>) -> Option<FourCc> {
    fields.bytes(8)?;
    fields.four_cc()
}

/// Returns whether data reference number `reference` is another file (section 8.7.2).
fn external(minf: &MemoryBox, reference: u16) -> Result<bool, Error> {
    let Some(dinf) = minf.child(b"dinf")? else { return Ok(false) };
    let Some(dref) = dinf.child(b"dref")? else { return Ok(false) };
    let Some(index) = usize::from(reference).checked_sub(1) else { return Ok(false) };
    let Some(entry) = dref.children_after(8).nth(index).transpose()? else { return Ok(false) };
    let (_, flags) = entry.fields(|fields| fields.version())?;
    Ok(flags & 1 == 0)
}

struct Edits {
    shift: i64,
    left_out: u32,
}

/// Reads the edit list (section 8.6.6): delays, then one edit that shows media from some time on.
fn edits(trak: &MemoryBox, movie_timescale: u32, timescale: u32) -> Result<Edits, Error> {
    let none = Edits { shift: 0, left_out: 0 };
    let Some(edts) = trak.child(b"edts")? else { return Ok(none) };
    let Some(elst) = edts.child(b"elst")? else { return Ok(none) };
    let delay = |duration: u64| {
        let scaled = u128::from(duration) * u128::from(timescale) / u128::from(movie_timescale.max(1));
        i64::try_from(scaled).unwrap_or(i64::MAX)
    };
    elst.fields(|fields| {
        let (version, _) = fields.version()?;
        let count = fields.u32()?;
        let mut shift = 0i64;
        for index in 0..count {
            let duration = fields.long(version)?;
            let start = if version == 1 { fields.u64()? as i64 } else { i64::from(fields.u32()? as i32) };
            fields.u32()?;
            if start >= 0 {
                return Some(Edits { shift: shift.saturating_sub(start), left_out: count - index - 1 });
            }
            shift = shift.saturating_add(delay(duration));
        }
        Some(Edits { shift, left_out: 0 })
    })
}
