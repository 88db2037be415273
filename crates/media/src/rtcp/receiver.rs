//! RTCP of a receiver of media (RFC 3550 sections 6.4.2 and 6.6).

use rtcp_types::{Compound, Packet, ReceiverReport, ReportBlock, Sdes, SdesChunk, SdesItem};

use super::{NotRtcp, Reception, cname_that_fits, write};

/// State of a receiver, for its reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverState {
    /// Synchronisation source of the receiver itself.
    pub ssrc: u32,
    /// Source and the report block about it; `None` before its first packet.
    pub reception: Option<(u32, Reception)>,
}

/// Contents of a sender's datagram that a receiver uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FromSender {
    /// Number of sender reports.
    pub reports: u32,
    /// Middle 32 bits of the NTP time of the last sender report, for the receiver's next report.
    pub last_report: Option<u32>,
    /// True after BYE: the sender has ended.
    pub bye: bool,
}

impl ReceiverState {
    /// Receiver report with the canonical name, truncated to [`CNAME_LIMIT`](super::CNAME_LIMIT).
    pub fn report(&self, cname: &str) -> Vec<u8> {
        let mut report = ReceiverReport::builder(self.ssrc);
        if let Some((source, reception)) = &self.reception {
            report = report.add_report_block(
                ReportBlock::builder(*source)
                    .fraction_lost(reception.fraction_lost)
                    .cumulative_lost(cumulative_bits(reception.cumulative_lost))
                    .extended_sequence_number(reception.highest_sequence)
                    .interarrival_jitter(reception.jitter)
                    .last_sender_report_timestamp(reception.last_report)
                    .delay_since_last_sender_report_timestamp(reception.delay_since),
            );
        }
        let name = SdesItem::builder(SdesItem::CNAME, cname_that_fits(cname));
        let names = Sdes::builder().add_chunk(SdesChunk::builder(self.ssrc).add_item(name));
        write(Compound::builder().add_packet(report).add_packet(names))
    }
}

/// Encodes a signed number in 24 bits.
fn cumulative_bits(lost: i32) -> u32 {
    const LIMIT: i32 = 1 << 23;
    lost.clamp(-LIMIT, LIMIT - 1) as u32 & 0xff_ffff
}

/// Reads a datagram of a sender of media.
///
/// # Errors
/// [`NotRtcp`] if the datagram is not a compound packet.
pub fn read_from_sender(datagram: &[u8]) -> Result<FromSender, NotRtcp> {
    let mut found = FromSender::default();
    for packet in Compound::parse(datagram)? {
        match packet {
            Ok(Packet::Sr(report)) => {
                found.reports += 1;
                found.last_report = Some((report.ntp_timestamp() >> 16) as u32);
            }
            Ok(Packet::Bye(_)) => found.bye = true,
            // Packets that are not used or invalid are skipped.
            _ => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtcp::{self, NtpTime, SenderState};
    use proptest::prelude::*;
    use std::time::Duration;

    #[test]
    fn a_sender_reads_what_a_receiver_writes() {
        let reception = Reception {
            fraction_lost: 64,
            cumulative_lost: -2,
            highest_sequence: 0x1_0007,
            jitter: 90,
            last_report: 0xb705_2000,
            delay_since: 0x5_4000,
        };
        let bytes = ReceiverState { ssrc: 9, reception: Some((7, reception)) }.report("client");
        let read = rtcp::read(&bytes, |ssrc| ssrc == 7).expect("valid");
        assert_eq!((read.receptions, read.bye), (vec![(7, reception)], false));
        let bytes = ReceiverState { ssrc: 9, reception: None }.report("client");
        assert_eq!(rtcp::read(&bytes, |ssrc| ssrc == 7).expect("valid").receptions, []);
        assert_eq!(cumulative_bits(i32::MAX), 0x7f_ffff);
    }

    #[test]
    fn a_receiver_reads_what_a_sender_writes() {
        let now = NtpTime::from_unix(Duration::from_secs(1_700_000_000));
        let state = SenderState { ssrc: 7, now, timestamp: 1, packets: 2, octets: 3 };
        let expected = FromSender { reports: 1, last_report: Some(now.middle()), bye: false };
        assert_eq!(read_from_sender(&state.report("server")), Ok(expected));
        assert_eq!(read_from_sender(&state.bye("server")), Ok(FromSender { bye: true, ..expected }));
        assert!(read_from_sender(b"neither").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            _ = read_from_sender(&bytes);
        }
    }
}
