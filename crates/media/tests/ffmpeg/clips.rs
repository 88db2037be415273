//! Clips of two seconds, which ffmpeg makes once; they are stored below the target folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};
use wirepath_testkit::require;

/// Clip: its name, and the arguments of ffmpeg.
#[derive(Clone, Copy, Debug)]
struct Clip {
    name: &'static str,
    arguments: &'static str,
}

const H264: &str = "PICTURE SOUND -c:v libx264 -preset veryfast -bf 3 -g 25 -c:a aac";
const COPY: &str = "-i b-frames.mp4 -c copy -map 0";

/// Clips with tables, with fragments, and of each codec.
const CLIPS: [Clip; 38] = [
    Clip { name: "b-frames.mp4", arguments: H264 },
    Clip { name: "faststart.mp4", arguments: "COPY -movflags +faststart" },
    Clip { name: "fragments.mp4", arguments: "COPY -movflags +frag_keyframe+empty_moov+default_base_moof" },
    Clip { name: "base-offsets.mp4", arguments: "COPY -movflags +frag_keyframe+empty_moov" },
    Clip {
        name: "fragment-for-each-track.mp4",
        arguments: "COPY -frag_duration 200000 -movflags +empty_moov+separate_moof+default_base_moof",
    },
    Clip { name: "moov-with-samples.mp4", arguments: "COPY -movflags +frag_keyframe" },
    Clip { name: "negative-offsets.mp4", arguments: "COPY -movflags +negative_cts_offsets" },
    Clip { name: "from-the-middle.mp4", arguments: "-ss 0.7 COPY" },
    Clip { name: "delayed.mp4", arguments: "-itsoffset 0.5 COPY" },
    Clip {
        name: "languages.mp4",
        arguments: "PICTURE SOUND SOUND -map 0 -map 1 -map 2 -c:v libx264 -preset ultrafast -c:a aac \
                    -metadata:s:a:0 language=deu -metadata:s:a:1 language=fra -slices 4",
    },
    Clip {
        name: "h265.mp4",
        arguments: "PICTURE SOUND -c:v libx265 -x265-params log-level=error -preset ultrafast -tag:v hvc1 \
                    -c:a libopus",
    },
    Clip { name: "av1.mp4", arguments: "PICTURE SOUND -c:v libaom-av1 -cpu-used 8 -c:a libmp3lame" },
    Clip { name: "ac-3.mp4", arguments: "SOUND -c:a ac3 -ac 6" },
    Clip { name: "mp3.mp4", arguments: "SOUND -c:a libmp3lame" },
    Clip {
        name: "vp9.mp4",
        arguments: "PICTURE SOUND -c:v libvpx-vp9 -cpu-used 8 -deadline realtime -c:a flac -strict -2",
    },
    Clip { name: "pcm.mov", arguments: "SOUND -c:a pcm_s16le" },
    Clip { name: "l16.mov", arguments: "SOUND -c:a pcm_s16be -ac 2" },
    Clip { name: "l16-little.mov", arguments: "SOUND -c:a pcm_s16le -ac 2" },
    Clip { name: "l24-little.mov", arguments: "SOUND -c:a pcm_s24le -ac 2" },
    Clip { name: "a-law.mov", arguments: "SOUND -ar 8000 -c:a pcm_alaw" },
    Clip { name: "mu-law.mov", arguments: "SOUND -ar 16000 -c:a pcm_mulaw -ac 2" },
    Clip { name: "b-frames.mkv", arguments: "COPY" },
    Clip { name: "live.mkv", arguments: "COPY -live 1" },
    Clip { name: "index-in-front.mkv", arguments: "COPY -cues_to_front 1" },
    Clip {
        name: "languages.mkv",
        arguments: "PICTURE SOUND SOUND -map 0 -map 1 -map 2 -c:v libx264 -preset veryfast -x264-params b-pyramid=2 \
                    -bf 5 -c:a aac -metadata:s:a:0 language=deu -metadata:s:a:1 language=fra",
    },
    Clip {
        name: "h265.mkv",
        arguments: "PICTURE SOUND -c:v libx265 -x265-params log-level=error:bframes=4:b-pyramid=1 -preset ultrafast \
                    -c:a ac3",
    },
    Clip { name: "h265-copied.mkv", arguments: "-i h265.mp4 -c copy -map 0" },
    Clip { name: "av1.mkv", arguments: "PICTURE SOUND -c:v libaom-av1 -cpu-used 8 -c:a libmp3lame" },
    Clip {
        name: "vp9.webm",
        arguments: "PICTURE SOUND -c:v libvpx-vp9 -cpu-used 8 -deadline realtime -c:a libopus",
    },
    Clip {
        name: "vp8.webm",
        arguments: "PICTURE SOUND -c:v libvpx -cpu-used 8 -deadline realtime -c:a libopus",
    },
    Clip { name: "b-frames.ts", arguments: "COPY" },
    Clip {
        name: "blu-ray.m2ts",
        arguments: "PICTURE SOUND -c:v libx264 -preset veryfast -c:a ac3 -mpegts_m2ts_mode 1 -f mpegts",
    },
    Clip {
        name: "interlaced.ts",
        arguments: "PICTURE SOUND -c:v libx264 -preset veryfast -flags +ildct+ilme -x264-params tff=1 -c:a libmp3lame",
    },
    Clip {
        name: "h265.ts",
        arguments: "PICTURE SOUND -c:v libx265 -x265-params log-level=error:bframes=4:b-pyramid=1 -preset ultrafast \
                    -c:a ac3",
    },
    Clip { name: "mp2.ts", arguments: "PICTURE SOUND -c:v libx264 -preset veryfast -bf 0 -c:a mp2" },
    Clip { name: "l16.mkv", arguments: "SOUND -c:a pcm_s16be -ac 2" },
    Clip { name: "l16-little.mkv", arguments: "SOUND -c:a pcm_s16le -ac 2" },
    Clip { name: "a-law.mkv", arguments: "SOUND -ar 8000 -c:a pcm_alaw" },
];

/// Returns the path of a clip, which is made unless an earlier run made it.
pub(crate) fn clip(name: &str) -> Result<PathBuf> {
    CLIPS.iter().find(|clip| clip.name == name).context("no such clip")?.file()
}

impl Clip {
    fn file(&self) -> Result<PathBuf> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let arguments = self.arguments.replace("COPY", COPY);
        let copied = CLIPS.iter().find(|clip| arguments.split_whitespace().any(|word| word == clip.name));
        let copied = copied.map(|clip| Ok::<_, anyhow::Error>((clip.name, clip.file()?))).transpose()?;
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mp4-3");
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let file = folder.join(self.name);
        if !file.exists() {
            let new = folder.join(format!("{}-{}", std::process::id(), self.name));
            let words = arguments
                .replace("PICTURE", "-f lavfi -i testsrc2=size=160x120:rate=25:duration=2")
                .replace("SOUND", "-f lavfi -i sine=frequency=440:sample_rate=48000:duration=2");
            let copied = copied.map(|(name, file)| (name, file.display().to_string()));
            let words = words.split_whitespace().map(|word| match &copied {
                Some((name, file)) if word == *name => file,
                _ => word,
            });
            let mut arguments = vec!["-nostdin", "-v", "error", "-y"];
            arguments.extend(words);
            arguments.extend(new.to_str());
            run("ffmpeg", &arguments)?;
            std::fs::rename(&new, &file).context("renaming a clip")?;
        }
        Ok(file)
    }
}

/// Runs ffmpeg or ffprobe, and returns its standard output.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    require!(output.is_ok(), "{program} is not installed");
    let output = output?;
    let errors = String::from_utf8_lossy(&output.stderr);
    require!(!errors.contains("Unknown encoder"), "{program} lacks an encoder: {errors}");
    ensure!(output.status.success(), "{program} {arguments:?}: {errors}");
    Ok(String::from_utf8(output.stdout)?)
}
