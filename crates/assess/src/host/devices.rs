//! Network devices.

use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};

use wirepath_sys::device::{self, DeviceName};

use super::read;
use crate::result::{Device, Feature, Rings};

/// Features that affect data paths: the kernel's names, and the names shown by `ethtool -k`, where they
/// differ.
const FEATURES: &[(&str, &str)] = &[
    ("tx-checksum-ipv4", "tx-checksum-ipv4"), // these three: payload by reference is never read
    ("tx-checksum-ip-generic", "tx-checksum-ip-generic"),
    ("tx-checksum-ipv6", "tx-checksum-ipv6"),
    ("tx-scatter-gather", "tx-scatter-gather"), // payload by reference at all
    ("tx-udp-segmentation", "tx-udp-segmentation"), // the device cuts trains into packets
    ("tx-tcp-segmentation", "tx-tcp-segmentation"), // the same for downloads
    ("tx-generic-segmentation", "generic-segmentation-offload"), // else the last software step does
    ("tx-nocache-copy", "tx-nocache-copy"),     // copies past the processor's caches
    ("rx-gro", "generic-receive-offload"),      // acknowledgements, and what is relayed
    ("rx-udp-gro-forwarding", "rx-udp-gro-forwarding"),
];

/// All devices of this network namespace; none if the kernel does not permit the query.
pub(super) fn all() -> Vec<Device> {
    let Ok(socket) = UdpSocket::bind("127.0.0.1:0").or_else(|_| UdpSocket::bind("[::1]:0")) else {
        return Vec::new();
    };
    let names = device::all().unwrap_or_default();
    names.iter().filter_map(|name| examine(socket.as_fd(), name)).collect()
}

/// Facts about one device; `None` if it vanished during the query.
fn examine(socket: BorrowedFd<'_>, name: &DeviceName) -> Option<Device> {
    let rings = device::rings(socket, name).ok().map(|rings| Rings {
        transmit: rings.transmit,
        transmit_most: rings.transmit_most,
        receive: rings.receive,
        receive_most: rings.receive_most,
    });
    let driver = device::driver(socket, name).ok().map(|driver| read::printable(&driver));
    Some(Device {
        name: read::printable(&name.to_string()),
        driver: driver.filter(|driver| !driver.is_empty()),
        up: device::is_up(socket, name).ok()?,
        mtu: device::mtu(socket, name).ok()?,
        speed_mbps: device::speed_mbps(socket, name).ok().flatten(),
        rings: rings.filter(|rings| rings.transmit_most > 0),
        features: features(&device::features(socket, name).unwrap_or_default()),
    })
}

/// Features in the order of [`FEATURES`], by ethtool's names.
fn features(all: &[device::Feature]) -> Vec<Feature> {
    let known = FEATURES.iter().filter_map(|(kernel, ethtool)| {
        let feature = all.iter().find(|feature| feature.name == *kernel)?;
        Some(Feature { name: (*ethtool).to_owned(), on: feature.on, changeable: feature.changeable })
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_still_has_every_feature_by_this_name() {
        let loopback = all().into_iter().find(|device| device.name == "lo").expect("every host has lo");
        assert!(loopback.up && loopback.mtu >= 1280 && loopback.driver.is_none());
        let names: Vec<&str> = loopback.features.iter().map(|feature| &feature.name[..]).collect();
        assert_eq!(names, FEATURES.iter().map(|(_, name)| *name).collect::<Vec<_>>());
    }
}
