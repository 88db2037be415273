//! Byte ranges (RFC 9110 section 14), and the file extents that they select.

/// Maximum number of ranges read from one header; a client that requests more gets the whole file, which
/// section 14.2 allows for "many small ranges".
const RANGE_LIMIT: usize = 32;

/// Two ranges closer than this are sent as one part: a part's own header costs about as much (RFC 9110
/// section 15.3.7.2).
const PART_OVERHEAD: u64 = 80;

/// Requested range of bytes (RFC 9110 section 14.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteRange {
    /// `first-last`, both included.
    Closed { first: u64, last: u64 },
    /// `first-`: from this offset to the end.
    From(u64),
    /// `-length`: the last `length` bytes.
    Suffix(u64),
}

/// Ranges of one `Range` header, in the client's order, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeSet(Vec<ByteRange>);

/// Range of bytes in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

impl Extent {
    /// Offset just past the last byte.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

impl RangeSet {
    /// Parses a `Range` field value. Returns `None` for other units, malformed values and too many ranges:
    /// the header is then ignored (RFC 9110 section 14.2).
    pub fn parse(value: &str) -> Option<Self> {
        let (unit, specs) = value.split_once('=')?;
        if !unit.trim().eq_ignore_ascii_case("bytes") {
            return None;
        }
        let mut ranges = Vec::new();
        for spec in specs.split(',').map(str::trim).filter(|spec| !spec.is_empty()) {
            if ranges.len() == RANGE_LIMIT {
                return None;
            }
            ranges.push(ByteRange::parse(spec)?);
        }
        (!ranges.is_empty()).then_some(Self(ranges))
    }

    /// Extents of a file of `size` bytes; empty if no range can be satisfied.
    ///
    /// Extents do not overlap, so that the response is never larger than the file, however often parts are
    /// requested. They are in the client's order, except those joined with an earlier extent.
    pub fn resolve(&self, size: u64) -> Vec<Extent> {
        let mut extents: Vec<Extent> = Vec::with_capacity(self.0.len());
        for extent in self.0.iter().filter_map(|range| range.resolve(size)) {
            join(&mut extents, extent);
        }
        extents
    }
}

impl ByteRange {
    fn parse(spec: &str) -> Option<Self> {
        let (first, last) = spec.split_once('-')?;
        match (first, last) {
            ("", length) => Some(Self::Suffix(number(length)?)),
            (first, "") => Some(Self::From(number(first)?)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::Closed { first, last })
            }
        }
    }

    fn resolve(self, size: u64) -> Option<Extent> {
        let (offset, end) = match self {
            Self::Closed { first, last } => (first, last.saturating_add(1).min(size)),
            Self::From(first) => (first, size),
            Self::Suffix(length) => (size.saturating_sub(length), size),
        };
        (offset < end).then(|| Extent { offset, length: end - offset })
    }
}

/// Parses digits only (without a sign); larger numbers saturate.
fn number(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX))
}

/// Adds an extent, joined with all extents that it overlaps or nearly touches, at the index of the first of
/// them.
fn join(extents: &mut Vec<Extent>, mut extent: Extent) {
    let mut place = extents.len();
    while let Some(index) = extents.iter().position(|other| near(other, &extent)) {
        let other = extents.remove(index);
        let (offset, end) = (extent.offset.min(other.offset), extent.end().max(other.end()));
        extent = Extent { offset, length: end - offset };
        place = place.min(index);
    }
    extents.insert(place, extent);
}

fn near(one: &Extent, other: &Extent) -> bool {
    one.offset <= other.end().saturating_add(PART_OVERHEAD)
        && other.offset <= one.end().saturating_add(PART_OVERHEAD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extents(value: &str, size: u64) -> Option<Vec<(u64, u64)>> {
        let set = RangeSet::parse(value)?;
        Some(set.resolve(size).iter().map(|extent| (extent.offset, extent.length)).collect())
    }

    #[test]
    fn resolves() {
        const HUGE: &str = "bytes=99999999999999999999-999999999999999999999";
        for (value, size, expected) in [
            ("bytes=0-0", 1000, Some(vec![(0, 1)])),
            ("bytes=0-499", 1000, Some(vec![(0, 500)])),
            ("bytes=500-", 1000, Some(vec![(500, 500)])),
            ("bytes=-1", 1000, Some(vec![(999, 1)])),
            ("bytes=-2000", 1000, Some(vec![(0, 1000)])),
            ("bytes=990-99999999999999999999", 1000, Some(vec![(990, 10)])),
            ("bytes = 0-1", 1000, Some(vec![(0, 2)])),
            ("BYTES=0-1,, 900-901 ,", 1000, Some(vec![(0, 2), (900, 2)])),
            ("bytes=900-901,0-1", 1000, Some(vec![(900, 2), (0, 2)])),
            // not satisfiable
            ("bytes=1000-", 1000, Some(vec![])),
            ("bytes=-0", 1000, Some(vec![])),
            ("bytes=0-", 0, Some(vec![])),
            (HUGE, 1000, Some(vec![])),
            // one satisfiable, one not
            ("bytes=2000-3000,5-6", 1000, Some(vec![(5, 2)])),
            // overlapping, touching, nearly touching, bridged by a later one
            ("bytes=0-,0-,0-,-1000", 1000, Some(vec![(0, 1000)])),
            ("bytes=0-99,100-199", 1000, Some(vec![(0, 200)])),
            ("bytes=0-99,150-199", 1000, Some(vec![(0, 200)])),
            ("bytes=0-9,500-509,900-909,5-905", 1000, Some(vec![(0, 910)])),
            // ignored
            ("bytes=", 1000, None),
            ("bytes=,", 1000, None),
            ("bytes=5", 1000, None),
            ("bytes=-", 1000, None),
            ("bytes=6-5", 1000, None),
            ("bytes=a-5", 1000, None),
            ("bytes=+1-5", 1000, None),
            ("bytes=0x1-5", 1000, None),
            ("bytes=1-2-3", 1000, None),
            ("items=0-5", 1000, None),
            ("0-5", 1000, None),
        ] {
            assert_eq!(extents(value, size), expected, "{value} of {size}");
        }
        let many = format!("bytes={}", vec!["0-0"; RANGE_LIMIT + 1].join(","));
        assert_eq!(RangeSet::parse(&many), None);
    }

    proptest! {
        #[test]
        fn extents_stay_apart_and_inside(
            ranges in prop::collection::vec((0u64..5000, 0u64..300), 1..RANGE_LIMIT), size in 0u64..4000,
        ) {
            let set = RangeSet(
                ranges.iter().map(|&(first, more)| ByteRange::Closed { first, last: first + more }).collect(),
            );
            let extents = set.resolve(size);
            for (index, extent) in extents.iter().enumerate() {
                prop_assert!(extent.length > 0 && extent.end() <= size);
                prop_assert!(extents[index + 1..].iter().all(|other| !near(extent, other)));
            }
            for offset in 0..size {
                let asked = ranges.iter().any(|&(first, more)| (first..=first + more).contains(&offset));
                prop_assert!(!asked || extents.iter().any(|e| (e.offset..e.end()).contains(&offset)));
            }
        }
    }
}
