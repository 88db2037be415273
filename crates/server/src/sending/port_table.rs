//! Ports that outputs send to. Streams that go to the same port mix at the receiver.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::ops::Range;

use super::SendFailure;
use super::destination::{Destination, Form, Interface};
use super::output::PORTS_PER_TRACK;

/// Ports of all outputs.
#[derive(Debug, Default)]
pub(super) struct PortTable(HashMap<Receiver, Vec<PortUse>>);

/// Address without its port, and the interface that packets leave by.
type Receiver = (SocketAddr, Option<Interface>);

/// Ports of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortUse {
    /// Name of its channel.
    channel: String,
    /// Its destination.
    destination: String,
    /// The ports. The last is beyond 65535 where the tracks do not fit.
    ports: Range<u32>,
}

impl PortTable {
    /// Adds the ports of an output of so many streams.
    ///
    /// # Errors
    /// Another output uses one of them.
    pub(super) fn add(
        &mut self,
        channel: &str,
        destination: &Destination,
        streams: usize,
    ) -> Result<(), SendFailure> {
        let count = match destination.form {
            Form::Rtp => streams as u32 * u32::from(PORTS_PER_TRACK), // 16 streams at most
            Form::PlainUdp => 1,
        };
        let mut address = destination.address;
        address.set_port(0);
        let first = u32::from(destination.address.port());
        let (channel, ports) = (channel.to_owned(), first..first + count);
        let new = PortUse { channel, destination: destination.to_string(), ports };
        let others = self.0.entry((address, destination.interface.clone())).or_default();
        if let Some(other) = others.iter().find(|other| other.overlaps(&new)) {
            return Err(SendFailure::Overlap(other.clone(), new));
        }
        others.push(new);
        Ok(())
    }
}

impl PortUse {
    fn overlaps(&self, other: &PortUse) -> bool {
        self.ports.start < other.ports.end && other.ports.start < self.ports.end
    }
}

impl fmt::Display for PortUse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PortUse { channel, destination, ports } = self;
        write!(formatter, "{destination} of channel {channel} uses ")?;
        match ports.end - ports.start {
            1 => write!(formatter, "port {}", ports.start),
            _ => write!(formatter, "ports {} to {}", ports.start, ports.end - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds outputs of so many streams to a table. Returns the error of the last one; the others must not overlap.
    fn last_error(outputs: &[(&str, usize)]) -> Option<String> {
        let mut table = PortTable::default();
        let add = |(to, streams): &(&str, usize)| table.add("news", &to.parse().unwrap(), *streams);
        let mut results: Vec<_> = outputs.iter().map(add).collect();
        let last = results.pop().unwrap();
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        last.err().map(|error| error.to_string())
    }

    /// Promise: A sender refuses outputs that use the same port, also ports of later tracks and of RTCP, and names both.
    #[test]
    fn outputs_do_not_share_ports() {
        for outputs in [
            [("rtp://239.1.1.1:5004", 2), ("rtp://239.1.1.1:5008", 2)],
            [("rtp://239.1.1.1:5008", 2), ("rtp://239.1.1.1:5004", 2)],
            [("rtp://239.1.1.1:5004", 1), ("udp://239.1.1.1:5006", 1)],
            [("udp://239.1.1.1:5004", 1), ("udp://239.1.1.1:5005", 1)],
            [("rtp://239.1.1.1:5004", 2), ("rtp://239.1.1.2:5004", 2)],
            [("rtp://239.1.1.1:5004?interface=eth0", 2), ("rtp://239.1.1.1:5004?interface=eth1", 2)],
        ] {
            assert_eq!(last_error(&outputs), None, "{outputs:?}");
        }
        for (one, other) in [
            (("rtp://239.1.1.1:5004", 1), ("rtp://239.1.1.1:5004", 1)),
            (("rtp://239.1.1.1:5004", 1), ("udp://239.1.1.1:5005", 1)),
            (("rtp://239.1.1.1:5004", 2), ("rtp://239.1.1.1:5006", 1)),
            (("rtp://[ff15::1]:5004", 16), ("udp://[ff15::1]:5035", 1)),
            (("rtp://239.1.1.1:65534", 2), ("rtp://239.1.1.1:65534", 1)),
        ] {
            assert!(
                last_error(&[one, other]).is_some() && last_error(&[other, one]).is_some(),
                "{one:?} {other:?}"
            );
        }
        let error = last_error(&[("rtp://239.1.1.1:5004", 2), ("udp://239.1.1.1:5006", 1)]);
        let expected = "outputs overlap: rtp://239.1.1.1:5004 of channel news uses ports 5004 to 5007, \
                        udp://239.1.1.1:5006 of channel news uses port 5006; give each its own ports or address";
        assert_eq!(error.as_deref(), Some(expected));
    }
}
