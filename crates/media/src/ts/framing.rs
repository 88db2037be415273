//! Framing of the packets of a transport stream in a file.

use super::packet::{PACKET_LENGTH, SYNC_BYTE};

/// Bytes of a file that are searched for the first packet.
pub const DETECTION_BYTES: u64 = 64 * 1024;

/// Consecutive sync bytes that prove a framing in an unknown file.
const DETECTION_RUN: usize = 5;

/// Consecutive sync bytes that prove that packets continue after damage. Fewer suffice, since the spacing is
/// known.
const RECOVERY_RUN: usize = 3;

/// Spacing of packets in a file. Bytes between packets are dropped: they are not part of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// 188 bytes: packets back to back.
    Bare,
    /// 192 bytes: each packet follows a 4-byte arrival time (M2TS, Blu-ray and camcorders).
    Timestamped,
    /// 204 bytes: each packet precedes 16 bytes of error correction (DVB and ISDB recorders).
    Protected,
}

/// Error of a file at whose beginning no packet is found. Its text is for files that
/// [`is_movie`](crate::container::is_movie) has examined before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an MPEG transport stream, MP4 or Matroska file: {}", fault(*.searched))]
pub struct NotTransportStream {
    /// Bytes that were searched, from the first byte on.
    pub searched: u64,
}

fn fault(searched: u64) -> String {
    match searched {
        0 => "the file is empty".to_owned(),
        _ => format!("no run of sync bytes 0x47 at 188, 192 or 204 bytes in the first {searched} bytes"),
    }
}

impl Framing {
    /// All framings, the most common first.
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

/// Result of a search for packets. Positions count from the first byte that was searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// First sync byte of a run.
    At { position: usize, framing: Framing },
    /// No run starts before `position`. More bytes are needed to judge the bytes after it, except at the end
    /// of the file.
    NotBefore { position: usize },
}

/// Checks by the beginning of a file that it is a transport stream; `is_whole` if `head` is the whole file.
///
/// # Errors
/// If no packets are found.
pub fn check_head(head: &[u8], is_whole: bool) -> Result<(), NotTransportStream> {
    match detect(head, is_whole) {
        Found::At { position, .. } if (position as u64) < DETECTION_BYTES => Ok(()),
        _ => Err(NotTransportStream { searched: DETECTION_BYTES.min(head.len() as u64) }),
    }
}

/// Searches the first packet of a file with unknown framing.
pub(super) fn detect(bytes: &[u8], complete: bool) -> Found {
    search(bytes, &Framing::ALL, DETECTION_RUN, complete)
}

/// Searches the next packet after a damaged place.
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

/// Returns whether a run of packets starts here. At the end of a file, two packets or the last one suffice.
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

/// Distance from the first byte of an arrival time to the sync byte: the high byte of arrival times can be
/// 0x47, too. Then the sync bytes are four bytes later.
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
        // Bytes after the searched ones prove a first packet at the end of the searched bytes.
        let junk = |length: u64| vec![1; length as usize];
        let long = packets(188).repeat(20);
        assert!(check_head(&[junk(DETECTION_BYTES - 300), long.clone()].concat(), false).is_ok());
        assert!(check_head(&[junk(DETECTION_BYTES), long].concat(), false).is_err());
        assert!(check_head(&b"const text = 'Good Golly'; ".repeat(100), false).is_err());
    }
}
