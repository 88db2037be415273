//! Encryption and decryption of RTCP packets (RFC 3711 section 3.4).

use aes::cipher::StreamCipher;

use super::TAG_LENGTH;
use super::keys::{MasterKey, SessionKeys, Use};

/// Unencrypted bytes: header and sender's SSRC of the first packet.
const CLEAR_LENGTH: usize = 8;

/// Bytes of the encryption flag and the index.
const INDEX_LENGTH: usize = 4;

const ENCRYPTED: u32 = 1 << 31;

/// Encrypts the RTCP packets of a source.
pub struct RtcpProtector {
    keys: SessionKeys,
    /// Index of the next packet: 31 bits.
    next: u32,
}

/// Decrypts the RTCP packets of a client.
pub struct RtcpUnprotector {
    keys: SessionKeys,
    /// Index of the last packet. Late packets are dropped, since later reports replace them.
    last: Option<u32>,
}

/// Error of a packet that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnprotectError {
    /// Packet that is too short for SRTCP.
    #[error("SRTCP: the packet is too short")]
    Short,
    /// Packet that was not sent by the owner of the key, or was changed.
    #[error("SRTCP: the authentication tag is wrong: another key, RTCP in the clear, or a changed packet")]
    Forged,
    /// Packet that was received before, or was sent before the last one.
    #[error("SRTCP: index {0} is not behind that of the last packet")]
    Replayed(u32),
}

impl RtcpProtector {
    /// Encryption for a source that has not sent any RTCP.
    pub fn new(key: &MasterKey) -> RtcpProtector {
        RtcpProtector { keys: SessionKeys::new(key, Use::Rtcp), next: 0 }
    }

    /// Encrypts a packet, and appends index and tag. `None` if the key has been used for 2^31 packets, or for
    /// a packet without a sender's SSRC.
    pub fn protect(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let index = self.next;
        let ssrc = ssrc(packet).filter(|_| index < ENCRYPTED)?;
        self.next += 1;
        let mut protected = Vec::with_capacity(packet.len() + INDEX_LENGTH + TAG_LENGTH);
        protected.extend_from_slice(packet);
        self.keys.key_stream(ssrc, index.into()).apply_keystream(&mut protected[CLEAR_LENGTH..]);
        protected.extend_from_slice(&(index | ENCRYPTED).to_be_bytes());
        let tag = self.keys.tag([&protected, &[]]);
        protected.extend_from_slice(&tag);
        Some(protected)
    }
}

impl RtcpUnprotector {
    /// Decryption for a client with its key.
    pub fn new(key: &MasterKey) -> RtcpUnprotector {
        RtcpUnprotector { keys: SessionKeys::new(key, Use::Rtcp), last: None }
    }

    /// Decrypts a packet.
    ///
    /// # Errors
    /// [`UnprotectError`]; the state does not change.
    pub fn unprotect(&mut self, packet: &[u8]) -> Result<Vec<u8>, UnprotectError> {
        let body = packet.len().checked_sub(INDEX_LENGTH + TAG_LENGTH).ok_or(UnprotectError::Short)?;
        let ssrc = ssrc(&packet[..body]).ok_or(UnprotectError::Short)?;
        let (signed, tag) = packet.split_at(body + INDEX_LENGTH);
        if !self.keys.is_authentic(signed, tag) {
            return Err(UnprotectError::Forged);
        }
        let (body, index) = signed.split_at(body);
        let word = u32::from_be_bytes(index.try_into().map_err(|_| UnprotectError::Short)?);
        let index = word & !ENCRYPTED;
        if self.last.is_some_and(|last| index <= last) {
            return Err(UnprotectError::Replayed(index));
        }
        self.last = Some(index);
        let mut clear = body.to_vec();
        if word & ENCRYPTED != 0 {
            self.keys.key_stream(ssrc, index.into()).apply_keystream(&mut clear[CLEAR_LENGTH..]);
        }
        Ok(clear)
    }
}

/// SSRC of the sender.
fn ssrc(packet: &[u8]) -> Option<u32> {
    packet.get(4..CLEAR_LENGTH)?.try_into().ok().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::srtp::tests::hex;
    use proptest::prelude::*;

    /// Compares with the packets in the tests of libsrtp (`test/srtp_driver.c`).
    #[test]
    fn reports_are_encrypted_as_libsrtp_does() {
        let master = hex("e1f97a0d3e018be0d64fa32c06de4139 0ec675ad498afeebb6960b3aabe6");
        let key = MasterKey::from(<[u8; 30]>::try_from(master).unwrap());
        let clear = hex("81c8000bcafebabe abababababababababababababababab");
        let expected = hex("81c8000bcafebabe 7128035be487b9bdbef89041f977a5a8 80000001 993e08cd54d6c1230798");
        let mut protector = RtcpProtector { next: 1, ..RtcpProtector::new(&key) };
        assert_eq!(protector.protect(&clear), Some(expected.clone()));
        let mut unprotector = RtcpUnprotector::new(&key);
        assert_eq!(unprotector.unprotect(&expected), Ok(clear));
        assert_eq!(unprotector.unprotect(&expected), Err(UnprotectError::Replayed(1)));
    }

    proptest! {
        /// Promise: Encrypted RTCP is decrypted to the original packet; changed or unencrypted RTCP is
        /// dropped.
        #[test]
        fn reports_come_back_unless_they_were_changed(
            packet in prop::collection::vec(any::<u8>(), 8..200), byte in any::<prop::sample::Index>(), with in 1..=255_u8,
        ) {
            let key = MasterKey::from([9; 30]);
            let mut protected = RtcpProtector::new(&key).protect(&packet).unwrap();
            prop_assert_eq!(RtcpUnprotector::new(&key).unprotect(&protected), Ok(packet.clone()));
            let clear = RtcpUnprotector::new(&key).unprotect(&packet);
            prop_assert!(matches!(clear, Err(UnprotectError::Short | UnprotectError::Forged)));
            let byte = byte.index(protected.len());
            protected[byte] ^= with;
            prop_assert_eq!(RtcpUnprotector::new(&key).unprotect(&protected), Err(UnprotectError::Forged));
        }

        #[test]
        fn no_packet_panics(packet in prop::collection::vec(any::<u8>(), 0..64)) {
            _ = RtcpUnprotector::new(&MasterKey::from([9; 30])).unprotect(&packet);
            _ = RtcpProtector::new(&MasterKey::from([9; 30])).protect(&packet);
        }
    }
}
