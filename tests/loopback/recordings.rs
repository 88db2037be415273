//! Recordings that are played while they are written: fragments are appended to a file that a server plays.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use tempfile::TempDir;
use wirepath_tests::loss::unless_overloaded;
use wirepath_tests::movie::Movie;
use wirepath_tests::playback::describe;
use wirepath_tests::rtp::Received;
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, process, trials};

use crate::packing::metric;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_recording_plays_while_it_grows => || unless_overloaded(a_recording_plays_while_it_grows),
        playing_from_now_on_begins_near_the_end => || unless_overloaded(playing_from_now_on_begins_near_the_end),
        a_truncated_recording_ends_its_session => || unless_overloaded(a_truncated_recording_ends_its_session),
        a_replaced_recording_ends_its_session => || unless_overloaded(a_replaced_recording_ends_its_session),
    ]
}

/// Length of the whole recording: a fragment of each second.
const SECONDS: u32 = 6;

/// The name of the recording.
const NAME: &str = "film.mp4";

/// A recording in parts, and a server of it.
struct Recording {
    server: Server,
    path: PathBuf,
    /// Parts to append: a fragment each, and an index of all of them.
    parts: Vec<Vec<u8>>,
    _folder: TempDir,
}

impl Recording {
    /// A server of a recording that has so many fragments.
    fn start(fragments: usize) -> Result<Self> {
        let clip = fs::read(clips::fragmented(SECONDS)?).context("reading the clip")?;
        let folder = process::open_folder()?;
        let path = folder.path().join(NAME);
        let mut parts = parts(&clip)?;
        ensure!(parts.len() == SECONDS as usize + 2, "the clip has {} parts", parts.len());
        let later = parts.split_off(1 + fragments);
        fs::write(&path, parts.concat()).context("beginning the recording")?;
        Ok(Self { server: Server::of(folder.path()).start()?, path, parts: later, _folder: folder })
    }

    /// Appends the next part.
    fn record(&mut self) -> Result<()> {
        ensure!(!self.parts.is_empty(), "the recording is finished");
        append(&self.path, &self.parts.remove(0))
    }

    /// Description of the recording.
    fn description(&self) -> Result<String> {
        Ok(describe(&mut Client::connect(self.server.rtsp)?, &self.server.rtsp_url(NAME))?.0)
    }
}

pub(crate) fn append(path: &PathBuf, bytes: &[u8]) -> Result<()> {
    let mut file = OpenOptions::new().append(true).open(path).context("opening the recording")?;
    file.write_all(bytes).context("recording")
}

/// Boxes before the fragments, the fragments, and what follows them.
pub(crate) fn parts(clip: &[u8]) -> Result<Vec<Vec<u8>>> {
    let (mut parts, mut at) = (vec![Vec::new()], 0);
    while let Some(rest) = clip.get(at..).filter(|rest| !rest.is_empty()) {
        let length = rest.first_chunk().map(|length| u32::from_be_bytes(*length) as usize);
        let bytes = length.and_then(|length| rest.get(..length)).context("a box")?;
        if matches!(&bytes[4..8], b"moof" | b"mfra") {
            parts.push(Vec::new());
        }
        parts.last_mut().context("a part")?.extend_from_slice(bytes);
        at += bytes.len();
    }
    Ok(parts)
}

/// Payloads and markers of the packets, which have to be in sequence.
fn packets(received: &Received) -> Result<Vec<(&[u8], bool)>> {
    ensure!(received.gaps().is_empty(), "gaps: {:?}", received.gaps());
    let packet =
        |packet: &wirepath_tests::rtp::Packet| (&received.payload[packet.payload.clone()], packet.marker);
    Ok(received.packets.iter().map(packet).collect())
}

/// Pictures that came.
pub(crate) fn pictures(received: &Received) -> usize {
    received.packets.iter().filter(|packet| packet.marker).count()
}

/// Promise: A fragmented MP4 file plays over RTSP while it is recorded: all of it, each fragment packed once.
fn a_recording_plays_while_it_grows() -> Result<()> {
    let mut recording = Recording::start(2)?;
    let description = recording.description()?;
    ensure!(description.contains("a=range:npt=0.000-\r\n"), "{description}");
    let mut movie = Movie::set_up(recording.server.rtsp, NAME)?;
    movie.play(Some("npt=0-"))?;
    // The recorder writes when a client has what was written before, so the session waits at the end each time.
    for fragment in 2..=SECONDS as usize {
        let expected = fragment * 25 - 12; // the last pictures wait for the sound of their time
        let deadline = Deadline::seconds(20.0);
        movie.tracks[0].wait_for("picture", deadline, |received| pictures(received) >= expected)?;
        // The first bytes of a fragment alone are not played.
        let (begin, rest) = recording.parts[0].split_at(20);
        append(&recording.path, begin)?;
        append(&recording.path, rest)?;
        recording.parts.remove(0);
    }
    let grown = movie.to_the_end(Deadline::seconds(20.0))?;
    ensure!(pictures(&grown[0]) == SECONDS as usize * 25, "{} pictures", pictures(&grown[0]));

    let deadline = Deadline::seconds(20.0);
    let finished = || {
        let description = recording.description()?;
        Ok(description.contains("a=range:npt=0.000-6.").then_some(()))
    };
    deadline.wait_for("an end in the description", finished)?;
    let mut movie = Movie::set_up(recording.server.rtsp, NAME)?;
    movie.play(Some("npt=0-"))?;
    for (grown, whole) in grown.iter().zip(movie.to_the_end(Deadline::seconds(20.0))?) {
        ensure!(packets(grown)? == packets(&whole)?, "the finished recording has other packets");
    }
    let counts = (
        metric(&recording.server, "wirepath_images_packed_total")?,
        metric(&recording.server, "wirepath_images_failed_total")?,
    );
    ensure!(counts == (1, 0), "images packed and failed: {counts:?}");
    Ok(())
}

/// Promise: `Range: npt=now-` of a recording begins at a random access point near its end; later times get 457.
fn playing_from_now_on_begins_near_the_end() -> Result<()> {
    let mut recording = Recording::start(4)?;
    let mut movie = Movie::set_up(recording.server.rtsp, NAME)?;
    let session = movie.session.clone();
    let mut play = |range: &str| {
        movie.client.request("PLAY", &movie.url, &[("Session", session.as_str()), ("Range", range)])
    };
    let beyond = play("npt=100-")?;
    ensure!(beyond.status == 457, "{beyond:?}");
    let answer = play("npt=now-")?;
    ensure!(answer.status == 200, "{answer:?}");
    // Pictures and sound of the end wait for the next fragment, so the last second begins before the last fragment.
    let range = answer.header("range").context("no Range")?;
    let begun = range.strip_prefix("npt=").and_then(|range| range.split('-').next()).context("a time")?;
    let begun_s = begun.parse::<f64>()?;
    ensure!((2.0..4.0).contains(&begun_s), "{range}");
    while !recording.parts.is_empty() {
        recording.record()?;
    }
    let received = movie.to_the_end(Deadline::seconds(20.0))?;
    let expected = (SECONDS as usize - begun_s as usize) * 25;
    ensure!(pictures(&received[0]) == expected, "{} of {expected} pictures", pictures(&received[0]));
    Ok(())
}

/// Plays the beginning of a recording, of which then something happens; its session ends with all that was
/// recorded before.
fn ends_after(happens: impl FnOnce(&PathBuf) -> Result<()>) -> Result<()> {
    let recording = Recording::start(2)?;
    let mut movie = Movie::set_up(recording.server.rtsp, NAME)?;
    movie.play(Some("npt=0-"))?;
    movie.tracks[0].wait_for("picture", Deadline::seconds(20.0), |received| pictures(received) >= 10)?;
    happens(&recording.path)?;
    let received = movie.to_the_end(Deadline::seconds(20.0))?;
    let came = pictures(&received[0]);
    ensure!((40..=50).contains(&came), "{came} pictures of 2 s");
    ensure!(received.iter().all(|track| track.errors.is_empty()), "datagrams that are no packets");
    Ok(())
}

/// Promise: A session of a recording that is truncated ends with BYE, after what was recorded before.
fn a_truncated_recording_ends_its_session() -> Result<()> {
    ends_after(|path| {
        let file = File::options().write(true).open(path).context("opening the recording")?;
        file.set_len(100).context("truncating it")
    })
}

/// Promise: A session of a recording that is replaced under its name ends with BYE, after what was recorded before.
fn a_replaced_recording_ends_its_session() -> Result<()> {
    ends_after(|path| {
        let other = path.with_extension("new");
        fs::write(&other, b"another file").context("writing a file")?;
        fs::rename(&other, path).context("replacing the recording")
    })
}
