//! Movies: sessions of several tracks, with the clients that people have and with one that looks at packets.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use tempfile::TempDir;
use wirepath_tests::frames::{self, Frame};
use wirepath_tests::http::Response;
use wirepath_tests::interleaved::Interleaved;
use wirepath_tests::loss::unless_overloaded;
use wirepath_tests::movie::{Movie, announced};
use wirepath_tests::rtp::{Packet, Received, SenderReport};
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clients, clips, process, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        ffmpeg_plays_h264_and_aac_over_udp => || unless_overloaded(|| ffmpeg_plays(H264_AAC, "udp")),
        ffmpeg_plays_h264_and_aac_over_tcp => || ffmpeg_plays(H264_AAC, "tcp"),
        ffmpeg_plays_h265_and_opus_over_udp => || unless_overloaded(|| ffmpeg_plays(("libx265", "libopus", "mp4"), "udp")),
        ffmpeg_plays_h265_and_ac3_over_tcp => || ffmpeg_plays(("libx265", "ac3", "mp4"), "tcp"),
        ffmpeg_plays_h264_and_mp3_over_udp => || unless_overloaded(|| ffmpeg_plays(("libx264", "libmp3lame", "mp4"), "udp")),
        ffmpeg_plays_matroska_over_udp => || unless_overloaded(|| ffmpeg_plays(MATROSKA, "udp")),
        ffmpeg_plays_matroska_over_tcp => || ffmpeg_plays(MATROSKA, "tcp"),
        ffmpeg_plays_webm_over_udp => || unless_overloaded(|| ffmpeg_plays(WEBM, "udp")),
        ffmpeg_plays_webm_over_tcp => || ffmpeg_plays(WEBM, "tcp"),
        ffmpeg_plays_l16_of_matroska_over_udp => || unless_overloaded(|| ffmpeg_plays_pcm("pcm_s16be", "mkv", "udp")),
        ffmpeg_plays_l16_of_matroska_over_tcp => || ffmpeg_plays_pcm("pcm_s16be", "mkv", "tcp"),
        ffmpeg_plays_little_endian_pcm_of_matroska_over_tcp => || ffmpeg_plays_pcm("pcm_s16le", "mkv", "tcp"),
        ffmpeg_plays_little_endian_pcm_of_quicktime_over_udp => || unless_overloaded(|| ffmpeg_plays_pcm("pcm_s16le", "mov", "udp")),
        ffmpeg_plays_mu_law_of_quicktime_over_udp => || unless_overloaded(|| ffmpeg_plays_pcm("pcm_mulaw", "mov", "udp")),
        ffmpeg_seeks_in_a_movie_over_udp => || unless_overloaded(|| ffmpeg_seeks(H264_AAC, "udp")),
        ffmpeg_seeks_in_a_movie_over_tcp => || ffmpeg_seeks(H264_AAC, "tcp"),
        ffmpeg_seeks_in_matroska_over_udp => || unless_overloaded(|| ffmpeg_seeks(MATROSKA, "udp")),
        ffmpeg_seeks_in_webm_over_tcp => || ffmpeg_seeks(WEBM, "tcp"),
        gstreamer_plays_a_movie_over_udp => || unless_overloaded(|| gstreamer_plays("udp")),
        gstreamer_plays_a_movie_over_tcp => || gstreamer_plays("tcp"),
        vlc_plays_a_movie,
        a_range_of_a_movie_ends_in_all_tracks,
        a_movie_pauses_and_resumes_in_all_tracks,
        each_pause_ends_with_a_whole_picture => || unless_overloaded(each_pause_ends_with_a_whole_picture),
        each_pause_over_tcp_ends_with_a_whole_picture,
        numbers_of_all_tracks_go_on_after_a_seek,
        tracks_are_in_step_by_their_reports,
    ]
}

const SECONDS: u32 = 6;

/// Encoders of picture and sound, and the extension of the container.
type Codecs = (&'static str, &'static str, &'static str);

const H264_AAC: Codecs = ("libx264", "aac", "mp4");
const MATROSKA: Codecs = ("libx264", "aac", "mkv");
const WEBM: Codecs = ("libvpx-vp9", "libopus", "webm");

/// A film and a server of it.
struct Serving {
    server: Server,
    clip: PathBuf,
    name: String,
    _folder: TempDir,
}

impl Serving {
    fn of((video, audio, extension): Codecs) -> Result<Self> {
        let clip = clips::film(SECONDS, video, audio, extension)?;
        let name = format!("film.{extension}");
        let folder = clips::folder(&[(&name, &clip)])?;
        Ok(Self { server: Server::of(folder.path()).start()?, clip, name, _folder: folder })
    }

    fn url(&self) -> String {
        self.server.rtsp_url(&self.name)
    }

    fn path(&self) -> Result<&str> {
        self.clip.to_str().context("a clip's name")
    }

    /// Frames of the file itself, with those that its edit list hides, since they are sent.
    fn stored(&self) -> Result<Vec<Vec<Frame>>> {
        let has_edits = self.name.ends_with(".mp4") || self.name.ends_with(".mov");
        let options: &[&str] = if has_edits { &["-ignore_editlist", "1"] } else { &[] };
        frames::decode(options, self.path()?, 60.0)
    }
}

/// Promise: ffmpeg plays all tracks of MP4, Matroska and WebM files; pictures and sound are right and in
/// sync.
fn ffmpeg_plays(codecs: Codecs, transport: &str) -> Result<()> {
    let serving = Serving::of(codecs)?;
    let came = frames::decode(&["-rtsp_transport", transport], &serving.url(), 40.0)?;
    let stored = serving.stored()?;
    ensure!((came.len(), stored.len()) == (2, 2), "{} of {} tracks came", came.len(), stored.len());
    frames::ensure_all(&came[0], &stored[0], 1)?;
    // Of a file, a decoder of Opus leaves the first samples out (RFC 7845 section 4.2); of WebM the last, too
    // (DiscardPadding, RFC 9559 section 5.1.3.5.7).
    let padded = usize::from(serving.name.ends_with(".webm"));
    let sound = &came[1][..came[1].len() - padded];
    let first = frames::ensure_from(sound, &stored[1], 1, 1 + padded)?;
    ensure!(first == 1, "sound begins at frame {first}");
    // By its edit list a file has its picture and sound in step.
    let listed = frames::decode(&[], serving.path()?, 60.0)?;
    ensure_in_step(&[&came[0], &came[1]], &[&listed[0], &listed[1]])
}

/// Ensures that picture and sound that came are as far apart as those stored. The first frames may differ.
fn ensure_in_step(came: &[&[Frame]; 2], stored: &[&[Frame]; 2]) -> Result<()> {
    let late = |track: usize| {
        let (came, stored) = (came[track], stored[track]);
        let at = |frame: &Frame| stored.iter().position(|stored| stored.hash == frame.hash);
        let equal = came.iter().enumerate().skip(2).find_map(|(index, frame)| Some((index, at(frame)?)));
        let (index, at) = equal.with_context(|| format!("no frame of track {track} is a stored one"))?;
        Ok::<f64, anyhow::Error>(frames::shift(&came[index..], &stored[at..]))
    };
    let apart = late(0)? - late(1)?;
    ensure!(apart.abs() < 0.005, "picture and sound are {apart} s apart");
    Ok(())
}

/// Promise: ffmpeg plays G.711 and linear PCM of MP4 and Matroska files, sample for sample.
fn ffmpeg_plays_pcm(audio: &'static str, extension: &'static str, transport: &str) -> Result<()> {
    let serving = Serving::of(("libx264", audio, extension))?;
    let came = frames::sound(&["-rtsp_transport", transport], &serving.url(), 40.0)?;
    let stored = frames::sound(&[], serving.path()?, 40.0)?;
    // Packets divide sound otherwise than the file, and the last one may be missing.
    let missing = stored.len() as f64 - came.len() as f64;
    let missing_s = missing / f64::from(48_000 * 2 * 2);
    ensure!((0.0..0.1).contains(&missing_s), "{missing_s} s of sound are missing");
    ensure!(stored.starts_with(&came), "other sound than that of the file");
    Ok(())
}

/// Promise: ffmpeg seeks in MP4, Matroska and WebM files; pictures and sound are in sync after the seek.
///
/// Frames of sound are compared as they are: decoders need those before, and AAC has noise of the decoder's.
fn ffmpeg_seeks(codecs: Codecs, transport: &str) -> Result<()> {
    let serving = Serving::of(codecs)?;
    let options = ["-rtsp_transport", transport, "-ss", "3"];
    let came = frames::decode(&options, &serving.url(), 40.0)?;
    let stored = serving.stored()?;
    let first = frames::ensure_from(&came[0], &stored[0], 0, 1)?;
    ensure!((50..=80).contains(&first), "playing began at picture {first}");
    let sound = frames::sound_frames(&options, &serving.url(), 40.0)?;
    let stored = frames::sound_frames(&[], serving.path()?, 60.0)?;
    let first = frames::ensure_from(&sound, &stored, 0, 1)?;
    ensure!((90..=180).contains(&first), "playing began at frame {first} of {}", stored.len());
    let listed = frames::decode(&[], serving.path()?, 60.0)?;
    ensure_in_step(&[&came[0], &sound], &[&listed[0], &stored])
}

/// Promise: GStreamer plays all tracks of an MP4 file.
fn gstreamer_plays(protocol: &str) -> Result<()> {
    let serving = Serving::of(H264_AAC)?;
    let home = process::open_folder()?;
    let (video, audio) = (home.path().join("video.h264"), home.path().join("audio.aac"));
    clients::gstreamer_movie(protocol, &serving.url(), &video, &audio, 40.0)?;
    let stored = serving.stored()?;
    for (file, stored) in [(video, &stored[0]), (audio, &stored[1])] {
        let came = frames::decode(&[], file.to_str().context("a file's name")?, 60.0)?;
        // The last frame may be cut.
        let (_, whole) = came[0].split_last().context("no frame")?;
        let missing = 2 + frames::within_last(stored, clients::GSTREAMER_LATENCY_S);
        frames::ensure_all(whole, stored, missing).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// VLC built with live555 plays an MP4 file. VLC of Debian and Ubuntu is built without it: no promise.
fn vlc_plays_a_movie() -> Result<()> {
    require!(process::find("cvlc").is_some(), "cvlc is not installed");
    let plugins = process::run("cvlc", ["--list"], 30.0).unwrap_or_default();
    require!(
        plugins.contains("live555"),
        "VLC is built without live555 here: it plays transport streams only"
    );
    let serving = Serving::of(H264_AAC)?;
    let home = process::open_folder()?;
    let output = home.path().join("out.ts");
    clients::vlc(&serving.url(), home.path(), &output, 60.0)?;
    let came = frames::decode(&[], output.to_str().context("a file's name")?, 60.0)?;
    frames::ensure_from(&came[0], &serving.stored()?[0], 0, 2).map(drop)
}

/// Media time of the packets that came, in seconds since the start that was announced.
fn times(received: &Received, start: u32, clock: f64) -> Vec<f64> {
    let packets = received.packets.iter();
    packets.map(|packet| f64::from(packet.timestamp.wrapping_sub(start) as i32) / clock).collect()
}

/// Promise: A range with an end ends there in all tracks.
fn a_range_of_a_movie_ends_in_all_tracks() -> Result<()> {
    let serving = Serving::of(H264_AAC)?;
    let mut movie = Movie::set_up(serving.server.rtsp, &serving.name)?;
    let announced = movie.play(Some("npt=2-4"))?;
    let received = movie.to_the_end(Deadline::seconds(20.0))?;
    ensure!((announced.len(), received.len()) == (2, 2), "not two tracks: {announced:?}");
    for (index, received) in received.iter().enumerate() {
        ensure!(received.gaps().is_empty() && received.errors.is_empty(), "{:?}", received.gaps());
        let (sequence, timestamp) = announced[index];
        let first = received.packets[0].sequence;
        ensure!(sequence.is_none_or(|sequence| sequence == first), "track {index} began with another packet");
        let times = times(received, timestamp, movie.clocks[index]);
        let (first, last) = (times[0], times.iter().fold(0.0, |last: f64, time| last.max(*time)));
        ensure!(
            (-0.1..0.2).contains(&first) && (1.8..2.3).contains(&last),
            "track {index}: {first} to {last}"
        );
    }
    Ok(())
}

/// Promise: PAUSE stops all tracks, and PLAY continues each from its position.
fn a_movie_pauses_and_resumes_in_all_tracks() -> Result<()> {
    let serving = Serving::of(H264_AAC)?;
    let mut movie = Movie::set_up(serving.server.rtsp, &serving.name)?;
    movie.play(None)?;
    for track in &movie.tracks {
        track.wait_for("a second of media", Deadline::seconds(10.0), |received| received.seconds() > 1.0)?;
    }
    movie.pause()?;
    for track in &movie.tracks {
        ensure!(track.falls_silent_within(2.0), "packets come after PAUSE");
    }
    let before: Vec<usize> = movie.tracks.iter().map(|track| track.received().packets.len()).collect();
    let announced = movie.play(None)?;
    let received = movie.to_the_end(Deadline::seconds(20.0))?;
    for (index, received) in received.iter().enumerate() {
        ensure!(received.gaps().is_empty() && received.errors.is_empty(), "{:?}", received.gaps());
        let next = received.packets.get(before[index]).context("nothing came after the pause")?;
        ensure!(announced[index].0 == Some(next.sequence), "track {index} went on with another packet");
    }
    Ok(())
}

/// Times of media between two pauses: all phases of a picture of 40 ms. Sleeping sets the phase that is tested, and
/// waits for no event.
fn moments() -> impl Iterator<Item = Duration> {
    (0..25).map(|moment| Duration::from_millis(30 + moment * 11 % 40))
}

/// Start of the range in an answer.
fn start(answer: &Response) -> Result<&str> {
    let range = answer.header("range").and_then(|range| range.strip_prefix("npt="));
    range.and_then(|range| range.split('-').next()).context("no Range")
}

/// Returns whether a session on a busy machine has come near the end of the film, where PLAY would begin
/// anew.
fn is_near_end(played: &Response) -> Result<bool> {
    Ok(start(played)?.parse::<f64>()? > f64::from(SECONDS) - 2.0)
}

/// Promise: PAUSE of a movie ends with a whole picture in all tracks; PLAY continues with the next, without a
/// loss.
fn each_pause_ends_with_a_whole_picture() -> Result<()> {
    let serving = Serving::of(H264_AAC)?;
    let mut movie = Movie::set_up(serving.server.rtsp, &serving.name)?;
    movie.play(None)?;
    let mut resumed = Vec::new();
    for moment in moments() {
        std::thread::sleep(moment);
        let (paused, played) = (movie.pause()?, movie.request_play(None)?);
        ensure!(start(&paused)? == start(&played)?, "{paused:?}, then {played:?}");
        resumed.push(announced(&played)?);
        if is_near_end(&played)? {
            break;
        }
    }
    let received = movie.to_the_end(Deadline::seconds(20.0))?;
    for (index, received) in received.iter().enumerate() {
        ensure!(received.gaps().is_empty() && received.errors.is_empty(), "{:?}", received.gaps());
        for (pause, resumed) in resumed.iter().enumerate() {
            let first = resumed[index].0.context("no sequence number")?;
            let next = received.packets.iter().position(|packet| packet.sequence == first);
            let next = next.context("the announced packet did not come")?;
            // Before that may be nothing yet.
            let last = next.checked_sub(1).map(|last| &received.packets[last]);
            let is_whole = last.is_none_or(|last| last.marker);
            ensure!(is_whole, "track {index}: pause {pause} ends with {last:?}, before packet {first}");
        }
    }
    let pictures = received[0].packets.iter().filter(|packet| packet.marker).count();
    ensure!(pictures == 25 * SECONDS as usize, "{pictures} pictures came");
    Ok(())
}

/// Promise: PAUSE of a movie over TCP ends with a whole picture, too, before its response.
fn each_pause_over_tcp_ends_with_a_whole_picture() -> Result<()> {
    let serving = Serving::of(H264_AAC)?;
    let mut playback = Interleaved::set_up(serving.server.rtsp, &serving.name, None)?;
    playback.play(None)?;
    for moment in moments() {
        std::thread::sleep(moment);
        let paused = playback.succeed("PAUSE", &[])?;
        let last = playback.received.packets.last().context("nothing came")?;
        ensure!(last.marker, "it pauses inside a picture: {last:?}");
        let played = playback.play(None)?;
        ensure!(start(&paused)? == start(&played)?, "{paused:?}, then {played:?}");
        if is_near_end(&played)? {
            break;
        }
    }
    playback.to_the_end(Deadline::seconds(20.0))?;
    let received = &playback.received;
    ensure!(received.gaps().is_empty() && received.errors.is_empty(), "{:?}", received.gaps());
    let pictures = received.packets.iter().filter(|packet| packet.marker).count();
    ensure!(pictures == 25 * SECONDS as usize, "{pictures} pictures came");
    Ok(())
}

/// Promise: After a seek in a movie, the sequence numbers of all tracks continue.
fn numbers_of_all_tracks_go_on_after_a_seek() -> Result<()> {
    let serving = Serving::of(H264_AAC)?;
    let mut movie = Movie::set_up(serving.server.rtsp, &serving.name)?;
    movie.play(Some("npt=0-"))?;
    for track in &movie.tracks {
        track.wait_for("a second of media", Deadline::seconds(10.0), |received| received.seconds() > 1.0)?;
    }
    let announced = movie.play(Some("npt=4-"))?;
    let received = movie.to_the_end(Deadline::seconds(20.0))?;
    for (index, received) in received.iter().enumerate() {
        ensure!(received.gaps().is_empty() && received.errors.is_empty(), "{:?}", received.gaps());
        let place = received.packets.iter().position(|packet| announced[index].0 == Some(packet.sequence));
        let place = place.context("the announced packet did not come")?;
        let since = received.packets[place].timestamp.wrapping_sub(announced[index].1) as i32;
        let since = f64::from(since) / movie.clocks[index];
        ensure!((-0.1..0.2).contains(&since), "track {index} began {since} s after the announced time");
    }
    Ok(())
}

/// Time in seconds by which a packet came before its timestamp, by the clock of a report: little, since it leaves
/// with its burst, and pictures before they are shown.
fn lead(packet: &Packet, report: &SenderReport, clock: f64) -> f64 {
    let ticks = packet.timestamp.wrapping_sub(report.timestamp) as i32;
    let after = packet.arrival.saturating_duration_since(report.arrival).as_secs_f64();
    let before = report.arrival.saturating_duration_since(packet.arrival).as_secs_f64();
    f64::from(ticks) / clock - (after - before)
}

/// Promise: Sender reports of all tracks of a session are for the same time, at which their packets leave.
fn tracks_are_in_step_by_their_reports() -> Result<()> {
    let serving = Serving::of(H264_AAC)?;
    let mut movie = Movie::set_up(serving.server.rtsp, &serving.name)?;
    let announced = movie.play(None)?;
    let mut moments = Vec::new();
    movie.tracks.iter().try_for_each(|track| {
        track
            .wait_for("a second of media", Deadline::seconds(10.0), |received| received.seconds() > 1.0)
            .map(drop)
    })?;
    for (index, track) in movie.tracks.iter().enumerate() {
        let received = track
            .wait_for("a sender report", Deadline::seconds(10.0), |received| !received.reports.is_empty())?;
        let report = received.reports[0];
        let leads = received.packets.iter().map(|packet| lead(packet, &report, movie.clocks[index]));
        let mut leads: Vec<f64> = leads.collect();
        leads.sort_by(f64::total_cmp);
        let lead = leads[leads.len() / 2];
        ensure!(lead.abs() < 0.25, "track {index} leaves {lead} s before its time by the report");
        let since = report.timestamp.wrapping_sub(announced[index].1) as i32;
        moments.push((report.ntp, f64::from(since) / movie.clocks[index]));
    }
    let [video, audio] = moments[..] else { anyhow::bail!("{} tracks", moments.len()) };
    ensure!(video.0 == audio.0 && (video.1 - audio.1).abs() < 0.001, "{video:?} and {audio:?}");
    Ok(())
}
