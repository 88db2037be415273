//! NAL units of H.264 and H.265 in a byte stream.

/// Codec of a byte stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    H264,
    H265,
}

/// Kind of a NAL unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Part of a picture; `first` if the picture begins with it.
    Picture {
        first: bool,
        random_access: bool,
    },
    /// Unit that precedes the picture to which it belongs.
    Before,
    Set,
    /// Access unit delimiter, which ends the access unit before and is dropped.
    Delimiter,
    /// Filler data, which is dropped.
    Filler,
    Other,
}

/// Position of the first start code 00 00 01.
pub(super) fn start_code(bytes: &[u8]) -> Option<usize> {
    let mut from = 2;
    // Searches for 01, which is rarer than 00.
    while let Some(at) = bytes.get(from..)?.iter().position(|byte| *byte == 1) {
        let at = from + at;
        if bytes[at - 2..at] == [0, 0] {
            return Some(at - 2);
        }
        from = at + 1;
    }
    None
}

impl Syntax {
    /// Kind of a NAL unit; `None` if the unit is empty.
    pub(super) fn kind(self, unit: &[u8]) -> Option<Kind> {
        let first = *unit.first()?;
        let byte = |index: usize| unit.get(index).copied().unwrap_or(0);
        Some(match self {
            // Table 7-1 and section 7.4.1.2.3. first_mb_in_slice is 0 if its first bit is set.
            Self::H264 => match first & 0x1f {
                5 => Kind::Picture { first: byte(1) & 0x80 != 0, random_access: true },
                1 | 2 => Kind::Picture { first: byte(1) & 0x80 != 0, random_access: false },
                3 | 4 => Kind::Picture { first: false, random_access: false },
                7 | 8 => Kind::Set,
                9 => Kind::Delimiter,
                12 => Kind::Filler,
                6 | 14..=18 => Kind::Before,
                _ => Kind::Other,
            },
            // Table 7-1 and section 7.4.2.4.4 (first_slice_segment_in_pic_flag). Only the base layer is used.
            Self::H265 if (first & 1) != 0 || byte(1) >> 3 != 0 => Kind::Other,
            Self::H265 => match first >> 1 & 0x3f {
                kind @ 0..=31 => {
                    Kind::Picture { first: byte(2) & 0x80 != 0, random_access: (16..=23).contains(&kind) }
                }
                32..=34 => Kind::Set,
                35 => Kind::Delimiter,
                38 => Kind::Filler,
                39 | 41..=44 | 48..=55 => Kind::Before,
                _ => Kind::Other,
            },
        })
    }

    /// Returns whether the unit is a sequence parameter set, which encoders write at random access points.
    pub(super) fn is_sequence_set(self, unit: &[u8]) -> bool {
        match (self, unit) {
            (Self::H264, [first, ..]) => first & 0x1f == 7,
            (Self::H265, [first, ..]) => first >> 1 & 0x3f == 33,
            _ => false,
        }
    }
}
