//! Runs of datagrams: to receivers, or to a device that drops and counts packets.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::{Outcome, Trials, complete, run};
use crate::error::Error;
use crate::header_sizes;
use crate::relay::datagrams::{Bursts, Receivers, send};
use crate::relay::measured_process::MeasuredProcess;
use crate::relay::source::Volume;
use crate::relay::task::{DATAGRAM, Shape};
use crate::result::RelayCase;
use crate::sockets;
use crate::test_bed::{Counted, Device, Target};

/// Bytes of the Ethernet header, which a device counts.
const ETHERNET: u64 = 14;

/// Time without new packets after which a device's counters are final.
const SETTLED: Duration = Duration::from_secs(2);

/// Polling interval for a device.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Destination of datagrams.
enum Destination {
    Receivers(Receivers),
    /// Device, and its counters before the run.
    Device(Device, Counted),
}

/// Bytes received by each receiver, their contents if they were kept, and the time of the last datagram.
type Arrived = (Vec<u64>, Vec<Vec<u8>>, Instant);

impl Trials<'_> {
    pub(super) fn datagrams(
        &mut self,
        case: &RelayCase,
        volume: Volume,
        keep: bool,
    ) -> Result<Outcome, Error> {
        let (destination, addresses) = self.destination(case, volume, keep)?;
        let mut side = self.side(case, Shape::Datagrams(addresses), None)?;
        side.wait_ready()?;
        let (before, start) = (side.spent()?, Instant::now());
        side.go()?;
        self.send(case, volume, &side, &destination)?;
        let (counts, contents, ended) = destination.finish(volume.bytes_each, case.links as usize)?;
        let used = side.spent()?;
        complete(case, volume, &counts)?;
        let run = run(before, used, ended - start, volume.bytes_each, counts.iter().sum());
        Ok(Outcome { run, volume, contents })
    }

    /// Opens the destination of a case, and returns its addresses.
    fn destination(
        &self,
        case: &RelayCase,
        volume: Volume,
        keep: bool,
    ) -> Result<(Destination, Vec<SocketAddr>), Error> {
        match &self.test_bed.udp {
            Target::Drops(device) if !keep => {
                let destination = Destination::Device(device.clone(), device.counted()?);
                Ok((destination, ports_from(self.test_bed.udp_address(), case.links as usize)))
            }
            _ => {
                let receivers = Receivers::open(self.test_bed, case.links as usize, volume.bytes_each, keep)?;
                let addresses = receivers.addresses.clone();
                Ok((Destination::Receivers(receivers), addresses))
            }
        }
    }

    /// Sends all datagrams to the measured process, as fast as it takes them.
    fn send(
        &self,
        case: &RelayCase,
        volume: Volume,
        side: &MeasuredProcess,
        destination: &Destination,
    ) -> Result<(), Error> {
        let bursts = Bursts {
            datagrams: volume.bytes_each / DATAGRAM as u64,
            burst: case.block.map_or(1, |block| block / DATAGRAM as u64),
        };
        let to = (side.id(), SocketAddr::new(self.test_bed.near_address()?, side.port));
        let least = match destination {
            Destination::Receivers(receivers) => Some(receivers.least()),
            Destination::Device(..) => None,
        };
        let sending = send(self.test_bed, &self.pattern, bursts, to, least)?;
        sockets::join(sending, "the source of datagrams")
    }
}

impl Destination {
    /// Waits until each receiver has `bytes_each` bytes, or until the timeout.
    fn finish(self, bytes_each: u64, receivers: usize) -> Result<Arrived, Error> {
        match self {
            Destination::Receivers(receivers) => {
                let received = receivers.finish()?;
                Ok((received.counts, received.contents, received.ended))
            }
            Destination::Device(device, before) => {
                let expected = bytes_each * receivers as u64;
                let came = settled(|| Ok(device.counted()?.since(before)), expected)?;
                // The device does not count by receiver. Missing and surplus bytes are attributed to the
                // first.
                let mut counts = vec![bytes_each; receivers];
                counts[0] = (bytes_each + came).saturating_sub(expected);
                Ok((counts, Vec::new(), Instant::now()))
            }
        }
    }
}

/// Payload counted by a device, once it is as much as expected or no longer grows.
fn settled(counted: impl Fn() -> Result<Counted, Error>, expected: u64) -> Result<u64, Error> {
    let mut last = (0, Instant::now());
    loop {
        let payload = payload(counted()?);
        if payload >= expected || (payload == last.0 && last.1.elapsed() > SETTLED) {
            return Ok(payload);
        }
        if payload != last.0 {
            last = (payload, Instant::now());
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Payload of datagrams over IPv4, and of trains, which have one header each.
fn payload(counted: Counted) -> u64 {
    let headers = ETHERNET + u64::from(header_sizes::UDP_OVER_IPV4);
    counted.bytes.saturating_sub(counted.packets * headers)
}

fn ports_from(first: SocketAddr, number: usize) -> Vec<SocketAddr> {
    (first.port()..).take(number).map(|port| SocketAddr::new(first.ip(), port)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_no_payload() {
        assert_eq!(payload(Counted { bytes: 2 * (1316 + 42), packets: 2 }), 2 * 1316);
        assert_eq!(payload(Counted { bytes: 16 * 1316 + 42, packets: 1 }), 16 * 1316);
    }

    #[test]
    fn what_a_device_never_counts_is_not_waited_for_for_ever() {
        let counted = || Ok(Counted { bytes: 1358, packets: 1 });
        assert_eq!(settled(counted, 1316).unwrap(), 1316);
        assert_eq!(settled(counted, 2632).unwrap(), 1316);
    }
}
