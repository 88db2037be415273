//! `wirepath relay` from a group and to a group, over a link between two namespaces.
//!
//! ```text
//!   client: who sends to the group, or has joined it      server: the relay
//!   10.77.0.2/24 fd77::2/64 veth ------------------------ veth 10.77.0.1/24 fd77::1/64
//! ```

mod devices;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::net::netdevice::name_to_index;
use rustix::net::sockopt::set_ip_multicast_if_with_ifindex;
use rustix::process::Signal;
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};
use wirepath_tests::namespace::{CLIENT, Link, Namespace};
use wirepath_tests::process::{Process, find};
use wirepath_tests::{Deadline, clips, require, server, trials};

pub(crate) fn trials() -> Vec<Trial> {
    let mut all = trials![
        a_group_is_mirrored_datagram_by_datagram,
        a_group_of_ipv6_is_mirrored_datagram_by_datagram,
        a_group_of_a_link_is_mirrored_datagram_by_datagram,
        datagrams_to_a_group_reach_all_members,
        what_goes_to_a_group_of_ipv6_reaches_everybody_who_joined,
        datagrams_to_a_link_local_group_reach_all_members,
        what_ffmpeg_sends_to_a_group_is_mirrored,
    ];
    all.extend(devices::trials());
    all
}

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);

/// Of the site, and not assigned for good (RFC 4291, section 2.7).
const GROUP_IPV6: Ipv6Addr = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0x1234, 5);

/// Of a link: there is one on each.
const GROUP_OF_LINK: Ipv6Addr = Ipv6Addr::new(0xff12, 0, 0, 0, 0, 0, 0x1234, 5);

/// Nobody else is in the namespaces.
const PORT: u16 = 5004;

/// A packet of RTP with seven packets of a transport stream: the most that is sent at once, and read before
/// more is.
const LONGEST: usize = 12 + 7 * 188;
const TOGETHER: u8 = 20;

/// Only a hang takes so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// The two namespaces, in which datagrams to the group get from one to the other by plain sockets. Skips
/// where they do not.
fn test_bed(group: IpAddr) -> Result<Link> {
    let link = Link::new()?;
    if group.is_ipv6() {
        require!(Path::new("/proc/sys/net/ipv6").exists(), "there is no IPv6 here");
        for (namespace, address) in [(&link.client, "fd77::2"), (&link.server, "fd77::1")] {
            namespace.ip(&format!("address add {address}/64 dev veth nodad"))?;
        }
    }
    let receiver = joined(&link.server, "veth", group)?;
    let sender = sending(&link.client, group)?;
    receiver.set_read_timeout(Some(Duration::from_millis(50)))?;
    let came = Deadline::seconds(10.0).wait_for("a datagram to the group", || {
        sender.send(b"does it work?")?;
        Ok(receiver.recv(&mut [0; 20]).is_ok().then_some(()))
    });
    require!(
        came.is_ok(),
        "multicast does not work here: plain sockets got nothing that was sent to {group}"
    );
    Ok(link)
}

/// A socket that has joined the group on a device.
fn joined(namespace: &Namespace, device: &str, group: IpAddr) -> Result<UdpSocket> {
    namespace.enter(|| {
        let mut address = SocketAddr::new(group, PORT);
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        let index = name_to_index(&socket, device)?;
        if let SocketAddr::V6(of_link) = &mut address {
            of_link.set_scope_id(index);
        }
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        match group {
            IpAddr::V4(group) => {
                socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(index))?;
            }
            IpAddr::V6(group) => socket.join_multicast_v6(&group, index)?,
        }
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(socket.into())
    })
}

/// A socket that sends to the group.
fn sending(namespace: &Namespace, group: IpAddr) -> Result<UdpSocket> {
    namespace.enter(|| {
        let address = SocketAddr::new(group, PORT);
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        let index = name_to_index(&socket, "veth")?;
        match group {
            IpAddr::V4(group) => {
                set_ip_multicast_if_with_ifindex(&socket, &group, &Ipv4Addr::UNSPECIFIED, index)?;
            }
            IpAddr::V6(_) => socket.set_multicast_if_v6(index)?,
        }
        socket.connect(&address.into())?;
        Ok(socket.into())
    })
}

/// A relay in the namespace.
fn relay(namespace: &Namespace, arguments: &[&str]) -> Result<Process> {
    let mut command = namespace.command(server::binary()?);
    Process::start(command.arg("relay").args(arguments), true)
}

fn host(group: IpAddr) -> String {
    match group {
        IpAddr::V4(group) => group.to_string(),
        IpAddr::V6(group) => format!("[{group}]"),
    }
}

/// A mirror of the group to two receivers, which gets what comes to it.
struct Mirror {
    link: Link,
    relay: Process,
    receivers: [UdpSocket; 2],
    sender: UdpSocket,
}

impl Mirror {
    fn of(group: IpAddr) -> Result<Mirror> {
        let link = test_bed(group)?;
        let receiver = || -> Result<UdpSocket> {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.set_read_timeout(Some(PATIENCE))?;
            Ok(socket)
        };
        let receivers = link.server.enter(|| Ok([receiver()?, receiver()?]))?;
        let from = format!("udp://{}:{PORT}?iface=veth", host(group));
        let to = |socket: &UdpSocket| anyhow::Ok(format!("udp://{}", socket.local_addr()?));
        let (one, other) = (to(&receivers[0])?, to(&receivers[1])?);
        let relay = relay(&link.server, &["--in", &from, "--out", &one, "--out", &other])?;
        let sender = sending(&link.client, group)?;
        // Until the relay has joined the group, nobody hears.
        receivers[0].set_read_timeout(Some(Duration::from_millis(50)))?;
        Deadline::seconds(20.0).wait_for("the relay to join the group", || {
            sender.send(b"hello")?;
            Ok(receivers[0].recv(&mut [0; 20]).is_ok().then_some(()))
        })?;
        receivers[0].set_read_timeout(Some(PATIENCE))?;
        Ok(Mirror { link, relay, receivers, sender })
    }

    /// The next datagram that a receiver gets, but for those that only tried whether the relay is there.
    fn next(&self, receiver: usize) -> Result<Vec<u8>> {
        let mut buffer = [0; 2 * LONGEST];
        loop {
            let length = self.receivers[receiver].recv(&mut buffer).context("nothing more came")?;
            if &buffer[..length] != b"hello" {
                return Ok(buffer[..length].to_vec());
            }
        }
    }

    fn end(mut self) -> Result<()> {
        self.relay.signal(Signal::INT)?;
        let status = self.relay.wait(Deadline::seconds(20.0))?;
        ensure!(status.code() == Some(130), "{status}: {}", self.relay.log());
        Ok(())
    }
}

fn mirrored(group: IpAddr) -> Result<()> {
    let mirror = Mirror::of(group)?;
    for round in 0..5u8 {
        let datagrams = (0..TOGETHER).map(|number| {
            let length = if number.is_multiple_of(2) { LONGEST } else { 1 + usize::from(number) * 50 };
            (0..length).map(|at| (at as u8).wrapping_mul(7) ^ (round * TOGETHER + number)).collect()
        });
        let datagrams: Vec<Vec<u8>> = datagrams.collect();
        for datagram in &datagrams {
            ensure!(mirror.sender.send(datagram)? == datagram.len());
        }
        for receiver in 0..2 {
            for (number, datagram) in datagrams.iter().enumerate() {
                let came = mirror.next(receiver)?;
                ensure!(
                    came == *datagram,
                    "receiver {receiver}, datagram {number} of round {round} is another"
                );
            }
        }
    }
    mirror.end()
}

/// Promise: Multicast is received and sent on the given device, IPv4 and IPv6, with every datagram unchanged.
fn a_group_is_mirrored_datagram_by_datagram() -> Result<()> {
    mirrored(GROUP.into())
}

/// Promise: Multicast is received and sent on the given device, IPv4 and IPv6, with every datagram unchanged.
fn a_group_of_ipv6_is_mirrored_datagram_by_datagram() -> Result<()> {
    mirrored(GROUP_IPV6.into())
}

/// Promise: Multicast is received and sent on the given device, IPv4 and IPv6, with every datagram unchanged.
fn a_group_of_a_link_is_mirrored_datagram_by_datagram() -> Result<()> {
    mirrored(GROUP_OF_LINK.into())
}

/// From the relay's side to two who have joined on the other.
fn sent(group: IpAddr) -> Result<()> {
    const BYTES: usize = 60 * 1316 + 500;
    let link = test_bed(group)?;
    let receivers = [joined(&link.client, "veth", group)?, joined(&link.client, "veth", group)?];
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("source");
    let bytes: Vec<u8> = (0..BYTES).map(|at| (at * 7 / 3) as u8).collect();
    std::fs::write(&source, &bytes)?;
    let (from, to) =
        (format!("file:{}", source.display()), format!("udp://{}:{PORT}?iface=veth&ttl=2", host(group)));
    relay(&link.server, &["--in", &from, "--out", &to])?.succeed(Deadline::seconds(20.0))?;
    for (place, receiver) in receivers.iter().enumerate() {
        let (mut came, mut buffer) = (Vec::new(), [0; 2 * LONGEST]);
        while came.len() < BYTES {
            let length = receiver.recv(&mut buffer).with_context(|| format!("receiver {place}"))?;
            ensure!(length == 1316.min(BYTES - came.len()), "a datagram of {length} bytes at {}", came.len());
            came.extend_from_slice(&buffer[..length]);
        }
        ensure!(came == bytes, "receiver {place} got other bytes");
    }
    Ok(())
}

/// Promise: Multicast is received and sent on the given device, IPv4 and IPv6, with every datagram unchanged.
fn datagrams_to_a_group_reach_all_members() -> Result<()> {
    sent(GROUP.into())
}

/// Promise: Multicast is received and sent on the given device, IPv4 and IPv6, with every datagram unchanged.
fn what_goes_to_a_group_of_ipv6_reaches_everybody_who_joined() -> Result<()> {
    sent(GROUP_IPV6.into())
}

/// Promise: Multicast is received and sent on the given device, IPv4 and IPv6, with every datagram unchanged.
fn datagrams_to_a_link_local_group_reach_all_members() -> Result<()> {
    sent(GROUP_OF_LINK.into())
}

/// Promise: Multicast is received and sent on the given device, IPv4 and IPv6, with every datagram unchanged.
///
/// A real sender: a transport stream over RTP.
fn what_ffmpeg_sends_to_a_group_is_mirrored() -> Result<()> {
    require!(find("ffmpeg").is_some(), "ffmpeg is not installed");
    let mirror = Mirror::of(GROUP.into())?;
    let clip = clips::constant(2)?;
    let mut ffmpeg: Command = mirror.link.client.command("ffmpeg");
    ffmpeg.args(["-nostdin", "-loglevel", "error", "-re", "-i"]).arg(&clip);
    ffmpeg.args(["-c", "copy", "-f", "rtp_mpegts"]);
    ffmpeg.arg(format!("rtp://{GROUP}:{PORT}?localaddr={CLIENT}&ttl=1&pkt_size={LONGEST}"));
    let mut ffmpeg = Process::start(&ffmpeg, true)?;
    let mut came = [Vec::new(), Vec::new()];
    let until_end = std::thread::scope(|scope| -> Result<()> {
        let reading = [0, 1].map(|receiver| {
            let mirror = &mirror;
            scope.spawn(move || -> Result<Vec<Vec<u8>>> {
                let mut packets = Vec::new();
                loop {
                    match mirror.next(receiver)? {
                        last if last == b"end" => return Ok(packets),
                        packet => packets.push(packet),
                    }
                }
            })
        });
        ffmpeg.succeed(Deadline::seconds(20.0))?;
        mirror.sender.send(b"end")?;
        for (packets, reading) in came.iter_mut().zip(reading) {
            *packets = reading.join().map_err(|_| anyhow::anyhow!("a receiver panicked"))??;
        }
        Ok(())
    });
    until_end?;
    let [one, other] = came;
    ensure!(one == other, "the receivers got {} and {} packets", one.len(), other.len());
    // RTP for MPEG transport streams (RFC 2250); its control packets go to the next port.
    let is_packet = |packet: &Vec<u8>| {
        packet.len() > 12
            && packet[0] == 0x80
            && packet[1] & 0x7f == 33
            && (packet.len() - 12).is_multiple_of(188)
    };
    ensure!(one.len() > 50 && one.iter().all(is_packet), "{} packets came", one.len());
    let numbers: Vec<u16> = one.iter().map(|packet| u16::from_be_bytes([packet[2], packet[3]])).collect();
    ensure!(numbers.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)), "there are gaps: {numbers:?}");
    let mut synchronised = one.iter().flat_map(|packet| packet[12..].chunks(188));
    ensure!(synchronised.all(|packet| packet[0] == 0x47), "what came is no transport stream");
    mirror.end()
}
