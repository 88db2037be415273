//! Choice of the played programme, whose clock times the packets.

use std::collections::BTreeSet;

use super::packet::Pcr;
use super::programme::Programme;
use super::psi::Psi;

/// Played programme, and its PIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Played {
    /// Number of the programme; `None` if no table announces the clock that is used.
    pub programme: Option<u16>,
    /// PID whose clock references time the packets.
    pub pcr_pid: u16,
    /// PID in which random access points are searched; `None` if the programme has no video.
    pub video_pid: Option<u16>,
}

impl Played {
    pub(super) fn of(programme: &Programme, pcr_pid: u16) -> Self {
        let video_pid = programme.video().map(|stream| stream.pid);
        Self { programme: Some(programme.number), pcr_pid, video_pid }
    }
}

/// Choice of the played programme and its clock.
#[derive(Debug)]
pub(super) enum Choice {
    /// Not decided yet.
    Open(Candidates),
    Made(Played),
}

/// Clock references seen before the choice.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    pub(super) references: Vec<Reference>,
    /// PIDs of the references.
    ticking: BTreeSet<u16>,
}

impl Candidates {
    /// Adds a reference. Returns whether it is the first in its PID.
    pub(super) fn push(&mut self, reference: Reference) -> bool {
        self.references.push(reference);
        self.ticking.insert(reference.pid)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    pub(super) pid: u16,
    pub(super) packet: u64,
    pub(super) offset: u64,
    pub(super) pcr: Pcr,
    pub(super) flagged: bool,
}

/// Chooses the clock of the first programme in the association table that has a clock. Waits for the maps and
/// references of all programmes before it, unless it is `late`; then the PID of the first reference is chosen
/// if no programme has a clock.
pub(super) fn choose_among(psi: &Psi, candidates: &Candidates, late: bool) -> Option<Played> {
    for programme in psi.current_programmes() {
        match programme.map(|programme| (programme, programme.pcr_pid)) {
            Some((programme, Some(pid))) if candidates.ticking.contains(&pid) => {
                return Some(Played::of(programme, pid));
            }
            Some((_, None)) => {}
            _ if late => {}
            _ => return None,
        }
    }
    let pcr_pid = candidates.references.first().filter(|_| late)?.pid;
    let video = psi.current_programmes().flatten().next().and_then(Programme::video);
    Some(Played { programme: None, pcr_pid, video_pid: video.map(|stream| stream.pid) })
}
