//! Tests with machines that each lack one thing.

use super::*;
use crate::result::{Feature, Rings, Setting};

/// Machine without findings.
fn sound() -> Host {
    let features = ["tx-checksum-ip-generic", "tx-scatter-gather", "tx-udp-segmentation"];
    let limits = [
        ("net.core.wmem_default", "212992"),
        ("net.core.optmem_max", "131072"),
        ("net.core.max_skb_frags", "17"),
        ("net.ipv4.tcp_congestion_control", "cubic"),
        ("kernel.io_uring_disabled", "0"),
        ("kernel.perf_event_paranoid", "2"),
        ("kernel.kptr_restrict", "1"),
        ("RLIMIT_MEMLOCK", "8388608 (hard 8388608)"),
        ("RLIMIT_NOFILE", "1024 (hard 524288)"),
        ("cpufreq governor", "performance"),
        ("root", "yes"),
        ("CAP_NET_ADMIN", "yes"),
        ("CAP_SYS_ADMIN", "yes"),
        ("CAP_PERFMON", "yes"),
        ("CAP_IPC_LOCK", "yes"),
        ("counting kernel calls", "yes"),
    ];
    Host {
        kernel: "6.18.44-test".to_owned(),
        processor: "test".to_owned(),
        processors: 2,
        memory: 1 << 34,
        devices: vec![Device {
            name: "eth0".to_owned(),
            driver: Some("mlx5_core".to_owned()),
            up: true,
            mtu: 1500,
            speed_mbps: Some(100_000),
            rings: Some(Rings { transmit: 1024, transmit_most: 8192, receive: 1024, receive_most: 8192 }),
            features: features
                .map(|name| Feature { name: name.to_owned(), on: true, changeable: true })
                .to_vec(),
        }],
        limits: limits
            .map(|(name, value)| Setting { name: name.to_owned(), value: value.to_owned() })
            .to_vec(),
        paths: Vec::new(),
        advice: Vec::new(),
        load: "0.00 0.00 0.00".to_owned(),
    }
}

/// Advice for the sound machine after a change.
fn after(change: impl FnOnce(&mut Host)) -> Vec<Advice> {
    let mut host = sound();
    change(&mut host);
    advice(&host)
}

/// Advice for a machine with other limits.
fn with(changes: &[(&str, &str)]) -> Vec<Advice> {
    after(|host| {
        for (name, value) in changes {
            let limit = host
                .limits
                .iter_mut()
                .find(|limit| limit.name == *name)
                .expect("it is one that is looked at");
            limit.value = (*value).to_owned();
        }
    })
}

/// The only advice.
#[track_caller]
fn single(advice: Vec<Advice>) -> Advice {
    let [one] = &advice[..] else { panic!("one was expected: {advice:#?}") };
    one.clone()
}

/// Promise: Each advice has a finding, a consequence and a remedy; a well-configured machine gets no advice.
#[test]
fn a_sound_machine_needs_no_advice() {
    assert_eq!(advice(&sound()), []);
}

#[test]
fn a_machine_that_tells_nothing_gets_no_advice() {
    let silent = after(|host| {
        host.kernel = "?".to_owned();
        host.devices.clear();
        host.limits.clear();
    });
    assert_eq!(silent, []);
}

/// Promise: `wirepath assess host` describes the machine, whatever `/proc` and `/sys` contain.
#[test]
fn odd_values_are_not_judged() {
    let names = sound().limits;
    for value in ["", "-", "many", "99999999999999999999999999", "(hard", "(hard )"] {
        let odd: Vec<(&str, &str)> = names.iter().map(|limit| (&limit.name[..], value)).collect();
        assert_eq!(with(&odd), [], "{value:?}");
    }
}

/// Promise: Each advice has a finding, a consequence and a remedy; a well-configured machine gets no advice.
/// Promise: `assess host` tries to count system calls, and gives advice only if that fails.
#[test]
fn each_limit_that_is_too_small_has_its_remedy() {
    for (changes, remedy) in [
        (&[("net.core.wmem_default", "65536")][..], "wmem_default=212992"),
        (&[("net.core.optmem_max", "20480")], "optmem_max=131072"),
        (&[("net.core.max_skb_frags", "8")], "max_skb_frags=17"),
        (&[("net.ipv4.tcp_congestion_control", "bbr")], "cubic"),
        (&[("kernel.io_uring_disabled", "2")], "io_uring_disabled=0"),
        (&[("kernel.kptr_restrict", "2")], "kptr_restrict=1"),
        (&[("CAP_IPC_LOCK", "no")], "LimitMEMLOCK"),
        (&[("RLIMIT_NOFILE", "1024 (hard 4096)")], "LimitNOFILE"),
        (&[("cpufreq governor", "powersave")], "performance"),
        (&[("CAP_NET_ADMIN", "no")], "sudo"),
        (&[("counting kernel calls", "no: it is not permitted")], "CONFIG_FTRACE_SYSCALLS"),
    ] {
        let advice = single(with(changes));
        assert!(advice.remedy.contains(remedy), "{changes:?}: {advice:?}");
    }
    assert_eq!(with(&[("kernel.io_uring_disabled", "1")]), []); // a privileged process may use it anyway
    let outside = with(&[("kernel.io_uring_disabled", "1"), ("CAP_SYS_ADMIN", "no")]);
    assert!(outside.iter().any(|advice| advice.remedy.contains("io_uring_disabled=0")), "{outside:?}");
    assert_eq!(with(&[("RLIMIT_NOFILE", "1024 (hard unlimited)")]), []);
}

#[test]
fn without_privileges_both_the_sink_and_the_profile_are_named() {
    let lost = with(&[("CAP_SYS_ADMIN", "no"), ("CAP_PERFMON", "no")]);
    let remedies: Vec<&str> = lost.iter().map(|advice| &advice.remedy[..]).collect();
    assert_eq!(remedies.len(), 2, "{lost:#?}");
    assert!(remedies[1].contains("perf_event_paranoid=1"), "{remedies:?}");
}

#[test]
fn an_old_kernel_is_named_by_what_it_lacks() {
    let advice = single(after(|host| host.kernel = "6.1.0-32-amd64".to_owned()));
    assert!(advice.finding.contains("6.1") && !advice.consequence.contains("trains"), "{advice:?}");
    let advice = single(after(|host| host.kernel = "4.14.1".to_owned()));
    assert!(advice.consequence.contains("no path sends trains"), "{advice:?}");
}

/// Promise: `assess host` advises to switch on a device feature only if the device supports it.
#[test]
fn a_feature_that_is_off_is_switched_on_where_that_is_possible() {
    for (index, command) in [(0, "tx on"), (1, "sg on"), (2, "tx-udp-segmentation on")] {
        let off = single(after(|host| host.devices[0].features[index].on = false));
        assert_eq!(off.remedy, format!("ethtool -K eth0 {command}"));
        let fixed = single(after(|host| {
            let feature = &mut host.devices[0].features[index];
            (feature.on, feature.changeable) = (false, false);
        }));
        assert!(!fixed.remedy.contains("ethtool") && !fixed.remedy.is_empty(), "{fixed:?}");
    }
}

#[test]
fn a_virtual_card_without_segmentation_is_the_hypervisors_to_mend() {
    let advice = single(after(|host| {
        host.devices[0].driver = Some("virtio_net".to_owned());
        host.devices[0].features.pop();
    }));
    assert!(advice.remedy.contains("VIRTIO_NET_F_HOST_USO"), "{advice:?}");
}

#[test]
fn rings_are_enlarged_as_far_as_the_device_allows() {
    let of = |transmit, transmit_most| {
        after(|host| {
            host.devices[0].rings = Some(Rings { transmit, transmit_most, receive: 1, receive_most: 1 })
        })
    };
    assert_eq!(single(of(256, 4096)).remedy, "ethtool -G eth0 tx 1024");
    assert_eq!(single(of(128, 512)).remedy, "ethtool -G eth0 tx 512");
    assert_eq!(of(256, 256), []);
}

#[test]
fn devices_that_send_nothing_are_not_judged() {
    let advice = after(|host| {
        host.devices[0].up = false;
        host.devices[0].features.iter_mut().for_each(|feature| feature.on = false);
    });
    assert_eq!(advice, []);
}
