//! Compares places, times and random access points of samples of tables and fragments.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use libtest_mimic::Trial;
use shiguredo_mp4::demux::{Fmp4FileDemuxer, Input, Mp4FileDemuxer};
use wirepath_media::container::{Movie, MovieReader};
use wirepath_media::track::{Extent, Next, Sample};
use wirepath_testkit::trials;

use super::clips::{clip, run};

/// Clips for which ffprobe shows other times of the first track: decode and presentation times are less by these
/// differences. ffprobe shows the first complete picture after a cut at 0, and shifts decode times so that no
/// picture is shown before it is decoded.
const SHIFTED: [(&str, i64, i64); 2] = [("from-the-middle.mp4", 256, 256), ("negative-offsets.mp4", 1024, 0)];

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        b_frames_as_ffprobe => || as_ffprobe("b-frames.mp4"),
        faststart_as_ffprobe => || as_ffprobe("faststart.mp4"),
        fragments_as_ffprobe => || as_ffprobe("fragments.mp4"),
        base_offsets_as_ffprobe => || as_ffprobe("base-offsets.mp4"),
        fragment_for_each_track_as_ffprobe => || as_ffprobe("fragment-for-each-track.mp4"),
        moov_with_samples_as_ffprobe => || as_ffprobe("moov-with-samples.mp4"),
        negative_offsets_as_ffprobe => || as_ffprobe("negative-offsets.mp4"),
        from_the_middle_as_ffprobe => || as_ffprobe("from-the-middle.mp4"),
        delayed_as_ffprobe => || as_ffprobe("delayed.mp4"),
        languages_as_ffprobe => || as_ffprobe("languages.mp4"),
        h265_as_ffprobe => || as_ffprobe("h265.mp4"),
        av1_as_ffprobe => || as_ffprobe("av1.mp4"),
        ac_3_as_ffprobe => || as_ffprobe("ac-3.mp4"),
        mp3_as_ffprobe => || as_ffprobe("mp3.mp4"),
        vp9_as_ffprobe => || as_ffprobe("vp9.mp4"),
        pcm_as_ffprobe => || as_ffprobe("pcm.mov"),
        l16_as_ffprobe => || as_ffprobe("l16.mov"),
        a_law_as_ffprobe => || as_ffprobe("a-law.mov"),
        b_frames_as_another_demuxer => || as_shiguredo("b-frames.mp4"),
        faststart_as_another_demuxer => || as_shiguredo("faststart.mp4"),
        fragments_as_another_demuxer => || as_shiguredo("fragments.mp4"),
        fragment_for_each_track_as_another_demuxer => || as_shiguredo("fragment-for-each-track.mp4"),
        negative_offsets_as_another_demuxer => || as_shiguredo("negative-offsets.mp4"),
        from_the_middle_as_another_demuxer => || as_shiguredo("from-the-middle.mp4"),
        delayed_as_another_demuxer => || as_shiguredo("delayed.mp4"),
        languages_as_another_demuxer => || as_shiguredo("languages.mp4"),
        h265_as_another_demuxer => || as_shiguredo("h265.mp4"),
        av1_as_another_demuxer => || as_shiguredo("av1.mp4"),
        ac_3_as_another_demuxer => || as_shiguredo("ac-3.mp4"),
        mp3_as_another_demuxer => || as_shiguredo("mp3.mp4"),
        vp9_as_another_demuxer => || as_shiguredo("vp9.mp4"),
    ]
}

/// Reads a movie and its samples.
pub(crate) fn read(file: &[u8]) -> Result<(Movie, Vec<Sample>)> {
    let bytes = |wanted: Extent| Bytes::copy_from_slice(&file[wanted.offset as usize..wanted.end() as usize]);
    let mut reader = MovieReader::of(file, file.len() as u64).context("no movie")?;
    while let Some(wanted) = reader.wanted() {
        reader.take(bytes(wanted))?;
    }
    let movie = reader.finish()?;
    let (mut samples, mut found) = (movie.samples(), Vec::new());
    loop {
        match samples.next()? {
            Next::Read(wanted) => samples.take(bytes(wanted))?,
            Next::Sample(sample) => found.push(sample),
            Next::Growth | Next::End => return Ok((movie, found)),
        }
    }
}

/// Promise: Positions, times and random access points of MP4 samples equal those that ffprobe finds.
fn as_ffprobe(name: &str) -> Result<()> {
    let clip = clip(name)?;
    let (movie, samples) = read(&std::fs::read(&clip)?)?;
    let times: Vec<i64> =
        samples.iter().map(|sample| movie.tracks()[sample.track].decode_us(sample)).collect();
    ensure!(times.is_sorted(), "tracks are not interleaved by decode time");
    let path = clip.to_str().context("a name")?;
    let entries = "packet=stream_index,pos,size,pts,dts,flags";
    let text = run("ffprobe", &["-v", "error", "-show_entries", entries, "-of", "csv=p=0", path])?;
    let probed: Vec<Probed> = text.lines().filter_map(Probed::read).collect();
    ensure!(!samples.is_empty() && !probed.is_empty(), "no samples: {text}");
    for (index, track) in movie.tracks().iter().enumerate() {
        let shifted = SHIFTED.iter().find(|(shifted, ..)| *shifted == name && index == 0);
        let (dts_less, pts_less) = shifted.map_or((0, 0), |(_, dts, pts)| (*dts, *pts));
        let mut expected: Vec<&Probed> = probed.iter().filter(|packet| packet.stream == index).collect();
        let ours = samples.iter().filter(|sample| sample.track == index);
        if track.codec.name().starts_with("PCM") || track.codec.name().starts_with("G.711") {
            let bytes: u64 = ours.map(|sample| sample.extent.length).sum();
            ensure!(bytes == expected.iter().map(|packet| packet.size).sum::<u64>(), "{bytes} bytes of PCM");
            continue;
        }
        expected.sort_by_key(|packet| packet.dts);
        let ours: Vec<Probed> = ours
            .map(|sample| {
                let dts = sample.decode_time as i64 + track.shift;
                let pts = dts + sample.composition_offset;
                let Extent { offset: pos, length: size } = sample.extent;
                let (pts, dts) = (pts - pts_less, dts - dts_less);
                Probed { stream: index, pos, size, pts, dts, key: sample.sync }
            })
            .collect();
        for (ours, expected) in ours.iter().zip(&expected) {
            ensure!(ours == *expected, "{ours:?} here, {expected:?} with ffprobe");
        }
        ensure!(ours.len() == expected.len(), "{} samples, {} with ffprobe", ours.len(), expected.len());
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
struct Probed {
    stream: usize,
    pos: u64,
    size: u64,
    pts: i64,
    dts: i64,
    key: bool,
}

impl Probed {
    /// Reads a line of ffprobe, whose fields have an order of their own.
    fn read(line: &str) -> Option<Self> {
        let mut fields = line.split(',');
        let mut number = || fields.next()?.parse::<i64>().ok();
        let (stream, pts, dts, size, pos) = (number()?, number()?, number()?, number()?, number()?);
        let key = fields.next()?.starts_with('K');
        Some(Self { stream: stream as usize, pos: pos as u64, size: size as u64, pts, dts, key })
    }
}

/// Promise: Positions, times and random access points of MP4 samples equal those of another demuxer.
///
/// `shiguredo_mp4` does not read absolute offsets in fragments, and this crate joins PCM samples: such clips
/// are not in the list.
fn as_shiguredo(name: &str) -> Result<()> {
    let file = std::fs::read(clip(name)?)?;
    let (movie, samples) = read(&file)?;
    let mut theirs = match &movie {
        Movie::Mp4(movie) if movie.fragmented => fragments(&file)?,
        _ => tables(&file)?,
    };
    let mut ours: Vec<_> = samples
        .iter()
        .map(|sample| {
            let Sample { track, extent, decode_time, composition_offset, sync, .. } = *sample;
            (movie.tracks()[track].id, decode_time, extent.offset, extent.length, sync, composition_offset)
        })
        .collect();
    ensure!(!ours.is_empty(), "no samples");
    ours.sort_unstable();
    theirs.sort_unstable();
    for (ours, theirs) in ours.iter().zip(&theirs) {
        ensure!(ours == theirs, "{ours:?} here, {theirs:?} with shiguredo_mp4");
    }
    ensure!(ours.len() == theirs.len(), "{} samples, {} with shiguredo_mp4", ours.len(), theirs.len());
    Ok(())
}

/// Samples of the other demuxer: track, decode time, offset, length, random access, composition offset.
type Theirs = Vec<(u32, u64, u64, u64, bool, i64)>;

fn tables(file: &[u8]) -> Result<Theirs> {
    let mut demuxer = Mp4FileDemuxer::new();
    while let Some(required) = demuxer.required_input() {
        demuxer
            .handle_input(Input { position: required.position, data: &file[required.position as usize..] });
    }
    let mut found = Vec::new();
    while let Some(sample) = demuxer.next_sample()? {
        let offset = sample.composition_time_offset.unwrap_or(0);
        let (id, length) = (sample.track.track_id, sample.data_size as u64);
        found.push((id, sample.timestamp, sample.data_offset, length, sample.keyframe, offset));
    }
    Ok(found)
}

fn fragments(file: &[u8]) -> Result<Theirs> {
    let mut demuxer = Fmp4FileDemuxer::new();
    let mut found = Vec::new();
    loop {
        while let Some(required) = demuxer.required_input() {
            let start = (required.position as usize).min(file.len());
            let end = required.size.map_or(file.len(), |size| (start + size).min(file.len()));
            demuxer.handle_input(Input { position: required.position, data: &file[start..end] });
        }
        match demuxer.next_sample() {
            Ok(Some(sample)) => {
                let offset = sample.composition_time_offset.unwrap_or(0);
                let (id, length) = (sample.track.track_id, sample.data_size as u64);
                found.push((id, sample.timestamp, sample.data_offset, length, sample.keyframe, offset));
            }
            Ok(None) => return Ok(found),
            Err(shiguredo_mp4::demux::DemuxError::InputRequired(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
