//! Movies that were cut without encoding: their edit lists hide the pictures that decoders need.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use tempfile::TempDir;
use wirepath_tests::frames::{self, Frame};
use wirepath_tests::loss::unless_overloaded;
use wirepath_tests::movie::Movie;
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        ffmpeg_plays_a_cut_movie_over_udp => || unless_overloaded(|| ffmpeg_plays_a_cut_movie("udp")),
        ffmpeg_plays_a_cut_movie_over_tcp => || ffmpeg_plays_a_cut_movie("tcp"),
        hidden_pictures_are_spread => || unless_overloaded(hidden_pictures_are_spread),
        ends_of_ranges_count_departures => || unless_overloaded(ends_of_ranges_count_departures),
        ffmpeg_plays_a_trimmed_movie_over_udp => || unless_overloaded(|| ffmpeg_plays_a_trimmed_movie("udp")),
        ffmpeg_plays_a_trimmed_movie_over_tcp => || ffmpeg_plays_a_trimmed_movie("tcp"),
    ]
}

/// Length of the movie before it is cut.
const SECONDS: u32 = 9;

/// Seconds that are hidden.
const HIDDEN_S: f64 = 5.0;

const NAME: &str = "cut.mp4";

/// A cut movie and a server of it.
struct Serving {
    server: Server,
    clip: PathBuf,
    _folder: TempDir,
}

impl Serving {
    /// Serves a movie that was cut at its beginning.
    fn start() -> Result<Self> {
        let clip = clips::cut(SECONDS, HIDDEN_S)?;
        let folder = clips::folder(&[(NAME, &clip)])?;
        Ok(Self { server: Server::of(folder.path()).start()?, clip, _folder: folder })
    }

    /// Serves a movie whose edit list shows only its first milliseconds, as editors trim without encoding.
    fn trimmed(shown_ms: u32) -> Result<Self> {
        let folder = clips::folder(&[(NAME, &clips::film(6, "libx264", "aac", "mp4")?)])?;
        let clip = folder.path().join(NAME);
        let mut bytes = std::fs::read(&clip)?;
        let lists: Vec<usize> =
            (0..bytes.len() - 16).filter(|at| bytes[*at..].starts_with(b"elst\0\0\0\0\0\0\0\x01")).collect();
        ensure!(lists.len() == 2, "{} edit lists of one edit", lists.len());
        for list in lists {
            // ffmpeg writes durations in milliseconds.
            bytes[list + 12..list + 16].copy_from_slice(&shown_ms.to_be_bytes());
        }
        std::fs::write(&clip, bytes)?;
        Ok(Self { server: Server::of(folder.path()).start()?, clip, _folder: folder })
    }

    /// Frames that the edit list shows.
    fn shown(&self) -> Result<Vec<Vec<Frame>>> {
        frames::decode(&[], self.clip.to_str().context("a clip's name")?, 60.0)
    }
}

/// Promise: ffmpeg plays a movie that was cut without encoding: hidden pictures first, then exactly the shown
/// ones.
fn ffmpeg_plays_a_cut_movie(transport: &str) -> Result<()> {
    let serving = Serving::start()?;
    let came = frames::decode(&["-rtsp_transport", transport], &serving.server.rtsp_url(NAME), 40.0)?;
    let shown = serving.shown()?;
    let hidden = came[0].len().checked_sub(shown[0].len());
    let hidden =
        hidden.with_context(|| format!("{} pictures came, {} are shown", came[0].len(), shown[0].len()))?;
    ensure!(hidden >= 100, "only {hidden} pictures are hidden");
    frames::ensure_all(&came[0][hidden..], &shown[0], 0)
}

/// Promise: Hidden pictures of a cut movie are sent over an eighth of their time, and then sound and pictures
/// in step.
fn hidden_pictures_are_spread() -> Result<()> {
    let serving = Serving::start()?;
    let mut movie = Movie::set_up(serving.server.rtsp, NAME)?;
    let announced = movie.play(None)?;
    let received = movie.to_the_end(Deadline::seconds(20.0))?;
    let times = |track: usize| {
        let clock = movie.clocks[track];
        let start = announced[track].1;
        received[track].packets.iter().map(move |packet| {
            (f64::from(packet.timestamp.wrapping_sub(start) as i32) / clock, packet.arrival)
        })
    };
    let begin = times(0).next().context("no picture came")?.1;
    let hidden: Vec<f64> =
        times(0).filter(|(time, _)| *time < 0.0).map(|(_, at)| (at - begin).as_secs_f64()).collect();
    let last = hidden.last().context("no picture is hidden")?;
    ensure!((0.5..1.5).contains(last), "{} packets of hidden pictures came in {last} s", hidden.len());
    for track in 0..2 {
        let first = times(track).find(|(time, _)| *time >= 0.0).context("nothing is shown")?.1;
        let first = first.saturating_duration_since(begin).as_secs_f64();
        ensure!((0.3..1.5).contains(&first), "track {track} begins after {first} s");
    }
    Ok(())
}

/// The samples of a cut movie have caught up with their times after 0.72 s: a range that ends before has less of
/// the movie. Pictures are shown up to 200 ms after they are decoded.
fn ends_of_ranges_count_departures() -> Result<()> {
    let serving = Serving::start()?;
    for (range, earliest, latest) in [("npt=0-0.5", -1.3, 0.0), ("npt=0-1.5", 1.3, 1.75)] {
        let mut movie = Movie::set_up(serving.server.rtsp, NAME)?;
        let start = movie.play(Some(range))?[0].1;
        let received = movie.to_the_end(Deadline::seconds(20.0))?;
        let times = received[0].packets.iter();
        let times =
            times.map(|packet| f64::from(packet.timestamp.wrapping_sub(start) as i32) / movie.clocks[0]);
        let last = times.fold(f64::MIN, f64::max);
        ensure!((earliest..latest).contains(&last), "the last picture of {range} is shown at {last} s");
    }
    Ok(())
}

/// Promise: ffmpeg plays a movie that was trimmed without encoding up to the end of its edit list.
fn ffmpeg_plays_a_trimmed_movie(transport: &str) -> Result<()> {
    let serving = Serving::trimmed(3000)?;
    let came = frames::decode(&["-rtsp_transport", transport], &serving.server.rtsp_url(NAME), 40.0)?;
    let shown = serving.shown()?;
    ensure!((70..=80).contains(&shown[0].len()), "{} pictures are shown", shown[0].len());
    // A shown picture may need up to two that are shown after it.
    let after = came[0].len().checked_sub(shown[0].len());
    ensure!(
        after.is_some_and(|after| after <= 2),
        "{} pictures came, {} are shown",
        came[0].len(),
        shown[0].len()
    );
    frames::ensure_all(&came[0][..shown[0].len()], &shown[0], 0)?;
    let last = |frames: &[Frame]| frames.iter().fold(0.0, |last: f64, frame| last.max(frame.seconds));
    ensure!((2.9..3.2).contains(&last(&came[1])), "sound ends after {} s", last(&came[1]));
    let mut client = Client::connect(serving.server.rtsp)?;
    let url = serving.server.rtsp_url(NAME);
    let description = client.succeed("DESCRIBE", &url, &[("Accept", "application/sdp")])?.body;
    let description = String::from_utf8(description).context("the SDP is not UTF-8")?;
    let range = description.lines().find_map(|line| line.strip_prefix("a=range:npt=")).context("no range")?;
    let end: f64 = range.split_once('-').context("no end")?.1.trim().parse()?;
    ensure!((2.95..3.1).contains(&end), "the presentation ends at {end} s");
    Ok(())
}
