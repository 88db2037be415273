//! Protocol of the control connection: messages of fixed lengths, numbers in network byte order.
//!
//! ```text
//! sender                                   receiver
//! Request: transport, packet size, port -->
//!                                       <-- Answer: port, window
//! data to that port ...                 <-- Report: what came so far (UDP: each quarter of the window)
//! Question: all that was sent           -->
//!                                       <-- Report, marked as the last
//! ```

use crate::result::Transport;

/// First bytes of a request; the last byte is the version.
const MAGIC: [u8; 8] = *b"wirepat\x01";

/// Request: announcement of the data to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Transport protocol.
    pub transport: Transport,
    /// Bytes of a datagram; unused for TCP.
    pub packet: u16,
    /// UDP source port of the datagrams; 0 for TCP.
    pub port: u16,
}

impl Request {
    /// Bytes of a request.
    pub const LENGTH: usize = 16;

    /// Wire format.
    pub fn write(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8] = matches!(self.transport, Transport::Tcp).into();
        bytes[10..12].copy_from_slice(&self.packet.to_be_bytes());
        bytes[12..14].copy_from_slice(&self.port.to_be_bytes());
        bytes
    }

    /// Parses a request; `None` if it is not valid.
    pub fn read(bytes: &[u8; Self::LENGTH]) -> Option<Request> {
        let number = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let (packet, port) = (number(10), number(12));
        let transport = match bytes[8] {
            0 if packet > 0 && port > 0 => Transport::Udp,
            1 => Transport::Tcp,
            _ => return None,
        };
        (bytes[..8] == MAGIC).then_some(Request { transport, packet, port })
    }
}

/// Answer: destination for the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Port of the receiver.
    pub port: u16,
    /// Bytes that may be in flight: sent and not yet reported.
    pub window: u64,
}

impl Answer {
    /// Bytes of an answer.
    pub const LENGTH: usize = 10;

    /// Wire format.
    pub fn write(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..2].copy_from_slice(&self.port.to_be_bytes());
        bytes[2..].copy_from_slice(&self.window.to_be_bytes());
        bytes
    }

    /// Parses an answer; `None` if it is not valid.
    pub fn read(bytes: &[u8; Self::LENGTH]) -> Option<Answer> {
        let (port, window) = bytes.split_at(2);
        let port = u16::from_be_bytes(port.try_into().ok()?);
        let window = u64::from_be_bytes(window.try_into().ok()?);
        (port > 0 && window > 0).then_some(Answer { port, window })
    }
}

/// Report of received data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Payload bytes of the transport protocol.
    pub bytes: u64,
    /// Number of datagrams; 0 for TCP.
    pub packets: u64,
    /// True for the last report, which the sender asked for.
    pub last: bool,
}

impl Report {
    /// Bytes of a report.
    pub const LENGTH: usize = 17;

    /// Wire format.
    pub fn write(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&self.bytes.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.packets.to_be_bytes());
        bytes[16] = self.last.into();
        bytes
    }

    /// Parses a report.
    pub fn read(bytes: &[u8; Self::LENGTH]) -> Report {
        let number =
            |at: usize| bytes[at..at + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        Report { bytes: number(0), packets: number(8), last: bytes[16] != 0 }
    }
}

/// Bytes of the sender's question, which is the total number of bytes sent.
pub const QUESTION_LENGTH: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_back() {
        for transport in [Transport::Udp, Transport::Tcp] {
            let request = Request { transport, packet: 1472, port: 40_000 };
            assert_eq!(Request::read(&request.write()), Some(request));
        }
        let answer = Answer { port: 9000, window: 1 << 40 };
        assert_eq!(Answer::read(&answer.write()), Some(answer));
        let report = Report { bytes: u64::MAX - 1, packets: 77, last: true };
        assert_eq!(Report::read(&report.write()), report);
    }

    #[test]
    fn what_is_no_request_is_none() {
        let good = Request { transport: Transport::Udp, packet: 1, port: 1 }.write();
        for at in [0, 7, 8] {
            let mut bad = good;
            bad[at] ^= 0x42;
            assert_eq!(Request::read(&bad), None, "byte {at}");
        }
        assert_eq!(Request::read(&Request { transport: Transport::Udp, packet: 0, port: 1 }.write()), None);
        assert_eq!(Answer::read(&[0; Answer::LENGTH]), None);
    }
}
