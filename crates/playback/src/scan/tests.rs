use proptest::prelude::*;
use wirepath_engine::Waker;

use super::*;
use crate::scale::Scale;
use crate::source::{At, Load};

/// Pictures at these times, each in its own segment.
struct Pictured {
    at_us: Vec<u64>,
    is_growing: bool,
}

impl Pictured {
    fn cursor(&self, index: usize) -> Cursor {
        Cursor { segment: index as u32, at: At::Packet { train: 0, packet: 0, skip: 0 } }
    }
}

impl TrainSource for Pictured {
    fn segment(&self, _number: u32, _waker: Option<&Waker>) -> Load {
        if self.is_growing { Load::Pending } else { Load::End }
    }

    fn next_start(&self, at_us: u64) -> Option<Cursor> {
        let index = self.at_us.partition_point(|start_us| *start_us < at_us);
        (index < self.at_us.len()).then(|| self.cursor(index))
    }

    fn start_before(&self, at_us: u64) -> Option<Cursor> {
        let behind = self.at_us.partition_point(|start_us| *start_us <= at_us);
        behind.checked_sub(1).map(|index| self.cursor(index))
    }
}

const BITS_PER_SECOND: u64 = 8_000_000;

/// A scan from a picture, with the same number of bytes in each picture. Returns when pictures leave, after
/// the first, and which pictures they are.
fn scan(source: &Pictured, factor: f64, from: usize, bytes: u32) -> (Vec<(u64, usize)>, NextPicture) {
    let pictures = Pictures { scale: Scale::nearest(factor), stream: 0, bits_per_second: BITS_PER_SECOND };
    let mut scan = Scan::new(pictures, source.cursor(from), None);
    scan.begin(source.at_us[from], 1_000_000, 7_000_000);
    let mut sent = Vec::new();
    let mut left_us = 0;
    loop {
        scan.note_sent(bytes);
        match scan.advance(source, 1_000_000 + left_us) {
            NextPicture::Found => {}
            end => return (sent, end),
        }
        let index = scan.place.segment as usize;
        let (clock_us, session_us) = scan.enter(source.at_us[index]);
        left_us = clock_us - 1_000_000;
        assert_eq!(session_us - 7_000_000, left_us, "timestamps grow as time does");
        sent.push((left_us, index));
    }
}

/// Promise: A rewind ends with the first picture, also if the source does not begin with a picture.
#[test]
fn the_first_picture_of_a_source_is_the_last_of_a_rewind() {
    let at_us = [vec![23_000], (1..60).map(|second| second * 1_000_000).collect()].concat();
    let source = Pictured { at_us, is_growing: false };
    for factor in [-2.0, -16.0, -32.0] {
        let (sent, end) = scan(&source, factor, 59, 20_000);
        assert_eq!((sent.last().map(|(_, index)| *index), end), (Some(0), NextPicture::End), "{factor}");
    }
}

/// Promise: With Scale, each random access point leaves when the scaled presentation reaches it, in both
/// directions.
#[test]
fn pictures_leave_at_the_time_of_the_scale() {
    let source = Pictured { at_us: (0..10).map(|second| second * 1_000_000).collect(), is_growing: false };
    let forward: Vec<(u64, usize)> = (1..10).map(|index| (index as u64 * 250_000, index)).collect();
    assert_eq!(scan(&source, 4.0, 0, 1000), (forward, NextPicture::End));
    let backward: Vec<(u64, usize)> = (1..10).map(|index| (index as u64 * 500_000, 9 - index)).collect();
    assert_eq!(scan(&source, -2.0, 9, 1000), (backward, NextPicture::End));
}

/// Promise: With Scale, the number of pictures is limited by the bit rate of the asset.
#[test]
fn pictures_are_left_out_that_the_bit_rate_does_not_allow() {
    let source = Pictured { at_us: (0..100).map(|second| second * 1_000_000).collect(), is_growing: false };
    // Each takes 100 ms, in which 3.2 s of the source pass.
    let (sent, end) = scan(&source, 32.0, 0, 100_000);
    assert_eq!(end, NextPicture::End);
    assert_eq!(sent[..3], [(125_000, 4), (250_000, 8), (375_000, 12)]);
    let (sent, _) = scan(&source, -32.0, 99, 100_000);
    assert_eq!(sent[..3], [(125_000, 95), (250_000, 91), (375_000, 87)]);
}

#[test]
fn a_source_that_grows_is_waited_for() {
    let source = Pictured { at_us: vec![0, 1_000_000], is_growing: true };
    assert_eq!(scan(&source, 2.0, 0, 1), (vec![(500_000, 1)], NextPicture::NotYet));
    assert_eq!(scan(&source, -2.0, 1, 1), (vec![(500_000, 0)], NextPicture::End));
}

proptest! {
    /// Pictures are sent in order, each once, at no more than the bit rate, and never before their time.
    #[test]
    fn any_pictures_are_scanned_in_order(
        gaps in prop::collection::vec(1_u64..5_000_000, 1..60), factor in 2_i8..33, is_backward: bool,
        bytes in 1_u32..300_000,
    ) {
        let at_us: Vec<u64> =
            gaps.iter().scan(0, |at_us, gap_us| { *at_us += gap_us; Some(*at_us) }).collect();
        let source = Pictured { at_us, is_growing: false };
        let factor = f64::from(if is_backward { -factor } else { factor });
        let from = if is_backward { source.at_us.len() - 1 } else { 0 };
        let (sent, end) = scan(&source, factor, from, bytes);
        prop_assert_eq!(end, NextPicture::End);
        let takes_us = u64::from(bytes) * 8_000_000 / BITS_PER_SECOND;
        let (mut before_us, mut before) = (0, from);
        for (left_us, index) in sent {
            let is_in_order = if is_backward { index < before } else { index > before };
            prop_assert!(is_in_order);
            let is_beginning = is_backward && index == 0;
            prop_assert!(is_beginning || left_us >= before_us + takes_us.saturating_sub(1));
            let distance_us = source.at_us[index].abs_diff(source.at_us[from]);
            prop_assert_eq!(left_us, distance_us / factor.abs() as u64);
            (before_us, before) = (left_us, index);
        }
    }
}
