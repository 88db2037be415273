//! Secure RTP and RTCP (RFC 3711) with AES-128 in counter mode and HMAC-SHA1, 80-bit tags:
//! AES_CM_128_HMAC_SHA1_80, the cipher suite that every client has.
//!
//! ```
//! use wirepath_media::rtp::Header;
//! use wirepath_media::srtp::{MasterKey, RtpProtector, TAG_LENGTH};
//!
//! let key = MasterKey::from([7; 30]);
//! let mut protector = RtpProtector::new(&key);
//! let header = Header { marker: false, payload_type: 33, sequence: 1, timestamp: 90, ssrc: 42 }.to_bytes();
//! let mut packet = vec![0; header.len() + 7 + TAG_LENGTH];
//! let index = protector.index(1)?;
//! protector.protect(index, &header, b"payload", &mut packet);
//! assert_ne!(packet[12..19], *b"payload");
//! # Ok::<(), wirepath_media::srtp::SequenceError>(())
//! ```

mod keys;
mod mikey;
mod rtcp;
mod rtp;

pub use keys::{MASTER_KEY_LENGTH, MasterKey};
pub use mikey::{MikeyError, read_mikey, write_mikey};
pub use rtcp::{RtcpProtector, RtcpUnprotector, UnprotectError};
pub use rtp::{RtpProtector, SequenceError};

/// Name of the cipher suite in SDP (RFC 4568 section 6.2).
pub const CIPHER_SUITE: &str = "AES_CM_128_HMAC_SHA1_80";

/// Bytes of the authentication tag behind each packet.
pub const TAG_LENGTH: usize = 10;

/// Lines of a media description that tell a key: MIKEY (RFC 4567), which GStreamer reads, and SDES (RFC 4568), which
/// ffmpeg reads. `random` is for the message of MIKEY.
pub fn key_attributes(
    key: &MasterKey,
    ssrc: u32,
    random: &[u8; 20],
    now: crate::rtcp::NtpTime,
) -> [(&'static str, String); 2] {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    let mikey = STANDARD.encode(write_mikey(key, ssrc, random, now));
    let inline = STANDARD.encode(key.as_bytes());
    [("key-mgmt", format!("mikey {mikey}")), ("crypto", format!("1 {CIPHER_SUITE} inline:{inline}"))]
}
