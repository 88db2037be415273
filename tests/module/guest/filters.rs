//! Lists and trains past what drops and rewrites packets on their way: packet filters with connections, classifiers,
//! programs, IPsec. They see what plain sends of the same socket show them, and what they do comes to the same.

use std::os::fd::AsRawFd;

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::Trial;
use rustix::io::Errno;
use wirepath_module_tests::content::Content;
use wirepath_tests::namespace::{CLIENT, Link, Namespace, SERVER};
use wirepath_tests::process::{Process, find};
use wirepath_tests::{Deadline, bpf, require, trials};

use crate::bench::{Bench, From};
use crate::bytes::LENGTH;
use crate::files::Folder;
use crate::frames::{
    Packet, VECTOR_PACKETS, Way, calls, left_as_lists, list, send_vector, vector_left_as_lists,
};
use crate::settings::settings;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        source_nat,
        masquerade,
        dropped_by_a_filter,
        trains_dropped_by_a_filter,
        dropped_by_a_program,
        rewritten_by_a_program,
        rewritten_by_an_action,
        by_ipsec
    ]
}

/// Source address and ports that packets are given.
const OTHER: [u8; 4] = [10, 77, 0, 9];
const PORTS: std::ops::RangeInclusive<u16> = 5000..=5999;

/// Promise: Packets of lists and trains get the addresses, ports and checksums that NAT gives plain sends.
fn source_nat() -> Result<()> {
    let way = filtered(
        "type nat hook postrouting priority 100;",
        "oifname veth meta l4proto udp snat to 10.77.0.9:5000-5999",
    )?;
    let is_translated = |packet: &Packet| packet.ip[12..16] == OTHER && PORTS.contains(&packet.source);
    each_call(way, |packets| {
        ensure!(packets.iter().all(is_translated), "a packet kept its source");
        Ok(())
    })
}

/// Promise: Packets of lists and trains get the addresses, ports and checksums that NAT gives plain sends.
fn masquerade() -> Result<()> {
    let way = filtered(
        "type nat hook postrouting priority 100;",
        "oifname veth meta l4proto udp masquerade to :5000-5999",
    )?;
    each_call(way, |packets| {
        ensure!(packets.iter().all(|packet| PORTS.contains(&packet.source)), "a packet kept its port");
        Ok(())
    })
}

/// Promise: A packet filter or a program that drops what leaves drops lists, and calls answer as plain sends do.
///
/// With connections that are followed: a list is part of one.
fn dropped_by_a_filter() -> Result<()> {
    let rule = "ct state new,established meta length > 1000 drop";
    nothing_arrives(filtered("type filter hook output priority 0;", rule)?)
}

/// Promise: SENDFILEW sends packet by packet what a packet filter drops as a train.
fn trains_dropped_by_a_filter() -> Result<()> {
    let Filtered { mut way, link: _link } =
        filtered("type filter hook output priority 0;", "meta length > 1500 drop")?;
    with_file(Bench::new()?, |bench, source| {
        let (packets, trains) = way.check_vector(bench, 0, source)?;
        let count = packets.len() as u64;
        ensure!(count == VECTOR_PACKETS && trains == count, "{count} packets left in {trains} trains");
        Ok(())
    })
}

/// Promise: A packet filter or a program that drops what leaves drops lists, and calls answer as plain sends do.
fn dropped_by_a_program() -> Result<()> {
    // IPv4 with a length above 1,000: TC_ACT_SHOT, else TC_ACT_OK.
    let program = "6,40 0 0 12,21 0 3 2048,40 0 0 16,37 0 1 1000,6 0 0 2,6 0 0 0";
    nothing_arrives(classified(&["bpf", "da", "bytecode", program])?)
}

/// Promise: What a program rewrites in lists and trains is rewritten in each of their packets.
fn rewritten_by_a_program() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let object = bpf::program("rewrite", folder.path())?.display().to_string();
    let way = classified(&["bpf", "da", "obj", &object, "sec", "tc"])?;
    let is_rewritten = |ip: &[u8]| ip[8] == 33 && ip[1] == 0x48 && ip[12..16] == OTHER;
    each_call(way, |packets| {
        ensure!(packets.iter().all(|packet| is_rewritten(&packet.ip)), "a packet was not rewritten");
        Ok(())
    })
}

/// Promise: What a program rewrites in lists and trains is rewritten in each of their packets.
///
/// The same by an action of traffic control, but for the address: for trains, actions do not sum UDP.
fn rewritten_by_an_action() -> Result<()> {
    // IPv4.
    let all = ["bpf", "bytecode", "4,40 0 0 12,21 0 1 2048,6 0 0 4294967295,6 0 0 0"];
    let rewrite = "action pedit ex munge ip ttl set 33 munge ip tos set 0x48 pipe action csum ip";
    let words: Vec<&str> = all.into_iter().chain(rewrite.split_whitespace()).collect();
    each_call(classified(&words)?, |packets| {
        let is_rewritten = |ip: &[u8]| ip[8] == 33 && ip[1] == 0x48;
        ensure!(packets.iter().all(|packet| is_rewritten(&packet.ip)), "a packet was not rewritten");
        Ok(())
    })
}

/// Promise: What IPsec transforms arrives whole and in order; trains are refused.
///
/// Linux refuses segments of UDP there (`EIO`), which the module's trains are then.
fn by_ipsec() -> Result<()> {
    let (link, bench) = (Link::new()?, Bench::new()?);
    let ends = format!("src {SERVER} dst {CLIENT}");
    let key = "0x0123456789abcdef0123456789abcdef01234567";
    for namespace in [&link.server, &link.client] {
        let line =
            format!("{ends} proto esp spi 0x77 reqid 1 mode transport aead rfc4106(gcm(aes)) {key} 128");
        let added = namespace.ip(&format!("xfrm state add {line}"));
        let text = added.as_ref().err().map(|error| format!("{error:#}")).unwrap_or_default();
        // Without xfrm_user there is no such netlink family; a cipher that is missing, or what it needs, has no file.
        const MISSING: [&str; 4] = [
            "Protocol not supported",
            "Function not implemented",
            "No such file or directory",
            "Kernel was unable to initialize cryptographic operations",
        ];
        let is_missing = MISSING.iter().any(|missing| text.contains(missing));
        require!(!is_missing, "this kernel has no IPsec with these ciphers, or has it not loaded: {text}");
        added?;
    }
    for (namespace, direction) in [(&link.server, "out"), (&link.client, "in")] {
        let line = format!("{ends} dir {direction} tmpl {ends} proto esp reqid 1 mode transport");
        namespace.ip(&format!("xfrm policy add {line}"))?;
    }
    let mut way = way(&link)?;
    with_file(bench, |bench, source| {
        for call in calls() {
            if call.train_packets == 0 {
                bench.check(&call, source, &mut way.wire).with_context(|| format!("{call:?}"))?;
                continue;
            }
            bench.request(&call, source, &way.wire)?;
            let answer = bench.send();
            ensure!(answer == Err(Errno::IO), "{call:?} answered {answer:?}");
            way.wire.compare(std::iter::empty()).with_context(|| format!("{call:?}"))?;
        }
        Ok(())
    })
}

/// A way, and the link below it.
struct Filtered {
    way: Way,
    link: Link,
}

fn way(link: &Link) -> Result<Way> {
    Way::new((&link.server, SERVER.into()), (&link.client, CLIENT.into()))
}

/// A link whose sender has a packet filter with one rule.
fn filtered(chain: &str, rule: &str) -> Result<Filtered> {
    require!(find("nft").is_some(), "nft is not installed");
    let link = Link::new()?;
    let rules = format!("table ip t {{ chain c {{ {chain} policy accept; {rule}; }}; }}");
    run(&link.server, &["nft", &rules])?;
    Ok(Filtered { way: way(&link)?, link })
}

/// A link whose sender's device has a filter for what leaves.
fn classified(filter: &[&str]) -> Result<Filtered> {
    let link = Link::new()?;
    run(&link.server, &["tc", "qdisc", "add", "dev", "veth", "clsact"])?;
    classify(&link.server, filter)?;
    Ok(Filtered { way: way(&link)?, link })
}

/// Filters what leaves a device `veth` with a clsact queue.
pub(crate) fn classify(namespace: &Namespace, filter: &[&str]) -> Result<()> {
    let words = ["tc", "filter", "add", "dev", "veth", "egress"];
    run(namespace, &[&words, filter].concat())
}

/// Errors of `tc` and `nft` for queues, classifiers, actions and expressions that the kernel lacks. Programs that the
/// verifier refuses, and files that are missing, have others.
const MISSING: [&str; 5] = [
    "qdisc kind is unknown",
    "TC classifier not found",
    "Failed to load TC action module",
    "Could not process rule: No such file or directory",
    "Could not process rule: Operation not supported",
];

/// Runs a tool inside. Skips the test if the kernel lacks a feature.
fn run(namespace: &Namespace, words: &[&str]) -> Result<()> {
    let mut process = Process::start(namespace.command(words[0]).args(&words[1..]), true)?;
    let ran = process.succeed(Deadline::seconds(10.0));
    let text = ran.as_ref().err().map(|error| format!("{error:#}")).unwrap_or_default();
    let is_missing = MISSING.iter().any(|missing| text.contains(missing));
    require!(!is_missing, "the kernel lacks a feature for {words:?}, or has not loaded it: {text}");
    ran.map(drop)
}

/// Each kind of call over a link that takes lists, one that cuts segments, and one that does neither.
fn each_call(filtered: Filtered, look: impl Fn(&[Packet]) -> Result<()>) -> Result<()> {
    let Filtered { mut way, link } = filtered;
    require!(find("ethtool").is_some(), "ethtool is not installed");
    with_file(Bench::new()?, |bench, source| {
        for offload in ["", "tx-scatter-gather-fraglist", "tx-udp-segmentation"] {
            if !offload.is_empty() {
                link.server.run(&format!("ethtool -K veth {offload} off"))?;
            }
            for call in calls() {
                let checked = way.check(bench, &call, source).and_then(|packets| look(&packets));
                checked.with_context(|| format!("{call:?}, {offload} off"))?;
                if call == list() {
                    left_as_lists(bench)?;
                }
            }
            let (packets, trains) =
                way.check_vector(bench, 0, source).with_context(|| format!("a vector, {offload} off"))?;
            look(&packets)?;
            vector_left_as_lists(bench, trains)?;
        }
        Ok(())
    })
}

/// Each kind of call where what is longer than 1,000 bytes is dropped: it answers as a plain send does.
fn nothing_arrives(filtered: Filtered) -> Result<()> {
    let Filtered { mut way, link: _link } = filtered;
    with_file(Bench::new()?, |bench, source| {
        let plain = match way.wire.sender.send(&[7; 1300]) {
            Ok(_) => Ok(()),
            Err(error) => match Errno::from_io_error(&error) {
                Some(error) => Err(error),
                None => bail!("send() answered {error}"),
            },
        };
        for call in calls() {
            bench.request(&call, source, &way.wire)?;
            let answer = bench.send();
            ensure!(answer == plain, "{call:?} answered {answer:?}, and send() {plain:?}");
            way.wire.compare(std::iter::empty()).with_context(|| format!("{call:?}"))?;
        }
        let answer = send_vector(bench, 0, source, &way.wire);
        ensure!(answer == plain, "a vector answered {answer:?}, and send() {plain:?}");
        way.wire.compare(std::iter::empty()).context("a vector")
    })
}

/// A file on ext4 to send from.
fn with_file(mut bench: Bench, test: impl FnOnce(&mut Bench, &From<'_>) -> Result<()>) -> Result<()> {
    let content = Content::new(settings().seed, LENGTH);
    let file = Folder::ext4()?.file("plain", &content)?;
    test(&mut bench, &From::File(file.as_raw_fd(), &content))
}
