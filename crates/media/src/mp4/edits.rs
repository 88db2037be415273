//! Edit lists (ISO/IEC 14496-12 section 8.6.6).

use super::Error;
use super::boxes::MemoryBox;
use crate::track::Fields;

/// Normal rate of an edit.
const NORMAL_RATE: u32 = 1 << 16;

/// Part of a track's media that is shown: delays, then the first edit that shows media, with the edits that
/// continue it without a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Edits {
    /// Offset added to sample times, in units of the track's timescale.
    pub(super) shift: i64,
    /// End of the shown media as a presentation time without `shift`; `None` for the end of the track.
    pub(super) end: Option<u64>,
    /// Number of later edits.
    pub(super) left_out: u32,
    /// Number of edits that show media at another rate than the normal one.
    pub(super) rates_left_out: u32,
}

/// Edit of an edit list.
#[derive(Clone, Copy, Debug)]
struct Edit {
    /// Duration in the movie's timescale; 0 for the rest of the track.
    duration: u64,
    /// First shown time of the media, in units of the track's timescale; `None` for a delay.
    start: Option<u64>,
    /// Rate in 1/65536.
    rate: u32,
}

impl Edit {
    fn read(fields: &mut Fields<'_>, version: u8) -> Option<Self> {
        let duration = fields.long(version)?;
        let start = if version == 1 { fields.u64()? as i64 } else { i64::from(fields.u32()? as i32) };
        Some(Self { duration, start: u64::try_from(start).ok(), rate: fields.u32()? })
    }

    /// End of its media in units of the track's timescale; `None` for the end of the track, and for an edit
    /// that shows a single picture or runs backward.
    fn end(&self, start: u64, scale: &Scale) -> Option<u64> {
        let is_forward = (1..=i32::MAX as u32).contains(&self.rate);
        (self.duration > 0 && is_forward).then(|| start.saturating_add(scale.media(self.duration, self.rate)))
    }
}

/// Timescales of a movie and a track.
#[derive(Clone, Copy, Debug)]
struct Scale {
    movie: u32,
    track: u32,
}

impl Scale {
    /// Media of an edit of this duration and rate, in units of the track's timescale, rounded.
    fn media(&self, duration: u64, rate: u32) -> u64 {
        let ticks = u128::from(duration) * u128::from(self.track);
        let unit = u128::from(self.movie.max(1)) * u128::from(NORMAL_RATE);
        // A product of 64, 32 and 32 bits.
        u64::try_from((ticks * u128::from(rate) + unit / 2) / unit).unwrap_or(u64::MAX)
    }

    /// Length of a delay in units of the track's timescale.
    fn delay(&self, duration: u64) -> i64 {
        let ticks = u128::from(duration) * u128::from(self.track) / u128::from(self.movie.max(1));
        i64::try_from(ticks).unwrap_or(i64::MAX)
    }

    /// Returns whether two times of the track are equal, except for the rounding of edits to the movie's
    /// timescale.
    fn is_equal(&self, time: u64, other: u64) -> bool {
        time.abs_diff(other) <= u64::from(self.track.div_ceil(self.movie.max(1)))
    }
}

/// Reads the edit list of a track in a movie with these timescales.
pub(super) fn read(trak: &MemoryBox, movie: u32, track: u32) -> Result<Edits, Error> {
    let Some(edts) = trak.child(b"edts")? else { return Ok(Edits::default()) };
    let Some(elst) = edts.child(b"elst")? else { return Ok(Edits::default()) };
    let scale = Scale { movie, track };
    elst.fields(|fields| {
        let (version, _) = fields.version()?;
        let count = fields.u32()?;
        let mut edits = Edits::default();
        for index in 0..count {
            let edit = Edit::read(fields, version)?;
            let Some(start) = edit.start else {
                edits.shift = edits.shift.saturating_add(scale.delay(edit.duration));
                continue;
            };
            edits.shift = edits.shift.saturating_sub_unsigned(start);
            edits.end = edit.end(start, &scale);
            edits.left_out = count - index - 1;
            edits.rates_left_out = u32::from(edit.rate != NORMAL_RATE);
            edits.extend(fields, version, &scale);
            break;
        }
        Some(edits)
    })
}

impl Edits {
    /// Adds the following edits that continue the shown media.
    fn extend(&mut self, fields: &mut Fields<'_>, version: u8, scale: &Scale) {
        while let (Some(end), 1..) = (self.end, self.left_out) {
            let Some(edit) = Edit::read(fields, version) else { return };
            let Some(start) = edit.start.filter(|start| scale.is_equal(*start, end)) else { return };
            self.end = edit.end(start, scale);
            self.left_out -= 1;
            self.rates_left_out += u32::from(edit.rate != NORMAL_RATE);
        }
    }
}
