//! RTCP (RFC 3550 section 6). Writes sender reports and reads clients' packets; also the receiver's side.

mod ntp;
mod receiver;

pub use ntp::NtpTime;
pub use receiver::{FromSender, ReceiverState, read_from_sender};

use rtcp_types::prelude::*;
use rtcp_types::{
    Bye, Compound, CompoundBuilder, ReceiverReport, ReportBlock, Sdes, SdesChunk, SdesItem, SenderReport,
};
use std::time::Duration;

/// Longest canonical name in bytes (RFC 3550 section 6.5.1).
pub const CNAME_LIMIT: usize = 255;

/// Bytes of the first word of a packet, which contains its length (RFC 3550 section 6.4.1).
const HEADER_LENGTH: usize = 4;

/// Contents of a sender report (RFC 3550 section 6.4.1).
/// ```
/// use std::time::Duration;
/// use wirepath_media::rtcp::{self, NtpTime, SenderState};
///
/// let now = NtpTime::from_unix(Duration::from_secs(1_700_000_000));
/// let state = SenderState { ssrc: 7, now, timestamp: 90_000, packets: 100, octets: 131_600 };
/// let leaving = rtcp::read(&state.bye("wirepath@host"), |ssrc| ssrc == 7)?;
/// assert!(leaving.bye);
/// # Ok::<(), rtcp::NotRtcp>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderState {
    /// Synchronisation source of the sender.
    pub ssrc: u32,
    /// Time of the report.
    pub now: NtpTime,
    /// RTP timestamp of the same moment.
    pub timestamp: u32,
    /// Packets sent since the session began, modulo 2^32.
    pub packets: u32,
    /// Payload bytes sent since the session began, modulo 2^32.
    pub octets: u32,
}

/// Report block about one source (RFC 3550 section 6.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reception {
    /// Packets lost since the previous report, in 1/256 of those expected.
    pub fraction_lost: u8,
    /// Packets lost in total; negative if there were duplicates.
    pub cumulative_lost: i32,
    /// Highest sequence number received, extended by the number of wraps in its upper half.
    pub highest_sequence: u32,
    /// Interarrival jitter, in units of the RTP timestamp.
    pub jitter: u32,
    /// Middle 32 bits of the NTP time of the last sender report; 0 without a report.
    pub last_report: u32,
    /// Delay since the last sender report, in 1/65536 s.
    pub delay_since: u32,
}

/// Contents of a client's datagram that a sender uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Sources and their report blocks, only about the sender's own sources; at most 31 for each packet.
    pub receptions: Vec<(u32, Reception)>,
    /// True after BYE: the client leaves.
    pub bye: bool,
}

/// Error of a datagram that is not RTCP.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRtcp {
    /// A packet with an invalid length or version.
    #[error("not a compound RTCP packet: {0}")]
    Framing(#[from] rtcp_types::RtcpParseError),
    /// First packet that is not a report (RFC 3550 appendix A.2).
    #[error("begins with a packet of type {0}, not with a report")]
    First(u8),
}

impl SenderState {
    /// Sender report with the canonical name, truncated to [`CNAME_LIMIT`].
    pub fn report(&self, cname: &str) -> Vec<u8> {
        write(self.compound(cname_that_fits(cname)))
    }

    /// Sender report with BYE (RFC 3550 section 6.6), after which nothing is sent.
    pub fn bye(&self, cname: &str) -> Vec<u8> {
        write(self.compound(cname_that_fits(cname)).add_packet(Bye::builder().add_source(self.ssrc)))
    }

    fn compound<'a>(&self, cname: &'a str) -> CompoundBuilder<'a> {
        let report = SenderReport::builder(self.ssrc)
            .ntp_timestamp(self.now.to_bits())
            .rtp_timestamp(self.timestamp)
            .packet_count(self.packets)
            .octet_count(self.octets);
        let name = SdesChunk::builder(self.ssrc).add_item(SdesItem::builder(SdesItem::CNAME, cname));
        Compound::builder().add_packet(report).add_packet(Sdes::builder().add_chunk(name))
    }
}

impl Reception {
    /// Round-trip time from LSR and DLSR (RFC 3550 section 6.4.1); `None` if there was no sender report or
    /// the values are invalid.
    pub fn round_trip(&self, now: NtpTime) -> Option<Duration> {
        if self.last_report == 0 {
            return None;
        }
        let ticks = now.middle().wrapping_sub(self.last_report).wrapping_sub(self.delay_since);
        // Differences of more than half of the clock's range are negative: the client reports a longer delay
        // than the time since the report.
        (ticks < 1 << 31).then(|| Duration::from_micros((u64::from(ticks) * 1_000_000) >> 16))
    }

    fn from_block(block: &ReportBlock<'_>) -> Self {
        Self {
            fraction_lost: block.fraction_lost(),
            // Signed number of 24 bits.
            cumulative_lost: ((block.cumulative_lost() << 8) as i32) >> 8,
            highest_sequence: block.extended_sequence_number(),
            jitter: block.interarrival_jitter(),
            last_report: block.last_sender_report_timestamp(),
            delay_since: block.delay_since_last_sender_report_timestamp(),
        }
    }
}

/// Reads a datagram of a client, with report blocks about the sources for which `ours` returns `true`. Skips
/// other and invalid packets.
pub fn read(datagram: &[u8], ours: impl Fn(u32) -> bool) -> Result<Received, NotRtcp> {
    Compound::parse(datagram)?;
    if !matches!(datagram[1], SenderReport::PACKET_TYPE | ReceiverReport::PACKET_TYPE) {
        return Err(NotRtcp::First(datagram[1]));
    }
    let mut received = Received::default();
    let mut rest = datagram;
    while rest.len() >= HEADER_LENGTH {
        let words = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
        let (packet, behind) = rest.split_at((HEADER_LENGTH + 4 * words).min(rest.len()));
        read_packet(packet, &ours, &mut received);
        rest = behind;
    }
    Ok(received)
}

fn read_packet(packet: &[u8], ours: &impl Fn(u32) -> bool, received: &mut Received) {
    let mut take = |block: ReportBlock<'_>| {
        if ours(block.ssrc()) {
            received.receptions.push((block.ssrc(), Reception::from_block(&block)));
        }
    };
    match packet[1] {
        ReceiverReport::PACKET_TYPE => {
            _ = ReceiverReport::parse(packet).map(|report| report.report_blocks().for_each(&mut take));
        }
        SenderReport::PACKET_TYPE => {
            _ = SenderReport::parse(packet).map(|report| report.report_blocks().for_each(&mut take));
        }
        Bye::PACKET_TYPE => received.bye |= Bye::parse(packet).is_ok(),
        _ => {}
    }
}

fn cname_that_fits(cname: &str) -> &str {
    &cname[..cname.floor_char_boundary(CNAME_LIMIT)]
}

fn write(compound: CompoundBuilder<'_>) -> Vec<u8> {
    let mut bytes = vec![0; compound.calculate_size().expect("one source and a name that fits")];
    compound.write_into(&mut bytes).expect("the buffer has the size asked for");
    bytes
}

#[cfg(test)]
mod tests;
