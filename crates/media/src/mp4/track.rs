//! Tracks: `trak` boxes and their contents (ISO/IEC 14496-12 sections 8.3 to 8.6).

use super::boxes::MemoryBox;
use super::entry::{SampleEntry, sample_entry};
use super::table::Table;
use super::{Codec, Error, FourCc, Track, TrackKind, edits};
use crate::track::Fields;

/// Sample table of a track, and its defaults for fragments.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) table: Table,
    /// Default values for fragments from `trex`.
    pub(super) defaults: Defaults,
}

/// Default values for samples of fragments (`trex`, section 8.8.3).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Defaults {
    pub(super) duration: u32,
    pub(super) size: u32,
    pub(super) flags: u32,
}

/// Sample flag: a decoder cannot start at this sample (section 8.8.3.1).
pub(super) const NON_SYNC: u32 = 0x1_0000;

/// Identifier of the track in a `trak` box.
pub(super) fn id(trak: &MemoryBox) -> Result<u32, Error> {
    trak.need(b"tkhd", "no tkhd box")?.fields(track_id)
}

/// Reads a `trak` box of a movie with this timescale.
pub(super) fn read(trak: &MemoryBox, movie_timescale: u32) -> Result<(Track, Places), Error> {
    let id = id(trak)?;
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
    let entry = sample_entry(&stsd, kind == TrackKind::Audio, kind == TrackKind::Video)?;
    let SampleEntry { codec, picture, sound, reference } = entry;
    let edits = edits::read(trak, movie_timescale, timescale)?;
    let mut table = Table::read(&stbl)?;
    let bytes = match &codec {
        Codec::Pcm(pcm) => u32::from(pcm.bits.div_ceil(8)),
        Codec::G711A | Codec::G711Mu => 1,
        _ => 0,
    };
    if let Some(sound) = sound.filter(|_| bytes > 0) {
        table.set_frame_length(bytes * u32::from(sound.channels));
    }
    let duration = if duration == u64::MAX || duration == u64::from(u32::MAX) { 0 } else { duration };
    let frame_rate = f64::from(table.samples) * f64::from(timescale) / duration as f64;
    let frame_rate = (kind == TrackKind::Video && duration > 0 && frame_rate > 0.0).then_some(frame_rate);
    let track = Track {
        id,
        kind,
        codec,
        timescale,
        duration,
        language,
        picture,
        frame_rate,
        sound,
        shift: edits.shift,
        end: edits.end,
        edits_left_out: edits.left_out,
        edit_rates_left_out: edits.rates_left_out,
        descriptions,
        external: external(&minf, reference)?,
    };
    Ok((track, Places { table, defaults: Defaults::default() }))
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
    // QuickTime language codes are less than 1024, so they are not three letters.
    let language = letters.iter().all(|letter| (1..=26).contains(letter));
    let language = language.then(|| letters.map(|letter| char::from(letter + 0x60)).iter().collect());
    Some((timescale, duration, language.filter(|language| language != "und")))
}

fn handler(fields: &mut Fields<'_>) -> Option<FourCc> {
    fields.bytes(8)?;
    fields.four_cc()
}

/// Returns whether data reference `reference` is another file (section 8.7.2).
fn external(minf: &MemoryBox, reference: u16) -> Result<bool, Error> {
    let Some(dinf) = minf.child(b"dinf")? else { return Ok(false) };
    let Some(dref) = dinf.child(b"dref")? else { return Ok(false) };
    let Some(index) = usize::from(reference).checked_sub(1) else { return Ok(false) };
    let Some(entry) = dref.children_after(8).nth(index).transpose()? else { return Ok(false) };
    let (_, flags) = entry.fields(|fields| fields.version())?;
    Ok(flags & 1 == 0)
}
