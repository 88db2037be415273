//! Decoded pictures and sound, as hashes with their times.

use anyhow::{Context, Result, ensure};

use crate::process::{find, run};
use crate::require;

/// Decoded frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Time of presentation in seconds.
    pub seconds: f64,
    /// MD5 of its samples.
    pub hash: String,
}

/// Decodes all streams of a file or URL with ffmpeg: the frames of each. `options` go in front of the input.
pub fn decode(options: &[&str], input: &str, seconds: f64) -> Result<Vec<Vec<Frame>>> {
    require!(find("ffmpeg").is_some(), "ffmpeg is not installed");
    let before = ["-nostdin", "-v", "error", "-copyts"];
    let behind = ["-map", "0", "-fps_mode", "passthrough", "-f", "framemd5", "-"];
    let arguments = [&before[..], options, &["-i", input], &behind].concat();
    parse(&run("ffmpeg", arguments, seconds)?)
}

/// Frames of the first sound of a file or URL as they are, not decoded. `options` go in front of the input.
pub fn sound_frames(options: &[&str], input: &str, seconds: f64) -> Result<Vec<Frame>> {
    require!(find("ffmpeg").is_some(), "ffmpeg is not installed");
    let before = ["-nostdin", "-v", "error", "-copyts"];
    let behind = ["-map", "0:a:0", "-c", "copy", "-f", "framemd5", "-"];
    let arguments = [&before[..], options, &["-i", input], &behind].concat();
    parse(&run("ffmpeg", arguments, seconds)?)?.into_iter().next().context("no sound")
}

/// Decodes the first sound of a file or URL with ffmpeg: samples of 16 bits. `options` go in front of the input.
pub fn sound(options: &[&str], input: &str, seconds: f64) -> Result<Vec<u8>> {
    require!(find("ffmpeg").is_some(), "ffmpeg is not installed");
    let folder = tempfile::tempdir()?;
    let output = folder.path().join("sound.s16le");
    let name = output.to_str().context("a file's name")?;
    let before = ["-nostdin", "-v", "error"];
    let behind = ["-map", "0:a:0", "-c:a", "pcm_s16le", "-f", "s16le", name];
    run("ffmpeg", [&before[..], options, &["-i", input], &behind].concat(), seconds)?;
    std::fs::read(&output).context("reading the sound")
}

/// Sizes of the pictures of the first video track of a file or URL, decoded by ffprobe for so many seconds of media
/// or to the end: width, height, and number of pictures in a row with this size. `options` go in front of the input.
pub fn sizes(
    options: &[&str],
    input: &str,
    media_seconds: Option<f64>,
    seconds: f64,
) -> Result<Vec<(u32, u32, usize)>> {
    require!(find("ffprobe").is_some(), "ffprobe is not installed");
    let interval = media_seconds.map(|seconds| format!("%+{seconds}"));
    let interval = interval.as_deref().map_or(vec![], |interval| vec!["-read_intervals", interval]);
    let select = ["-select_streams", "v:0", "-show_entries", "frame=width,height", "-of", "json"];
    let arguments = [&["-v", "error"][..], options, &select, &interval, &["-i", input]].concat();
    let json: serde_json::Value =
        serde_json::from_str(&run("ffprobe", arguments, seconds)?).context("ffprobe")?;
    let frames = json["frames"].as_array().context("ffprobe decoded no pictures")?;
    let mut sizes: Vec<(u32, u32, usize)> = Vec::new();
    for frame in frames {
        let number = |name: &str| frame[name].as_u64().and_then(|number| u32::try_from(number).ok());
        let (width, height) = number("width").zip(number("height")).context("a picture without a size")?;
        match sizes.last_mut().filter(|last| (last.0, last.1) == (width, height)) {
            Some(last) => last.2 += 1,
            None => sizes.push((width, height, 1)),
        }
    }
    Ok(sizes)
}

/// Reads ffmpeg's `framemd5`: lines of stream, dts, pts, duration, size and hash, and the time base of each
/// stream in front.
pub fn parse(text: &str) -> Result<Vec<Vec<Frame>>> {
    let mut bases = Vec::new();
    let mut streams: Vec<Vec<Frame>> = Vec::new();
    for line in text.lines() {
        if let Some(base) = line.strip_prefix("#tb ") {
            let (_, fraction) = base.split_once(": ").context("a time base")?;
            let (ticks, seconds) = fraction.split_once('/').context("a fraction")?;
            bases.push(ticks.parse::<f64>()? / seconds.parse::<f64>()?);
            streams.push(Vec::new());
        } else if !line.starts_with('#') && line.contains(',') {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            ensure!(fields.len() >= 6, "a line of framemd5: {line}");
            let stream: usize = fields[0].parse()?;
            let base = *bases.get(stream).context("a stream without a time base")?;
            let seconds = fields[2].parse::<f64>()? * base;
            streams[stream].push(Frame { seconds, hash: fields[5].to_owned() });
        }
    }
    ensure!(!streams.is_empty() && streams.iter().all(|frames| !frames.is_empty()), "nothing was decoded");
    Ok(streams)
}

/// Ensures that all frames of a stream came. Of the last ones so many may be missing.
pub fn ensure_all(came: &[Frame], stored: &[Frame], missing: usize) -> Result<()> {
    ensure!(came.len() <= stored.len() && came.len() + missing >= stored.len(), "{}", counts(came, stored));
    ensure_equal(came, stored)
}

/// Frames of the last so many seconds of a stream.
pub fn within_last(stored: &[Frame], seconds: f64) -> usize {
    let end = stored.iter().fold(0.0, |end: f64, frame| end.max(frame.seconds));
    stored.iter().filter(|frame| frame.seconds > end - seconds).count()
}

/// Ensures that the frames that came are those from some place to the end. Answers that place. So many
/// first ones may differ, of a decoder that needs those before, and so many last ones may be missing.
pub fn ensure_from(came: &[Frame], stored: &[Frame], differing: usize, missing: usize) -> Result<usize> {
    let first = came.get(differing).with_context(|| counts(came, stored))?;
    let at = stored.iter().position(|frame| frame.hash == first.hash);
    let at =
        at.with_context(|| format!("the first picture that came is not stored: {}", counts(came, stored)))?;
    ensure_all(&came[differing..], &stored[at..], missing)?;
    Ok(at)
}

fn ensure_equal(came: &[Frame], stored: &[Frame]) -> Result<()> {
    let wrong = came.iter().zip(stored).position(|(came, stored)| came.hash != stored.hash);
    ensure!(wrong.is_none(), "frame {wrong:?} differs: {}", counts(came, stored));
    Ok(())
}

fn counts(came: &[Frame], stored: &[Frame]) -> String {
    format!("{} frames came, {} are stored", came.len(), stored.len())
}

/// By how much the times of frames that came differ from those stored, in seconds: the median of equal ones.
pub fn shift(came: &[Frame], stored: &[Frame]) -> f64 {
    let mut shifts: Vec<f64> =
        came.iter().zip(stored).map(|(came, stored)| came.seconds - stored.seconds).collect();
    shifts.sort_by(f64::total_cmp);
    shifts.get(shifts.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_read_with_their_times() {
        let text = "#format: frame checksums\n#tb 0: 1/25\n#tb 1: 1/48000\n#stream#, dts\n\
                    0,  0,  2,  1,  345600, aa\n1,  0,  48000,  1024,  2048, bb\n";
        let streams = parse(text).unwrap();
        assert_eq!(streams[0], [Frame { seconds: 0.08, hash: "aa".to_owned() }]);
        assert_eq!(streams[1], [Frame { seconds: 1.0, hash: "bb".to_owned() }]);
        assert!(parse("#tb 0: 1/25\n").is_err(), "a stream without frames");
    }

    #[test]
    fn last_frames_are_counted_by_their_times() {
        let stored: Vec<Frame> =
            (0..10).map(|n| Frame { seconds: f64::from(n) / 4.0, hash: String::new() }).collect();
        assert_eq!((within_last(&stored, 0.0), within_last(&stored, 0.9)), (0, 4));
    }

    #[test]
    fn frames_are_compared_in_order() {
        let frame = |hash: &str| Frame { seconds: 0.0, hash: hash.to_owned() };
        let stored: Vec<Frame> = ["a", "b", "c", "d"].map(frame).into();
        assert!(ensure_all(&stored, &stored, 0).is_ok());
        assert!(
            ensure_all(&stored[..3], &stored, 0).is_err() && ensure_all(&stored[..3], &stored, 1).is_ok()
        );
        assert!(ensure_all(&stored[1..], &stored, 1).is_err());
        assert_eq!(ensure_from(&["x", "c", "d"].map(frame), &stored, 1, 0).unwrap(), 2);
        assert!(ensure_from(&["x", "d", "c"].map(frame), &stored, 1, 0).is_err());
    }
}
