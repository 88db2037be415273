//! Trials of data paths over the loopback device, which are more reliable than a list of requirements.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use wirepath_datapath::interleaved::{FrameTrain, framing};
use wirepath_datapath::{
    BlockPath, BlockSink, DataPath, Extent, MappedFile, OpenError, SendContext, SendError, Trial, release,
    try_on_loopback,
};

use super::read;
use crate::case::{Case, RUN};
use crate::packetization::PacketRange;
use crate::result::{Experiment, PathKind, PathState, Transport};

/// Bytes of the test block, and of each of its datagrams.
const BLOCK: usize = 3 * DATAGRAM;
const DATAGRAM: usize = 188;

/// Read timeout of a receiver.
const PATIENCE: Duration = Duration::from_millis(500);

/// States of all paths on a kernel of this release, paths for streaming first.
pub(super) fn all(kernel: &str) -> Vec<PathState> {
    let release = release(kernel);
    let streams = DataPath::ALL.map(|path| {
        let tried = try_on_loopback(path).map_err(|trial| match trial {
            Trial::Failed(error) | Trial::Impossible(error) => error,
        });
        state(Experiment::Stream, path.into(), Transport::Udp, tried, release)
    });
    let connections = PathKind::framed()
        .map(|path| state(Experiment::Stream, path, Transport::Tcp, try_frames(path), release));
    let downloads = BlockPath::ALL.into_iter().flat_map(|path| {
        // The kernel module sends blocks over UDP only.
        let over_tcp = (!path.needs_module()).then(|| (Transport::Tcp, try_tcp(path)));
        let tries = [(Transport::Udp, try_udp(path))].into_iter().chain(over_tcp);
        tries.map(move |(transport, tried)| {
            state(Experiment::Download, path.into(), transport, tried, release)
        })
    });
    streams.into_iter().chain(connections).chain(downloads).collect()
}

/// State of a path after its trial.
fn state(
    experiment: Experiment,
    path: PathKind,
    transport: Transport,
    tried: io::Result<()>,
    release: Option<(u32, u32)>,
) -> PathState {
    let runs = tried.is_ok();
    let lack = match tried {
        Err(error) => Some(lack(&error)),
        // The zero-copy half of sendfile to UDP came in 6.5; 6.1.72 has only the other half.
        Ok(()) => (transport == Transport::Udp && (path.sends_by_reference() || path.needs_module()))
            .then(|| release.filter(|release| *release < (6, 5)))
            .flatten()
            .map(|(major, minor)| {
                let missing = format!("it copies: Linux {major}.{minor} takes no pages by reference for UDP");
                (missing, "run a kernel of 6.5 or later".to_owned())
            }),
    };
    let (missing, remedy) = lack.unzip();
    PathState { experiment, path, transport, runs, missing, remedy }
}

/// Missing requirement indicated by an error, and its remedy.
fn lack(error: &io::Error) -> (String, String) {
    if let Some(module) = error.get_ref().and_then(|inner| inner.downcast_ref::<OpenError>()) {
        let remedy = match module {
            OpenError::Forbidden => "usermod -a -G wirepath USER, and log in again",
            OpenError::Barred => "allow /dev/wirepath in the container (--device) or the unit (DeviceAllow=)",
            OpenError::Other(_) => "do what that says of /dev/wirepath",
            OpenError::Missing | OpenError::Version { .. } => {
                "install the package wirepath-dkms, or run make -C kernel/module install in the sources; then run \
                 modprobe wirepath"
            }
        };
        let missing = match module {
            OpenError::Missing => "the kernel module is not loaded".to_owned(),
            other => read::printable(&other.to_string()),
        };
        return (missing, remedy.to_owned());
    }
    let sending = error.get_ref().and_then(|inner| inner.downcast_ref::<SendError>());
    let remedy = match sending.and_then(errno_of).or_else(|| Errno::from_io_error(error)) {
        Some(Errno::NOPROTOOPT) => {
            "run a kernel of 4.18 or later, which segments UDP; 6.5 or later for all paths"
        }
        Some(Errno::NETUNREACH | Errno::NETDOWN | Errno::ADDRNOTAVAIL) => "ip link set lo up",
        Some(Errno::PERM | Errno::ACCESS) if read::number("/proc/sys/kernel/io_uring_disabled") > Some(0) => {
            "sysctl -w kernel.io_uring_disabled=0, and let the packet filter pass UDP and TCP on lo"
        }
        Some(Errno::PERM | Errno::ACCESS) => {
            "let the packet filter pass UDP and TCP on lo, and a container's seccomp profile the call"
        }
        Some(Errno::NOBUFS | Errno::NOMEM) => "ulimit -l unlimited; sysctl -w net.core.optmem_max=131072",
        Some(Errno::MFILE | Errno::NFILE) => "ulimit -n 65536",
        Some(Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL | Errno::IO) => {
            "run a kernel of 6.5 or later; in a container, let its seccomp profile pass the call"
        }
        _ => "report it, with what `wirepath assess host --json -` says",
    };
    (read::printable(&error.to_string()), remedy.to_owned())
}

fn errno_of(error: &SendError) -> Option<Errno> {
    match *error {
        SendError::Full { .. } | SendError::Refused { .. } => None,
        SendError::Unsupported { errno, .. }
        | SendError::NetworkDown { errno, .. }
        | SendError::Storage { errno, .. }
        | SendError::Other { errno, .. } => Some(errno),
    }
}

/// Sends a block over UDP in datagrams, and compares the received data.
fn try_udp(path: BlockPath) -> io::Result<()> {
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(receiver.local_addr()?)?;
    let sink = BlockSink::udp(sender, DATAGRAM as u16, path)?;
    let (medium, block) = medium()?;
    // A path that does not segment sends one datagram per call.
    let extent = if path.segments() { BLOCK } else { DATAGRAM };
    for offset in (0..BLOCK).step_by(extent) {
        send(path, &sink, &medium, Extent { offset: offset as u64, length: extent })?;
    }
    for expected in block.chunks(DATAGRAM) {
        let mut buffer = [0; 2 * DATAGRAM];
        let length = receiver.recv(&mut buffer)?;
        compare(&buffer[..length], expected)?;
    }
    Ok(())
}

/// Sends a block over TCP, and compares the received data.
fn try_tcp(path: BlockPath) -> io::Result<()> {
    let (sender, mut receiver) = connection()?;
    let sink = BlockSink::tcp(sender, path)?;
    let (medium, block) = medium()?;
    send(path, &sink, &medium, Extent { offset: 0, length: BLOCK })?;
    let mut buffer = [0; BLOCK];
    receiver.read_exact(&mut buffer)?;
    compare(&buffer, &block)
}

/// Sends a train of three packets in a connection, and compares the received frames.
fn try_frames(path: PathKind) -> io::Result<()> {
    let (sender, mut receiver) = connection()?;
    sender.set_nonblocking(true)?;
    let (file, block) = medium()?;
    let case = Case::new(path, Transport::Tcp, Some(DATAGRAM as u16));
    let packets = PacketRange { first: 0, start: 0, packets: 3, bytes: BLOCK as u64 };
    let (train, headers) = (case.train(packets, 0, case.headers()), case.headers());
    let frames = FrameTrain { channel: 0, file: &file, train, headers };
    let mut context = SendContext::default();
    let sent = match path {
        PathKind::Stream(path) => frames.send_by(path, sender.as_fd(), &mut context),
        _ => frames.send(sender.as_fd(), &mut context),
    };
    let taken = sent.map_err(io::Error::other)?;
    if taken.packets != 3 {
        return Err(io::Error::other(format!("{} of 3 packets were sent", taken.packets)));
    }
    let packets = block.chunks(DATAGRAM).zip(0..);
    let expected = packets.flat_map(|(payload, index)| {
        let framing = framing(0, case.packet_size());
        [&framing[..], &RUN.header(index).to_bytes(), payload].concat()
    });
    let expected: Vec<u8> = expected.collect();
    let mut buffer = vec![0; expected.len()];
    receiver.read_exact(&mut buffer)?;
    compare(&buffer, &expected)
}

/// A connection to this host, and its other end.
fn connection() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let sender = TcpStream::connect(listener.local_addr()?)?;
    let (receiver, _) = listener.accept()?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    Ok((sender, receiver))
}

/// File in memory, and its content.
fn medium() -> io::Result<(MappedFile, Vec<u8>)> {
    let block: Vec<u8> = (0..BLOCK).map(|at| (at * 7 / 3) as u8).collect();
    let file = File::from(memfd_create("wirepath-trial", MemfdFlags::CLOEXEC)?);
    (&file).write_all(&block)?;
    Ok((MappedFile::new(file, BLOCK as u64)?, block))
}

fn send(path: BlockPath, sink: &BlockSink, medium: &MappedFile, extent: Extent) -> io::Result<()> {
    let mut scratch = SendContext::default();
    if path.needs_module() {
        scratch.open_module().map_err(io::Error::other)?;
    }
    if path.needs_hot_memory() {
        scratch.register_copy(medium)?;
    }
    let sent = path.send(sink, medium, extent, &mut scratch).map_err(io::Error::other)?;
    match sent == extent.length {
        true => Ok(()),
        false => Err(io::Error::other(format!("{sent} of {} bytes were sent", extent.length))),
    }
}

fn compare(arrived: &[u8], sent: &[u8]) -> io::Result<()> {
    match arrived == sent {
        true => Ok(()),
        false => Err(io::Error::other("other bytes arrived than were sent")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: Without the kernel module, its data paths report that it is missing and how to load it.
    /// Promise: `assess host` tries every data path; for a path that fails, it shows what is missing and a
    /// remedy.
    #[test]
    fn every_path_runs_where_tests_do() {
        let states = all("6.18.44");
        let (by_module, others): (Vec<_>, Vec<_>) =
            states.into_iter().partition(|state| state.path.needs_module());
        assert!(others.iter().all(|state| state.runs), "{others:#?}");
        assert_eq!((by_module.len(), others.len()), (9, 11 + 6 + 2 * 6));
        let is_loaded = SendContext::default().open_module().is_ok();
        for state in by_module {
            let says_so = state.missing.as_ref().is_some_and(|missing| missing.contains("kernel module"))
                && state.remedy.as_ref().is_some_and(|remedy| remedy.contains("modprobe wirepath"));
            assert!(if is_loaded { state.runs } else { !state.runs && says_so }, "{state:#?}");
        }
    }

    /// Promise: `assess host` tries every data path; for a path that fails, it shows what is missing and a
    /// remedy.
    #[test]
    fn what_fails_is_said_with_a_remedy() {
        let refused = |error| {
            state(Experiment::Stream, DataPath::GsoWritev.into(), Transport::Udp, Err(error), Some((6, 18)))
        };
        let down = SendError::NetworkDown { call: "sendmsg", errno: Errno::NETUNREACH };
        let state = refused(io::Error::other(down));
        assert!(!state.runs && state.missing.is_some_and(|missing| missing.contains("sendmsg")));
        assert_eq!(state.remedy.as_deref(), Some("ip link set lo up"));
        let old = refused(Errno::NOPROTOOPT.into());
        assert!(old.remedy.is_some_and(|remedy| remedy.contains("4.18")));
        let lost = refused(io::ErrorKind::TimedOut.into());
        assert!(lost.missing.is_some() && lost.remedy.is_some());
    }

    #[test]
    fn sendfile_that_copies_runs_and_is_named() {
        let of = |path: &str, transport, release| {
            state(Experiment::Download, path.parse().unwrap(), transport, Ok(()), release)
        };
        let old = of("wire_sendfile", Transport::Udp, Some((6, 1)));
        assert!(old.runs && old.missing.is_some_and(|missing| missing.contains("Linux 6.1")));
        for (path, transport, release) in [
            ("wire_sendfile", Transport::Udp, Some((6, 5))),
            ("wire_sendfile", Transport::Udp, None),
            ("sendfile", Transport::Tcp, Some((5, 10))),
            ("read_write", Transport::Udp, Some((5, 10))),
        ] {
            assert_eq!(of(path, transport, release).missing, None, "{path}");
        }
    }
}
