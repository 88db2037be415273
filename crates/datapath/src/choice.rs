//! Which data path to use: what the host supports, probed once, and what a route turned out not to.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use wirepath_media::rtp::{HEADER_LENGTH, Header, PAYLOAD_TYPE_MP2T, Run};
use wirepath_sys::device;

use crate::{Headers, Medium, Path, Scratch, SendError, Train, UdpSink};

/// A data path and why it was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The path.
    pub path: Path,
    /// Why this one, in words for the log and the status page.
    pub reason: String,
}

/// What this host can do, found by trying, and what routes turned out not to.
#[derive(Debug)]
pub struct Support {
    host: Choice,
    forced: bool,
    /// Step-downs met while sending, by the local address that the route uses. They are for people to see: each session tries
    /// for itself, because a route's errors belong to its far end, and one client's narrow path is nobody else's.
    noted: Mutex<HashMap<IpAddr, Choice>>,
}

impl Support {
    /// Tries the paths on a loopback socket, unless one is `forced` by the operator, which then is where sessions begin. Those
    /// that need memory of their own are left out.
    pub fn probe(forced: Option<Path>) -> Support {
        Support::among(forced, Path::SERVING.iter().filter(|path| !path.needs_hot_memory()))
    }

    /// As `probe`, where images are held in memory that threads register with their rings.
    pub fn probe_with_hot_memory(forced: Option<Path>) -> Support {
        Support::among(forced, Path::SERVING.iter())
    }

    fn among<'a>(forced: Option<Path>, paths: impl Iterator<Item = &'a Path>) -> Support {
        let host = match forced {
            Some(path) => Choice { path, reason: "asked for by the operator".to_owned() },
            None => probe_host(paths),
        };
        Support { host, forced: forced.is_some(), noted: Mutex::default() }
    }

    /// The host's best path, whatever the route.
    pub fn host(&self) -> &Choice {
        &self.host
    }

    /// The path for a session that sends from the local address `local`.
    pub fn choose(&self, local: IpAddr) -> Choice {
        if self.forced || !self.host.path.refers_to_pages() {
            return self.host.clone();
        }
        match device_without_checksums(local) {
            Some(device) => Choice {
                path: Path::GsoWritev,
                reason: format!(
                    "{device} computes no checksums, so a payload sent by reference would be read after all"
                ),
            },
            None => self.host.clone(),
        }
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

/// Name of the device that owns `local` if it says that it computes no checksums.
fn device_without_checksums(local: IpAddr) -> Option<device::DeviceName> {
    let name = device::with_address(local).ok()??;
    let socket = UdpSocket::bind("127.0.0.1:0").ok()?;
    match device::offloads_checksums(socket.as_fd(), &name) {
        Ok(false) => Some(name),
        Ok(true) | Err(_) => None, // a device that does not say is given the benefit of the doubt: errors step down
    }
}

fn probe_host<'a>(paths: impl Iterator<Item = &'a Path>) -> Choice {
    let release = kernel_release();
    let mut failures = String::new();
    for &path in paths {
        if path == Path::WireSendfile && release.is_some_and(|release| release < (6, 5)) {
            failures.push_str("sendfile to UDP copies before Linux 6.5; ");
            continue;
        }
        match try_on_loopback(path) {
            Ok(()) => {
                let (major, minor) = release.unwrap_or_default();
                return Choice {
                    path,
                    reason: format!("{failures}works on this host (Linux {major}.{minor})"),
                };
            }
            Err(error) => failures.push_str(&format!("{path}: {error}; ")),
        }
    }
    Choice { path: Path::ReadWritev, reason: format!("{failures}nothing better worked") }
}

/// Major and minor number of the running kernel.
fn kernel_release() -> Option<(u32, u32)> {
    let name = rustix::system::uname();
    let mut numbers = name.release().to_str().ok()?.split(['.', '-']).map(str::parse);
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
    let mut scratch = Scratch::default();
    if path.needs_hot_memory() {
        scratch.open_ring()?;
        let region = Arc::new(medium.copy::<io::Error>(packets.len() as u64, |_| Ok(()))?);
        medium.set_hot(Some(&region));
        scratch.hold_now(region)?;
    }
    let sent = path
        .send(&sink, &medium, &train, Headers::Stored, &mut scratch)
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
        let support = Support::probe(Some(Path::WireSendfile));
        let local = "192.0.2.1".parse().unwrap();
        let error = SendError::Unsupported { call: "sendfile", errno: Errno::MSGSIZE };
        support.note_step_down(local, Path::WireSendfile, Path::Sendmmsg, error);
        let [(shown, choice)] = &support.step_downs()[..] else { panic!("one is shown") };
        assert_eq!((*shown, choice.path), (local, Path::Sendmmsg));
        assert!(choice.reason.contains("wire_sendfile failed on a route from 192.0.2.1"));
        assert_eq!(support.choose(local).path, Path::WireSendfile);
    }
}
