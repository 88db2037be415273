//! Measures what the paths of a server cost here, in seconds: enough to choose by, not to publish.

use std::fs::File;
use std::io::{self, Write};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::time::{ClockId, clock_gettime};
use wirepath_media::rtp::{HEADER_LENGTH, Header, PAYLOAD_TYPE_MP2T, Run};

use crate::calibration::{PACKET_SIZE, PathCost, USUAL_TRAIN};
use crate::{Headers, Medium, Path, Scratch, SendError, Train, UdpSink};

/// Packets in the longest trains: what one datagram of IPv4 holds.
const LONGEST_TRAIN: u32 = 48;

/// Ready packets are taken from this much memory in turn. More than caches hold, because a library is.
const MEDIUM_PACKETS: u32 = 48 * 1024;

/// Each path is measured so often, in turn with the others.
const ROUNDS: u32 = 9;

/// Trains between two looks at the clock.
const STRIDE: u32 = 16;

/// Measures each path that works on a socket that `connect` makes, for about `budget` altogether. Full sockets are passed over:
/// the receiver should drop, or take as much as comes.
///
/// # Errors
/// If memory or a socket cannot be had. A path that does not work is left out.
pub fn measure(connect: &dyn Fn() -> io::Result<UdpSocket>, budget: Duration) -> io::Result<Vec<PathCost>> {
    let started = Instant::now();
    let medium = medium()?;
    let mut lanes = Vec::new();
    for path in Path::SERVING {
        for packets in [USUAL_TRAIN, LONGEST_TRAIN] {
            if let Ok(sink) = UdpSink::new(connect()?, PACKET_SIZE, path) {
                lanes.push(Lane { path, packets, sink, next: 0, runs: Vec::new() });
            }
        }
    }
    let mut scratch = Scratch::default();
    let left = budget.saturating_sub(started.elapsed());
    let window = left / (ROUNDS + 1) / lanes.len().max(1) as u32;
    for round in 0..=ROUNDS {
        lanes.retain_mut(|lane| match lane.run(&medium, &mut scratch, window) {
            Ok(ns) if round > 0 => {
                lane.runs.push(ns);
                true
            }
            Ok(_) => true, // the first round warms up
            Err(error) => {
                tracing::debug!(path = %lane.path, %error, "not measured");
                false
            }
        });
    }
    Ok(lanes.into_iter().filter_map(Lane::cost).collect())
}

/// One path with trains of one length.
struct Lane {
    path: Path,
    packets: u32,
    sink: UdpSink,
    /// Where in the medium it goes on.
    next: u32,
    runs: Vec<f64>,
}

impl Lane {
    /// Sends for `window`; answers nanoseconds of processor time for each packet.
    fn run(&mut self, medium: &Medium, scratch: &mut Scratch, window: Duration) -> Result<f64, SendError> {
        let (started, before) = (Instant::now(), thread_time());
        let mut sent = 0;
        while started.elapsed() < window || sent == 0 {
            for _ in 0..STRIDE {
                let train = self.train();
                match self.path.send(&self.sink, medium, &train, Headers::Stored, scratch) {
                    Ok(packets) => sent += u64::from(packets),
                    Err(SendError::Full { .. }) if started.elapsed() < window => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok((thread_time() - before).as_nanos() as f64 / sent as f64)
    }

    fn train(&mut self) -> Train {
        if self.next + self.packets > MEDIUM_PACKETS {
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
            run: RUN,
        }
    }

    fn cost(mut self) -> Option<PathCost> {
        self.runs.sort_by(f64::total_cmp);
        Some(PathCost {
            path: self.path.name().to_owned(),
            packets_per_train: self.packets,
            cpu_ns_per_packet: *self.runs.get(self.runs.len() / 2)?,
        })
    }
}

/// The headers of the medium.
const RUN: Run = Run {
    first: Header { marker: false, payload_type: PAYLOAD_TYPE_MP2T, sequence: 0, timestamp: 0, ssrc: 0 },
    step: 0,
};

/// Ready packets in memory of our own, so that no storage is touched.
fn medium() -> io::Result<Medium> {
    let mut file = File::from(memfd_create("wirepath-measure", MemfdFlags::CLOEXEC)?);
    let mut block = Vec::new();
    for index in 0..LONGEST_TRAIN {
        block.extend_from_slice(&RUN.header(index).to_bytes());
        block.resize(block.len() + usize::from(PACKET_SIZE) - HEADER_LENGTH, index as u8);
    }
    for _ in 0..MEDIUM_PACKETS / LONGEST_TRAIN {
        file.write_all(&block)?;
    }
    Medium::new(file, u64::from(MEDIUM_PACKETS) * u64::from(PACKET_SIZE))
}

/// User and system time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_that_works_is_measured() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = receiver.local_addr().unwrap();
        let connect = || {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.connect(to)?;
            Ok(socket)
        };
        let costs = measure(&connect, Duration::from_millis(200)).unwrap();
        for path in Path::SERVING {
            let of_path: Vec<_> = costs.iter().filter(|cost| cost.path == path.name()).collect();
            assert_eq!(
                of_path.iter().map(|cost| cost.packets_per_train).collect::<Vec<_>>(),
                [8, 48],
                "{path}"
            );
            assert!(of_path.iter().all(|cost| cost.cpu_ns_per_packet > 1.0), "{of_path:?}");
        }
    }

    #[test]
    fn a_path_that_fails_is_left_out() {
        // A socket that is not connected refuses every send.
        let connect = || UdpSocket::bind("127.0.0.1:0");
        assert_eq!(measure(&connect, Duration::from_millis(50)).unwrap(), []);
    }
}
