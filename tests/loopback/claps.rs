//! Picture and sound of a clip with claps, by packets and sender reports: whether both are heard and seen
//! together.

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::loss::unless_overloaded;
use wirepath_tests::movie::Movie;
use wirepath_tests::mutation::Dice;
use wirepath_tests::rtp::{Packet, Received, SenderReport};
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        claps_are_in_step_after_a_hundred_seeks => || unless_overloaded(claps_are_in_step_after_a_hundred_seeks),
    ]
}

const SECONDS: u32 = 20;
const SEEKS: u32 = 100;

/// Longest time between picture and sound of a clap.
const MOST_APART_S: f64 = 0.005;

/// Promise: After a hundred random seeks, picture and sound of a clap are within 5 ms of each other.
///
/// Timestamps and sender reports of both tracks tell when.
fn claps_are_in_step_after_a_hundred_seeks() -> Result<()> {
    let folder = clips::folder(&[("claps.mov", &clips::claps(SECONDS)?)])?;
    let server = Server::of(folder.path()).start()?;
    let mut movie = Movie::set_up(server.rtsp, "claps.mov")?;
    ensure!(movie.clocks == [90_000.0, 48_000.0], "{:?}", movie.clocks);
    let mut dice = Dice::new(7);
    for seek in 0..SEEKS {
        let range = format!("npt={:.3}-", dice.below((SECONDS as usize - 2) * 1000) as f64 / 1000.0);
        let announced = movie.play(Some(&range))?;
        let begun = |track: usize| announced[track].0.context("no sequence number");
        let (first_picture, first_sound) = (begun(0)?, begun(1)?);
        let deadline = Deadline::seconds(10.0);
        let clap = "clap and a sender report";
        let video = movie.tracks[0].wait_for(clap, deadline, |received| {
            !received.reports.is_empty() && picture_claps(since(received, first_picture)).next().is_some()
        })?;
        let sound = movie.tracks[1].wait_for(clap, deadline, |received| {
            !received.reports.is_empty() && sound_claps(received, first_sound).next().is_some()
        })?;
        ensure!(video.gaps().is_empty() && sound.gaps().is_empty(), "packets were lost before seek {seek}");
        let pictures: Vec<u32> = picture_claps(since(&video, first_picture)).collect();
        let sounds: Vec<u32> = sound_claps(&sound, first_sound).collect();
        ensure_in_step((&pictures, &video), (&sounds, &sound), &movie.clocks)
            .with_context(|| format!("after seek {seek}, to {range}"))?;
    }
    // There is one when a session begins to play, so those of the last claps are not of the beginning.
    let reports = movie.tracks[0].received().reports.len();
    ensure!(reports > SEEKS as usize / 10, "{reports} sender reports came");
    Ok(())
}

/// Packets from a sequence number on.
fn since(received: &Received, sequence: u16) -> &[Packet] {
    let first = received.packets.iter().rposition(|packet| packet.sequence == sequence);
    first.map_or(&[], |first| &received.packets[first..])
}

/// Timestamps of complete pictures of noise, which take many packets; grey ones take few.
fn picture_claps(packets: &[Packet]) -> impl Iterator<Item = u32> {
    const LEAST_BYTES: usize = 4000;
    let pictures = packets.chunk_by(|one, next| one.timestamp == next.timestamp);
    let complete = pictures.filter(|picture| picture.last().is_some_and(|last| last.marker));
    let bytes = |picture: &&[Packet]| picture.iter().map(|packet| packet.payload.len()).sum::<usize>();
    complete.filter(move |picture| bytes(picture) > LEAST_BYTES).map(|picture| picture[0].timestamp)
}

/// Timestamps of the first samples of sound behind silence, from a sequence number on.
fn sound_claps(received: &Received, sequence: u16) -> impl Iterator<Item = u32> {
    let samples = since(received, sequence).iter().flat_map(move |packet| {
        let samples = (0..).zip(received.payload[packet.payload.clone()].chunks_exact(2));
        samples.map(move |(sample, bytes)| (packet.timestamp.wrapping_add(sample), bytes != [0, 0]))
    });
    // Before the first sample there may have been sound.
    let begins = samples.scan(true, |was_loud, (timestamp, is_loud)| {
        let was_loud = std::mem::replace(was_loud, is_loud);
        Some((is_loud && !was_loud).then_some(timestamp))
    });
    begins.flatten()
}

/// Ensures that each clap of sound is at that of a picture, if both came, by the last reports.
fn ensure_in_step(
    (pictures, video): (&[u32], &Received),
    (sounds, sound): (&[u32], &Received),
    clocks: &[f64],
) -> Result<()> {
    let both = video.reports.iter().rev().find_map(|report| {
        let same = sound.reports.iter().rev().find(|other| other.ntp == report.ntp)?;
        Some((*report, *same))
    });
    let (of_video, of_sound) = both.context("no reports of both tracks for one time")?;
    let after = |timestamp: u32, report: &SenderReport, clock: f64| {
        f64::from(timestamp.wrapping_sub(report.timestamp).cast_signed()) / clock
    };
    let seen = pictures.iter().map(|timestamp| after(*timestamp, &of_video, clocks[0]));
    let seen: Vec<f64> = seen.collect();
    let heard = sounds.iter().map(|timestamp| after(*timestamp, &of_sound, clocks[1]));
    let apart = |heard: f64| {
        seen.iter().map(|seen| heard - seen).min_by(|one, other| one.abs().total_cmp(&other.abs()))
    };
    let mut count = 0;
    for heard in heard {
        let apart = apart(heard).context("no picture")?;
        // The picture of the last sound may not have come yet.
        if apart.abs() < clips::CLAP_S / 2.0 {
            ensure!(apart.abs() < MOST_APART_S, "sound is {apart} s after the picture");
            count += 1;
        }
    }
    ensure!(count > 0, "no clap with picture and sound: {seen:?}");
    Ok(())
}
