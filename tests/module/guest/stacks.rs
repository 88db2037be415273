//! Lists and trains over devices upon devices, and through their queues: every packet arrives whole and in order, with
//! the headers that plain sends of the same socket give it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;

use anyhow::{Context, Result, anyhow, ensure};
use libtest_mimic::Trial;
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use wirepath_module_tests::content::Content;
use wirepath_tests::namespace::{CLIENT, Link, Namespace, SERVER};
use wirepath_tests::process::find;
use wirepath_tests::{Deadline, require, trials};

use crate::bench::{Bench, From};
use crate::bytes::LENGTH;
use crate::files::Folder;
use crate::frames::{Capture, Way, calls, left_as_lists, list, trains, vector_left_as_lists};
use crate::settings::{count, settings};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        over_vlan,
        over_bond,
        over_bridge,
        over_vxlan,
        over_macvlan,
        over_few_segments,
        through_fq,
        through_fq_codel,
        through_tbf,
        through_netem,
        through_cake,
        with_captures,
    ]
}

/// Addresses at both ends of a stack.
const NEAR: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 78, 0, 1)), IpAddr::V6(Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, 1))];
const FAR: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 78, 0, 2)), IpAddr::V6(Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, 2))];

/// Promise: Over a VLAN, a bond, a bridge, a VXLAN and a macvlan, every call sends what plain sends would.
fn over_vlan() -> Result<()> {
    over_pair("over_vlan", ["link add link veth name top type vlan id 7"; 2])
}

/// Promise: Over a VLAN, a bond, a bridge, a VXLAN and a macvlan, every call sends what plain sends would.
fn over_macvlan() -> Result<()> {
    over_pair("over_macvlan", ["link add link veth name top type macvlan mode bridge"; 2])
}

/// Promise: Over a VLAN, a bond, a bridge, a VXLAN and a macvlan, every call sends what plain sends would.
fn over_vxlan() -> Result<()> {
    let line = |local, remote| {
        format!("link add top type vxlan id 5 local {local} remote {remote} dstport 4789 dev veth")
    };
    over_pair("over_vxlan", [&line(SERVER, CLIENT), &line(CLIENT, SERVER)])
}

/// Promise: Over a VLAN, a bond, a bridge, a VXLAN and a macvlan, every call sends what plain sends would.
fn over_bond() -> Result<()> {
    over_master("over_bond", "link add top type bond mode active-backup")
}

/// Promise: Over a VLAN, a bond, a bridge, a VXLAN and a macvlan, every call sends what plain sends would.
fn over_bridge() -> Result<()> {
    over_master("over_bridge", "link add top type bridge")
}

/// A device of the same kind upon each end of a link; the far one is in a namespace of its own, so that packets are
/// seen there once.
fn over_pair(test: &str, lines: [&str; 2]) -> Result<()> {
    let (link, far) = (Link::new()?, Namespace::new()?);
    for (namespace, line) in [(&link.server, lines[0]), (&link.client, lines[1])] {
        add(namespace, line)?;
    }
    link.client.give("top", &far)?;
    over(test, &link, (&link.server, "top"), (&far, "top"))
}

/// A device that has the sender's end of a link below it.
fn over_master(test: &str, line: &str) -> Result<()> {
    let link = Link::new()?;
    add(&link.server, line)?;
    link.server.ip("link set veth down")?;
    link.server.ip("link set veth master top")?;
    link.server.ip("link set veth up")?;
    over(test, &link, (&link.server, "top"), (&link.client, "veth"))
}

/// Every call between two devices, with a link below that takes lists, that cuts segments, and that does neither.
fn over(test: &str, link: &Link, near: (&Namespace, &str), far: (&Namespace, &str)) -> Result<()> {
    for ((namespace, device), addresses) in [(near, NEAR), (far, FAR)] {
        namespace.ip(&format!("address add {}/24 dev {device}", addresses[0]))?;
        namespace.ip(&format!("address add {}/64 dev {device} nodad", addresses[1]))?;
        namespace.ip(&format!("link set {device} up"))?;
    }
    for (namespace, device) in [near, far] {
        Deadline::seconds(20.0).wait_for("a carrier", || {
            let shown = namespace.ip(&format!("link show {device}"))?;
            Ok((shown.contains("LOWER_UP") && !shown.contains("state DOWN")).then_some(()))
        })?;
    }
    let mut sent = each_call(near.0, NEAR, far.0, FAR)?;
    require!(find("ethtool").is_some(), "ethtool is not installed");
    for offload in ["tx-scatter-gather-fraglist", "tx-udp-segmentation"] {
        link.server.run(&format!("ethtool -K veth {offload} off"))?;
        let more = each_call(near.0, NEAR, far.0, FAR).with_context(|| format!("{offload} off"))?;
        sent.iter_mut().zip(more).for_each(|(count, more)| *count += more);
    }
    let [packets, trains] = sent;
    count(format!("stacks::{test}: {packets} packets in {trains} trains, and as many by themselves"));
    Ok(())
}

/// Each kind of call over IPv4 and IPv6, beside plain sends. Returns packets and trains.
fn each_call(near: &Namespace, from: [IpAddr; 2], far: &Namespace, to: [IpAddr; 2]) -> Result<[u64; 2]> {
    let content = Content::new(settings().seed, LENGTH);
    let file = Folder::ext4()?.file("plain", &content)?;
    let source = From::File(file.as_raw_fd(), &content);
    let mut bench = Bench::new()?;
    let mut sent = [0, 0];
    for (from, to) in from.into_iter().zip(to) {
        let mut way = Way::new((near, from), (far, to))?;
        for call in calls() {
            let packets =
                way.check(&mut bench, &call, &source).with_context(|| format!("{call:?} to {to}"))?;
            if call == list() && to.is_ipv4() {
                left_as_lists(&bench)?;
            }
            sent[0] += packets.len() as u64;
            sent[1] += trains(&bench);
        }
        let (packets, trains) =
            way.check_vector(&mut bench, 0, &source).with_context(|| format!("a vector to {to}"))?;
        if to.is_ipv4() {
            vector_left_as_lists(&bench, trains)?;
        }
        sent[0] += packets.len() as u64;
        sent[1] += trains;
    }
    Ok(sent)
}

/// Promise: Lists are no longer than the `gso_max_segs` and `gso_max_size` of their device.
fn over_few_segments() -> Result<()> {
    let link = Link::new()?;
    let mut way = Way::new((&link.server, SERVER.into()), (&link.client, CLIENT.into()))?;
    let content = Content::new(settings().seed, LENGTH);
    let file = Folder::ext4()?.file("plain", &content)?;
    let source = From::File(file.as_raw_fd(), &content);
    let mut bench = Bench::new()?;
    let usual = "gso_max_segs 65535 gso_max_size 65536";
    for (limit, most) in [("gso_max_segs 20", 20), ("gso_max_size 20000", 15), ("gso_max_size 12000", 9)] {
        link.server.ip(&format!("link set veth {usual}"))?;
        link.server.ip(&format!("link set veth {limit}"))?;
        let packets = way.check(&mut bench, &list(), &source).context(limit)?.len() as u64;
        let (trains, least) = (trains(&bench), packets.div_ceil(most));
        ensure!(trains >= least, "{limit}: {trains} trains of {packets} packets, not {least}");
    }
    Ok(())
}

/// Promise: Through fq, fq_codel, tbf, netem and cake, every call sends what plain sends would.
fn through_fq() -> Result<()> {
    through("through_fq", &["fq", "fq maxrate 1gbit"])
}

/// Promise: Through fq, fq_codel, tbf, netem and cake, every call sends what plain sends would.
fn through_fq_codel() -> Result<()> {
    through("through_fq_codel", &["fq_codel"])
}

/// Promise: Through fq, fq_codel, tbf, netem and cake, every call sends what plain sends would.
///
/// Once with room for a list at a time, once with room for some packets: a list is cut then.
fn through_tbf() -> Result<()> {
    through("through_tbf", &["tbf rate 1gbit burst 128kb limit 16mb", "tbf rate 1gbit burst 8kb limit 16mb"])
}

/// Promise: Through fq, fq_codel, tbf, netem and cake, every call sends what plain sends would.
fn through_netem() -> Result<()> {
    through("through_netem", &["netem limit 100000 delay 3ms", "netem limit 100000 rate 1gbit"])
}

/// Promise: Through fq, fq_codel, tbf, netem and cake, every call sends what plain sends would.
///
/// Once it cuts lists, once it does not.
fn through_cake() -> Result<()> {
    through("through_cake", &["cake bandwidth 10gbit", "cake unlimited no-split-gso"])
}

fn through(test: &str, queues: &[&str]) -> Result<()> {
    std::thread::scope(|scope| {
        let tested = scope.spawn(|| {
            stay_on_this_processor()?;
            through_each(test, queues)
        });
        tested.join().map_err(|_| anyhow!("the thread of the test panicked"))?
    })
}

/// Keeps the calling thread, and those that it starts, on one processor. A queue's timer runs on the processor that set
/// it, and veth delivers through a backlog of each processor, so packets of a thread that moves may overtake each other.
fn stay_on_this_processor() -> Result<()> {
    let mut processors = CpuSet::new();
    processors.set(sched_getcpu());
    sched_setaffinity(None, &processors).context("choosing a processor")
}

fn through_each(test: &str, queues: &[&str]) -> Result<()> {
    let link = Link::new()?;
    let (near, far) = both_protocols(&link)?;
    for queue in queues {
        let line = format!("tc qdisc replace dev veth root {queue}");
        let added = link.server.run(&line);
        let unknown = added.as_ref().is_err_and(|error| format!("{error:#}").contains("unknown"));
        require!(!unknown, "this kernel has no {queue}, or has it not loaded");
        added?;
        let [packets, trains] =
            each_call(&link.server, near, &link.client, far).with_context(|| (*queue).to_owned())?;
        count(format!("stacks::{test}: {queue}: {packets} packets in {trains} trains"));
    }
    Ok(())
}

/// Promise: Packet sockets on the sending device see every packet of every call whole.
fn with_captures() -> Result<()> {
    let link = Link::new()?;
    let (near, far) = both_protocols(&link)?;
    let content = Content::new(settings().seed, LENGTH);
    let file = Folder::ext4()?.file("plain", &content)?;
    let source = From::File(file.as_raw_fd(), &content);
    let mut bench = Bench::new()?;
    let mut capture = Capture::new(&link.server)?;
    for (near, far) in near.into_iter().zip(far) {
        let mut way = Way::new((&link.server, near), (&link.client, far))?;
        let port = way.wire.receiver.local_addr()?.port();
        for call in calls() {
            let most = call.packet_asked() as usize;
            capture.take(port, most)?;
            let packets = way.check(&mut bench, &call, &source).with_context(|| format!("{call:?}"))?;
            // The call's, then those of plain sends.
            let mut left = capture.take(port, most)?;
            left.retain(|packet| !packet.is_end());
            ensure!(left.len() == 2 * packets.len(), "{} packets were seen to leave", left.len());
            ensure!(left[..packets.len()] == packets, "{call:?}: others were seen to leave than came");
        }
    }
    Ok(())
}

/// Addresses of both protocols at both ends of a link.
pub(crate) fn both_protocols(link: &Link) -> Result<([IpAddr; 2], [IpAddr; 2])> {
    for (namespace, address) in [(&link.server, NEAR[1]), (&link.client, FAR[1])] {
        namespace.ip(&format!("address add {address}/64 dev veth nodad"))?;
    }
    Ok(([SERVER.into(), NEAR[1]], [CLIENT.into(), FAR[1]]))
}

/// Adds a device. Skips the test where the kernel knows no such device.
fn add(namespace: &Namespace, line: &str) -> Result<()> {
    let added = namespace.ip(line);
    let unknown = added.as_ref().is_err_and(|error| {
        let text = format!("{error:#}");
        text.contains("Unknown device type") || text.contains("Operation not supported")
    });
    require!(!unknown, "this kernel has no such device, or has it not loaded: {line}");
    added.map(drop)
}
