//! Records that an eBPF handler judges: a length in four bytes, a byte that says whether the handler passes the
//! record (`tests/netns/sockmap.bpf.c`), and bytes of the pattern.

use super::pattern::Pattern;
use crate::result::RELAY_RECORD;

/// Bytes of a record.
pub(crate) const RECORD: usize = RELAY_RECORD as usize;

/// Bytes of the length that a record begins with, and place of the byte that is judged.
pub(crate) const LENGTH: usize = 4;

/// Records after which they begin again: a multiple of 100, so that the same are passed.
const CYCLE: u64 = 4000;

/// Records of a source.
pub(crate) struct Records {
    bytes: Vec<u8>,
    passed: u32,
}

impl Records {
    /// Records of which a handler passes so many of 100.
    pub(crate) fn new(pattern: &Pattern, passed: u32) -> Records {
        let mut bytes = pattern.bytes(0, CYCLE as usize * RECORD);
        for (number, record) in (0..).zip(bytes.chunks_mut(RECORD)) {
            record[..LENGTH].copy_from_slice(&((RECORD - LENGTH) as u32).to_be_bytes());
            record[LENGTH] = u8::from(passes(number, passed));
        }
        Records { bytes, passed }
    }

    /// Records from this number on: at most as many, and up to the end of the cycle.
    pub(crate) fn some(&self, from: u64, most: u64) -> &[u8] {
        let begin = from % CYCLE;
        let end = (begin + most).min(CYCLE);
        &self.bytes[begin as usize * RECORD..end as usize * RECORD]
    }

    /// Number of the first `number` records that are passed.
    pub(crate) fn passed(&self, number: u64) -> u64 {
        number * u64::from(self.passed) / 100
    }

    /// Bytes that a sink receives of the first `number` records.
    pub(crate) fn expected(&self, number: u64) -> Vec<u8> {
        let passed = (0..number).filter(|record| passes(*record, self.passed));
        passed.flat_map(|record| self.some(record, 1)).copied().collect()
    }
}

/// Returns whether the handler passes a record; those that it passes are spread evenly.
fn passes(number: u64, passed: u32) -> bool {
    let before = |number: u64| number * u64::from(passed) / 100;
    before(number + 1) > before(number)
}

/// Judges a record as the eBPF handler does.
pub(crate) fn is_passed(record: &[u8]) -> bool {
    record.get(LENGTH).is_some_and(|byte| *byte != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_records_are_passed_as_are_expected() {
        let pattern = Pattern::new().unwrap();
        for share in [100, 50, 10] {
            let records = Records::new(&pattern, share);
            for number in [1, 10, 4001, 9999] {
                let all = || (0..number).map(|record| records.some(record, 1));
                assert_eq!(all().filter(|record| is_passed(record)).count() as u64, records.passed(number));
                let expected: Vec<u8> = all().filter(|record| is_passed(record)).flatten().copied().collect();
                assert!(records.expected(number) == expected, "{share} {number}");
            }
        }
    }

    #[test]
    fn some_records_end_with_the_cycle() {
        let records = Records::new(&Pattern::new().unwrap(), 50);
        assert_eq!(records.some(CYCLE - 3, 40).len(), 3 * RECORD);
        assert_eq!(records.some(2 * CYCLE, 40).len(), 40 * RECORD);
    }
}
