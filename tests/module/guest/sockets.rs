//! Sockets that something happens to while they are sent from: other threads, and the network.

use std::fs::File;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::thread::ScopedJoinHandle;

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::Trial;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::connect_unspec;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::thread::{Pid, gettid};
use wirepath_module_tests::content::Content;
use wirepath_sys::module::{Module, Run};
use wirepath_tests::namespace::{CLIENT, Link, SERVER};
use wirepath_tests::trials;

use crate::files::Folder;
use crate::settings::settings;
use crate::wire::Wire;

pub(crate) fn trials() -> Vec<Trial> {
    trials![packets_that_wait_when_disconnected, lists_that_wait_when_disconnected, a_path_that_is_narrow]
}

const PACKET: u32 = 1316;
const HEADER: usize = 12;
const LENGTH: u64 = 400 * PACKET as u64;

fn packets_that_wait_when_disconnected() -> Result<()> {
    disconnected_while_waiting(1)
}

fn lists_that_wait_when_disconnected() -> Result<()> {
    disconnected_while_waiting(64)
}

/// A call waits for room in the socket's buffer while another thread takes the socket's address away: what it
/// says it has sent is what arrives where it was connected to.
fn disconnected_while_waiting(train: u32) -> Result<()> {
    let link = Link::new()?;
    // Packets wait for a neighbour that does not answer, until it does.
    link.server.set("net/ipv4/neigh/veth/mcast_solicit", "1000000")?;
    link.client.ip("link set veth arp off")?;
    let sender = link.server.enter(|| Ok(UdpSocket::bind((SERVER, 0))?))?;
    let receiver = link.client.enter(|| Ok(UdpSocket::bind((CLIENT, 0))?))?;
    let mut wire = Wire::between(sender, receiver, true)?;
    set_socket_send_buffer_size(&wire.sender, 1)?;
    let content = Content::new(settings().seed, LENGTH);
    let headers = headers();
    let file = Folder::tmpfs()?.file("plain", &content)?;
    let (answer, sent) = std::thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        let (sender, headers) = (&wire.sender, &headers);
        let call = scope.spawn(move || {
            tell.send(gettid())?;
            send_all(sender, &file, headers, train)
        });
        wait_until_it_waits(told.recv()?, sender, &call)?;
        connect_unspec(sender)?;
        link.client.ip("link set veth arp on")?;
        call.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?
    })?;
    ensure!(answer == Err(Errno::DESTADDRREQ), "of a socket that is not connected it answered {answer:?}");
    let payloads = content.bytes(0..LENGTH).chunks(PACKET as usize);
    let packets = headers.chunks(HEADER).zip(payloads).map(|(header, payload)| [header, payload].concat());
    wire.compare(packets.take(sent as usize)).with_context(|| format!("of {sent} packets"))
}

/// A header for each packet, with its number.
fn headers() -> Vec<u8> {
    (0..LENGTH / u64::from(PACKET))
        .flat_map(|number| [number.to_be_bytes(), [7; 8]].concat()[..HEADER].to_vec())
        .collect()
}

/// The call's answer, and the number of packets that it reports as sent.
fn send_all(sender: &UdpSocket, file: &File, headers: &[u8], train: u32) -> Result<(Result<(), Errno>, u64)> {
    let run = Run::of_file(file.as_fd(), 0, Some(LENGTH)).in_packets(PACKET).in_trains(train);
    let mut run = run.with_headers(headers, HEADER);
    let answer = Module::open()?.send(sender.as_fd(), &mut run);
    Ok((answer.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOSYS)), run.sent().packets))
}

/// Until the thread sleeps and the socket has no room.
fn wait_until_it_waits<T>(thread: Pid, socket: &UdpSocket, call: &ScopedJoinHandle<'_, T>) -> Result<()> {
    let file = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
    loop {
        ensure!(!call.is_finished(), "the call has not waited for room");
        let text = std::fs::read_to_string(&file).context("asking what the thread does")?;
        let (_, state) = text.rsplit_once(") ").with_context(|| format!("{file}: {text}"))?;
        let mut room = [PollFd::new(socket, PollFlags::OUT)];
        let has_room = poll(&mut room, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? == 1;
        if state.starts_with('S') && !has_room {
            return Ok(());
        }
        std::thread::yield_now();
    }
}

/// A router has said that packets are too long for what is behind it: the next send is told, whatever it is,
/// and sends nothing.
fn a_path_that_is_narrow() -> Result<()> {
    let link = Link::new()?;
    link.client.set("net/ipv4/ip_forward", "1")?;
    link.client.ip("link add narrow mtu 1000 type dummy")?;
    link.client.ip("link set narrow up")?;
    link.client.ip("route add 10.99.0.0/24 dev narrow")?;
    link.server.ip(&format!("route add 10.99.0.0/24 via {CLIENT}"))?;
    let module = Module::open()?;
    let content = Content::new(settings().seed, 40_000);
    let file = Folder::tmpfs()?.file("plain", &content)?;
    let headers = vec![9; 80 * HEADER];
    for (last, train) in [(2, 1), (3, 64)] {
        let sender = link.server.enter(|| Ok(UdpSocket::bind((SERVER, 0))?))?;
        sender.connect(SocketAddr::from(([10, 99, 0, last], 9)))?;
        sender.send(&[0; 1400]).context("sending what is too long")?;
        let mut told = [PollFd::new(&sender, PollFlags::empty())];
        let is_told = poll(&mut told, Some(&Timespec { tv_sec: 60, tv_nsec: 0 }))? == 1;
        ensure!(is_told && told[0].revents().contains(PollFlags::ERR), "the router says nothing");
        let run = Run::of_file(file.as_fd(), 0, Some(40_000)).in_packets(500).in_trains(train);
        let mut run = run.with_headers(&headers, HEADER);
        match module.send(sender.as_fd(), &mut run) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::MSGSIZE) => {}
            answer => bail!("in trains of {train}, the first send has answered {answer:?}"),
        }
        ensure!(run.sent().packets == 0, "{:?}", run.sent());
        module
            .send(sender.as_fd(), &mut run)
            .with_context(|| format!("sending again in trains of {train}"))?;
        ensure!(run.sent().packets == 80, "{:?}", run.sent());
    }
    Ok(())
}
