//! Nonces without state: each names when, as which and for whom it was issued, under a code (HMAC) that only
//! this process can compute.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use ring::hmac::{HMAC_SHA256, Key, sign, verify};

use crate::algorithm::{hex, unhex};

/// Issues nonces and recognises them.
pub(crate) struct Nonces {
    key: Key,
    lifetime_ms: u64,
    issued: AtomicU64,
}

/// A nonce of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nonce {
    /// Its number; later nonces have higher ones.
    pub(crate) number: u64,
    /// Time at which it expires.
    pub(crate) expires_ms: u64,
}

impl Nonces {
    pub(crate) fn new(key: &[u8; 32], lifetime_ms: u64) -> Nonces {
        Nonces { key: Key::new(HMAC_SHA256, key), lifetime_ms, issued: AtomicU64::new(0) }
    }

    /// A new nonce, for this address and from this time on.
    pub(crate) fn issue(&self, client: IpAddr, now_ms: u64) -> String {
        let number = self.issued.fetch_add(1, Ordering::Relaxed);
        let head = [now_ms.to_be_bytes(), number.to_be_bytes()].concat();
        let code = sign(&self.key, &message(&head, client));
        hex(&[&head, code.as_ref()].concat())
    }

    /// Recognises a nonce that was issued to this address and has not expired.
    pub(crate) fn recognise(&self, text: &str, client: IpAddr, now_ms: u64) -> Option<Nonce> {
        let bytes = unhex(text)?;
        let (head, code) = bytes.split_at_checked(16)?;
        verify(&self.key, &message(head, client), code).ok()?;
        let number = |bytes: &[u8]| Some(u64::from_be_bytes(bytes.try_into().ok()?));
        let (issued_ms, number) = (number(&head[..8])?, number(&head[8..])?);
        let expires_ms = issued_ms.saturating_add(self.lifetime_ms);
        (now_ms < expires_ms).then_some(Nonce { number, expires_ms })
    }

    /// Compares two texts in a time that does not depend on where they differ: by codes of both.
    pub(crate) fn are_equal(&self, one: &str, other: &str) -> bool {
        verify(&self.key, one.as_bytes(), sign(&self.key, other.as_bytes()).as_ref()).is_ok()
    }
}

fn message(head: &[u8], client: IpAddr) -> Vec<u8> {
    match client.to_canonical() {
        IpAddr::V4(address) => [head, &address.octets()].concat(),
        IpAddr::V6(address) => [head, &address.octets()].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_for_one_address_and_time() {
        let nonces = Nonces::new(&[7; 32], 1000);
        let [client, other]: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap());
        let (first, second) = (nonces.issue(client, 50), nonces.issue(client, 50));
        assert_ne!(first, second, "two clients of one address must not share a count");
        let found = nonces.recognise(&second, client, 1049);
        assert_eq!(found, Some(Nonce { number: 1, expires_ms: 1050 }));
        assert_eq!(nonces.recognise(&second, "::ffff:10.0.0.1".parse().unwrap(), 60), found);
        assert_eq!(nonces.recognise(&second, client, 1050), None, "expired");
        assert_eq!(nonces.recognise(&second, other, 60), None, "another's");
        let changed = second.replacen("0", "1", 1);
        for text in [&changed, "", "00", "é", &second[..80]] {
            assert_eq!(nonces.recognise(text, client, 60), None, "{text}");
        }
        let stranger = Nonces::new(&[8; 32], 1000);
        assert_eq!(stranger.recognise(&second, client, 60), None, "another process's");
    }

    #[test]
    fn equality() {
        let nonces = Nonces::new(&[7; 32], 1000);
        assert!(nonces.are_equal("abc", "abc") && nonces.are_equal("", ""));
        assert!(!nonces.are_equal("abc", "abd") && !nonces.are_equal("abc", "ab"));
    }
}
