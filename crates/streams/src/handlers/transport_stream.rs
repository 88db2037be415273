//! Filter for parts of an MPEG transport stream (ISO/IEC 13818-1): some PIDs, or one programme.

use bytes::Bytes;
use wirepath_datapath::datagrams;
use wirepath_media::ts::{PACKET_LENGTH, Packet, Psi, association};

use crate::handler::{Common, Frame, HandlerError, Reach, Select};
use crate::record::Piece;

const ASSOCIATION: u16 = 0;

const PIDS: usize = 1 << 13;

/// Most programmes that are listed in an error.
const NAMED: usize = 16;

/// Keeps some packets of a transport stream. Records must consist of whole packets, as they do with
/// [`Framing::transport_stream`](crate::Framing::transport_stream) and in datagrams of transport streams.
/// Nothing is copied. Reports `kept` and `dropped` packets; for a programme also `found`: 1 if the programme
/// was ever in the stream, else 0.
pub struct TransportStreamFilter {
    programme: Option<Followed>,
    /// A bit for each PID.
    kept_pids: [u64; PIDS / 64],
    kept: u64,
    dropped: u64,
}

/// Programme to keep.
struct Followed {
    number: u16,
    tables: Psi,
    /// PID of the programme's map table, as in the generated association table.
    map_pid: Option<u16>,
    /// True if a table of the stream has listed the programme.
    found: bool,
    /// Version of the generated table, and the continuity counter of the next packet with it.
    version: u8,
    continuity: u8,
}

impl TransportStreamFilter {
    /// Keeps packets of these PIDs.
    pub fn pids(pids: impl IntoIterator<Item = u16>) -> TransportStreamFilter {
        let mut filter =
            TransportStreamFilter { programme: None, kept_pids: [0; PIDS / 64], kept: 0, dropped: 0 };
        pids.into_iter().for_each(|pid| filter.keep(pid));
        filter
    }

    /// Keeps one programme: its map, clock and streams, which may change at any time, and a generated
    /// association table with only this programme. Nothing passes until the programme's tables have come. If
    /// a stream ends and never had the programme, it ends with an error that lists its programmes.
    pub fn programme(number: u16) -> TransportStreamFilter {
        let tables = Psi::new();
        let followed = Followed { number, tables, map_pid: None, found: false, version: 0, continuity: 0 };
        TransportStreamFilter { programme: Some(followed), ..TransportStreamFilter::pids([]) }
    }

    fn keep(&mut self, pid: u16) {
        let pid = usize::from(pid) % PIDS;
        self.kept_pids[pid / 64] |= 1 << (pid % 64);
    }

    fn keeps(&self, pid: u16) -> bool {
        let pid = usize::from(pid) % PIDS;
        self.kept_pids[pid / 64] >> (pid % 64) & 1 == 1
    }

    /// Reads a table; returns a packet with the generated table that replaces it.
    fn read_table(&mut self, packet: Packet<'_>) -> Option<Bytes> {
        let followed = self.programme.as_mut()?;
        if !followed.tables.reads(packet.pid()) {
            return None;
        }
        if followed.tables.push(packet) {
            self.follow();
        }
        let followed = self.programme.as_mut()?;
        let is_due = packet.pid() == ASSOCIATION && packet.payload_unit_start();
        let map_pid = followed.map_pid.filter(|_| is_due)?;
        let table = association(followed.number, map_pid, followed.version, followed.continuity);
        followed.continuity = (followed.continuity + 1) % 16;
        Some(Bytes::copy_from_slice(&table))
    }

    /// Updates the PIDs of the programme after tables changed.
    fn follow(&mut self) {
        let Some(followed) = &mut self.programme else { return };
        let map_pid = followed.tables.map_pid(followed.number);
        followed.found |= map_pid.is_some();
        if map_pid != followed.map_pid {
            followed.map_pid = map_pid;
            followed.version = (followed.version + 1) % 32;
        }
        let mut pids: Vec<u16> = map_pid.into_iter().collect();
        let programmes = followed.tables.current_programmes().flatten();
        if let Some(programme) = programmes.into_iter().find(|programme| programme.number == followed.number)
        {
            pids.extend(programme.pcr_pid);
            pids.extend(programme.streams.iter().map(|stream| stream.pid));
        }
        self.kept_pids = [0; PIDS / 64];
        pids.into_iter().filter(|pid| *pid != ASSOCIATION).for_each(|pid| self.keep(pid));
    }
}

impl Common for TransportStreamFilter {
    fn name(&self) -> &'static str {
        "ts"
    }

    fn reach(&self) -> Reach {
        Reach::Records { limit: datagrams::MAXIMUM_PAYLOAD } // the longest datagram
    }

    fn report(&self) -> Vec<(&'static str, u64)> {
        let found = self.programme.as_ref().map(|followed| ("found", u64::from(followed.found)));
        [("kept", self.kept), ("dropped", self.dropped)].into_iter().chain(found).collect()
    }
}

impl Select for TransportStreamFilter {
    fn select(&mut self, piece: Piece<'_>, frame: &mut Frame<'_>) -> Result<(), HandlerError> {
        let (packets, rest) = piece.bytes.as_chunks::<PACKET_LENGTH>();
        if !rest.is_empty() {
            let length = piece.bytes.len();
            let words = format!(
                "a record of {length} bytes is not packets of {PACKET_LENGTH} bytes; use --framing ts"
            );
            return Err(HandlerError::Refused(words));
        }
        // A refused record must not change any state.
        if let Some(index) = packets.iter().position(|bytes| Packet::new(bytes).is_none()) {
            return Err(HandlerError::Refused(format!("packet {index} of a record has no sync byte")));
        }
        for (index, packet) in packets.iter().filter_map(Packet::new).enumerate() {
            let table = self.read_table(packet);
            let is_kept = table.is_none() && self.keeps(packet.pid());
            let at = index * PACKET_LENGTH;
            if is_kept {
                frame.keep(at..at + PACKET_LENGTH);
            }
            let passes = is_kept || table.is_some();
            table.into_iter().for_each(|table| frame.add(table));
            self.kept += u64::from(passes);
            self.dropped += u64::from(!passes);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), HandlerError> {
        match &self.programme {
            Some(followed) if !followed.found => Err(HandlerError::Failed(followed.missing())),
            _ => Ok(()),
        }
    }
}

impl Followed {
    /// Error text of a programme that was not found.
    fn missing(&self) -> String {
        let there: Vec<String> = self.tables.numbers().map(|number| number.to_string()).collect();
        let there = match there.len() {
            0 if self.tables.has_association() => "no programme".to_owned(),
            0 => "no table of programmes".to_owned(),
            1 => format!("programme {}", there[0]),
            2..=NAMED => format!("programmes {}", there.join(", ")),
            more => format!("programmes {} and {} more", there[..NAMED].join(", "), more - NAMED),
        };
        format!("programme {} is not in the transport stream, which has {there}", self.number)
    }
}

#[cfg(test)]
mod tests;
