//! A range of a mapping, of memory or of a file, with bytes before and after it.

use std::fs::File;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

use bytes::BytesMut;
use wirepath_datapath::Mapping;
use wirepath_streams::Object;

use super::memory_file;
use crate::dice::{Dice, Tally};

/// Most bytes on either side of the range.
const MARGIN: usize = 10_000;

#[derive(Debug)]
pub(super) struct Mapped {
    mapping: Arc<Mapping>,
    range: Range<usize>,
}

impl Mapped {
    /// A range of so many zero bytes, surrounded by zeros.
    pub(super) fn any(length: usize, dice: &mut Dice, tally: &mut Tally) -> Mapped {
        let (before, behind) = (dice.below(MARGIN), 1 + dice.below(MARGIN));
        let whole = before + length + behind;
        let mapping = if dice.one_in(2) {
            tally.note("object: a mapping of memory");
            Mapping::anonymous(whole)
        } else {
            tally.note("object: a mapping of a file");
            let file: File = memory_file();
            file.set_len(whole as u64).unwrap();
            Mapping::writable(&file, whole)
        };
        Mapped { mapping: Arc::new(mapping.unwrap()), range: before..before + length }
    }

    /// A range with these bytes.
    pub(super) fn of(bytes: &[u8], dice: &mut Dice, tally: &mut Tally) -> Mapped {
        let mapped = Mapped::any(bytes.len(), dice, tally);
        let written = mapped.mapping.write(mapped.range.clone(), &[IoSlice::new(bytes)]);
        assert_eq!(written.unwrap(), bytes.len());
        mapped
    }

    pub(super) fn object(&self, name: &str) -> Object {
        Object::mapping(name, Arc::clone(&self.mapping), self.range.clone()).unwrap()
    }

    /// The first bytes of the range.
    pub(super) fn bytes(&self, count: usize) -> Vec<u8> {
        self.read(self.range.start..self.range.start + count)
    }

    /// Checks that only the first bytes of the range were written.
    pub(super) fn check_rest(&self, name: &str, count: usize) {
        // A part of many bytes is enough: checking all of them would allocate memory for each.
        let written = self.range.start + count;
        let rest = written..self.mapping.length().min(written + MARGIN);
        for range in [0..self.range.start, rest] {
            let untouched = self.read(range).iter().all(|byte| *byte == 0);
            assert!(untouched, "{name} has more than {count} bytes, or bytes elsewhere");
        }
    }

    fn read(&self, range: Range<usize>) -> Vec<u8> {
        let mut buffer = BytesMut::new();
        let length = range.len();
        let read = self.mapping.read(range, &mut buffer).unwrap();
        assert_eq!(read, length);
        buffer.into()
    }
}
