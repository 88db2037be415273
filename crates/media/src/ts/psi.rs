//! Programme association and programme maps (ISO/IEC 13818-1 sections 2.4.4.3 and 2.4.4.8).

use std::collections::BTreeMap;

use super::packet::Packet;
use super::programme::Programme;
use super::section::{Assembler, Section};

/// Most programmes that are followed. A multiplex has a few tens; a hostile table could name 65,535.
pub const MAX_PROGRAMMES: usize = 256;

const PAT_PID: u16 = 0;
const PAT_TABLE: u8 = 0;
const PMT_TABLE: u8 = 2;

/// The tables of a transport stream, as far as they have been seen. Bounded by [`MAX_PROGRAMMES`].
#[derive(Clone, Debug, Default)]
pub struct Psi {
    association: Association,
    assemblers: BTreeMap<u16, Assembler>,
    /// Every programme that was ever described, as last described.
    programmes: Vec<Described>,
    /// Index in `programmes` by number.
    by_number: BTreeMap<u16, usize>,
}

#[derive(Clone, Debug)]
struct Described {
    crc: u32,
    programme: Programme,
}

/// Association table: the current programmes.
#[derive(Clone, Debug, Default)]
struct Association {
    version: Option<u8>,
    sections: BTreeMap<u8, AssociationSection>,
    overflowed: bool,
}

#[derive(Clone, Debug)]
struct AssociationSection {
    crc: u32,
    /// Programme numbers and the PIDs of their maps.
    entries: Vec<(u16, u16)>,
}

impl Psi {
    /// No table seen yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether packets of the PID carry a table that is read here.
    pub fn reads(&self, pid: u16) -> bool {
        self.pids().any(|read| read == pid)
    }

    /// The PIDs that are read here; a PID may come more than once.
    pub fn pids(&self) -> impl Iterator<Item = u16> {
        self.current().map(|(_, pmt_pid)| pmt_pid).chain([PAT_PID])
    }

    /// Takes a packet of a PID that is read here; says whether the tables changed.
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

    /// The PID of a programme's map, if there is such a programme now.
    pub fn map_pid(&self, number: u16) -> Option<u16> {
        self.current().find(|(known, _)| *known == number).map(|(_, map_pid)| map_pid)
    }

    /// The numbers of the programmes that there are now, in the order of the association table.
    pub fn numbers(&self) -> impl Iterator<Item = u16> {
        self.current().map(|(number, _)| number)
    }

    /// Returns whether an association table has been seen.
    pub fn has_association(&self) -> bool {
        !self.association.sections.is_empty()
    }

    /// Returns whether there are more programmes than are followed.
    pub fn overflowed(&self) -> bool {
        self.association.overflowed
    }

    /// Every programme that has been described so far, in the order of appearance.
    pub fn programmes(&self) -> impl Iterator<Item = &Programme> {
        self.programmes.iter().map(|described| &described.programme)
    }

    /// Current programmes, in the order of the association table; `None` for one without a map yet.
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
    /// Takes a section of the table; sections of another version are of the past then.
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

/// A programme's number and the PID of its map; programme 0 is the network information table instead.
fn entry(bytes: &[u8]) -> Option<(u16, u16)> {
    let number = u16::from_be_bytes([bytes[0], bytes[1]]);
    let pid = u16::from_be_bytes([bytes[2], bytes[3]]) & 0x1fff;
    (number != 0).then_some((number, pid))
}

#[cfg(test)]
#[path = "psi_tests.rs"]
mod tests;
