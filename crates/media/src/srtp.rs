//! Secure RTP and RTCP (RFC 3711) with AES-128 in counter mode and HMAC-SHA1 with 80-bit tags:
//! AES_CM_128_HMAC_SHA1_80, the cipher suite that every client supports.
//!
//! ```
//! use wirepath_media::rtp::Header;
//! use wirepath_media::srtp::{MasterKey, RtpProtector, TAG_LENGTH};
//!
//! let key = MasterKey::from([7; 30]);
//! let mut protector = RtpProtector::new(&key);
//! let header = Header { padding: false, marker: false, payload_type: 33, sequence: 1, timestamp: 90, ssrc: 42 }.to_bytes();
//! let mut packet = vec![0; header.len() + 7 + TAG_LENGTH];
//! let index = protector.index(1)?;
//! protector.protect(index, &header, &[], b"payload", &mut packet);
//! assert_ne!(packet[12..19], *b"payload");
//! # Ok::<(), wirepath_media::srtp::KeyUsedUp>(())
//! ```

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::rtcp::NtpTime;
use crate::rtsp::headers::split_outside_quotes;

mod keys;
mod mikey;
mod rtcp;
mod rtp;

pub use keys::{MASTER_KEY_LENGTH, MasterKey};
pub use mikey::{MikeyError, read_mikey, write_mikey};
pub use rtcp::{RtcpProtector, RtcpUnprotector, UnprotectError};
pub use rtp::{KeyUsedUp, RtpProtector};

/// Name of the cipher suite in SDP (RFC 4568 section 6.2).
pub const CIPHER_SUITE: &str = "AES_CM_128_HMAC_SHA1_80";

/// Bytes of the authentication tag at the end of each packet.
pub const TAG_LENGTH: usize = 10;

/// SDP attributes with a key: for MIKEY (RFC 4567), which GStreamer reads, and with `by_sdes` for SDES (RFC
/// 4568), which ffmpeg reads. `random` is for the MIKEY message.
pub fn key_attributes(key: &MasterKey, by_sdes: bool, random: &[u8; 20], now: NtpTime) -> KeyAttributes {
    let mikey = STANDARD.encode(write_mikey(key, random, now));
    let mut attributes = vec![("key-mgmt", format!("mikey {mikey}"))];
    if by_sdes {
        let inline = STANDARD.encode(key.as_bytes());
        attributes.push(("crypto", format!("1 {CIPHER_SUITE} inline:{inline}")));
    }
    attributes
}

/// Names and values of SDP attributes with a key.
pub type KeyAttributes = Vec<(&'static str, String)>;

/// Reads the key of a `KeyMgmt` header (RFC 4567 section 3.2): `prot=mikey;uri="...";data="..."`.
///
/// # Errors
/// [`MikeyError`], also if the protocol is not MIKEY or the data is not Base64.
pub fn read_key_mgmt(value: &str) -> Result<MasterKey, MikeyError> {
    let (mut protocol, mut data) = ("", "");
    for part in split_outside_quotes(value, ';') {
        match part.split_once('=').map(|(name, value)| (name.trim(), value.trim().trim_matches('"'))) {
            Some((name, value)) if name.eq_ignore_ascii_case("prot") => protocol = value,
            Some((name, value)) if name.eq_ignore_ascii_case("data") => data = value,
            _ => {}
        }
    }
    if !protocol.eq_ignore_ascii_case("mikey") {
        return Err(MikeyError::Unsupported("protocol: expected prot=mikey"));
    }
    read_mikey(&STANDARD.decode(data).map_err(|_| MikeyError::Unsupported("encoding: expected Base64"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes hexadecimal bytes.
    pub(super) fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let value = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(value).collect()
    }

    #[test]
    fn a_key_comes_back_from_a_header() {
        let key = MasterKey::from([4; 30]);
        let now = NtpTime::from_unix(Default::default());
        let attributes = key_attributes(&key, true, &[5; 20], now);
        assert_eq!(
            attributes[1].1,
            "1 AES_CM_128_HMAC_SHA1_80 inline:BAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE"
        );
        assert_eq!(key_attributes(&key, false, &[5; 20], now), attributes[..1]);
        let data = attributes[0].1.strip_prefix("mikey ").unwrap();
        // Header as GStreamer writes it.
        let header = format!("prot=mikey; uri=\"rtsps://127.0.0.1/a;b.ts/track1\"; data=\"{data}\"");
        assert_eq!(read_key_mgmt(&header), Ok(key));
        for wrong in
            ["", "prot=mikey", "prot=sdes;data=\"\"", "prot=mikey;data=\"*\"", "prot=mikey;data=\"AQ==\""]
        {
            assert!(read_key_mgmt(wrong).is_err(), "{wrong}");
        }
    }
}
