//! Which data path to use: what the host supports, probed once, and what a route turned out not to.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use wirepath_media::rtp::{HEADER_LENGTH, Header, PAYLOAD_TYPE_MP2T, Run};
use wirepath_sys::device;
use wirepath_sys::socket::set_receive_offload;

use crate::calibration::{Calibration, Calibrations, DeviceKind, Host, USUAL_TRAIN};
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
    host: Host,
    calibrations: Mutex<Calibrations>,
    /// Step-downs met while sending, by the local address that the route uses. They are for people to see: each session tries
    /// for itself, because a route's errors belong to its far end, and one client's narrow path is nobody else's.
    noted: Mutex<HashMap<(IpAddr, Path), Choice>>,
}

impl Support {
    /// Tries the paths on a loopback socket, unless one is `forced` by the operator, which then is where sessions begin. Of those
    /// that work, `calibrations` say which is cheapest. Those that need `hot_memory` are left out where there is none.
    pub fn probe(forced: Option<Path>, calibrations: Calibrations, hot_memory: bool) -> Support {
        let host = Host::this();
        let (working, failures) = match forced {
            Some(path) => (vec![path], String::new()),
            None => probe_host(&host.kernel, hot_memory),
        };
        let calibrations = Mutex::new(calibrations);
        Support { forced, working, failures, host, calibrations, noted: Mutex::default() }
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
            Some(device) if !checksums && self.working.first().is_some_and(|path| path.refers_to_pages()) => {
                Choice {
                    path: Path::GsoWritev,
                    reason: format!(
                        "{device} computes no checksums, so a payload sent by reference would be read after all"
                    ),
                }
            }
            _ => self.first(),
        }
    }

    /// Whether the choice rests on nothing but an order of preference.
    pub fn is_unmeasured(&self) -> bool {
        self.forced.is_none() && self.measured(&[DeviceKind::WithChecksums], USUAL_MTU).is_none()
    }

    /// Measures the paths over the loopback device, which takes whole trains and leaves checksums out, as a network card with
    /// these offloads does; for about `budget`. Later choices use it. Those that need hot memory are not measured: what is lent
    /// to the kernel is copied when a device of the same machine receives it, and by no network card.
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
        let paths: Vec<Path> = self.working.iter().copied().filter(|path| !path.needs_hot_memory()).collect();
        let calibration = Calibration {
            host: self.host.clone(),
            device: DeviceKind::WithChecksums,
            mtu: USUAL_MTU,
            origin: "measured by the server over the loopback device".to_owned(),
            costs: measure(&paths, &connect, budget)?,
        };
        self.calibrations().add(calibration.clone());
        Ok(calibration)
    }

    /// What paths were measured to cost, and where.
    pub fn calibration(&self) -> Option<Calibration> {
        self.calibrations().find(&self.host, &[DeviceKind::WithChecksums], USUAL_MTU).cloned()
    }

    /// The cheapest path that works, if such devices were measured.
    fn measured(&self, devices: &[DeviceKind], mtu: u32) -> Option<Choice> {
        if self.forced.is_some() {
            return None;
        }
        let calibrations = self.calibrations();
        let calibration = calibrations.find(&self.host, devices, mtu)?;
        let (path, why) = match self.working.first() {
            Some(path) if path.needs_hot_memory() && calibration.cost_ns(*path).is_none() => {
                (*path, "it was given memory, and is not among what was measured")
            }
            _ => (calibration.cheapest(&self.working)?, "cheapest"),
        };
        let reason = format!(
            "{}{why} in trains of {USUAL_TRAIN} packets: {} ({})",
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
            (None, Some(_)) => format!("{}works on this host (Linux {})", self.failures, self.host.kernel),
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
        if self.noted().insert((local, to), choice).is_none() {
            tracing::warn!(%local, %from, %to, %error, "data path stepped down for a session");
        }
    }

    /// What routes turned out not to do, the last of each local address and path stepped down to.
    pub fn step_downs(&self) -> Vec<(IpAddr, Choice)> {
        self.noted().iter().map(|((local, _), choice)| (*local, choice.clone())).collect()
    }

    fn noted(&self) -> std::sync::MutexGuard<'_, HashMap<(IpAddr, Path), Choice>> {
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
fn probe_host(kernel: &str, hot_memory: bool) -> (Vec<Path>, String) {
    let mut failures = String::new();
    let mut works = |path: &Path| {
        if *path == Path::WireSendfile && release(kernel).is_some_and(|release| release < (6, 5)) {
            failures.push_str("sendfile to UDP copies before Linux 6.5; ");
            return false;
        }
        match try_on_loopback(*path) {
            Ok(()) => true,
            Err(Trial::Failed(why)) => {
                failures.push_str(&format!("{path}: {why}; "));
                false
            }
            // It may work where it is needed; if it does not, sessions step down.
            Err(Trial::Impossible(why)) => {
                failures.push_str(&format!("{path} could not be tried: {why}; "));
                true
            }
        }
    };
    let candidates = Path::SERVING.into_iter().filter(|path| hot_memory || !path.needs_hot_memory());
    let working = candidates.filter(|path| works(path)).collect();
    (working, failures)
}

/// Major and minor number in a kernel's release, where it begins with such.
pub fn release(kernel: &str) -> Option<(u32, u32)> {
    let mut numbers = kernel.split(['.', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Why a path was not shown to work.
#[derive(Debug, thiserror::Error)]
pub enum Trial {
    /// It does not work. The error has a [`SendError`] inside if sending failed.
    #[error("{0}")]
    Failed(io::Error),
    /// Nothing can be sent to ourselves now, by any path.
    #[error("{0}")]
    Impossible(#[from] io::Error),
}

/// Size of the packets that paths are tried with.
const PACKET_SIZE: usize = HEADER_LENGTH + 188;

/// Sends a train of three small packets to ourselves and compares what arrives.
///
/// # Errors
/// [`Trial`].
pub fn try_on_loopback(path: Path) -> Result<(), Trial> {
    let (sender, receiver) = to_ourselves()?;
    let (medium, train, packets) = three_packets()?;
    let mut scratch = Scratch::default();
    if path.needs_hot_memory() {
        scratch.hold_copy(&medium).map_err(Trial::Failed)?;
    }
    let sink = UdpSink::new(sender, PACKET_SIZE as u16, path).map_err(Trial::Failed)?;
    match path.send(&sink, &medium, &train, Headers::Stored, &mut scratch) {
        Ok(3) => {}
        Ok(sent) => return Err(Trial::Failed(io::Error::other(format!("{sent} of 3 packets were sent")))),
        Err(error @ SendError::NetworkDown { .. }) => return Err(Trial::Impossible(io::Error::other(error))),
        Err(error) => return Err(Trial::Failed(io::Error::other(error))),
    }
    for expected in packets.chunks(PACKET_SIZE) {
        let mut buffer = [0; 2 * PACKET_SIZE];
        let length = receiver.recv(&mut buffer).map_err(Trial::Failed)?;
        if &buffer[..length] != expected {
            return Err(Trial::Failed(io::Error::other("other bytes arrived than were sent")));
        }
    }
    Ok(())
}

/// A connected socket and where it leads.
fn to_ourselves() -> io::Result<(UdpSocket, UdpSocket)> {
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    receiver.set_read_timeout(Some(Duration::from_millis(500)))?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(receiver.local_addr()?)?;
    Ok((sender, receiver))
}

/// A train, where it is stored, and its bytes.
fn three_packets() -> io::Result<(Medium, Train, Vec<u8>)> {
    let first = Header { marker: false, payload_type: PAYLOAD_TYPE_MP2T, sequence: 1, timestamp: 2, ssrc: 3 };
    let run = Run { first, step: 0 };
    let mut packets = Vec::new();
    for index in 0..3 {
        packets.extend_from_slice(&run.header(index).to_bytes());
        packets.resize(packets.len() + PACKET_SIZE - HEADER_LENGTH, index as u8);
    }
    let file = File::from(memfd_create("wirepath-probe", MemfdFlags::CLOEXEC)?);
    (&file).write_all(&packets)?;
    let length = packets.len() as u32;
    let train = Train { offset: 0, length, packet_size: PACKET_SIZE as u16, skip: 0, first: 0, run };
    Ok((Medium::new(file, length.into())?, train, packets))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::PathCost;
    use rustix::io::Errno;

    #[test]
    fn every_path_delivers_on_loopback() {
        // Where there is no io_uring, tests/uring.rs says so.
        let without_ring = Scratch::default().open_ring().is_err();
        for path in Path::ALL.into_iter().filter(|path| !(without_ring && path.needs_hot_memory())) {
            try_on_loopback(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        }
    }

    #[test]
    fn a_route_that_failed_is_shown_and_nobody_else_pays_for_it() {
        let support = Support::probe(Some(Path::WireSendfile), Calibrations::default(), false);
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
        let support = Support::probe(None, Calibrations::default(), false);
        let local = "127.0.0.1".parse().unwrap();
        assert!(support.is_unmeasured() && support.calibration().is_none());
        assert!(support.choose(local, 1500).reason.contains("works on this host"));
        let measured = support.calibrate(Duration::from_millis(100)).unwrap();
        assert!(!support.is_unmeasured());
        assert_eq!(support.calibration(), Some(measured));
        let chosen = support.choose(local, 1500);
        assert!(chosen.reason.contains("cheapest in trains of 8 packets: "), "{}", chosen.reason);
        assert_eq!(chosen, support.host());
        let hot = Support::probe(None, support.calibrations().clone(), true).choose(local, 1500);
        // Where there is no ring, the others are chosen between.
        assert_eq!(hot.reason.contains("it was given memory"), hot.path.needs_hot_memory(), "{}", hot.reason);

        let mut turned = Calibrations::default();
        let costs = Path::SERVING.iter().rev().zip(1u32..).map(|(path, place)| PathCost {
            path: path.name().to_owned(),
            packets_per_train: USUAL_TRAIN,
            cpu_ns_per_packet: f64::from(place) * 100.0,
        });
        turned.add(Calibration {
            host: Host::this(),
            device: DeviceKind::Named("lo".to_owned()),
            mtu: 9000,
            origin: "a test".to_owned(),
            costs: costs.collect(),
        });
        assert_eq!(Support::probe(None, turned.clone(), false).choose(local, 1500).path, Path::ReadWritev);
        assert_eq!(
            Support::probe(Some(Path::Sendmmsg), turned, false).choose(local, 1500).path,
            Path::Sendmmsg
        );
    }

    #[test]
    fn kernels_are_compared_by_number() {
        assert_eq!(release("6.1.0-56-amd64"), Some((6, 1)));
        assert_eq!(release("6.18"), Some((6, 18)));
        assert_eq!(release("unknown"), None);
    }
}
