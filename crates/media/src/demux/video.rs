//! Access units of H.264 and H.265 in a byte stream (ITU-T H.264 and H.265, annex B).

use std::collections::VecDeque;

use super::MAX_SAMPLE;
use super::frame::Frame;
use super::nal_unit::{Kind, Syntax, start_code};
use super::parameter_sets::ParameterSets;
use super::pes::{PesStart, Stamp};

/// Divides a byte stream into NAL units, and NAL units into access units.
#[derive(Clone, Debug)]
pub(super) struct AccessUnits {
    syntax: Syntax,
    /// Bytes of the incomplete NAL unit; before the first start code, the last two bytes.
    unit: Vec<u8>,
    in_unit: bool,
    /// Number and beginning of the current PES packet, and of the PES packet in which the NAL unit begins.
    pes: (u64, Option<PesStart>),
    unit_pes: (u64, Option<PesStart>),
    /// Number of the last PES packet whose timestamps were assigned to an access unit.
    used_pes: u64,
    access: AccessUnit,
    /// True after the first random access point. Pictures before it cannot be decoded.
    begun: bool,
    sets: ParameterSets,
    too_long: bool,
}

#[derive(Clone, Debug, Default)]
struct AccessUnit {
    bytes: Vec<u8>,
    stamp: Option<Stamp>,
    /// True after the first NAL unit, even if that was dropped.
    is_open: bool,
    has_picture: bool,
    random_access: bool,
}

impl AccessUnits {
    pub(super) fn new(syntax: Syntax) -> Self {
        Self {
            syntax,
            unit: Vec::new(),
            in_unit: false,
            pes: (0, None),
            unit_pes: (0, None),
            used_pes: 0,
            access: AccessUnit::default(),
            begun: false,
            sets: ParameterSets::new(syntax),
            too_long: false,
        }
    }

    /// Parameter sets of the first picture, as far as they were received.
    pub(super) fn sets(&self) -> &ParameterSets {
        &self.sets
    }

    /// Returns whether an access unit was dropped because of its length since the last call.
    pub(super) fn take_too_long(&mut self) -> bool {
        std::mem::take(&mut self.too_long)
    }

    /// Bytes of heap memory used.
    pub(super) fn held_bytes(&self) -> usize {
        self.unit.capacity() + self.access.bytes.capacity()
    }

    /// Drops the incomplete NAL unit, since bytes after it are missing.
    pub(super) fn lose(&mut self) {
        self.unit.clear();
        self.in_unit = false;
    }

    /// Begins a PES packet, whose timestamps belong to the first access unit that begins in it.
    pub(super) fn start(&mut self, start: PesStart) {
        self.pes = (self.pes.0 + 1, Some(start));
    }

    /// Adds bytes of the stream, and appends complete access units to `frames`.
    pub(super) fn push(&mut self, data: &[u8], frames: &mut VecDeque<Frame>) {
        let mut searched = self.unit.len().saturating_sub(2);
        self.unit.extend_from_slice(data);
        while let Some(at) = start_code(&self.unit[searched..]) {
            let end = searched + at;
            self.finish_unit(end, frames);
            self.unit.drain(..end + 3);
            self.in_unit = true;
            self.unit_pes = self.pes;
            searched = 0;
        }
        if !self.in_unit {
            let end = self.unit.len().saturating_sub(2);
            self.unit.drain(..end);
        } else if self.unit.len() + self.access.bytes.len() > MAX_SAMPLE {
            self.too_long = true;
            self.lose();
            self.access = AccessUnit::default();
        }
    }

    /// Ends the stream, and appends the last access unit to `frames`.
    pub(super) fn finish(&mut self, frames: &mut VecDeque<Frame>) {
        self.finish_unit(self.unit.len(), frames);
        self.lose();
        self.finish_access(frames);
    }

    /// Adds the NAL unit that ends at `end` to its access unit.
    fn finish_unit(&mut self, end: usize, frames: &mut VecDeque<Frame>) {
        if !self.in_unit {
            return;
        }
        // Zeros before the next start code do not belong to the NAL unit (trailing_zero_8bits).
        let length = self.unit[..end].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let Some(kind) = self.syntax.kind(&self.unit[..length]) else { return };
        let begins = match kind {
            Kind::Picture { first, .. } => first,
            Kind::Before | Kind::Set | Kind::Delimiter => true,
            Kind::Filler | Kind::Other => false,
        };
        if begins && self.access.has_picture {
            self.finish_access(frames);
        }
        if !self.access.is_open {
            self.open_access();
        }
        match kind {
            Kind::Picture { random_access, .. } => {
                self.access.has_picture = true;
                self.access.random_access |= random_access;
            }
            Kind::Set => self.sets.add(&self.unit[..length]),
            Kind::Delimiter | Kind::Filler => return,
            Kind::Before | Kind::Other => {}
        }
        self.access.random_access |= self.syntax.is_sequence_set(&self.unit[..length]);
        self.access.bytes.extend_from_slice(&(length as u32).to_be_bytes());
        self.access.bytes.extend_from_slice(&self.unit[..length]);
    }

    fn open_access(&mut self) {
        self.access.is_open = true;
        let (number, Some(start)) = self.unit_pes else { return };
        if number > self.used_pes {
            self.used_pes = number;
            self.access.stamp = start.stamp;
            self.access.random_access = start.random_access;
        }
    }

    fn finish_access(&mut self, frames: &mut VecDeque<Frame>) {
        let AccessUnit { bytes, stamp, has_picture, random_access, .. } = std::mem::take(&mut self.access);
        if !has_picture {
            return;
        }
        self.sets.close();
        self.begun |= random_access;
        if self.begun {
            let second_field = stamp.is_none() && self.sets.has_fields();
            frames.push_back(Frame { bytes, stamp, sync: random_access, samples: 0, second_field });
        }
    }
}
