//! Programme association and programme maps (ISO/IEC 13818-1 sections 2.4.4.3 and 2.4.4.8).

use std::collections::BTreeMap;

use super::packet::Packet;
use super::programme::Programme;
use super::section::{Assembler, Section};

/// Most programmes that are read. A multiplex has a few tens; a hostile table could name 65,535.
pub const MAX_PROGRAMMES: usize = 256;

const PAT_PID: u16 = 0;
const PAT_TABLE: u8 = 0;
const PMT_TABLE: u8 = 2;

/// Tables of a transport stream, as far as they were received. Memory is bounded by [`MAX_PROGRAMMES`].
#[derive(Clone, Debug, Default)]
pub struct Psi {
    association: Association,
    assemblers: BTreeMap<u16, Assembler>,
    /// Latest description of every programme so far, including former programmes.
    programmes: Vec<Described>,
    /// Index in `programmes`, by programme number.
    by_number: BTreeMap<u16, usize>,
}

#[derive(Clone, Debug)]
struct Described {
    crc: u32,
    programme: Programme,
}

/// Association table of the current programmes.
#[derive(Clone, Debug, Default)]
struct Association {
    version: Option<u8>,
    sections: BTreeMap<u8, AssociationSection>,
    overflowed: bool,
}

#[derive(Clone, Debug)]
struct AssociationSection {
    crc: u32,
    /// Programme numbers and PIDs of their maps.
    entries: Vec<(u16, u16)>,
}

impl Psi {
    /// Tables before the first packet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether [`Psi::push`] reads packets of the PID.
    pub fn reads(&self, pid: u16) -> bool {
        self.pids().any(|read| read == pid)
    }

    /// PIDs of the packets that [`Psi::push`] reads; a PID may be repeated.
    pub fn pids(&self) -> impl Iterator<Item = u16> {
        self.current().map(|(_, pmt_pid)| pmt_pid).chain([PAT_PID])
    }

    /// Reads a packet of one of [`Psi::pids`]. Returns whether the tables changed.
    pub fn push(&mut self, packet: Packet<'_>) -> bool {
        let pid = packet.pid();
        let mut assembler = self.assemblers.remove(&pid).unwrap_or_default();
        let mut changed = false;
        assembler.push(packet, |section| changed |= self.section(pid, section));
        if self.reads(pid) {
            self.assemblers.insert(pid, assembler);
        }
        changed
    }

    /// PID of the map of a programme, if it is a current programme.
    pub fn map_pid(&self, number: u16) -> Option<u16> {
        self.current().find(|(known, _)| *known == number).map(|(_, map_pid)| map_pid)
    }

    /// Numbers of the current programmes, in the order of the association table.
    pub fn numbers(&self) -> impl Iterator<Item = u16> {
        self.current().map(|(number, _)| number)
    }

    /// Returns whether an association table was received.
    pub fn has_association(&self) -> bool {
        !self.association.sections.is_empty()
    }

    /// Returns whether there are more programmes than [`MAX_PROGRAMMES`].
    pub fn overflowed(&self) -> bool {
        self.association.overflowed
    }

    /// All programmes described so far, including former ones, in the order of appearance.
    pub fn programmes(&self) -> impl Iterator<Item = &Programme> {
        self.programmes.iter().map(|described| &described.programme)
    }

    /// Current programmes, in the order of the association table; `None` for a programme without a map so
    /// far.
    pub fn current_programmes(&self) -> impl Iterator<Item = Option<&Programme>> {
        self.current().map(|(number, pmt_pid)| {
            let programme = &self.programmes[*self.by_number.get(&number)?].programme;
            (programme.pmt_pid == pmt_pid).then_some(programme)
        })
    }

    fn current(&self) -> impl Iterator<Item = (u16, u16)> {
        self.association.sections.values().flat_map(|section| section.entries.iter().copied())
    }

    fn section(&mut self, pid: u16, section: Section<'_>) -> bool {
        match section.table {
            PAT_TABLE if pid == PAT_PID => self.associate(section),
            PMT_TABLE => self.describe(pid, section),
            _ => false,
        }
    }

    fn associate(&mut self, section: Section<'_>) -> bool {
        if !self.association.take(section) {
            return false;
        }
        let kept: Vec<u16> = self.assemblers.keys().copied().filter(|&pid| self.reads(pid)).collect();
        self.assemblers.retain(|pid, _| kept.contains(pid));
        true
    }

    fn describe(&mut self, pid: u16, section: Section<'_>) -> bool {
        let number = section.extension;
        let known = self.by_number.get(&number).copied();
        let unchanged = known.is_some_and(|index| {
            let described = &self.programmes[index];
            described.crc == section.crc && described.programme.pmt_pid == pid
        });
        if unchanged || !self.current().any(|entry| entry == (number, pid)) {
            return false;
        }
        let Some(programme) = Programme::read(number, pid, section.body) else { return false };
        let described = Described { crc: section.crc, programme };
        match known {
            Some(index) => self.programmes[index] = described,
            None if self.programmes.len() < MAX_PROGRAMMES => {
                self.by_number.insert(number, self.programmes.len());
                self.programmes.push(described);
            }
            None => return false,
        }
        true
    }
}

impl Association {
    /// Takes a section of the table. Returns whether it changes the table; a new version drops the sections
    /// of the old.
    fn take(&mut self, section: Section<'_>) -> bool {
        if self.version == Some(section.version)
            && self.sections.get(&section.number).is_some_and(|known| known.crc == section.crc)
        {
            return false;
        }
        if self.version.replace(section.version) != Some(section.version) {
            self.sections.clear();
        }
        self.sections.remove(&section.number);
        let room = MAX_PROGRAMMES - self.sections.values().map(|known| known.entries.len()).sum::<usize>();
        let mut entries: Vec<_> = section.body.chunks_exact(4).filter_map(entry).collect();
        self.overflowed |= entries.len() > room;
        entries.truncate(room);
        self.sections.insert(section.number, AssociationSection { crc: section.crc, entries });
        true
    }
}

/// Reads a programme number and the PID of its map. Number 0 refers to the network information table instead.
fn entry(bytes: &[u8]) -> Option<(u16, u16)> {
    let number = u16::from_be_bytes([bytes[0], bytes[1]]);
    let pid = u16::from_be_bytes([bytes[2], bytes[3]]) & 0x1fff;
    (number != 0).then_some((number, pid))
}

#[cfg(test)]
#[path = "psi_tests.rs"]
mod tests;
