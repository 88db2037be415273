//! An assessment that nobody made: all parts of a result, with figures such as real ones have.
//!
//! The crate that shows results uses it in its own tests, too.

use wirepath_assess::confidence::MedianRatio;
use wirepath_assess::result::*;

/// Runs of each figure.
const RUNS: u64 = 10;

/// A complete result: every experiment, noisy figures, outliers, things left out.
pub fn full() -> Assessment {
    let mut measurements = streaming();
    measurements.extend(download());
    measurements.extend(loan_measurements());
    Assessment {
        schema: SCHEMA.to_owned(),
        program: "wirepath 0.1.0 (0123abc)".to_owned(),
        started: "2026-11-22T10:00:00Z".to_owned(),
        seconds: 3421.5,
        partial: false,
        settings: Settings {
            tcp_peer: Some(TcpPeer::Receiver),
            experiments: vec![
                Experiment::Host,
                Experiment::Download,
                Experiment::Stream,
                Experiment::Profile,
                Experiment::Loan,
                Experiment::Count,
                Experiment::Relay,
            ],
            volume: 1 << 30,
            runs: RUNS as u32,
            quick: false,
            sink: "drop".to_owned(),
            mtu: 1500,
            cache: Cache::Warm,
            cpu: Some(1),
        },
        host: host(),
        costs: Some(costs()),
        measurements,
        profiles: profiles(),
        loan: Some(loan()),
        relay: relay(),
        counts: counts(),
        server: None,
        left_out: vec![
            LeftOut {
                what: "loan over TCP with MTU 9,000".to_owned(),
                why: "the sink's device refuses an MTU above 1,500; try --sink veth".to_owned(),
            },
            LeftOut {
                what: "krtpsendfile, krtpmsend, rtpsendfile, mmap_rtpmsend".to_owned(),
                why: "they need the kernel module, which is not loaded".to_owned(),
            },
        ],
    }
}

/// A result that was stopped in the middle: some streaming, no profiles, no loan.
pub fn partial() -> Assessment {
    let mut assessment = full();
    assessment.partial = true;
    assessment.measurements.truncate(9);
    assessment.measurements.iter_mut().for_each(|measurement| measurement.runs.truncate(2));
    assessment.profiles.clear();
    assessment.loan = None;
    assessment.relay.clear();
    assessment.counts.clear();
    assessment
        .left_out
        .push(LeftOut { what: "download, profile, loan".to_owned(), why: "stopped by Ctrl-C".to_owned() });
    assessment
}

/// A result without any figure.
pub fn nothing() -> Assessment {
    Assessment { costs: None, measurements: Vec::new(), profiles: Vec::new(), loan: None, ..partial() }
}

/// Fields whose texts are names that the program knows: a result with others cannot be read.
const NAMES: [&str; 10] =
    ["experiment", "experiments", "path", "part", "way", "transport", "tcp_peer", "cache", "schema", "kind"];

/// The complete result with every free text in it replaced.
pub fn with_texts(text: &str) -> Assessment {
    fn replace(value: &mut serde_json::Value, text: &str) {
        match value {
            serde_json::Value::String(old) => *old = text.to_owned(),
            serde_json::Value::Array(values) => values.iter_mut().for_each(|value| replace(value, text)),
            serde_json::Value::Object(fields) => fields
                .iter_mut()
                .filter(|(name, _)| !NAMES.contains(&name.as_str()))
                .for_each(|(_, value)| replace(value, text)),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(full()).expect("JSON");
    replace(&mut value, text);
    serde_json::from_value(value).expect("a result")
}

fn kind(path: &str) -> PathKind {
    path.parse().expect("a path")
}

/// Calls and copies of some paths of the papers, as their tables and today's kernels explain them.
pub fn counts() -> Vec<Counted> {
    let counted = |path: &str, rtp: u64, calls: u64, copies: &[(&str, u64, u64)]| Counted {
        path: kind(path),
        transport: Transport::Udp,
        size: Some(1472 - rtp),
        packets: 1024,
        payload_bytes: 1024 * (1472 - rtp),
        header_bytes: 1024 * rtp,
        calls,
        copies: copies
            .iter()
            .map(|&(function, calls, bytes)| Copies { function: function.to_owned(), calls, bytes })
            .collect(),
    };
    let read = ("_copy_to_iter", 1390, 1024 * 1472);
    let sent = ("_copy_from_iter", 1024, 1024 * 1472);
    vec![
        counted("read_write", 0, 2048, &[read, sent]),
        counted("ksendfile", 0, 1, &[]),
        counted("rtp_sendfile", 12, 2048, &[("_copy_from_iter", 1024, 1024 * 12)]),
        counted("krtpsendfile", 12, 1, &[]),
    ]
}

/// Part, method, block, links, idle ones, seconds per GiB or per 815,000 datagrams, and whether every byte is
/// touched.
type Relayed = (Part, Method, Option<u64>, u32, u32, f64, bool);

const RELAYED: [Relayed; 16] = [
    (Part::FileToSocket, Method::ReadWrite, Some(1 << 16), 16, 0, 0.40, false),
    (Part::FileToSocket, Method::Sendfile, None, 16, 0, 0.181, false),
    (Part::FileToSocket, Method::Streams, None, 16, 0, 0.186, false),
    (Part::SocketToSocket, Method::ReadWrite, Some(1 << 12), 16, 0, 0.92, false),
    (Part::SocketToSocket, Method::ReadWrite, Some(1 << 16), 16, 0, 0.55, false),
    (Part::SocketToSocket, Method::ReadWrite, Some(1 << 16), 16, 0, 0.61, true),
    (Part::SocketToSocket, Method::Streams, None, 16, 0, 0.21, false),
    (Part::SocketToSocket, Method::Streams, None, 16, 0, 0.70, true),
    (Part::SocketToSocket, Method::Program(Program::HaProxy), None, 16, 0, 0.26, false),
    (Part::Mirror, Method::ReadWrite, Some(1 << 16), 1, 0, 0.52, false),
    (Part::Mirror, Method::Streams, None, 1, 0, 0.24, false),
    (Part::Mirror, Method::Streams, None, 16, 0, 2.9, false),
    (Part::UdpMirror, Method::ReadWrite, Some(16 * 1316), 64, 0, 0.93, false),
    (Part::UdpMirror, Method::Streams, Some(16 * 1316), 64, 0, 0.11, false),
    (Part::Crowd, Method::Streams, None, 10, 0, 0.2, false),
    (Part::Crowd, Method::Streams, None, 1000, 10_000, 0.23, false),
];

fn relay() -> Vec<RelayCost> {
    let cost = |(part, method, block, links, idle, seconds, touch): &Relayed| RelayCost {
        case: RelayCase {
            part: *part,
            method: *method,
            touch: *touch,
            block: *block,
            links: *links,
            idle: *idle,
            handler: None,
            order: None,
            passed: None,
        },
        mtu: 1500,
        verified: true,
        runs: (0..RUNS)
            .map(|run| {
                let seconds = seconds * (1.0 + 0.01 * (run % 4) as f64);
                let sinks =
                    if matches!(part, Part::Mirror | Part::UdpMirror) { u64::from(*links) } else { 1 };
                RelayRun {
                    user_s: 0.1 * seconds,
                    system_s: 0.9 * seconds,
                    wall_s: 1.2 * seconds,
                    bytes: 1 << 30,
                    delivered: sinks << 30,
                    machine_s: None,
                    tasks_s: None,
                    taken: None,
                }
            })
            .collect(),
    };
    RELAYED.iter().map(cost).collect()
}

/// Seconds per GiB of full packets, share of it that a packet costs, packets of a train, calls for a packet.
type Cost = (&'static str, f64, f64, u32, f64);

const STREAM: [Cost; 10] = [
    ("rtp_sendfile", 1.11, 0.95, 1, 4.0),
    ("mmap_send_rtp", 0.90, 0.90, 1, 4.0),
    ("read_writev", 0.73, 0.85, 1, 2.0),
    ("read_send_rtp", 0.68, 0.85, 1, 2.0),
    ("mmap_writev", 0.55, 0.85, 1, 1.0),
    ("sendmmsg", 0.47, 0.85, 48, 1.0 / 48.0),
    ("gso_zerocopy", 0.20, 0.80, 5, 0.2),
    ("gso_writev", 0.17, 0.55, 44, 1.0 / 44.0),
    ("wire_sendfile", 0.032, 0.5, 44, 1.0 / 44.0),
    ("wire_uring", 0.0101, 0.6, 44, 0.002),
];

const STREAM_TCP: [Cost; 6] = [
    ("rtp_sendfile", 0.62, 0.8, 1, 2.0),
    ("mmap_send_rtp", 0.58, 0.8, 1, 2.0),
    ("read_writev", 0.46, 0.7, 1, 2.0),
    ("read_send_rtp", 0.44, 0.7, 1, 2.0),
    ("mmap_writev", 0.36, 0.7, 1, 1.0),
    ("interleaved", 0.19, 0.3, 48, 1.0 / 48.0),
];

const DOWNLOAD_UDP: [Cost; 6] = [
    ("read_write", 0.70, 0.85, 1, 2.0),
    ("mmap_send", 0.53, 0.85, 1, 1.0),
    ("sendfile", 0.81, 0.92, 1, 1.0),
    ("mmap_zerocopy", 0.88, 0.95, 1, 1.02),
    ("uring_send", 0.61, 0.9, 1, 0.03),
    ("loan", 0.54, 0.85, 1, 1.0),
];

const DOWNLOAD_TCP: [Cost; 6] = [
    ("read_write", 0.34, 0.6, 1, 2.0),
    ("mmap_send", 0.25, 0.6, 1, 1.0),
    ("sendfile", 0.31, 0.8, 1, 1.0),
    ("mmap_zerocopy", 0.52, 0.9, 1, 1.02),
    ("uring_send", 0.28, 0.7, 1, 0.03),
    ("loan", 0.26, 0.6, 1, 1.0),
];

fn streaming() -> Vec<Measurement> {
    let bare = ["read_writev", "gso_writev", "wire_sendfile", "wire_uring"];
    let mut all = Vec::new();
    for size in [512, 1024, 1460, 2048] {
        for cost in &STREAM {
            all.push(measurement(Experiment::Stream, Transport::Udp, cost, Some(size), 1.0));
            if bare.contains(&cost.0) {
                let mut loop_of_c = measurement(Experiment::Stream, Transport::Udp, cost, Some(size), 0.88);
                loop_of_c.path = loop_of_c.path.bare();
                (loop_of_c.verified, loop_of_c.calls_per_packet) = (false, None);
                loop_of_c.calls_in_papers = None;
                all.push(loop_of_c);
            }
        }
        for cost in &STREAM_TCP {
            all.push(measurement(Experiment::Stream, Transport::Tcp, cost, Some(size), 1.0));
        }
    }
    all
}

fn download() -> Vec<Measurement> {
    let mut all = Vec::new();
    for cost in &DOWNLOAD_UDP {
        all.extend(
            [512, 1024, 1472, 2048]
                .map(|size| measurement(Experiment::Download, Transport::Udp, cost, Some(size), 1.0)),
        );
    }
    for cost in &DOWNLOAD_TCP {
        all.extend(
            [512, 1024, 1460, 2048]
                .map(|size| measurement(Experiment::Download, Transport::Tcp, cost, Some(size), 1.0)),
        );
        if cost.0 == "sendfile" {
            all.push(measurement(Experiment::Download, Transport::Tcp, cost, None, 0.11));
        }
    }
    all
}

fn loan_measurements() -> Vec<Measurement> {
    let size = Some(32768);
    let lent = ("loan:lend", 0.05, 0.5, 1, 1.0);
    let copied = ("loan:copy", 0.09, 0.3, 1, 1.0);
    let mut lent = measurement(Experiment::Loan, Transport::Udp, &lent, size, 1.0);
    lent.runs.iter_mut().enumerate().for_each(|(index, run)| run.copied = Some(index as u64 % 2 * 17));
    vec![measurement(Experiment::Loan, Transport::Udp, &copied, size, 1.0), lent]
}

fn measurement(
    experiment: Experiment,
    transport: Transport,
    cost: &Cost,
    size: Option<u64>,
    factor: f64,
) -> Measurement {
    let (path, full, of_packet, train, calls) = *cost;
    let length = size.unwrap_or(1460).min(4096) as f64;
    let fragments = if length > 1472.0 { 1.45 } else { 1.0 };
    let median = full * factor * (of_packet * 1460.0 / length * fragments + 1.0 - of_packet);
    let bytes = 1u64 << 30;
    let run = |index: u64| {
        // One path is noisy, and one run of another was disturbed.
        let spread = if path == "gso_zerocopy" { 0.3 } else { 0.02 };
        let disturbed = if path == "sendfile" && index == 4 { 1.6 } else { 1.0 };
        let chance = chance(&format!("{experiment}{path}{size:?}{index}{factor}"));
        let cost = median * (1.0 + spread * chance) * disturbed;
        Run {
            user_s: cost * 0.12,
            system_s: cost * 0.88,
            wall_s: cost * 1.04,
            bytes,
            packets: bytes / size.unwrap_or(bytes),
            errors: u64::from(path == "uring_send" && index == 7) * 3,
            copied: path.contains("zerocopy").then_some(0),
            loans: path.contains("zerocopy").then_some(Loans {
                loans: 750_000,
                copies: 0,
                copied_by_kernel: 0,
                outstanding: 0,
                outstanding_most: 32,
            }),
        }
    };
    Measurement {
        experiment,
        path: path.parse().expect("a path"),
        transport,
        size,
        packets_per_train: train,
        mtu: 1500,
        verified: true,
        calls_per_packet: Some(calls),
        calls_in_papers: match path {
            "read_writev" | "read_send_rtp" | "read_write" => Some(2),
            "mmap_send_rtp" | "rtp_sendfile" => Some(4),
            "mmap_writev" | "mmap_send" => Some(1),
            _ => None,
        },
        runs: (0..RUNS).map(run).collect(),
    }
}

fn costs() -> Costs {
    let mut copies = Vec::new();
    for power in 3..=25 {
        let size = 1u64 << power;
        for (aligned, cached) in [(true, true), (false, true), (true, false), (false, false)] {
            // From the caches while it fits there; then, or where blocks are ever other ones, from memory.
            let rate = match (cached, size) {
                (true, ..=16_384) => 60.0,
                (true, ..=524_288) => 30.0,
                (true, ..=8_388_608) => 14.0,
                _ => 6.0,
            };
            let first = if cached { 4.0 } else { 60.0 };
            let median = (first + size as f64 / rate) * if aligned { 1.0 } else { 1.25 };
            let ns =
                (0..RUNS).map(|run| median * (1.0 + 0.03 * chance(&format!("{size}{aligned}{cached}{run}"))));
            copies.push(CopyCost { size, aligned, cached, ns: ns.collect() });
        }
    }
    let kernel_entry_ns = (0..RUNS).map(|run| 71.0 * (1.0 + 0.02 * chance(&format!("getpid{run}"))));
    Costs { kernel_entry_ns: kernel_entry_ns.collect(), copies }
}

fn profiles() -> Vec<Profile> {
    let functions = [
        "rep_movs_alternative",
        "entry_SYSCALL_64_after_hwframe",
        "ip_finish_output2",
        "filemap_read",
        "__alloc_skb",
    ];
    let mut profiles = Vec::new();
    for (index, (path, ..)) in STREAM.iter().enumerate() {
        let zero_copy = !path.contains("writev") && !path.starts_with("read") && *path != "sendmmsg";
        let copying = if zero_copy { 0.015 } else { 0.27 - 0.01 * index as f64 };
        let share = |place: usize| (copying.max(0.2) * (1.0 - 0.17 * place as f64)).max(0.02);
        profiles.push(Profile {
            experiment: Experiment::Stream,
            path: kind(path),
            transport: Transport::Udp,
            size: Some(1460),
            shares: Shares {
                samples: 4321 - 100 * index as u64,
                lost: 3,
                functions: functions
                    .iter()
                    .enumerate()
                    .map(|(place, function)| FunctionShare {
                        function: (*function).to_owned(),
                        share: share(place),
                    })
                    .collect(),
                copying,
                entering: 0.31 - 0.025 * index as f64,
                network: 0.25 + 0.01 * index as f64,
                user: 0.04 + 0.002 * index as f64,
            },
        });
    }
    profiles
}

fn loan() -> Loan {
    let mut points = Vec::new();
    for (transport, mtu) in [(Transport::Udp, 1500), (Transport::Udp, 9000), (Transport::Tcp, 1500)] {
        let sizes = (6..=15).map(|power| 1u64 << power).chain([65_000]);
        for size in sizes {
            let packets = (size as f64 / f64::from(mtu)).ceil();
            let (copy, rest) = (10e-9 + size as f64 / 14e9, 420e-9 + 190e-9 * packets);
            let lend = 560e-9 + 55e-9 * (size as f64 / 4096.0).ceil();
            let seed = format!("{transport:?}{mtu}{size}");
            let runs = |seconds: f64, what: &str| {
                (0..RUNS)
                    .map(|run| seconds * (1.0 + 0.02 * chance(&format!("{seed}{what}{run}"))))
                    .collect::<Vec<_>>()
            };
            let full = size > 16_384 && mtu == 1500 && transport == Transport::Udp;
            let copied_send_s = runs(copy + rest, "copied");
            let lent_send_s = if size < 128 { Vec::new() } else { runs(lend + rest, "lent") };
            let auto_send_s = runs(if size < 8192 { copy + rest } else { lend + rest }, "auto");
            let fragments = if packets > 1.0 && transport == Transport::Udp {
                runs(copy + 5.0 * rest, "fragments")
            } else {
                Vec::new()
            };
            points.push(LoanPoint {
                lent_to_copied: MedianRatio::of_pairs(&lent_send_s, &copied_send_s),
                auto_to_best: MedianRatio::of_pairs(
                    &auto_send_s,
                    if size < 8192 { &copied_send_s } else { &lent_send_s },
                ),
                auto_lends: Some(size >= 8192),
                auto_send_s,
                size,
                mtu,
                transport,
                aligned: true,
                copy_s: runs(copy, "copy"),
                copied_send_s,
                lent_send_s,
                copied_throughput: size as f64 / (copy + rest) * 0.94,
                lent_throughput: (size >= 128)
                    .then(|| size as f64 / (lend + rest) * if full { 0.7 } else { 0.93 }),
                copied_errors: u64::from(full) * size / 9,
                lent_errors: u64::from(full) * size / 3,
                fragments_send_s: fragments.clone(),
                spliced_send_s: fragments,
            });
        }
    }
    let threshold = |transport, mtu, bytes: Option<u64>| Threshold {
        transport,
        mtu,
        aligned_bytes: bytes,
        unaligned_bytes: bytes.map(|bytes| 2 * bytes),
        aligned_undecided: Vec::new(),
        unaligned_undecided: Vec::new(),
        kernel_copies: false,
    };
    Loan {
        points,
        thresholds: vec![
            threshold(Transport::Udp, 1500, Some(8192)),
            threshold(Transport::Udp, 9000, Some(8192)),
            threshold(Transport::Tcp, 1500, None),
        ],
        queue: queue(),
    }
}

fn queue() -> Vec<QueuePoint> {
    let kinds = [QueuedSend::Copied, QueuedSend::Lent, QueuedSend::Fragments, QueuedSend::Spliced];
    let sizes = [1024, 8192, 32_768];
    let all = [1500, 9000].into_iter().flat_map(|mtu| sizes.map(|size| (mtu, size)));
    let point = |mtu: u32, size: u64, kind: QueuedSend| {
        let errors = if size > 1024 { 4096 * (kind as u64 + 1) } else { 0 };
        let run = |run: u64| QueueRun {
            sent: 4096,
            errors: errors + run,
            dropped: errors + run,
            copied_by_kernel: 0,
            cpu_s: 0.1 * (kind as u32 as f64 + 1.0),
            wall_s: 0.2,
        };
        let queue_bytes = 512 * (u64::from(mtu) + 14);
        QueuePoint {
            kind,
            size,
            mtu,
            bits_per_second: 1_000_000_000,
            queue_bytes,
            runs: (0..RUNS).map(run).collect(),
        }
    };
    let fits = |mtu: u32, size: u64| size < u64::from(mtu);
    let is_there = move |mtu, size, kind| !fits(mtu, size) || kind < QueuedSend::Fragments;
    all.flat_map(|(mtu, size)| {
        kinds
            .into_iter()
            .filter(move |kind| is_there(mtu, size, *kind))
            .map(move |kind| point(mtu, size, kind))
    })
    .collect()
}

fn host() -> Host {
    let feature = |name: &str, on| Feature { name: name.to_owned(), on, changeable: on };
    let setting = |name: &str, value: &str| Setting { name: name.to_owned(), value: value.to_owned() };
    Host {
        kernel: "6.18.44".to_owned(),
        processor: "AMD EPYC 7B13".to_owned(),
        processors: 2,
        memory: 16_777_216_000,
        devices: vec![
            Device {
                name: "eth0".to_owned(),
                driver: Some("virtio_net".to_owned()),
                up: true,
                rings: Some(Rings { transmit: 256, transmit_most: 1024, receive: 256, receive_most: 1024 }),
                mtu: 1500,
                speed_mbps: None,
                features: vec![feature("tx-udp-segmentation", false), feature("tx-scatter-gather", true)],
            },
            Device {
                name: "ifb-assess".to_owned(),
                driver: Some("ifb".to_owned()),
                up: false,
                rings: None,
                mtu: 1500,
                speed_mbps: Some(25_000),
                features: vec![feature("tx-udp-segmentation", true), feature("tx-checksum-ip-generic", true)],
            },
        ],
        limits: vec![setting("net.core.wmem_max", "212992"), setting("kernel.perf_event_paranoid", "2")],
        paths: vec![
            PathState {
                experiment: Experiment::Stream,
                path: kind("wire_sendfile"),
                transport: Transport::Udp,
                runs: true,
                missing: None,
                remedy: None,
            },
            PathState {
                experiment: Experiment::Stream,
                path: kind("wire_uring"),
                transport: Transport::Udp,
                runs: false,
                missing: Some("io_uring is switched off".to_owned()),
                remedy: Some("sysctl kernel.io_uring_disabled=0".to_owned()),
            },
        ],
        advice: vec![Advice {
            finding: "eth0 does not segment UDP".to_owned(),
            consequence: "wire_sendfile, gso_writev and wire_uring pay for segmentation in software: about 240 ns a packet"
                .to_owned(),
            remedy: "ethtool -K eth0 tx-udp-segmentation on".to_owned(),
        }],
        load: "0.11 0.20 0.18".to_owned(),
    }
}

/// Between -1 and 1, ever the same for the same words (FNV-1a, and the last step of MurmurHash3 to spread
/// it).
fn chance(words: &str) -> f64 {
    let hash = words
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    ((hash ^ (hash >> 33)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}
