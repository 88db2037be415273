//! Expected beginnings after a seek, from ffprobe's list of pictures.

use std::ops::RangeInclusive;

use anyhow::{Context, Result, ensure};

use crate::Deadline;
use crate::clips::{CONSTANT_RATE, Picture};
use crate::playback::{Playback, announced};

/// Offsets at which playing may begin for a time of a constant clip: with the key picture before, or its
/// tables, but after the picture before that.
pub fn random_access_point_before(pictures: &[Picture], seconds: f64) -> Result<RangeInclusive<u64>> {
    let asked = seconds * CONSTANT_RATE / 8.0;
    let is_before = |picture: &Picture| picture.is_key && picture.offset as f64 <= asked;
    let index = pictures.iter().rposition(is_before).context("no key picture before")?;
    let earliest = index.checked_sub(1).map_or(0, |before| pictures[before].offset + 188);
    Ok(earliest..=pictures[index].offset)
}

/// Ensures that `payload` is part of `stored`, from one of these offsets on.
pub fn ensure_from(payload: &[u8], stored: &[u8], offsets: &RangeInclusive<u64>) -> Result<()> {
    ensure!(!payload.is_empty(), "nothing came");
    let is_it = |start: &u64| stored.get(*start as usize..).is_some_and(|rest| rest.starts_with(payload));
    let earliest = offsets.start().next_multiple_of(188);
    let found = (earliest..=*offsets.end()).step_by(188).find(is_it);
    ensure!(found.is_some(), "{} bytes that stand nowhere in {offsets:?} came first", payload.len());
    Ok(())
}

/// Seeks in a session that has not played, plays a while, seeks again and plays to the end: each time the
/// bytes are those from the right place, and the second time numbers go on. `look` is called while it plays,
/// after the first seek and after the second.
pub fn seek_twice(
    playback: &mut Playback,
    stored: &[u8],
    pictures: &[Picture],
    mut look: impl FnMut(usize) -> Result<()>,
) -> Result<()> {
    const FIRST: f64 = 1.5;
    const SECOND: f64 = 4.5;
    playback.play(Some(&format!("npt={FIRST}-")))?;
    playback
        .receiver
        .wait_for("half a second of media", Deadline::seconds(10.0), |received| received.seconds() > 0.5)?;
    look(0)?;
    playback.pause()?;
    let (sequence, timestamp) = announced(&playback.play(Some(&format!("npt={SECOND}-")))?)?;
    playback.receiver.wait_for("packet after the seek", Deadline::seconds(10.0), |received| {
        received.packets.iter().any(|packet| packet.sequence == sequence)
    })?;
    look(1)?;
    let received = playback.receiver.to_the_end(Deadline::seconds(15.0))?;
    ensure!(received.errors.is_empty() && received.gaps().is_empty(), "gaps {:?}", received.gaps());
    let sought = received.packets.iter().find(|packet| packet.sequence == sequence);
    let sought = sought.context("the packet announced after the seek did not come")?;
    ensure!(sought.timestamp == timestamp, "RTP-Info announced {timestamp}, {} came", sought.timestamp);
    let (first, second) = received.payload.split_at(sought.payload.start);
    ensure_from(first, stored, &random_access_point_before(pictures, FIRST)?).context("the first seek")?;
    ensure_from(second, stored, &random_access_point_before(pictures, SECOND)?).context("the second seek")?;
    ensure!(stored.ends_with(second), "it did not play to the end");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_from_another_place_are_found() {
        let stored: Vec<u8> = (0..188 * 20_u32).map(|place| (place / 188) as u8).collect();
        assert!(ensure_from(&stored[188 * 3..188 * 9], &stored, &(188 * 2..=188 * 4)).is_ok());
        assert!(ensure_from(&stored[188 * 5..188 * 9], &stored, &(188 * 2..=188 * 4)).is_err());
        assert!(ensure_from(&[], &stored, &(0..=188)).is_err());
    }
}
