use super::super::Chain;
use super::*;
use crate::handler::{Common, Handler, HandlerId, Reach};
use proptest::prelude::*;

/// Handler of three kinds that reads all bytes of whole records. Records whose bytes have an even sum pass,
/// are kept in parts, or are rewritten with their second half appended. Records of 13 bytes are refused.
struct Sums(Reach);

impl Sums {
    fn is_even(piece: Piece<'_>) -> Result<bool, HandlerError> {
        if piece.length() == 13 {
            return Err(HandlerError::Refused("13 bytes".to_owned()));
        }
        Ok(piece.slices().flatten().fold(0u8, |sum, byte| sum.wrapping_add(*byte)).is_multiple_of(2))
    }
}

impl Common for Sums {
    fn name(&self) -> &'static str {
        "sums"
    }

    fn reach(&self) -> Reach {
        self.0
    }
}

impl Read for Sums {
    fn read(&mut self, piece: Piece<'_>) -> Result<Verdict, HandlerError> {
        Ok(if Sums::is_even(piece)? { Verdict::Pass } else { Verdict::Drop })
    }
}

impl Select for Sums {
    fn select(&mut self, piece: Piece<'_>, frame: &mut Frame<'_>) -> Result<(), HandlerError> {
        let length = piece.length();
        if Sums::is_even(piece)? {
            frame.add(Bytes::from_static(b"head"));
            frame.keep(length / 4..length / 2);
            frame.add(Bytes::from_static(b"-"));
            frame.keep(length / 3..length);
        } else if length.is_multiple_of(3) {
            frame.pass_empty();
        }
        Ok(())
    }
}

impl Rewrite for Sums {
    fn room(&self, length: usize) -> usize {
        2 * length
    }

    fn rewrite(&mut self, piece: Piece<'_>, out: &mut [u8]) -> Result<Option<usize>, HandlerError> {
        let length = piece.length();
        piece.copy_to(0, out);
        let copied = piece.copy_to(length / 2, &mut out[length..]);
        Ok(Sums::is_even(piece)?.then_some(length + copied))
    }
}

fn handlers(reach: Reach) -> [Handler; 3] {
    [
        Handler::Read(Box::new(Sums(reach))),
        Handler::Select(Box::new(Sums(reach))),
        Handler::Rewrite(Box::new(Sums(reach))),
    ]
}

/// Applies a handler to records that come in pieces; returns the resulting records and the reports.
fn made(
    handler: Handler,
    records: &[(Vec<u8>, Vec<usize>, bool)],
) -> (Vec<Vec<u8>>, Vec<(&'static str, u64)>) {
    let (mut chain, mut out) = (Chain::default(), Vec::new());
    chain.push(HandlerId(0), handler);
    chain.drop_refused();
    for (record, cuts, is_own) in records {
        pieces(record, cuts, *is_own).into_iter().for_each(|run| chain.handle(run, &mut out).unwrap());
    }
    assert_eq!(chain.gathered(), 0);
    let reports = chain.reports().into_iter().map(|(_, what, count)| (what, count)).collect();
    (super::super::tests::records(&out), reports)
}

/// Cuts a record into pieces, in memory that only the stream owns and that is contiguous, or in shared
/// memory.
fn pieces(record: &[u8], cuts: &[usize], is_own: bool) -> Vec<Run<Memory>> {
    let mut rest = BytesMut::from(record);
    let mut pieces: Vec<BytesMut> = cuts.iter().map(|cut| rest.split_to(cut % (rest.len() + 1))).collect();
    pieces.push(rest);
    let last = pieces.len() - 1;
    let memory = |bytes: BytesMut| if is_own { bytes.into() } else { Memory::Shared(bytes.freeze()) };
    let run = |(index, bytes)| Run::single(memory(bytes), index == 0, index == last);
    pieces.into_iter().enumerate().map(run).collect()
}

proptest! {
    /// Promise: Handlers receive whole records as slices, without a copy.
    ///
    /// Handlers of all kinds produce the same result from a record in slices as from a contiguous record.
    #[test]
    fn a_record_in_slices_becomes_what_a_gathered_one_does(
        records in proptest::collection::vec(
            (
                proptest::collection::vec(any::<u8>(), 0..60),
                proptest::collection::vec(0usize..20, 0..6),
                any::<bool>(),
            ),
            1..12,
        ),
    ) {
        let gathered = handlers(Reach::Records { limit: 40 });
        for (in_slices, gathered) in handlers(Reach::Slices { limit: 40 }).into_iter().zip(gathered) {
            prop_assert_eq!(made(in_slices, &records), made(gathered, &records));
        }
    }

    /// Promise: Handlers receive whole records as slices, without a copy.
    ///
    /// Records that pass stay in their memory.
    #[test]
    fn what_passes_a_handler_that_takes_slices_lies_where_it_lay(
        cuts in proptest::collection::vec(1usize..30_000, 1..FEW),
        is_own in any::<bool>(),
    ) {
        let record: Vec<u8> = (0..300_000_u32).map(|number| (2 * (number / 3)) as u8).collect();
        for handler in handlers(Reach::Slices { limit: record.len() }).into_iter().take(2) {
            let (mut chain, mut out) = (Chain::default(), Vec::new());
            chain.push(HandlerId(0), handler);
            let pieces = pieces(&record, &cuts, is_own);
            let lay: Vec<Range<*const u8>> = pieces.iter().map(|run| run.bytes.as_ptr_range()).collect();
            let whole = lay[0].start..lay[lay.len() - 1].end;
            pieces.into_iter().for_each(|run| chain.handle(run, &mut out).unwrap());
            let kept = out.iter().filter(|run| run.bytes.len() > 4).map(|run| run.bytes.as_ptr_range());
            let kept: Vec<Range<*const u8>> = kept.collect();
            prop_assert!(!kept.is_empty());
            prop_assert!(kept.iter().all(|kept| kept.start >= whole.start && kept.end <= whole.end));
            prop_assert!(!is_own || out.len() <= 4, "neighbours are one slice: {}", out.len());
        }
    }
}

/// Promise: Handlers receive whole records as slices, without a copy.
///
/// A record in tiny pieces takes memory for its bytes, and not for each piece.
#[test]
fn tiny_pieces_are_copied_together_when_there_are_many() {
    const RECORD: usize = 100_000;
    let mut slices = Slices::default();
    for number in 0..RECORD {
        slices.add(Memory::Shared(Bytes::copy_from_slice(&[number as u8])));
    }
    assert_eq!(slices.length(), RECORD);
    let slices = slices.take();
    assert!(slices.len() <= FEW + 2 * RECORD / SHORT, "{} slices", slices.len());
    let views = views(&slices);
    assert!(Piece::in_slices(&views).slices().flatten().copied().eq((0..RECORD).map(|number| number as u8)));
}

/// Promise: Handlers receive whole records as slices, without a copy.
///
/// If a record is longer than the handler takes, no more than the limit is kept.
#[test]
fn a_longer_record_than_a_handler_takes_in_slices_is_refused_and_the_next_passes() {
    for handler in handlers(Reach::Slices { limit: 4 }) {
        let (mut chain, mut out) = (Chain::default(), Vec::new());
        chain.push(HandlerId(0), handler);
        chain.drop_refused();
        let mut handle = |bytes: &'static [u8], begins, ends| {
            chain.handle(Run::single(Bytes::from_static(bytes), begins, ends), &mut out).unwrap();
            chain.gathered()
        };
        assert_eq!([handle(b"\x02\x02", true, false), handle(b"\x02\x02", false, false)], [2, 4]);
        assert_eq!([handle(b"\x02", false, false), handle(b"\x02\x02", false, true)], [0, 0]);
        assert_eq!([handle(b"\x02", true, false), handle(b"\x02", false, true)], [1, 0]);
        assert_eq!(chain.reports(), [("sums", "refused", 1)]);
        assert_eq!(super::super::tests::records(&out).len(), 1);
    }
}
