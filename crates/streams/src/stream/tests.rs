mod leaving;
mod storage;
mod unseen;

use super::input::Pulled;
use super::*;
use crate::{
    BlockingPool, Collected, Common, Engine, EngineOptions, Framing, Handler, HandlerError, Importance,
    InputOrder, Late, OutputOptions, OutputPattern, Read, Verdict, WhenFull,
};
use bytes::Bytes;
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{Read as _, Seek, SeekFrom, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use wirepath_datapath::Support;
use wirepath_datapath::calibration::Calibrations;

const LIMIT: usize = 1 << 30;

/// Only a hang takes so long.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// With one thread, and one for storage.
fn engine() -> Engine {
    let readers = BlockingPool::start("reader", 1, Importance::Equal).unwrap();
    let support = Arc::new(Support::probe(None, Calibrations::default(), false));
    Engine::start(&EngineOptions::default(), support, &readers).unwrap()
}

fn memory(bytes: &[u8]) -> Object {
    Object::memory("memory", Bytes::copy_from_slice(bytes))
}

fn collects(count: usize) -> (Vec<Object>, Vec<Collected>) {
    (0..count).map(|number| Object::collect(&format!("out {number}"), LIMIT)).unzip()
}

/// Spreads records of `record_bytes` over so many outputs; answers what each has.
fn spread(input: &[u8], record_bytes: usize, pattern: OutputPattern, count: usize) -> Vec<Collected> {
    let (objects, collected) = collects(count);
    let builder =
        StreamBuilder::default().pattern(pattern).input(memory(input), Framing::Fixed(record_bytes));
    let mut stream = objects.into_iter().fold(builder, StreamBuilder::output).build();
    stream.run().unwrap();
    assert_eq!(stream.status().bytes_in, input.len() as u64);
    collected
}

fn merged(builder: StreamBuilder, inputs: impl IntoIterator<Item = (Vec<u8>, Framing)>) -> Vec<u8> {
    let (object, collected) = Object::collect("out", LIMIT);
    let builder =
        inputs.into_iter().fold(builder, |builder, (bytes, framing)| builder.input(memory(&bytes), framing));
    builder.output(object).build().run().unwrap();
    collected.bytes()
}

proptest! {
    /// What is spread in turn or at random comes together again by the same order: the same records in the same order.
    #[test]
    fn merging_undoes_striping(
        input in proptest::collection::vec(any::<u8>(), 0..2000),
        record_bytes in 1usize..40,
        count in 1usize..5,
        seed in any::<u64>(),
    ) {
        // A shorter last record would be recognised by nobody when it is merged.
        let input = &input[..input.len() - input.len() % record_bytes];
        for (pattern, order) in [
            (OutputPattern::Stripe, InputOrder::RoundRobin),
            (OutputPattern::Random { seed }, InputOrder::Random { seed }),
        ] {
            let parts = spread(input, record_bytes, pattern, count);
            let parts = parts.iter().map(|part| (part.bytes(), Framing::Fixed(record_bytes)));
            prop_assert_eq!(merged(StreamBuilder::default().order(order), parts), input);
        }
    }

    #[test]
    fn stripes_of_bytes_are_of_their_size(
        input in proptest::collection::vec(any::<u8>(), 0..2000),
        unit in 1usize..100,
        count in 1usize..5,
    ) {
        let parts = spread(&input, 7, OutputPattern::StripeBytes(unit), count);
        for (place, part) in parts.iter().enumerate() {
            let expected: Vec<&[u8]> = input.chunks(unit).skip(place).step_by(count).collect();
            prop_assert_eq!(part.records(), expected);
        }
    }

    #[test]
    fn a_mirror_gives_all_to_each_and_capacity_each_record_once(
        input in proptest::collection::vec(any::<u8>(), 0..2000),
        record_bytes in 1usize..40,
        count in 1usize..5,
    ) {
        let records: Vec<&[u8]> = input.chunks(record_bytes).collect();
        for part in spread(&input, record_bytes, OutputPattern::Mirror, count) {
            prop_assert_eq!(part.records(), records.clone());
        }
        let parts = spread(&input, record_bytes, OutputPattern::Capacity, count);
        let mut all: Vec<Vec<u8>> = parts.iter().flat_map(Collected::records).collect();
        let mut expected: Vec<Vec<u8>> = records.iter().map(|record| record.to_vec()).collect();
        all.sort();
        expected.sort();
        prop_assert_eq!(all, expected);
    }

    /// Shares for all outputs but one are put together again.
    #[test]
    fn shares_come_together(
        records in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..20),
        missing in 0usize..4,
    ) {
        let input: Vec<u8> = records.iter().flat_map(|record| {
            (record.len() as u16).to_be_bytes().into_iter().chain(record.iter().copied()).collect::<Vec<u8>>()
        }).collect();
        let (objects, collected) = collects(4);
        let builder = StreamBuilder::default().pattern(OutputPattern::Shares { threshold: 3 }).input(memory(&input), Framing::rtp());
        objects.into_iter().fold(builder, StreamBuilder::output).build().run().unwrap();
        // Shares come as datagrams, each a record.
        let (object, output) = Object::collect("out", LIMIT);
        let mut stream = StreamBuilder::default().collect_shares(10, LIMIT).output(object).build();
        let feeds: Vec<UdpSocket> = (0..3).map(|_| {
            let (near, far) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
            near.connect(far.local_addr().unwrap()).unwrap();
            stream.attach_input(Object::datagrams("shares", far.into(), None, None).unwrap(), Framing::Whole).unwrap();
            near
        }).collect();
        for (feed, part) in feeds.iter().zip(collected.iter().enumerate().filter(|(place, _)| *place != missing)) {
            part.1.records().iter().for_each(|share| { feed.send(share).unwrap(); });
        }
        while stream.status().records_in < records.len() as u64 {
            let (acted, _) = stream.act(u64::MAX, 0);
            prop_assert!(!matches!(acted, Acted::Ended(_)));
        }
        prop_assert_eq!(output.bytes(), input);
    }
}

/// Shares of records of ten bytes, as each of `count` connections carries them.
fn dealt(records: u8, threshold: u8, count: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut dealer = crate::secret::Dealer::new(threshold);
    let input: Vec<u8> = (0..records).flat_map(|number| [number; 10]).collect();
    let mut carried = vec![Vec::new(); count];
    for record in input.chunks(10) {
        let shares = dealer.deal(record, count);
        carried.iter_mut().zip(shares).for_each(|(carried, share)| carried.extend_from_slice(&share));
    }
    (input, carried)
}

const SHARE: usize = crate::SHARE_HEADER + 10;

/// Connections are hardly ever in step: the one that is ahead waits, in a bound of records and of bytes, and no record is given up.
#[test]
fn shares_by_connections_that_are_not_in_step_lose_nothing_and_wait_within_bounds() {
    for (window, bytes, waiting) in [(4, LIMIT, 4), (1000, 10 * SHARE, 10), (1, 1, 1)] {
        let (input, carried) = dealt(200, 2, 2);
        let (ends, inlets): (Vec<UnixStream>, Vec<UnixStream>) =
            (0..2).map(|_| UnixStream::pair().unwrap()).unzip();
        let (object, output) = Object::collect("out", LIMIT);
        let builder = StreamBuilder::default().collect_shares(window, bytes).output(object);
        let inlet = |inlet: UnixStream| Object::stream("inlet", inlet.into()).unwrap();
        let builder =
            inlets.into_iter().fold(builder, |builder, one| builder.input(inlet(one), Framing::Fixed(SHARE)));
        let mut stream = builder.build();
        let act = |stream: &mut Stream| {
            (1..3).for_each(|port| stream.note_ready(Port(port)));
            while matches!(stream.act(u64::MAX, 0).0, Acted::More) {}
            let Order::Shares(collector) = &stream.order else { panic!("another order") };
            collector.bytes() / SHARE
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

/// Two of three suffice: neither a connection that is silent nor one that has ended holds up the others, and a share that a connection
/// does not have is not waited for.
#[test]
fn shares_that_are_not_needed_are_not_waited_for() {
    let (input, mut carried) = dealt(100, 2, 3);
    // Of record 40, one share is left, which tells nothing; then the last connection ends.
    carried[0].drain(40 * SHARE..41 * SHARE);
    carried[2].truncate(40 * SHARE);
    let (silent, inlet) = UnixStream::pair().unwrap();
    let (object, output) = Object::collect("out", LIMIT);
    let builder = StreamBuilder::default().collect_shares(4, LIMIT).output(object);
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

#[test]
fn records_with_tags_are_put_in_order() {
    let builder = StreamBuilder::default().order_by_tag(16, Late::Drop, |record| Some(record[0].into()));
    let inputs = [&b"\x01a\x04b\x05c"[..], b"\x02d\x03e\x09f"];
    let output = merged(builder, inputs.map(|bytes| (bytes.to_vec(), Framing::Fixed(2))));
    assert_eq!(output, b"\x01a\x02d\x03e\x04b\x05c\x09f");
}

#[test]
fn files_sockets_and_pipes_are_all_the_same() {
    let bytes: Vec<u8> = (0..3_000_000u32).map(|number| (number * 7 / 3) as u8).collect();
    let mut source = tempfile::NamedTempFile::new().unwrap();
    source.write_all(&bytes).unwrap();
    let target = tempfile::NamedTempFile::new().unwrap();

    // File to socket, socket to pipe, pipe to file; each on its own thread, so that each waits for the others.
    let (near, far) = UnixStream::pair().unwrap();
    let (read, write) = rustix::pipe::pipe().unwrap();
    let file = |file: &tempfile::NamedTempFile, offset| {
        Object::file("file", Arc::new(file.reopen().unwrap()), offset)
    };
    let join = |input: Object, output: Object| {
        StreamBuilder::default().finish_outputs().input(input, Framing::Whole).output(output).build()
    };
    let stream = |name, descriptor: std::os::fd::OwnedFd| Object::stream(name, descriptor).unwrap();
    let streams = [
        join(file(&source, 500), stream("near", near.into())),
        join(stream("far", far.into()), stream("write", write)),
        join(stream("read", read), file(&target, 100)),
    ];
    let threads = streams.map(|mut stream| thread::spawn(move || stream.run().map(|()| stream.status())));
    for thread in threads {
        let status = thread.join().unwrap().unwrap();
        assert_eq!((status.bytes_in, status.bytes_out), (2_999_500, 2_999_500));
        assert_eq!(status.bytes_unseen, 2_999_500, "nobody has to look at these");
    }
    let mut written = Vec::new();
    target.reopen().unwrap().read_to_end(&mut written).unwrap();
    assert_eq!(written[..100], [0; 100]);
    assert!(written[100..] == bytes[500..], "what was written is not what was read");
}

#[test]
fn datagrams_keep_their_boundaries_and_byte_streams_get_some() {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let to = receiver.local_addr().unwrap();
    let sink = |packet_bytes| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        Object::datagrams("udp", socket.into(), Some(to), packet_bytes).unwrap()
    };
    let sizes = |count: usize| {
        let mut buffer = [0; 65_536];
        (0..count).map(|_| receiver.recv(&mut buffer).unwrap()).collect::<Vec<_>>()
    };
    let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
    let run = |framing, packet_bytes| {
        StreamBuilder::default()
            .input(memory(&bytes), framing)
            .output(sink(packet_bytes))
            .build()
            .run()
            .unwrap();
    };
    run(Framing::Whole, None);
    assert_eq!(sizes(4), [1316, 1316, 1316, 1052]);
    run(Framing::Fixed(188), None);
    assert_eq!(sizes(5), [1316, 1316, 1316, 940, 112], "the last record is shorter and came alone");
    run(Framing::Fixed(2000), None);
    assert_eq!(sizes(3), [2000, 2000, 1000]);
    run(Framing::Fixed(1000), Some(2500));
    assert_eq!(sizes(3), [2000, 2000, 1000]);
    // Parts that are longer than the records, and than what is read at a time.
    let striped = |input: &[u8], unit: usize| {
        StreamBuilder::default()
            .pattern(OutputPattern::StripeBytes(unit))
            .input(memory(input), Framing::Fixed(100))
            .output(sink(None))
            .build()
            .run()
            .unwrap();
    };
    striped(&bytes, 1950);
    assert_eq!(sizes(3), [1950, 1950, 1100]);
    striped(&bytes.repeat(30), 60_000);
    assert_eq!(sizes(3), [60_000, 60_000, 30_000]);
}

#[test]
fn a_train_of_datagrams_goes_to_every_mirror_as_it_came() {
    let source = UdpSocket::bind("127.0.0.1:0").unwrap();
    let inlet = UdpSocket::bind("127.0.0.1:0").unwrap();
    source.connect(inlet.local_addr().unwrap()).unwrap();
    let receivers: Vec<UdpSocket> = (0..3).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let outlet = |receiver: &UdpSocket| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        Object::datagrams("udp", socket.into(), Some(receiver.local_addr().unwrap()), None).unwrap()
    };
    let builder = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .input(Object::datagrams("inlet", inlet.into(), None, None).unwrap(), Framing::Whole);
    let mut stream = receivers.iter().map(outlet).fold(builder, StreamBuilder::output).build();
    let datagrams: Vec<Vec<u8>> =
        (0..40u8).map(|number| vec![number; if number == 39 { 300 } else { 700 }]).collect();
    datagrams.iter().for_each(|datagram| assert_eq!(source.send(datagram).unwrap(), datagram.len()));
    while stream.status().bytes_out < 3 * datagrams.iter().map(|datagram| datagram.len() as u64).sum::<u64>()
    {
        assert!(!matches!(stream.act(u64::MAX, 0).0, Acted::Ended(_)));
    }
    for receiver in &receivers {
        let mut buffer = [0; 2000];
        for datagram in &datagrams {
            let length = receiver.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], datagram);
        }
    }
}

/// Anybody may send datagrams as fast as they are read, of many sizes or empty: so many are taken at a time, and others get their turns.
#[test]
fn so_many_datagrams_are_taken_at_a_time_whatever_their_sizes() {
    const SENT: u64 = 100;
    for lengths in [[700, 300], [0, 0]] {
        let (sender, inlet) = datagrams();
        let (object, _collected) = Object::collect("out", LIMIT);
        let mut stream = StreamBuilder::default().input(inlet, Framing::Whole).output(object).build();
        for length in lengths.into_iter().cycle().take(SENT as usize) {
            assert_eq!(sender.send(&vec![1; length]).unwrap(), length);
        }
        stream.note_ready(Port(1));
        while stream.inputs[0].records < SENT {
            let before = stream.inputs[0].records;
            stream.inputs[0].ready.clear();
            assert!(matches!(stream.next_run(0).unwrap(), Pulled::Run(_)), "not all came");
            let taken = stream.inputs[0].records - before;
            assert!(taken <= 65, "{taken} at a time");
        }
    }
}

/// Anybody may send a datagram: what does not fit is dropped whole and counted, and the stream goes on.
#[test]
fn datagrams_that_do_not_fit_their_framing_are_dropped_and_counted() {
    let packet = |first: u8| [vec![first], vec![0; 187]].concat();
    let good = [packet(0x47), packet(0x47)].concat();
    let half_good = [packet(0x47), packet(0x48)].concat();
    let (sender, inlet) = datagrams();
    let (object, collected) = Object::collect("out", LIMIT);
    let (tell, told) = channel();
    let mut stream = StreamBuilder::default()
        .on_event(move |event| tell.send(event).unwrap())
        .input(inlet, Framing::transport_stream())
        .output(object)
        .build();
    for datagram in [&b"garbage"[..], &good, &half_good, &good[..200], &good] {
        assert_eq!(sender.send(datagram).unwrap(), datagram.len());
    }
    while stream.status().bytes_in < 7 + 2 * 376 + 376 + 200 {
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
        stream.note_ready(Port(1));
    }
    assert_eq!(collected.bytes(), [&good[..], &good].concat());
    let input = &stream.status().inputs[0];
    assert_eq!(input.malformed, crate::Dropped { records: 3, bytes: 7 + 376 + 200 });
    assert_eq!(input.records, 4);
    assert_eq!(stream.status().malformed, input.malformed);
    // The input that had them may go; the count stays.
    stream.detach_input(Port(1), |_| {});
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Ended(Ok(()))));
    let status = stream.status();
    assert!(
        status.inputs.is_empty() && status.malformed == crate::Dropped { records: 3, bytes: 7 + 376 + 200 }
    );
    assert_eq!((status.bytes_dropped, status.bytes_in), (7 + 376 + 200, 7 + 2 * 376 + 376 + 200));
    let StreamEvent::RecordRefused { by, error } = told.recv().unwrap() else { panic!("another event") };
    assert_eq!(by, "udp");
    assert!(error.contains("begins with 0x47, this one with 0x67"), "{error}");
    assert!(
        !told.try_iter().any(|event| matches!(event, StreamEvent::RecordRefused { .. })),
        "it is told once"
    );
}

#[test]
fn datagrams_that_are_no_shares_are_dropped_and_counted() {
    let (sender, inlet) = datagrams();
    let (object, collected) = Object::collect("out", LIMIT);
    let mut stream =
        StreamBuilder::default().collect_shares(4, LIMIT).input(inlet, Framing::Whole).output(object).build();
    let shares = crate::secret::Dealer::new(2).deal(b"secret", 2);
    let mut mixed = shares[1].to_vec();
    mixed[1] = 3; // another threshold
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
    // Whoever sends a stream of bytes is one peer, of which nothing more can be believed.
    let mut stream = StreamBuilder::default()
        .collect_shares(4, LIMIT)
        .input(memory(b"no share"), Framing::Whole)
        .output(Object::collect("out", LIMIT).0)
        .build();
    assert!(matches!(stream.run(), Err(StreamError::Share(_))));
}

#[test]
fn records_that_a_handler_refuses_are_dropped_of_datagrams_and_end_a_stream_of_bytes() {
    let filter = || Handler::Select(Box::new(crate::handlers::TransportStreamFilter::pids([0])));
    let packet = [&[0x47][..], &[0; 187]].concat();
    let (sender, inlet) = datagrams();
    let (object, collected) = Object::collect("out", LIMIT);
    let options = OutputOptions { handlers: vec![filter()], ..OutputOptions::default() };
    let mut stream = StreamBuilder::default()
        .handler(filter())
        .input(inlet, Framing::Whole)
        .output_with(object, options)
        .build();
    for datagram in [b"no packet", &packet[..]] {
        assert_eq!(sender.send(datagram).unwrap(), datagram.len());
    }
    while collected.bytes().is_empty() {
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
        stream.note_ready(Port(1));
    }
    assert_eq!(collected.bytes(), packet);
    let reports = stream.status().reports;
    assert_eq!(reports, [("ts", "kept", 1), ("ts", "dropped", 0), ("ts", "refused", 1)]);

    let (object, _) = Object::collect("out", LIMIT);
    let mut stream = StreamBuilder::default()
        .handler(filter())
        .input(memory(b"no packet"), Framing::Whole)
        .output(object)
        .build();
    let error = stream.run().unwrap_err().to_string();
    assert!(error.contains("is not packets of 188 bytes; use --framing ts"), "{error}");
}

/// What the network says of datagrams that left before must not cost those that are to leave now, in a train or one by one.
#[test]
fn datagrams_are_sent_though_earlier_ones_came_nowhere() {
    let [.., high, low] = std::process::id().to_be_bytes();
    let own = std::net::Ipv4Addr::new(127, 128 | high, low, 1); // nobody else is given its ports
    let records: Vec<u8> = (0..1000u32).map(|number| number as u8).collect();
    for (pattern, sizes) in
        [(OutputPattern::Stripe, vec![100; 10]), (OutputPattern::StripeBytes(250), vec![250; 4])]
    {
        let nobody = UdpSocket::bind((own, 0)).unwrap();
        let to = nobody.local_addr().unwrap();
        let socket = UdpSocket::bind((own, 0)).unwrap();
        socket.connect(to).unwrap();
        drop(nobody);
        socket.send(b"to nobody").unwrap();
        let mut polled = [PollFd::new(&socket, PollFlags::empty())];
        let limit = Timespec { tv_sec: 20, tv_nsec: 0 };
        assert_eq!(poll(&mut polled, Some(&limit)).unwrap(), 1, "the network says nothing of it");
        let receiver = UdpSocket::bind(to).unwrap();
        receiver.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        let mut stream = StreamBuilder::default()
            .pattern(pattern)
            .input(memory(&records), Framing::Fixed(100))
            .output(Object::datagrams("udp", socket.into(), None, Some(100)).unwrap())
            .build();
        stream.run().unwrap();
        let mut buffer = [0; 2000];
        let mut received = Vec::new();
        for size in sizes {
            assert_eq!(receiver.recv(&mut buffer).unwrap(), size);
            received.extend_from_slice(&buffer[..size]);
        }
        assert!(received == records, "other bytes came");
        let output = &stream.status().outputs[0];
        assert_eq!((output.bytes, output.lost_bytes, output.icmp_errors), (1000, 0, 1));
    }
}

/// A socket, and the input that has what it sends.
fn datagrams() -> (UdpSocket, Object) {
    let (near, far) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    near.connect(far.local_addr().unwrap()).unwrap();
    (near, Object::datagrams("udp", far.into(), None, None).unwrap())
}

struct Fails(fn());

impl Common for Fails {
    fn name(&self) -> &'static str {
        "fails"
    }
}

impl Read for Fails {
    fn read(&mut self, _: crate::Piece<'_>) -> Result<Verdict, HandlerError> {
        (self.0)();
        Err(HandlerError::Failed("on purpose".to_owned()))
    }
}

#[test]
fn a_handler_that_fails_or_panics_ends_its_stream_with_a_clear_cause() {
    for (act, expected) in [
        ((|| ()) as fn(), "handler fails: on purpose"),
        (|| panic!("in a handler"), "a callback of the stream panicked: in a handler"),
    ] {
        let (object, _) = Object::collect("out", LIMIT);
        let mut stream = StreamBuilder::default()
            .handler(Handler::Read(Box::new(Fails(act))))
            .input(memory(b"abc"), Framing::Whole)
            .output(object)
            .build();
        assert_eq!(stream.run().unwrap_err().to_string(), expected);
        assert_eq!(stream.status().bytes_in, 3);
    }
}

#[test]
fn inputs_and_outputs_come_and_go_at_records_and_nothing_is_lost() {
    let (mut feed, inlet) = UnixStream::pair().unwrap();
    let (objects, collected) = collects(2);
    let [first, second] = <[Object; 2]>::try_from(objects).unwrap();
    let mut stream = StreamBuilder::default().build();
    let input =
        stream.attach_input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(4)).unwrap();
    let output = stream.attach_output(first, OutputOptions::default());
    let act = |stream: &mut Stream| assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));

    feed.write_all(b"aaaabb").unwrap();
    act(&mut stream);
    assert_eq!(collected[0].bytes(), b"aaaabb");
    // In the middle of a record: the first output gets the rest of it, the second what follows.
    stream.attach_output(second, OutputOptions::default());
    let (tell, told) = channel();
    assert!(stream.detach_output(output, move |object| tell.send(object.name().to_owned()).unwrap()));
    assert!(!stream.detach_output(output, drop), "it is being detached already");
    assert!(told.try_recv().is_err());
    feed.write_all(b"bbccccd").unwrap();
    stream.note_ready(input);
    act(&mut stream);
    assert_eq!(told.recv().unwrap(), "out 0");
    assert_eq!((collected[0].bytes(), collected[1].bytes()), (b"aaaabbbb".to_vec(), b"ccccd".to_vec()));

    // The input leaves at the end of its record; what was read beyond that goes with it.
    let (tell, told) = channel();
    assert!(stream.detach_input(input, move |object| tell.send(object).unwrap()));
    feed.write_all(b"dddeeee").unwrap();
    drop(feed);
    stream.note_ready(input);
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Ended(Ok(()))), "the only input is gone");
    assert_eq!(collected[1].bytes(), b"ccccdddd");
    assert_eq!(merged_object(told.recv().unwrap()), b"eeee");
}

/// A stream that is copied, because a handler looks at it, from a socket.
fn copied(pattern: OutputPattern) -> (UnixStream, Port, Stream) {
    let (feed, inlet) = UnixStream::pair().unwrap();
    let checksum = Handler::Read(Box::new(crate::handlers::Checksum::default()));
    let mut stream = StreamBuilder::default().pattern(pattern).handler(checksum).build();
    let input = stream.attach_input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Whole).unwrap();
    (feed, input, stream)
}

#[test]
fn a_stream_of_bytes_without_records_lets_go_at_once() {
    for pattern in [OutputPattern::Mirror, OutputPattern::Stripe] {
        let (mut feed, input, mut stream) = copied(pattern);
        let (objects, collected) = collects(2);
        let [first, second] = <[Object; 2]>::try_from(objects).unwrap();
        let mut feed_in = |stream: &mut Stream, bytes: &[u8]| {
            feed.write_all(bytes).unwrap();
            stream.note_ready(input);
            assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
        };
        let (tell, told) = channel();
        let output = stream.attach_output(first, OutputOptions::default());
        feed_in(&mut stream, b"first ");
        assert!(stream.detach_output(output, {
            let tell = tell.clone();
            move |object| tell.send(object).unwrap()
        }));
        stream.attach_output(second, OutputOptions::default());
        feed_in(&mut stream, b"second ");
        assert_eq!(told.recv().unwrap().name(), "out 0");
        assert!(stream.detach_input(input, move |object| tell.send(object).unwrap()));
        feed.write_all(b"third").unwrap();
        drop(feed);
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Ended(Ok(()))));
        assert_eq!(merged_object(told.recv().unwrap()), b"third");
        assert_eq!([&collected[0], &collected[1]].map(Collected::bytes), [&b"first "[..], b"second "]);
    }
}

#[test]
fn an_output_that_comes_later_gets_datagrams_of_a_stream_of_bytes() {
    let (mut feed, input, mut stream) = copied(OutputPattern::Mirror);
    let (object, collected) = Object::collect("out", LIMIT);
    stream.attach_output(object, OutputOptions::default());
    feed.write_all(b"before").unwrap();
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sink =
        Object::datagrams("udp", socket.into(), Some(receiver.local_addr().unwrap()), Some(100)).unwrap();
    stream.attach_output(sink, OutputOptions::default());
    feed.write_all(&[7; 250]).unwrap();
    drop(feed);
    stream.note_ready(input);
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Ended(Ok(()))));
    assert_eq!(collected.bytes(), [&b"before"[..], &[7; 250]].concat());
    assert_eq!([(); 3].map(|()| receiver.recv(&mut [0; 1000]).unwrap()), [100, 100, 50]);
}

#[test]
fn an_output_that_comes_later_and_needs_whole_records_gets_them() {
    let (mut feed, inlet) = UnixStream::pair().unwrap();
    let (objects, collected) = collects(2);
    let [first, second] = <[Object; 2]>::try_from(objects).unwrap();
    let mut stream = StreamBuilder::default().pattern(OutputPattern::Mirror).output(first).build();
    let input =
        stream.attach_input(Object::stream("inlet", inlet.into()).unwrap(), Framing::Fixed(4)).unwrap();
    let mut feed_in = |stream: &mut Stream, bytes: &[u8]| {
        feed.write_all(bytes).unwrap();
        stream.note_ready(input);
        assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait));
    };
    feed_in(&mut stream, b"aa");
    let options = OutputOptions { when_full: WhenFull::DropNewest, ..OutputOptions::default() };
    stream.attach_output(second, options);
    feed_in(&mut stream, b"aab");
    assert_eq!(collected[0].bytes(), b"aaaa", "the next record is not whole");
    feed_in(&mut stream, b"bbb");
    assert_eq!([&collected[0], &collected[1]].map(Collected::bytes), [&b"aaaabbbb"[..], b"bbbb"]);
}

fn merged_object(object: Object) -> Vec<u8> {
    let (out, collected) = Object::collect("out", LIMIT);
    StreamBuilder::default().input(object, Framing::Whole).output(out).build().run().unwrap();
    collected.bytes()
}

#[test]
fn a_mirror_waits_for_its_slowest_or_drops_or_does_without_it_as_it_is_told() {
    let record = vec![7u8; 1000];
    let input: Vec<u8> = record.iter().copied().cycle().take(4_000_000).collect();
    for when_full in [WhenFull::Block, WhenFull::DropNewest, WhenFull::DropOldest, WhenFull::Disconnect] {
        let (stuck, reader) = UnixStream::pair().unwrap();
        let (object, collected) = Object::collect("fast", LIMIT);
        let options = OutputOptions { when_full, waiting_bytes: 50_000, ..OutputOptions::default() };
        let mut stream = StreamBuilder::default()
            .pattern(OutputPattern::Mirror)
            .input(memory(&input), Framing::Fixed(1000))
            .output(object)
            .output_with(Object::stream("stuck", stuck.into()).unwrap(), options)
            .build();
        let mut acted = stream.act(u64::MAX, 0).0;
        let status = stream.status();
        let stuck = status.outputs.iter().find(|output| output.name == "stuck");
        match when_full {
            WhenFull::Block => {
                assert!(matches!(acted, Acted::Wait));
                assert!(collected.bytes().len() < 2_000_000);
                assert!(stuck.unwrap().waiting_bytes < 50_000 + 200_000, "{status:?}");
                assert_eq!(stuck.unwrap().dropped, crate::Dropped::default());
            }
            WhenFull::DropNewest | WhenFull::DropOldest => {
                assert_eq!(collected.bytes().len(), input.len());
                let stuck = stuck.unwrap();
                assert_eq!(stuck.bytes + stuck.waiting_bytes + stuck.dropped.bytes, 4_000_000);
                assert_eq!(stuck.dropped.bytes, stuck.dropped.records * 1000);
                // What is left arrives when somebody reads, in whole records.
                let reading = thread::spawn(move || {
                    let mut read = Vec::new();
                    (&reader).read_to_end(&mut read).unwrap();
                    read
                });
                stream.run().unwrap();
                drop(stream);
                let read = reading.join().unwrap();
                assert_eq!(read.len() as u64, 4_000_000 - stuck.dropped.bytes);
                acted = Acted::Ended(Ok(()));
            }
            WhenFull::Disconnect => {
                assert_eq!(collected.bytes().len(), input.len());
                assert!(stuck.is_none(), "{status:?}");
                let ended = &status.ended_outputs[0];
                assert_eq!((&*ended.name, &*ended.why), ("stuck", "it did not keep up"));
                assert!(ended.bytes > 0 && ended.dropped.bytes > 0, "{ended:?}");
            }
        }
        assert_eq!(matches!(acted, Acted::Ended(Ok(()))), when_full != WhenFull::Block);
    }
}

#[test]
fn what_an_output_that_fails_did_not_get_is_said_to_the_byte() {
    let input = vec![7u8; 4_000_000];
    let (gone, mut reader) = UnixStream::pair().unwrap();
    let (object, collected) = Object::collect("stays", LIMIT);
    let (tell, told) = channel();
    let mut stream = StreamBuilder::default()
        .pattern(OutputPattern::Mirror)
        .on_event(move |event| tell.send(event).unwrap_or_default())
        .input(memory(&input), Framing::Fixed(1000))
        .output(object)
        .output(Object::stream("gone", gone.into()).unwrap())
        .build();
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Wait), "it waits for who reads nothing");
    let status = stream.status();
    let of = status.outputs.iter().find(|output| output.name == "gone").unwrap();
    assert_eq!(status.bytes_in, of.bytes + of.waiting_bytes + status.bytes_pending, "{status:?}");
    reader.read_exact(&mut [0; 5000]).unwrap();
    drop(reader);
    stream.note_ready(of.port);
    assert!(matches!(stream.act(u64::MAX, 0).0, Acted::Ended(Ok(()))));
    assert_eq!(collected.bytes().len(), input.len());
    let StreamEvent::OutputFailed { port, dropped, .. } = told.recv().unwrap() else {
        panic!("another event")
    };
    assert_eq!((port, dropped.bytes), (of.port, of.waiting_bytes));
    assert_eq!(dropped.records, of.waiting_bytes / 1000, "the record that left in part is not counted");
    let status = stream.status();
    let [ended] = &status.ended_outputs[..] else { panic!("{status:?}") };
    assert_eq!((ended.port, ended.bytes, ended.dropped), (of.port, of.bytes, dropped));
    assert_eq!(ended.why, "gone: sendmsg: Broken pipe (os error 32)");
}

#[test]
fn an_object_that_fails_says_which_and_why() {
    let (near, far) = UnixStream::pair().unwrap();
    drop(far);
    let mut stream = StreamBuilder::default()
        .input(memory(b"abc"), Framing::Whole)
        .output(Object::stream("tcp://client", near.into()).unwrap())
        .build();
    assert_eq!(stream.run().unwrap_err().to_string(), "tcp://client: sendmsg: Broken pipe (os error 32)");
}

/// Files of a shell are read and written where they are, so that others go on behind that; and by who may wait for storage.
#[test]
fn a_file_that_is_a_standard_stream_is_read_and_written_by_storage_and_keeps_its_place() {
    for framing in [Framing::Fixed(4), Framing::Whole] {
        let (mut source, mut target) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        source.write_all(b"head some bytes").unwrap();
        source.seek(SeekFrom::Start(5)).unwrap();
        target.write_all(b"before ").unwrap();
        let inlet = Object::stream("inlet", source.try_clone().unwrap().into()).unwrap();
        let outlet = Object::stream("outlet", target.try_clone().unwrap().into()).unwrap();
        let mut stream = StreamBuilder::default().input(inlet, framing).output(outlet).build();
        let mut acted = stream.act(u64::MAX, 0).0;
        assert_eq!(source.stream_position().unwrap(), 5, "it was read on the engine's thread");
        let (mut warmed, mut written) = (0, 0);
        while let Acted::Wait = acted {
            let storage: Vec<_> = stream.take_storage().collect();
            assert!(!storage.is_empty(), "it waits for nothing");
            for one in storage {
                let before = target.stream_position().unwrap();
                let is_write = matches!(one.job, Job::Write(_));
                stream.stored(one.run()).unwrap();
                written += u64::from(is_write);
                warmed += u64::from(!is_write);
                assert!(is_write || target.stream_position().unwrap() == before);
            }
            acted = stream.act(u64::MAX, 0).0;
        }
        assert!(matches!(acted, Acted::Ended(Ok(()))) && warmed > 0 && written > 0, "{acted:?}");
        target.write_all(b", and after").unwrap();
        target.rewind().unwrap();
        let mut bytes = String::new();
        target.read_to_string(&mut bytes).unwrap();
        assert_eq!(bytes, "before some bytes, and after");
        assert_eq!(source.stream_position().unwrap(), 15);
    }
}
