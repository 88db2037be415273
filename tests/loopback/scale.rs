//! The `Scale` of PLAY (RFC 2326 section 12.34): fast forward and rewind of movies.

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use tempfile::TempDir;
use wirepath_tests::http::Response;
use wirepath_tests::movie::Movie;
use wirepath_tests::playback::Playback;
use wirepath_tests::rtp::{Packet, Received};
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        mp4_is_played_forward_fast => || forward("mp4"),
        matroska_is_played_forward_fast => || forward("mkv"),
        a_rewind_ends_at_the_beginning,
        a_scan_goes_over_to_the_normal_scale,
        a_transport_stream_has_no_other_scale,
    ]
}

const SECONDS: u32 = 12;

/// Ticks in a second of timestamps of video.
const CLOCK_HZ: f64 = 90_000.0;

/// A server of a film with a random access point each second.
struct Serving {
    server: Server,
    name: String,
    _folder: TempDir,
}

impl Serving {
    fn of(extension: &str) -> Result<Self> {
        let (name, clip) = (format!("film.{extension}"), clips::film(SECONDS, "libx264", "aac", extension)?);
        let folder = clips::folder(&[(&name, &clip)])?;
        Ok(Self { server: Server::of(folder.path()).packed().start()?, name, _folder: folder })
    }

    fn set_up(&self) -> Result<Movie> {
        Movie::set_up(self.server.rtsp, &self.name)
    }
}

/// Asks to play at a Scale.
fn play_at(movie: &mut Movie, scale: &str, range: Option<&str>) -> Result<Response> {
    let mut headers = vec![("Session", movie.session.as_str()), ("Scale", scale)];
    headers.extend(range.map(|range| ("Range", range)));
    movie.client.succeed("PLAY", &movie.url, &headers)
}

/// Timestamps of the pictures that came, in seconds after the first, and how many were decodable alone.
fn pictures(packets: &[Packet], payload: &[u8]) -> (Vec<f64>, usize) {
    let mut times = Vec::new();
    let mut last = None;
    let mut idr = 0;
    let first = packets.first().map_or(0, |packet| packet.timestamp);
    for packet in packets {
        let payload = &payload[packet.payload.clone()];
        idr += usize::from(is_idr(payload) && last != Some(packet.timestamp));
        if last.replace(packet.timestamp) != Some(packet.timestamp) {
            times.push(f64::from(packet.timestamp.wrapping_sub(first).cast_signed()) / CLOCK_HZ);
        }
    }
    (times, idr)
}

/// Returns whether a payload of H.264 (RFC 6184) is of a picture that can be decoded alone, or of what comes
/// before its slices.
fn is_idr(payload: &[u8]) -> bool {
    let kind = |byte: Option<&u8>| byte.map_or(0, |byte| byte & 0x1f);
    match kind(payload.first()) {
        5..=9 => true,
        24 => matches!(kind(payload.get(3)), 5..=9),
        28 => kind(payload.get(1)) == 5,
        _ => false,
    }
}

fn ensure_whole(received: &Received) -> Result<()> {
    ensure!(received.errors.is_empty() && received.gaps().is_empty(), "{:?}", received.gaps());
    Ok(())
}

/// Promise: With Scale, a movie plays its random access points to the end, with timestamps of real time.
fn forward(extension: &str) -> Result<()> {
    let serving = Serving::of(extension)?;
    let mut movie = serving.set_up()?;
    let answer = play_at(&mut movie, "4", Some("npt=0-"))?;
    ensure!(answer.header("scale") == Some("4.0"), "{answer:?}");
    let range = answer.header("range").context("no Range")?;
    ensure!(range.starts_with("npt=0.000-12"), "{range}");
    let video = movie.tracks[0].to_the_end(Deadline::seconds(20.0))?;
    ensure_whole(&video)?;
    let (times, idr) = pictures(&video.packets, &video.payload);
    ensure!((8..=12).contains(&times.len()) && idr == times.len(), "{idr} of {times:?}");
    // Between decoding and presentation of the first picture there is less time than with others.
    let mut gaps = times[1..].windows(2).map(|pair| (pair[1] - pair[0]) / 0.25);
    ensure!(gaps.all(|gap| (gap - gap.round()).abs() < 0.01), "{times:?}");
    ensure!(times.is_sorted() && (2.0..3.0).contains(&times[times.len() - 1]), "{times:?}");
    let (first, last) = (&video.packets[0], &video.packets[video.packets.len() - 1]);
    let took = (last.arrival - first.arrival).as_secs_f64();
    ensure!((took - times[times.len() - 1]).abs() < 0.3, "{took} s for {times:?}");
    let sound = movie.tracks[1].received();
    ensure!(sound.packets.is_empty(), "{} packets of sound came", sound.packets.len());
    Ok(())
}

/// Promise: Backward playback begins at the requested time and ends at the beginning of the movie or range.
fn a_rewind_ends_at_the_beginning() -> Result<()> {
    let serving = Serving::of("mp4")?;
    for (range, from, until, count) in [("npt=10-", 10.0, "0.000", 8..=11), ("npt=8-4", 8.0, "4.000", 3..=5)]
    {
        let mut movie = serving.set_up()?;
        let answer = play_at(&mut movie, "-5", Some(range))?;
        ensure!(answer.header("scale") == Some("-5.0"), "{answer:?}");
        let announced = answer.header("range").and_then(|range| range.strip_prefix("npt="));
        let (start, end) = announced.and_then(|range| range.split_once('-')).context("no Range")?;
        let start: f64 = start.parse()?;
        ensure!((from - 1.0..=from).contains(&start) && end == until, "{start} to {end} for {range}");
        let video = movie.tracks[0].to_the_end(Deadline::seconds(20.0))?;
        ensure_whole(&video)?;
        let (times, idr) = pictures(&video.packets, &video.payload);
        ensure!(count.contains(&times.len()) && idr == times.len(), "{idr} of {times:?} in {range}");
        ensure!(times.is_sorted(), "timestamps go back: {times:?}");
    }
    Ok(())
}

/// Promise: PLAY with another Scale and no Range continues at the session's position, with continuous
/// numbers.
fn a_scan_goes_over_to_the_normal_scale() -> Result<()> {
    let serving = Serving::of("mp4")?;
    let mut movie = serving.set_up()?;
    movie.play(Some("npt=0-"))?;
    let some = |received: &Received| received.seconds() > 0.5;
    movie.tracks[0].wait_for("half a second", Deadline::seconds(10.0), some)?;
    play_at(&mut movie, "8", None)?;
    let some = |received: &Received| received.seconds() > 1.2;
    movie.tracks[0].wait_for("some pictures", Deadline::seconds(10.0), some)?;
    let answer = play_at(&mut movie, "1", None)?;
    ensure!(answer.header("scale") == Some("1.0"), "{answer:?}");
    let range = answer.header("range").context("no Range")?;
    let start: f64 = range.trim_start_matches("npt=").split('-').next().unwrap_or_default().parse()?;
    ensure!((4.0..12.0).contains(&start), "it goes on at {start}");
    let received = movie.to_the_end(Deadline::seconds(20.0))?;
    received.iter().try_for_each(ensure_whole)?;
    let stamps = received[0].packets.windows(2);
    let steps = stamps.map(|pair| pair[1].timestamp.wrapping_sub(pair[0].timestamp).cast_signed());
    ensure!(steps.into_iter().all(|step| step.abs() < 90_000), "timestamps jump");
    let rest = received[0].seconds() - 1.0;
    ensure!(rest > f64::from(SECONDS) - start - 2.0, "{rest} s came from {start} on");
    Ok(())
}

/// Promise: An unsupported Scale is answered with the nearest supported one: 1, or 2 to 32 in either
/// direction.
///
/// Of transport streams there is no other than 1.
fn a_transport_stream_has_no_other_scale() -> Result<()> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(2)?)])?;
    let server = Server::of(folder.path()).start()?;
    let mut playback = Playback::set_up(server.rtsp, "clip.ts")?;
    let headers = [("Session", playback.session.as_str()), ("Scale", "4")];
    let answer = playback.client.succeed("PLAY", &playback.url, &headers)?;
    ensure!(answer.header("scale") == Some("1.0"), "{answer:?}");
    let serving = Serving::of("mp4")?;
    let mut movie = serving.set_up()?;
    for (asked, granted) in [("100", "32.0"), ("-100", "-32.0"), ("0.5", "1.0"), ("-1", "-2.0")] {
        let answer = play_at(&mut movie, asked, Some("npt=5-"))?;
        ensure!(answer.header("scale") == Some(granted), "{asked}: {answer:?}");
    }
    Ok(())
}
