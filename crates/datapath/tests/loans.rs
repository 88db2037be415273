//! Loans: what is lent is counted, comes back, and is not written before. All on loopback, where the kernel
//! turns every loan into a copy and says so; `tests/netns` has a device that really borrows.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use wirepath_datapath::{
    BlockPath, BlockSink, Extent, LoanCounts, LoanPolicy, LoanRoutes, LoanSwitch, MappedFile, PageBuffer,
    ReclaimError, SendContext, SendError, SharedPages,
};

const TIMEOUT: Duration = Duration::from_secs(5);
const ON: LoanPolicy = LoanPolicy::ALWAYS;
const OFF: LoanPolicy = LoanPolicy::NEVER;

fn udp(packet_size: u16, path: BlockPath) -> (BlockSink, UdpSocket) {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(TIMEOUT)).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    (BlockSink::udp(sender, packet_size, path).unwrap(), receiver)
}

fn tcp(path: BlockPath) -> (BlockSink, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (receiver, _) = listener.accept().unwrap();
    receiver.set_read_timeout(Some(TIMEOUT)).unwrap();
    (BlockSink::tcp(sender, path).unwrap(), receiver)
}

/// Takes what a send of so many bytes made arrive.
type Take = Box<dyn FnMut(usize)>;

/// Both kinds of sink.
fn sinks(path: BlockPath) -> [(BlockSink, Take); 2] {
    let ((datagrams, from_datagrams), (stream, mut from_stream)) = (udp(60_000, path), tcp(path));
    let receive = move |length| {
        let received = from_datagrams.recv(&mut vec![0; 65_536]).unwrap();
        assert_eq!(received, length);
    };
    let read = move |length| from_stream.read_exact(&mut vec![0; length]).unwrap();
    [(datagrams, Box::new(receive)), (stream, Box::new(read))]
}

fn medium(length: usize) -> MappedFile {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![7; length]).unwrap();
    MappedFile::new(file, length as u64).unwrap()
}

/// The counts when all loans are back, without the most that were out: how soon they are back is the
/// machine's affair.
fn settled(sink: &BlockSink) -> LoanCounts {
    assert!(sink.wait_for_loans(TIMEOUT).unwrap(), "{:?}", sink.loans());
    LoanCounts { outstanding_most: 0, ..sink.loans() }
}

fn counts(loans: u64, copies: u64) -> LoanCounts {
    LoanCounts { loans, copies, copied_by_kernel: loans, outstanding: 0, outstanding_most: 0 }
}

/// Promise: `loan` lends or copies by size, alignment and device, can be switched at run time, and counts
/// both.
#[test]
fn loans_are_switched_on_and_off_while_sending() {
    let medium = medium(40_000);
    let switch = LoanSwitch::new(OFF);
    for (sink, mut take) in sinks(BlockPath::Loan) {
        let sink = sink.with_switch(switch.clone()).with_routes(&LoanRoutes::default());
        let mut scratch = SendContext::default();
        let mut send = |offset, length| {
            let extent = Extent { offset, length };
            assert_eq!(BlockPath::Loan.send(&sink, &medium, extent, &mut scratch), Ok(length));
            take(length);
            settled(&sink)
        };
        switch.set(OFF);
        assert_eq!(send(0, 40_000), counts(0, 1));
        switch.set(ON);
        assert_eq!(send(1, 100), counts(1, 1)); // small and not aligned, but forced
        switch.set(LoanPolicy::default());
        assert_eq!(send(0, 5 * 1024), counts(2, 1));
        assert_eq!(send(0, 5 * 1024 - 1), counts(2, 2));
        switch.set(LoanPolicy { unaligned_bytes: Some(6 * 1024), ..LoanPolicy::default() });
        assert_eq!(send(1, 5 * 1024), counts(2, 3));
        assert_eq!(send(1, 6 * 1024), counts(3, 3));
    }
    switch.set(LoanPolicy { aligned_bytes: None, ..LoanPolicy::default() });
    for (sink, mut take) in sinks(BlockPath::Loan) {
        let sink = sink.with_switch(switch.clone()).with_routes(&LoanRoutes::default());
        for (offset, expected) in [(0, counts(0, 1)), (1, counts(1, 1))] {
            let extent = Extent { offset, length: 30_000 };
            assert_eq!(BlockPath::Loan.send(&sink, &medium, extent, &mut SendContext::default()), Ok(30_000));
            take(30_000);
            assert_eq!(settled(&sink), expected);
        }
    }
}

/// Promise: `loan` stops lending after three copied loans, and later sinks of a route after three notifications.
#[test]
fn a_route_that_copies_whatever_is_lent_gets_no_more_loans() {
    let medium = medium(20_000);
    let extent = Extent { offset: 0, length: 20_000 };
    for (sink, mut take) in sinks(BlockPath::Loan) {
        let switch = LoanSwitch::default();
        let sink = sink.with_switch(switch.clone()).with_routes(&LoanRoutes::default());
        let mut scratch = SendContext::default();
        let mut send = || {
            BlockPath::Loan.send(&sink, &medium, extent, &mut scratch).unwrap();
            take(20_000);
            settled(&sink)
        };
        for _ in 0..2 {
            send();
        }
        assert_eq!(send(), counts(3, 0));
        assert_eq!(send(), counts(3, 1));
        switch.set(ON);
        assert_eq!(send(), counts(4, 1));
        switch.set(LoanPolicy::default());
        for copies in 2..=1025 {
            assert_eq!(send(), counts(4, copies));
        }
        assert_eq!(send(), counts(5, 1025), "the kernel is not asked again");
        assert_eq!(send(), counts(5, 1026));
    }
}

/// Promise: `loan` stops lending after three copied loans, and later sinks of a route after three notifications.
///
/// Nothing but the sends themselves reads the notifications.
#[test]
fn sinks_share_what_they_know_of_a_route() {
    let (medium, routes) = (medium(20_000), LoanRoutes::default());
    let send = |sink: &BlockSink, receiver: &UdpSocket| {
        let extent = Extent { offset: 0, length: 20_000 };
        BlockPath::Loan.send(sink, &medium, extent, &mut SendContext::default()).unwrap();
        receiver.recv(&mut [0; 20_000]).unwrap();
        let LoanCounts { loans, copies, copied_by_kernel, .. } = sink.loans();
        (loans, copies, copied_by_kernel)
    };
    let sink = |routes: &LoanRoutes| {
        let (sink, receiver) = udp(20_000, BlockPath::Loan);
        (sink.with_routes(routes), receiver)
    };
    let (first, at_first) = sink(&routes);
    let counted: Vec<_> = (0..5).map(|_| send(&first, &at_first)).collect();
    assert_eq!(counted, [(1, 0, 0), (2, 0, 1), (3, 0, 1), (3, 1, 3), (3, 2, 3)]);
    // The last two loans had one notification.
    let (second, at_second) = sink(&routes);
    assert_eq!(send(&second, &at_second), (1, 0, 0), "two notifications decide");
    assert_eq!(send(&second, &at_second), (1, 1, 1), "the third notification is not read");
    let (third, at_third) = sink(&routes);
    for copies in 1..=1023 {
        assert_eq!(send(&third, &at_third), (0, copies, 0));
    }
    let (fourth, at_fourth) = sink(&routes);
    assert_eq!(
        send(&fourth, &at_fourth),
        (1, 0, 0),
        "after 1,024 copies of all the kernel is not asked again"
    );
    assert_eq!(send(&fourth, &at_fourth), (1, 1, 1), "the answer is not read");
    assert_eq!(send(&third, &at_third), (0, 1024, 0));
    let (other, at_other) = sink(&LoanRoutes::default());
    assert_eq!(send(&other, &at_other), (1, 0, 0), "nobody knows this route");
}

/// Promise: `loan` stops lending after three copied loans, and later sinks of a route after three notifications.
#[test]
fn a_second_connection_on_a_route_that_copies_lends_nothing() {
    let (medium, routes) = (medium(20_000), LoanRoutes::default());
    let extent = Extent { offset: 0, length: 20_000 };
    let sent = |sends: u64| {
        let (sink, mut receiver) = tcp(BlockPath::Loan);
        let sink = sink.with_routes(&routes);
        for _ in 0..sends {
            assert_eq!(BlockPath::Loan.send(&sink, &medium, extent, &mut SendContext::default()), Ok(20_000));
            receiver.read_exact(&mut [0; 20_000]).unwrap();
            settled(&sink);
        }
        settled(&sink)
    };
    assert_eq!(sent(10), counts(3, 7));
    for _ in 0..3 {
        assert_eq!(sent(10), counts(0, 10));
    }
}

#[test]
fn mmap_zerocopy_lends_whatever_the_size() {
    let medium = medium(5000);
    for (sink, mut take) in sinks(BlockPath::MmapZerocopy) {
        let mut scratch = SendContext::default();
        for sent in 1..=100 {
            let extent = Extent { offset: 4000, length: 1000 };
            assert_eq!(BlockPath::MmapZerocopy.send(&sink, &medium, extent, &mut scratch), Ok(1000));
            take(1000);
            assert_eq!(sink.loans().loans, sent);
        }
        assert!(sink.loans().outstanding < 64, "nothing was taken back while sending");
        assert_eq!(settled(&sink), counts(100, 0));
    }
}

#[test]
fn a_path_that_does_not_lend_counts_nothing() {
    let (sink, _receiver) = udp(1000, BlockPath::MmapSend);
    let extent = Extent { offset: 0, length: 1000 };
    BlockPath::MmapSend.send(&sink, &medium(1000), extent, &mut SendContext::default()).unwrap();
    assert_eq!(settled(&sink), LoanCounts::default());
    let error = BlockPath::MmapZerocopy.send(&sink, &medium(1000), extent, &mut SendContext::default());
    assert!(matches!(error, Err(SendError::Unsupported { call: "setsockopt(SO_ZEROCOPY)", .. })));
}

/// The kernel gives a number to some sends that then fail; the others must not be taken for them.
#[test]
fn failed_loans_do_not_confuse_the_numbers() {
    let (sink, receiver) = udp(1, BlockPath::MmapZerocopy); // more than 128 datagrams of one byte are refused late
    let (medium, mut scratch) = (medium(1000), SendContext::default());
    let mut send =
        |length| BlockPath::MmapZerocopy.send(&sink, &medium, Extent { offset: 0, length }, &mut scratch);
    for round in 1..=40 {
        assert_eq!(send(3), Ok(3));
        let call = "send";
        assert_eq!(send(1000), Err(SendError::Unsupported { call, errno: Errno::INVAL }), "{round}");
        (0..3).for_each(|_| assert_eq!(receiver.recv(&mut [0; 9]).unwrap(), 1));
    }
    assert_eq!(settled(&sink), counts(40, 0));
}

/// Promise: Lent memory is not written before the kernel releases it.
#[test]
fn a_buffer_is_written_again_when_its_loans_are_back() {
    for (sink, mut take) in sinks(BlockPath::Loan) {
        let sink = sink.with_switch(LoanSwitch::new(ON));
        let mut buffer = PageBuffer::new(50_000).unwrap();
        for round in 1..=3 {
            buffer.fill(round);
            let pages = buffer.share();
            assert_eq!(sink.send_pages(&pages, 0..20_000), Ok(20_000));
            assert_eq!(sink.send_pages(&pages, 20_000..50_000), Ok(30_000));
            assert!(sink.loans().outstanding > 0, "the last loan was heard of before it was asked");
            let Err(ReclaimError::InUse(pages)) = pages.reclaim() else { panic!("its loans are out") };
            take(20_000);
            take(30_000);
            assert_eq!(settled(&sink), counts(2 * u64::from(round), 0));
            assert!(sink.loans().outstanding_most <= 2, "there were never more");
            buffer = pages.reclaim().unwrap();
        }
    }
}

#[test]
fn a_buffer_that_is_copied_can_be_written_at_once() {
    for (sink, mut take) in sinks(BlockPath::Loan) {
        let sink = sink.with_switch(LoanSwitch::new(OFF));
        let pages = PageBuffer::new(50_000).unwrap().share();
        assert_eq!(sink.send_pages(&pages, 0..50_000), Ok(50_000));
        take(50_000);
        pages.reclaim().unwrap()[0] = 1;
        assert_eq!(sink.loans(), counts(0, 1));
    }
}

/// Promise: `loan` lends or copies by size, alignment and device, can be switched at run time, and counts
/// both.
///
/// The kernel numbers no loan of nothing: counted as one, it would be waited for in vain.
#[test]
fn nothing_is_not_lent() {
    let medium = medium(5000);
    for path in [BlockPath::Loan, BlockPath::MmapZerocopy] {
        for (sink, mut take) in sinks(path) {
            let sink = sink.with_switch(LoanSwitch::new(ON));
            let pages = PageBuffer::new(5000).unwrap().share();
            let nothing = Extent { offset: 1000, length: 0 };
            assert_eq!(path.send(&sink, &medium, nothing, &mut SendContext::default()), Ok(0));
            take(0);
            assert_eq!(sink.send_pages(&pages, 1000..1000), Ok(0));
            take(0);
            assert_eq!(settled(&sink), counts(0, 2));
            assert_eq!(sink.send_pages(&pages, 0..5000), Ok(5000));
            take(5000);
            assert_eq!(settled(&sink), counts(1, 2));
            pages.reclaim().unwrap();
        }
    }
}

/// Promise: `loan` lends or copies by size, alignment and device, can be switched at run time, and counts
/// both.
///
/// A full connection takes nothing, however often it is asked: nothing is counted.
#[test]
fn what_was_not_sent_is_not_counted() {
    let medium = medium(1 << 20);
    let extent = Extent { offset: 0, length: 1 << 20 };
    let pages = PageBuffer::new(1 << 20).unwrap().share();
    let (sink, _receiver) = tcp(BlockPath::Loan);
    let sink = sink.with_switch(LoanSwitch::new(OFF));
    let mut scratch = SendContext::default();
    let (mut sent, mut refused) = (0, 0);
    while refused < 10 {
        let (block, own) =
            (BlockPath::Loan.send(&sink, &medium, extent, &mut scratch), sink.send_pages(&pages, 0..1 << 20));
        for one in [block, own] {
            match one {
                Ok(_) => sent += 1,
                Err(SendError::Full { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert_eq!(sink.loans(), counts(0, sent));
}

/// Promise: Lent memory is not written before the kernel releases it.
///
/// Pages that a receiver has not read are still lent when the sink is dropped.
#[test]
fn a_sink_that_is_dropped_gives_its_loans_up() {
    let (sink, mut receiver) = tcp(BlockPath::Loan);
    let sink = sink.with_switch(LoanSwitch::new(ON));
    let (pages, sent) = fill(&sink);
    assert!(sink.reclaim_loans().unwrap().outstanding > 0, "nothing is out, so this shows nothing");
    drop(sink);
    let Err(ReclaimError::Lost(pages)) = pages.reclaim() else { panic!("nobody knows when it is back") };
    drop(pages);
    receiver.read_exact(&mut vec![0; sent]).unwrap();
}

/// Promise: Lent memory is not written before the kernel releases it.
#[test]
fn a_sink_that_is_dropped_gives_back_what_is_back() {
    for (sink, mut take) in sinks(BlockPath::Loan) {
        let sink = sink.with_switch(LoanSwitch::new(ON));
        let pages = PageBuffer::new(50_000).unwrap().share();
        sink.send_pages(&pages, 0..50_000).unwrap();
        take(50_000);
        wait_for_notice(&sink);
        assert_eq!(sink.loans().outstanding, 1, "it was heard of before");
        drop(sink);
        pages.reclaim().unwrap();
    }
}

/// Until the kernel has said something that nobody has heard yet.
fn wait_for_notice(sink: &BlockSink) {
    let mut socket = [PollFd::from_borrowed_fd(sink.socket(), PollFlags::empty())];
    assert_eq!(poll(&mut socket, Some(&Timespec::try_from(TIMEOUT).unwrap())).unwrap(), 1);
    assert_eq!(socket[0].revents(), PollFlags::ERR);
}

/// Lends pages to a connection until it is full; answers them and how many bytes were sent.
fn fill(sink: &BlockSink) -> (SharedPages, usize) {
    let pages = PageBuffer::new(1 << 20).unwrap().share();
    let mut sent = 0;
    let full = loop {
        match sink.send_pages(&pages, 0..pages.len()) {
            Ok(taken) => sent += taken,
            Err(error) => break error,
        }
    };
    assert_eq!(full, SendError::Full { call: "send" });
    (pages, sent)
}

/// A receiver that does not read keeps the pages out.
#[test]
fn loans_stay_out_until_the_receiver_reads() {
    let (sink, mut receiver) = tcp(BlockPath::Loan);
    let sink = sink.with_switch(LoanSwitch::new(ON));
    let (pages, sent) = fill(&sink);
    assert!(!sink.wait_for_loans(Duration::from_millis(50)).unwrap());
    assert!(sink.loans().outstanding > 0);
    let reader = std::thread::spawn(move || receiver.read_exact(&mut vec![0; sent]).map(|()| receiver));
    assert!(sink.wait_for_loans(Duration::MAX).unwrap());
    reader.join().unwrap().unwrap();
    let counted = sink.loans();
    assert_eq!((counted.copies, counted.outstanding), (0, 0));
    pages.reclaim().unwrap();
}

/// Promise: If no more memory can be lent, data is copied.
///
/// Sends beyond the sink's table of loans are copied; a reset connection gives its loans back.
#[test]
fn more_loans_of_buffers_than_a_sink_remembers_are_copies() {
    let (sink, receiver) = tcp(BlockPath::Loan);
    let sink = sink.with_switch(LoanSwitch::new(ON));
    rustix::net::sockopt::set_socket_recv_buffer_size(&receiver, 4096).unwrap();
    let pages = PageBuffer::new(4000).unwrap().share();
    while sink.loans().copies == 0 {
        sink.send_pages(&pages, 0..pages.len()).unwrap();
    }
    assert_eq!(sink.loans().outstanding, 256);
    drop(receiver);
    settled(&sink);
    pages.reclaim().unwrap();
}
