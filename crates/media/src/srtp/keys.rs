//! Master keys, and session keys derived from them (RFC 3711 section 4.3).

use std::fmt;

use aes::Aes128Enc;
use aes::cipher::{InnerIvInit, KeyInit, StreamCipher};
use ctr::{Ctr128BE, CtrCore, flavors::Ctr128BE as Counter};
use hmac::{Hmac, Mac};
use sha1::Sha1;
use subtle::ConstantTimeEq;

use super::TAG_LENGTH;

/// Bytes of a master key and its salt.
pub const MASTER_KEY_LENGTH: usize = KEY_LENGTH + SALT_LENGTH;

const KEY_LENGTH: usize = 16;
pub(super) const SALT_LENGTH: usize = 14;
const AUTHENTICATION_KEY_LENGTH: usize = 20;

/// Master key and master salt of a stream.
#[derive(Clone, PartialEq, Eq)]
pub struct MasterKey([u8; MASTER_KEY_LENGTH]);

impl From<[u8; MASTER_KEY_LENGTH]> for MasterKey {
    fn from(bytes: [u8; MASTER_KEY_LENGTH]) -> MasterKey {
        MasterKey(bytes)
    }
}

impl fmt::Debug for MasterKey {
    /// Hides the key, so that logs never contain it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("MasterKey(..)")
    }
}

impl MasterKey {
    /// Returns the key followed by the salt.
    pub fn as_bytes(&self) -> &[u8; MASTER_KEY_LENGTH] {
        &self.0
    }
}

/// Protocol of session keys: the first of its three labels (RFC 3711 section 4.3.2).
#[derive(Clone, Copy, Debug)]
pub(super) enum Use {
    Rtp = 0,
    Rtcp = 3,
}

/// Session keys of RTP or RTCP.
pub(super) struct SessionKeys {
    cipher: Aes128Enc,
    salt: [u8; SALT_LENGTH],
    authentication: Hmac<Sha1>,
}

impl SessionKeys {
    pub(super) fn new(key: &MasterKey, purpose: Use) -> SessionKeys {
        let label = purpose as u8;
        let encryption: [u8; KEY_LENGTH] = derive(key, label);
        let authentication: [u8; AUTHENTICATION_KEY_LENGTH] = derive(key, label + 1);
        SessionKeys {
            cipher: Aes128Enc::new(&encryption.into()),
            salt: derive(key, label + 2),
            authentication: Hmac::new_from_slice(&authentication).expect("HMAC takes a key of any length"),
        }
    }

    /// Returns the key stream of a packet (RFC 3711 section 4.1.1).
    #[inline]
    pub(super) fn key_stream(&self, ssrc: u32, index: u64) -> impl StreamCipher + '_ {
        let mut block = [0; KEY_LENGTH];
        block[..SALT_LENGTH].copy_from_slice(&self.salt);
        xor(&mut block[4..8], &ssrc.to_be_bytes());
        xor(&mut block[8..14], &index.to_be_bytes()[2..]);
        counter_mode(&self.cipher, block)
    }

    /// Computes the tag of a packet, given in two consecutive parts.
    #[inline]
    pub(super) fn tag(&self, parts: [&[u8]; 2]) -> [u8; TAG_LENGTH] {
        let mut mac = self.authentication.clone();
        parts.iter().for_each(|part| mac.update(part));
        let mut tag = [0; TAG_LENGTH];
        tag.copy_from_slice(&mac.finalize().into_bytes()[..TAG_LENGTH]);
        tag
    }

    /// Returns whether the tag of a packet is correct. Compares in constant time.
    pub(super) fn is_authentic(&self, packet: &[u8], tag: &[u8]) -> bool {
        self.tag([packet, &[]]).ct_eq(tag).into()
    }
}

/// Derives key material for a label (AES in counter mode), with a key derivation rate of 0.
fn derive<const LENGTH: usize>(key: &MasterKey, label: u8) -> [u8; LENGTH] {
    let (master, salt) = key.0.split_at(KEY_LENGTH);
    let mut block = [0; KEY_LENGTH];
    block[..SALT_LENGTH].copy_from_slice(salt);
    block[7] ^= label;
    let cipher = Aes128Enc::new_from_slice(master).expect("the key has its length");
    let mut material = [0; LENGTH];
    counter_mode(&cipher, block).apply_keystream(&mut material);
    material
}

/// Makes AES in counter mode with a counter of 128 bits. The counter of SRTP has 16 of these bits, and no
/// packet has more blocks than that.
#[inline]
fn counter_mode(cipher: &Aes128Enc, block: [u8; KEY_LENGTH]) -> Ctr128BE<&Aes128Enc> {
    Ctr128BE::from_core(CtrCore::<_, Counter>::inner_iv_init(cipher, &block.into()))
}

fn xor(bytes: &mut [u8], with: &[u8]) {
    bytes.iter_mut().zip(with).for_each(|(byte, with)| *byte ^= with);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::srtp::tests::hex;

    /// Promise: SRTP session keys are those of the test vectors of RFC 3711, appendix B.3.
    #[test]
    fn session_keys_are_those_of_the_rfc() {
        let master = hex("E1F97A0D3E018BE0D64FA32C06DE4139 0EC675AD498AFEEBB6960B3AABE6");
        let key = MasterKey(master.try_into().unwrap());
        assert_eq!(derive::<16>(&key, 0).to_vec(), hex("C61E7A93744F39EE10734AFE3FF7A087"));
        assert_eq!(derive::<14>(&key, 2).to_vec(), hex("30CBBC08863D8C85D49DB34A9AE1"));
        let authentication = hex(
            "CEBE321F6FF7716B6FD4AB49AF256A15 6D38BAA48F0A0ACF3C34E2359E6CDBCE E049646C43D9327AD175578EF7227098 \
             6371C10C9A369AC2F94A8C5FBCDDDC25 6D6E919A48B610EF17C2041E47403576 6B68642C59BBFC2F34DB60DBDFB2",
        );
        assert_eq!(derive::<94>(&key, 1).to_vec(), authentication);
    }

    /// Promise: The key stream of SRTP is that of the test vectors of RFC 3711, appendix B.2, to its last block.
    #[test]
    fn the_key_stream_is_that_of_the_rfc() {
        let key = hex("2B7E151628AED2A6ABF7158809CF4F3C");
        let keys = SessionKeys {
            cipher: Aes128Enc::new_from_slice(&key).unwrap(),
            salt: hex("F0F1F2F3F4F5F6F7F8F9FAFBFCFD").try_into().unwrap(),
            authentication: Hmac::new_from_slice(&[0; 20]).unwrap(),
        };
        let mut stream = vec![0; 0xff02 * 16];
        keys.key_stream(0, 0).apply_keystream(&mut stream);
        for (block, expected) in [
            (0, "E03EAD0935C95E80E166B16DD92B4EB4"),
            (1, "D23513162B02D0F72A43A2FE4A5F97AB"),
            (2, "41E95B3BB0A2E8DD477901E4FCA894C0"),
            (0xfeff, "EC8CDF7398607CB0F2D21675EA9EA1E4"),
            (0xff00, "362B7C3C6773516318A077D7FC5073AE"),
            (0xff01, "6A2CC3787889374FBEB4C81B17BA6C44"),
        ] {
            assert_eq!(stream[block * 16..][..16], hex(expected), "block {block}");
        }
    }

    #[test]
    fn keys_are_not_printed() {
        assert_eq!(format!("{:?}", MasterKey([7; 30])), "MasterKey(..)");
    }
}
