//! Compares bytes, times and random access points of samples of Matroska and WebM files.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use matroska_demuxer::{Frame, MatroskaFile};
use wirepath_media::container::Movie;
use wirepath_media::track::{Sample, Track, TrackKind};
use wirepath_testkit::trials;

use super::clips::{clip, run};
use super::samples::read;

/// Times in these files are rounded to milliseconds; this crate makes those of audio exact.
const ROUNDING_US: u64 = 1000;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        matroska_b_frames_as_ffprobe => || as_ffprobe("b-frames.mkv"),
        matroska_live_as_ffprobe => || as_ffprobe("live.mkv"),
        matroska_index_in_front_as_ffprobe => || as_ffprobe("index-in-front.mkv"),
        matroska_languages_as_ffprobe => || as_ffprobe("languages.mkv"),
        matroska_h265_as_ffprobe => || as_ffprobe("h265.mkv"),
        matroska_av1_as_ffprobe => || as_ffprobe("av1.mkv"),
        webm_vp9_as_ffprobe => || as_ffprobe("vp9.webm"),
        webm_vp8_as_ffprobe => || as_ffprobe("vp8.webm"),
        matroska_l16_as_ffprobe => || as_ffprobe("l16.mkv"),
        matroska_a_law_as_ffprobe => || as_ffprobe("a-law.mkv"),
        matroska_b_frames_as_another_demuxer => || as_demuxer("b-frames.mkv"),
        matroska_index_in_front_as_another_demuxer => || as_demuxer("index-in-front.mkv"),
        matroska_languages_as_another_demuxer => || as_demuxer("languages.mkv"),
        matroska_h265_as_another_demuxer => || as_demuxer("h265.mkv"),
        matroska_av1_as_another_demuxer => || as_demuxer("av1.mkv"),
        webm_vp9_as_another_demuxer => || as_demuxer("vp9.webm"),
        webm_vp8_as_another_demuxer => || as_demuxer("vp8.webm"),
        matroska_l16_as_another_demuxer => || as_demuxer("l16.mkv"),
        matroska_a_law_as_another_demuxer => || as_demuxer("a-law.mkv"),
        decode_times_are_those_before_muxing => || as_before_muxing("b-frames.mp4", "b-frames.mkv"),
        decode_times_of_h265_are_those_before_muxing => || as_before_muxing("h265.mp4", "h265-copied.mkv"),
        cues_are_at_random_access_points,
    ]
}

/// Length, checksum, presentation time in microseconds, and random access, if known, of a sample.
#[derive(Debug)]
struct Shown {
    length: u64,
    checksum: u32,
    presented_us: i64,
    key: Option<bool>,
}

impl Shown {
    fn of(file: &[u8], track: &Track, sample: &Sample) -> Self {
        let bytes = &file[sample.extent.offset as usize..sample.extent.end() as usize];
        let (length, presented_us) = (sample.extent.length, track.presentation_us(sample));
        Self { length, checksum: adler32(bytes), presented_us, key: Some(sample.sync) }
    }

    fn is(&self, other: &Self) -> bool {
        let same_key = self.key.zip(other.key).is_none_or(|(ours, theirs)| ours == theirs);
        (self.length, self.checksum) == (other.length, other.checksum)
            && same_key
            && self.presented_us.abs_diff(other.presented_us) <= ROUNDING_US
    }
}

/// Adler-32 checksum (RFC 1950 section 9), as shown by ffprobe.
fn adler32(bytes: &[u8]) -> u32 {
    let add = |(first, second): (u32, u32), byte: &u8| {
        let first = (first + u32::from(*byte)) % 65_521;
        (first, (second + first) % 65_521)
    };
    let (first, second) = bytes.iter().fold((1, 0), add);
    second << 16 | first
}

fn compare(ours: &[Shown], theirs: &[Shown], what: &str) -> Result<()> {
    for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        ensure!(ours.is(theirs), "sample {index}: {ours:?} here, {theirs:?} with {what}");
    }
    ensure!(ours.len() == theirs.len(), "{} samples, {} with {what}", ours.len(), theirs.len());
    ensure!(!ours.is_empty(), "no samples");
    Ok(())
}

/// Promise: Bytes, times and random access points of Matroska samples equal those that ffprobe finds.
fn as_ffprobe(name: &str) -> Result<()> {
    let clip = clip(name)?;
    let file = std::fs::read(&clip)?;
    let (movie, samples) = read(&file)?;
    let times: Vec<i64> =
        samples.iter().map(|sample| movie.tracks()[sample.track].decode_us(sample)).collect();
    ensure!(times.is_sorted(), "tracks are not interleaved by decode time");
    let path = clip.to_str().context("a name")?;
    let show =
        ["-show_entries", "packet=stream_index,pts_time,size,flags,data_hash", "-show_data_hash", "adler32"];
    let text = run("ffprobe", &[&["-v", "error"], &show[..], &["-of", "compact=p=0", path]].concat())?;
    // ffprobe writes side data, followed by a line break, within the line of a packet.
    let text = text.replace("\n|", "|");
    let packets: Vec<BTreeMap<&str, &str>> = text
        .lines()
        .map(|line| line.split('|').filter_map(|field| field.split_once('=')).collect())
        .collect();
    for (index, track) in movie.tracks().iter().enumerate() {
        let ours = samples.iter().filter(|sample| sample.track == index);
        let ours: Vec<Shown> = ours.map(|sample| Shown::of(&file, track, sample)).collect();
        let number = index.to_string();
        let theirs = packets.iter().filter(|packet| packet.get("stream_index") == Some(&number.as_str()));
        let theirs = theirs.map(shown).collect::<Option<Vec<Shown>>>().context("fields of ffprobe")?;
        compare(&ours, &theirs, "ffprobe")?;
    }
    Ok(())
}

fn shown(packet: &BTreeMap<&str, &str>) -> Option<Shown> {
    let (_, checksum) = packet.get("data_hash")?.rsplit_once(':')?;
    Some(Shown {
        length: packet.get("size")?.parse().ok()?,
        checksum: u32::from_str_radix(checksum, 16).ok()?,
        presented_us: (packet.get("pts_time")?.parse::<f64>().ok()? * 1e6).round() as i64,
        key: Some(packet.get("flags")?.starts_with('K')),
    })
}

/// Promise: Bytes, times and random access points of Matroska samples equal those of another demuxer.
fn as_demuxer(name: &str) -> Result<()> {
    let clip = clip(name)?;
    let file = std::fs::read(&clip)?;
    let (movie, samples) = read(&file)?;
    let mut theirs: BTreeMap<u64, Vec<Shown>> = BTreeMap::new();
    let mut demuxer = MatroskaFile::open(std::io::Cursor::new(&file))?;
    let tick_ns = demuxer.info().timestamp_scale().get();
    let mut frame = Frame::default();
    while demuxer.next_frame(&mut frame)? {
        theirs.entry(frame.track).or_default().push(Shown {
            length: frame.data.len() as u64,
            checksum: adler32(&frame.data),
            presented_us: (frame.timestamp * tick_ns / 1000) as i64,
            key: frame.is_keyframe, // Known only for simple blocks.
        });
    }
    ensure!(demuxer.tracks().len() == movie.tracks().len(), "{} tracks", demuxer.tracks().len());
    for (index, (track, their)) in movie.tracks().iter().zip(demuxer.tracks()).enumerate() {
        // Block times are before the subtraction of the codec delay.
        let delay_us = (their.codec_delay().unwrap_or(0) / 1000) as i64;
        let ours = samples.iter().filter(|sample| sample.track == index);
        let ours: Vec<Shown> = ours
            .map(|sample| {
                let shown = Shown::of(&file, track, sample);
                Shown { presented_us: shown.presented_us + delay_us, ..shown }
            })
            .collect();
        let number = their.track_number().get();
        ensure!(u64::from(track.id) == number, "track {number} is {}", track.id);
        let language = their.language().unwrap_or("eng");
        ensure!(track.language.as_deref().unwrap_or("und") == language, "{language}: {:?}", track.language);
        compare(&ours, theirs.get(&number).context("no frames")?, "matroska-demuxer")?;
    }
    Ok(())
}

/// Promise: Decode times of Matroska samples, which the file does not store, equal those of the encoder.
fn as_before_muxing(before: &str, after: &str) -> Result<()> {
    let decoded = |name: &str| -> Result<Vec<i64>> {
        let (movie, samples) = read(&std::fs::read(clip(name)?)?)?;
        let track = &movie.tracks()[0];
        let pictures: Vec<&Sample> = samples.iter().filter(|sample| sample.track == 0).collect();
        let first =
            pictures.iter().map(|sample| track.presentation_us(sample)).min().context("no pictures")?;
        Ok(pictures.iter().map(|sample| track.decode_us(sample) - first).collect())
    };
    let (encoded, derived) = (decoded(before)?, decoded(after)?);
    // Decode times begin before the first presentation time by the number of reordered frames.
    ensure!(encoded.len() == 50 && encoded[0] == -80_000, "{encoded:?}");
    let close =
        encoded.iter().zip(&derived).all(|(encoded, derived)| encoded.abs_diff(*derived) <= ROUNDING_US);
    ensure!(close && derived.len() == 50, "{encoded:?} in MP4, {derived:?} in Matroska");
    Ok(())
}

/// Promise: Cues of a Matroska file are read and point at its random access points.
fn cues_are_at_random_access_points() -> Result<()> {
    for name in ["b-frames.mkv", "index-in-front.mkv", "h265.mkv", "vp9.webm"] {
        let (movie, samples) = read(&std::fs::read(clip(name)?)?)?;
        let Movie::Matroska(segment) = &movie else { anyhow::bail!("{name} is not Matroska") };
        let video =
            segment.tracks.iter().position(|track| track.kind == TrackKind::Video).context("no video")?;
        let starts = samples.iter().filter(|sample| sample.track == video && sample.sync);
        let starts: Vec<i64> = starts.map(|sample| segment.tracks[video].presentation_us(sample)).collect();
        let cues = segment.cues.iter().filter(|cue| cue.track == video);
        let cues: Vec<i64> = cues.map(|cue| cue.time_us as i64).collect();
        ensure!(
            !cues.is_empty() && cues.iter().all(|cue| starts.contains(cue)),
            "{name}: {cues:?}, {starts:?}"
        );
    }
    Ok(())
}
