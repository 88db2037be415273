use super::*;

pub(super) fn host(kernel: &str) -> Host {
    Host { kernel: kernel.to_owned(), processor: "a test's".to_owned(), processors: 2 }
}

pub(super) fn measured(device: DeviceKind, mtu: u32, costs: &[(DataPath, f64)]) -> Calibration {
    let cost = |(path, ns): &(DataPath, f64)| PathCost {
        path: path.name().to_owned(),
        packets_per_train: USUAL_TRAIN,
        own_headers: false,
        cpu_ns_per_packet: *ns,
    };
    let origin = "a test".to_owned();
    Calibration {
        host: host("6.18"),
        device,
        mtu,
        origin,
        unix_s: 0,
        costs: costs.iter().map(cost).collect(),
    }
}

#[test]
fn the_cheapest_is_chosen_however_little_cheaper_it_is() {
    let paths = [DataPath::WireSendfile, DataPath::GsoWritev, DataPath::Sendmmsg];
    for (gso_ns, expected) in [
        (100.0, DataPath::WireSendfile),
        (101.0, DataPath::WireSendfile),
        (99.0, DataPath::GsoWritev),
        (-1.0, DataPath::WireSendfile),
    ] {
        let costs =
            [(DataPath::WireSendfile, 100.0), (DataPath::GsoWritev, gso_ns), (DataPath::Sendmmsg, 400.0)];
        let calibration = measured(DeviceKind::WithChecksums, 1500, &costs);
        assert_eq!(calibration.cheapest(&paths, false), Some(expected), "{gso_ns}");
    }
    let only = measured(
        DeviceKind::WithChecksums,
        1500,
        &[(DataPath::Sendmmsg, 1.0), (DataPath::GsoWritev, f64::NAN)],
    );
    assert_eq!(only.cheapest(&paths[..2], false), None);
    assert_eq!(only.in_words(&paths, false), "sendmmsg 1 ns");
}

/// Promise: The server takes the cheapest measured path that works, unless an option names another.
#[test]
fn what_is_left_out_and_what_would_let_it_in_is_said() {
    let costs = [(DataPath::WireUring, 399.0), (DataPath::WireSendfile, 581.0), (DataPath::GsoWritev, 512.0)];
    let calibration = measured(DeviceKind::WithChecksums, 1500, &costs);
    assert_eq!(
        calibration.in_words(&DataPath::SERVING[1..], false),
        "gso_writev 512 ns, wire_sendfile 581 ns; by io_uring, without a copy: wire_uring 399 ns"
    );
    assert_eq!(
        calibration.in_words(&DataPath::SERVING, false),
        "wire_uring 399 ns, gso_writev 512 ns, wire_sendfile 581 ns"
    );
}

/// Promise: Packets with separate headers leave by `krtpsendfile` where it was measured to be cheaper.
#[test]
fn what_has_headers_of_its_own_is_judged_by_itself() {
    let mut calibration = measured(
        DeviceKind::WithChecksums,
        1500,
        &[(DataPath::GsoWritev, 100.0), (DataPath::Krtpsendfile, 10.0)],
    );
    assert_eq!(calibration.cheapest(&DataPath::OWN_HEADERS, true), None);
    let own = [(DataPath::GsoWritev, 200.0), (DataPath::Krtpsendfile, 150.0)];
    let mut own = measured(DeviceKind::WithChecksums, 1500, &own);
    own.costs.iter_mut().for_each(|cost| cost.own_headers = true);
    calibration.complete(&own);
    calibration.complete(&own);
    assert_eq!(calibration.costs.len(), 4);
    assert_eq!(calibration.cost_ns(DataPath::GsoWritev, false), Some(100.0));
    assert_eq!(calibration.cheapest(&DataPath::OWN_HEADERS, true), Some(DataPath::Krtpsendfile));
    let words = calibration.in_words(&DataPath::OWN_HEADERS, true);
    assert_eq!(words, "krtpsendfile 150 ns, gso_writev 200 ns");
    let kept: Calibration = serde_json::from_str(&serde_json::to_string(&calibration).unwrap()).unwrap();
    assert_eq!(kept, calibration);
}

/// Promise: The estimated cost of a session follows the length of its trains, measured with trains of 8 and of 48 packets.
#[test]
fn the_cost_of_a_train_lies_between_measured_lengths() {
    let mut calibration = measured(DeviceKind::WithChecksums, 1500, &[(DataPath::WireSendfile, 500.0)]);
    let cost = |calibration: &Calibration, packets: f64| {
        calibration.train_cost(DataPath::WireSendfile, false).map(|cost| cost.ns_per_packet(packets).round())
    };
    assert_eq!(cost(&calibration, 48.0), Some(500.0), "one length was measured");
    let long = |ns| PathCost {
        packets_per_train: 48,
        cpu_ns_per_packet: ns,
        ..measured(DeviceKind::WithChecksums, 1500, &[(DataPath::WireSendfile, ns)]).costs[0].clone()
    };
    calibration.costs.push(long(150.0));
    let expected = [(1.0, 3440.0), (8.0, 500.0), (48.0, 150.0), (96.0, 150.0), (60.0, 192.0)];
    for (packets, ns) in expected {
        assert_eq!(cost(&calibration, packets), Some(ns), "{packets} packets");
    }
    calibration.costs[1] = long(600.0);
    assert_eq!(cost(&calibration, 1.0), Some(500.0), "long trains never make short ones cheap");
    assert_eq!(calibration.train_cost(DataPath::Sendmmsg, false), None);
}

#[test]
fn the_nearest_is_found() {
    let named = DeviceKind::Named("eth0".to_owned());
    let mut all = Calibrations::default();
    for (device, mtu) in
        [(DeviceKind::WithChecksums, 1500), (DeviceKind::WithChecksums, 9000), (named.clone(), 1500)]
    {
        all.add(measured(device, mtu, &[]));
    }
    let found = |devices: &[DeviceKind], mtu| {
        all.find(&host("6.18"), devices, mtu).map(|found| (&found.device, found.mtu))
    };
    assert_eq!(found(&[named.clone(), DeviceKind::WithChecksums], 8000), Some((&named, 1500)));
    assert_eq!(found(&[DeviceKind::WithChecksums], 8000), Some((&DeviceKind::WithChecksums, 9000)));
    assert_eq!(found(&[DeviceKind::WithoutChecksums], 1500), None);
    assert_eq!(all.find(&host("6.19"), &[named], 1500), None);
}

#[test]
fn those_of_this_host_are_listed() {
    let mut all = Calibrations::default();
    all.add(measured(DeviceKind::WithChecksums, 1500, &[]));
    all.add(measured(DeviceKind::WithoutChecksums, 9000, &[]));
    all.add(Calibration { host: host("6.19"), ..measured(DeviceKind::WithChecksums, 1500, &[]) });
    let listed: Vec<_> = all.of_host(&host("6.18")).map(|entry| (&entry.device, entry.mtu)).collect();
    assert_eq!(listed, [(&DeviceKind::WithChecksums, 1500), (&DeviceKind::WithoutChecksums, 9000)]);
}
