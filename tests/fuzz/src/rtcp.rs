//! The RTCP reader: no datagram makes it panic or find more reports than fit into it.

use std::time::Duration;
use wirepath_media::rtcp::{self, NtpTime};

/// Reads `data` as a client's datagram about the source that its first four bytes name.
pub fn fuzz(data: &[u8]) {
    let Some((ssrc, datagram)) = data.split_first_chunk() else { return };
    let source = u32::from_be_bytes(*ssrc);
    if let Ok(received) = rtcp::read(datagram, |ssrc| ssrc == source) {
        assert!(received.receptions.len() * 24 <= datagram.len());
        let now = NtpTime::from_unix(Duration::from_secs(1_700_000_000));
        assert!(
            received
                .receptions
                .iter()
                .all(|(_, reception)| reception.round_trip(now) < Some(Duration::from_secs(32_769)))
        );
    }
}
