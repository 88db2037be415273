//! Which data path to use: what the host supports, probed once, and what a route turned out not to.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use wirepath_media::rtp::{HEADER_LENGTH, Header, PAYLOAD_TYPE_MP2T, Run};
use wirepath_sys::device;
use wirepath_sys::socket::set_receive_offload;

use crate::calibration::{Calibration, Calibrations, DeviceKind, USUAL_TRAIN};
use crate::measure::measure;
use crate::{Headers, Medium, Path, Scratch, SendError, Train, UdpSink};

/// A data path and why it was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The path.
    pub path: Path,
    /// Why this one, in words for the log and the status page.
    pub reason: String,
}

/// What this host can do, found by trying, what its paths were measured to cost, and what routes turned out not to do.
#[derive(Debug)]
pub struct Support {
    /// The operator's choice, if there is one.
    forced: Option<Path>,
    /// Paths that work on this host, most preferred first, and why the better ones do not.
    working: Vec<Path>,
    failures: String,
    kernel: String,
    calibrations: Mutex<Calibrations>,
    /// Step-downs met while sending, by the local address that the route uses. They are for people to see: each session tries
    /// for itself, because a route's errors belong to its far end, and one client's narrow path is nobody else's.
    noted: Mutex<HashMap<IpAddr, Choice>>,
}

impl Support {
    /// Tries the paths on a loopback socket, unless one is `forced` by the operator, which then is where sessions begin. Of those
    /// that work, `calibrations` say which is cheapest.
    pub fn probe(forced: Option<Path>, calibrations: Calibrations) -> Support {
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        let (working, failures) = match forced {
            Some(path) => (vec![path], String::new()),
            None => probe_host(&kernel),
        };
        let calibrations = Mutex::new(calibrations);
        Support { forced, working, failures, kernel, calibrations, noted: Mutex::default() }
    }

    /// The choice for a usual device: one that computes checksums and has Ethernet's MTU.
    pub fn host(&self) -> Choice {
        self.measured(&[DeviceKind::WithChecksums], USUAL_MTU).unwrap_or_else(|| self.first())
    }

    /// The path for a session that sends from the local address `local` with this MTU.
    pub fn choose(&self, local: IpAddr, mtu: u32) -> Choice {
        if self.forced.is_some() {
            return self.first();
        }
        let device = device::with_address(local).ok().flatten();
        let checksums = device.as_ref().is_none_or(computes_checksums);
        let kind = if checksums { DeviceKind::WithChecksums } else { DeviceKind::WithoutChecksums };
        let named = device.as_ref().map(|device| DeviceKind::Named(device.to_string()));
        let kinds: Vec<DeviceKind> = named.into_iter().chain([kind]).collect();
        if let Some(choice) = self.measured(&kinds, mtu) {
            return choice;
        }
        match device {
            Some(device) if !checksums && self.working.first() == Some(&Path::WireSendfile) => Choice {
                path: Path::GsoWritev,
                reason: format!(
                    "{device} computes no checksums, so a payload sent by reference would be read after all"
                ),
            },
            _ => self.first(),
        }
    }

    /// Whether the choice rests on nothing but an order of preference.
    pub fn is_unmeasured(&self) -> bool {
        self.forced.is_none() && self.measured(&[DeviceKind::WithChecksums], USUAL_MTU).is_none()
    }

    /// Measures the paths over the loopback device, which takes whole trains and leaves checksums out, as a network card with
    /// these offloads does; for about `budget`. Later choices use it.
    ///
    /// # Errors
    /// If memory or sockets cannot be had.
    pub fn calibrate(&self, budget: Duration) -> io::Result<Calibration> {
        let receiver = UdpSocket::bind("127.0.0.1:0")?;
        // Whole trains are dropped for want of room, so that receiving costs next to nothing.
        set_receive_offload(receiver.as_fd(), true)?;
        let to = receiver.local_addr()?;
        let connect = || {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.connect(to)?;
            Ok(socket)
        };
        let calibration = Calibration {
            kernel: self.kernel.clone(),
            device: DeviceKind::WithChecksums,
            mtu: USUAL_MTU,
            origin: "measured by the server over the loopback device".to_owned(),
            costs: measure(&connect, budget)?,
        };
        self.calibrations().add(calibration.clone());
        Ok(calibration)
    }

    /// What paths were measured to cost, and where.
    pub fn calibration(&self) -> Option<Calibration> {
        self.calibrations().find(&self.kernel, &[DeviceKind::WithChecksums], USUAL_MTU).cloned()
    }

    /// The cheapest path that works, if such devices were measured.
    fn measured(&self, devices: &[DeviceKind], mtu: u32) -> Option<Choice> {
        if self.forced.is_some() {
            return None;
        }
        let calibrations = self.calibrations();
        let calibration = calibrations.find(&self.kernel, devices, mtu)?;
        let path = calibration.cheapest(&self.working)?;
        let reason = format!(
            "{}cheapest in trains of {USUAL_TRAIN} packets: {} ({})",
            self.failures,
            calibration.in_words(),
            calibration.origin
        );
        Some(Choice { path, reason })
    }

    /// The most preferred path that works.
    fn first(&self) -> Choice {
        let reason = match (self.forced, self.working.first()) {
            (Some(_), _) => "asked for by the operator".to_owned(),
            (None, Some(_)) => format!("{}works on this host (Linux {})", self.failures, self.kernel),
            (None, None) => format!("{}nothing better worked", self.failures),
        };
        Choice { path: self.working.first().copied().unwrap_or(Path::ReadWritev), reason }
    }

    fn calibrations(&self) -> std::sync::MutexGuard<'_, Calibrations> {
        self.calibrations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a route from `local` cannot do `from`, and that `to` is used there; logs it the first time.
    pub fn note_step_down(&self, local: IpAddr, from: Path, to: Path, error: SendError) {
        let choice = Choice { path: to, reason: format!("{from} failed on a route from {local}: {error}") };
        let known = self.noted().insert(local, choice);
        if known.is_none_or(|known| known.path != to) {
            tracing::warn!(%local, %from, %to, %error, "data path stepped down for a session");
        }
    }

    /// What routes turned out not to do, the last of each local address.
    pub fn step_downs(&self) -> Vec<(IpAddr, Choice)> {
        self.noted().iter().map(|(local, choice)| (*local, choice.clone())).collect()
    }

    fn noted(&self) -> std::sync::MutexGuard<'_, HashMap<IpAddr, Choice>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// MTU of Ethernet in bytes.
const USUAL_MTU: u32 = 1500;

/// Whether a device computes checksums; one that does not say is given the benefit of the doubt: errors step down.
fn computes_checksums(device: &device::DeviceName) -> bool {
    let Ok(socket) = UdpSocket::bind("127.0.0.1:0") else { return true };
    device::offloads_checksums(socket.as_fd(), device).unwrap_or(true)
}

/// The paths that work here, most preferred first, and why others do not.
fn probe_host(kernel: &str) -> (Vec<Path>, String) {
    let mut failures = String::new();
    let mut works = |path: &Path| {
        if *path == Path::WireSendfile && release(kernel).is_some_and(|release| release < (6, 5)) {
            failures.push_str("sendfile to UDP copies before Linux 6.5; ");
            return false;
        }
        try_on_loopback(*path).inspect_err(|error| failures.push_str(&format!("{path}: {error}; "))).is_ok()
    };
    let working = Path::SERVING.into_iter().filter(|path| works(path)).collect();
    (working, failures)
}

/// Major and minor number of a kernel.
fn release(kernel: &str) -> Option<(u32, u32)> {
    let mut numbers = kernel.split(['.', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Sends a train of three small packets to ourselves and compares what arrives.
fn try_on_loopback(path: Path) -> io::Result<()> {
    const PACKET_SIZE: usize = HEADER_LENGTH + 188;
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    receiver.set_read_timeout(Some(Duration::from_millis(500)))?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(receiver.local_addr()?)?;

    let first = Header { marker: false, payload_type: PAYLOAD_TYPE_MP2T, sequence: 1, timestamp: 2, ssrc: 3 };
    let run = Run { first, step: 0 };
    let mut packets = Vec::new();
    for index in 0..3 {
        packets.extend_from_slice(&run.header(index).to_bytes());
        packets.resize(packets.len() + PACKET_SIZE - HEADER_LENGTH, index as u8);
    }
    let file =
        std::fs::File::from(rustix::fs::memfd_create("wirepath-probe", rustix::fs::MemfdFlags::CLOEXEC)?);
    std::io::Write::write_all(&mut &file, &packets)?;

    let medium = Medium::new(file, packets.len() as u64)?;
    let sink = UdpSink::new(sender, PACKET_SIZE as u16, path)?;
    let train = Train {
        offset: 0,
        length: packets.len() as u32,
        packet_size: PACKET_SIZE as u16,
        skip: 0,
        first: 0,
        run,
    };
    let sent = path
        .send(&sink, &medium, &train, Headers::Stored, &mut Scratch::default())
        .map_err(|error| io::Error::other(error.to_string()))?;
    if sent != 3 {
        return Err(io::Error::other(format!("{sent} of 3 packets were sent")));
    }
    for expected in packets.chunks(PACKET_SIZE) {
        let mut buffer = [0; 2 * PACKET_SIZE];
        let length = receiver.recv(&mut buffer)?;
        if &buffer[..length] != expected {
            return Err(io::Error::other("other bytes arrived than were sent"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::PathCost;
    use rustix::io::Errno;

    #[test]
    fn every_path_delivers_on_loopback() {
        for path in Path::ALL {
            try_on_loopback(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        }
    }

    #[test]
    fn a_route_that_failed_is_shown_and_nobody_else_pays_for_it() {
        let support = Support::probe(Some(Path::WireSendfile), Calibrations::default());
        let local = "192.0.2.1".parse().unwrap();
        let error = SendError::Unsupported { call: "sendfile", errno: Errno::MSGSIZE };
        support.note_step_down(local, Path::WireSendfile, Path::Sendmmsg, error);
        let [(shown, choice)] = &support.step_downs()[..] else { panic!("one is shown") };
        assert_eq!((*shown, choice.path), (local, Path::Sendmmsg));
        assert!(choice.reason.contains("wire_sendfile failed on a route from 192.0.2.1"));
        assert_eq!(support.choose(local, 1500).path, Path::WireSendfile);
    }

    #[test]
    fn what_was_measured_decides() {
        let support = Support::probe(None, Calibrations::default());
        let local = "127.0.0.1".parse().unwrap();
        assert!(support.is_unmeasured() && support.calibration().is_none());
        assert!(support.choose(local, 1500).reason.contains("works on this host"));
        let measured = support.calibrate(Duration::from_millis(100)).unwrap();
        assert!(!support.is_unmeasured());
        assert_eq!(support.calibration(), Some(measured));
        let chosen = support.choose(local, 1500);
        assert!(chosen.reason.contains("cheapest in trains of 8 packets: "), "{}", chosen.reason);
        assert_eq!(chosen, support.host());

        let mut turned = Calibrations::default();
        let costs = Path::SERVING.iter().rev().zip(1u32..).map(|(path, place)| PathCost {
            path: path.name().to_owned(),
            packets_per_train: USUAL_TRAIN,
            cpu_ns_per_packet: f64::from(place) * 100.0,
        });
        turned.add(Calibration {
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            device: DeviceKind::Named("lo".to_owned()),
            mtu: 9000,
            origin: "a test".to_owned(),
            costs: costs.collect(),
        });
        assert_eq!(Support::probe(None, turned.clone()).choose(local, 1500).path, Path::ReadWritev);
        assert_eq!(Support::probe(Some(Path::Sendmmsg), turned).choose(local, 1500).path, Path::Sendmmsg);
    }

    #[test]
    fn kernels_are_compared_by_number() {
        assert_eq!(release("6.1.0-56-amd64"), Some((6, 1)));
        assert_eq!(release("6.18"), Some((6, 18)));
        assert_eq!(release("unknown"), None);
    }
}
