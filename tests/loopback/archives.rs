//! Archives: folders of recordings that play as one timeline.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::Value as Json;
use tempfile::TempDir;
use wirepath_tests::interleaved::Interleaved;
use wirepath_tests::loss::unless_overloaded;
use wirepath_tests::movie::Movie;
use wirepath_tests::playback::{Playback, ensure_bytes};
use wirepath_tests::rtp::Received;
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, frames, http, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        recordings_and_a_gap_are_one_stream_over_udp,
        recordings_and_a_gap_are_one_stream_over_tcp,
        a_gap_is_held,
        absolute_times_are_sought,
        a_pause_at_a_joint_loses_nothing,
        a_movie_goes_on_over_a_joint,
        recordings_without_a_duration_have_a_length,
        an_archive_of_unknown_length_has_an_open_end,
        recordings_that_begin_late_follow_at_once,
        a_recording_that_vanishes_is_skipped,
        a_recording_of_other_tracks_is_left_out,
        the_newest_recording_tells_the_tracks,
        ffmpeg_plays_recordings_by_their_tracks => || unless_overloaded(ffmpeg_plays_recordings_by_their_tracks),
        ffmpeg_plays_recordings_of_different_encodes => || {
            unless_overloaded(ffmpeg_plays_recordings_of_different_encodes)
        },
        movies_larger_than_the_cache_are_left_out,
        many_bad_recordings_do_not_hide_the_good_ones,
        an_archive_whose_only_recording_is_being_written_says_so,
        what_an_archive_cannot_do_is_refused,
        a_session_without_replay_is_controlled,
        recordings_are_listed_in_pages,
        names_have_local_times,
        local_times_at_changes_of_the_clock_have_a_rule,
        a_hundred_thousand_names_are_listed,
    ]
}

/// Folder `cam` of these recordings.
fn folder(recordings: &[(&str, PathBuf)]) -> Result<TempDir> {
    let named: Vec<_> = recordings.iter().map(|(name, clip)| (format!("cam/{name}"), clip)).collect();
    let named: Vec<_> = named.iter().map(|(name, clip)| (name.as_str(), clip.as_path())).collect();
    clips::folder(&named)
}

fn serve(folder: &TempDir, arguments: &[&str]) -> Result<Server> {
    Server::of(folder.path()).with(["--archive", "cam"]).with(arguments).start()
}

/// Two recordings that follow each other, and one behind a gap.
struct TestBed {
    server: Server,
    folder: TempDir,
    recordings: [Vec<u8>; 3],
}

impl TestBed {
    fn new(arguments: &[&str]) -> Result<TestBed> {
        let clips = [clips::constant(2)?, clips::constant(3)?, clips::variable(2)?];
        let recordings = [fs::read(&clips[0])?, fs::read(&clips[1])?, fs::read(&clips[2])?];
        let [first, second, third] = clips;
        let folder = folder(&[
            ("2026-11-23T10-00-00.ts", first.clone()),
            ("2026-11-23T10-00-02.ts", second),
            ("2026-11-23T10-00-09.ts", third),
            ("notes.ts", first),
        ])?;
        let cam = folder.path().join("cam");
        fs::create_dir(cam.join("2026-11-23T10-00-01.ts"))?;
        symlink(".", cam.join("2026-11-23T10-00-03.ts"))?;
        symlink("2026-11-23T10-00-04.ts", cam.join("2026-11-23T10-00-04.ts"))?;
        fs::write(cam.join("2026-11-23T10-00-05.ts"), "no transport stream")?;
        Ok(TestBed { server: serve(&folder, arguments)?, folder, recordings })
    }

    fn all(&self) -> Vec<u8> {
        self.recordings.concat()
    }
}

/// Ensures that packets have one source, and timestamps that never go by `ticks` or more.
fn ensure_times(received: &Received, ticks: u32) -> Result<()> {
    for pair in received.packets.windows(2) {
        let step = pair[1].timestamp.wrapping_sub(pair[0].timestamp);
        ensure!(step < ticks, "{step} ticks from {} to {}", pair[0].sequence, pair[1].sequence);
        ensure!(pair[0].ssrc == pair[1].ssrc, "another source");
    }
    Ok(())
}

/// Promise: Recordings play as one stream: sequence numbers and timestamps continue across recordings and
/// skipped gaps.
fn recordings_and_a_gap_are_one_stream_over_udp() -> Result<()> {
    let bed = TestBed::new(&[])?;
    let mut playback = Playback::set_up(bed.server.rtsp, "cam")?;
    let range = playback.description.lines().find(|line| line.starts_with("a=range:clock="));
    let range = range.context("no absolute times in the description")?;
    ensure!(range.starts_with("a=range:clock=20261123T100000Z-20261123T100011"), "{range}");
    playback.play(None)?;
    let received = playback.receiver.to_the_end(Deadline::seconds(30.0))?;
    ensure_bytes(&received, &bed.all())?;
    ensure_times(&received, 45_000)?;
    let left_out = bed.server.status()?["archives"][0]["left_out"].to_string();
    ensure!(left_out.contains("10-00-05.ts"), "{left_out}");
    Ok(())
}

/// Promise: Recordings play as one stream: sequence numbers and timestamps continue across recordings and
/// skipped gaps.
fn recordings_and_a_gap_are_one_stream_over_tcp() -> Result<()> {
    let bed = TestBed::new(&[])?;
    let mut playback = Interleaved::set_up(bed.server.rtsp, "cam", None)?;
    playback.play(None)?;
    playback.to_the_end(Deadline::seconds(30.0))?;
    ensure_bytes(&playback.received, &bed.all())?;
    ensure_times(&playback.received, 45_000)
}

/// Promise: A held gap lasts as long in timestamps as on the wall clock.
fn a_gap_is_held() -> Result<()> {
    let bed = TestBed::new(&["--archive-gaps", "hold"])?;
    let mut playback = Playback::set_up(bed.server.rtsp, "cam")?;
    playback.play(Some("clock=20261123T100003Z-"))?;
    let received = playback.receiver.to_the_end(Deadline::seconds(30.0))?;
    ensure!(received.gaps().is_empty(), "{:?}", received.gaps());
    ensure!(bed.all().ends_with(&received.payload), "other bytes came");
    let steps = received.packets.windows(2).map(|pair| pair[1].timestamp.wrapping_sub(pair[0].timestamp));
    let longest = steps.max().context("no packets")?;
    ensure!((3 * 90_000..5 * 90_000).contains(&longest), "a gap of {longest} ticks, not four seconds");
    Ok(())
}

/// Promise: `Range: clock=` plays an archive from and up to absolute times, which the answer states.
fn absolute_times_are_sought() -> Result<()> {
    let bed = TestBed::new(&[])?;
    let mut playback = Playback::set_up(bed.server.rtsp, "cam")?;
    let answer = playback.play(Some("clock=20261123T100003.5Z-20261123T100010Z"))?;
    let range = answer.header("range").context("no Range")?.to_owned();
    ensure!(range.starts_with("clock=20261123T10000") && range.ends_with("-20261123T100010Z"), "{range}");
    let received = playback.receiver.to_the_end(Deadline::seconds(30.0))?;
    ensure!(received.gaps().is_empty(), "{:?}", received.gaps());
    ensure_times(&received, 45_000)?;
    let all = bed.all();
    // Recordings of one test picture have equal parts.
    let first = all.windows(received.payload.len()).position(|bytes| received.payload == bytes);
    let first = first.context("the bytes are in no recording")?;
    let [one, two, three] = bed.recordings.each_ref().map(Vec::len);
    ensure!((one..one + two).contains(&first), "it began at byte {first}");
    let end = first + received.payload.len();
    ensure!((one + two + three / 5..one + two + three).contains(&end), "it ended at byte {end}");

    // The end is where it was, and the rest follows.
    playback.play(Some("npt=now-"))?;
    let rest = all.len() - first;
    let received = playback
        .receiver
        .wait_for("the rest", Deadline::seconds(30.0), |received| received.payload.len() >= rest)?;
    ensure_bytes(&received, &all[first..])?;

    // A time in a gap is that of the next recording.
    let answer = playback.play(Some("clock=20261123T100007Z-"))?;
    let range = answer.header("range").context("no Range")?;
    ensure!(range == "clock=20261123T100009Z-", "{range}");
    Ok(())
}

fn a_pause_at_a_joint_loses_nothing() -> Result<()> {
    let bed = TestBed::new(&[])?;
    let mut playback = Playback::set_up(bed.server.rtsp, "cam")?;
    playback.play(None)?;
    let joint = bed.recordings[0].len();
    for before in [joint - 200_000, joint + 100_000] {
        let what = "packets around the joint";
        playback
            .receiver
            .wait_for(what, Deadline::seconds(20.0), |received| received.payload.len() > before)?;
        playback.pause()?;
        playback.play(None)?;
    }
    let received = playback.receiver.to_the_end(Deadline::seconds(30.0))?;
    ensure_bytes(&received, &bed.all())
}

fn a_movie_goes_on_over_a_joint() -> Result<()> {
    let clip = clips::mp4(2)?;
    let folder = folder(&[("2026-11-23T10-00-00.mp4", clip.clone()), ("2026-11-23T10-00-02.mp4", clip)])?;
    let server = serve(&folder, &[])?;
    let mut movie = Movie::set_up(server.rtsp, "cam")?;
    movie.play(None)?;
    let tracks = movie.to_the_end(Deadline::seconds(30.0))?;
    for (received, clock) in tracks.iter().zip(&movie.clocks) {
        ensure!(received.gaps().is_empty(), "{:?}", received.gaps());
        let (half, rest) = received.payload.split_at(received.payload.len() / 2);
        ensure!(half == rest, "the second recording differs from the first");
        let ends = received.packets.first().zip(received.packets.last()).context("no packets")?;
        let seconds = f64::from(ends.1.timestamp.wrapping_sub(ends.0.timestamp)) / clock;
        ensure!((3.8..4.2).contains(&seconds), "timestamps go by {seconds} s");
    }
    Ok(())
}

/// The description of the archive.
fn description(server: &Server) -> Result<String> {
    let accept = [("Accept", "application/sdp")];
    let answer = Client::connect(server.rtsp)?.succeed("DESCRIBE", &server.rtsp_url("cam"), &accept)?;
    String::from_utf8(answer.body).context("SDP")
}

/// Number of a recording in a listing.
fn number(page: &Json, index: usize, name: &str) -> Result<f64> {
    page["recordings"][index][name].as_f64().with_context(|| format!("no {name} of {index}: {page}"))
}

/// Promise: An archive of fragmented MP4 or of Matroska files without a duration has a range and lists
/// durations.
fn recordings_without_a_duration_have_a_length() -> Result<()> {
    for (extension, clip) in [("mp4", clips::fragmented(3)?), ("mkv", clips::live_matroska(3)?)] {
        let names = ["10-00-00", "10-00-09"].map(|time| format!("2026-11-23T{time}.{extension}"));
        let folder = folder(&names.each_ref().map(|name| (name.as_str(), clip.clone())))?;
        let server = serve(&folder, &[])?;
        let description = description(&server)?;
        ensure!(description.contains("a=range:npt=0.000-12."), "{description}");
        ensure!(description.contains("a=range:clock=20261123T100000Z-20261123T100012"), "{description}");
        let page = json(&server, "/cam/?recordings")?;
        for index in 0..2 {
            ensure!((2.9..3.2).contains(&number(&page, index, "duration_s")?), "{page}");
        }
        ensure!((5.8..6.1).contains(&number(&page, 0, "gap_s")?), "{page}");
    }
    Ok(())
}

/// Promise: An archive whose end is not known has a range with an open end, until its last recording was
/// prepared.
fn an_archive_of_unknown_length_has_an_open_end() -> Result<()> {
    let clip = clips::fragmented(3)?;
    let folder = folder(&[("2026-11-23T10-00-00.mp4", clip.clone())])?;
    // Fragments without times.
    let mut bytes = fs::read(&clip)?;
    for at in 0..bytes.len() - 4 {
        if bytes[at..].starts_with(b"tfdt") {
            bytes[at..at + 4].copy_from_slice(b"free");
        }
        if bytes[at..].starts_with(b"mfra") {
            bytes[at..at + 4].copy_from_slice(b"free");
        }
    }
    let recording = folder.path().join("cam/2026-11-23T10-00-00.mp4");
    fs::write(&recording, bytes)?;
    fs::File::open(&recording)?.set_modified(fs::metadata(&clip)?.modified()?)?;
    let server = serve(&folder, &[])?;
    let description = description(&server)?;
    ensure!(description.contains("a=range:npt=0.000-\r\n"), "{description}");
    ensure!(description.contains("a=range:clock=20261123T100000Z-\r\n"), "{description}");
    // The description began to prepare the recording.
    Deadline::seconds(30.0).wait_for("a duration", || {
        let page = json(&server, "/cam/?recordings")?;
        Ok(number(&page, 0, "duration_s").ok().filter(|seconds| (2.9..3.2).contains(seconds)))
    })?;
    Ok(())
}

/// Promise: Recordings whose first sample is late in the file follow each other at once, and are sought by
/// the clock.
fn recordings_that_begin_late_follow_at_once() -> Result<()> {
    for extension in ["mp4", "mkv"] {
        let clip = clips::late(2, extension)?;
        let names = ["10-00-00", "10-00-02"].map(|time| format!("2026-11-23T{time}.{extension}"));
        let folder = folder(&names.each_ref().map(|name| (name.as_str(), clip.clone())))?;
        let server = serve(&folder, &[])?;
        let mut movie = Movie::set_up(server.rtsp, "cam")?;
        movie.play(None)?;
        let tracks = movie.to_the_end(Deadline::seconds(20.0))?;
        for (received, clock) in tracks.iter().zip(&movie.clocks) {
            ensure!(received.gaps().is_empty(), "{:?}", received.gaps());
            let ends = received.packets.first().zip(received.packets.last()).context("no packets")?;
            let seconds = f64::from(ends.1.timestamp.wrapping_sub(ends.0.timestamp)) / clock;
            ensure!((3.8..4.2).contains(&seconds), "timestamps go by {seconds} s");
        }
        let headers = [("Session", movie.session.as_str()), ("Range", "clock=20261123T100003Z-")];
        let answer = movie.client.succeed("PLAY", &movie.url, &headers)?;
        let range = answer.header("range").context("no Range")?;
        ensure!(range.starts_with("clock=20261123T10000"), "{range}");
        ensure!(!range.starts_with("clock=20261123T100000"), "{range}");
        let page = json(&server, "/cam/?recordings")?;
        ensure!((1.9..2.2).contains(&number(&page, 0, "duration_s")?), "{page}");
    }
    Ok(())
}

/// Promise: A recording that is removed while its archive plays is skipped.
fn a_recording_that_vanishes_is_skipped() -> Result<()> {
    let bed = TestBed::new(&[])?;
    let mut playback = Playback::set_up(bed.server.rtsp, "cam")?;
    // The one behind the first is opened already.
    fs::remove_file(bed.folder.path().join("cam/2026-11-23T10-00-09.ts"))?;
    playback.play(None)?;
    let received = playback.receiver.to_the_end(Deadline::seconds(30.0))?;
    ensure_bytes(&received, &bed.recordings[..2].concat())
}

fn a_recording_of_other_tracks_is_left_out() -> Result<()> {
    let (stream, movie) = (clips::constant(2)?, clips::mp4(2)?);
    let folder = folder(&[
        ("2026-11-23T10-00-00.ts", stream.clone()),
        ("2026-11-23T10-00-02.mp4", movie),
        ("2026-11-23T10-00-04.ts", stream.clone()),
    ])?;
    let server = serve(&folder, &[])?;
    let mut playback = Playback::set_up(server.rtsp, "cam")?;
    playback.play(None)?;
    let received = playback.receiver.to_the_end(Deadline::seconds(30.0))?;
    ensure_bytes(&received, &fs::read(&stream)?.repeat(2))?;
    let left_out = server.status()?["archives"][0]["left_out"].to_string();
    ensure!(
        left_out.contains("10-00-02.mp4") && left_out.contains("tracks differ: expected MP2T"),
        "{left_out}"
    );
    Ok(())
}

/// Promise: After a change of a camera's picture size or profile, its archive plays recordings of both.
fn ffmpeg_plays_recordings_of_different_encodes() -> Result<()> {
    let [large, small] = clips::different_encodes(3, "libx264", "mp4")?;
    let folder = folder(&[("2026-11-23T10-00-00.mp4", large), ("2026-11-23T10-00-03.mp4", small)])?;
    let server = serve(&folder, &[])?;
    for transport in ["udp", "tcp"] {
        let sizes = frames::sizes(&["-rtsp_transport", transport], &server.rtsp_url("cam"), None, 60.0)?;
        ensure!(sizes == [(640, 360, 75), (320, 180, 75)], "{sizes:?} over {transport}");
    }
    let left_out = server.status()?["archives"][0]["left_out"].as_array().map(Vec::len);
    ensure!(left_out == Some(0), "{left_out:?} are left out");
    Ok(())
}

/// Promise: `?demux=1` plays an archive by tracks: transport streams and movies of the same codecs follow each other.
fn ffmpeg_plays_recordings_by_their_tracks() -> Result<()> {
    let [large, small] = clips::different_encodes(3, "libx264", "ts")?;
    let [movie, _] = clips::different_encodes(3, "libx264", "mp4")?;
    let folder = folder(&[
        ("2026-11-23T10-00-00.ts", small),
        ("2026-11-23T10-00-03.mp4", movie),
        ("2026-11-23T10-00-06.ts", large),
    ])?;
    let server = serve(&folder, &[])?;
    let url = server.rtsp_url("cam") + "?demux=1";
    for transport in ["udp", "tcp"] {
        let sizes = frames::sizes(&["-rtsp_transport", transport], &url, None, 60.0)?;
        ensure!(sizes == [(320, 180, 75), (640, 360, 150)], "{sizes:?} over {transport}");
    }
    let archive = server.status()?["archives"][0].clone();
    ensure!(archive["left_out_by_tracks"].as_array().is_some_and(Vec::is_empty), "{archive}");
    ensure!(description(&server)?.contains("MP2T"), "transport streams play as they are stored otherwise");
    Ok(())
}

/// Promise: After a change of a camera's codec, its archive plays the recordings with the new one.
fn the_newest_recording_tells_the_tracks() -> Result<()> {
    let (stream, movie) = (clips::constant(2)?, clips::mp4(2)?);
    let folder = folder(&[
        ("2026-11-23T10-00-00.ts", stream.clone()),
        ("2026-11-23T10-00-02.ts", stream),
        ("2026-11-23T10-00-04.mp4", movie.clone()),
        ("2026-11-23T10-00-06.mp4", movie),
    ])?;
    let server = serve(&folder, &[])?;
    let description = description(&server)?;
    ensure!(description.contains("a=range:clock=20261123T100004Z-20261123T100008"), "{description}");
    let mut movie = Movie::set_up(server.rtsp, "cam")?;
    movie.play(None)?;
    let tracks = movie.to_the_end(Deadline::seconds(30.0))?;
    for received in &tracks {
        let (half, rest) = received.payload.split_at(received.payload.len() / 2);
        ensure!(!half.is_empty() && half == rest, "the second recording differs from the first");
    }
    let left_out = server.status()?["archives"][0]["left_out"].to_string();
    ensure!(left_out.contains("10-00-00.ts") && left_out.contains("newest"), "{left_out}");
    Ok(())
}

/// Promise: Movies of an archive that are larger than the whole cache are left out, at its beginning and between others.
fn movies_larger_than_the_cache_are_left_out() -> Result<()> {
    let (small, large) = (clips::mp4(2)?, clips::mp4(20)?);
    let length = fs::metadata(&large)?.len();
    ensure!(fs::metadata(&small)?.len() * 4 < length, "two small movies do not fit");
    let folder = folder(&[
        ("2026-11-23T10-00-00.mp4", large.clone()),
        ("2026-11-23T10-00-20.mp4", small.clone()),
        ("2026-11-23T10-00-22.mp4", large),
        ("2026-11-23T10-00-42.mp4", small),
    ])?;
    let server = serve(&folder, &["--cache-size", &length.to_string()])?;
    let mut movie = Movie::set_up(server.rtsp, "cam")?;
    movie.play(None)?;
    // Two recordings of 2 s, without a wait for the one between them.
    let tracks = movie.to_the_end(Deadline::seconds(11.0))?;
    for received in &tracks {
        let (half, rest) = received.payload.split_at(received.payload.len() / 2);
        ensure!(!half.is_empty() && half == rest, "the second recording differs from the first");
    }
    let left_out = server.status()?["archives"][0]["left_out"].to_string();
    for name in ["10-00-00.mp4", "10-00-22.mp4"] {
        ensure!(left_out.contains(name) && left_out.contains("raise --cache-size"), "{left_out}");
    }
    Ok(())
}

/// Promise: An archive plays from its first recording that can be played, however many before it cannot.
fn many_bad_recordings_do_not_hide_the_good_ones() -> Result<()> {
    let clip = clips::constant(2)?;
    let folder = folder(&[("2026-11-23T12-00-00.ts", clip.clone())])?;
    for minute in 0..100 {
        let name = format!("2026-11-23T{}-{:02}-00.ts", 10 + minute / 60, minute % 60);
        fs::write(folder.path().join("cam").join(name), "no transport stream")?;
    }
    let server = serve(&folder, &[])?;
    let description = description(&server)?;
    ensure!(description.contains("a=range:clock=20261123T120000Z-20261123T120002"), "{description}");
    let mut playback = Playback::set_up(server.rtsp, "cam")?;
    playback.play(None)?;
    let received = playback.receiver.to_the_end(Deadline::seconds(30.0))?;
    ensure_bytes(&received, &fs::read(&clip)?)
}

/// Promise: An archive whose only recording is written and cannot be followed gets 503 with the reason, and plays later.
fn an_archive_whose_only_recording_is_being_written_says_so() -> Result<()> {
    let clip = clips::live_matroska(2)?;
    let folder = folder(&[("2026-11-23T10-00-00.mkv", clip.clone())])?;
    let recording = fs::File::open(folder.path().join("cam/2026-11-23T10-00-00.mkv"))?;
    recording.set_modified(std::time::SystemTime::now())?;
    let server = serve(&folder, &[])?;
    let accept = [("Accept", "application/sdp")];
    let answer = Client::connect(server.rtsp)?.request("DESCRIBE", &server.rtsp_url("cam"), &accept)?;
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    ensure!(answer.status == 503 && body.contains("still being written"), "{answer:?}: {body}");
    recording.set_modified(fs::metadata(&clip)?.modified()?)?;
    description(&server).map(drop)
}

fn what_an_archive_cannot_do_is_refused() -> Result<()> {
    let bed = TestBed::new(&[])?;
    let mut playback = Playback::set_up(bed.server.rtsp, "cam")?;
    let mut status = |range: &str| -> Result<u16> {
        let headers = [("Session", playback.session.clone()), ("Range", range.to_owned())];
        let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
        Ok(playback.client.request("PLAY", &playback.url, &headers)?.status)
    };
    ensure!(status("clock=20261124T000000Z-")? == 457, "a time behind the end");
    ensure!(status("clock=20261123T100006Z-20261123T100007Z")? == 457, "a range in a gap");
    ensure!(status("clock=noon-")? == 400, "no time");
    fs::create_dir(bed.folder.path().join("cam/track1"))?;
    let track =
        Client::connect(bed.server.rtsp)?.request("DESCRIBE", &bed.server.rtsp_url("cam/track1"), &[])?;
    ensure!(track.status == 460, "a track, though a folder has its name: {}", track.status);
    let mut file = Playback::set_up(bed.server.rtsp, "cam/2026-11-23T10-00-00.ts")?;
    let headers = [("Session", file.session.as_str()), ("Range", "clock=20261123T100000Z-")];
    ensure!(file.client.request("PLAY", &file.url, &headers)?.status == 501, "a file has no absolute times");
    Ok(())
}

/// Promise: Without `Require: onvif-replay`, `Rate-Control` is answered by what is done, and packets have no
/// extension.
fn a_session_without_replay_is_controlled() -> Result<()> {
    let bed = TestBed::new(&[])?;
    let mut playback = Playback::set_up(bed.server.rtsp, "cam")?;
    let url = playback.url.clone();
    let session = playback.session.clone();
    let range = ("Range", "clock=20261123T100000Z-");
    let fields = [("Session", session.as_str()), range, ("Rate-Control", "no"), ("Immediate", "yes")];
    let answer = playback.client.succeed("PLAY", &url, &fields)?;
    ensure!(answer.header("rate-control") == Some("yes"), "{answer:?}");
    ensure!(
        answer.header("range").is_some_and(|range| range.starts_with("clock=20261123T100000Z-")),
        "{answer:?}"
    );
    let some = |received: &Received| received.packets.len() > 100;
    let received = playback.receiver.wait_for("hundred packets", Deadline::seconds(10.0), some)?;
    ensure!(received.packets.iter().all(|packet| packet.extension.is_none()), "a packet has an extension");
    Ok(())
}

/// The answer to GET of a path, which is JSON.
fn json(server: &Server, path: &str) -> Result<Json> {
    let response = http::get(server.http, path)?;
    ensure!(response.status == 200, "{path} was answered with {response:?}");
    serde_json::from_slice(&response.body).context("JSON")
}

/// Promise: The recordings of an archive are listed as JSON, with durations and gaps, in pages by time.
fn recordings_are_listed_in_pages() -> Result<()> {
    let clip = clips::constant(2)?;
    let folder = folder(&[
        ("2026-11-23T10-00-00.ts", clip.clone()),
        ("2026-11-23T10-00-02.ts", clip.clone()),
        ("2026-11-23T10-00-09.ts", clip),
    ])?;
    let server = serve(&folder, &[])?;
    let page = json(&server, "/cam/?recordings&limit=2")?;
    let recordings = page["recordings"].as_array().context("no recordings")?;
    ensure!(recordings.len() == 2 && page["total"] == 3, "{page}");
    ensure!(recordings[0]["start"] == "2026-11-23T10:00:00Z", "{page}");
    let number = |index: usize, name: &str| recordings[index][name].as_f64().context("no number");
    ensure!((1.9..2.6).contains(&number(0, "duration_s")?), "{page}");
    ensure!((4.0..5.1).contains(&number(1, "gap_s")?), "{page}");
    ensure!(page["next"] == "2026-11-23T10:00:09Z", "{page}");
    let rest = json(&server, "/cam/?recordings&from=2026-11-23T10:00:09Z")?;
    ensure!(rest["recordings"].as_array().is_some_and(|rest| rest.len() == 1), "{rest}");
    ensure!(rest["next"].is_null() && rest["recordings"][0]["gap_s"].is_null(), "{rest}");
    ensure!(http::get(server.http, "/cam/?recordings&from=noon")?.status == 400, "no time");
    let moved = http::get(server.http, "/cam?recordings")?;
    ensure!(moved.status == 301 && moved.header("location") == Some("cam/?recordings"), "{moved:?}");
    ensure!(
        json(&server, "/cam/?recordings&to=1999-01-01T00:00:00Z")?["recordings"] == Json::Array(Vec::new()),
        ""
    );
    Ok(())
}

/// Promise: A confined server knows its time zone, so that it can parse names with local times.
fn names_have_local_times() -> Result<()> {
    let folder = folder(&[("2026-11-23T10-00-00.ts", clips::constant(2)?)])?;
    let server = Server::of(folder.path())
        .with(["--archive", "cam", "--archive-zone", "local"])
        .under(["env", "TZ=America/New_York"])
        .start()?;
    let page = json(&server, "/cam/?recordings")?;
    ensure!(page["recordings"][0]["start"] == "2026-11-23T15:00:00Z", "{page}");
    Ok(())
}

/// Promise: A local time in a name that comes twice is the first one, and one that is left out has the offset of before.
fn local_times_at_changes_of_the_clock_have_a_rule() -> Result<()> {
    let clip = clips::constant(2)?;
    let names_and_times = [
        ("2026-03-29T01-59-00", "2026-03-29T00:59:00Z"),
        ("2026-03-29T02-30-00", "2026-03-29T01:30:00Z"),
        ("2026-03-29T03-31-00", "2026-03-29T01:31:00Z"),
        ("2026-10-25T01-59-00", "2026-10-24T23:59:00Z"),
        ("2026-10-25T02-30-00", "2026-10-25T00:30:00Z"),
        ("2026-10-25T03-00-00", "2026-10-25T02:00:00Z"),
    ];
    let names = names_and_times.map(|(name, _)| format!("{name}.ts"));
    let folder = folder(&names.each_ref().map(|name| (name.as_str(), clip.clone())))?;
    // The rule of Central Europe, and its history if the machine has that.
    let zones = ["CET-1CEST,M3.5.0,M10.5.0/3", "Europe/Berlin"];
    let has_file = fs::exists("/usr/share/zoneinfo/Europe/Berlin")?;
    for zone in &zones[..1 + usize::from(has_file)] {
        let server = Server::of(folder.path())
            .with(["--archive", "cam", "--archive-zone", "local"])
            .under(["env", &format!("TZ={zone}")])
            .start()?;
        let page = json(&server, "/cam/?recordings")?;
        let recordings = page["recordings"].as_array().context("no recordings")?;
        let starts: Vec<_> = recordings.iter().filter_map(|recording| recording["start"].as_str()).collect();
        ensure!(starts == names_and_times.map(|(_, time)| time), "{zone}: {page}");
    }
    Ok(())
}

/// Promise: A listing of an archive of 100,000 recordings uses their names and opens only the recordings of
/// the page.
fn a_hundred_thousand_names_are_listed() -> Result<()> {
    let clip = clips::constant(2)?;
    let folder = folder(&[("1000000000.ts", clip.clone()), ("1000500000.ts", clip)])?;
    let cam = folder.path().join("cam");
    for number in 0..100_000 {
        fs::File::create(cam.join(format!("{}.ts", 1_000_000_010 + number)))?;
    }
    let server = Server::of(folder.path()).with(["--archive", "cam=%s"]).start()?;
    let page = json(&server, "/cam/?recordings&from=2001-09-09T05:00:00Z&limit=5")?;
    ensure!(page["total"] == 100_002, "{}", page["total"]);
    ensure!(page["recordings"].as_array().is_some_and(|page| page.len() == 5), "{page}");
    let left_out = server.status()?["archives"][0]["left_out"].as_array().map(Vec::len);
    ensure!(left_out == Some(5), "{left_out:?} were examined");
    let mut playback = Playback::set_up(server.rtsp, "cam")?;
    playback.play(Some("clock=20010914T204000Z-"))?;
    let received = playback.receiver.to_the_end(Deadline::seconds(30.0))?;
    ensure_bytes(&received, &fs::read(cam.join("1000500000.ts"))?)
}
