//! Devices of the test bed, and their counters.

use std::ffi::{CStr, CString};
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;

use wirepath_sys::device::{DeviceName, set_checksum_offload};

use super::namespace::{ip, run};
use crate::error::{Doing, Error};

/// Network device of the measuring thread's namespace.
#[derive(Clone, Debug)]
pub(crate) struct Device(DeviceName);

/// Counters of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Bytes, Ethernet headers included.
    pub(crate) bytes: u64,
    /// Packets; a train that the device takes whole counts as one.
    pub(crate) packets: u64,
}

/// Queue of a device that sends no faster than a rate.
#[derive(Debug)]
pub(crate) struct SlowQueue<'a> {
    device: &'a Device,
}

/// Bytes that may leave at once: more than a train, which the queue would cut otherwise.
const BURST: u32 = 128 << 10;

impl SlowQueue<'_> {
    /// Packets that the queue has dropped so far.
    pub(crate) fn dropped(&self) -> Result<u64, Error> {
        let Device(name) = self.device;
        let text = run("tc", &format!("-s -j qdisc show dev {name}"))?;
        dropped(&text).ok_or_else(|| Error::Unable(format!("no counters of the queue of {name} from `tc`")))
    }
}

impl Drop for SlowQueue<'_> {
    fn drop(&mut self) {
        let Device(name) = self.device;
        let removed = run("tc", &format!("qdisc del dev {name} root"));
        debug_assert!(removed.is_ok(), "{removed:?}");
    }
}

/// Dropped packets of the queue with a rate, in the JSON of `tc -s -j qdisc show`.
fn dropped(text: &[u8]) -> Option<u64> {
    let queues: Vec<serde_json::Value> = serde_json::from_slice(text).ok()?;
    queues.iter().find(|queue| queue["kind"] == "tbf")?["drops"].as_u64()
}

impl Device {
    /// Device with this name, which must exist.
    pub(super) fn called(name: &CStr) -> Device {
        Device(DeviceName::new(name))
    }

    /// Creates a device that drops all packets to 10.80.0.0/16.
    pub(super) fn that_drops(mtu: u32, offloads: bool) -> Result<Device, Error> {
        let device = Device::make("sink", "10.80.0.1/16", mtu)?;
        device.set_checksum_offload(offloads)?;
        Ok(device)
    }

    /// Creates a device that drops all packets to the network of its address: an ifb without redirection, which takes
    /// segments and checksums like a network card with these offloads; if the kernel has no ifb, a dummy.
    pub(super) fn make(name: &str, address: &str, mtu: u32) -> Result<Device, Error> {
        let made = ip(&format!("link add {name} mtu {mtu} type ifb"));
        made.or_else(|ifb| {
            ip(&format!("link add {name} mtu {mtu} type dummy")).map_err(|dummy| {
                Error::Input(format!(
                    "this kernel has no device that drops ({ifb}; {dummy}): `modprobe ifb` or `modprobe dummy`, or use \
                     --sink veth"
                ))
            })
        })?;
        ip(&format!("address add {address} dev {name}"))?;
        ip(&format!("link set {name} up"))?;
        let name = CString::new(name).map_err(io::Error::other).doing("naming a device")?;
        Ok(Device::called(&name))
    }

    pub(super) fn set_checksum_offload(&self, on: bool) -> Result<(), Error> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).doing("opening a socket")?;
        set_checksum_offload(socket.as_fd(), &self.0, on).doing("setting a device's checksum offload")
    }

    /// Counters so far of packets received (where an ifb counts dropped packets) and sent, summed.
    pub(crate) fn counted(&self) -> Result<Counted, Error> {
        let [received, sent] = self.counters()?;
        Ok(Counted { bytes: received.bytes + sent.bytes, packets: received.packets + sent.packets })
    }

    /// Counters so far of packets sent.
    pub(crate) fn sent(&self) -> Result<Counted, Error> {
        self.counters().map(|[_, sent]| sent)
    }

    /// Packets to send that the device has dropped so far.
    pub(crate) fn unsent(&self) -> Result<u64, Error> {
        let table = device_table()?;
        unsent(&table, &self.0.to_string())
            .ok_or_else(|| Error::Unable(format!("no counters of {} in /proc/net/dev", self.0)))
    }

    /// Gives the device a rate, and a queue with a limit in bytes (tbf), until the value is dropped. Trains are
    /// queued whole.
    ///
    /// # Errors
    /// [`Error::Unable`] if `tc` fails, as without such a queue in the kernel; [`Error::Input`] without `tc`.
    pub(crate) fn slow(&self, bits_per_second: u64, queue_bytes: u64) -> Result<SlowQueue<'_>, Error> {
        let Device(name) = self;
        run(
            "tc",
            &format!(
                "qdisc add dev {name} root tbf rate {bits_per_second}bit burst {BURST} limit {queue_bytes}"
            ),
        )
        .map_err(|error| match error {
            Error::System { .. } => Error::Unable(format!(
                "cannot give {name} a rate: {error}; if the kernel does not know tbf, `modprobe sch_tbf`"
            )),
            other => other,
        })?;
        Ok(SlowQueue { device: self })
    }

    fn counters(&self) -> Result<[Counted; 2], Error> {
        let table = device_table()?;
        counters(&table, &self.0.to_string())
            .ok_or_else(|| Error::Unable(format!("no counters of {} in /proc/net/dev", self.0)))
    }
}

/// UDP sends without room so far, in the namespace of the calling thread: in a socket's buffer, or in the
/// queue of a device, which then drops the packet (`SndbufErrors`).
pub(crate) fn udp_sends_without_room() -> Result<u64, Error> {
    let table = std::fs::read_to_string("/proc/thread-self/net/snmp").doing("reading the counters of UDP")?;
    udp_counter(&table, "SndbufErrors")
        .ok_or_else(|| Error::Unable("no SndbufErrors in /proc/net/snmp".to_owned()))
}

/// Value of a UDP counter: a row of names, then a row of figures.
fn udp_counter(table: &str, name: &str) -> Option<u64> {
    let mut rows = table.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let place = rows.next()?.split_whitespace().position(|known| known == name)?;
    rows.next()?.split_whitespace().nth(place)?.parse().ok()
}

fn device_table() -> Result<String, Error> {
    std::fs::read_to_string("/proc/thread-self/net/dev").doing("reading a device's counters")
}

/// Figures of a row of `/proc/net/dev`: eight received, then eight sent.
fn figures(table: &str, device: &str) -> Option<Vec<u64>> {
    let row = table.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    Some(row.split_whitespace().map_while(|figure| figure.parse().ok()).collect())
}

/// Packets dropped on transmission: the fourth transmit figure.
fn unsent(table: &str, device: &str) -> Option<u64> {
    figures(table, device)?.get(8 + 3).copied()
}

/// Bytes and packets, the first two figures of each half of a row.
fn counters(table: &str, device: &str) -> Option<[Counted; 2]> {
    let figures = figures(table, device)?;
    let at = |place: usize| Some(Counted { bytes: *figures.get(place)?, packets: *figures.get(place + 1)? });
    Some([at(0)?, at(8)?])
}

impl Counted {
    /// Difference to `earlier`.
    pub(crate) fn since(self, earlier: Counted) -> Counted {
        Counted { bytes: self.bytes - earlier.bytes, packets: self.packets - earlier.packets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_of_udp_is_found_by_its_name() {
        let table =
            "Tcp: A B\nTcp: 1 2\nUdp: InDatagrams NoPorts SndbufErrors\nUdp: 5 6 7\nUdpLite: A\nUdpLite: 9\n";
        assert_eq!(udp_counter(table, "SndbufErrors"), Some(7));
        assert_eq!(udp_counter(table, "MemErrors"), None);
        assert!(udp_sends_without_room().is_ok());
    }

    #[test]
    fn the_drops_of_a_queue_are_those_of_its_kind() {
        let text = br#"[{"kind":"mq","drops":1},{"kind":"tbf","root":true,"packets":3,"drops":7}]"#;
        assert_eq!(dropped(text), Some(7));
        assert_eq!(dropped(br#"[{"kind":"mq","drops":1}]"#), None);
        assert_eq!(dropped(b"none"), None);
    }

    #[test]
    fn a_row_is_found_by_its_name() {
        let table = "Inter-|   Receive  |  Transmit\n face |bytes    packets errs drop\n  \
                     sink2: 7 7 0 0 0 0 0 0 7 7 0 0 0 0 0 0\n  sink: 1000 10 0 10 0 0 0 0 200 2 0 0 0 0 0 0\n";
        let expected = [Counted { bytes: 1000, packets: 10 }, Counted { bytes: 200, packets: 2 }];
        assert_eq!(counters(table, "sink"), Some(expected));
        assert_eq!(counters(table, "near"), None);
        assert_eq!(unsent("near: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16", "near"), Some(12));
        assert_eq!(counters("sink: 1 2", "sink"), None);
    }
}
