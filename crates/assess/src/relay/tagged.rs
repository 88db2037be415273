//! Records that begin with a tag: the record's index among the records of all sources, by which any order can
//! be checked.

use super::pattern::{Pattern, start_of};

/// Bytes of a tag, in network byte order.
pub(crate) const TAG: usize = 8;

/// Tag of a record.
pub(crate) fn tag_of(record: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*record.first_chunk()?))
}

/// Records of one of several sources.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tagged {
    pub(crate) record: usize,
    pub(crate) sources: usize,
}

impl Tagged {
    /// Bytes of a source from `position` on, to the end of a record.
    pub(crate) fn bytes(self, pattern: &Pattern, source: usize, position: u64, length: usize) -> Vec<u8> {
        let record = self.record as u64;
        let (first, within) = (position / record, (position % record) as usize);
        let records = (within + length).div_ceil(self.record);
        let mut bytes = pattern.bytes(start_of(source) + first * record, records * self.record);
        for (number, bytes) in (first..).zip(bytes.chunks_mut(self.record)) {
            let tag = number * self.sources as u64 + source as u64;
            bytes[..TAG].copy_from_slice(&tag.to_be_bytes());
        }
        bytes.split_off(within)
    }

    /// Compares received with sent records: each record once, those of one source in order, and all in the
    /// order of tags if `in_order`.
    pub(crate) fn check(
        self,
        pattern: &Pattern,
        bytes_each: u64,
        content: &[u8],
        in_order: bool,
    ) -> Result<(), String> {
        let mut next = vec![0; self.sources];
        for (place, record) in content.chunks(self.record).enumerate() {
            let tag = tag_of(record).ok_or_else(|| format!("record {place} is cut"))?;
            let (source, number) = ((tag % self.sources as u64) as usize, tag / self.sources as u64);
            if number != next[source] || in_order && tag != place as u64 {
                return Err(format!(
                    "record {place}: record {number} of source {source} is not in its place"
                ));
            }
            next[source] = number + 1;
            let position = number * self.record as u64;
            if record != &self.bytes(pattern, source, position, self.record)[..] {
                return Err(format!("record {place}: other bytes than record {number} of source {source}"));
            }
        }
        let each = bytes_each / self.record as u64;
        if next.iter().any(|records| *records != each) {
            return Err(format!("records of the sources: {next:?}, expected {each} of each"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: Verification finds a wrong, lost, repeated, misdirected or reordered byte.
    #[test]
    fn records_are_told_by_their_tags() {
        let pattern = Pattern::new().unwrap();
        let tagged = Tagged { record: 100, sources: 2 };
        let record = |source, number| tagged.bytes(&pattern, source, number * 100, 100);
        assert_eq!(tagged.bytes(&pattern, 1, 130, 50), record(1, 1)[30..]);
        let of = |records: &[(usize, u64)], in_order| {
            let content: Vec<u8> =
                records.iter().flat_map(|(source, number)| record(*source, *number)).collect();
            tagged.check(&pattern, 200, &content, in_order)
        };
        let (in_order, other) = ([(0, 0), (1, 0), (0, 1), (1, 1)], [(1, 0), (0, 0), (0, 1), (1, 1)]);
        assert_eq!(of(&in_order, true), Ok(()));
        assert_eq!(of(&other, false), Ok(()));
        assert!(of(&other, true).is_err());
        for wrong in [&in_order[..3], &[(0, 1), (0, 0), (1, 0), (1, 1)], &[(0, 0), (0, 0), (1, 0), (1, 1)]] {
            assert!(of(wrong, false).is_err(), "{wrong:?}");
        }
        let mut changed: Vec<u8> =
            in_order.iter().flat_map(|(source, number)| record(*source, *number)).collect();
        changed[150] ^= 1;
        assert!(tagged.check(&pattern, 200, &changed, true).is_err());
    }
}
