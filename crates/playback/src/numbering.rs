//! RTP sequence numbers and timestamps across seeks. They continue where the last ones ended (RFC 2326
//! appendix B), so stored headers are sent unchanged only until the first seek.

use wirepath_datapath::Headers;

/// A packet's sequence number and timestamp.
type Numbers = (u16, u32);

/// Offset between stored and sent numbers.
#[derive(Debug)]
pub(crate) struct Numbering {
    /// Headers of the next packet.
    pub(crate) headers: Headers,
    /// Numbers that follow those sent last.
    next: Option<Numbers>,
    /// True if the next train must continue from `next`.
    rebase: bool,
}

impl Default for Numbering {
    fn default() -> Self {
        Self { headers: Headers::Stored, next: None, rebase: false }
    }
}

impl Numbering {
    /// Notes that the next packet is stored elsewhere. Before the first packet there is nothing to continue.
    pub(crate) fn seek(&mut self) {
        self.rebase = self.next.is_some();
    }

    /// Begins to send at the packet that is stored with these numbers. Returns whether packets have headers
    /// of the playback's own from here on.
    pub(crate) fn begin(&mut self, stored: Numbers) -> bool {
        let (true, Some((sequence, timestamp))) = (self.rebase, self.next) else { return false };
        self.rebase = false;
        self.headers = Headers::Own {
            sequence_offset: sequence.wrapping_sub(stored.0),
            timestamp_offset: timestamp.wrapping_sub(stored.1),
            marker: true,
            stored: true,
        };
        true
    }

    pub(crate) fn sent(&self, (sequence, timestamp): Numbers) -> Numbers {
        match self.headers {
            Headers::Stored | Headers::Generated => (sequence, timestamp),
            Headers::Own { sequence_offset, timestamp_offset, .. } => {
                (sequence.wrapping_add(sequence_offset), timestamp.wrapping_add(timestamp_offset))
            }
        }
    }

    /// Notes that all before the packet with these stored numbers was sent. Only the first packet after a
    /// seek has a marker.
    pub(crate) fn advance(&mut self, stored: Numbers) {
        self.next = Some(self.sent(stored));
        if let Headers::Own { marker, .. } = &mut self.headers {
            *marker = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Each sequence number follows the last, and each timestamp by the stored distance, however many the
        /// seeks.
        #[test]
        fn numbers_go_on_across_seeks(
            runs in prop::collection::vec((any::<u16>(), any::<u32>(), 1_u16..50), 1..8)
        ) {
            let mut numbering = Numbering::default();
            let mut expected: Option<Numbers> = None;
            for (sequence, timestamp, packets) in runs {
                numbering.seek();
                let owns = numbering.begin((sequence, timestamp));
                prop_assert_eq!(owns, expected.is_some());
                for packet in 0..packets {
                    let stored_timestamp = timestamp.wrapping_add(90 * u32::from(packet));
                    let stored = (sequence.wrapping_add(packet), stored_timestamp);
                    let sent = numbering.sent(stored);
                    prop_assert_eq!(sent, expected.unwrap_or(stored));
                    let has_marker = matches!(numbering.headers, Headers::Own { marker: true, .. });
                    prop_assert_eq!(has_marker, owns && packet == 0);
                    let next = (stored.0.wrapping_add(1), stored.1.wrapping_add(90));
                    numbering.advance(next);
                    expected = Some((sent.0.wrapping_add(1), sent.1.wrapping_add(90)));
                }
            }
        }
    }

    /// A request to play from another place before anything was sent leaves the stored numbers as they are.
    #[test]
    fn a_seek_before_the_first_packet_changes_nothing() {
        let mut numbering = Numbering::default();
        numbering.seek();
        assert!(!numbering.begin((7, 70)));
        assert_eq!((numbering.headers, numbering.sent((7, 70))), (Headers::Stored, (7, 70)));
    }
}
