//! Support of data paths on this host, found by sending to ourselves.

use std::fs::File;
use std::io::{self, Write};
use std::net::UdpSocket;
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use wirepath_media::rtp::{HEADER_LENGTH, Header, PAYLOAD_TYPE_MP2T, Run};

use crate::{DataPath, Headers, MappedFile, SendContext, SendError, Train, UdpSink};

/// The paths that work here, most preferred first, and why others do not.
pub(crate) fn probe_host(kernel: &str, hot_memory: bool) -> (Vec<DataPath>, String) {
    let mut failures = String::new();
    let mut works = |path: &DataPath| {
        if *path == DataPath::WireSendfile && release(kernel).is_some_and(|release| release < (6, 5)) {
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
    let candidates = DataPath::SERVING.into_iter().filter(|path| hot_memory || !path.needs_hot_memory());
    let working = candidates.filter(|path| works(path)).collect();
    (working, failures)
}

/// The paths that work here for packets with headers of a session's own, most preferred first, and why others
/// do not.
pub(crate) fn probe_own_headers() -> (Vec<DataPath>, String) {
    let mut failures = String::new();
    let mut works = |path: &DataPath| match try_on_loopback(*path) {
        Err(Trial::Failed(why)) => {
            failures.push_str(&format!("{path}: {why}; "));
            false
        }
        Ok(()) | Err(Trial::Impossible(_)) => true,
    };
    (DataPath::OWN_HEADERS.into_iter().filter(|path| works(path)).collect(), failures)
}

/// Major and minor number in a kernel's release, where it begins with such.
pub fn release(kernel: &str) -> Option<(u32, u32)> {
    let mut numbers = kernel.split(['.', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Failed trial of a path.
#[derive(Debug, thiserror::Error)]
pub enum Trial {
    /// It does not work. The error has a [`SendError`] inside if sending failed.
    #[error("{0}")]
    Failed(io::Error),
    /// No path can send to ourselves now.
    #[error("{0}")]
    Impossible(#[from] io::Error),
}

/// Size of the packets that paths are tried with.
const PACKET_SIZE: usize = HEADER_LENGTH + 188;

/// Sends a train of three small packets to ourselves and compares what arrives.
pub fn try_on_loopback(path: DataPath) -> Result<(), Trial> {
    let (sender, receiver) = to_ourselves()?;
    let (file, train, packets) = three_packets()?;
    let mut context = SendContext::default();
    if path.needs_module() {
        context.open_module().map_err(|error| Trial::Failed(io::Error::other(error)))?;
    }
    if path.needs_hot_memory() {
        context.register_copy(&file).map_err(Trial::Failed)?;
    }
    let sink = UdpSink::new(sender, PACKET_SIZE as u16, path).map_err(Trial::Failed)?;
    let mut rest = Some(train);
    while let Some(train) = rest {
        match path.send(&sink, &file, &train, Headers::Stored, &mut context) {
            Ok(0) => return Err(Trial::Failed(io::Error::other("nothing was sent, and nothing said"))),
            Ok(sent) => rest = train.after(sent),
            Err(error @ SendError::NetworkDown { .. }) => {
                return Err(Trial::Impossible(io::Error::other(error)));
            }
            Err(error) => return Err(Trial::Failed(io::Error::other(error))),
        }
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
fn three_packets() -> io::Result<(MappedFile, Train, Vec<u8>)> {
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
    Ok((MappedFile::new(file, length.into())?, train, packets))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: Without the kernel module, its paths say so and how to load it.
    #[test]
    fn every_path_delivers_on_loopback() {
        // Where there is no io_uring, tests/uring.rs says so; where there is no module, tests/module.rs does.
        let without_ring = SendContext::default().open_ring().is_err();
        let without_module = SendContext::default().open_module().is_err();
        for path in DataPath::ALL.into_iter().filter(|path| !(without_ring && path.needs_hot_memory())) {
            match try_on_loopback(path) {
                Err(Trial::Failed(error)) if without_module && path.needs_module() => {
                    assert!(error.to_string().contains("docs/module.md"), "{path}: {error}");
                }
                tried => tried.unwrap_or_else(|error| panic!("{path}: {error}")),
            }
        }
    }

    #[test]
    fn kernels_are_compared_by_number() {
        assert_eq!(release("6.1.0-56-amd64"), Some((6, 1)));
        assert_eq!(release("6.18"), Some((6, 18)));
        assert_eq!(release("unknown"), None);
    }
}
