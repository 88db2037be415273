//! Statistics and errors of the packets of each PID.

use serde::Serialize;

use crate::ts::{NULL_PID, Packet, Programme};

const PIDS: usize = 8192;

/// Statistics of a PID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PidReport {
    /// PID of the packets.
    pub pid: u16,
    /// Contents of the PID according to the tables, or "unlisted".
    pub role: String,
    /// ISO 639-2 code of the language, if the tables contain it.
    pub language: Option<String>,
    /// Number of packets.
    pub packets: u64,
    /// Number of continuity counter errors.
    pub continuity_errors: u64,
    /// Number of packets with the transport error indicator.
    pub transport_errors: u64,
    /// Number of scrambled packets.
    pub scrambled: u64,
}

#[derive(Debug)]
pub(super) struct PidCounters {
    counters: Box<[Counter]>,
}

#[derive(Clone, Debug, Default)]
struct Counter {
    packets: u64,
    continuity_errors: u64,
    transport_errors: u64,
    scrambled: u64,
    continuity: Option<u8>,
    repeated: bool,
}

impl Default for PidCounters {
    fn default() -> Self {
        Self { counters: vec![Counter::default(); PIDS].into() }
    }
}

impl PidCounters {
    pub(super) fn push(&mut self, packet: Packet<'_>) {
        self.counters[usize::from(packet.pid())].push(packet);
    }

    pub(super) fn report(&self, programmes: &[Programme]) -> Vec<PidReport> {
        let used = (0..).zip(&self.counters).filter(|(_, counter)| counter.packets > 0);
        used.map(|(pid, counter)| counter.report(pid, programmes)).collect()
    }
}

impl Counter {
    fn push(&mut self, packet: Packet<'_>) {
        self.packets += 1;
        self.transport_errors += u64::from(packet.transport_error());
        self.scrambled += u64::from(packet.scrambled());
        if packet.pid() != NULL_PID && !packet.transport_error() {
            self.continuity_errors += u64::from(!self.continues(packet));
            self.continuity = Some(packet.continuity());
        }
    }

    /// Returns whether the continuity counter is correct (ISO/IEC 13818-1 section 2.4.3.3). A packet may be
    /// sent twice.
    fn continues(&mut self, packet: Packet<'_>) -> bool {
        let Some(before) = self.continuity else { return true };
        let announced = packet.adaptation().is_some_and(|field| field.discontinuity());
        let same = packet.continuity() == before;
        let repeated = same && packet.has_payload();
        let twice = repeated && self.repeated;
        self.repeated = repeated;
        let next = packet.continuity() == (before + 1) & 0x0f;
        announced || if packet.has_payload() { next || (same && !twice) } else { same }
    }

    fn report(&self, pid: u16, programmes: &[Programme]) -> PidReport {
        let Self { packets, continuity_errors, transport_errors, scrambled, .. } = *self;
        let (role, language) = (role(pid, programmes), language(pid, programmes));
        PidReport { pid, role, language, packets, continuity_errors, transport_errors, scrambled }
    }
}

/// Contents of a PID, from ISO/IEC 13818-1 table 2-3, ETSI EN 300 468 table 1, and the programme maps.
fn role(pid: u16, programmes: &[Programme]) -> String {
    let fixed = match pid {
        0x00 => "PAT",
        0x01 => "CAT",
        0x10 => "NIT",
        0x11 => "SDT",
        0x12 => "EIT",
        0x14 => "TDT",
        NULL_PID => "null packets",
        _ => "",
    };
    if !fixed.is_empty() {
        return fixed.to_owned();
    }
    let of = |programme: &Programme| match programme.streams.iter().find(|stream| stream.pid == pid) {
        Some(stream) => Some(stream.codec.name().to_owned()),
        None if programme.pmt_pid == pid => Some(format!("PMT of programme {}", programme.number)),
        None if programme.pcr_pid == Some(pid) => Some(format!("clock of programme {}", programme.number)),
        None => None,
    };
    programmes.iter().find_map(of).unwrap_or_else(|| "unlisted".to_owned())
}

fn language(pid: u16, programmes: &[Programme]) -> Option<String> {
    let mut streams = programmes.iter().flat_map(|programme| &programme.streams);
    streams.find(|stream| stream.pid == pid)?.language.clone()
}
