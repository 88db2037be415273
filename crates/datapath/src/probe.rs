//! Support of data paths on this host, found by sending to a local socket.

use std::fs::File;
use std::io::{self, Write};
use std::net::UdpSocket;
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use wirepath_media::rtp::{HEADER_LENGTH, Header, PAYLOAD_TYPE_MP2T, Run};

use crate::{DataPath, Headers, MappedFile, SendContext, SendError, Train, UdpSink};

/// Paths that work on this host.
#[derive(Debug, Default)]
pub(crate) struct Working {
    /// The most preferred first.
    pub(crate) paths: Vec<DataPath>,
    /// Failures of the others, each with its reason.
    pub(crate) failures: Vec<String>,
}

impl Working {
    /// Reason of a choice, followed by the failures of other paths.
    pub(crate) fn explain(&self, reason: String) -> String {
        self.failures.iter().fold(reason, |reason, failure| format!("{reason}; {failure}"))
    }
}

/// Tries paths, the most preferred first, on a host with this kernel.
pub(crate) fn probe(candidates: impl IntoIterator<Item = DataPath>, kernel: &str) -> Working {
    let mut working = Working::default();
    for path in candidates {
        let failure = match try_on_loopback(path) {
            _ if path == DataPath::WireSendfile
                && release(kernel).is_some_and(|release| release < (6, 5)) =>
            {
                Some(format!("{path} is not used: sendfile to UDP copies before Linux 6.5"))
            }
            Err(Trial::Failed(why)) => Some(format!("{path} is not usable: {why}")),
            // It may work where it is needed; otherwise sessions step down.
            Err(Trial::Impossible(why)) => {
                working.paths.push(path);
                Some(format!("{path} could not be tried: {why}"))
            }
            Ok(()) => {
                working.paths.push(path);
                None
            }
        };
        working.failures.extend(failure);
    }
    working
}

/// Major and minor number at the start of a kernel's release, if present.
pub fn release(kernel: &str) -> Option<(u32, u32)> {
    let mut numbers = kernel.split(['.', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Failed trial of a path.
#[derive(Debug, thiserror::Error)]
pub enum Trial {
    /// It does not work. The error contains a [`SendError`] if sending failed.
    #[error("{0}")]
    Failed(io::Error),
    /// No path can send to a local socket now.
    #[error("{0}")]
    Impossible(#[from] io::Error),
}

/// Size of the test packets.
const PACKET_SIZE: usize = HEADER_LENGTH + 188;

/// Sends a train of three small packets to a local socket and compares the received bytes.
pub fn try_on_loopback(path: DataPath) -> Result<(), Trial> {
    let (sender, receiver) = to_ourselves()?;
    let (file, train, packets) = three_packets()?;
    let mut context = SendContext::default();
    if path.needs_module() {
        context.open_module().map_err(|error| Trial::Failed(io::Error::other(error)))?;
    }
    if path.needs_ring() {
        context.ensure_ring().map_err(Trial::Failed)?;
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

/// A connected socket and its receiver.
fn to_ourselves() -> io::Result<(UdpSocket, UdpSocket)> {
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    receiver.set_read_timeout(Some(Duration::from_millis(500)))?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(receiver.local_addr()?)?;
    Ok((sender, receiver))
}

/// A train, its file, and its bytes.
fn three_packets() -> io::Result<(MappedFile, Train, Vec<u8>)> {
    let first = Header {
        padding: false,
        marker: false,
        payload_type: PAYLOAD_TYPE_MP2T,
        sequence: 1,
        timestamp: 2,
        ssrc: 3,
    };
    let run = Run::new(first, 0);
    let packets = ready_packets(run, 3, PACKET_SIZE);
    let length = packets.len() as u32;
    let train = Train {
        offset: 0,
        length,
        packet_size: PACKET_SIZE as u16,
        skip: 0,
        first: 0,
        packets_before: 0,
        run,
    };
    Ok((in_memory(&packets, 1)?, train, packets))
}

/// Packets of one size with the headers of a run.
pub(crate) fn ready_packets(run: Run, count: u32, packet_size: usize) -> Vec<u8> {
    let mut packets = Vec::new();
    for index in 0..count {
        packets.extend_from_slice(&run.header(index).to_bytes());
        packets.resize(packets.len() + packet_size - HEADER_LENGTH, index as u8);
    }
    packets
}

/// A file in memory, so that no storage is touched, with some copies of `bytes`.
pub(crate) fn in_memory(bytes: &[u8], copies: u32) -> io::Result<MappedFile> {
    let mut file = File::from(memfd_create("wirepath-packets", MemfdFlags::CLOEXEC)?);
    (0..copies).try_for_each(|_| file.write_all(bytes))?;
    MappedFile::new(file, bytes.len() as u64 * u64::from(copies))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: Without the kernel module, its data paths report that it is missing and how to load it.
    #[test]
    fn every_path_delivers_on_loopback() {
        // Cases without io_uring are in tests/uring.rs; cases without the module are in tests/module.rs.
        let without_ring = SendContext::default().open_ring().is_err();
        let without_module = SendContext::default().open_module().is_err();
        for path in DataPath::ALL.into_iter().filter(|path| !(without_ring && path.needs_ring())) {
            match try_on_loopback(path) {
                Err(Trial::Failed(error)) if without_module && path.needs_module() => {
                    assert!(error.to_string().contains("modprobe wirepath"), "{path}: {error}");
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
