//! Transport streams played by their tracks, `?demux=1`, with the clients that people have.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use tempfile::TempDir;
use wirepath_tests::frames::{self, Frame};
use wirepath_tests::loss::unless_overloaded;
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::Server;
use wirepath_tests::{clients, clips, process, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        ffmpeg_plays_tracks_of_h264_and_aac_over_udp => || unless_overloaded(|| ffmpeg_plays(H264_AAC, "udp")),
        ffmpeg_plays_tracks_of_h264_and_aac_over_tcp => || ffmpeg_plays(H264_AAC, "tcp"),
        ffmpeg_plays_tracks_of_h265_and_ac3_over_udp => || unless_overloaded(|| ffmpeg_plays(("libx265", "ac3"), "udp")),
        ffmpeg_plays_tracks_of_h264_and_mp3_over_tcp => || ffmpeg_plays(("libx264", "libmp3lame"), "tcp"),
        ffmpeg_plays_tracks_of_h264_and_opus_over_tcp => || ffmpeg_plays(("libx264", "libopus"), "tcp"),
        ffmpeg_seeks_in_tracks_over_udp => || unless_overloaded(|| ffmpeg_seeks("udp")),
        ffmpeg_seeks_in_tracks_over_tcp => || ffmpeg_seeks("tcp"),
        gstreamer_plays_tracks_over_udp => || unless_overloaded(|| gstreamer_plays("udp")),
        gstreamer_plays_tracks_over_tcp => || gstreamer_plays("tcp"),
        a_stream_without_playable_tracks_is_refused,
    ]
}

const SECONDS: u32 = 6;

/// Pictures that are decoded before those that are shown before them.
const REORDERED: usize = 2;

/// Encoders of picture and sound.
type Codecs = (&'static str, &'static str);

const H264_AAC: Codecs = ("libx264", "aac");

/// A transport stream and a server of it.
struct Serving {
    server: Server,
    clip: PathBuf,
    _folder: TempDir,
}

impl Serving {
    fn of((video, audio): Codecs) -> Result<Self> {
        let clip = clips::film(SECONDS, video, audio, "ts")?;
        let folder = clips::folder(&[("film.ts", &clip)])?;
        Ok(Self { server: Server::of(folder.path()).start()?, clip, _folder: folder })
    }

    fn url(&self) -> String {
        self.server.rtsp_url("film.ts") + "?demux=1"
    }

    fn path(&self) -> Result<&str> {
        self.clip.to_str().context("a clip's name")
    }

    fn stored(&self) -> Result<Vec<Vec<Frame>>> {
        frames::decode(&[], self.path()?, 60.0)
    }
}

/// Promise: ffmpeg plays the tracks of a transport stream by `?demux=1`; pictures and sound are those of the file.
fn ffmpeg_plays(codecs: Codecs, transport: &str) -> Result<()> {
    let serving = Serving::of(codecs)?;
    let came = frames::decode(&["-rtsp_transport", transport], &serving.url(), 40.0)?;
    let stored = serving.stored()?;
    ensure!((came.len(), stored.len()) == (2, 2), "{} of {} tracks came", came.len(), stored.len());
    frames::ensure_all(&came[0], &stored[0], 1)?;
    // Of a file, a decoder of Opus trims the ends, which RTP cannot state.
    let padded = usize::from(codecs.1 == "libopus");
    let sound = &came[1][..came[1].len() - padded];
    let first = frames::ensure_from(sound, &stored[1], 1, 1 + padded)?;
    ensure!(first <= 1, "sound begins at frame {first}");
    // They are as far apart as in the file.
    let apart = frames::shift(&came[0], &stored[0]) - frames::shift(&came[1][1..], &stored[1][first..]);
    ensure!(apart.abs() < 0.005, "picture and sound are {apart} s apart");
    // The same file is played as a transport stream meanwhile.
    let whole = frames::decode(&["-rtsp_transport", "tcp"], &serving.server.rtsp_url("film.ts"), 40.0)?;
    // The last picture that is stored is not the last one that is shown.
    let whole = &whole[0][..whole[0].len().saturating_sub(REORDERED)];
    frames::ensure_all(whole, &stored[0], 1 + 2 * REORDERED)
}

/// Promise: ffmpeg seeks in the tracks of a transport stream; it begins at a random access point, in sync.
fn ffmpeg_seeks(transport: &str) -> Result<()> {
    let serving = Serving::of(H264_AAC)?;
    let options = ["-rtsp_transport", transport, "-ss", "3"];
    let came = frames::decode(&options, &serving.url(), 40.0)?;
    let first = frames::ensure_from(&came[0], &serving.stored()?[0], 0, 1)?;
    ensure!((50..=80).contains(&first), "playing began at picture {first}");
    let sound = frames::sound_frames(&options, &serving.url(), 40.0)?;
    ensure!(sound.len() > 100, "{} frames of sound", sound.len());
    Ok(())
}

/// Promise: GStreamer plays the tracks of a transport stream by `?demux=1`.
fn gstreamer_plays(protocol: &str) -> Result<()> {
    let serving = Serving::of(H264_AAC)?;
    let home = process::open_folder()?;
    let (video, audio) = (home.path().join("video.h264"), home.path().join("audio.aac"));
    clients::gstreamer_movie(protocol, &serving.url(), &video, &audio, 40.0)?;
    let stored = serving.stored()?;
    for (file, stored) in [(video, &stored[0]), (audio, &stored[1])] {
        let came = frames::decode(&[], file.to_str().context("a file's name")?, 60.0)?;
        // The last frame in the order of decoding may be cut.
        let whole = &came[0][..came[0].len().saturating_sub(1 + REORDERED)];
        let missing = 2 + REORDERED + frames::within_last(stored, clients::GSTREAMER_LATENCY_S);
        frames::ensure_all(whole, stored, missing).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// Promise: `?demux=1` of a transport stream none of whose tracks has a payload format gets 415 with the reason.
fn a_stream_without_playable_tracks_is_refused() -> Result<()> {
    let serving = Serving::of(("mpeg2video", "eac3"))?;
    let mut client = Client::connect(serving.server.rtsp)?;
    let refused = client.request("DESCRIBE", &serving.url(), &[])?;
    let why = String::from_utf8(refused.body)?;
    ensure!(refused.status == 415 && why.contains("no RTP payload format for MPEG-2 video"), "{why}");
    // As a transport stream it plays; other queries change nothing.
    let url = serving.server.rtsp_url("film.ts") + "?demux=0&other=1";
    let described = String::from_utf8(client.succeed("DESCRIBE", &url, &[])?.body)?;
    ensure!(described.contains("m=video 0 RTP/AVP 33"), "{described}");
    Ok(())
}
