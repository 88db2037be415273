//! Disturbances of a server, beside playing from it.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use wirepath_tests::Deadline;
use wirepath_tests::interleaved::Interleaved;
use wirepath_tests::mutation::Dice;
use wirepath_tests::playback::Playback;

use super::{Bed, CLIP_SECONDS, FILMS, film_name};

/// Clients over TCP that do not read, and half-open connections, at a time.
const SLOW_READERS: usize = 8;
const HALF_OPEN: usize = 100;

/// Plays, pauses and seeks at random, each time in another session.
pub(super) fn pause_and_seek(bed: &Bed, mut dice: Dice, until: Deadline) -> Result<()> {
    while !until.has_passed() {
        // Nobody changes this one.
        let mut playback = Playback::set_up(bed.server.rtsp, "clip.ts").context("pausing and seeking")?;
        for _ in 0..dice.below(8) {
            let from = dice.below(CLIP_SECONDS as usize - 1);
            playback.play(Some(&format!("npt={from}-")))?;
            playback.pause()?;
            bed.done.plays.fetch_add(1, Relaxed);
        }
        if dice.one_in(2) {
            playback.ask("TEARDOWN")?;
        }
        rest(20, until);
    }
    Ok(())
}

/// Plays over TCP and reads nothing.
pub(super) fn read_slowly(bed: &Bed, mut dice: Dice, until: Deadline) -> Result<()> {
    let mut readers = Vec::new();
    while !until.has_passed() {
        if readers.len() < SLOW_READERS {
            let mut reader = Interleaved::set_up(bed.server.rtsp, "clip.ts", Some(4096))?;
            reader.play(None).context("a slow reader")?;
            readers.push(reader);
            bed.done.slow_readers.fetch_add(1, Relaxed);
        } else {
            readers.swap_remove(dice.below(SLOW_READERS));
        }
        rest(200, until);
    }
    Ok(())
}

/// Begins requests and does not end them.
pub(super) fn stay_half_open(bed: &Bed, mut dice: Dice, until: Deadline) -> Result<()> {
    let mut open: Vec<TcpStream> = Vec::new();
    while !until.has_passed() {
        let to = if dice.one_in(2) { bed.server.rtsp } else { bed.server.http };
        let mut connection = TcpStream::connect(to).context("a half-open connection")?;
        match connection.write_all(&b"DESCRIBE rtsp://a/clip.ts RT"[..dice.below(28)]) {
            // One that is refused may be closed already.
            Err(error)
                if error.kind() != ErrorKind::BrokenPipe && error.kind() != ErrorKind::ConnectionReset =>
            {
                return Err(error).context("writing half a request");
            }
            _ => {}
        }
        open.push(connection);
        bed.done.half_open.fetch_add(1, Relaxed);
        if open.len() > HALF_OPEN {
            open.swap_remove(dice.below(HALF_OPEN));
        }
        rest(10, until);
    }
    Ok(())
}

/// Replaces films by others, and removes them for a while.
pub(super) fn change_assets(bed: &Bed, mut dice: Dice, until: Deadline) -> Result<()> {
    let (clip, new) = (bed.clip(), bed.folder.path().join(".new"));
    while !until.has_passed() {
        let film = bed.path_of(dice.below(FILMS));
        if dice.one_in(3) {
            std::fs::remove_file(&film).with_context(|| film.display().to_string())?;
            rest(100, until);
        }
        std::fs::copy(&clip, &new).context("copying an asset")?;
        std::fs::rename(&new, &film).context("replacing an asset")?;
        bed.done.replaced.fetch_add(1, Relaxed);
        rest(500, until);
    }
    ensure!(bed.path_of(0).exists(), "{} is missing", film_name(0));
    Ok(())
}

/// Rests for some milliseconds, or to the end.
fn rest(milliseconds: u64, until: Deadline) {
    std::thread::sleep(Duration::from_millis(milliseconds).min(until.left()));
}
