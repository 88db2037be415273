//! Framing of the packets of a transport stream in a file.

use super::packet::{PACKET_LENGTH, SYNC_BYTE};

/// Bytes of a file that are searched for the first packet.
pub const DETECTION_BYTES: u64 = 64 * 1024;

/// Sync bytes in a row that prove a framing in an unknown file.
const DETECTION_RUN: usize = 5;

/// Sync bytes in a row that prove that packets go on after damage. The spacing is known, so fewer suffice.
const RECOVERY_RUN: usize = 3;

/// The spacing of packets in a file. What lies between them is dropped: it is not part of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// 188 bytes: packets back to back.
    Bare,
    /// 192 bytes: each packet after a 4-byte arrival time (M2TS, Blu-ray and camcorders).
    Timestamped,
    /// 204 bytes: each packet before 16 bytes of error correction (DVB and ISDB recorders).
    Protected,
}

/// Fault of a file at whose head no packet is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an MPEG transport stream: {}", fault(*.searched))]
pub struct NotTransportStream {
    /// Bytes that were searched, from the first.
    pub searched: u64,
}

fn fault(searched: u64) -> String {
    match searched {
        0 => "the file is empty".to_owned(),
        _ => format!("no run of sync bytes 0x47 at 188, 192 or 204 bytes in the first {searched} bytes"),
    }
}

impl Framing {
    /// All framings, the most usual first.
    pub const ALL: [Self; 3] = [Self::Bare, Self::Timestamped, Self::Protected];

    /// Bytes from one sync byte to the next.
    #[inline]
    pub fn stride(self) -> usize {
        match self {
            Self::Bare => PACKET_LENGTH,
            Self::Timestamped => PACKET_LENGTH + 4,
            Self::Protected => PACKET_LENGTH + 16,
        }
    }

    /// Bytes before the first sync byte of an undamaged file.
    pub fn prefix(self) -> usize {
        if self == Self::Timestamped { 4 } else { 0 }
    }
}

/// Result of a search for packets. Positions count from the first byte searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The first sync byte of a run.
    At { position: usize, framing: Framing },
    /// No run starts before `position`; from there on more bytes are needed, or at the end there is none.
    NotBefore { position: usize },
}

/// Checks by its head that a file is a transport stream; `is_whole` if the head is all of it.
///
/// # Errors
/// If no packets are found.
pub fn check_head(head: &[u8], is_whole: bool) -> Result<(), NotTransportStream> {
    match detect(head, is_whole) {
        Found::At { position, .. } if (position as u64) < DETECTION_BYTES => Ok(()),
        _ => Err(NotTransportStream { searched: DETECTION_BYTES.min(head.len() as u64) }),
    }
}

/// Looks for the first packet of a file whose framing is not known.
pub(super) fn detect(bytes: &[u8], complete: bool) -> Found {
    search(bytes, &Framing::ALL, DETECTION_RUN, complete)
}

/// Looks for the next packet after a damaged place.
pub(super) fn recover(bytes: &[u8], framing: Framing, complete: bool) -> Found {
    search(bytes, &[framing], RECOVERY_RUN, complete)
}

fn search(bytes: &[u8], framings: &[Framing], run: usize, complete: bool) -> Found {
    let mut position = 0;
    while let Some(distance) = bytes[position..].iter().position(|&byte| byte == SYNC_BYTE) {
        position += distance;
        for &framing in framings {
            match prove(&bytes[position..], framing, run, complete) {
                Proof::Holds => {
                    let position = position + arrival_time_shift(&bytes[position..], framing, run);
                    return Found::At { position, framing };
                }
                Proof::NeedsMore => return Found::NotBefore { position },
                Proof::Fails => {}
            }
        }
        position += 1;
    }
    Found::NotBefore { position: bytes.len() }
}

enum Proof {
    Holds,
    Fails,
    NeedsMore,
}

/// Returns whether a run of packets starts here; at the end of a file, two or the last one suffice.
fn prove(bytes: &[u8], framing: Framing, run: usize, complete: bool) -> Proof {
    let stride = framing.stride();
    let seen = bytes.iter().step_by(stride).take(run).take_while(|&&byte| byte == SYNC_BYTE).count();
    let possible = bytes.len().div_ceil(stride).min(run);
    let rest = bytes.len() - PACKET_LENGTH.min(bytes.len());
    match () {
        () if seen == run => Proof::Holds,
        () if seen < possible => Proof::Fails,
        () if !complete => Proof::NeedsMore,
        () if bytes.len() >= PACKET_LENGTH && (seen >= 2 || rest == 0 || rest == stride - PACKET_LENGTH) => {
            Proof::Holds
        }
        () => Proof::Fails,
    }
}

/// The high byte of an arrival time can be 0x47, too; then the sync bytes are four bytes on.
fn arrival_time_shift(bytes: &[u8], framing: Framing, run: usize) -> usize {
    let shift = framing.prefix();
    let later = bytes.get(shift..).unwrap_or_default();
    let both = shift > 0 && matches!(prove(later, framing, run - 1, true), Proof::Holds);
    if both { shift } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(lead: &[u8], framing: Framing, packets: usize) -> Vec<u8> {
        let mut bytes = lead.to_vec();
        for _ in 0..packets {
            bytes.extend(vec![0x11; framing.prefix()]);
            bytes.push(SYNC_BYTE);
            bytes.extend(vec![0; framing.stride() - framing.prefix() - 1]);
        }
        bytes
    }

    #[test]
    fn finds_each_framing_some_bytes_into_the_file() {
        for framing in Framing::ALL {
            for (lead, byte) in [(0, 0), (1, 0x47), (3, 0x47), (187, 0x47), (500, 0x46)] {
                let bytes = file(&vec![byte; lead], framing, 9);
                let position = lead + framing.prefix();
                assert_eq!(
                    detect(&bytes, false),
                    Found::At { position, framing },
                    "{framing:?} after {lead}"
                );
            }
        }
    }

    #[test]
    fn short_files_are_judged_by_their_end() {
        for framing in Framing::ALL {
            for packets in 2..5 {
                let bytes = file(&[], framing, packets);
                assert!(matches!(detect(&bytes, false), Found::NotBefore { .. }));
                assert_eq!(detect(&bytes, true), Found::At { position: framing.prefix(), framing });
            }
        }
        assert_eq!(detect(b"GIF89a", true), Found::NotBefore { position: 6 });
    }

    #[test]
    fn arrival_times_that_look_like_sync_bytes_are_not_taken_for_them() {
        let mut bytes = file(&[], Framing::Timestamped, 9);
        bytes.iter_mut().step_by(192).for_each(|byte| *byte = SYNC_BYTE);
        assert_eq!(detect(&bytes, false), Found::At { position: 4, framing: Framing::Timestamped });
    }

    /// Promise: A file is offered for playback if it begins like a transport stream.
    #[test]
    fn streams_are_told_from_other_files_by_their_heads() {
        let packets = |length: usize| [vec![0x47], vec![0; length - 1]].concat().repeat(3);
        for length in [188, 192, 204] {
            assert!(check_head(&packets(length), true).is_ok(), "packets of {length} bytes");
        }
        assert!(check_head(&[vec![1; 100], packets(188)].concat(), true).is_ok(), "the first packet is cut");
        assert!(check_head(&packets(188)[..188], true).is_ok(), "one packet");
        assert!(check_head(b"", true).is_err() && check_head(b"G", true).is_err(), "too short for a packet");
        // Bytes behind those that are searched prove a first packet at their end.
        let junk = |length: u64| vec![1; length as usize];
        let long = packets(188).repeat(20);
        assert!(check_head(&[junk(DETECTION_BYTES - 300), long.clone()].concat(), false).is_ok());
        assert!(check_head(&[junk(DETECTION_BYTES), long].concat(), false).is_err());
        assert!(check_head(&b"const text = 'Good Golly'; ".repeat(100), false).is_err());
    }
}
