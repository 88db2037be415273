use super::*;
use crate::handler::{Common, Reach, Rewrite, Verdict};
use crate::handlers::Touch;
use proptest::prelude::*;

/// Drops records that begin with an odd byte.
struct EvenOnly;

impl Common for EvenOnly {
    fn name(&self) -> &'static str {
        "even"
    }
}

impl Read for EvenOnly {
    fn read(&mut self, piece: Piece<'_>) -> Result<Verdict, HandlerError> {
        let is_even = piece.bytes.first().is_none_or(|byte| byte % 2 == 0);
        Ok(if is_even { Verdict::Pass } else { Verdict::Drop })
    }
}

/// Keeps the first half of records that begin with less than 128, and adds a byte; keeps other records
/// completely.
struct Halve(Reach);

impl Common for Halve {
    fn name(&self) -> &'static str {
        "halve"
    }

    fn reach(&self) -> Reach {
        self.0
    }
}

impl Select for Halve {
    fn select(&mut self, piece: Piece<'_>, frame: &mut Frame<'_>) -> Result<(), HandlerError> {
        if piece.bytes.first().is_some_and(|byte| *byte < 128) {
            frame.keep(0..piece.bytes.len() / 2);
            frame.add(Bytes::from_static(b"!"));
        } else {
            frame.keep_all();
        }
        Ok(())
    }
}

/// Doubles every byte of whole records; drops records of seven bytes.
struct Double;

impl Common for Double {
    fn name(&self) -> &'static str {
        "double"
    }

    fn reach(&self) -> Reach {
        Reach::Records { limit: 1000 }
    }
}

impl Rewrite for Double {
    fn room(&self, length: usize) -> usize {
        2 * length
    }

    fn rewrite(&mut self, piece: Piece<'_>, out: &mut [u8]) -> Result<Option<usize>, HandlerError> {
        for (index, byte) in piece.bytes.iter().enumerate() {
            out[2 * index..2 * index + 2].fill(*byte);
        }
        Ok((piece.bytes.len() != 7).then_some(2 * piece.bytes.len()))
    }
}

pub(super) fn records(runs: &[Run]) -> Vec<Vec<u8>> {
    let mut records: Vec<Vec<u8>> = Vec::new();
    for piece in runs.iter().flat_map(Run::pieces) {
        if piece.begins {
            records.push(Vec::new());
        }
        records.last_mut().expect("a record begins before it goes on").extend_from_slice(piece.bytes);
    }
    records
}

fn touched(record: &[u8], mask: u8) -> Vec<u8> {
    record.iter().map(|byte| byte ^ mask).collect()
}

fn halved(record: &[u8]) -> Vec<u8> {
    match record.first() {
        Some(0..128) => [&record[..record.len() / 2], b"!"].concat(),
        _ => record.to_vec(),
    }
}

fn chain(handlers: impl IntoIterator<Item = Handler>) -> Chain {
    let mut chain = Chain::default();
    handlers.into_iter().zip(0..).for_each(|(handler, id)| chain.push(HandlerId(id), handler));
    chain
}

fn runs() -> impl Strategy<Value = Vec<Run>> {
    let run =
        (proptest::collection::vec(any::<u8>(), 1..60), 1usize..12).prop_map(|(bytes, record_bytes)| Run {
            bytes: bytes.into(),
            record_bytes,
            begins: true,
            ends: true,
        });
    proptest::collection::vec(run, 1..6)
}

proptest! {
    /// Promise: Handlers read, select or rewrite whole records or pieces, in order.
    ///
    /// Chained handlers give the same result as handlers applied to records one by one.
    #[test]
    fn a_chain_is_its_handlers_in_order(input in runs()) {
        let mut chain = chain([
            Handler::Read(Box::new(EvenOnly)),
            Handler::Modify(Box::new(Touch::new(0x80))),
            Handler::Select(Box::new(Halve(Reach::Pieces))),
            Handler::Modify(Box::new(Touch::new(0x0f))),
            Handler::Rewrite(Box::new(Double)),
        ]);
        let mut output = Vec::new();
        for run in &input {
            chain.apply(run.clone(), &mut output).unwrap();
        }
        let expected: Vec<Vec<u8>> = records(&input)
            .into_iter()
            .filter(|record| record[0] % 2 == 0)
            .map(|record| halved(&touched(&record, 0x80)))
            .map(|record| touched(&record, 0x0f))
            .filter(|record| record.len() != 7)
            .map(|record| record.iter().flat_map(|byte| [*byte, *byte]).collect())
            .collect();
        prop_assert_eq!(records(&output), expected);
    }

    /// Promise: Handlers read, select or rewrite whole records or pieces, in order.
    ///
    /// A handler that takes whole records gets them whole, in whatever pieces they arrive.
    #[test]
    fn whole_records_are_gathered(
        record in proptest::collection::vec(any::<u8>(), 1..100),
        cut in 0usize..100,
    ) {
        let cut = cut.min(record.len());
        let mut chain = chain([Handler::Select(Box::new(Halve(Reach::Records { limit: 100 })))]);
        let mut output = Vec::new();
        let bytes = Bytes::from(record.clone());
        chain.apply(Run::single(bytes.slice(..cut), true, false), &mut output).unwrap();
        prop_assert!(output.is_empty());
        chain.apply(Run::single(bytes.slice(cut..), false, true), &mut output).unwrap();
        prop_assert_eq!(records(&output), [halved(&record)]);
    }
}

/// Promise: Handlers change bytes in place; bytes that others also use are copied first.
#[test]
fn bytes_are_changed_where_they_are_unless_others_have_them() {
    let mut chain = chain([Handler::Modify(Box::new(Touch::new(1)))]);
    let mut output = Vec::new();
    let mut own = BytesMut::from(&b"abcdef"[..]);
    let rest = own.split_off(3);
    let place = own.as_ptr();
    chain.apply(Run::single(own, true, true), &mut output).unwrap();
    assert_eq!(
        (output[0].bytes.as_ptr(), &output[0].bytes[..], &rest[..]),
        (place, &b"`cb"[..], &b"def"[..])
    );
    let shared = Bytes::from(b"abc".to_vec());
    chain.apply(Run::single(shared.clone(), true, true), &mut output).unwrap();
    assert_eq!((&output[1].bytes[..], &shared[..]), (&b"`cb"[..], &b"abc"[..]));
    let place = shared.as_ptr();
    chain.apply(Run::single(shared, true, true), &mut output).unwrap();
    assert_eq!(
        (output[2].bytes.as_ptr(), &output[2].bytes[..]),
        (place, &b"`cb"[..]),
        "nobody else has it now"
    );
}

#[test]
fn a_record_that_is_dropped_by_its_beginning_is_dropped_to_its_end() {
    let mut chain = chain([Handler::Read(Box::new(EvenOnly))]);
    let mut output = Vec::new();
    for (bytes, begins, ends) in
        [(&b"\x01ab"[..], true, false), (b"\x02cd", false, true), (b"\x02ef", true, true)]
    {
        chain.apply(Run::single(Bytes::from_static(bytes), begins, ends), &mut output).unwrap();
    }
    assert_eq!(records(&output), [b"\x02ef"]);
}

#[test]
fn records_that_pass_stay_together() {
    let mut chain = chain([Handler::Read(Box::new(EvenOnly)), Handler::Rewrite(Box::new(Double))]);
    let mut output = Vec::new();
    let run = Run {
        bytes: Bytes::from_static(b"\x02a\x04b\x01c\x06d\x08"),
        record_bytes: 2,
        begins: true,
        ends: true,
    };
    chain.apply(run, &mut output).unwrap();
    let lengths: Vec<(usize, usize)> = output.iter().map(|run| (run.bytes.len(), run.record_bytes)).collect();
    assert_eq!(lengths, [(8, 4), (4, 4), (2, 2)]);
    assert_eq!(records(&output).concat(), b"\x02\x02aa\x04\x04bb\x06\x06dd\x08\x08");
}

#[test]
fn a_longer_record_than_a_handler_takes_is_an_error_that_names_it() {
    let mut chain = chain([Handler::Select(Box::new(Halve(Reach::Records { limit: 4 })))]);
    let error =
        chain.apply(Run::single(Bytes::from_static(b"12345"), true, true), &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "handler halve: record of 5 bytes or more: at most 4 are allowed");
}

#[test]
fn an_empty_record_that_is_kept_goes_on() {
    let mut chain = chain([Handler::Select(Box::new(Halve(Reach::Pieces)))]);
    let mut output = Vec::new();
    chain.apply(Run::single(Bytes::new(), true, true), &mut output).unwrap();
    assert_eq!(output, [Run::single(Bytes::new(), true, true)]);
}

/// Refuses records that contain an x, at the piece that contains it.
struct NoX(Reach);

impl Common for NoX {
    fn name(&self) -> &'static str {
        "no x"
    }

    fn reach(&self) -> Reach {
        self.0
    }
}

fn refuse_x(piece: Piece<'_>) -> Result<(), HandlerError> {
    if piece.slices().flatten().any(|byte| *byte == b'x') {
        Err(HandlerError::Refused("an x".to_owned()))
    } else {
        Ok(())
    }
}

impl Read for NoX {
    fn read(&mut self, piece: Piece<'_>) -> Result<Verdict, HandlerError> {
        refuse_x(piece).map(|()| Verdict::Pass)
    }
}

impl Select for NoX {
    fn select(&mut self, piece: Piece<'_>, frame: &mut Frame<'_>) -> Result<(), HandlerError> {
        frame.keep_all();
        refuse_x(piece)
    }
}

impl Rewrite for NoX {
    fn room(&self, length: usize) -> usize {
        length
    }

    fn rewrite(&mut self, piece: Piece<'_>, out: &mut [u8]) -> Result<Option<usize>, HandlerError> {
        let length = piece.copy_to(0, out);
        refuse_x(piece).map(|()| Some(length))
    }
}

impl Modify for NoX {
    fn modify(&mut self, piece: PieceMut<'_>) -> Result<Verdict, HandlerError> {
        refuse_x(Piece::whole(piece.bytes)).map(|()| Verdict::Pass)
    }
}

/// Handlers of each kind that refuse records.
fn refusing(reach: Reach) -> [Handler; 4] {
    [
        Handler::Modify(Box::new(NoX(reach))),
        Handler::Read(Box::new(NoX(reach))),
        Handler::Select(Box::new(NoX(reach))),
        Handler::Rewrite(Box::new(NoX(reach))),
    ]
}

/// Promise: A datagram that does not match its framing, or is not a share, is dropped and counted.
#[test]
fn refused_records_end_the_stream_unless_they_are_forgiven() {
    let run = || Run { bytes: Bytes::from_static(b"aabxccxde"), record_bytes: 2, begins: true, ends: true };
    for handler in refusing(Reach::Pieces) {
        let mut chain = chain([handler]);
        let error = chain.apply(run(), &mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "handler no x: an x");
        assert_eq!(chain.reports(), [("no x", "refused", 1)]);
    }
    for handler in refusing(Reach::Pieces) {
        let (mut chain, mut output) = (chain([handler]), Vec::new());
        chain.drop_refused();
        chain.apply(run(), &mut output).unwrap();
        // The other pieces of a record are dropped like its beginning.
        for (bytes, begins, ends) in [(&b"x1"[..], true, false), (b"2", false, true), (b"3", true, true)] {
            chain.apply(Run::single(Bytes::from_static(bytes), begins, ends), &mut output).unwrap();
        }
        assert_eq!(records(&output), [&b"aa"[..], b"cc", b"e", b"3"]);
        assert_eq!(chain.reports(), [("no x", "refused", 3)]);
        assert_eq!(chain.take_refusal().unwrap().to_string(), "handler no x: an x");
        assert!(chain.take_refusal().is_none(), "it is told once");
        // A record that has left in part cannot be dropped.
        chain.apply(Run::single(Bytes::from_static(b"a"), true, false), &mut output).unwrap();
        assert!(chain.apply(Run::single(Bytes::from_static(b"x"), false, true), &mut output).is_err());
    }
}

#[test]
fn longer_records_than_a_handler_takes_are_refused_and_the_others_pass() {
    let reaches = [Reach::Records { limit: 2 }, Reach::Slices { limit: 2 }];
    for handler in reaches.into_iter().flat_map(refusing) {
        let (mut chain, mut output) = (chain([handler]), Vec::new());
        chain.drop_refused();
        let run = |bytes: &'static [u8]| Run {
            bytes: Bytes::from_static(bytes),
            record_bytes: 3,
            begins: true,
            ends: true,
        };
        chain.apply(run(b"aaabbbcc"), &mut output).unwrap();
        chain.apply(run(b"dddeee"), &mut output).unwrap();
        for (bytes, begins, ends) in
            [(&b"ff"[..], true, false), (b"f", false, false), (b"f", false, true), (b"g", true, true)]
        {
            chain.apply(Run::single(Bytes::from_static(bytes), begins, ends), &mut output).unwrap();
        }
        assert_eq!(records(&output), [&b"cc"[..], b"g"]);
        assert_eq!(chain.reports(), [("no x", "refused", 5)]);
    }
}

/// Promise: Every byte read is delivered, pending, returned, filtered or counted as dropped.
#[test]
fn bytes_gathered_of_a_refused_record_are_counted_as_dropped() {
    let reaches = [Reach::Records { limit: 10 }, Reach::Slices { limit: 10 }];
    for handler in reaches.into_iter().flat_map(refusing) {
        let (mut chain, mut output) = (chain([handler]), Vec::new());
        let run = |bytes: &'static [u8], begins, ends| Run::single(Bytes::from_static(bytes), begins, ends);
        chain.handle(run(b"ab", true, false), &mut output).unwrap();
        assert_eq!((chain.gathered(), chain.dropped_bytes), (2, 0));
        chain.handle(run(b"x", false, true), &mut output).unwrap_err();
        assert_eq!((chain.gathered(), chain.dropped_bytes, output.len()), (0, 3, 0));
        chain.handle(run(b"cd", true, true), &mut output).unwrap();
        assert_eq!((chain.dropped_bytes, output.len()), (5, 0));
    }
}

/// Returns the first bytes of a record, and requests more room than it fills.
struct First(usize, usize);

impl Common for First {
    fn name(&self) -> &'static str {
        "first"
    }
}

impl Rewrite for First {
    fn room(&self, _length: usize) -> usize {
        self.0
    }

    fn rewrite(&mut self, piece: Piece<'_>, out: &mut [u8]) -> Result<Option<usize>, HandlerError> {
        out[..self.1].copy_from_slice(&piece.bytes[..self.1]);
        Ok(Some(self.1))
    }
}

/// Promise: Pending output of a rewriting handler takes little more memory than its bytes.
///
/// The handler requests a long room and fills little of it: no part of the block is kept, and the block is
/// reused.
#[test]
fn what_shrinks_keeps_no_block_in_memory() {
    for (room, length, is_kept) in [(60_000, 100, false), (60_000, 40_000, true), (300, 100, true)] {
        let mut chain = chain([Handler::Rewrite(Box::new(First(room, length)))]);
        let (mut output, mut rests) = (Vec::new(), Vec::new());
        for number in 0..200u8 {
            let record = Bytes::from(vec![number; 40_000]);
            chain.apply(Run::single(record, number % 2 == 0, number % 2 == 1), &mut output).unwrap();
            let Link { blocks, long_blocks, .. } = &chain.links[0];
            rests.push(blocks.rest() + long_blocks.rest());
        }
        let is_all = rests.iter().all(|rest| *rest == BLOCK);
        assert_eq!(is_all, !is_kept, "{room} {length}: {rests:?}");
        let came = output.iter().zip(0u8..).all(|(run, number)| run.bytes == vec![number; length]);
        assert!(came && output.len() == 200);
    }
}

proptest! {
    /// Promise: Handlers read, select or rewrite whole records or pieces, in order.
    ///
    /// For any room that a rewriting handler requests, and any part of it that is filled.
    #[test]
    fn rewritten_records_come_in_order_whatever_room_they_take(
        rooms in proptest::collection::vec((1usize..70_000, 0usize..=100), 1..40),
    ) {
        let mut output = Vec::new();
        let mut chain = chain([Handler::Rewrite(Box::new(Rooms(rooms.clone(), 0)))]);
        let run = Run { bytes: Bytes::from(vec![0; rooms.len()]), record_bytes: 1, begins: true, ends: true };
        chain.apply(run, &mut output).unwrap();
        let expected: Vec<Vec<u8>> = rooms.iter().zip(0u8..).map(|((room, part), number)| {
            vec![number; room * part / 100]
        }).collect();
        prop_assert_eq!(records(&output), expected);
    }
}

/// Returns its number, repeated to fill a percentage of the room that it requests.
struct Rooms(Vec<(usize, usize)>, usize);

impl Common for Rooms {
    fn name(&self) -> &'static str {
        "rooms"
    }
}

impl Rewrite for Rooms {
    fn room(&self, _length: usize) -> usize {
        self.0[self.1].0
    }

    fn rewrite(&mut self, _piece: Piece<'_>, out: &mut [u8]) -> Result<Option<usize>, HandlerError> {
        let (room, part) = self.0[self.1];
        let length = room * part / 100;
        out[..length].fill(self.1 as u8);
        self.1 += 1;
        Ok(Some(length))
    }
}
