//! The RTP header extension of ONVIF replay (ONVIF Streaming Specification, section "RTP header extension").

use std::time::Duration;

use crate::rtcp::NtpTime;

/// Length of the extension in bytes: its header, and three words.
pub const EXTENSION_LENGTH: usize = 16;

/// Extension bit in the first octet of an RTP header (RFC 3550 section 5.1).
pub const EXTENSION_BIT: u8 = 0x10;

/// Identifier of the extension.
const IDENTIFIER: u16 = 0xabac;
/// Number of words after the extension's header.
const WORDS: u16 = 3;

/// Flags.
const CLEAN: u8 = 0x80;
const END: u8 = 0x40;
const DISCONTINUITY: u8 = 0x20;
const TERMINAL: u8 = 0x10;

/// Extension of a packet.
/// ```
/// use wirepath_media::replay::Extension;
///
/// let extension = Extension { wall_us: 1_500_000, clean: true, cseq: 7, ..Extension::default() };
/// let bytes = extension.to_bytes();
/// assert_eq!(bytes[..4], [0xab, 0xac, 0, 3]);
/// assert_eq!(bytes[8..], [0x80, 0, 0, 0, 0x80, 7, 0, 0]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extension {
    /// Time of the access unit when it was recorded, in microseconds since 1970.
    pub wall_us: i64,
    /// C: the access unit is a random access point.
    pub clean: bool,
    /// E: it is the last one before a gap or the end of the recordings.
    pub end: bool,
    /// D: it does not follow the one before in the recording.
    pub discontinuity: bool,
    /// T: no more data follow.
    pub terminal: bool,
    /// Low byte of the CSeq of the PLAY that requested it.
    pub cseq: u8,
}

impl Extension {
    /// Encodes the extension.
    #[inline]
    pub fn to_bytes(self) -> [u8; EXTENSION_LENGTH] {
        let since_1970 = Duration::from_micros(self.wall_us.max(0).unsigned_abs());
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let mut bytes = [0; EXTENSION_LENGTH];
        bytes[..2].copy_from_slice(&IDENTIFIER.to_be_bytes());
        bytes[2..4].copy_from_slice(&WORDS.to_be_bytes());
        bytes[4..12].copy_from_slice(&NtpTime::from_unix(since_1970).to_bits().to_be_bytes());
        bytes[12] = flag(self.clean, CLEAN)
            | flag(self.end, END)
            | flag(self.discontinuity, DISCONTINUITY)
            | flag(self.terminal, TERMINAL);
        bytes[13] = self.cseq;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: The extension of ONVIF replay has the bytes of the specification.
    #[test]
    fn an_extension_has_the_bytes_of_the_specification() {
        // RFC 3550 section 6.4.1, figure 2: 10 Nov 1995, 11:33:25.125 UTC is 0xb44db705:20000000.
        let extension = Extension { wall_us: 816_003_205_125_000, cseq: 0x7b, ..Extension::default() };
        let bytes = |extension: Extension| extension.to_bytes();
        assert_eq!(
            bytes(extension),
            [0xab, 0xac, 0, 3, 0xb4, 0x4d, 0xb7, 0x05, 0x20, 0, 0, 0, 0, 0x7b, 0, 0]
        );
        let flags = |extension: Extension| bytes(extension)[12];
        assert_eq!(flags(Extension { clean: true, ..extension }), 0b1000_0000);
        assert_eq!(flags(Extension { end: true, ..extension }), 0b0100_0000);
        assert_eq!(flags(Extension { discontinuity: true, ..extension }), 0b0010_0000);
        assert_eq!(flags(Extension { terminal: true, ..extension }), 0b0001_0000);
    }
}
