//! The paths that send from registered memory: every byte, one at a time and many in a call; what does not go
//! is handed back. A runner of its own: where io_uring is not to be had, that is neither a pass nor a
//! failure.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use wirepath_datapath::{
    BlockPath, BlockSink, CopyLayout, DataPath, Extent, Headers, LoanPolicy, LoanRoutes, LoanSwitch,
    MappedFile, PageBuffer, ReclaimError, RegistrationProgress, SendContext, SendError, SendOutcome,
    SharedPages, StoredTrains, Train, UdpSink,
};
use wirepath_media::rtp::{HEADER_LENGTH, Header, Run};
use wirepath_testkit::udp::close_port;
use wirepath_testkit::{trial, trials};

fn main() -> std::process::ExitCode {
    let missing = SendContext::default().open_ring().err().map(|error| error.to_string());
    let tests = trials![
        trains_arrive_at_any_offset,
        a_piece_ends_and_the_next_goes_on,
        many_trains_leave_in_one_call,
        trains_leave_from_a_mapping_that_is_not_registered,
        what_a_full_connection_refuses_is_sent_again,
        errors_are_sorted_as_of_other_paths,
        trains_that_cannot_be_sent_so_leave_by_other_paths,
        a_released_copy_is_not_sent_from,
        one_alone_does_not_lose_what_is_queued,
        a_ring_that_breaks_loses_no_answer,
        blocks_reach_a_udp_socket,
        blocks_reach_a_connection,
        pages_lent_by_a_ring_are_written_again_when_they_are_back,
        a_ring_that_is_dropped_gives_its_loans_up,
        a_route_that_copies_what_a_ring_lends_gets_no_more_loans,
    ];
    trial::run_needing(missing, tests)
}

const PACKET: usize = HEADER_LENGTH + 7 * 188;
/// This host, by both families.
const V4: &str = "127.0.0.1:0";
const V6: &str = "[::1]:0";

/// A medium with a copy that the ring of a scratch holds, and its bytes.
struct Hot {
    medium: MappedFile,
    bytes: Vec<u8>,
    scratch: SendContext,
    region_id: u64,
}

impl Hot {
    fn new(length: usize) -> Hot {
        let bytes: Vec<u8> = (0..length).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let medium = MappedFile::new(file, length as u64).unwrap();
        let mut scratch = SendContext::default();
        scratch.open_ring().unwrap();
        let region = medium.copy::<io::Error>(length as u64, |copy| {
            assert!(*copy == bytes[..]);
            Ok(())
        });
        let region = Arc::new(region.unwrap());
        medium.set_hot(CopyLayout::Packets, Some(&region));
        let region_id = region.id();
        scratch.register_now(region).unwrap();
        Hot { medium, bytes, scratch, region_id }
    }

    fn enqueue(&mut self, sink: &UdpSink, train: &Train, token: u64) -> SendOutcome<u32> {
        let Hot { medium, scratch, .. } = self;
        let path = DataPath::WireUring.for_train(train, Headers::Stored, medium, scratch);
        let trains = StoredTrains { file: medium, trains: &[*train], headers: Headers::Stored };
        path.enqueue(sink, trains, scratch, token).unwrap()
    }

    fn flush(&mut self) -> Vec<(u64, Result<u32, SendError>)> {
        let mut answers = Vec::new();
        self.scratch.flush(|token, result| answers.push((token, result)));
        answers
    }

    fn ensure_arrives(&self, receiver: &UdpSocket, train: &Train) {
        let stored = &self.bytes[train.offset as usize..][..train.length as usize];
        let mut buffer = [0; 2 * PACKET];
        for packet in stored.chunks(PACKET) {
            let length = receiver.recv(&mut buffer).unwrap();
            assert!(buffer[..length] == *packet, "other bytes came");
        }
    }
}

fn train(offset: usize, length: usize) -> Train {
    let first =
        Header { padding: false, marker: false, payload_type: 33, sequence: 1, timestamp: 2, ssrc: 3 };
    Train {
        offset: offset as u64,
        length: length as u32,
        packet_size: PACKET as u16,
        skip: 0,
        first: 0,
        packets_before: 0,
        run: Run::new(first, 0),
    }
}

fn connected(host: &str) -> (UdpSocket, UdpSocket) {
    let receiver = UdpSocket::bind(host).unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let sender = UdpSocket::bind(host).unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    (sender, receiver)
}

fn sink() -> (UdpSink, UdpSocket) {
    sink_to(V4)
}

fn sink_to(host: &str) -> (UdpSink, UdpSocket) {
    let (sender, receiver) = connected(host);
    (UdpSink::new(sender, PACKET as u16, DataPath::WireUring).unwrap(), receiver)
}

fn trains_arrive_at_any_offset() {
    let mut hot = Hot::new(200_000);
    for (sink, receiver) in [sink_to(V4), sink_to(V6)] {
        for (offset, length) in [(0, PACKET), (1, 48 * PACKET), (4095, 3 * PACKET + 1), (200_000 - 700, 700)]
        {
            let train = train(offset, length);
            let path =
                DataPath::WireUring.for_train(&train, Headers::Stored, &hot.medium, &hot.scratch).path();
            assert_eq!(path, DataPath::WireUring);
            let sent = path.send(&sink, &hot.medium, &train, Headers::Stored, &mut hot.scratch);
            assert_eq!(sent, Ok(train.packets()));
            hot.ensure_arrives(&receiver, &train);
        }
    }
    assert!(hot.scratch.drain(Duration::from_secs(5)));
    assert_eq!(hot.scratch.in_flight(), 0);
}

/// Registered memory comes in pieces of 8 MiB; a train may lie in two of them.
fn a_piece_ends_and_the_next_goes_on() {
    const PIECE: usize = 8 << 20;
    let mut hot = Hot::new(2 * PIECE + 100_000);
    let (sink, receiver) = sink();
    for offset in [PIECE - 48 * PACKET, PIECE - 1, PIECE, 2 * PIECE - 1, 2 * PIECE + 100_000 - 48 * PACKET] {
        let train = train(offset, 48 * PACKET);
        assert_eq!(hot.enqueue(&sink, &train, 0), SendOutcome::Queued);
        assert_eq!(hot.flush(), [(0, Ok(train.length))]);
        hot.ensure_arrives(&receiver, &train);
    }
}

fn many_trains_leave_in_one_call() {
    let mut hot = Hot::new(1 << 20);
    let pairs: Vec<_> = (0..100).map(|_| sink()).collect();
    let trains: Vec<_> = (0..100).map(|number| train(number * 9000 + number % 3, 5 * PACKET)).collect();
    for (number, (sink, _)) in pairs.iter().enumerate() {
        assert_eq!(hot.enqueue(sink, &trains[number], number as u64), SendOutcome::Queued);
    }
    assert_eq!((hot.scratch.queued(), hot.scratch.room()), (100, 156));
    for (_, receiver) in &pairs {
        receiver.set_nonblocking(true).unwrap();
        assert!(receiver.recv(&mut [0; 10]).is_err(), "it left before it was to");
        receiver.set_nonblocking(false).unwrap();
    }
    let answers = hot.flush();
    assert!(
        answers.iter().enumerate().all(|(number, answer)| *answer == (number as u64, Ok(5 * PACKET as u32)))
    );
    assert_eq!((answers.len(), hot.scratch.queued()), (100, 0));
    for (number, (_, receiver)) in pairs.iter().enumerate() {
        hot.ensure_arrives(receiver, &trains[number]);
    }
}

/// Promise: A train that a full socket refuses is sent later; no train is lost or sent twice.
///
/// A client that reads only when the connection takes no more gets all of it, in order.
fn what_a_full_connection_refuses_is_sent_again() {
    let mut hot = Hot::new(1 << 20);
    let (server, mut client) = connection();
    let sink = BlockSink::tcp(server, BlockPath::UringSend).unwrap();
    let length = hot.bytes.len();
    let (mut sent, mut refused) = (0, 0);
    let mut received = Vec::new();
    while sent < 4 * length {
        let extent = Extent { offset: (sent % length) as u64, length: length - sent % length };
        match BlockPath::UringSend.send(&sink, &hot.medium, extent, &mut hot.scratch) {
            Ok(taken) => sent += taken,
            Err(SendError::Full { .. }) => {
                refused += 1;
                let mut some = vec![0; 300_000];
                let came = client.read(&mut some).unwrap();
                received.extend_from_slice(&some[..came]);
            }
            Err(error) => panic!("{error}"),
        }
    }
    drop(sink);
    client.read_to_end(&mut received).unwrap();
    assert!(refused > 0, "nothing was refused, so this shows nothing");
    assert_eq!(received.len(), sent);
    assert!(received.chunks(length).all(|chunk| *chunk == hot.bytes[..chunk.len()]), "other bytes came");
}

fn errors_are_sorted_as_of_other_paths() {
    let mut hot = Hot::new(200_000);
    let (sender, receiver) = connected(V4);
    // Ten packets of 20,000 bytes are more than a datagram holds.
    let sink = UdpSink::new(sender, 20_000, DataPath::WireUring).unwrap();
    let large = Train { packet_size: 20_000, ..train(0, 80_000) };
    hot.enqueue(&sink, &large, 1);
    let call = "io_uring send_zc";
    assert_eq!(hot.flush(), [(1, Err(SendError::Unsupported { call, errno: Errno::MSGSIZE }))]);
    close_port(&receiver);
    let small = train(0, 100);
    hot.enqueue(&sink, &small, 2);
    hot.enqueue(&sink, &small, 3);
    assert_eq!(hot.flush(), [(2, Ok(100)), (3, Err(SendError::Refused { call }))]);
    assert_eq!(DataPath::WireUring.next(), Some(DataPath::WireSendfile));
}

/// Promise: Trains leave from the mapping of a file by io_uring; a file that became shorter is an error, not a crash.
fn trains_leave_from_a_mapping_that_is_not_registered() {
    let Hot { medium, bytes, scratch, .. } = Hot::new(200_000);
    medium.set_hot(CopyLayout::Packets, None);
    let mut hot = Hot { medium, bytes, scratch, region_id: 0 };
    let path = DataPath::WireMapping;
    for (sink, receiver) in [sink_to(V4), sink_to(V6)] {
        let trains = [train(1, 9 * PACKET), train(4095, 3 * PACKET + 1), train(200_000 - 700, 700)];
        for (train, token) in trains.iter().zip(0..) {
            let path = path.for_train(train, Headers::Stored, &hot.medium, &hot.scratch);
            assert_eq!(path.path(), DataPath::WireMapping);
            let trains = StoredTrains { file: &hot.medium, trains: &[*train], headers: Headers::Stored };
            let sent = path.enqueue(&sink, trains, &mut hot.scratch, token);
            assert_eq!(sent, Ok(SendOutcome::Queued));
        }
        let answers = hot.flush();
        assert_eq!(answers.len(), trains.len());
        for train in &trains {
            hot.ensure_arrives(&receiver, train);
        }
    }
    let (sink, receiver) = sink();
    let whole = train(0, 48 * PACKET);
    assert_eq!(path.send(&sink, &hot.medium, &whole, Headers::Stored, &mut hot.scratch), Ok(48));
    hot.ensure_arrives(&receiver, &whole);
    let without_ring = &SendContext::default();
    let other = path.for_train(&whole, Headers::Stored, &hot.medium, without_ring).path();
    assert_eq!(other, DataPath::WireSendfile);
    hot.medium.file().set_len(100_000).unwrap();
    let gone = train(110_000, 2 * PACKET);
    let error = path.send(&sink, &hot.medium, &gone, Headers::Stored, &mut hot.scratch).unwrap_err();
    assert!(matches!(error, SendError::Storage { errno: Errno::FAULT, .. }), "{error}");
}

fn trains_that_cannot_be_sent_so_leave_by_other_paths() {
    let mut hot = Hot::new(100_000);
    let (sink, receiver) = sink();
    let own = Headers::Own { sequence_offset: 1, timestamp_offset: 2, marker: true, stored: true };
    let whole = train(0, 3 * PACKET);
    let by = |train: &Train, headers, hot: &Hot| {
        DataPath::WireUring.for_train(train, headers, &hot.medium, &hot.scratch).path()
    };
    assert_eq!(by(&whole, own, &hot), DataPath::GsoWritev);
    assert_eq!(by(&Train { skip: 188, ..whole }, Headers::Stored, &hot), DataPath::GsoWritev);
    assert_eq!(by(&train(99_000, 2000), Headers::Stored, &hot), DataPath::WireSendfile);
    let path = DataPath::WireUring.for_train(&whole, own, &hot.medium, &hot.scratch);
    let trains = StoredTrains { file: &hot.medium, trains: &[whole], headers: own };
    let sent = path.enqueue(&sink, trains, &mut hot.scratch, 0);
    assert_eq!(sent, Ok(SendOutcome::Sent(3)));
    let mut buffer = [0; 2 * PACKET];
    for index in 0..3 {
        let length = receiver.recv(&mut buffer).unwrap();
        assert!(
            buffer[HEADER_LENGTH..length] == hot.bytes[index * PACKET + HEADER_LENGTH..(index + 1) * PACKET]
        );
    }
    // A thread without a ring sends from the same medium, too.
    let sent =
        DataPath::WireUring.send(&sink, &hot.medium, &whole, Headers::Stored, &mut SendContext::default());
    assert_eq!(sent, Ok(3));
    hot.ensure_arrives(&receiver, &whole);
}

fn a_released_copy_is_not_sent_from() {
    let mut hot = Hot::new(100_000);
    let (sink, receiver) = sink();
    let train = train(0, 3 * PACKET);
    hot.enqueue(&sink, &train, 7);
    hot.scratch.unregister(hot.region_id);
    let path = DataPath::WireUring.for_train(&train, Headers::Stored, &hot.medium, &hot.scratch).path();
    assert_eq!(path, DataPath::WireSendfile);
    assert_eq!(hot.scratch.poll_registrations().unwrap(), RegistrationProgress::More);
    // Trains that were queued before still leave.
    assert_eq!(hot.flush(), [(7, Ok(train.length))]);
    hot.ensure_arrives(&receiver, &train);
    while hot.scratch.poll_registrations().unwrap() == RegistrationProgress::More {}
    assert!(hot.scratch.drain(Duration::from_secs(5)));
    assert_eq!(hot.scratch.poll_registrations().unwrap(), RegistrationProgress::Done);
}

fn one_alone_does_not_lose_what_is_queued() {
    let mut hot = Hot::new(100_000);
    let (sink, receiver) = sink();
    let (first, second) = (train(0, 3 * PACKET), train(50_000, 2 * PACKET));
    hot.enqueue(&sink, &first, 5);
    let sent = DataPath::WireUring.send(&sink, &hot.medium, &second, Headers::Stored, &mut hot.scratch);
    assert_eq!(sent, Ok(2));
    assert_eq!(hot.scratch.queued(), 1);
    assert_eq!(hot.flush(), [(5, Ok(first.length))]);
    hot.ensure_arrives(&receiver, &first);
    hot.ensure_arrives(&receiver, &second);
}

/// Promise: A train that a full socket refuses is sent later; no train is lost or sent twice.
///
/// A ring breaks on a thread that is not its own. What was queued is told of before the thread goes on
/// without.
fn a_ring_that_breaks_loses_no_answer() {
    let (first, second) = (train(0, 3 * PACKET), train(50_000, 2 * PACKET));
    let full = SendError::Full { call: "io_uring send_zc" };
    for queued in [vec![(5, Err(full))], vec![]] {
        let mut hot = Hot::new(100_000);
        let (sink, receiver) = sink();
        if !queued.is_empty() {
            hot.enqueue(&sink, &first, 5);
        }
        let elsewhere = std::thread::spawn(move || {
            let send = |hot: &mut Hot| {
                DataPath::WireUring.send(&sink, &hot.medium, &second, Headers::Stored, &mut hot.scratch)
            };
            assert_eq!(send(&mut hot), Err(full));
            assert_eq!(hot.scratch.queued(), queued.len());
            if !queued.is_empty() {
                assert_eq!(hot.flush(), queued);
            }
            assert_eq!(send(&mut hot), Ok(2), "it does not go on by another path");
            hot.ensure_arrives(&receiver, &second);
        });
        elsewhere.join().unwrap();
    }
}

fn blocks_reach_a_udp_socket() {
    let mut hot = Hot::new(300_000);
    for host in [V4, V6] {
        let (sender, receiver) = connected(host);
        let sink = BlockSink::udp(sender, 1024, BlockPath::UringSend).unwrap();
        let extents = [(0, 1024), (1025, 40 * 1024), (200_001, 512)];
        for (token, (offset, length)) in extents.into_iter().enumerate() {
            let extent = Extent { offset, length };
            let taken =
                BlockPath::UringSend.enqueue(&sink, &hot.medium, extent, &mut hot.scratch, token as u64);
            assert_eq!(taken, Ok(SendOutcome::Queued));
        }
        assert_eq!(hot.flush().len(), 3);
        let mut buffer = [0; 2048];
        for (offset, length) in extents {
            for block in hot.bytes[offset as usize..][..length].chunks(1024) {
                let came = receiver.recv(&mut buffer).unwrap();
                assert!(buffer[..came] == *block);
            }
        }
    }
    let (sender, _receiver) = connected(V4);
    let sink = BlockSink::udp(sender, 1024, BlockPath::UringSend).unwrap();
    let cold = MappedFile::new(std::fs::File::open("/proc/self/exe").unwrap(), 4096).unwrap();
    let extent = Extent { offset: 0, length: 100 };
    let refused = BlockPath::UringSend.send(&sink, &cold, extent, &mut hot.scratch);
    assert!(matches!(refused, Err(SendError::Unsupported { .. })), "{refused:?}");
}

fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    (listener.accept().unwrap().0, client)
}

/// All of a medium of several pieces, as much at a time as the connection takes.
fn blocks_reach_a_connection() {
    let mut hot = Hot::new(20_000_001);
    let (server, mut client) = connection();
    let sink = BlockSink::tcp(server, BlockPath::UringSend).unwrap();
    let length = hot.bytes.len();
    let reader = std::thread::spawn(move || {
        let mut received = vec![0; length];
        client.read_exact(&mut received).unwrap();
        (received, client)
    });
    let mut sent = 0;
    while sent < length {
        let extent = Extent { offset: sent as u64, length: length - sent };
        match BlockPath::UringSend.send(&sink, &hot.medium, extent, &mut hot.scratch) {
            Ok(taken) => sent += taken,
            Err(SendError::Full { .. }) => wait_for_room(&sink),
            Err(error) => panic!("{error}"),
        }
    }
    let (received, client) = reader.join().unwrap();
    assert!(received == hot.bytes, "other bytes came");
    drop(client);
    let extent = Extent { offset: 0, length: 1 << 20 };
    let gone = loop {
        if let Err(error) = BlockPath::UringSend.send(&sink, &hot.medium, extent, &mut hot.scratch) {
            break error;
        }
    };
    assert!(matches!(gone, SendError::Other { .. }), "{gone}");
}

fn wait_for_room(sink: &BlockSink) {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut room = [PollFd::from_borrowed_fd(sink.socket(), PollFlags::OUT)];
    poll(&mut room, None).unwrap();
}

/// A sink that lends whatever the size, and a scratch with a ring.
fn lending(sink: BlockSink) -> (BlockSink, SendContext) {
    let always = LoanPolicy::ALWAYS;
    let mut scratch = SendContext::default();
    scratch.open_ring().unwrap();
    (sink.with_switch(LoanSwitch::new(always)), scratch)
}

fn written(value: u8) -> SharedPages {
    let mut buffer = PageBuffer::new(50_000).unwrap();
    buffer.fill(value);
    buffer.share()
}

/// Takes as much as there is room for.
type Take = Box<dyn FnMut(&mut [u8])>;

/// Promise: An io_uring lends pages by the same rules and counters as a socket.
fn pages_lent_by_a_ring_are_written_again_when_they_are_back() {
    let ((stream, mut client), (datagrams, receiver)) = (connection(), connected(V4));
    let stream = BlockSink::tcp(stream, BlockPath::Loan).unwrap();
    let datagrams = BlockSink::udp(datagrams, 60_000, BlockPath::Loan).unwrap();
    let read = move |bytes: &mut [u8]| client.read_exact(bytes).unwrap();
    let receive = move |bytes: &mut [u8]| assert_eq!(receiver.recv(bytes).unwrap(), bytes.len());
    let sinks: [(BlockSink, Take); 2] = [(stream, Box::new(read)), (datagrams, Box::new(receive))];
    for (sink, mut take) in sinks {
        let (sink, mut scratch) = lending(sink);
        let mut pages = written(0);
        for round in 1..=3 {
            let mut buffer = pages.reclaim().unwrap();
            buffer.fill(round);
            pages = buffer.share();
            assert_eq!(sink.send_pages_by_ring(&pages, 7..50_000, &mut scratch), Ok(49_993));
            let mut came = vec![0; 49_993];
            take(&mut came);
            assert!(came.iter().all(|byte| *byte == round), "other bytes came");
            assert!(scratch.drain(Duration::from_secs(5)));
            let loans = u64::from(round);
            let counts = sink.loans();
            assert_eq!((counts.loans, counts.copied_by_kernel), (loans, loans));
            assert_eq!((counts.copies, counts.outstanding), (0, 0));
        }
        assert_eq!(sink.send_pages_by_ring(&pages, 0..0, &mut scratch), Ok(0));
        assert_eq!((sink.loans().loans, sink.loans().copies), (3, 1));
        assert!(sink.send_pages_by_ring(&pages, 0..50_001, &mut scratch).is_err());
        pages.reclaim().unwrap();
    }
}

/// Promise: An io_uring lends pages by the same rules and counters as a socket.
///
/// The receiver reads only when the ring is gone: nobody then hears when its loans are back.
fn a_ring_that_is_dropped_gives_its_loans_up() {
    let (stream, mut client) = connection();
    let (sink, mut scratch) = lending(BlockSink::tcp(stream, BlockPath::Loan).unwrap());
    let (pages, mut sent) = (written(9), 0);
    // Loans beyond the ring's memory of them are copied.
    rustix::net::sockopt::set_socket_send_buffer_size(sink.socket(), 1 << 22).unwrap();
    let full = loop {
        match sink.send_pages_by_ring(&pages, 0..2000, &mut scratch) {
            Ok(taken) => sent += taken,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, SendError::Full { .. }), "{full}");
    scratch.reclaim_loans();
    assert!(sink.loans().outstanding > 0 && sink.loans().copies > 0, "{:?}", sink.loans());
    assert!(!scratch.drain(Duration::ZERO));
    let Err(ReclaimError::InUse(pages)) = pages.reclaim() else { panic!("its loans are out") };
    drop(scratch);
    let Err(ReclaimError::Lost(pages)) = pages.reclaim() else { panic!("nobody knows when it is back") };
    drop((pages, sink));
    let mut came = Vec::new();
    client.read_to_end(&mut came).unwrap();
    assert!(came == vec![9; sent], "other bytes came");
}

/// Promise: An io_uring lends pages by the same rules and counters as a socket.
fn a_route_that_copies_what_a_ring_lends_gets_no_more_loans() {
    let (sender, receiver) = connected(V4);
    let sink = BlockSink::udp(sender, 60_000, BlockPath::Loan).unwrap().with_routes(&LoanRoutes::default());
    let mut scratch = SendContext::default();
    scratch.open_ring().unwrap();
    let pages = written(1);
    for sent in 1..=20 {
        assert_eq!(sink.send_pages_by_ring(&pages, 0..50_000, &mut scratch), Ok(50_000));
        receiver.recv(&mut [0; 50_000]).unwrap();
        assert!(scratch.drain(Duration::from_secs(5)));
        assert_eq!((sink.loans().loans, sink.loans().copies), (sent.min(3), sent - sent.min(3)));
    }
    pages.reclaim().unwrap();
}
