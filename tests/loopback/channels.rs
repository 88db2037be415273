//! Channels: playlists that play as one endless stream over RTSP, in which all viewers are at the same place.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use tempfile::TempDir;
use wirepath_tests::interleaved::{Came, Interleaved};
use wirepath_tests::loss::unless_overloaded;
use wirepath_tests::movie::Movie;
use wirepath_tests::playback::Playback;
use wirepath_tests::process::{self, Process, find};
use wirepath_tests::rtp::Received;
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, frames, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_channel_is_one_stream_over_joints_and_loops,
        a_channel_plays_over_tcp,
        a_movie_channel_goes_on_over_its_joint,
        a_late_movie_goes_on_over_its_joint,
        ffmpeg_plays_different_encodes_of_h264_over_udp => || {
            unless_overloaded(|| ffmpeg_plays_different_encodes("libx264", "udp"))
        },
        ffmpeg_plays_different_encodes_of_h264_over_tcp => || ffmpeg_plays_different_encodes("libx264", "tcp"),
        ffmpeg_plays_different_encodes_of_h265_over_tcp => || ffmpeg_plays_different_encodes("libx265", "tcp"),
        gstreamer_receives_different_encodes,
        transport_streams_and_movies_play_by_tracks_over_udp => || {
            unless_overloaded(|| a_list_plays_by_tracks("large.ts\nsmall.mp4\n", "films.m3u", "udp"))
        },
        transport_streams_and_movies_play_by_tracks_over_tcp => || {
            a_list_plays_by_tracks("large.ts\nsmall.mp4\n", "films.m3u", "tcp")
        },
        a_list_asks_for_tracks => || {
            a_list_plays_by_tracks("assets = [\"large.ts\", \"small.ts\"]\ndemux = true\n", "films.toml", "tcp")
        },
        viewers_are_at_the_same_place => || unless_overloaded(viewers_are_at_the_same_place),
        play_after_a_pause_continues_at_the_current_position,
        a_list_is_read_again_at_the_next_joint,
        ffmpeg_joins_a_channel => || unless_overloaded(ffmpeg_joins_a_channel),
        gstreamer_joins_a_channel => || unless_overloaded(gstreamer_joins_a_channel),
        assets_that_cannot_be_played_are_left_out,
        assets_that_cannot_be_played_are_logged_once,
        a_channel_without_an_asset_waits_for_one,
        play_of_a_channel_that_has_not_begun_is_answered_at_once,
        what_cannot_be_a_channel_is_refused,
        what_a_channel_cannot_do_is_refused,
    ]
}

/// A server of the channel `tv/news`, which has two assets.
struct TestBed {
    server: Server,
    list: PathBuf,
    assets: [Vec<u8>; 2],
    _folder: TempDir,
}

impl TestBed {
    fn new(list: &str, text: &str) -> Result<TestBed> {
        let clips = [clips::constant(2)?, clips::variable(2)?];
        let assets = [fs::read(&clips[0])?, fs::read(&clips[1])?];
        let folder = clips::folder(&[("one.ts", &clips[0]), ("two.ts", &clips[1])])?;
        let list = folder.path().join(list);
        fs::write(&list, text)?;
        let channel = format!("tv/news={}", list.display());
        let server = Server::of(folder.path()).with(["--channel", &channel]).start()?;
        Ok(TestBed { server, list, assets, _folder: folder })
    }

    /// Content of the channel, which loops.
    fn loops(&self) -> Vec<u8> {
        self.assets.concat().repeat(5)
    }
}

const M3U: &str = "#EXTM3U\none.ts\ntwo.ts\n";

/// Bytes of more than one loop.
const ENOUGH: usize = 3_000_000;

/// Ensures that a stream is unbroken: numbers go on, with one source, and timestamps never go by half a second or more.
fn ensure_unbroken(received: &Received) -> Result<()> {
    ensure!(received.errors.is_empty(), "{:?}", received.errors);
    ensure!(received.gaps().is_empty(), "{:?}", received.gaps());
    for pair in received.packets.windows(2) {
        let step = pair[1].timestamp.wrapping_sub(pair[0].timestamp);
        ensure!(step < 45_000, "{step} ticks from {} to {}", pair[0].sequence, pair[1].sequence);
        ensure!(pair[0].ssrc == pair[1].ssrc, "another source");
    }
    Ok(())
}

/// Place of bytes in others.
fn place(of: &[u8], among: &[u8]) -> Result<usize> {
    let place = among.windows(of.len()).position(|bytes| bytes == of);
    place.with_context(|| format!("{} bytes are not part of what is played", of.len()))
}

fn wait_for_log(server: &Server, words: &str) -> Result<()> {
    Deadline::seconds(30.0).wait_for(words, || Ok(server.process.log().contains(words).then_some(())))
}

/// Promise: A channel repeats its playlist as one stream: every byte, with continuous sequence numbers and
/// timestamps.
fn a_channel_is_one_stream_over_joints_and_loops() -> Result<()> {
    let bed = TestBed::new("news.m3u", M3U)?;
    let mut playback = Playback::set_up(bed.server.rtsp, "tv/news")?;
    ensure!(!playback.description.contains("a=range"), "{}", playback.description);
    let answer = playback.play(Some("npt=0.000-"))?;
    ensure!(answer.header("range") == Some("npt=now-"), "{answer:?}");
    let received = playback.receiver.wait_for("loops", Deadline::seconds(60.0), |received| {
        received.payload.len() > ENOUGH && !received.reports.is_empty()
    })?;
    ensure_unbroken(&received)?;
    place(&received.payload, &bed.loops())?;
    let status = bed.server.status()?["channels"][0].clone();
    ensure!(status["name"] == "tv/news" && status["entries"] == 2, "{status}");
    ensure!(["one.ts", "two.ts"].contains(&status["asset"].as_str().unwrap_or_default()), "{status}");
    Ok(())
}

/// Promise: A channel plays over the RTSP connection as over UDP.
fn a_channel_plays_over_tcp() -> Result<()> {
    let bed = TestBed::new("news.m3u", M3U)?;
    let mut playback = Interleaved::set_up(bed.server.rtsp, "TV/news", None)?;
    playback.play(None)?;
    while playback.received.payload.len() < ENOUGH {
        ensure!(!matches!(playback.read()?, Came::End), "the connection ended");
    }
    ensure_unbroken(&playback.received)?;
    place(&playback.received.payload, &bed.loops())?;
    Ok(())
}

/// Promise: Tracks of movies in a channel stay in sync between items.
fn a_movie_channel_goes_on_over_its_joint() -> Result<()> {
    goes_on_over_its_joint(&clips::film(3, "libx264", "aac", "mp4")?)
}

/// Promise: A movie whose first sample is late in the file repeats in a channel without a pause.
fn a_late_movie_goes_on_over_its_joint() -> Result<()> {
    goes_on_over_its_joint(&clips::late(3, "mp4")?)
}

/// A server of the channel `films`, which has two movies of different encodes.
fn different_encodes(video: &str) -> Result<(Server, TempDir)> {
    serve_films(video, "large.mp4\nsmall.mp4\n", "films.m3u")
}

/// A server of the channel `films` with this list, which has files of different encodes: `large` and `small`, as MP4 and
/// as transport streams.
fn serve_films(video: &str, text: &str, list: &str) -> Result<(Server, TempDir)> {
    let mut files = Vec::new();
    for extension in ["mp4", "ts"].into_iter().filter(|extension| text.contains(extension)) {
        let [large, small] = clips::different_encodes(3, video, extension)?;
        files.push((format!("large.{extension}"), large));
        files.push((format!("small.{extension}"), small));
    }
    let named: Vec<_> = files.iter().map(|(name, clip)| (name.as_str(), clip.as_path())).collect();
    let folder = clips::folder(&named)?;
    let list = folder.path().join(list);
    fs::write(&list, text)?;
    let channel = format!("films={}", list.display());
    Ok((Server::of(folder.path()).with(["--channel", &channel]).start()?, folder))
}

/// Promise: Movies of a channel may have different picture sizes, profiles and parameter sets; ffmpeg decodes all pictures.
fn ffmpeg_plays_different_encodes(video: &str, transport: &str) -> Result<()> {
    let (server, _folder) = different_encodes(video)?;
    ensure_sizes(&server, transport)
}

/// Promise: A channel plays transport streams by their tracks if its list asks for it, or has movies, too.
fn a_list_plays_by_tracks(text: &str, list: &str, transport: &str) -> Result<()> {
    let (server, _folder) = serve_films("libx264", text, list)?;
    let mut client = Client::connect(server.rtsp)?;
    let answer = client.succeed("DESCRIBE", &server.rtsp_url("films"), &[("Accept", "application/sdp")])?;
    let description = String::from_utf8_lossy(&answer.body).into_owned();
    ensure!(description.contains("H264/90000") && !description.contains("MP2T"), "{description}");
    ensure_sizes(&server, transport)
}

/// Ensures that ffmpeg decodes all pictures of the channel `films`: alternately large and small ones, 75 each.
fn ensure_sizes(server: &Server, transport: &str) -> Result<()> {
    let options = ["-rtsp_transport", transport];
    let sizes = frames::sizes(&options, &server.rtsp_url("films"), Some(11.0), 60.0)?;
    // The first and the last movie are seen in part.
    let whole = sizes.get(1..sizes.len().saturating_sub(1)).unwrap_or_default();
    ensure!(whole.len() >= 2, "{sizes:?}");
    let expected = |&(width, height, count): &(u32, u32, usize)| {
        [(640, 360), (320, 180)].contains(&(width, height)) && count == 75
    };
    ensure!(whole.iter().all(expected), "{sizes:?}");
    ensure!(sizes.iter().map(|(.., count)| count).sum::<usize>() >= 10 * 25, "{sizes:?}");
    Ok(())
}

/// Promise: GStreamer receives a channel of movies of different encodes, each with its own parameter sets.
fn gstreamer_receives_different_encodes() -> Result<()> {
    require!(find("gst-launch-1.0").is_some(), "gst-launch-1.0 is not installed");
    let (server, folder) = different_encodes("libx264")?;
    let output = folder.path().join("came.h264");
    let mut command = Command::new("gst-launch-1.0");
    command.args(["-q", "rtspsrc", &format!("location={}", server.rtsp_url("films")), "protocols=tcp", "!"]);
    command.args(["application/x-rtp,media=video", "!", "rtph264depay", "!", "h264parse", "!"]);
    command.args(["video/x-h264,stream-format=byte-stream,alignment=au", "!", "filesink"]);
    command.args(["buffer-mode=unbuffered", "sync=false", &format!("location={}", output.display())]);
    let client = Process::start(&command, true)?;
    let input = output.to_str().context("a file's name")?;
    let sizes = Deadline::seconds(60.0).wait_for("two joints", || {
        let sizes = frames::sizes(&[], input, None, 60.0).unwrap_or_default();
        Ok((sizes.len() >= 4).then_some(sizes))
    })?;
    drop(client);
    let whole = &sizes[1..sizes.len() - 1];
    ensure!(whole.iter().all(|(.., count)| *count == 75), "{sizes:?}");
    Ok(())
}

fn goes_on_over_its_joint(movie: &Path) -> Result<()> {
    let folder = clips::folder(&[("film.mp4", movie)])?;
    let channel = format!("film={}", folder.path().join("film.mp4").display());
    let server = Server::of(folder.path()).with(["--channel", &channel]).start()?;
    let mut playback = Movie::set_up(server.rtsp, "film")?;
    let session = playback.session.clone();
    playback.client.succeed("PLAY", &playback.url.clone(), &[("Session", &session)])?;
    for (track, clock) in playback.tracks.iter().zip(&playback.clocks) {
        // Two joints at least: seven seconds of a movie of three.
        let received = track.wait_for("joints", Deadline::seconds(60.0), |received| {
            let ends = received.packets.first().zip(received.packets.last());
            let ticks = ends.map_or(0, |(first, last)| last.timestamp.wrapping_sub(first.timestamp));
            (7.0 * clock..1e9).contains(&f64::from(ticks))
        })?;
        ensure!(received.gaps().is_empty(), "{:?}", received.gaps());
        let steps = received.packets.windows(2).map(|pair| pair[1].timestamp.wrapping_sub(pair[0].timestamp));
        let longest = steps.map(|step| (step as i32).unsigned_abs()).max().context("no packets")?;
        ensure!(f64::from(longest) < 0.3 * clock, "a step of {longest} ticks");
    }
    Ok(())
}

/// Promise: Viewers who join a channel at different times get the same payload at the same time.
fn viewers_are_at_the_same_place() -> Result<()> {
    let bed = TestBed::new("news.m3u", M3U)?;
    let mut first = Playback::set_up(bed.server.rtsp, "tv/news")?;
    first.play(None)?;
    let came = first
        .receiver
        .wait_for("a third", Deadline::seconds(30.0), |received| received.payload.len() > 700_000)?;
    let joined_behind = came.payload.len();
    let mut second = Playback::set_up(bed.server.rtsp, "tv/news")?;
    second.play(None)?;
    let other = second
        .receiver
        .wait_for("packets", Deadline::seconds(30.0), |received| received.payload.len() > 300_000)?;
    let came = first.receiver.wait_for("as much", Deadline::seconds(30.0), |received| {
        received.payload.len() > joined_behind + 1_200_000
    })?;
    ensure_unbroken(&came)?;
    ensure_unbroken(&other)?;
    // Less than a loop has come since.
    let at = joined_behind.saturating_sub(300_000);
    let place = at + place(&other.payload[..300_000], &came.payload[at..])?;
    let same = came.packets.iter().find(|packet| packet.payload.contains(&place)).context("no packet")?;
    let (one, two) = (same.arrival, other.packets[0].arrival);
    let apart = one.max(two) - one.min(two);
    ensure!(apart < Duration::from_millis(300), "{apart:?} apart");
    Ok(())
}

/// Promise: PLAY after PAUSE continues at the channel's current position, with continuous sequence numbers.
fn play_after_a_pause_continues_at_the_current_position() -> Result<()> {
    let bed = TestBed::new("news.m3u", M3U)?;
    let (mut paused, mut other) =
        (Playback::set_up(bed.server.rtsp, "tv/news")?, Playback::set_up(bed.server.rtsp, "tv/news")?);
    paused.play(None)?;
    other.play(None)?;
    paused
        .receiver
        .wait_for("packets", Deadline::seconds(30.0), |received| received.payload.len() > 100_000)?;
    let answer = paused.ask("PAUSE")?;
    ensure!(answer.status == 200 && answer.header("range") == Some("npt=now-"), "{answer:?}");
    ensure!(paused.receiver.falls_silent_within(10.0), "it is not paused");
    let before = paused.receiver.received().payload.len();
    let meanwhile = other.receiver.received().payload.len() + 600_000;
    other
        .receiver
        .wait_for("a second", Deadline::seconds(30.0), |received| received.payload.len() > meanwhile)?;
    paused.play(Some("npt=now-"))?;
    let received = paused.receiver.wait_for("the rest", Deadline::seconds(30.0), |received| {
        received.payload.len() > before + 500_000
    })?;
    ensure!(received.gaps().is_empty(), "{:?}", received.gaps());
    let loops = bed.loops();
    let left = place(&received.payload[..before], &loops)? + before;
    let gone_on = left + place(&received.payload[before..], &loops[left..])?;
    ensure!(gone_on > left + 500_000, "it went on {} bytes further", gone_on - left);
    Ok(())
}

/// Promise: SIGHUP reads the playlists of channels again; an invalid playlist changes nothing.
fn a_list_is_read_again_at_the_next_joint() -> Result<()> {
    let bed = TestBed::new("news.toml", "assets = [\"one.ts\"]\n")?;
    let mut playback = Playback::set_up(bed.server.rtsp, "tv/news")?;
    playback.play(None)?;
    let log = |words: &str| wait_for_log(&bed.server, words);
    fs::write(&bed.list, "assets = 3\n")?;
    bed.server.process.signal(Signal::HUP)?;
    log("the playlist is unchanged")?;
    fs::write(&bed.list, "assets = [\"one.ts\", \"two.ts\"]\n")?;
    bed.server.process.signal(Signal::HUP)?;
    log("playlist read again")?;
    let before = playback.receiver.received().payload.len();
    let received = playback.receiver.wait_for("the new asset", Deadline::seconds(60.0), |received| {
        received.payload.len() > before + 2 * bed.assets[0].len() + bed.assets[1].len()
    })?;
    place(&bed.assets.concat(), &received.payload)?;
    ensure_unbroken(&received)
}

/// Promise: ffmpeg joins a running channel and decodes it across two items.
fn ffmpeg_joins_a_channel() -> Result<()> {
    require!(find("ffmpeg").is_some(), "ffmpeg is not installed");
    let bed = TestBed::new("news.m3u", M3U)?;
    for transport in ["udp", "tcp"] {
        let mut command = Command::new("ffmpeg");
        command.args(["-nostdin", "-v", "error", "-rtsp_transport", transport]);
        command.args(["-i", &bed.server.rtsp_url("tv/news"), "-map", "0:v:0", "-frames:v", "150"]);
        command.args(["-c", "copy", "-f", "framecrc", "-"]);
        let text = Process::start(&command, true)?.succeed(Deadline::seconds(60.0))?;
        let frames = text.lines().filter(|line| !line.starts_with('#')).count();
        ensure!(frames == 150, "{frames} frames over {transport}");
    }
    Ok(())
}

/// Promise: GStreamer joins a running channel.
fn gstreamer_joins_a_channel() -> Result<()> {
    require!(find("gst-launch-1.0").is_some(), "gst-launch-1.0 is not installed");
    let bed = TestBed::new("news.m3u", M3U)?;
    let folder = tempfile::tempdir()?;
    let output = folder.path().join("came.ts");
    let mut command = Command::new("gst-launch-1.0");
    command.args(["-q", "rtspsrc", &format!("location={}", bed.server.rtsp_url("tv/news"))]);
    command.args(["protocols=tcp", "!", "rtpmp2tdepay", "!", "filesink", "buffer-mode=unbuffered"]);
    command.arg(format!("location={}", output.display()));
    let client = Process::start(&command, true)?;
    Deadline::seconds(60.0).wait_for("more than a loop", || {
        let length = output.metadata().map_or(0, |file| file.len());
        Ok((length > ENOUGH as u64).then_some(()))
    })?;
    drop(client);
    let came = fs::read(&output)?;
    place(&came, &bed.assets.concat().repeat(8)).map(drop)
}

/// Promise: A channel plays what can be played of its list; the log names the rest at the start.
fn assets_that_cannot_be_played_are_left_out() -> Result<()> {
    let clip = clips::constant(2)?;
    let folder = clips::folder(&[("one.ts", &clip)])?;
    fs::write(folder.path().join("junk.ts"), "no transport stream")?;
    let list = folder.path().join("news.m3u");
    fs::write(&list, "junk.ts\none.ts\ngone.ts\n")?;
    let channel = format!("tv/news={}", list.display());
    let server = Server::of(folder.path()).with(["--channel", &channel]).start()?;
    for words in ["news.m3u:1: cannot send", "news.m3u:3: cannot send"] {
        wait_for_log(&server, words)?;
    }
    let mut playback = Playback::set_up(server.rtsp, "tv/news")?;
    playback.play(None)?;
    let stored = fs::read(&clip)?;
    let enough = 2 * stored.len() + 100_000;
    let received = playback
        .receiver
        .wait_for("two loops", Deadline::seconds(30.0), |received| received.payload.len() > enough)?;
    ensure_unbroken(&received)?;
    place(&received.payload, &stored.repeat(5)).map(drop)
}

/// Promise: The log warns once of a channel's asset that cannot be played, until the list is read again.
fn assets_that_cannot_be_played_are_logged_once() -> Result<()> {
    let folder = clips::folder(&[("one.ts", &clips::constant(2)?)])?;
    // The first is refused when it is opened, the second while it is packed: it has no clock.
    fs::write(folder.path().join("junk.ts"), "no transport stream")?;
    fs::write(folder.path().join("clockless.ts"), clips::without_clock(&clips::variable(2)?)?)?;
    let list = folder.path().join("news.m3u");
    fs::write(&list, "one.ts\njunk.ts\nclockless.ts\ngone.ts\n")?;
    let channel = format!("tv/news={}", list.display());
    let server = Server::of(folder.path()).with(["--channel", &channel]).start()?;
    let lines = |words: &str| server.process.log().lines().filter(|line| line.contains(words)).count();
    let named = ["news.m3u:2: cannot send", "news.m3u:3: cannot send", "news.m3u:4: cannot send"];
    let counts = || (named.map(lines), lines("cannot pack an asset"));
    let play = |seconds: f64| -> Result<()> {
        let from = position_s(&server)?;
        Deadline::seconds(60.0)
            .wait_for("loops of the list", || Ok((position_s(&server)? > from + seconds).then_some(())))
    };
    // Longer than a failure is remembered: it is packed again.
    play(13.0)?;
    ensure!(counts() == ([1; 3], 1), "{:?}: {}", counts(), server.process.log());
    let status = server.status()?["channels"][0].clone();
    ensure!(status["entries_left_out"] == 3 && status["entries"] == 4, "{status}");
    server.process.signal(Signal::HUP)?;
    wait_for_log(&server, "playlist read again")?;
    play(13.0)?;
    ensure!(counts() == ([2; 3], 1), "{:?}: {}", counts(), server.process.log());
    Ok(())
}

/// Position of the only channel.
fn position_s(server: &Server) -> Result<f64> {
    server.status()?["channels"][0]["position_s"].as_f64().context("no position")
}

/// Promise: A channel with nothing to play gets 503 until an asset of its list can be played; other channels
/// play.
fn a_channel_without_an_asset_waits_for_one() -> Result<()> {
    let clip = clips::constant(2)?;
    let folder = clips::folder(&[("one.ts", &clip)])?;
    for (list, text) in [("empty.m3u", "later.ts\ngone.ts\n"), ("news.m3u", "one.ts\n")] {
        fs::write(folder.path().join(list), text)?;
    }
    let channels = ["empty", "news"].map(|name| format!("{name}={}/{name}.m3u", folder.path().display()));
    let arguments = channels.iter().flat_map(|channel| ["--channel", channel]);
    let server = Server::of(folder.path()).with(arguments).start()?;
    wait_for_log(&server, "none of 2 assets can be sent; the first:")?;
    let status = server.status()?["channels"].clone();
    ensure!(status[0]["name"] == "empty" && status[0]["entries"].is_null(), "{status}");
    ensure!(status[1]["entries"] == 1, "{status}");
    let mut news = Playback::set_up(server.rtsp, "news")?;
    news.play(None)?;
    let url = server.rtsp_url("empty");
    let accept = [("Accept", "application/sdp")];
    let answer = news.client.request("DESCRIBE", &url, &accept)?;
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    ensure!(answer.status == 503 && body.contains("no asset of this channel"), "{answer:?}: {body}");
    // The server may open it at any time: it must be complete.
    let copied = folder.path().join("later.part");
    fs::copy(&clip, &copied)?;
    fs::rename(&copied, folder.path().join("later.ts"))?;
    Deadline::seconds(30.0).wait_for("the channel", || {
        let answer = news.client.request("DESCRIBE", &url, &accept)?;
        Ok((answer.status == 200).then_some(()))
    })?;
    let mut playback = Playback::set_up(server.rtsp, "empty")?;
    playback.play(None)?;
    let received = playback
        .receiver
        .wait_for("packets", Deadline::seconds(30.0), |received| received.payload.len() > 1_500_000)?;
    ensure_unbroken(&received)
}

/// Promise: PLAY on a channel that begins much later gets 503 with `Retry-After` at once; if it begins soon,
/// PLAY waits.
fn play_of_a_channel_that_has_not_begun_is_answered_at_once() -> Result<()> {
    let folder = clips::folder(&[("one.ts", &clips::constant(2)?)])?;
    let list = folder.path().join("news.toml");
    fs::write(&list, "assets = [{ path = \"one.ts\", at = 2099-01-01T00:00:00Z }]\n")?;
    let channel = format!("news={}", list.display());
    let server = Server::of(folder.path()).with(["--channel", &channel]).start()?;
    let mut playback = Playback::set_up(server.rtsp, "news")?;
    let begun = Instant::now();
    let answer = playback.ask("PLAY")?;
    ensure!(begun.elapsed().as_secs() < 10, "it was answered after {:?}", begun.elapsed());
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    ensure!(answer.status == 503 && body.contains("nothing is on the channel"), "{answer:?}: {body}");
    let seconds: u64 = answer.header("retry-after").context("no Retry-After")?.parse()?;
    ensure!(body.contains(&seconds.to_string()), "{body}");
    let now_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
    const BEGIN_S: u64 = 4_070_908_800;
    ensure!((now_s + seconds).abs_diff(BEGIN_S) < 60, "{seconds} s from {now_s}");
    ensure!(playback.ask("GET_PARAMETER")?.status == 200, "the session has ended");
    let at = process::run("date", ["-u", "-d", "+6 seconds", "+%FT%TZ"], 10.0)?;
    fs::write(&list, format!("assets = [{{ path = \"one.ts\", at = {} }}]\n", at.trim()))?;
    let server = Server::of(folder.path()).with(["--channel", &channel]).start()?;
    let mut playback = Playback::set_up(server.rtsp, "news")?;
    playback.play(None)?;
    playback
        .receiver
        .wait_for("packets", Deadline::seconds(30.0), |received| received.payload.len() > 100_000)
        .map(drop)
}

/// Promise: Channels with an invalid list or a name in use are refused at the start, with the reason.
fn what_cannot_be_a_channel_is_refused() -> Result<()> {
    let folder = clips::folder(&[("one.ts", &clips::constant(2)?)])?;
    fs::create_dir(folder.path().join("tv"))?;
    let list = |name: &str, text: &[u8]| -> Result<String> {
        let list = folder.path().join(name);
        fs::write(&list, text)?;
        Ok(list.display().to_string())
    };
    let good = list("good.m3u", b"one.ts\n")?;
    let missing = folder.path().join("missing.m3u").display().to_string();
    for (arguments, words) in [
        (vec![format!("tv={good}")], "--channel tv: a folder, file, archive or channel of this name"),
        (vec![format!("One.ts={good}")], "--channel One.ts: a folder, file, archive or channel of this name"),
        (vec![format!("a={good}"), format!("A={good}")], "--channel A: a folder, file, archive or channel"),
        (vec![format!("a={missing}")], "--channel a: cannot read the playlist"),
        (vec![format!("a={}", list("empty.m3u", b"#EXTM3U\n")?)], "has no asset"),
        (
            vec![format!("a={}", list("url.m3u", b"http://host/a.ts\n")?)],
            "url.m3u:1: http://host/a.ts is a URL",
        ),
        (vec![format!("a={}", list("bytes.m3u", b"one.ts\n\xff\n")?)], "bytes.m3u:2: not UTF-8"),
        (vec![format!("a={}", list("bad.toml", b"assets = [3]")?)], "bad.toml:1: expected a path"),
        (vec![good.clone()], "expected NAME=PLAYLIST"),
    ] {
        let arguments = arguments.iter().flat_map(|channel| ["--channel", channel]);
        let error = Server::of(folder.path()).with(arguments).start().err().context(words)?;
        ensure!(format!("{error:#}").contains(words), "not {words:?}: {error:#}");
    }
    Ok(())
}

/// Promise: A channel has no absolute times and supports neither Speed nor Scale.
fn what_a_channel_cannot_do_is_refused() -> Result<()> {
    let bed = TestBed::new("news.m3u", M3U)?;
    let mut playback = Playback::set_up(bed.server.rtsp, "tv/news")?;
    let headers = [("Session", playback.session.as_str()), ("Range", "clock=20261123T100003Z-")];
    let answer = playback.client.request("PLAY", &playback.url, &headers)?;
    ensure!(answer.status == 501, "{answer:?}");
    let headers = [("Session", playback.session.as_str()), ("Scale", "4"), ("Speed", "2")];
    let answer = playback.client.succeed("PLAY", &playback.url, &headers)?;
    ensure!(answer.header("scale") == Some("1.0"), "{answer:?}");
    let tv = playback.client.request("DESCRIBE", &bed.server.rtsp_url("tv"), &[])?;
    ensure!(tv.status == 404, "{tv:?}");
    Ok(())
}
