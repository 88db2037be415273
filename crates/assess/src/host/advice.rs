//! Advice as a function of recorded facts, so that tests need no such machine.

use wirepath_datapath::release;

use crate::result::{Advice, Device, Host};

/// Rule that gives advice on a machine.
type Rule = fn(&Facts<'_>) -> Vec<Advice>;

/// Rules in the order of their output: most expensive findings first.
const RULES: &[Rule] = &[
    old_kernel,
    no_checksums,
    no_scatter_gather,
    no_segmentation,
    ring_off,
    few_fragments,
    small_send_buffers,
    small_option_memory,
    little_locked_memory,
    few_descriptors,
    small_rings,
    slow_clock,
    paced_tcp,
    no_namespaces,
    no_profile,
    hidden_symbols,
    no_tracepoints,
];

/// Advice of all rules.
pub(super) fn advice(host: &Host) -> Vec<Advice> {
    let facts = Facts { host };
    RULES.iter().flat_map(|rule| rule(&facts)).collect()
}

/// Facts about the machine, by name.
struct Facts<'a> {
    host: &'a Host,
}

impl<'a> Facts<'a> {
    fn limit(&self, name: &str) -> Option<&'a str> {
        let found = self.host.limits.iter().find(|limit| limit.name == name)?;
        Some(&found.value)
    }

    /// Numeric value of a limit; the soft limit of a resource. `None` for an unlimited value.
    fn number(&self, name: &str) -> Option<i64> {
        self.limit(name)?.split_whitespace().next()?.parse().ok()
    }

    fn is(&self, name: &str, value: &str) -> bool {
        self.limit(name) == Some(value)
    }

    fn lacks(&self, capability: &str) -> bool {
        self.is(capability, "no")
    }

    /// Devices that packets leave by.
    fn devices(&self) -> impl Iterator<Item = &'a Device> {
        self.host
            .devices
            .iter()
            .filter(|device| device.up && device.name != "lo" && !device.features.is_empty())
    }
}

fn old_kernel(facts: &Facts<'_>) -> Vec<Advice> {
    let old = release(&facts.host.kernel).filter(|release| *release < (6, 5));
    one(old.map(|(major, minor)| {
        let segments = if (major, minor) < (4, 18) { ", and UDP is not segmented, so no path sends trains" } else { "" };
        Advice {
            finding: format!("Linux {major}.{minor} copies what sendfile sends to a UDP socket"),
            consequence: format!("wire_sendfile has no advantage over gso_writev{segments}"),
            remedy: "run a kernel of 6.5 or later (Debian 12: apt install -t bookworm-backports linux-image-amd64)"
                .to_owned(),
        }
    }))
}

fn no_checksums(facts: &Facts<'_>) -> Vec<Advice> {
    let names = ["tx-checksum-ip-generic", "tx-checksum-ipv4"];
    let without = facts.devices().filter(|device| !names.iter().any(|name| is_on(device, name)));
    let advise = |device: &Device| Advice {
        finding: format!("{} computes no checksums", device.name),
        consequence:
            "the processor reads every payload: wire_sendfile and other paths without a copy cost more than \
                      gso_writev, which sums while it copies"
                .to_owned(),
        remedy: switch(
            device,
            &names,
            "tx on",
            "let the server use gso_writev, as it does by itself on this device",
        ),
    };
    without.map(advise).collect()
}

fn no_scatter_gather(facts: &Facts<'_>) -> Vec<Advice> {
    let without = facts.devices().filter(|device| !is_on(device, "tx-scatter-gather"));
    let advise = |device: &Device| Advice {
        finding: format!("{} does not gather packets from several places (scatter-gather)", device.name),
        consequence: "what is sent by reference is copied into one place first: no path is without a copy"
            .to_owned(),
        remedy: switch(device, &["tx-scatter-gather"], "sg on", "use another device"),
    };
    without.map(advise).collect()
}

fn no_segmentation(facts: &Facts<'_>) -> Vec<Advice> {
    let without = facts.devices().filter(|device| !is_on(device, "tx-udp-segmentation"));
    let advise = |device: &Device| {
        let otherwise = match device.driver.as_deref() {
            Some("virtio_net") => {
                "let the hypervisor offer VIRTIO_NET_F_HOST_USO, or use a device of the host's"
            }
            _ => "none for this device",
        };
        Advice {
            finding: format!("{} does not cut trains into packets (UDP segmentation)", device.name),
            consequence:
                "the kernel cuts them in software, just before the device; `wirepath assess stream --sink \
                 drop-nooffload` measures what that costs here"
                    .to_owned(),
            remedy: switch(device, &["tx-udp-segmentation"], "tx-udp-segmentation on", otherwise),
        }
    };
    without.map(advise).collect()
}

fn ring_off(facts: &Facts<'_>) -> Vec<Advice> {
    let who = match facts.number("kernel.io_uring_disabled") {
        Some(1) if facts.lacks("CAP_SYS_ADMIN") => "those outside its group (kernel.io_uring_group)",
        Some(2..) => "everybody",
        _ => return Vec::new(),
    };
    vec![Advice {
        finding: format!("io_uring is disabled for {who}"),
        consequence: "paths that send through a ring (their names have `uring`) are not there".to_owned(),
        remedy: "sysctl -w kernel.io_uring_disabled=0".to_owned(),
    }]
}

fn few_fragments(facts: &Facts<'_>) -> Vec<Advice> {
    let few = facts.number("net.core.max_skb_frags").filter(|fragments| *fragments < 17);
    one(few.map(|fragments| Advice {
        finding: format!("a packet buffer may refer to {fragments} fragments only (17 are usual)"),
        consequence: "what is sent by reference leaves in shorter trains, or not at all".to_owned(),
        remedy: "sysctl -w net.core.max_skb_frags=17".to_owned(),
    }))
}

fn small_send_buffers(facts: &Facts<'_>) -> Vec<Advice> {
    // The kernel charges a socket for pages and its own structures: about twice the payload of a 64 KiB
    // train.
    const ENOUGH: i64 = 128 * 1024;
    let small = facts.number("net.core.wmem_default").filter(|bytes| *bytes < ENOUGH);
    one(small.map(|bytes| Advice {
        finding: format!("a socket's send buffer has {bytes} bytes, which is too small for a long train"),
        consequence: "long trains find their socket full, and are sent later or lost".to_owned(),
        remedy: "sysctl -w net.core.wmem_default=212992 net.core.wmem_max=4194304".to_owned(),
    }))
}

fn small_option_memory(facts: &Facts<'_>) -> Vec<Advice> {
    let small = facts.number("net.core.optmem_max").filter(|bytes| *bytes < 128 * 1024);
    one(small.map(|bytes| Advice {
        finding: format!("net.core.optmem_max is {bytes} bytes (131,072 since Linux 6.8)"),
        consequence: "paths that lend pages (MSG_ZEROCOPY) fail with ENOBUFS when completions are many"
            .to_owned(),
        remedy: "sysctl -w net.core.optmem_max=131072".to_owned(),
    }))
}

fn little_locked_memory(facts: &Facts<'_>) -> Vec<Advice> {
    const ENOUGH: i64 = 64 << 20;
    let little =
        facts.number("RLIMIT_MEMLOCK").filter(|bytes| *bytes < ENOUGH && facts.lacks("CAP_IPC_LOCK"));
    one(little.map(|bytes| Advice {
        finding: format!("{bytes} bytes of memory may be locked (RLIMIT_MEMLOCK)"),
        consequence: "pages that are lent and memory that is registered count there: those paths fail with ENOBUFS or ENOMEM"
            .to_owned(),
        remedy: "ulimit -l unlimited; for a service, LimitMEMLOCK=infinity".to_owned(),
    }))
}

fn few_descriptors(facts: &Facts<'_>) -> Vec<Advice> {
    const ENOUGH: i64 = 16 * 1024;
    let hard = facts
        .limit("RLIMIT_NOFILE")
        .and_then(|limit| limit.split_once("(hard ")?.1.strip_suffix(')')?.parse().ok());
    let few = hard.filter(|descriptors: &i64| *descriptors < ENOUGH);
    one(few.map(|descriptors| Advice {
        finding: format!("at most {descriptors} files may be open (RLIMIT_NOFILE)"),
        consequence: format!("a session takes two: about {} sessions at a time", descriptors / 2),
        remedy: "ulimit -Hn 131072; for a service, LimitNOFILE=131072".to_owned(),
    }))
}

fn small_rings(facts: &Facts<'_>) -> Vec<Advice> {
    const ENOUGH: u32 = 1024;
    let small = facts.devices().filter_map(|device| {
        let rings = device.rings.filter(|rings| rings.transmit < rings.transmit_most.min(ENOUGH))?;
        Some((device, rings.transmit, rings.transmit_most.min(ENOUGH)))
    });
    let advise = |(device, now, better): (&Device, u32, u32)| Advice {
        finding: format!("{} has {now} descriptors for packets to be sent", device.name),
        consequence:
            "bursts of many sessions fill it, and what does not fit waits or is dropped by the queue above"
                .to_owned(),
        remedy: format!("ethtool -G {} tx {better}", device.name),
    };
    small.map(advise).collect()
}

fn slow_clock(facts: &Facts<'_>) -> Vec<Advice> {
    one(facts.is("cpufreq governor", "powersave").then(|| Advice {
        finding: "the processor's clock is governed by `powersave`".to_owned(),
        consequence: "processor seconds depend on the load, so that figures of different runs differ"
            .to_owned(),
        remedy: "cpupower frequency-set -g performance, at least while assessing".to_owned(),
    }))
}

fn paced_tcp(facts: &Facts<'_>) -> Vec<Advice> {
    one(facts.is("net.ipv4.tcp_congestion_control", "bbr").then(|| Advice {
        finding: "TCP is paced by bbr".to_owned(),
        consequence: "its timers cost processor time in downloads, most of all to near clients (assessments use reno for \
                      themselves)"
            .to_owned(),
        remedy: "where clients are near: sysctl -w net.ipv4.tcp_congestion_control=cubic".to_owned(),
    }))
}

fn no_namespaces(facts: &Facts<'_>) -> Vec<Advice> {
    let lacking = ["CAP_NET_ADMIN", "CAP_SYS_ADMIN"].iter().any(|capability| facts.lacks(capability));
    one(lacking.then(|| Advice {
        finding: "network namespaces and devices cannot be made without root".to_owned(),
        consequence: "only the loopback sink is there, whose receiver is measured along".to_owned(),
        remedy: "sudo wirepath assess".to_owned(),
    }))
}

fn no_profile(facts: &Facts<'_>) -> Vec<Advice> {
    let level = facts.number("kernel.perf_event_paranoid").filter(|level| *level > 1);
    let lacking = facts.lacks("CAP_PERFMON") && facts.lacks("CAP_SYS_ADMIN");
    one(level.filter(|_| lacking).map(|level| Advice {
        finding: format!("kernel.perf_event_paranoid is {level}: the kernel may not be sampled"),
        consequence: "no profile of the paths".to_owned(),
        remedy:
            "sudo wirepath assess profile, or sysctl -w kernel.perf_event_paranoid=1 kernel.kptr_restrict=0"
                .to_owned(),
    }))
}

fn hidden_symbols(facts: &Facts<'_>) -> Vec<Advice> {
    one(facts.number("kernel.kptr_restrict").filter(|level| *level >= 2).map(|_| Advice {
        finding: "kernel.kptr_restrict is 2: the kernel hides where its functions are, even from root"
            .to_owned(),
        consequence: "no profile of the paths".to_owned(),
        remedy: "sysctl -w kernel.kptr_restrict=1".to_owned(),
    }))
}

fn no_tracepoints(facts: &Facts<'_>) -> Vec<Advice> {
    let why = facts.limit("counting kernel calls").and_then(|counting| counting.strip_prefix("no: "));
    one(why.filter(|_| facts.is("root", "yes")).map(|why| Advice {
        finding: format!("kernel calls cannot be counted: {why}"),
        consequence: "kernel calls for each packet are not in the result".to_owned(),
        remedy: "run with CAP_SYS_ADMIN and CAP_PERFMON (in a container: --privileged), on a kernel with CONFIG_FTRACE_SYSCALLS"
            .to_owned(),
    }))
}

fn one(advice: Option<Advice>) -> Vec<Advice> {
    advice.into_iter().collect()
}

fn is_on(device: &Device, name: &str) -> bool {
    device.features.iter().any(|feature| feature.name == name && feature.on)
}

/// Command that switches features on, if the device can switch one of them; else `otherwise`.
fn switch(device: &Device, names: &[&str], change: &str, otherwise: &str) -> String {
    let can = |name: &&str| device.features.iter().any(|feature| feature.name == *name && feature.changeable);
    match names.iter().any(can) {
        true => format!("ethtool -K {} {change}", device.name),
        false => otherwise.to_owned(),
    }
}

#[cfg(test)]
mod tests;
