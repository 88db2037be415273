use wirepath_datapath::DataPath;

use super::*;
use crate::progress::NoProgress;
use crate::subject::{Experiment, PathKind, PathVariant};

fn measured(path: DataPath) -> PathCandidate {
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
    PathCandidate { case, measurement, estimate: Duration::ZERO }
}

/// Promise: An interrupted assessment keeps its measurements and marks the result as partial.
#[test]
fn a_sink_that_stops_takes_no_earlier_round_with_it() {
    let mut candidates = vec![measured(DataPath::ReadWritev), measured(DataPath::GsoWritev)];
    let (mut result, mut progress) = (crate::example::nothing(), NoProgress);
    let mut found = Findings::new(&mut result, &mut progress);
    let outcome = in_turn(&mut found, (0.0, 1), &mut candidates, |_, _| {
        Err(Error::SinkStopped { sink: "a peer".to_owned(), why: "no answer".to_owned() })
    });
    assert!(matches!(outcome, Err(Error::SinkStopped { .. })));
    assert_eq!(candidates.len(), 2);
    assert!(candidates.iter().all(|candidate| candidate.measurement.runs.len() == 1));
}

#[test]
fn a_path_that_fails_leaves_with_its_earlier_rounds() {
    let mut candidates = vec![measured(DataPath::ReadWritev), measured(DataPath::GsoWritev)];
    let (mut result, mut progress) = (crate::example::nothing(), NoProgress);
    result.left_out.clear();
    let mut found = Findings::new(&mut result, &mut progress);
    let fails = PathVariant::plain(DataPath::ReadWritev);
    in_turn(&mut found, (0.0, 2), &mut candidates, |_, candidate| {
        match candidate.measurement.path == fails {
            true => Err(Error::Faulty("a wrong byte".to_owned())),
            false => Ok(true),
        }
    })
    .unwrap();
    assert_eq!((candidates.len(), found.faults), (1, 1));
    assert_eq!(candidates[0].measurement.path, PathVariant::plain(DataPath::GsoWritev));
    assert_eq!(result.left_out[0].what, "read_writev, 1460 bytes, UDP");
}
