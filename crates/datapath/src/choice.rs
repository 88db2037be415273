//! Choice of a data path, by the host's support and by measured costs.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use parking_lot::Mutex;
use wirepath_sys::device;
use wirepath_sys::socket::set_receive_offload;

use crate::calibration::{Calibration, Calibrations, DeviceKind, Host, TrainCost, USUAL_TRAIN, now_unix_s};
use crate::measure::measure;
use crate::probe::{Working, probe};
use crate::{DataPath, SendError};

/// A data path and the reason for its choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The path.
    pub path: DataPath,
    /// Reason, for the log and the status page.
    pub reason: String,
}

/// Data paths that this host supports, found by trying, their measured costs, and step-downs of routes.
///
/// ```
/// use wirepath_datapath::calibration::Calibrations;
/// use wirepath_datapath::{DataPath, Support};
///
/// let support = Support::probe(Some(DataPath::Sendmmsg), Calibrations::default(), false);
/// assert_eq!(support.choose([127, 0, 0, 1].into(), 1500).path, DataPath::Sendmmsg);
/// ```
#[derive(Debug)]
pub struct Support {
    /// The operator's choice, if there is one.
    forced: Option<DataPath>,
    /// Paths for packets with stored headers.
    stored: Working,
    /// Paths for packets with per-session headers.
    own: Working,
    host: Host,
    calibrations: Mutex<Calibrations>,
    /// Step-downs during sending, by the local address of the route, for display: each session tries for
    /// itself, because a route's errors depend on its far end.
    noted: Mutex<HashMap<(IpAddr, DataPath), Choice>>,
    /// Devices of routes without checksum offload, for display.
    without_checksums: Mutex<BTreeSet<String>>,
}

impl Support {
    /// Tries the paths on a loopback socket, unless the operator `forced` one. `calibrations` decide which of
    /// the working paths is cheapest. Paths that need `hot_memory` are left out without it.
    pub fn probe(forced: Option<DataPath>, calibrations: Calibrations, hot_memory: bool) -> Support {
        let host = Host::this();
        let (stored, own) = match forced {
            Some(path) => (Working { paths: vec![path], ..Working::default() }, Working::default()),
            None => {
                let serving = DataPath::SERVING.into_iter();
                // `wire_mapping` is used train by train, where the kernel copies nothing.
                let serving =
                    serving.filter(|path| !path.needs_ring() || (hot_memory && path.needs_hot_memory()));
                (probe(serving, &host.kernel), probe(DataPath::OWN_HEADERS, &host.kernel))
            }
        };
        let calibrations = Mutex::new(calibrations);
        let (noted, without_checksums) = (Mutex::default(), Mutex::default());
        Support { forced, stored, own, host, calibrations, noted, without_checksums }
    }

    /// The choice for an ordinary device: with checksum offload and Ethernet's MTU.
    pub fn host(&self) -> Choice {
        self.measured(&USUAL_DEVICE, USUAL_MTU).unwrap_or_else(|| self.first())
    }

    /// The path for a session that sends from the local address `local` with this MTU.
    pub fn choose(&self, local: IpAddr, mtu: u32) -> Choice {
        if self.forced.is_some() {
            return self.first();
        }
        let route = Route::from(local);
        if let Some(device) = &route.without_checksums {
            self.without_checksums.lock().insert(device.to_string());
        }
        if let Some(choice) = self.measured(&route.kinds, mtu) {
            return choice;
        }
        match route.without_checksums {
            Some(device) if self.stored.paths.first().is_some_and(|path| path.refers_to_pages()) => Choice {
                path: DataPath::GsoWritev,
                reason: format!(
                    "{device} computes no checksums, so a payload sent by reference would be read after all"
                ),
            },
            _ => self.first(),
        }
    }

    /// The path for the same session's packets once it has its own headers.
    pub fn choose_for_own_headers(&self, local: IpAddr, mtu: u32) -> Choice {
        self.own_headers(|| Route::from(local).kinds, mtu)
    }

    /// The same for a usual device.
    pub fn host_for_own_headers(&self) -> Choice {
        self.own_headers(|| USUAL_DEVICE.to_vec(), USUAL_MTU)
    }

    /// The operator's path, else the path measured to be cheapest, else the most preferred path.
    fn own_headers(&self, devices: impl FnOnce() -> Vec<DeviceKind>, mtu: u32) -> Choice {
        match self.forced {
            Some(path) if path.makes_headers() => return self.first(),
            Some(path) => {
                return Choice { path: DataPath::GsoWritev, reason: format!("{path} sends stored headers") };
            }
            None => {}
        }
        let paths = &self.own.paths;
        let makes_headers = || self.stored.paths.iter().find(|path| path.makes_headers());
        let (devices, calibrations) = (devices(), self.calibrations.lock());
        let measured = calibrations.find(&self.host, &devices, mtu).and_then(|calibration| {
            let (path, costs) = (calibration.cheapest(paths, true)?, calibration.in_words(paths, true));
            let reason = self.own.explain(format!("cheapest per packet: {costs} ({})", calibration.origin));
            Some(Choice { path, reason })
        });
        measured.unwrap_or_else(|| Choice {
            path: paths.first().or_else(makes_headers).copied().unwrap_or(DataPath::ReadWritev),
            reason: self.own.explain("works on this host; costs were not measured yet".to_owned()),
        })
    }

    /// Processor time in nanoseconds that stored headers save for each packet on an ordinary device; negative
    /// if made headers are cheaper. None if it was not measured.
    pub fn saved_by_stored_headers_ns(&self) -> Option<f64> {
        let (stored, own) = (self.host().path, self.host_for_own_headers().path);
        let calibrations = self.calibrations.lock();
        let calibration = calibrations.find(&self.host, &USUAL_DEVICE, USUAL_MTU)?;
        Some(calibration.cost_ns(own, true)? - calibration.cost_ns(stored, false)?)
    }

    /// Processor time of trains on an ordinary device, with stored and with made headers, by the paths chosen for
    /// them; none for what was not measured.
    pub fn train_costs(&self) -> [Option<TrainCost>; 2] {
        let (stored, own) = (self.host().path, self.host_for_own_headers().path);
        let calibrations = self.calibrations.lock();
        let found = calibrations.find(&self.host, &USUAL_DEVICE, USUAL_MTU);
        let cost = |path, own_headers| found.and_then(|found| found.train_cost(path, own_headers));
        [cost(stored, false), cost(own, true)]
    }

    /// Returns whether a path was measured to cost more on an ordinary device than a path that needs no io_uring.
    pub fn costs_more(&self, path: DataPath) -> bool {
        let calibrations = self.calibrations.lock();
        let found = calibrations.find(&self.host, &USUAL_DEVICE, USUAL_MTU);
        let cost = |path| found.and_then(|calibration| calibration.cost_ns(path, false));
        let others = self.stored.paths.iter().filter(|other| !other.needs_ring());
        cost(path).is_some_and(|own| others.copied().filter_map(cost).any(|other| other < own))
    }

    /// Returns whether the choice depends only on the order of preference.
    pub fn is_unmeasured(&self) -> bool {
        if self.forced.is_some() {
            return false;
        }
        let is_unmeasured = self.measured(&USUAL_DEVICE, USUAL_MTU).is_none();
        let calibrations = self.calibrations.lock();
        let found = calibrations.find(&self.host, &USUAL_DEVICE, USUAL_MTU);
        let is_known = |path: &DataPath| found.is_some_and(|found| found.cost_ns(*path, true).is_some());
        is_unmeasured || (self.own.paths.len() > 1 && !self.own.paths.iter().all(is_known))
    }

    /// Measures the paths for about `budget` over the loopback device, which accepts whole trains and omits
    /// checksums, like a network card with these offloads. Later choices use the results. Paths that need a ring
    /// are not measured: lent pages are copied when a device of the same machine receives them, but
    /// not by a network card.
    pub fn calibrate(&self, budget: Duration) -> io::Result<Calibration> {
        let receiver = UdpSocket::bind("127.0.0.1:0")?;
        // Whole trains are dropped for lack of room, so receiving costs almost nothing.
        set_receive_offload(receiver.as_fd(), true)?;
        let to = receiver.local_addr()?;
        let connect = || {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.connect(to)?;
            Ok(socket)
        };
        let paths: Vec<DataPath> =
            self.stored.paths.iter().copied().filter(|path| !path.needs_ring()).collect();
        let calibration = Calibration {
            host: self.host.clone(),
            device: DeviceKind::WithChecksums,
            mtu: USUAL_MTU,
            origin: "measured by the server over the loopback device".to_owned(),
            unix_s: now_unix_s(),
            costs: measure(&paths, &self.own.paths, &connect, budget)?.costs,
        };
        self.calibrations.lock().complete(&calibration);
        Ok(calibration)
    }

    /// Replaces the calibrations by those of a file that others may have extended.
    pub fn adopt(&self, calibrations: Calibrations) {
        *self.calibrations.lock() = calibrations;
    }

    /// Calibrations of this host, for all measured kinds of devices.
    pub fn measured_costs(&self) -> Vec<Calibration> {
        self.calibrations.lock().of_host(&self.host).cloned().collect()
    }

    /// The cheapest path that works, if such devices were measured.
    fn measured(&self, devices: &[DeviceKind], mtu: u32) -> Option<Choice> {
        if self.forced.is_some() {
            return None;
        }
        let paths = &self.stored.paths;
        let calibrations = self.calibrations.lock();
        let calibration = calibrations.find(&self.host, devices, mtu)?;
        let (path, why) = match paths.first() {
            Some(path) if path.needs_hot_memory() && calibration.cost_ns(*path, false).is_none() => {
                (*path, "--hot-memory gives it memory, and it was not measured; other costs")
            }
            _ => (calibration.cheapest(paths, false)?, "cheapest"),
        };
        let (costs, origin) = (calibration.in_words(paths, false), &calibration.origin);
        let reason = format!("{why} per packet in trains of {USUAL_TRAIN}: {costs} ({origin})");
        Some(Choice { path, reason: self.stored.explain(reason) })
    }

    /// The most preferred path that works.
    fn first(&self) -> Choice {
        let first = self.stored.paths.first();
        let reason = match (self.forced, first) {
            (Some(_), _) => "set by the operator".to_owned(),
            (None, Some(_)) => format!("works on this host (Linux {})", self.host.kernel),
            (None, None) => "nothing better worked".to_owned(),
        };
        let path = first.copied().unwrap_or(DataPath::ReadWritev);
        Choice { path, reason: self.stored.explain(reason) }
    }

    /// Notes that a route from `local` does not support `from`, so that `to` is used; logs it the first time.
    pub fn note_step_down(&self, local: IpAddr, from: DataPath, to: DataPath, error: SendError) {
        let choice = Choice { path: to, reason: format!("{from} failed on a route from {local}: {error}") };
        if self.noted.lock().insert((local, to), choice).is_none() {
            tracing::warn!(%local, %from, %to, %error, "data path stepped down for a session");
        }
    }

    /// Devices of sessions that have no checksum offload.
    pub fn devices_without_checksums(&self) -> Vec<String> {
        self.without_checksums.lock().iter().cloned().collect()
    }

    /// Step-downs: the last one of each local address and target path.
    pub fn step_downs(&self) -> Vec<(IpAddr, Choice)> {
        self.noted.lock().iter().map(|((local, _), choice)| (*local, choice.clone())).collect()
    }
}

/// Route of sends from an address.
struct Route {
    /// Kinds of devices whose costs apply to its device, the best match first.
    kinds: Vec<DeviceKind>,
    /// Its device, if that has no checksum offload.
    without_checksums: Option<device::DeviceName>,
}

impl From<IpAddr> for Route {
    fn from(local: IpAddr) -> Route {
        let device = device::with_address(local).ok().flatten();
        let checksums = device.as_ref().is_none_or(computes_checksums);
        let kind = if checksums { DeviceKind::WithChecksums } else { DeviceKind::WithoutChecksums };
        let named = device.as_ref().map(|device| DeviceKind::Named(device.to_string()));
        let kinds = named.into_iter().chain([kind]).collect();
        Route { kinds, without_checksums: device.filter(|_| !checksums) }
    }
}

/// MTU of Ethernet in bytes.
const USUAL_MTU: u32 = 1500;

/// A device with checksum offload.
const USUAL_DEVICE: [DeviceKind; 1] = [DeviceKind::WithChecksums];

/// Returns whether a device computes checksums. An unknown device is assumed to: errors cause a step-down.
fn computes_checksums(device: &device::DeviceName) -> bool {
    let Ok(socket) = UdpSocket::bind("127.0.0.1:0") else { return true };
    device::offloads_checksums(socket.as_fd(), device).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::PathCost;
    use rustix::io::Errno;

    /// Promise: On a route without segmentation, a session steps down by one path, and other sessions keep
    /// theirs.
    #[test]
    fn a_route_that_failed_is_shown_and_nobody_else_pays_for_it() {
        let support = Support::probe(Some(DataPath::WireSendfile), Calibrations::default(), false);
        let local = "192.0.2.1".parse().unwrap();
        let error = SendError::Unsupported { call: "sendfile", errno: Errno::MSGSIZE };
        support.note_step_down(local, DataPath::WireSendfile, DataPath::Sendmmsg, error);
        let [(shown, choice)] = &support.step_downs()[..] else { panic!("one is shown") };
        assert_eq!((*shown, choice.path), (local, DataPath::Sendmmsg));
        assert!(choice.reason.contains("wire_sendfile failed on a route from 192.0.2.1"));
        assert_eq!(support.choose(local, 1500).path, DataPath::WireSendfile);
    }

    /// Promise: Packets with separate headers leave by `krtpsendfile` where it was measured to be cheaper.
    #[test]
    fn headers_of_its_own_leave_by_what_was_measured_for_them() {
        let local = "127.0.0.1".parse().unwrap();
        let mut support = Support::probe(None, Calibrations::default(), false);
        let unmeasured = support.choose_for_own_headers(local, 1500);
        assert_eq!(unmeasured.path, DataPath::GsoWritev);
        let says_why = unmeasured.reason.contains("needs the kernel module");
        assert_eq!(says_why, !support.own.paths.contains(&DataPath::Krtpsendfile), "{}", unmeasured.reason);
        assert!(unmeasured.reason.starts_with("works on this host; costs were not measured yet"));

        support.own.paths = DataPath::OWN_HEADERS.to_vec();
        for (kernel_ns, expected) in [(110.0, DataPath::GsoWritev), (90.0, DataPath::Krtpsendfile)] {
            let cost = |(path, ns): (DataPath, f64)| PathCost {
                path: path.name().to_owned(),
                packets_per_train: USUAL_TRAIN,
                own_headers: true,
                cpu_ns_per_packet: ns,
            };
            let mut calibrations = Calibrations::default();
            calibrations.add(Calibration {
                host: Host::this(),
                device: DeviceKind::Named("lo".to_owned()),
                mtu: 65_536,
                origin: "a test".to_owned(),
                unix_s: 0,
                costs: [(DataPath::GsoWritev, 100.0), (DataPath::Krtpsendfile, kernel_ns)].map(cost).to_vec(),
            });
            support.adopt(calibrations);
            let chosen = support.choose_for_own_headers(local, 1500);
            assert_eq!(chosen.path, expected, "{}", chosen.reason);
            for path in ["gso_writev 100 ns", "krtpsendfile"] {
                assert!(chosen.reason.contains(path), "{}", chosen.reason);
            }
        }
        for (forced, expected) in
            [(DataPath::WireSendfile, DataPath::GsoWritev), (DataPath::Sendmmsg, DataPath::Sendmmsg)]
        {
            let support = Support::probe(Some(forced), Calibrations::default(), false);
            assert_eq!(support.choose_for_own_headers(local, 1500).path, expected);
        }
    }

    #[test]
    fn what_was_measured_decides() {
        let support = Support::probe(None, Calibrations::default(), false);
        let local = "127.0.0.1".parse().unwrap();
        assert!(support.is_unmeasured() && support.measured_costs().is_empty());
        assert_eq!(support.saved_by_stored_headers_ns(), None);
        assert_eq!(support.train_costs(), [None; 2]);
        assert!(support.choose(local, 1500).reason.contains("works on this host"));
        let measured = support.calibrate(Duration::from_millis(100)).unwrap();
        assert!(!support.is_unmeasured());
        assert_eq!(support.measured_costs(), [measured]);
        assert!(support.saved_by_stored_headers_ns().is_some_and(f64::is_finite));
        for cost in support.train_costs() {
            assert!(cost.is_some_and(|cost| cost.ns_per_packet(8.0) > 0.0));
        }
        let chosen = support.choose(local, 1500);
        assert!(chosen.reason.contains("cheapest per packet in trains of 8: "), "{}", chosen.reason);
        assert_eq!(chosen, support.host());
        let hot = Support::probe(None, support.calibrations.lock().clone(), true).choose(local, 1500);
        // Without a ring, the choice is among the others.
        assert_eq!(
            hot.reason.contains("--hot-memory gives it memory"),
            hot.path.needs_hot_memory(),
            "{}",
            hot.reason
        );

        let mut turned = Calibrations::default();
        let costs = DataPath::SERVING.iter().rev().zip(1u32..).map(|(path, place)| PathCost {
            path: path.name().to_owned(),
            packets_per_train: USUAL_TRAIN,
            own_headers: false,
            cpu_ns_per_packet: f64::from(place) * 100.0,
        });
        turned.add(Calibration {
            host: Host::this(),
            device: DeviceKind::Named("lo".to_owned()),
            mtu: 9000,
            origin: "a test".to_owned(),
            unix_s: 0,
            costs: costs.collect(),
        });
        assert_eq!(
            Support::probe(None, turned.clone(), false).choose(local, 1500).path,
            DataPath::ReadWritev
        );
        assert_eq!(
            Support::probe(Some(DataPath::Sendmmsg), turned, false).choose(local, 1500).path,
            DataPath::Sendmmsg
        );
    }
}
