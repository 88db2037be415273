//! Measures the costs of a server's paths on this machine within seconds: enough for a choice, not for
//! publication.

use std::io;
use std::net::UdpSocket;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use wirepath_media::image::MAX_TRAIN_PACKETS;
use wirepath_media::rtp::{Header, PAYLOAD_TYPE_MP2T, Run};

use crate::calibration::{PACKET_SIZE, PathCost, USUAL_TRAIN};
use crate::probe::{in_memory, ready_packets};
use crate::{
    DataPath, Headers, MappedFile, SendContext, SendError, SendOutcome, StoredTrains, Train, UdpSink,
};

/// Ready packets are taken in turn from 30 MiB of memory, more than most of a processor's caches hold, like a
/// library of files. Much more would be too much for a small machine.
const FILE_PACKETS: u32 = 24 * 1024;

/// Number of measurements of each path, in turn with the others.
const ROUNDS: u32 = 9;

/// Socket buffers sent in a burst. A processor queues 1,000 for the loopback device
/// (net.core.netdev_max_backlog) and drops more; also, another thread would process a flood, and its time
/// would not be counted.
const BURST_BUFFERS: u32 = 64;

/// Packets with own headers that a socket buffer takes by reference: 17 fragments, two or three for each.
const PACKETS_BY_REFERENCE: u32 = 7;

/// Pause between two bursts, for the network and for other threads.
const PAUSE: Duration = Duration::from_micros(500);

/// A socket that is full this often in a row will not become free.
const MOST_FULL: u32 = 1000;

/// Result of a measurement.
#[derive(Debug)]
pub struct Measured {
    /// Costs of paths, two figures for each.
    pub costs: Vec<PathCost>,
    /// Paths whose ring could not be allocated (RLIMIT_MEMLOCK), and the kernel's error.
    pub left_out: Vec<(DataPath, io::Error)>,
}

/// Measures each of these paths, those of `own` with per-session headers, on sockets made by `connect`, for
/// about `budget` in total. The receiver should drop, or accept everything; data for a full socket is
/// dropped.
///
/// # Errors
///
/// Without memory or sockets, or if a path fails: figures of some paths only would make others look best.
pub fn measure(
    paths: &[DataPath],
    own: &[DataPath],
    connect: &dyn Fn() -> io::Result<UdpSocket>,
    budget: Duration,
) -> io::Result<Measured> {
    measure_registered(paths, own, connect, budget, SendContext::register_copy)
}

/// Like [`measure`]; `register` registers the sent memory with the ring.
fn measure_registered(
    paths: &[DataPath],
    own: &[DataPath],
    connect: &dyn Fn() -> io::Result<UdpSocket>,
    budget: Duration,
    register: impl Fn(&mut SendContext, &MappedFile) -> io::Result<()>,
) -> io::Result<Measured> {
    let started = Instant::now();
    let block = ready_packets(RUN, MAX_TRAIN_PACKETS, PACKET_SIZE.into());
    let file = in_memory(&block, FILE_PACKETS / MAX_TRAIN_PACKETS)?;
    let mut context = SendContext::default();
    let (mut lanes, mut left_out) = (Vec::new(), Vec::new());
    let stored = paths.iter().map(|path| (*path, Headers::Stored));
    for (path, headers) in stored.chain(own.iter().map(|path| (*path, OWN))) {
        let prepared = match path {
            path if path.needs_hot_memory() => register(&mut context, &file),
            path if path.needs_ring() => context.ensure_ring(),
            _ => Ok(()),
        };
        if let Err(error) = prepared {
            left_out.push((path, error));
            continue;
        }
        for packets in [USUAL_TRAIN, MAX_TRAIN_PACKETS] {
            let sink = UdpSink::new(connect()?, PACKET_SIZE, path)?;
            lanes.push(Lane { path, headers, packets, sink, next: 0, runs: Vec::new() });
        }
    }
    let left = budget.saturating_sub(started.elapsed());
    let window = left / (ROUNDS + 1) / lanes.len().max(1) as u32;
    for round in 0..=ROUNDS {
        for lane in &mut lanes {
            let path = lane.path;
            let ns = lane.run(&file, &mut context, window);
            let ns = ns.map_err(|error| io::Error::other(format!("{path}: {error}")))?;
            if round > 0 {
                lane.runs.push(ns); // the first round warms up
            }
        }
    }
    Ok(Measured { costs: lanes.into_iter().filter_map(Lane::cost).collect(), left_out })
}

/// One path with trains of one length.
struct Lane {
    path: DataPath,
    headers: Headers,
    packets: u32,
    sink: UdpSink,
    /// Next packet in the file.
    next: u32,
    runs: Vec<f64>,
}

impl Lane {
    /// Sends at intervals for `window`; returns nanoseconds of processor time for each packet.
    fn run(
        &mut self,
        file: &MappedFile,
        context: &mut SendContext,
        window: Duration,
    ) -> Result<f64, SendError> {
        let started = Instant::now();
        let (mut sent, mut spent, mut full_in_turn) = (0, Duration::ZERO, 0);
        while started.elapsed() < window || sent == 0 {
            let before = thread_time();
            let result = self.burst(file, context, &mut sent);
            spent += thread_time() - before;
            match result {
                Ok(()) => full_in_turn = 0,
                Err(SendError::Full { .. }) if full_in_turn < MOST_FULL => full_in_turn += 1,
                Err(error) => return Err(error),
            }
            sleep(PAUSE);
        }
        Ok(spent.as_nanos() as f64 / sent as f64)
    }

    /// Sends so little that a shared queue does not fill; adds the packets to `sent`.
    fn burst(
        &mut self,
        file: &MappedFile,
        context: &mut SendContext,
        sent: &mut u64,
    ) -> Result<(), SendError> {
        let buffers_per_train = match self.path {
            path if path.segments() => 1,
            path if path.takes_runs() && self.headers == Headers::Generated => {
                self.packets.div_ceil(PACKETS_BY_REFERENCE)
            }
            _ => self.packets,
        };
        let mut result = Ok(());
        for _ in 0..(BURST_BUFFERS / buffers_per_train).max(1) {
            let mut rest = Some(self.train());
            while let Some(train) = rest.take() {
                let path = self.path.for_train(&train, self.headers, file, context);
                let trains = StoredTrains { file, trains: &[train], headers: self.headers };
                match path.enqueue(&self.sink, trains, context, 0) {
                    Ok(SendOutcome::Sent(packets)) => {
                        *sent += u64::from(packets);
                        rest = train.after(packets);
                    }
                    Ok(SendOutcome::Queued) => {}
                    Err(error) => result = Err(error),
                }
            }
        }
        context.flush(|_, answer| match answer {
            Ok(bytes) => *sent += u64::from(bytes / u32::from(PACKET_SIZE)),
            Err(error) => result = Err(error),
        });
        result
    }

    fn train(&mut self) -> Train {
        if self.next + self.packets > FILE_PACKETS {
            self.next = 0;
        }
        let first = self.next;
        self.next += self.packets;
        Train {
            offset: u64::from(first) * u64::from(PACKET_SIZE),
            length: self.packets * u32::from(PACKET_SIZE),
            packet_size: PACKET_SIZE,
            skip: 0,
            first,
            packets_before: 0,
            run: RUN,
        }
    }

    fn cost(mut self) -> Option<PathCost> {
        self.runs.sort_by(f64::total_cmp);
        Some(PathCost {
            path: self.path.name().to_owned(),
            packets_per_train: self.packets,
            own_headers: self.headers == OWN,
            cpu_ns_per_packet: *self.runs.get(self.runs.len() / 2)?,
        })
    }
}

/// A session's own headers.
const OWN: Headers = Headers::Own { sequence_offset: 1, timestamp_offset: 1, marker: false, stored: true };

/// The headers of the file.
const RUN: Run = Run::new(
    Header {
        padding: false,
        marker: false,
        payload_type: PAYLOAD_TYPE_MP2T,
        sequence: 0,
        timestamp: 0,
        ssrc: 0,
    },
    0,
);

/// User and system time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket that reads nothing, and a function that connects others to it.
    fn receiver() -> (UdpSocket, impl Fn() -> io::Result<UdpSocket>) {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = receiver.local_addr().unwrap();
        let connect = move || {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.connect(to)?;
            Ok(socket)
        };
        (receiver, connect)
    }

    #[test]
    fn every_path_that_works_is_measured() {
        let (_receiver, connect) = receiver();
        // Cases without io_uring are in tests/uring.rs.
        let without_ring = SendContext::default().open_ring().is_err();
        let paths = DataPath::SERVING.into_iter().filter(|path| !(without_ring && path.needs_ring()));
        let paths: Vec<DataPath> = paths.collect();
        let Measured { costs, left_out } =
            measure(&paths, &[DataPath::GsoWritev], &connect, Duration::from_millis(200)).unwrap();
        assert!(left_out.is_empty(), "{left_out:?}");
        for path in paths {
            let of_path: Vec<_> =
                costs.iter().filter(|cost| cost.path == path.name() && !cost.own_headers).collect();
            assert_eq!(
                of_path.iter().map(|cost| cost.packets_per_train).collect::<Vec<_>>(),
                [8, 48],
                "{path}"
            );
            assert!(of_path.iter().all(|cost| cost.cpu_ns_per_packet > 1.0), "{of_path:?}");
        }
        let own: Vec<_> = costs.iter().filter(|cost| cost.own_headers).collect();
        assert!(own.len() == 2 && own.iter().all(|cost| cost.path == "gso_writev"), "{own:?}");
    }

    /// Promise: If no memory can be locked for a path's ring, a measurement skips the path without an error.
    #[test]
    fn a_path_without_memory_for_its_ring_is_left_out() {
        let (_receiver, connect) = receiver();
        let register = |_: &mut SendContext, _: &MappedFile| Err(io::Error::from(io::ErrorKind::OutOfMemory));
        let paths = [DataPath::WireUring, DataPath::GsoWritev];
        let measured =
            measure_registered(&paths, &[], &connect, Duration::from_millis(50), register).unwrap();
        let [(path, error)] = &measured.left_out[..] else { panic!("{measured:?}") };
        assert_eq!((*path, error.kind()), (DataPath::WireUring, io::ErrorKind::OutOfMemory));
        assert!(measured.costs.iter().all(|cost| cost.path == "gso_writev") && measured.costs.len() == 2);
    }

    #[test]
    fn a_path_that_fails_is_an_error() {
        // A socket that is not connected refuses every send.
        let connect = || UdpSocket::bind("127.0.0.1:0");
        let error = measure(&[DataPath::Sendmmsg], &[], &connect, Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("sendmmsg"), "{error}");
    }
}
