//! RFC 7616 section 3.4: the hashes.

use std::fmt::Write;

use md5::{Digest, Md5};
use ring::digest::{SHA256, digest};

/// Hash function of a challenge and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// SHA-256.
    Sha256,
    /// MD5, which is what the players of today know.
    Md5,
}

impl Algorithm {
    /// All algorithms, the strongest first. ffmpeg, GStreamer and live555 take the last challenge, whatever its
    /// algorithm, and hash with MD5; clients that choose take the first that they know.
    pub const ALL: [Algorithm; 2] = [Algorithm::Sha256, Algorithm::Md5];

    /// Name in headers.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Sha256 => "SHA-256",
            Algorithm::Md5 => "MD5",
        }
    }

    /// The algorithm of this name, in any case.
    pub fn named(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
    }

    /// Hexadecimal digits of a hash.
    pub fn digits(self) -> usize {
        match self {
            Algorithm::Sha256 => 64,
            Algorithm::Md5 => 32,
        }
    }

    /// Hash of the parts, joined by colons, in lower-case hexadecimal digits.
    pub(crate) fn hash(self, parts: &[&str]) -> String {
        let joined = parts.join(":");
        match self {
            Algorithm::Sha256 => hex(digest(&SHA256, joined.as_bytes()).as_ref()),
            Algorithm::Md5 => hex(Md5::digest(joined.as_bytes()).as_slice()),
        }
    }
}

/// Hash of a password, which stands in a file of users: `HA1` (RFC 7616 section 3.4.2).
pub fn user_hash(algorithm: Algorithm, user: &str, realm: &str, password: &str) -> String {
    algorithm.hash(&[user, realm, password])
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string does not fail");
        text
    })
}

/// Bytes of hexadecimal digits.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16);
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some((digit(pair[0])? * 16 + digit(*pair.get(1)?)?) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_back() {
        assert_eq!(unhex(&hex(&[0, 0xab, 0xff])), Some(vec![0, 0xab, 0xff]));
        assert_eq!((unhex("a"), unhex("0g"), unhex("é")), (None, None, None));
    }

    #[test]
    fn known_hashes() {
        // RFC 2617 section 3.5.
        let hash = user_hash(Algorithm::Md5, "Mufasa", "testrealm@host.com", "Circle Of Life");
        assert_eq!(hash, "939e7578ed9e3c518a452acee763bce9");
        assert_eq!(Algorithm::Sha256.hash(&["abc"]).len(), Algorithm::Sha256.digits());
        assert!(Algorithm::Sha256.hash(&["abc"]).starts_with("ba7816bf"));
        assert_eq!(Algorithm::named("sha-256"), Some(Algorithm::Sha256));
        assert_eq!(Algorithm::named("MD5-sess"), None);
    }
}
