//! Archives whose newest recording is being written: fragments are appended to it, and the next one is begun, while a
//! server plays the archive.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use tempfile::TempDir;
use wirepath_tests::loss::unless_overloaded;
use wirepath_tests::movie::Movie;
use wirepath_tests::playback::{Playback, describe, ensure_bytes};
use wirepath_tests::process::{Process, find, run};
use wirepath_tests::rtp::Received;
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, frames, require, trials};

use crate::packing::metric;
use crate::recordings::{append, parts, pictures};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_session_goes_on_into_recordings_that_are_written => || {
            unless_overloaded(a_session_goes_on_into_recordings_that_are_written)
        },
        a_recording_that_comes_later_is_played => || unless_overloaded(a_recording_that_comes_later_is_played),
        playing_from_now_on_begins_near_the_end_of_the_newest => || {
            unless_overloaded(playing_from_now_on_begins_near_the_end_of_the_newest)
        },
        transport_streams_are_played_while_they_are_written => || {
            unless_overloaded(transport_streams_are_played_while_they_are_written)
        },
        ffmpeg_plays_what_ffmpeg_records => || unless_overloaded(ffmpeg_plays_what_ffmpeg_records),
    ]
}

/// Length of a recording: a fragment of each second.
const SECONDS: u32 = 3;

/// Pictures of a recording.
const PICTURES: usize = SECONDS as usize * 25;

/// A finished recording, another one that is being written, and a server of their archive.
struct TestBed {
    server: Server,
    folder: TempDir,
    /// Parts of a recording: its beginning, its fragments, and an index of them.
    parts: Vec<Vec<u8>>,
}

impl TestBed {
    /// Recordings of these names; the second one has a fragment.
    fn new(names: [&str; 2], archive: &str) -> Result<Self> {
        let clip = clips::fragmented(SECONDS)?;
        let finished = format!("cam/{}", names[0]);
        let folder = clips::folder(&[(finished.as_str(), clip.as_path())])?;
        let parts = parts(&fs::read(&clip).context("reading the clip")?)?;
        ensure!(parts.len() == SECONDS as usize + 2, "the clip has {} parts", parts.len());
        fs::write(folder.path().join("cam").join(names[1]), parts[..2].concat()).context("recording")?;
        let server = Server::of(folder.path()).with(["--archive", archive]).start()?;
        Ok(Self { server, folder, parts })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("cam").join(name)
    }

    fn description(&self) -> Result<String> {
        Ok(describe(&mut Client::connect(self.server.rtsp)?, &self.server.rtsp_url("cam"))?.0)
    }
}

/// Waits until a session has so many pictures. The last ones of a fragment wait for the sound of their time.
fn wait_for(movie: &Movie, count: usize) -> Result<()> {
    let least = count - 12;
    movie.tracks[0].wait_for("picture", Deadline::seconds(20.0), |received| pictures(received) >= least)?;
    Ok(())
}

/// Promise: An archive plays up to the recording that is being written, on as that grows, and into the next one.
fn a_session_goes_on_into_recordings_that_are_written() -> Result<()> {
    let names = ["2026-11-23T10-00-00.mp4", "2026-11-23T10-00-03.mp4", "2026-11-23T10-00-06.mp4"];
    let bed = TestBed::new([names[0], names[1]], "cam")?;
    let description = bed.description()?;
    ensure!(description.contains("a=range:clock=20261123T100000Z-\r\n"), "{description}");
    let mut movie = Movie::set_up(bed.server.rtsp, "cam")?;
    movie.play(Some("npt=0-"))?;
    // The recorder writes when the client has what was written before, so the session waits at the end each time.
    wait_for(&movie, PICTURES + 25)?;
    for fragment in 2..=SECONDS as usize {
        append(&bed.path(names[1]), &bed.parts[fragment])?;
        wait_for(&movie, PICTURES + fragment * 25)?;
    }
    // The next recording is a name first, then has no fragment.
    fs::write(bed.path(names[2]), "").context("beginning a recording")?;
    append(&bed.path(names[2]), &bed.parts[0])?;
    append(&bed.path(names[2]), &bed.parts[1])?;
    let begun = Instant::now();
    wait_for(&movie, 2 * PICTURES + 25)?;
    let waited = begun.elapsed().as_secs_f64();
    ensure!(waited < 8.0, "the next recording was played after {waited} s");
    for part in &bed.parts[2..] {
        append(&bed.path(names[2]), part)?;
    }
    // The recording is complete, but another one might be begun for ten seconds.
    let tracks = movie.to_the_end(Deadline::seconds(30.0))?;
    for (received, clock) in tracks.iter().zip(&movie.clocks) {
        ensure!(received.gaps().is_empty(), "gaps: {:?}", received.gaps());
        let (first, rest) = received.payload.split_at(received.payload.len() / 3);
        ensure!(!first.is_empty() && rest == first.repeat(2), "the recordings differ");
        let ends = received.packets.first().zip(received.packets.last()).context("no packets")?;
        let seconds = f64::from(ends.1.timestamp.wrapping_sub(ends.0.timestamp)) / clock;
        ensure!((8.7..9.2).contains(&seconds), "timestamps go by {seconds} s");
    }
    ensure!(pictures(&tracks[0]) == 3 * PICTURES, "{} pictures", pictures(&tracks[0]));
    let counts = (
        metric(&bed.server, "wirepath_images_packed_total")?,
        metric(&bed.server, "wirepath_images_failed_total")?,
    );
    ensure!(counts == (3, 0), "images packed and failed: {counts:?}");
    let left_out = bed.server.status()?["archives"][0]["left_out"].as_array().map(Vec::len);
    ensure!(left_out == Some(0), "{left_out:?} are left out");
    Ok(())
}

/// Promise: A session plays a recording that comes while it plays the last one, though none was written at its start.
fn a_recording_that_comes_later_is_played() -> Result<()> {
    let clip = clips::fragmented(SECONDS)?;
    let folder = clips::folder(&[("cam/2026-11-23T10-00-00.mp4", clip.as_path())])?;
    let server = Server::of(folder.path()).with(["--archive", "cam"]).start()?;
    let mut movie = Movie::set_up(server.rtsp, "cam")?;
    movie.play(Some("npt=0-"))?;
    wait_for(&movie, PICTURES / 2)?;
    // That none follows was found when the recording was begun, more than a second ago.
    let later = folder.path().join("cam/2026-11-23T10-00-03.mp4");
    fs::copy(&clip, &later).context("copying the clip")?;
    fs::File::open(&later)?.set_modified(fs::metadata(&clip)?.modified()?)?;
    let tracks = movie.to_the_end(Deadline::seconds(20.0))?;
    ensure!(pictures(&tracks[0]) == 2 * PICTURES, "{} pictures", pictures(&tracks[0]));
    ensure!(tracks.iter().all(|received| received.gaps().is_empty()), "there are gaps");
    Ok(())
}

/// Promise: An archive of transport streams plays up to the one that is being written, and into the next one.
fn transport_streams_are_played_while_they_are_written() -> Result<()> {
    let clip = clips::constant(SECONDS)?;
    let folder = clips::folder(&[("cam/2026-11-23T10-00-00.ts", clip.as_path())])?;
    let clip = fs::read(&clip).context("reading the clip")?;
    let (begin, rest) = clip.split_at(clip.len() / 3);
    let path = |name: &str| folder.path().join("cam").join(name);
    fs::write(path("2026-11-23T10-00-03.ts"), begin).context("recording")?;
    let server = Server::of(folder.path()).with(["--archive", "cam"]).start()?;
    let mut playback = Playback::set_up(server.rtsp, "cam")?;
    let description = &playback.description;
    ensure!(description.contains("a=range:clock=20261123T100000Z-\r\n"), "{description}");
    playback.play(None)?;
    // Bytes wait for the next clock reference, which comes each 0.1 s at least.
    let wait_for = |playback: &Playback, bytes: usize| {
        let most = |received: &Received| received.payload.len() + 60_000 > bytes;
        playback.receiver.wait_for("packet", Deadline::seconds(20.0), most).map(drop)
    };
    wait_for(&playback, clip.len() + begin.len())?;
    append(&path("2026-11-23T10-00-03.ts"), rest)?;
    wait_for(&playback, 2 * clip.len())?;
    fs::write(path("2026-11-23T10-00-06.ts"), begin).context("beginning a recording")?;
    let begun = Instant::now();
    wait_for(&playback, 2 * clip.len() + begin.len())?;
    let waited = begun.elapsed().as_secs_f64();
    ensure!(waited < 8.0, "the next recording was played after {waited} s");
    append(&path("2026-11-23T10-00-06.ts"), rest)?;
    let received = playback.receiver.to_the_end(Deadline::seconds(30.0))?;
    ensure_bytes(&received, &clip.repeat(3))
}

/// A time in seconds since 1970 as in `Range: clock=`.
fn clock(seconds: u64) -> Result<String> {
    let date = run("date", ["-u", "-d", &format!("@{seconds}"), "+%Y%m%dT%H%M%SZ"], 10.0)?;
    Ok(date.trim().to_owned())
}

/// Promise: `Range: npt=now-` and `clock=` from now on begin near the end of an archive's newest recording; later times
/// get 457.
fn playing_from_now_on_begins_near_the_end_of_the_newest() -> Result<()> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
    let (first, second) = (now - 60, now - SECONDS.min(2) as u64);
    let (first_name, second_name) = (format!("{first}.mp4"), format!("{second}.mp4"));
    let bed = TestBed::new([&first_name, &second_name], "cam=%s")?;
    append(&bed.path(&second_name), &bed.parts[2])?;
    let mut movie = Movie::set_up(bed.server.rtsp, "cam")?;
    let session = movie.session.clone();
    let mut play = |range: String| {
        movie.client.request("PLAY", &movie.url, &[("Session", session.as_str()), ("Range", &range)])
    };
    let beyond = play(format!("clock={}-", clock(now + 3600)?))?;
    ensure!(beyond.status == 457, "{beyond:?}");
    // The last random access point before the last fragment, which is the second one.
    let answer = play(format!("clock={}-", clock(now)?))?;
    let range = answer.header("range").context("no Range")?.to_owned();
    let expected = [clock(second)?, clock(second + 1)?].map(|time| time.trim_end_matches('Z').to_owned());
    let begins = |time: &String| range.starts_with(&format!("clock={time}"));
    ensure!(answer.status == 200 && expected.iter().any(begins), "{range}, not from {expected:?}");
    let session = movie.session.clone();
    movie.pause()?;
    let headers = [("Session", session.as_str()), ("Range", "npt=now-")];
    let answer = movie.client.succeed("PLAY", &movie.url, &headers)?;
    let range = answer.header("range").context("no Range")?;
    let begun = range.strip_prefix("npt=").and_then(|range| range.split('-').next()).context("a time")?;
    let begun_s = begun.parse::<f64>()? - (second - first) as f64;
    ensure!((0.0..2.0).contains(&begun_s), "{range}");
    let before = pictures(&movie.tracks[0].received());
    append(&bed.path(&second_name), &bed.parts[3])?;
    wait_for(&movie, before + (SECONDS as usize - begun_s as usize) * 25)
}

/// Promise: ffmpeg plays an archive while ffmpeg records it, across files.
fn ffmpeg_plays_what_ffmpeg_records() -> Result<()> {
    require!(find("ffmpeg").is_some(), "ffmpeg is not installed");
    let folder = wirepath_tests::process::open_folder()?;
    let cam = folder.path().join("cam");
    fs::create_dir(&cam).context("making a folder")?;
    let mut recorder = Command::new("ffmpeg");
    let input = "-nostdin -v error -re -f lavfi -i testsrc2=size=320x240:rate=25 -c:v libx264 -preset ultrafast \
                 -pix_fmt yuv420p -g 25 -keyint_min 25 -sc_threshold 0 -flush_packets 1 -f segment -segment_time 4 \
                 -reset_timestamps 1 -strftime 1 -segment_format mp4 -segment_format_options \
                 movflags=frag_keyframe+empty_moov+default_base_moof";
    recorder.args(input.split_whitespace()).arg(cam.join("%Y-%m-%dT%H-%M-%S.mp4")).env("TZ", "UTC");
    let mut recorder = Process::start(&recorder, true)?;
    let server = Server::of(folder.path()).with(["--archive", "cam"]).start()?;
    let described = || {
        let answer = Client::connect(server.rtsp)?.request(
            "DESCRIBE",
            &server.rtsp_url("cam"),
            &[("Accept", "application/sdp")],
        )?;
        Ok((answer.status == 200).then_some(()))
    };
    Deadline::seconds(20.0).wait_for("a description", described)?;
    for transport in ["tcp", "udp"] {
        // Two files end within the time.
        let begun = Instant::now();
        let sizes = frames::sizes(&["-rtsp_transport", transport], &server.rtsp_url("cam"), Some(9.0), 60.0)?;
        let pictures: usize = sizes.iter().map(|size| size.2).sum();
        ensure!(sizes.len() == 1 && (200..=235).contains(&pictures), "{sizes:?} over {transport}");
        let seconds = begun.elapsed().as_secs_f64();
        ensure!(seconds < 25.0, "nine seconds took {seconds} s over {transport}");
    }
    ensure!(recorder.is_running()?, "the recorder ended: {}", recorder.log());
    ensure!(metric(&server, "wirepath_images_failed_total")? == 0, "an image failed");
    Ok(())
}
