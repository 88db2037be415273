use wirepath_datapath::DataPath;

use super::*;
use crate::subject::{PathKind, PathVariant};

fn measured(path: DataPath) -> Candidate {
    let run = Run {
        user_s: 1.0,
        system_s: 1.0,
        wall_s: 2.0,
        bytes: 1 << 30,
        packets: 1,
        errors: 0,
        copied: None,
        loans: None,
    };
    let measurement = Measurement {
        experiment: Experiment::Stream,
        path: PathVariant::plain(path),
        transport: Transport::Udp,
        size: Some(1460),
        packets_per_train: 1,
        mtu: 1500,
        verified: true,
        calls_per_packet: None,
        calls_in_papers: None,
        runs: vec![run],
    };
    let case = Case::new(PathKind::Stream(path), Transport::Udp, Some(1460));
    Candidate { case, measurement, estimate: Duration::ZERO }
}

/// Promise: An interrupted assessment keeps what was measured and marks it partial.
#[test]
fn a_sink_that_stops_takes_no_earlier_round_with_it() {
    let mut candidates = vec![measured(DataPath::ReadWritev), measured(DataPath::GsoWritev)];
    let mut found = Findings::default();
    let stopped = Error::SinkStopped { sink: "a peer".to_owned(), why: "it does not answer".to_owned() };
    let outcome = leave(&mut candidates, 0, stopped, &mut found);
    assert!(matches!(outcome, Err(Error::SinkStopped { .. })));
    assert_eq!(candidates.len(), 2);
    assert!(candidates.iter().all(|candidate| candidate.measurement.runs.len() == 1));
}

#[test]
fn a_path_that_fails_leaves_with_its_earlier_rounds() {
    let mut candidates = vec![measured(DataPath::ReadWritev), measured(DataPath::GsoWritev)];
    let mut found = Findings::default();
    leave(&mut candidates, 0, Error::Faulty("a wrong byte".to_owned()), &mut found).unwrap();
    assert_eq!((candidates.len(), found.faults), (1, 1));
    assert_eq!(candidates[0].measurement.path, PathVariant::plain(DataPath::GsoWritev));
    assert_eq!(found.left_out[0].what, "read_writev, 1460 bytes, UDP");
}
