//! Encryption of single records: AES-256-GCM (NIST SP 800-38D, RFC 5116). Datagrams may be lost and
//! reordered, so records do not depend on each other: a missing or repeated record is not detected here.
//!
//! A sealed record is a nonce of 12 bytes, the encrypted bytes of the record, and a tag of 16 bytes. The
//! nonce is a random prefix of eight bytes, drawn when a handler is created and again every 2^32 records, and
//! the number of the record in four bytes. Among 2^16 handlers with one key, two draw the same prefix with a
//! probability of 1 in 2^33; change the key before more handlers use it.

use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::handler::{Common, HandlerError, Reach, Rewrite};
use crate::record::Piece;

const TAG: usize = 16;

/// A key of 32 bytes.
#[derive(Clone)]
pub struct Key(LessSafeKey);

/// Encrypts records. Reports `sealed` records.
pub struct Seal {
    key: Key,
    limit: usize,
    prefix: [u8; 8],
    next: u32,
    sealed: u64,
}

/// Decrypts records that [`Seal`] encrypted. Records that were sealed with another key or changed are
/// [refused](HandlerError::Refused). Reports `opened` and `refused` records.
pub struct Open {
    key: Key,
    limit: usize,
    opened: u64,
}

impl Key {
    /// A key from these bytes.
    pub fn new(bytes: &[u8; 32]) -> Key {
        let key = UnboundKey::new(&AES_256_GCM, bytes).expect("a key of 32 bytes");
        Key(LessSafeKey::new(key))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key")
    }
}

impl Seal {
    /// A handler of records of at most `limit` bytes; a longer record is refused.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn new(key: Key, limit: usize) -> Result<Seal, HandlerError> {
        let mut seal = Seal { key, limit, prefix: [0; 8], next: 0, sealed: 0 };
        seal.draw()?;
        Ok(seal)
    }

    fn draw(&mut self) -> Result<(), HandlerError> {
        // The old prefix would repeat nonces.
        getrandom::fill(&mut self.prefix)
            .map_err(|error| HandlerError::Failed(format!("no random bytes: {error}")))
    }

    fn nonce(&mut self) -> Result<[u8; NONCE_LEN], HandlerError> {
        let mut nonce = [0; NONCE_LEN];
        nonce[..8].copy_from_slice(&self.prefix);
        nonce[8..].copy_from_slice(&self.next.to_be_bytes());
        self.next = self.next.wrapping_add(1);
        if self.next == 0 {
            self.draw()?;
        }
        Ok(nonce)
    }
}

impl Common for Seal {
    fn name(&self) -> &'static str {
        "seal"
    }

    fn reach(&self) -> Reach {
        Reach::Slices { limit: self.limit }
    }

    fn report(&self) -> Vec<(&'static str, u64)> {
        vec![("sealed", self.sealed)]
    }
}

impl Rewrite for Seal {
    fn room(&self, length: usize) -> usize {
        NONCE_LEN + length + TAG
    }

    fn rewrite(&mut self, piece: Piece<'_>, out: &mut [u8]) -> Result<Option<usize>, HandlerError> {
        let nonce = self.nonce()?;
        let length = piece.length();
        let (head, rest) = out.split_at_mut(NONCE_LEN);
        let (body, rest) = rest.split_at_mut(length);
        head.copy_from_slice(&nonce);
        piece.copy_to(0, body);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self.key.0.seal_in_place_separate_tag(nonce, Aad::empty(), body);
        let tag =
            tag.map_err(|_| HandlerError::Failed(format!("a record of {length} bytes cannot be sealed")))?;
        rest[..TAG].copy_from_slice(tag.as_ref());
        self.sealed += 1;
        Ok(Some(NONCE_LEN + length + TAG))
    }
}

const NOT_OURS: &str = "decryption failed: wrong key, changed record, or not an encrypted record";

impl Open {
    /// A handler of sealed records of at most `limit` bytes; a longer record is refused.
    pub fn new(key: Key, limit: usize) -> Open {
        Open { key, limit, opened: 0 }
    }

    fn open(&self, sealed: Piece<'_>, out: &mut [u8]) -> Option<usize> {
        let mut nonce = [0; NONCE_LEN];
        if sealed.copy_to(0, &mut nonce) < NONCE_LEN {
            return None;
        }
        let nonce = Nonce::assume_unique_for_key(nonce);
        let length = sealed.copy_to(NONCE_LEN, out);
        let out = &mut out[..length];
        self.key.0.open_in_place(nonce, Aad::empty(), out).ok().map(|plain| plain.len())
    }
}

impl Common for Open {
    fn name(&self) -> &'static str {
        "open"
    }

    fn reach(&self) -> Reach {
        Reach::Slices { limit: self.limit }
    }

    fn report(&self) -> Vec<(&'static str, u64)> {
        vec![("opened", self.opened), ("refused", 0)] // the chain adds refused records
    }
}

impl Rewrite for Open {
    fn room(&self, length: usize) -> usize {
        length.saturating_sub(NONCE_LEN)
    }

    fn rewrite(&mut self, piece: Piece<'_>, out: &mut [u8]) -> Result<Option<usize>, HandlerError> {
        let opened = self.open(piece, out).ok_or_else(|| HandlerError::Refused(NOT_OURS.to_owned()))?;
        self.opened += 1;
        Ok(Some(opened))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seal(seal: &mut Seal, record: &[u8]) -> Vec<u8> {
        let mut sealed = vec![0; seal.room(record.len())];
        let length = seal.rewrite(Piece::whole(record), &mut sealed).unwrap().unwrap();
        assert_eq!(length, sealed.len());
        sealed
    }

    fn open(open: &mut Open, sealed: &[u8]) -> Option<Vec<u8>> {
        let mut plain = vec![0; open.room(sealed.len())];
        let length = open.rewrite(Piece::whole(sealed), &mut plain).ok()??;
        plain.truncate(length);
        Some(plain)
    }

    proptest! {
        /// Promise: A sealed record is opened only with the same key and if unchanged.
        #[test]
        fn what_is_sealed_is_opened_and_nothing_else(
            record in proptest::collection::vec(any::<u8>(), 0..200),
            key in any::<[u8; 32]>(),
            at in any::<usize>(),
            bit in 0u8..8,
        ) {
            let mut sealing = Seal::new(Key::new(&key), 1000).unwrap();
            let mut opening = Open::new(Key::new(&key), 1000);
            let mut sealed = seal(&mut sealing, &record);
            prop_assert_eq!(open(&mut opening, &sealed), Some(record.clone()));
            prop_assert_ne!(seal(&mut sealing, &record), sealed.clone(), "the same nonce twice");
            let length = sealed.len();
            sealed[at % length] ^= 1 << bit;
            prop_assert_eq!(open(&mut opening, &sealed), None);
            prop_assert_eq!(open(&mut opening, &sealed[..at % length]), None);
            prop_assert_eq!(opening.report(), [("opened", 1), ("refused", 0)], "who asks it counts those");
        }
    }

    /// Promise: A sealed record is opened only with the same key and if unchanged.
    ///
    /// Test case 14 of the GCM specification (McGrew and Viega): a key and nonce of zeros, 16 bytes of zeros.
    #[test]
    fn it_is_aes_256_gcm() {
        let mut sealing = Seal::new(Key::new(&[0; 32]), 1000).unwrap();
        (sealing.prefix, sealing.next) = ([0; 8], 0);
        let sealed = seal(&mut sealing, &[0; 16]);
        let expected = [
            0xce, 0xa7, 0x40, 0x3d, 0x4d, 0x60, 0x6b, 0x6e, 0x07, 0x4e, 0xc5, 0xd3, 0xba, 0xf3, 0x9d, 0x18,
            0xd0, 0xd1, 0xc8, 0xa7, 0x99, 0x99, 0x6b, 0xf0, 0x26, 0x5b, 0x98, 0xb5, 0xd4, 0x8a, 0xb9, 0x19,
        ];
        assert_eq!(sealed[NONCE_LEN..], expected);
    }

    #[test]
    fn a_new_prefix_is_drawn_when_numbers_are_used_up() {
        let mut sealing = Seal::new(Key::new(&[1; 32]), 1000).unwrap();
        sealing.next = u32::MAX;
        let (last, first) = (seal(&mut sealing, b"a"), seal(&mut sealing, b"a"));
        assert_ne!(last[..8], first[..8]);
        assert_eq!(first[8..12], [0; 4]);
    }
}
