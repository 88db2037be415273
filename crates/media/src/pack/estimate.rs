//! Estimates of an asset that is not packed yet, from its first and last bytes.

use crate::image::TransportStreamDescription;
use crate::ts::{
    Deframer, Event, NotTransportStream, PACKET_LENGTH, Packet, Packets, Pcr, Survey, TICKS_PER_SECOND,
    Warnings,
};

/// Limit of the ratio between two estimates of the duration, by the last clock reference and by the bit rate
/// at the head. Beyond it, the last reference belongs to another time base.
const BELIEVED_FACTOR: u128 = 16;

/// Estimate of an asset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Description of the stream, from the head.
    pub description: TransportStreamDescription,
    /// Duration in microseconds, from the clock references at both ends.
    pub duration_us: Option<u64>,
}

/// Clock reference and the offset of its packet in the file.
#[derive(Clone, Copy, Debug)]
struct Reference {
    offset: u64,
    pcr: Pcr,
}

/// Estimates an asset from its first and last bytes, which may overlap; a megabyte of each suffices.
pub fn estimate(head: &[u8], tail: &[u8], size: u64) -> Result<Estimate, NotTransportStream> {
    let (mut deframer, mut survey) = (Deframer::new(), Survey::new());
    each_run(&mut deframer, head, |run| survey.push(run).is_ok())?;
    let description = TransportStreamDescription {
        stride: deframer.framing().map_or(0, |framing| framing.stride() as u16),
        // Without a clock in the head, nothing is played and no duration is known.
        played: survey.finish().ok().and_then(|()| survey.played()),
        programmes: survey.programmes(),
        warnings: Warnings::default(), // most would be about the end of the head
    };
    let duration_us = description.played.and_then(|played| {
        let (first, early) = references(Deframer::new(), head, played.pcr_pid)?;
        let behind = Deframer::starting_at(size.saturating_sub(tail.len() as u64));
        let late = references(behind, tail, played.pcr_pid).map(|(_, last)| last);
        duration_us(first, early, late, size)
    });
    Ok(Estimate { description, duration_us })
}

/// Duration of `size` bytes, from the first reference and the last reference of the same time base.
fn duration_us(first: Reference, early: Reference, late: Option<Reference>, size: u64) -> Option<u64> {
    let by_head = scaled(first, early, size);
    let by_both = late.and_then(|late| scaled(first, late, size));
    let ticks = match (by_head, by_both) {
        (Some(head), Some(both)) if both > head * BELIEVED_FACTOR || head > both * BELIEVED_FACTOR => head,
        (_, Some(both)) => both,
        (head, None) => head?,
    };
    u64::try_from(ticks / u128::from(TICKS_PER_SECOND / 1_000_000)).ok()
}

/// Extrapolates the ticks of `size` bytes from the rate between two references.
fn scaled(first: Reference, last: Reference, size: u64) -> Option<u128> {
    let bytes = last.offset.checked_sub(first.offset).filter(|&bytes| bytes > 0)?;
    Some(u128::from(last.pcr.cyclic_since(first.pcr)) * u128::from(size) / u128::from(bytes))
}

/// First and last reference of a PID.
fn references(mut deframer: Deframer, bytes: &[u8], pid: u16) -> Option<(Reference, Reference)> {
    let mut found: Option<(Reference, Reference)> = None;
    let looked = each_run(&mut deframer, bytes, |run| {
        for (index, packet) in run.iter().enumerate() {
            if let Some(pcr) = reference(packet, pid) {
                let reference = Reference { offset: run.offset(index), pcr };
                found = Some((found.map_or(reference, |(first, _)| first), reference));
            }
        }
        true
    });
    looked.ok().and(found)
}

fn reference(bytes: &[u8; PACKET_LENGTH], pid: u16) -> Option<Pcr> {
    let packet = Packet::new(bytes).filter(|packet| packet.pid() == pid && !packet.transport_error())?;
    packet.adaptation()?.pcr()
}

/// Calls `take` for each run of whole packets in `bytes` until it returns `false`.
fn each_run(
    deframer: &mut Deframer,
    mut bytes: &[u8],
    mut take: impl FnMut(&Packets<'_>) -> bool,
) -> Result<(), NotTransportStream> {
    while let Some(event) = deframer.next(&mut bytes)? {
        if matches!(event, Event::Packets(run) if !take(&run)) {
            return Ok(());
        }
    }
    while let Some(event) = deframer.finish()? {
        if matches!(event, Event::Packets(run) if !take(&run)) {
            return Ok(());
        }
    }
    Ok(())
}
