//! Headers of lists and trains beside those of plain sends of the same socket, whose options and system they follow.

use std::net::IpAddr;
use std::os::fd::AsRawFd;

use anyhow::{Context, Result, bail};
use libtest_mimic::Trial;
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ip_tos, set_ip_ttl,
    set_ipv6_mtu_discover, set_ipv6_tclass, set_ipv6_unicast_hops,
};
use socket2::SockRef;
use wirepath_module_tests::content::Content;
use wirepath_sys::module::layout;
use wirepath_tests::namespace::{CLIENT, Link, SERVER};
use wirepath_tests::{require, trials};

use crate::bench::{Bench, From};
use crate::bytes::LENGTH;
use crate::files::Folder;
use crate::frames::{FLAGS, Packet, Way, calls, is_train_of_udp, left_as_lists, list, vector_left_as_lists};
use crate::settings::settings;
use crate::stacks::both_protocols;

pub(crate) fn trials() -> Vec<Trial> {
    trials![options_of_ipv4, settings_of_the_system, options_of_ipv6, mark_and_priority]
}

/// Bytes of an IPv4 header.
const TOS: usize = 1;
const TTL: usize = 8;
/// The flag for a packet that may not be fragmented.
const DONT_FRAGMENT: u8 = 0x40;

/// Senders and receivers of a test's packets.
struct Headers {
    link: Link,
    way: Way,
    bench: Bench,
    content: Content,
    folder: Folder,
}

impl Headers {
    fn new(is_ipv4: bool) -> Result<Headers> {
        let link = Link::new()?;
        let (near, far) = both_protocols(&link)?;
        let of = |addresses: [IpAddr; 2]| addresses[usize::from(!is_ipv4)];
        let way = Way::new((&link.server, of(near)), (&link.client, of(far)))?;
        let content = Content::new(settings().seed, LENGTH);
        Ok(Headers { link, way, bench: Bench::new()?, content, folder: Folder::ext4()? })
    }

    /// The same link, by a socket that is made now.
    fn with_a_new_socket(&mut self) -> Result<()> {
        let [from, to] = [IpAddr::V4(SERVER), IpAddr::V4(CLIENT)];
        self.way = Way::new((&self.link.server, from), (&self.link.client, to))?;
        Ok(())
    }

    /// Each kind of call and vectors beside plain sends; the first packets' headers as they are wanted, too.
    fn check(&mut self, what: &str, is_wanted: impl Fn(&Packet) -> bool) -> Result<()> {
        let path = self.folder.path().join("plain");
        let file = if path.exists() {
            std::fs::File::open(path)?
        } else {
            self.folder.file("plain", &self.content)?
        };
        let source = From::File(file.as_raw_fd(), &self.content);
        let is_ipv4 = self.way.wire.receiver.local_addr()?.is_ipv4();
        for call in calls() {
            if is_train_of_udp(&self.bench, &call) {
                continue;
            }
            let packets = self.way.check(&mut self.bench, &call, &source);
            let packets = packets.with_context(|| format!("{what}: {call:?}"))?;
            let other = packets.iter().position(|packet| !is_wanted(packet));
            if let Some(number) = other {
                bail!("{what}: {call:?}: packet {number} has {:02x?}", packets[number].ip);
            }
            if call == list() && is_ipv4 {
                left_as_lists(&self.bench).with_context(|| what.to_owned())?;
            }
        }
        for flags in [0, layout::COPY] {
            let checked = self.way.check_vector(&mut self.bench, flags, &source);
            let (packets, trains) = checked.with_context(|| format!("{what}: a vector, flags {flags}"))?;
            let other = packets.iter().position(|packet| !is_wanted(packet));
            if let Some(number) = other {
                bail!("{what}: flags {flags}: packet {number} of a vector has {:02x?}", packets[number].ip);
            }
            if flags == 0 && is_ipv4 {
                vector_left_as_lists(&self.bench, trains).with_context(|| what.to_owned())?;
            }
        }
        Ok(())
    }
}

/// Promise: Lists and trains have the IP headers that plain sends of their socket have, by its options and the system's.
fn options_of_ipv4() -> Result<()> {
    let mut headers = Headers::new(true)?;
    for tos in [0, 0x10, 0x48, 0xb8] {
        set_ip_tos(&headers.way.wire.sender, tos)?;
        headers.check(&format!("IP_TOS {tos}"), |packet| packet.ip[TOS] == tos)?;
    }
    for ttl in [1, 64, 255] {
        set_ip_ttl(&headers.way.wire.sender, ttl)?;
        headers.check(&format!("IP_TTL {ttl}"), |packet| u32::from(packet.ip[TTL]) == ttl)?;
    }
    for (discover, is_whole) in [
        (Ipv4PathMtuDiscovery::DONT, false),
        (Ipv4PathMtuDiscovery::WANT, true),
        (Ipv4PathMtuDiscovery::DO, true),
        (Ipv4PathMtuDiscovery::PROBE, true),
        (Ipv4PathMtuDiscovery::INTERFACE, false),
        (Ipv4PathMtuDiscovery::OMIT, false),
    ] {
        set_ip_mtu_discover(&headers.way.wire.sender, discover)?;
        headers.check(&format!("IP_MTU_DISCOVER {discover:?}"), |packet| {
            packet.ip[FLAGS] == if is_whole { DONT_FRAGMENT } else { 0 }
        })?;
    }
    Ok(())
}

/// Promise: Lists and trains have the IP headers that plain sends of their socket have, by its options and the system's.
fn settings_of_the_system() -> Result<()> {
    let mut headers = Headers::new(true)?;
    headers.link.server.set("net/ipv4/ip_default_ttl", "77")?;
    headers.check("a default TTL", |packet| packet.ip[TTL] == 77)?;
    headers.link.server.set("net/ipv4/ip_no_pmtu_disc", "1")?;
    headers.with_a_new_socket()?;
    headers.check("no path MTU discovery", |packet| packet.ip[FLAGS] == 0)?;
    headers.link.server.set("net/ipv4/ip_no_pmtu_disc", "0")?;
    for (route, hops, is_whole) in
        [("mtu 1400", 77, true), ("mtu lock 1400", 77, false), ("hoplimit 9", 9, true)]
    {
        headers.link.server.ip(&format!("route replace {CLIENT} dev veth src {SERVER} {route}"))?;
        headers.with_a_new_socket()?;
        headers.check(&format!("a route with {route}"), |packet| {
            packet.ip[TTL] == hops && packet.ip[FLAGS] == if is_whole { DONT_FRAGMENT } else { 0 }
        })?;
    }
    Ok(())
}

/// Promise: Lists and trains have the IP headers that plain sends of their socket have, by its options and the system's.
///
/// The flow label is the system's choice for the socket's flow.
fn options_of_ipv6() -> Result<()> {
    let mut headers = Headers::new(false)?;
    let class = |packet: &Packet| u32::from(packet.ip[0] & 15) << 4 | u32::from(packet.ip[1] >> 4);
    let label = |packet: &Packet| u32::from_be_bytes([0, packet.ip[1] & 15, packet.ip[2], packet.ip[3]]);
    for labels in ["1", "0"] {
        headers.link.server.set("net/ipv6/auto_flowlabels", labels)?;
        headers.check("flow labels", |packet| (label(packet) != 0) == (labels == "1"))?;
    }
    for wanted in [0, 0x10, 0xb8] {
        set_ipv6_tclass(&headers.way.wire.sender, wanted)?;
        headers.check(&format!("IPV6_TCLASS {wanted}"), |packet| class(packet) == wanted)?;
    }
    for hops in [1, 255] {
        set_ipv6_unicast_hops(&headers.way.wire.sender, Some(hops))?;
        headers.check(&format!("IPV6_UNICAST_HOPS {hops}"), |packet| packet.ip[7] == hops)?;
    }
    for discover in [Ipv6PathMtuDiscovery::DONT, Ipv6PathMtuDiscovery::DO, Ipv6PathMtuDiscovery::OMIT] {
        set_ipv6_mtu_discover(&headers.way.wire.sender, discover)?;
        headers.check(&format!("IPV6_MTU_DISCOVER {discover:?}"), |_| true)?;
    }
    Ok(())
}

/// Promise: Lists and trains carry the mark and the priority of their socket, as plain sends do.
///
/// A queue loses what has another priority, and a program drops what has another mark.
fn mark_and_priority() -> Result<()> {
    let mut headers = Headers::new(true)?;
    SockRef::from(&headers.way.wire.sender).set_mark(7)?;
    // Interactive: priority 6.
    set_ip_tos(&headers.way.wire.sender, 0x10)?;
    // if (mark == 7) TC_ACT_OK else TC_ACT_SHOT.
    let program = "4,32 0 0 4294963220,21 0 1 7,6 0 0 0,6 0 0 2";
    let server = &headers.link.server;
    for line in [
        "tc qdisc add dev veth root handle 1: prio bands 2 priomap 1 1 1 1 1 1 0 1 1 1 1 1 1 1 1 1",
        "tc qdisc add dev veth parent 1:2 netem loss 100%",
        "tc qdisc add dev veth clsact",
    ] {
        let added = server.run(line);
        let is_unknown =
            added.as_ref().is_err_and(|error| format!("{error:#}").contains("qdisc kind is unknown"));
        require!(!is_unknown, "this kernel has not this queue, or has it not loaded: {line}");
        added?;
    }
    crate::filters::classify(server, &["bpf", "da", "bytecode", program])?;
    headers.check("SO_MARK 7 and priority 6", |packet| packet.ip[TOS] == 0x10)?;
    // A packet without both did not arrive.
    for (mark, tos) in [(8, 0x10), (7, 0)] {
        SockRef::from(&headers.way.wire.sender).set_mark(mark)?;
        set_ip_tos(&headers.way.wire.sender, tos)?;
        headers.way.wire.sender.send(b"neither").context("what is to be dropped")?;
    }
    SockRef::from(&headers.way.wire.sender).set_mark(7)?;
    set_ip_tos(&headers.way.wire.sender, 0x10)?;
    headers.way.wire.compare(std::iter::empty()).context("mark 8, and priority 0")
}
