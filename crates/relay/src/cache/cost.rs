//! Cost of an entry on disk and in memory.

use super::entry::Entry;
use super::folder::body_name;

/// Unit of disk space: of each file, and of the names of an entry's two files.
pub(super) const BLOCK: u64 = 4096;

/// Memory of an entry besides its text, and of each of its header fields. The entry and its policy both have
/// the fields, in tables that are half empty.
const ENTRY_MEMORY: u64 = 2048;
const FIELD_MEMORY: u64 = 256;

/// Cost of entries, or a budget for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// Bytes on disk.
    pub(super) bytes: u64,
    /// Bytes in memory.
    pub(super) memory: u64,
}

impl Cost {
    pub(super) fn of(entry: &Entry, key: &str) -> Cost {
        let record = record_bytes(entry, key);
        let fields = FIELD_MEMORY * entry.fields.len() as u64;
        Cost {
            bytes: blocks(entry.bytes).saturating_add(blocks(record)).saturating_add(BLOCK),
            memory: record.saturating_mul(2).saturating_add(fields + ENTRY_MEMORY),
        }
    }

    /// Cost with only `bytes` of a body of `whole_bytes`.
    pub(super) fn with_less_body(self, whole_bytes: u64, bytes: u64) -> Cost {
        let others = self.bytes.saturating_sub(blocks(whole_bytes));
        Cost { bytes: others.saturating_add(blocks(bytes)), ..self }
    }

    pub(super) fn with(self, other: Cost) -> Cost {
        Cost {
            bytes: self.bytes.saturating_add(other.bytes),
            memory: self.memory.saturating_add(other.memory),
        }
    }

    /// Subtracts a cost. Saturates like [`with`](Cost::with), since files in a folder may state more bytes
    /// than they have.
    pub(super) fn without(self, other: Cost) -> Cost {
        Cost {
            bytes: self.bytes.saturating_sub(other.bytes),
            memory: self.memory.saturating_sub(other.memory),
        }
    }

    pub(super) fn fits(self, budget: Cost) -> bool {
        self.bytes <= budget.bytes && self.memory <= budget.memory
    }
}

fn blocks(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK).saturating_mul(BLOCK)
}

/// Maximum length of an entry's record, for any number and time of its body.
pub(super) fn record_bytes(entry: &Entry, key: &str) -> u64 {
    let record = entry.record(&body_name(key, u64::MAX), u64::MAX);
    serde_json::to_vec(&record).map_or(u64::MAX, |text| text.len() as u64)
}
