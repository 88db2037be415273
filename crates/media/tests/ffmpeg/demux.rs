//! Tracks of transport streams: compares times, sizes and starts of their samples with ffprobe.

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_media::container::MovieReader;
use wirepath_media::track::{Next, Sample, TrackKind};
use wirepath_testkit::trials;

use super::clips::{clip, run};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        h264_and_aac_of_a_transport_stream_as_ffprobe => || as_ffprobe("b-frames.ts"),
        packets_of_192_bytes_as_ffprobe => || as_ffprobe("blu-ray.m2ts"),
        interlaced_h264_and_mp3_as_ffprobe => || as_ffprobe("interlaced.ts"),
        h265_and_ac_3_of_a_transport_stream_as_ffprobe => || as_ffprobe("h265.ts"),
        mpeg_audio_of_a_transport_stream_as_ffprobe => || as_ffprobe("mp2.ts"),
    ]
}

/// Promise: Samples of the tracks of a transport stream have the times and starts that ffprobe finds.
fn as_ffprobe(name: &str) -> Result<()> {
    let clip = clip(name)?;
    let file = std::fs::read(&clip)?;
    let bytes = |offset: u64, end: u64| file[offset as usize..end as usize].to_vec();
    let mut reader = MovieReader::of_transport_stream(file.len() as u64);
    while let Some(wanted) = reader.wanted() {
        reader.take(bytes(wanted.offset, wanted.end()))?;
    }
    let movie = reader.finish()?;
    ensure!(movie.faults().is_empty() && movie.tracks().len() == 2, "{movie:?}");
    let (mut samples, mut found) = (movie.samples(), Vec::<Sample>::new());
    loop {
        match samples.next()? {
            Next::Read(wanted) => samples.take(bytes(wanted.offset, wanted.end()))?,
            Next::Sample(sample) => found.push(sample),
            Next::Growth | Next::End => break,
        }
    }
    let times: Vec<i64> = found.iter().map(|sample| movie.tracks()[sample.track].decode_us(sample)).collect();
    ensure!(times.is_sorted(), "tracks are not interleaved by decode time");
    let path = clip.to_str().context("a name")?;
    let mut zero = None;
    for (index, track) in movie.tracks().iter().enumerate() {
        let select = index.to_string();
        let entries = "packet=pts,dts,flags";
        let options =
            ["-v", "error", "-select_streams", &select, "-show_entries", entries, "-of", "csv=p=0", path];
        let text = run("ffprobe", &options)?;
        let probed: Vec<(i64, i64, bool)> = text.lines().filter_map(probed).collect();
        let ours: Vec<&Sample> = found.iter().filter(|sample| sample.track == index).collect();
        ensure!(ours.len() == probed.len() && ours.len() > 40, "{} samples, {}", ours.len(), probed.len());
        for (sample, (pts, dts, key)) in ours.iter().zip(probed) {
            // In these files, the first picture has the first timestamp.
            let zero = *zero.get_or_insert(dts - track.decode_us(sample) * 9 / 100);
            let near = |us: i64, ticks: i64| (us - (ticks - zero) * 100 / 9).abs() <= 25;
            let (shown, decoded) = (track.presentation_us(sample), track.decode_us(sample));
            ensure!(near(shown, pts) && near(decoded, dts), "{sample:?}: {pts}, {dts} with ffprobe");
            ensure!(track.kind != TrackKind::Video || sample.sync == key, "{sample:?}: {key} with ffprobe");
        }
    }
    Ok(())
}

/// Reads PTS, DTS and start flag from a line of ffprobe.
fn probed(line: &str) -> Option<(i64, i64, bool)> {
    let mut fields = line.split(',');
    let mut number = || fields.next()?.parse::<i64>().ok();
    let (pts, dts) = (number()?, number()?);
    Some((pts, dts, fields.next()?.starts_with('K')))
}
