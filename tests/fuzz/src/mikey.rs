//! The readers of MIKEY messages and of `KeyMgmt` headers: no bytes make them panic, and a key that was read is read again
//! from what is written for it.

use std::time::Duration;
use wirepath_media::rtcp::NtpTime;
use wirepath_media::srtp::{read_key_mgmt, read_mikey, write_mikey};

/// Reads `data` as a message, and as the value of a header.
pub fn fuzz(data: &[u8]) {
    let now = NtpTime::from_unix(Duration::from_secs(1_700_000_000));
    let in_header = std::str::from_utf8(data).ok().and_then(|value| read_key_mgmt(value).ok());
    for key in read_mikey(data).into_iter().chain(in_header) {
        assert_eq!(read_mikey(&write_mikey(&key, &[1; 20], now)), Ok(key));
    }
}
