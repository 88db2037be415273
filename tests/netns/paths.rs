//! Data paths by themselves, on devices that loopback is not: one that computes no checksums, one that keeps
//! packets waiting, one that drops them and really borrows what it is lent.
//!
//! ```text
//!   client                              server                          server
//!   10.77.0.2/24 veth ---------- veth 10.77.0.1/24                      ifb 10.77.0.1/24 (drops)
//!  fd00:77::2/64                     fd00:77::1/64
//!                 (checksums, or not; a slow queue)
//! ```

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::Trial;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wirepath_datapath::rtp::{HEADER_LENGTH, Header, Run};
use wirepath_datapath::to_many::{self, SocketId};
use wirepath_datapath::{
    BlockPath, BlockSink, DataPath, Extent, Headers, LoanPolicy, LoanSwitch, MappedFile, Mapping, PageBuffer,
    SendContext, SendError, Train, UdpSink,
};
use wirepath_sys::zerocopy;
use wirepath_tests::namespace::{CLIENT, Link, Namespace, SERVER};
use wirepath_tests::{Deadline, paths, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        odd_offsets_cross_pages_with_right_checksums,
        fragments_of_odd_offsets_have_right_checksums,
        a_full_socket_is_told_and_keeps_no_part_of_a_packet,
        headers_are_not_written_while_they_are_lent,
        a_device_that_borrows_is_not_sent_copies,
        a_device_without_checksums_is_not_lent_to,
        where_nothing_can_be_lent_copies_are_sent,
        where_nothing_more_can_be_lent_copies_are_sent,
        datagrams_larger_than_the_mtu_are_copied_unless_they_are_spliced,
        trains_to_a_neighbour_that_answers_late_keep_their_bytes,
        files_that_are_replaced_by_rename_are_sent_as_they_were,
        files_that_are_rewritten_in_place_are_sent_as_they_are,
    ]
}

const PAYLOAD: usize = 7 * 188;
const PACKET: usize = HEADER_LENGTH + PAYLOAD;
const PORT: u16 = 5004;
/// Addresses of the client and of the server.
const FAMILIES: [(IpAddr, IpAddr); 2] =
    [(IpAddr::V4(CLIENT), IpAddr::V4(SERVER)), (IpAddr::V6(CLIENT_6), IpAddr::V6(SERVER_6))];
const SERVER_6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x77, 0, 0, 0, 0, 0, 1);
const CLIENT_6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x77, 0, 0, 0, 0, 0, 2);
const KINDS: [Headers; 3] = [
    Headers::Stored,
    Headers::Own { sequence_offset: 7, timestamp_offset: 9, marker: false, stored: true },
    Headers::Generated,
];

/// Promise: A packet at an odd offset that crosses a page has the right checksum.
///
/// The receiving kernel drops packets for which the sending kernel computed a wrong checksum.
fn odd_offsets_cross_pages_with_right_checksums() -> Result<()> {
    for (client, server) in FAMILIES {
        for checksums in ["on", "off"] {
            let link = link()?;
            link.server.run(&format!("ethtool -K veth tx {checksums}"))?;
            let receiver = receiver_at(&link, client)?;
            let mut scratch = SendContext::default();
            for headers in KINDS {
                let media = Media::new(headers, 4095, 12, 1)?;
                for path in paths::streams() {
                    let open = || Ok(UdpSink::new(socket_to(client, server)?, PACKET as u16, path)?);
                    let sink = link.server.enter(open)?;
                    // One by one too: a train of one packet is no train to the kernel.
                    for alone in [false, true] {
                        send(path, &sink, &media, &mut scratch, alone)?;
                        let arrived = media.arrives(&receiver);
                        arrived.with_context(|| format!("{path} to {client}, {headers:?}, {checksums}"))?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Promise: A packet at an odd offset that crosses a page has the right checksum.
fn fragments_of_odd_offsets_have_right_checksums() -> Result<()> {
    for (client, server) in FAMILIES {
        let link = link()?;
        let receiver = receiver_at(&link, client)?;
        let media = Media::new(Headers::Generated, 4095, 12, 1)?;
        let twice = Train { packet_size: 2 * PAYLOAD as u16, ..media.train };
        for path in paths::streams() {
            let open = || Ok(UdpSink::new(socket_to(client, server)?, 2 * PACKET as u16, path)?);
            let sink = link.server.enter(open)?;
            let sent =
                path.send(&sink, &media.medium, &twice, Headers::Generated, &mut SendContext::default());
            match sent {
                Ok(6) => (0..6).try_for_each(|index| {
                    let expected = &media.bytes[4095 + index * 2 * PAYLOAD..][..2 * PAYLOAD];
                    let datagram = receive(&receiver)?;
                    ensure!(datagram[HEADER_LENGTH..] == *expected, "{path} to {client}: datagram {index}");
                    Ok(())
                })?,
                Err(SendError::Unsupported { .. }) if path.segments() => {}
                other => bail!("{path} to {client}: {other:?}"),
            }
        }
        for path in [BlockPath::Sendfile, BlockPath::MmapSend, BlockPath::ReadWrite] {
            let open = || Ok(BlockSink::udp(socket_to(client, server)?, 2048, path)?);
            let sink = link.server.enter(open)?;
            for offset in [4095, 4096, 8191 - 2048 + 2] {
                let extent = Extent { offset, length: 2048 };
                path.send(&sink, &media.medium, extent, &mut SendContext::default())?;
                let expected = &media.bytes[offset as usize..][..2048];
                ensure!(receive(&receiver)? == expected, "{path} to {client} from {offset}");
            }
        }
    }
    Ok(())
}

/// Promise: After any failure, no path leaves part of a packet in the socket.
///
/// A queue that lets nothing go fills the socket. When it is taken away, what is sent next is whole.
fn a_full_socket_is_told_and_keeps_no_part_of_a_packet() -> Result<()> {
    let link = Link::new()?;
    let receiver = receiver(&link)?;
    let mut scratch = SendContext::default();
    for headers in KINDS {
        let (early, late) = (Media::new(headers, 3, 40, 1)?, Media::new(headers, 3, 40, 2)?);
        for path in paths::streams() {
            let sink = sink(&link.server, path)?;
            link.server.run("tc qdisc add dev veth root tbf rate 8kbit burst 70k latency 10000s")?;
            let mut sends = 0..100;
            let stopped = sends.find_map(|_| send(path, &sink, &early, &mut scratch, false).err());
            let full = matches!(stopped, Some(SendError::Full { .. }));
            ensure!(full, "{path}, {headers:?}: {stopped:?} after {sends:?}");
            link.server.run("tc qdisc del dev veth root")?;
            send(path, &sink, &late, &mut scratch, false).with_context(|| format!("{path}, {headers:?}"))?;
            late.arrives(&receiver).with_context(|| format!("{path}, {headers:?}"))?;
            ensure!(sink.wait_for_loans(Duration::from_secs(5))?, "{path}: {:?}", sink.loans());
        }
    }
    Ok(())
}

/// Promise: Lent memory is not written before the kernel releases it.
///
/// Packets that wait in a queue refer to their headers; more sends wait than there are blocks for headers.
fn headers_are_not_written_while_they_are_lent() -> Result<()> {
    let link = Link::new()?;
    link.server.run("tc qdisc add dev veth root tbf rate 20mbit burst 70k latency 100s")?;
    let receiver = receiver(&link)?;
    let socket = link.server.enter(socket)?;
    rustix::net::sockopt::set_socket_send_buffer_size_force(&socket, 1 << 24)?;
    let sink = UdpSink::new(socket, PACKET as u16, DataPath::GsoZerocopy)?;
    let trains =
        (0..20).map(|ssrc| Media::new(Headers::Generated, 0, 48, ssrc)).collect::<Result<Vec<_>>>()?;
    for media in &trains {
        send(DataPath::GsoZerocopy, &sink, media, &mut SendContext::default(), false)?;
    }
    let counts = sink.loans();
    ensure!(counts.loans >= 64 && counts.copies > 0, "no block for headers was wanted twice: {counts:?}");
    trains.iter().try_for_each(|media| media.arrives(&receiver))?;
    ensure!(sink.wait_for_loans(Duration::from_secs(5))?, "{:?}", sink.loans());
    Ok(())
}

/// Promise: `loan` lends or copies by size, alignment and device, can be switched at run time, and counts
/// both.
/// Promise: An io_uring lends pages by the same rules and counters as a socket.
fn a_device_that_borrows_is_not_sent_copies() -> Result<()> {
    let server = dropping()?;
    for headers in KINDS {
        let media = Media::new(headers, 1, 48, 1)?;
        let sink = sink(&server, DataPath::GsoZerocopy)?;
        for _ in 0..50 {
            send(DataPath::GsoZerocopy, &sink, &media, &mut SendContext::default(), false)?;
        }
        ensure!(sink.wait_for_loans(Duration::from_secs(5))?, "{:?}", sink.loans());
        let counts = sink.loans();
        ensure!(
            counts.loans >= 50 && counts.copies + counts.copied_by_kernel == 0,
            "{headers:?}: {counts:?}"
        );
    }
    for path in [BlockPath::MmapZerocopy, BlockPath::Loan] {
        let counts = lent_blocks(&server, path, LoanPolicy::default())?;
        ensure!(counts == (50, 0, 0), "{path}: {counts:?}");
    }
    lend_by_ring(&server)?;
    let forced_off = LoanPolicy { forced: Some(false), ..LoanPolicy::default() };
    let counts = lent_blocks(&server, BlockPath::Loan, forced_off)?;
    ensure!(counts == (0, 50, 0), "{counts:?}");
    Ok(())
}

/// 50 datagrams that really refer to their pages, which come back all the same.
fn lend_by_ring(server: &Namespace) -> Result<()> {
    let mut scratch = SendContext::default();
    let opened = scratch.open_ring();
    require!(opened.is_ok(), "no ring: {opened:?}");
    let sink = server.enter(|| Ok(BlockSink::udp(socket()?, PAYLOAD as u16, BlockPath::Loan)?))?;
    let pages = PageBuffer::new(40 * PAYLOAD)?.share();
    for _ in 0..50 {
        sink.send_pages_by_ring(&pages, 0..pages.len(), &mut scratch)?;
    }
    ensure!(scratch.drain(Duration::from_secs(5)), "{:?}", sink.loans());
    let counts = sink.loans();
    ensure!((counts.loans, counts.outstanding) == (50, 0), "{counts:?}");
    ensure!(counts.copies + counts.copied_by_kernel == 0, "{counts:?}");
    pages.reclaim()?;
    Ok(())
}

/// Promise: `loan` lends or copies by size, alignment and device, can be switched at run time, and counts
/// both.
fn a_device_without_checksums_is_not_lent_to() -> Result<()> {
    let forced_on = LoanPolicy { forced: Some(true), ..LoanPolicy::default() };
    for feature in ["tx", "sg"] {
        let server = dropping()?;
        server.run(&format!("ethtool -K ifb {feature} off"))?;
        let counts = lent_blocks(&server, BlockPath::Loan, forced_on)?;
        ensure!(counts == (0, 50, 0), "{feature}: {counts:?}");
        let of_both = || socket_to(CLIENT.to_ipv6_mapped().into(), SERVER.to_ipv6_mapped().into());
        let counts = server.enter(|| lent_blocks_by(of_both()?, BlockPath::Loan, forced_on))?;
        ensure!(counts == (0, 50, 0), "{feature}, a socket of both protocols: {counts:?}");
        let counts = lent_blocks(&server, BlockPath::MmapZerocopy, forced_on)?;
        ensure!(counts == (50, 0, 50), "the kernel should have copied; {feature}: {counts:?}");
    }
    Ok(())
}

/// Promise: If no more memory can be lent, data is copied.
///
/// With no room for notices the kernel takes no loan at all, and waiting would not help.
fn where_nothing_can_be_lent_copies_are_sent() -> Result<()> {
    let link = Link::new()?;
    link.server.set("net/core/optmem_max", "1")?;
    let receiver = receiver(&link)?;
    let media = Media::new(Headers::Generated, 0, 48, 1)?;
    let sink = sink(&link.server, DataPath::GsoZerocopy)?;
    send(DataPath::GsoZerocopy, &sink, &media, &mut SendContext::default(), false)?;
    media.arrives(&receiver)?;
    ensure!((sink.loans().loans, sink.loans().copies) == (0, 1), "{:?}", sink.loans());
    let counts = lent_blocks(&link.server, BlockPath::MmapZerocopy, LoanPolicy::default())?;
    ensure!(counts == (0, 50, 0), "{counts:?}");
    Ok(())
}

/// Promise: If no more memory can be lent, data is copied.
///
/// Room for a notice or two, of which TCP needs one for 512 KiB, and a client that reads nothing: while loans
/// are out, what the connection has room for is copied. It is full only when it says so to those who wait for
/// room, too.
fn where_nothing_more_can_be_lent_copies_are_sent() -> Result<()> {
    let link = Link::new()?;
    link.server.set("net/core/optmem_max", "2000")?;
    let media = Media::new(Headers::Generated, 0, 20, 1)?;
    let forced_on = LoanSwitch::new(LoanPolicy::ALWAYS);
    for path in [BlockPath::MmapZerocopy, BlockPath::Loan] {
        let (stream, mut client) = connection(&link)?;
        rustix::net::sockopt::set_socket_send_buffer_size_force(&stream, 1 << 22)?;
        let sink = BlockSink::tcp(stream, path)?.with_switch(forced_on.clone());
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        let full = loop {
            let extent = Extent { offset: sent.len() as u64 % 6000, length: 20_000 };
            match path.send(&sink, &media.medium, extent, &mut SendContext::default()) {
                Ok(taken) => sent.extend_from_slice(&media.bytes[extent.offset as usize..][..taken]),
                Err(error) => break error,
            }
        };
        ensure!(matches!(full, SendError::Full { .. }), "{path}: {full}");
        let counts = sink.loans();
        ensure!(counts.outstanding > 0 && counts.copies > counts.loans, "{path}: {counts:?}");
        let mut room = [PollFd::from_borrowed_fd(sink.socket(), PollFlags::OUT)];
        poll(&mut room, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        ensure!(!room[0].revents().contains(PollFlags::OUT), "{path}: it is not full");
        rustix::net::shutdown(sink.socket(), rustix::net::Shutdown::Write)?;
        client.read_to_end(&mut received)?;
        ensure!(received == sent, "{path}: other bytes came");
        ensure!(sink.wait_for_loans(Duration::from_secs(5))?, "{path}: {:?}", sink.loans());
    }
    Ok(())
}

/// Promise: The kernel copies lent datagrams that it fragments, and says so; pages that are spliced it keeps.
///
/// Until they are received, bytes that were spliced change with the file; those that were copied do not.
fn datagrams_larger_than_the_mtu_are_copied_unless_they_are_spliced() -> Result<()> {
    const LENGTH: usize = 8192;
    let file = || {
        let mut file = tempfile::tempfile()?;
        file.write_all(&[1; LENGTH])?;
        Ok::<_, anyhow::Error>(file)
    };
    let server = dropping()?;
    let (lent, socket) = (file()?, server.enter(socket)?);
    zerocopy::enable(socket.as_fd())?;
    let mapping = Mapping::new(&lent, LENGTH)?;
    for (range, is_copied) in [(0..1000, false), (0..LENGTH, true)] {
        ensure!(mapping.lend(socket.as_fd(), range.clone())? == range.len(), "a part of a datagram");
        let back = zerocopy::returned(socket.as_fd())?.context("the device drops at once")?;
        ensure!(back.copied == is_copied, "{range:?}: {back:?}");
    }

    let link = Link::new()?;
    let receiver = receiver(&link)?;
    for (path, is_spliced) in [(BlockPath::MmapSend, false), (BlockPath::Sendfile, true)] {
        let file = file()?;
        let medium = MappedFile::new(file.try_clone()?, LENGTH as u64)?;
        let sink = link.server.enter(|| Ok(BlockSink::udp(self::socket()?, LENGTH as u16, path)?))?;
        let extent = Extent { offset: 0, length: LENGTH };
        ensure!(path.send(&sink, &medium, extent, &mut SendContext::default())? == LENGTH, "{path}");
        file.write_all_at(&[2; LENGTH], 0)?;
        let damaged = || link.client.enter(damaged_datagrams);
        let before = damaged()?;
        let datagram = receive(&receiver);
        let damaged = damaged()? - before;
        // The checksum of spliced bytes was computed before, so a datagram that was changed does not arrive.
        ensure!(damaged == u64::from(is_spliced), "{path}: {damaged} datagrams had a wrong checksum");
        match datagram {
            Ok(datagram) => ensure!(!is_spliced && datagram == [1; LENGTH], "{path}: {}", datagram[0]),
            Err(error) => {
                let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
                ensure!(is_spliced && kind == Some(std::io::ErrorKind::WouldBlock), "{path}: {error}");
            }
        }
    }
    Ok(())
}

/// Datagrams with a wrong checksum, received in this thread's network namespace (`InCsumErrors`).
fn damaged_datagrams() -> Result<u64> {
    let table = std::fs::read_to_string("/proc/thread-self/net/snmp")?;
    let mut rows = table.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let (names, figures) = rows.next().zip(rows.next()).context("no counters of UDP")?;
    let place =
        names.split_whitespace().position(|name| name == "InCsumErrors").context("no InCsumErrors")?;
    Ok(figures.split_whitespace().nth(place).context("no figure")?.parse()?)
}

/// A queue in which packets wait for minutes.
const SLOW: &str = "tc qdisc add dev veth root tbf rate 8kbit burst 70k latency 1000s";

/// Promise: A train that waits for the address of a neighbour leaves with the bytes as of its send.
///
/// It refers to a block of the ring's memory, which must not be used for other trains meanwhile.
fn trains_to_a_neighbour_that_answers_late_keep_their_bytes() -> Result<()> {
    const DATAGRAM: usize = 1316;
    const LATE: &str = "10.77.0.77";
    let ring = SendContext::default().open_ring();
    require!(ring.is_ok(), "no ring: {ring:?}");
    let link = Link::new()?;
    // Linux would give up a neighbour after three unanswered probes of a second.
    link.server.set("net/ipv4/neigh/veth/mcast_solicit", "1000000")?;
    let receiver = receiver(&link)?;
    let connected = |address: &str| {
        let socket = UdpSocket::bind((SERVER, 0))?;
        socket.connect((address, PORT))?;
        wirepath_datapath::socket::set_segment(socket.as_fd(), DATAGRAM as u16)?;
        Ok::<_, anyhow::Error>((socket, SocketId::unique()))
    };
    let [(late, late_id), (other, other_id)] =
        link.server.enter(|| Ok([connected(LATE)?, connected(&CLIENT.to_string())?]))?;
    let train = |value: u8| [value; 20 * DATAGRAM];
    let sent = |value: u8, sockets: &[(&UdpSocket, SocketId)]| {
        let mut sent = 0;
        let sockets = sockets.iter().map(|(socket, id)| (socket.as_fd(), *id));
        to_many::send_to_each(&train(value), sockets, |_, taken| sent += usize::from(taken.is_ok()));
        sent
    };
    // The other address is known before: Linux keeps few packets for an address that it asks for.
    other.send(&[0])?;
    ensure!(receive(&receiver)? == [0], "another datagram came first");
    ensure!(sent(1, &[(&late, late_id), (&other, other_id)]) == 2, "the first train was not sent");
    // Other trains want blocks: many more than there are.
    let mut others = 0;
    for value in 2..=100 {
        others += sent(value, &[(&other, other_id)]);
    }
    ensure!(others > 32, "only {others} other trains were sent");
    let late_receiver = {
        link.client.ip(&format!("address add {LATE}/24 dev veth"))?;
        let socket = link.client.enter(|| Ok(UdpSocket::bind((LATE, PORT))?))?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        socket
    };
    for number in 0..20 {
        let datagram = receive(&late_receiver).with_context(|| format!("datagram {number}"))?;
        ensure!(datagram == [1; DATAGRAM], "datagram {number} has bytes of {}", datagram[0]);
    }
    for value in std::iter::once(1).chain(2..=100).take(others + 1) {
        for number in 0..20 {
            let datagram = receive(&receiver)?;
            ensure!(datagram == [value; DATAGRAM], "train {value}, datagram {number}: {}", datagram[0]);
        }
    }
    Ok(())
}

/// Trains that wait in a queue, whose file is changed by `change` meanwhile; answers the payload bytes that arrive.
fn changed_while_it_waits(
    path: DataPath,
    headers: Headers,
    change: impl FnOnce(&std::path::Path, &[u8]) -> Result<()>,
) -> Result<(Vec<u8>, Media)> {
    let link = Link::new()?;
    let receiver = receiver(&link)?;
    let folder = tempfile::tempdir()?;
    let mut media = Media::new(headers, 0, 12, 1)?;
    let name = folder.path().join("served");
    std::fs::write(&name, &media.bytes)?;
    media.medium = MappedFile::new(std::fs::File::open(&name)?, media.bytes.len() as u64)?;
    let socket = link.server.enter(socket)?;
    rustix::net::sockopt::set_socket_send_buffer_size_force(&socket, 1 << 24)?;
    let sink = UdpSink::new(socket, PACKET as u16, path)?;
    // The first trains empty the bucket, so the others wait.
    link.server.run(SLOW)?;
    let mut scratch = SendContext::default();
    let ring = scratch.open_ring();
    require!(ring.is_ok(), "no ring: {ring:?}");
    for _ in 0..8 {
        send(path, &sink, &media, &mut scratch, false)?;
    }
    change(&name, &vec![0xaa; media.bytes.len()])?;
    link.server.run("tc qdisc change dev veth root tbf rate 1gbit burst 70k latency 1000s")?;
    let mut payload = Vec::new();
    for number in 0..8 * media.train.packets() {
        let packet = receive(&receiver).with_context(|| format!("{path}: packet {number}"))?;
        payload.extend_from_slice(&packet[HEADER_LENGTH.min(packet.len())..]);
    }
    Ok((payload, media))
}

/// The payload of eight trains, unchanged.
fn unchanged(media: &Media) -> Vec<u8> {
    let headers = if media.headers == Headers::Generated { 0 } else { HEADER_LENGTH };
    let packets = media.bytes.chunks(headers + PAYLOAD);
    let payload: Vec<u8> = packets.flat_map(|packet| packet[headers..].to_vec()).collect();
    payload.repeat(8)
}

/// Paths of a server whose trains are of one file: by reference, by a ring's queue, and by copies.
const OF_FILES: [(DataPath, Headers); 3] = [
    (DataPath::WireSendfile, Headers::Stored),
    (DataPath::WireMapping, Headers::Stored),
    (DataPath::GsoWritev, Headers::Generated),
];

/// Promise: A file that is replaced by rename is sent as it was, also by packets that wait in a queue.
fn files_that_are_replaced_by_rename_are_sent_as_they_were() -> Result<()> {
    for (path, headers) in OF_FILES {
        let rename = |name: &std::path::Path, bytes: &[u8]| {
            let new = name.with_extension("new");
            std::fs::write(&new, bytes)?;
            Ok(std::fs::rename(new, name)?)
        };
        let (payload, media) = changed_while_it_waits(path, headers, rename)?;
        ensure!(payload == unchanged(&media), "{path}: packets differ from the old file");
    }
    Ok(())
}

/// Promise: Packets that wait while their file is rewritten in place may have its new bytes, unless they are copies.
///
/// Each byte is the old one or the new one.
fn files_that_are_rewritten_in_place_are_sent_as_they_are() -> Result<()> {
    for (path, headers) in OF_FILES {
        let rewrite = |name: &std::path::Path, bytes: &[u8]| {
            let file = std::fs::OpenOptions::new().write(true).open(name)?;
            Ok(file.write_all_at(bytes, 0)?)
        };
        let (payload, media) = changed_while_it_waits(path, headers, rewrite)?;
        let old = unchanged(&media);
        let changed = payload.iter().zip(&old).filter(|(came, old)| came != old).count();
        ensure!(payload.len() == old.len(), "{path}: {} bytes", payload.len());
        let others = payload.iter().zip(&old).filter(|(came, old)| came != old && **came != 0xaa).count();
        ensure!(others == 0, "{path}: {others} bytes are neither old nor new");
        ensure!((changed > 0) == (path != DataPath::GsoWritev), "{path}: {changed} bytes are new");
    }
    Ok(())
}

/// From the server's side to the client's.
fn connection(link: &Link) -> Result<(TcpStream, TcpStream)> {
    let listener = link.client.enter(|| Ok(TcpListener::bind((CLIENT, PORT))?))?;
    let stream = link.server.enter(|| Ok(TcpStream::connect((CLIENT, PORT))?))?;
    let (client, _) = listener.accept()?;
    client.set_read_timeout(Some(Duration::from_secs(5)))?;
    Ok((stream, client))
}

/// Sends 50 trains of a mapping; answers how many were lent, copied, and copied by the kernel.
fn lent_blocks(server: &Namespace, path: BlockPath, policy: LoanPolicy) -> Result<(u64, u64, u64)> {
    server.enter(|| lent_blocks_by(socket()?, path, policy))
}

fn lent_blocks_by(socket: UdpSocket, path: BlockPath, policy: LoanPolicy) -> Result<(u64, u64, u64)> {
    let media = Media::new(Headers::Generated, 0, 48, 1)?;
    let sink = BlockSink::udp(socket, PAYLOAD as u16, path)?.with_switch(LoanSwitch::new(policy));
    let extent = Extent { offset: 0, length: 40 * PAYLOAD };
    for _ in 0..50 {
        path.send(&sink, &media.medium, extent, &mut SendContext::default())?;
    }
    ensure!(sink.wait_for_loans(Duration::from_secs(5))?, "{path}: {:?}", sink.loans());
    let counts = sink.loans();
    Ok((counts.loans, counts.copies, counts.copied_by_kernel))
}

/// A train in a file, and what it is made of.
struct Media {
    medium: MappedFile,
    train: Train,
    headers: Headers,
    bytes: Vec<u8>,
    ssrc: u32,
}

impl Media {
    fn new(headers: Headers, offset: usize, packets: u32, ssrc: u32) -> Result<Self> {
        let first =
            Header { padding: false, marker: false, payload_type: 33, sequence: 5, timestamp: 6, ssrc };
        let run = Run::new(first, 225 << 16);
        let mut bytes = vec![0xee; offset];
        for index in 0..packets {
            if headers != Headers::Generated {
                bytes.extend(run.header(index).to_bytes());
            }
            bytes.extend((0..PAYLOAD as u32).map(|at| (at * 7 + index * 13) as u8));
        }
        let mut file = tempfile::tempfile()?;
        file.write_all(&bytes)?;
        let length = (bytes.len() - offset) as u32;
        let packet_size = (length / packets) as u16;
        let train =
            Train { offset: offset as u64, length, packet_size, skip: 0, first: 0, packets_before: 0, run };
        Ok(Self { medium: MappedFile::new(file, bytes.len() as u64)?, train, headers, bytes, ssrc })
    }

    /// Every packet comes; those of others before it are passed over.
    fn arrives(&self, receiver: &UdpSocket) -> Result<()> {
        let deadline = Deadline::seconds(10.0);
        for index in 0..self.train.packets() {
            let packet = loop {
                let packet = receive(receiver).with_context(|| format!("packet {index}"))?;
                if packet.get(8..HEADER_LENGTH) == Some(&self.ssrc.to_be_bytes()) {
                    break packet;
                }
                ensure!(!deadline.has_passed(), "packet {index} does not come");
            };
            let mut header = self.train.run.header(index);
            if let Headers::Own { sequence_offset, timestamp_offset, .. } = self.headers {
                header.sequence += sequence_offset;
                header.timestamp += timestamp_offset;
            }
            let end = self.bytes.len()
                - (self.train.packets() - index - 1) as usize * self.train.packet_size as usize;
            ensure!(packet[..HEADER_LENGTH] == header.to_bytes(), "packet {index} has another header");
            ensure!(packet[HEADER_LENGTH..] == self.bytes[end - PAYLOAD..end], "packet {index} differs");
        }
        Ok(())
    }
}

/// Sends all of the train, or each packet of it for itself.
fn send(
    path: DataPath,
    sink: &UdpSink,
    media: &Media,
    scratch: &mut SendContext,
    alone: bool,
) -> Result<(), SendError> {
    let mut rest = Some(media.train);
    while let Some(train) = rest {
        let part = if alone { train.up_to(1) } else { train };
        rest = train.after(path.send(sink, &media.medium, &part, media.headers, scratch)?);
    }
    Ok(())
}

/// A namespace whose only device drops what it is sent, as a network card does once it has sent it.
fn dropping() -> Result<Namespace> {
    let namespace = Namespace::new()?;
    let made = namespace.ip("link add ifb type ifb");
    require!(made.is_ok(), "the kernel has no ifb device: {made:?}");
    namespace.ip(&format!("address add {SERVER}/24 dev ifb"))?;
    namespace.ip("link set ifb up")?;
    namespace.ip(&format!("neighbour add {CLIENT} lladdr 02:00:00:00:00:01 dev ifb"))?;
    Ok(namespace)
}

fn sink(server: &Namespace, path: DataPath) -> Result<UdpSink> {
    server.enter(|| Ok(UdpSink::new(socket()?, PACKET as u16, path)?))
}

/// A link that has addresses of both families.
fn link() -> Result<Link> {
    let link = Link::new()?;
    link.client.ip(&format!("address add {CLIENT_6}/64 dev veth nodad"))?;
    link.server.ip(&format!("address add {SERVER_6}/64 dev veth nodad"))?;
    Ok(link)
}

/// Of the namespace that it is called in.
fn socket() -> Result<UdpSocket> {
    socket_to(CLIENT.into(), SERVER.into())
}

fn socket_to(client: IpAddr, server: IpAddr) -> Result<UdpSocket> {
    let socket = UdpSocket::bind((server, 0))?;
    socket.connect((client, PORT))?;
    Ok(socket)
}

fn receiver(link: &Link) -> Result<UdpSocket> {
    receiver_at(link, CLIENT.into())
}

fn receiver_at(link: &Link, client: IpAddr) -> Result<UdpSocket> {
    let socket = link.client.enter(|| Ok(UdpSocket::bind((client, PORT))?))?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 1 << 24)?; // a busy machine lets it wait
    Ok(socket)
}

fn receive(receiver: &UdpSocket) -> Result<Vec<u8>> {
    let mut buffer = vec![0; 65_536];
    let length = receiver.recv(&mut buffer)?;
    buffer.truncate(length);
    Ok(buffer)
}
