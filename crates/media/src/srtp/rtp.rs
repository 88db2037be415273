//! Encryption of RTP packets (RFC 3711 section 3.3).

use std::ops::Range;

use aes::cipher::StreamCipher;

use super::TAG_LENGTH;
use super::keys::{MasterKey, SessionKeys, Use};
use crate::rtp::HEADER_LENGTH;

/// Limit of the distance of sequence numbers from the last one: receivers take greater distances for older
/// packets.
const AHEAD_LIMIT: u16 = 1 << 15;

/// Place of the sequence number in the header (RFC 3550 section 5.1).
const SEQUENCE: Range<usize> = 2..4;

/// Most packets that may be encrypted with a key (RFC 3711 section 9.2).
const MOST_PACKETS: u64 = 1 << 48;

/// Encrypts the packets of a source. Indexes only increase, so that no two packets are encrypted with the
/// same key stream.
pub struct RtpProtector {
    keys: SessionKeys,
    /// Index of the last packet sent: rollover counter and sequence number (RFC 3711 section 3.3.1).
    last: Option<u64>,
}

/// Error: the key was used for as many packets as allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("SRTP: the key is used up after 2^48 packets; set up a new session")]
pub struct KeyUsedUp;

impl RtpProtector {
    /// Encryption for a source that has not sent any packets.
    pub fn new(key: &MasterKey) -> RtpProtector {
        RtpProtector { keys: SessionKeys::new(key, Use::Rtp), last: None }
    }

    /// Index of the next packet to send: from its sequence number, or the next index if a receiver could not
    /// take that number for a later one. So a gap of 32,768 packets or more is sent without a gap.
    ///
    /// # Errors
    /// [`KeyUsedUp`] after 2^48 packets.
    #[inline]
    pub fn index(&self, sequence: u16) -> Result<u64, KeyUsedUp> {
        let Some(last) = self.last else { return Ok(sequence.into()) };
        let ahead = match sequence.wrapping_sub(last as u16) {
            ahead @ 1..AHEAD_LIMIT => ahead,
            _ => 1,
        };
        Some(last + u64::from(ahead)).filter(|index| *index < MOST_PACKETS).ok_or(KeyUsedUp)
    }

    /// Writes the encrypted packet, with the sequence number of its index and its tag, to `packet`, which it
    /// fills. The extension, which belongs to the header, is not encrypted. A packet that was not sent may be
    /// written again with the same index, but no other packet.
    #[inline]
    pub fn protect(
        &self,
        index: u64,
        header: &[u8; HEADER_LENGTH],
        extension: &[u8],
        payload: &[u8],
        packet: &mut [u8],
    ) {
        let (body, tag) = packet.split_at_mut(HEADER_LENGTH + extension.len() + payload.len());
        let (clear, secret) = body.split_at_mut(HEADER_LENGTH + extension.len());
        clear[..HEADER_LENGTH].copy_from_slice(header);
        clear[HEADER_LENGTH..].copy_from_slice(extension);
        clear[SEQUENCE].copy_from_slice(&(index as u16).to_be_bytes());
        let ssrc = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
        let stream = &mut self.keys.key_stream(ssrc, index);
        stream.apply_keystream_b2b(payload, secret);
        let rollovers = (index >> 16) as u32;
        tag[..TAG_LENGTH].copy_from_slice(&self.keys.tag([body, &rollovers.to_be_bytes()]));
    }

    /// Notes that the packet with this index, and all packets before it, were sent.
    #[inline]
    pub fn note_sent(&mut self, index: u64) {
        self.last = Some(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::srtp::tests::hex;

    /// Compares with the packet in the tests of libsrtp (`test/srtp_driver.c`) and others.
    #[test]
    fn a_packet_is_encrypted_as_libsrtp_does() {
        let master = hex("e1f97a0d3e018be0d64fa32c06de4139 0ec675ad498afeebb6960b3aabe6");
        let key = MasterKey::from(<[u8; 30]>::try_from(master).unwrap());
        let clear = hex("800f1234decafbadcafebabe abababababababababababababababab");
        let expected = hex("800f1234decafbadcafebabe 4e55dc4ce79978d88ca4d215949d2402 b78d6acc99ea179b8dbb");
        let (header, payload) = clear.split_at(HEADER_LENGTH);
        let protector = RtpProtector::new(&key);
        let mut packet = vec![0; clear.len() + TAG_LENGTH];
        let index = protector.index(0x1234).unwrap();
        protector.protect(index, header.try_into().unwrap(), &[], payload, &mut packet);
        assert_eq!(packet, expected);
    }

    /// Promise: The SRTP rollover counter increases when sequence numbers wrap, also across a gap; no index
    /// is used twice.
    #[test]
    fn the_rollover_counter_goes_up_when_sequence_numbers_wrap() {
        let mut protector = RtpProtector::new(&MasterKey::from([1; 30]));
        for (sequence, index) in
            [(65_534, 65_534), (65_535, 65_535), (0, 65_536), (9, 65_545), (32_776, 98_312), (5, 131_077)]
        {
            assert_eq!(protector.index(sequence), Ok(index));
            protector.note_sent(index);
        }
        for sequence in [5, 4, 65_535, 32_773] {
            assert_eq!(protector.index(sequence), Ok(131_078), "the next, behind all that were used");
        }
        protector.note_sent(MOST_PACKETS - 1);
        assert_eq!(protector.index(0), Err(KeyUsedUp));
    }
}
