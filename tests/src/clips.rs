//! Stored media to play, made by ffmpeg once and kept below the target folder.

use std::collections::hash_map::DefaultHasher;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};

use crate::process::{self, find};
use crate::require;

/// Bits per second of [`constant`] clips.
pub const CONSTANT_RATE: f64 = 4_000_000.0;

/// A transport stream of a constant 4 Mb/s: one programme, H.264 with a key frame each second, AAC, null
/// packets.
pub fn constant(seconds: u32) -> Result<PathBuf> {
    make(&format!("constant-{seconds}s"), "ts", &lines(seconds, 1, &["-muxrate", "4000000", "-f", "mpegts"]))
}

/// A transport stream without null packets, its rate going up and down with the picture.
pub fn variable(seconds: u32) -> Result<PathBuf> {
    make(&format!("variable-{seconds}s"), "ts", &lines(seconds, 1, &["-crf", "28", "-f", "mpegts"]))
}

/// A transport stream of two programmes.
pub fn two_programmes(seconds: u32) -> Result<PathBuf> {
    let output = [
        ["-program", "title=One:st=0:st=1"].as_slice(),
        &["-program", "title=Two:st=2:st=3"],
        &["-muxrate", "6000000", "-f", "mpegts"],
    ];
    make(&format!("two-programmes-{seconds}s"), "ts", &lines(seconds, 2, &output.concat()))
}

/// A transport stream of 192-byte packets, as on Blu-ray disks and from camcorders.
pub fn timestamped(seconds: u32) -> Result<PathBuf> {
    let output = ["-muxrate", "4000000", "-mpegts_m2ts_mode", "1", "-f", "mpegts"];
    make(&format!("timestamped-{seconds}s"), "m2ts", &lines(seconds, 1, &output))
}

/// An MP4 file with its index in front.
pub fn mp4(seconds: u32) -> Result<PathBuf> {
    make(
        &format!("fragmentless-{seconds}s"),
        "mp4",
        &lines(seconds, 1, &["-movflags", "+faststart", "-f", "mp4"]),
    )
}

/// A Matroska file.
pub fn matroska(seconds: u32) -> Result<PathBuf> {
    make(&format!("matroska-{seconds}s"), "mkv", &lines(seconds, 1, &["-f", "matroska"]))
}

/// An MP4 file of fragments of a second each, as recorders write them: its `moov` box has no duration.
pub fn fragmented(seconds: u32) -> Result<PathBuf> {
    let output = ["-movflags", "frag_keyframe+empty_moov", "-f", "mp4"];
    make(&format!("fragmented-{seconds}s"), "mp4", &lines(seconds, 1, &output))
}

/// A Matroska file without a duration, as live recordings.
pub fn live_matroska(seconds: u32) -> Result<PathBuf> {
    make(&format!("live-{seconds}s"), "mkv", &lines(seconds, 1, &["-live", "1", "-f", "matroska"]))
}

/// Bytes of a transport stream without clock references (PCR): it looks well, but cannot be packed.
pub fn without_clock(clip: &Path) -> Result<Vec<u8>> {
    let mut bytes = std::fs::read(clip)?;
    for packet in bytes.chunks_exact_mut(188) {
        // ISO/IEC 13818-1 section 2.4.3.4: an adaptation field that is not empty, and its PCR_flag.
        if packet[3] & 0x20 != 0 && packet[4] > 0 {
            packet[5] &= !0x10;
        }
    }
    Ok(bytes)
}

/// A movie whose first sample is a minute after time 0, as the second file of a recorder that does not reset
/// times.
pub fn late(seconds: u32, extension: &str) -> Result<PathBuf> {
    let container = if extension == "mkv" { "matroska" } else { extension };
    let output = ["-output_ts_offset", "60", "-f", container];
    make(&format!("late-{seconds}s"), extension, &lines(seconds, 1, &output))
}

/// A movie of a picture track and a sound track by these encoders, in the container of this extension. H.264
/// and H.265 have B-frames; MP4 has its index at the end.
pub fn film(seconds: u32, video: &str, audio: &str, extension: &str) -> Result<PathBuf> {
    film_with(seconds, (video, audio), extension, &[])
}

/// The same with these options of the container.
pub fn film_with(
    seconds: u32,
    (video, audio): (&str, &str),
    extension: &str,
    options: &[&str],
) -> Result<PathBuf> {
    let container = match extension {
        "mkv" => "matroska",
        "ts" => "mpegts",
        extension => extension,
    };
    let fast: &[&str] = if video.starts_with("libvpx") {
        &["-deadline", "realtime", "-cpu-used", "8"]
    } else if video.starts_with("libaom") {
        &["-usage", "realtime", "-cpu-used", "8"]
    } else {
        &["-bf", "2"]
    };
    // Opus over RTP is decoded to two channels (RFC 7587 section 7).
    let output = [&["-c:v", video], fast, &["-c:a", audio, "-ac", "2"], options, &["-f", container]].concat();
    make(&format!("film-{video}-{audio}-{seconds}s"), extension, &lines(seconds, 1, &output))
}

/// Two movies of the same codecs by different encodes: other picture sizes, profiles and parameter sets.
pub fn different_encodes(seconds: u32, video: &str, extension: &str) -> Result<[PathBuf; 2]> {
    let large = film(seconds, video, "aac", extension)?;
    let small = ["-s", "320x180", "-preset", "veryfast", "-profile:v", "main", "-refs", "1"];
    Ok([large, film_with(seconds, (video, "aac"), extension, &small)?])
}

/// Seconds from a [clap](claps) to the next.
pub const CLAP_S: f64 = 0.2;
/// Seconds before the first clap.
pub const FIRST_CLAP_S: f64 = 0.08;

/// A QuickTime file with claps: a picture of noise among grey ones, and with it 5 ms of sound in silence. A
/// random access point two pictures before each clap; the sound is linear PCM, so that packets have its
/// samples.
pub fn claps(seconds: u32) -> Result<PathBuf> {
    let noise = "lum='if(eq(mod(N,5),2),random(1)*255,64)':cb=128:cr=128";
    let picture = format!("nullsrc=size=320x240:rate=25:duration={seconds},geq={noise}");
    // Half a sample early, so that rounding does not matter.
    let before_s = CLAP_S - FIRST_CLAP_S + 0.5 / 48_000.0;
    let sound = format!("aevalsrc='0.5*lt(mod(t+{before_s},{CLAP_S}),0.005)':s=48000:d={seconds}");
    let inputs = ["-f", "lavfi", "-i", &picture, "-f", "lavfi", "-i", &sound];
    let video =
        "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 5 -keyint_min 5 -sc_threshold 0 -bf 2 -crf 35";
    let output = video.split_whitespace().chain("-c:a pcm_s16be -ac 1 -f mov".split_whitespace());
    let arguments: Vec<String> = inputs.into_iter().chain(output).map(str::to_owned).collect();
    make(&format!("claps-{seconds}s"), "mov", &arguments)
}

/// A movie cut from a longer one without encoding, as MP4: its first seconds are hidden by its edit list,
/// since its only random access point is before them.
pub fn cut(seconds: u32, hidden_seconds: f64) -> Result<PathBuf> {
    let output = ["-g", "10000", "-keyint_min", "10000", "-sc_threshold", "0", "-bf", "2", "-f", "mp4"];
    let whole = make(&format!("whole-{seconds}s"), "mp4", &lines(seconds, 1, &output))?;
    let name = whole.to_str().context("a clip's name")?;
    let arguments = ["-ss", &hidden_seconds.to_string(), "-i", name, "-c", "copy", "-f", "mp4"];
    make(&format!("cut-{seconds}s"), "mp4", &arguments.map(str::to_owned))
}

/// A folder with copies of clips under the given names, as something to serve.
///
/// Links would not do: each link that another test makes or removes changes the clip's time of change, which
/// is another version of the asset to a server.
pub fn folder(clips: &[(&str, &Path)]) -> Result<tempfile::TempDir> {
    let folder = process::open_folder()?;
    for (name, clip) in clips {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().context("a name")?).context("making a folder")?;
        copy(clip, &file).with_context(|| format!("copying {}", clip.display()))?;
    }
    Ok(folder)
}

/// Copies a file with its time of modification.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::copy(from, to)?;
    let modified = std::fs::metadata(from)?.modified()?;
    std::fs::OpenOptions::new().write(true).open(to)?.set_modified(modified)
}

/// ffmpeg's arguments for so many pictures with sound, each a moving test picture and a tone.
fn lines(seconds: u32, programmes: u32, output: &[&str]) -> Vec<String> {
    let mut arguments = Vec::new();
    for programme in 0..programmes {
        let picture = format!("testsrc2=size=640x360:rate=25:duration={seconds}");
        let tone = format!("sine=frequency={}:sample_rate=48000:duration={seconds}", 440 + 220 * programme);
        arguments.extend(["-f", "lavfi", "-i"].map(str::to_owned));
        arguments.push(picture);
        arguments.extend(["-f", "lavfi", "-i"].map(str::to_owned));
        arguments.push(tone);
    }
    for input in 0..2 * programmes {
        arguments.extend(["-map".to_owned(), input.to_string()]);
    }
    let codecs = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 25 -b:v 1500k -maxrate 1500k -bufsize 750k \
                  -c:a aac -b:a 128k";
    arguments.extend(codecs.split_whitespace().chain(output.iter().copied()).map(str::to_owned));
    arguments
}

/// Makes the clip of these arguments, unless a run before did. ffmpeg's bytes differ from run to run, so a
/// clip is made once by all test programs that run at the same time.
fn make(name: &str, extension: &str, arguments: &[String]) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    arguments.hash(&mut hasher);
    let target = process::profile_folder()?;
    let folder = target.parent().context("there is no target folder")?.join("clips");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    // Lock of one program or thread, which ends with the descriptor.
    let lock = File::create(folder.join("lock")).context("the lock of the clips")?;
    lock.lock().context("locking the clips")?;
    let clip = folder.join(format!("{name}-{:016x}.{extension}", hasher.finish()));
    if !clip.exists() {
        require!(find("ffmpeg").is_some(), "ffmpeg is not installed");
        let new = clip.with_extension(format!("{}.part", std::process::id()));
        let prefix = ["-nostdin", "-v", "error", "-y"].map(str::to_owned);
        let all = prefix.iter().chain(arguments).map(String::as_str).chain(new.to_str());
        process::run("ffmpeg", all, 120.0).context("making a clip")?;
        // The validators of a file that was modified a moment ago are weak (RFC 9110 section 8.8.2.2).
        let an_hour_ago = SystemTime::now() - Duration::from_secs(3600);
        File::open(&new).and_then(|file| file.set_modified(an_hour_ago)).context("dating a clip")?;
        std::fs::rename(&new, &clip).context("renaming a clip")?;
    }
    Ok(clip)
}

/// Pictures of a file according to ffprobe: bytes before each, and whether it is a random access point. Asked
/// once, and kept beside the clip.
pub fn pictures(clip: &Path) -> Result<Vec<Picture>> {
    let kept = clip.with_extension("pictures");
    let text = match std::fs::read_to_string(&kept) {
        Ok(text) => text,
        Err(_) => {
            let text = probe(clip)?;
            // Other tests may ask at the same moment.
            let mut new = tempfile::NamedTempFile::new_in(clip.parent().context("a clip's folder")?)?;
            new.write_all(text.as_bytes()).context("keeping what ffprobe says")?;
            new.persist(&kept).context("renaming what ffprobe says")?;
            text
        }
    };
    let json: serde_json::Value = serde_json::from_str(&text).context("ffprobe")?;
    let packets = json["packets"].as_array().context("ffprobe knows no packets")?;
    let picture = |packet: &serde_json::Value| {
        let offset = packet["pos"].as_str().and_then(|text| text.parse().ok())?;
        Some(Picture { offset, is_key: packet["flags"].as_str()?.starts_with('K') })
    };
    let pictures: Vec<Picture> = packets.iter().filter_map(picture).collect();
    ensure!(!pictures.is_empty(), "ffprobe found no pictures in {}", clip.display());
    Ok(pictures)
}

fn probe(clip: &Path) -> Result<String> {
    require!(find("ffprobe").is_some(), "ffprobe is not installed");
    let clip = clip.to_str().context("a clip's name")?;
    let select =
        ["-v", "error", "-select_streams", "v:0", "-show_entries", "packet=pos,flags", "-of", "json", clip];
    process::run("ffprobe", select, 60.0)
}

/// One picture of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Offset of the transport packet in which it begins.
    pub offset: u64,
    /// True if playing can start with it.
    pub is_key: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_clip_has_the_rate_it_says() {
        let clip = match constant(2) {
            Ok(clip) => clip,
            Err(error) if error.is::<crate::trial::Skip>() => return println!("{error}"),
            Err(error) => panic!("{error:#}"),
        };
        let bytes = std::fs::read(&clip).unwrap();
        assert!(bytes.len() % 188 == 0 && bytes.iter().step_by(188).all(|byte| *byte == 0x47));
        let seconds = bytes.len() as f64 * 8.0 / CONSTANT_RATE;
        assert!((1.9..2.6).contains(&seconds), "{seconds}");
        let keys = pictures(&clip).unwrap().into_iter().filter(|picture| picture.is_key).count();
        assert_eq!(keys, 2);
    }
}
