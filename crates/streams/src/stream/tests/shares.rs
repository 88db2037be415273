//! Splitting records into shares, and combining shares to records.

use super::*;
use proptest::prelude::*;

proptest! {
    /// Promise: Outputs get records in turn, by size, at random, by capacity, all of them, or as shares.
    ///
    /// The shares of all outputs but one are combined again.
    #[test]
    fn shares_come_together(
        records in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..20),
        missing in 0usize..4,
    ) {
        let input: Vec<u8> = records.iter().flat_map(|record| {
            (record.len() as u16).to_be_bytes().into_iter().chain(record.iter().copied()).collect::<Vec<u8>>()
        }).collect();
        let (objects, collected) = collects(4);
        let builder = StreamBuilder::default()
            .pattern(OutputPattern::Shares { threshold: 3 })
            .input(memory(&input), Framing::rtp());
        objects.into_iter().fold(builder, StreamBuilder::output).build().run().unwrap();
        // Shares arrive as datagrams, each of which is a record.
        let (object, output) = Object::collect("out", LIMIT);
        let mut stream = StreamBuilder::default().collect_shares(3, 10, LIMIT).output(object).build();
        let feeds: Vec<UdpSocket> = (0..3).map(|_| {
            let (near, inlet) = datagrams();
            stream.attach_input(inlet, Framing::Whole).unwrap();
            near
        }).collect();
        let parts = collected.iter().enumerate().filter(|(place, _)| *place != missing);
        for (feed, (_, part)) in feeds.iter().zip(parts) {
            part.records().iter().for_each(|share| { feed.send(share).unwrap(); });
        }
        while stream.status().records_in < records.len() as u64 {
            let (acted, _) = stream.act(u64::MAX, 0);
            prop_assert!(!matches!(acted, Acted::Ended(_)));
        }
        prop_assert_eq!(output.bytes(), input);
    }
}

/// Shares of records of ten bytes, for each of `count` connections.
fn dealt(records: u8, threshold: u8, count: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut splitter = crate::secret::SecretSplitter::new(threshold);
    let input: Vec<u8> = (0..records).flat_map(|number| [number; 10]).collect();
    let mut carried = vec![Vec::new(); count];
    for record in input.chunks(10) {
        let shares = splitter.split(record, count);
        carried.iter_mut().zip(shares).for_each(|(carried, share)| carried.extend_from_slice(&share));
    }
    (input, carried)
}

const SHARE: usize = crate::SHARE_HEADER + 10;

/// Promise: Shares from connections out of step are restored without loss, within limits of records and
/// bytes.
///
/// Connections are rarely in step: the connection that is ahead waits, bounded in records and in bytes, and
/// no record is given up.
#[test]
fn shares_by_connections_that_are_not_in_step_lose_nothing_and_wait_within_bounds() {
    let ten = 10 * (SHARE + crate::secret::SHARE_MEMORY);
    for (window, bytes, waiting) in [(4, LIMIT, 4), (1000, ten, 10), (1, 1, 1)] {
        let (input, carried) = dealt(200, 2, 2);
        let (ends, inlets): (Vec<UnixStream>, Vec<UnixStream>) =
            (0..2).map(|_| UnixStream::pair().unwrap()).unzip();
        let (object, output) = Object::collect("out", LIMIT);
        let builder = StreamBuilder::default().collect_shares(2, window, bytes).output(object);
        let inlet = |inlet: UnixStream| Object::stream("inlet", inlet.into()).unwrap();
        let builder =
            inlets.into_iter().fold(builder, |builder, one| builder.input(inlet(one), Framing::Fixed(SHARE)));
        let mut stream = builder.build();
        let act = |stream: &mut Stream| {
            (1..3).for_each(|port| stream.note_ready(Port(port)));
            while matches!(stream.act(u64::MAX, 0).0, Acted::More) {}
            let Order::Shares(collector) = &stream.intake.order else { panic!("another order") };
            collector.bytes / SHARE
        };
        (&ends[0]).write_all(&carried[0]).unwrap();
        assert_eq!(act(&mut stream), waiting, "shares wait for the other connection");
        (&ends[1]).write_all(&carried[1][..100 * SHARE]).unwrap();
        assert_eq!(act(&mut stream), waiting);
        assert_eq!(output.bytes(), input[..1000]);
        (&ends[1]).write_all(&carried[1][100 * SHARE..]).unwrap();
        assert_eq!(act(&mut stream), 0);
        drop(ends);
        stream.run().unwrap();
        assert_eq!(output.bytes(), input);
        assert_eq!(stream.status().shares, Some(crate::ShareCounts::default()));
    }
}

/// Promise: Shares from connections out of step are restored without loss, within limits of records and
/// bytes.
///
/// Two of three shares suffice: neither a silent connection nor an ended one delays the others, and the
/// stream does not wait for a share that a connection does not have.
#[test]
fn shares_that_are_not_needed_are_not_waited_for() {
    let (input, mut carried) = dealt(100, 2, 3);
    // Of record 40 one share is left, which is too few; then the last connection ends.
    carried[0].drain(40 * SHARE..41 * SHARE);
    carried[2].truncate(40 * SHARE);
    let (silent, inlet) = UnixStream::pair().unwrap();
    let (object, output) = Object::collect("out", LIMIT);
    let builder = StreamBuilder::default().collect_shares(2, 4, LIMIT).output(object);
    let builder =
        carried.iter().fold(builder, |builder, shares| builder.input(memory(shares), Framing::Fixed(SHARE)));
    let mut stream =
        builder.input(Object::stream("silent", inlet.into()).unwrap(), Framing::Fixed(SHARE)).build();
    while matches!(stream.act(u64::MAX, 0).0, Acted::More) {}
    assert_eq!(output.bytes(), input[..400], "what the silent one could complete is waited for");
    drop(silent);
    stream.note_ready(Port(4));
    stream.run().unwrap();
    assert_eq!(output.bytes(), [&input[..400], &input[410..]].concat());
    let status = stream.status();
    let shares = status.shares.unwrap();
    assert_eq!((shares.lost, shares.spare), (1, 40));
    let (size, handed_on) = (SHARE as u64, 2 * 99 * SHARE as u64);
    assert_eq!((status.bytes_dropped, status.bytes_pending), (size, 0), "the one that told nothing");
    assert_eq!(status.bytes_in, handed_on + status.bytes_dropped + 40 * size);
}

/// Promise: A datagram that does not match its framing, or is not a share, is dropped and counted.
#[test]
fn datagrams_that_are_no_shares_are_dropped_and_counted() {
    let (sender, inlet) = datagrams();
    let (object, collected) = Object::collect("out", LIMIT);
    let mut stream = StreamBuilder::default()
        .collect_shares(2, 4, LIMIT)
        .input(inlet, Framing::Whole)
        .output(object)
        .build();
    let shares = crate::secret::SecretSplitter::new(2).split(b"secret", 2);
    let mut mixed = shares[1].to_vec();
    mixed[0] = 1; // another version
    for datagram in [b"no share", &shares[0][..], &mixed, &shares[1]] {
        assert_eq!(sender.send(datagram).unwrap(), datagram.len());
    }
    while collected.bytes().is_empty() {
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
        stream.note_ready(Port(1));
    }
    assert_eq!(collected.bytes(), b"secret");
    assert_eq!(
        stream.status().inputs[0].malformed,
        crate::Dropped { records: 2, bytes: 8 + mixed.len() as u64 }
    );
    // A byte stream has a single sender, of which nothing more can be trusted.
    let mut stream = StreamBuilder::default()
        .collect_shares(2, 4, LIMIT)
        .input(memory(b"no share"), Framing::Whole)
        .output(Object::collect("out", LIMIT).0)
        .build();
    assert!(matches!(stream.run(), Err(StreamError::Share(_))));
}

/// Promise: More outputs than the number of shares that a record can have is an error.
#[test]
fn more_outputs_than_there_can_be_shares_are_an_error() {
    let (objects, _) = collects(256);
    let builder = StreamBuilder::default()
        .pattern(OutputPattern::Shares { threshold: 2 })
        .input(memory(b"abc"), Framing::Whole);
    let mut stream = objects.into_iter().fold(builder, StreamBuilder::output).build();
    let error = stream.run().unwrap_err();
    assert_eq!(error.to_string(), "too many outputs for shares: 256, and a record has at most 255");
    assert_eq!(stream.status().bytes_in, 0);
}

/// Records of which enough shares come over connections that end after these many bytes.
fn recoverable(input: &[u8], cuts: &[usize], threshold: usize) -> Vec<u8> {
    let mut end = 0;
    let came = input.chunks(10).filter(|record| {
        end += crate::SHARE_HEADER + record.len();
        cuts.iter().filter(|cut| **cut >= end).count() >= threshold
    });
    came.flatten().copied().collect()
}

/// Shares of records of ten bytes and a last one of four, for each of three connections.
fn dealt_unevenly() -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut splitter = crate::secret::SecretSplitter::new(2);
    let input: Vec<u8> = (0..34).collect();
    let mut carried = vec![Vec::new(); 3];
    for record in input.chunks(10) {
        let shares = splitter.split(record, 3);
        carried.iter_mut().zip(shares).for_each(|(carried, share)| carried.extend_from_slice(&share));
    }
    (input, carried)
}

/// Promise: An input that fails within a share, or brings shares of another stream, does not affect the
/// others.
///
/// For each of three inputs cut at any byte, in any order of arrival.
#[test]
fn an_input_that_ends_within_a_share_takes_nothing_from_the_others() {
    let (input, carried) = dealt_unevenly();
    let length = carried[0].len();
    for (cut, place) in (0..length).flat_map(|cut| [0, 1, 2].map(|place| (cut, place))) {
        let mut carried = carried.clone();
        carried[place].truncate(cut);
        let (object, output) = Object::collect("out", LIMIT);
        let builder = StreamBuilder::default().collect_shares(2, 4, LIMIT).output(object);
        let framed =
            |builder: StreamBuilder, shares: &Vec<u8>| builder.input(memory(shares), Framing::Fixed(SHARE));
        let mut stream = carried.iter().fold(builder, framed).build();
        stream.run().unwrap();
        assert_eq!(output.bytes(), input, "input {place} ends after {cut} bytes");
        let shares = stream.status().shares.unwrap();
        assert_eq!((shares.lost, shares.damaged), (0, u64::from(cut % SHARE > 0)), "{place} {cut}");
    }
}

proptest! {
    /// Promise: An input that fails within a share, or brings shares of another stream, does not affect the
    /// others.
    ///
    /// All inputs are cut somewhere and bring their bytes in any order and in any pieces: the output has the
    /// records of which enough whole shares came, and no other byte.
    #[test]
    fn inputs_that_are_cut_bring_the_records_of_which_enough_shares_came(
        cuts in proptest::array::uniform3(0usize..=4 * SHARE),
        steps in proptest::collection::vec((0usize..3, 1usize..50), 0..40),
        window in 1usize..5,
    ) {
        let (input, mut carried) = dealt_unevenly();
        carried.iter_mut().zip(cuts).for_each(|(carried, cut)| carried.truncate(cut));
        let (mut ends, inlets): (Vec<UnixStream>, Vec<UnixStream>) =
            (0..3).map(|_| UnixStream::pair().unwrap()).unzip();
        let (object, output) = Object::collect("out", LIMIT);
        let builder = StreamBuilder::default().collect_shares(2, window, LIMIT).output(object);
        let inlet = |inlet: UnixStream| Object::stream("inlet", inlet.into()).unwrap();
        let framed = |builder: StreamBuilder, one| builder.input(inlet(one), Framing::Fixed(SHARE));
        let mut stream = inlets.into_iter().fold(builder, framed).build();
        let mut sent = [0; 3];
        for (place, bytes) in steps {
            let until = (sent[place] + bytes).min(carried[place].len());
            ends[place].write_all(&carried[place][sent[place]..until]).unwrap();
            sent[place] = until;
            stream.note_ready(Port(1 + place as u64));
            while matches!(stream.act(u64::MAX, 0).0, Acted::More) {}
        }
        for (place, end) in ends.iter_mut().enumerate() {
            end.write_all(&carried[place][sent[place]..]).unwrap();
        }
        drop(ends);
        stream.run().unwrap();
        prop_assert_eq!(output.bytes(), recoverable(&input, &cuts, 2));
        let status = stream.status();
        prop_assert_eq!((status.bytes_pending, stream.intake.nothing_waits()), (0, true));
    }
}

/// Promise: Shares with a different threshold than the stream's are refused and counted.
///
/// Such a share is dropped if it is a datagram, and the first is reported; a byte stream with such a share
/// fails, with an error that says what to set.
#[test]
fn shares_of_another_threshold_are_dropped_of_datagrams_and_end_an_input_of_bytes() {
    let (sender, inlet) = datagrams();
    let (object, collected) = Object::collect("out", LIMIT);
    let (builder, told) = events(StreamBuilder::default().collect_shares(2, 4, LIMIT));
    let mut stream = builder.input(inlet, Framing::Whole).output(object).build();
    let (_, forged) = dealt(1, 1, 1);
    let (_, foreign) = dealt(1, 3, 3);
    let (input, own) = dealt(1, 2, 2);
    for datagram in [&forged[0], &foreign[2], &own[0], &own[1]] {
        sender.send(datagram).unwrap();
    }
    while collected.bytes().is_empty() {
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
        stream.note_ready(Port(1));
    }
    assert_eq!(collected.bytes(), input);
    let status = stream.status();
    assert_eq!((status.shares.unwrap().foreign, status.malformed.records), (2, 2));
    let words = told.try_iter().map(|event| format!("{event:?}")).find(|event| event.contains("Refused"));
    assert!(words.unwrap().contains("a share of threshold 1, and 2 is configured"));

    let mut stream = StreamBuilder::default()
        .collect_shares(2, 4, LIMIT)
        .input(memory(&foreign[0]), Framing::Fixed(SHARE))
        .output(Object::collect("out", LIMIT).0)
        .build();
    let error = stream.run().unwrap_err();
    assert!(error.to_string().starts_with("a share of threshold 3, and 2 is configured"), "{error}");
}

/// Lengthens each record to this length.
struct Lengthened(usize);

impl crate::Common for Lengthened {
    fn name(&self) -> &'static str {
        "lengthened"
    }
}

impl crate::Rewrite for Lengthened {
    fn room(&self, _length: usize) -> usize {
        self.0
    }

    fn rewrite(
        &mut self,
        _piece: crate::Piece<'_>,
        out: &mut [u8],
    ) -> Result<Option<usize>, crate::HandlerError> {
        out[..self.0].fill(7);
        Ok(Some(self.0))
    }
}

/// Promise: A record that is too long for sharing is an error, and no later record is sent.
#[test]
fn a_record_whose_length_a_share_cannot_say_is_an_error() {
    let most = (16 << 20) - crate::SHARE_HEADER;
    for (length, fits) in [(most, true), (most + 1, false)] {
        let (objects, collected) = collects(2);
        let builder = StreamBuilder::default()
            .pattern(OutputPattern::Shares { threshold: 2 })
            .handler(Handler::Rewrite(Box::new(Lengthened(length))))
            .input(memory(b"ab"), Framing::Fixed(1));
        let mut stream = objects.into_iter().fold(builder, StreamBuilder::output).build();
        let ended = stream.run();
        let came = collected[0].bytes().len();
        if fits {
            assert_eq!((ended, came), (Ok(()), 2 * (most + crate::SHARE_HEADER)));
        } else {
            let words = ended.unwrap_err().to_string();
            let expected = format!("record of {length} bytes: at most {most} can be shared");
            assert!(words.starts_with(&expected), "{words}");
            let status = stream.status();
            assert_eq!((came, status.bytes_dropped), (0, 2 * length as u64));
        }
    }
}
