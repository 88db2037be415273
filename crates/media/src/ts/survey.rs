//! Survey of a transport stream: tables, the played programme, its clock, and random access points.

use std::collections::VecDeque;

use super::access::is_random_access;
use super::choice::{Candidates, Choice, Played, Reference, choose_among};
use super::clock::{Clock, Stretch};
use super::deframe::Packets;
use super::packet::{NULL_PID, PACKET_LENGTH, Packet};
use super::programme::{Codec, Programme};
use super::psi::Psi;
use super::warning::{Warning, WarningKind, Warnings};
use crate::queue::shrink;

/// Most packets that wait for a clock reference (64 MiB). After that, packets are timed without a reference.
pub const LOOKAHEAD_PACKETS: u64 = (64 << 20) / PACKET_LENGTH as u64;

/// Most places in the stream that are kept while packets wait for a clock reference: damage, random access
/// points, discontinuities. A damaged file has one at every packet, and each takes memory.
pub const LOOKAHEAD_PLACES: usize = 1 << 13;

/// Packets after the first reference of any PID after which the choice no longer waits for tables (4 MiB).
const CHOICE_PACKETS: u64 = (4 << 20) / PACKET_LENGTH as u64;

/// PIDs below this carry tables (ISO/IEC 13818-1 table 2-3 and ETSI EN 300 468 table 1).
const FIRST_STREAM_PID: u16 = 0x20;

/// Error of a stream without a clock. Remultiplexing it with a PCR helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no PCR (clock reference) found up to byte {offset}; looked for {wanted}. Without one nobody can tell when to \
     send the packets; remultiplex the file, for instance with ffmpeg -i FILE -c copy -f mpegts OUT"
)]
pub struct NoClock {
    /// File offset at which the search ended.
    pub offset: u64,
    /// Clocks that were searched.
    pub wanted: String,
}

/// Survey of a transport stream. Push all packets in order, then call [`Survey::finish`].
#[derive(Debug)]
pub struct Survey {
    packets: u64,
    offset: u64,
    /// Number of places since the last reference that timed packets.
    places: usize,
    roles: Box<[u8; 8192]>,
    psi: Psi,
    clock: Clock,
    choice: Choice,
    video: Option<(u16, Codec)>,
    /// First of the table packets directly before the next packet.
    tables_since: Option<u64>,
    starts: VecDeque<u64>,
    warnings: Warnings,
    gap_noted: bool,
    overflow_noted: bool,
}

/// Roles of a PID, as bits.
mod role {
    /// Table packets.
    pub(super) const TABLE: u8 = 1;
    /// Packets allowed between tables and the picture that follows them.
    pub(super) const BESIDE_TABLES: u8 = 2;
    /// Video of the played programme: random access points are searched.
    pub(super) const VIDEO: u8 = 4;
    /// Clock references are read.
    pub(super) const CLOCK: u8 = 8;
}

impl Default for Survey {
    fn default() -> Self {
        Self::new()
    }
}

impl Survey {
    /// Survey at the start of a stream.
    pub fn new() -> Self {
        let mut survey = Self {
            packets: 0,
            offset: 0,
            places: 0,
            roles: Box::new([0; 8192]),
            psi: Psi::new(),
            clock: Clock::new(),
            choice: Choice::Open(Candidates::default()),
            video: None,
            tables_since: None,
            starts: VecDeque::new(),
            warnings: Warnings::default(),
            gap_noted: false,
            overflow_noted: false,
        };
        survey.assign_roles();
        survey
    }

    /// Reads the next packets.
    ///
    /// # Errors
    /// [`NoClock`] after [`LOOKAHEAD_PACKETS`] or [`LOOKAHEAD_PLACES`] without a reference.
    pub fn push(&mut self, run: &Packets<'_>) -> Result<(), NoClock> {
        let stride = run.framing().stride() as u64;
        self.places += usize::from(self.offset != run.offset(0));
        self.offset = run.offset(0);
        for bytes in run.iter() {
            let pid = u16::from_be_bytes([bytes[1], bytes[2]]) & 0x1fff;
            let role = self.roles[usize::from(pid)];
            if role != 0 {
                if let Some(packet) = Packet::new(bytes) {
                    self.examine(packet, pid, role);
                }
            } else {
                self.tables_since = None;
            }
            self.packets += 1;
            self.offset += stride;
        }
        self.bound_lookahead()
    }

    /// Ends the stream: times the remaining packets.
    pub fn finish(&mut self) -> Result<(), NoClock> {
        self.choose(true);
        if self.clock.last_reference().is_none() {
            return Err(self.no_clock());
        }
        self.extend_clock();
        Ok(())
    }

    /// All programmes described so far.
    pub fn programmes(&self) -> Vec<Programme> {
        self.psi.programmes().cloned().collect()
    }

    /// Played programme, once it is chosen.
    pub fn played(&self) -> Option<Played> {
        match self.choice {
            Choice::Made(played) => Some(played),
            Choice::Open(_) => None,
        }
    }

    /// Removes and returns the next packets with known departures, in order and without gaps from packet 0
    /// on.
    pub fn next_stretch(&mut self) -> Option<Stretch> {
        self.clock.next_stretch()
    }

    /// Removes and returns the next packet at which a decoder can start, in order. It is returned before the
    /// stretch that times it.
    pub fn next_start(&mut self) -> Option<u64> {
        self.starts.pop_front()
    }

    /// Bytes of memory that the survey uses.
    pub fn held_bytes(&self) -> usize {
        let references = match &self.choice {
            Choice::Open(candidates) => candidates.references.capacity(),
            Choice::Made(_) => 0,
        };
        size_of_val(&*self.roles)
            + references * size_of::<Reference>()
            + self.starts.capacity() * size_of::<u64>()
            + self.clock.held_bytes()
    }

    /// Shrinks the queues after a long look-ahead.
    pub fn shrink(&mut self) {
        shrink(&mut self.starts);
        self.clock.shrink();
    }

    /// Takes the warnings since the last call.
    pub fn take_warnings(&mut self) -> Warnings {
        std::mem::take(&mut self.warnings)
    }

    fn examine(&mut self, packet: Packet<'_>, pid: u16, role: u8) {
        if packet.transport_error() {
            self.tables_since = None;
            return;
        }
        if role & role::VIDEO != 0 {
            self.examine_video(packet, pid);
        }
        if role & role::CLOCK != 0 {
            self.examine_clock(packet, pid);
        }
        if role & role::TABLE != 0 && self.psi.push(packet) {
            self.tables_changed();
        }
        if role & role::BESIDE_TABLES == 0 || role & role::VIDEO != 0 {
            self.tables_since = None;
        } else if pid != NULL_PID && self.tables_since.is_none() {
            self.tables_since = Some(self.packets);
        }
    }

    fn examine_video(&mut self, packet: Packet<'_>, pid: u16) {
        let Some((_, codec)) = self.video.filter(|&(video, _)| video == pid) else { return };
        if is_random_access(packet, codec) {
            self.starts.push_back(self.tables_since.unwrap_or(self.packets));
            self.places += 1;
        }
    }

    fn examine_clock(&mut self, packet: Packet<'_>, pid: u16) {
        let Some(adaptation) = packet.adaptation() else { return };
        let Some(pcr) = adaptation.pcr() else { return };
        let flagged = adaptation.discontinuity();
        let reference = Reference { pid, packet: self.packets, offset: self.offset, pcr, flagged };
        match &mut self.choice {
            Choice::Made(played) if played.pcr_pid == pid => self.observe(reference),
            Choice::Made(_) => {}
            Choice::Open(candidates) => {
                if candidates.push(reference) {
                    self.choose(false);
                }
            }
        }
    }

    fn observe(&mut self, reference: Reference) {
        let timed = self.clock.end();
        if self.clock.observe(reference.packet, reference.pcr, reference.flagged) {
            self.warnings.push(Warning { offset: reference.offset, kind: WarningKind::Discontinuity });
            self.places += 1;
        }
        if self.clock.end() > timed {
            self.places = 0;
        }
        self.gap_noted = false;
    }

    fn tables_changed(&mut self) {
        if self.psi.overflowed() && !std::mem::replace(&mut self.overflow_noted, true) {
            let kind = WarningKind::TooManyProgrammes { followed: super::MAX_PROGRAMMES as u32 };
            self.warnings.push(Warning { offset: self.offset, kind });
        }
        match self.choice {
            Choice::Open(_) => self.choose(false),
            Choice::Made(played) => self.reconsider(played),
        }
        self.video = self.find_video();
        self.assign_roles();
    }

    /// Chooses the clock of the first programme in the table that has a clock, once later packets cannot
    /// change the choice. `late`: no longer wait for them.
    fn choose(&mut self, late: bool) {
        let Choice::Open(candidates) = &self.choice else { return };
        let Some(first) = candidates.references.first().copied() else { return };
        let late = late || self.packets - first.packet >= CHOICE_PACKETS;
        let Some(played) = choose_among(&self.psi, candidates, late) else { return };
        if played.programme.is_none() {
            let kind = WarningKind::Unannounced { pid: played.pcr_pid };
            self.warnings.push(Warning { offset: first.offset, kind });
        }
        let Choice::Open(Candidates { references, .. }) =
            std::mem::replace(&mut self.choice, Choice::Made(played))
        else {
            return;
        };
        self.video = self.find_video();
        self.assign_roles();
        for reference in references.into_iter().filter(|reference| reference.pid == played.pcr_pid) {
            self.observe(reference);
        }
    }

    /// Adapts the choice to changed tables: the clock's PID changed, or the played programme appeared or
    /// disappeared.
    fn reconsider(&mut self, played: Played) {
        let same = |programme: &&Programme| match played.programme {
            Some(number) => programme.number == number,
            None => programme.pcr_pid == Some(played.pcr_pid),
        };
        let gone = self.psi.current_programmes().all(|known| known.is_some_and(|known| !same(&known)));
        let known = self.psi.current_programmes().flatten().find(same);
        self.choice = match known {
            Some(programme) => {
                Choice::Made(Played::of(programme, programme.pcr_pid.unwrap_or(played.pcr_pid)))
            }
            None if gone && played.programme.is_some() => Choice::Open(Candidates::default()),
            None => return,
        };
    }

    /// Video stream of the played programme, or of the first programme before the choice or if no programme
    /// is known.
    fn find_video(&self) -> Option<(u16, Codec)> {
        let number = match self.choice {
            Choice::Made(played) => played.programme,
            Choice::Open(_) => None,
        };
        let mut programmes = self.psi.current_programmes().flatten();
        let programme = match number {
            Some(number) => programmes.find(|programme| programme.number == number),
            None => programmes.next(),
        };
        programme.and_then(Programme::video).map(|stream| (stream.pid, stream.codec))
    }

    fn assign_roles(&mut self) {
        let clock = match self.choice {
            Choice::Open(_) => None,
            Choice::Made(played) => Some(played.pcr_pid),
        };
        self.roles.fill(if clock.is_none() { role::CLOCK } else { 0 });
        let mut add = |pid: u16, role: u8| self.roles[usize::from(pid)] |= role;
        (0..FIRST_STREAM_PID).chain([NULL_PID]).for_each(|pid| add(pid, role::BESIDE_TABLES));
        self.psi.pids().for_each(|pid| add(pid, role::TABLE | role::BESIDE_TABLES));
        self.video.iter().for_each(|&(pid, _)| add(pid, role::VIDEO));
        clock.iter().for_each(|&pid| add(pid, role::CLOCK));
    }

    fn bound_lookahead(&mut self) -> Result<(), NoClock> {
        self.choose(false);
        if self.packets - self.clock.end() < LOOKAHEAD_PACKETS && self.places < LOOKAHEAD_PLACES {
            return Ok(());
        }
        self.choose(true);
        let Some(since) = self.clock.last_reference() else { return Err(self.no_clock()) };
        if !std::mem::replace(&mut self.gap_noted, true) {
            let kind = WarningKind::ClockGap { bytes: (self.packets - since) * PACKET_LENGTH as u64 };
            self.warnings.push(Warning { offset: self.offset, kind });
        }
        self.extend_clock();
        Ok(())
    }

    fn extend_clock(&mut self) {
        self.places = 0;
        if !self.clock.extend(self.packets) {
            self.warnings.push(Warning { offset: self.offset, kind: WarningKind::RateAssumed });
        }
    }

    fn no_clock(&self) -> NoClock {
        let pids: Vec<String> = self
            .psi
            .current_programmes()
            .flatten()
            .filter_map(|programme| Some(format!("{} on PID {}", programme.number, programme.pcr_pid?)))
            .take(8)
            .collect();
        let wanted = if pids.is_empty() {
            "any PID, as no table announces one".to_owned()
        } else {
            format!("programme {}", pids.join(", programme "))
        };
        NoClock { offset: self.offset, wanted }
    }
}

#[cfg(test)]
#[path = "survey_tests.rs"]
mod tests;
