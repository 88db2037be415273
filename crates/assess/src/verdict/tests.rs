use wirepath_datapath::calibration::{Calibration, PathCost};

use super::*;
use crate::result::{Cache, Host, Run, SCHEMA, Settings};

fn measured(
    experiment: Experiment,
    path: &str,
    transport: Transport,
    size: Option<u64>,
    seconds: &[f64],
) -> Measurement {
    let run = |seconds: &f64| Run {
        user_s: 0.0,
        system_s: *seconds,
        wall_s: *seconds,
        bytes: 1 << 30,
        packets: 1,
        errors: 0,
        copied: None,
        loans: None,
    };
    Measurement {
        experiment,
        path: path.parse().unwrap(),
        transport,
        size,
        packets_per_train: 1,
        mtu: 1500,
        verified: true,
        calls_per_packet: None,
        calls_in_papers: None,
        runs: seconds.iter().map(run).collect(),
    }
}

fn result(measurements: Vec<Measurement>) -> Assessment {
    Assessment {
        schema: SCHEMA.to_owned(),
        program: String::new(),
        started: String::new(),
        seconds: 0.0,
        partial: false,
        settings: Settings {
            tcp_peer: None,
            experiments: Vec::new(),
            volume: 1 << 30,
            runs: 3,
            quick: false,
            sink: "drop".to_owned(),
            mtu: 1500,
            cache: Cache::Warm,
            cpu: None,
        },
        host: Host {
            kernel: String::new(),
            processor: String::new(),
            processors: 1,
            memory: 1,
            devices: Vec::new(),
            limits: Vec::new(),
            paths: Vec::new(),
            advice: Vec::new(),
            load: String::new(),
        },
        costs: None,
        measurements,
        profiles: Vec::new(),
        loan: None,
        relay: Vec::new(),
        counts: Vec::new(),
        server: None,
        left_out: Vec::new(),
    }
}

/// Promise: The verdict names the path that `wirepath serve` will take, with the figures.
#[test]
fn what_the_server_takes_is_said_with_its_figures() {
    let cost = |(path, cpu_ns_per_packet): (DataPath, f64)| PathCost {
        path: path.to_string(),
        packets_per_train: USUAL_TRAIN,
        own_headers: false,
        cpu_ns_per_packet,
    };
    let costs = [(DataPath::WireUring, 399.0), (DataPath::WireSendfile, 581.0), (DataPath::GsoWritev, 512.0)];
    let calibration = Calibration {
        host: wirepath_datapath::calibration::Host::this(),
        device: DeviceKind::WithChecksums,
        mtu: 1500,
        origin: "a test".to_owned(),
        unix_s: 0,
        costs: costs.map(cost).to_vec(),
    };
    let (path, why) = of_server(&Assessment { server: Some(calibration), ..result(Vec::new()) }).unwrap();
    assert_eq!(path, "gso_writev");
    assert!(why.contains("cheapest per packet in trains of 8"), "{why}");
    let figures = "gso_writev 512 ns, wire_sendfile 581 ns; by io_uring, without a copy: wire_uring 399 ns";
    assert!(why.ends_with(figures), "{why}");
    assert_eq!(of_server(&result(Vec::new())), None);
}

#[test]
fn the_cheapest_suiting_path_is_recommended() {
    let stream =
        |path, size, seconds: &[f64]| measured(Experiment::Stream, path, Transport::Udp, Some(size), seconds);
    let verdicts = verdicts(&result(vec![
        stream("read_writev", 1460, &[1.0, 1.0, 1.0]),
        stream("wire_sendfile", 1460, &[0.05, 0.05, 0.06]),
        stream("gso_writev", 1460, &[0.2, 0.2, 0.2]),
        stream("bare:gso_writev", 1460, &[0.01]),
        stream("sendmmsg", 2048, &[0.001]), // fragmented, so not compared
    ]));
    let [stored, own] = &verdicts[..] else { panic!("{verdicts:?}") };
    assert_eq!((stored.path.name(), stored.size, stored.close), ("wire_sendfile", Some(1460), false));
    assert_eq!(
        (stored.times(), stored.plain.map(|(_, plain)| plain.name())),
        (Some(20.0), Some("read_writev"))
    );
    assert_eq!(
        stored.next.as_ref().map(|(path, cost)| (path.name(), cost.median)),
        Some(("gso_writev", 0.2))
    );
    assert_eq!((stored.significance(), stored.needs), (Significance::Significant, None));
    assert_eq!(own.path.name(), "gso_writev");
}

/// Promise: The report calls no figure better if the difference is within the noise of the runs.
#[test]
fn what_the_runs_do_not_tell_apart_is_not_said_to_be_better() {
    let verdict = |best: &[f64], next: &[f64]| {
        let stream =
            |path, seconds: &[f64]| measured(Experiment::Stream, path, Transport::Udp, Some(1460), seconds);
        verdicts(&result(vec![stream("wire_uring", best), stream("wire_sendfile", next)])).remove(0)
    };
    assert_eq!(verdict(&[1.0, 1.0, 1.0], &[2.0, 2.0, 2.0]).significance(), Significance::Significant);
    assert_eq!(verdict(&[1.0, 1.2, 1.6], &[1.3, 1.4, 1.5]).significance(), Significance::TooNoisy);
    assert_eq!(verdict(&[1.0], &[2.0]).significance(), Significance::TooFewRuns);
    let noisy = verdict(&[1.0, 1.3, 1.6], &[9.0, 9.0, 9.0]);
    assert!(noisy.cost.is_noisy() && noisy.significance() == Significance::Significant, "{noisy:?}");
    assert!(noisy.needs.is_some_and(|needs| needs.contains("--hot-memory")));
}

#[test]
fn figures_that_overlap_are_called_close() {
    let tcp = |path, seconds: &[f64]| measured(Experiment::Download, path, Transport::Tcp, None, seconds);
    let verdicts =
        verdicts(&result(vec![tcp("sendfile", &[0.2, 0.21, 0.3]), tcp("mmap_send", &[0.25, 0.25, 0.25])]));
    let [verdict] = &verdicts[..] else { panic!("{verdicts:?}") };
    assert!(verdict.close && verdict.path.name() == "sendfile" && verdict.plain.is_none());
}
