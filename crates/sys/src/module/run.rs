//! One packet or any number of packets, as a value.

use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::net::SocketAddrAny;

use super::layout::{self, RtpTime};
use crate::mapping::Mapping;

/// Packet or run of packets: payload from a file or from memory, with or without headers, to the socket's
/// peer or to an address. The value also has the run's progress: sent packets are counted and not sent again.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    raw: layout::Run,
    rtp: Option<layout::Rtp>,
    /// Addresses of the given headers.
    given: Range<u64>,
    is_of_bytes: bool,
    /// Files, memory, headers, tables and addresses that are passed to the kernel.
    borrowed: PhantomData<&'a [u8]>,
}

/// Progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Packets.
    pub packets: u64,
    /// Sends made by the kernel: of a train, or of a single packet.
    pub trains: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// Payload bytes that the kernel copied, as far as the module knows.
    pub copied_bytes: u64,
}

/// Headers of the kernel's RTP engine.
#[derive(Clone, Copy, Debug)]
pub struct Rtp<'a> {
    /// Synchronisation source.
    pub ssrc: u32,
    /// Payload type, 0 to 127.
    pub payload_type: u8,
    /// Sequence number of the first packet; increases by one per packet.
    pub sequence: u16,
    /// Packets that carry the marker.
    pub marker: Marker,
    /// Timestamps of the packets.
    pub timestamps: Timestamps<'a>,
}

/// Choice of the packets that carry the marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// None.
    Never,
    /// All.
    Always,
    /// The last packet of each timestamp.
    LastOfGroup,
    /// The first packet of the run.
    First,
}

/// Timestamps of a run's packets.
#[derive(Clone, Copy, Debug)]
pub enum Timestamps<'a> {
    /// First timestamp, and an increment after each `packets` packets (0 means 1).
    Step {
        /// First timestamp.
        first: u32,
        /// Increment.
        ticks: u32,
        /// Number of packets per timestamp.
        packets: u32,
    },
    /// One entry for each group of packets; the run ends with the table.
    Table(&'a [RtpTime]),
}

impl<'a> Run<'a> {
    /// `length` bytes of a regular file from `offset` on, by reference; without a length, up to the end of
    /// the file.
    pub fn of_file(file: BorrowedFd<'a>, offset: u64, length: Option<u64>) -> Run<'a> {
        Run::new(file.as_raw_fd(), offset, length.unwrap_or(layout::TO_END))
    }

    /// Range of a mapping, by reference.
    ///
    /// # Errors
    /// `EINVAL` for a range outside the mapping.
    pub fn of_mapping(mapping: &'a Mapping, range: Range<usize>) -> io::Result<Run<'a>> {
        let vector = mapping.vector(range)?;
        Ok(Run::new(MEMORY, address(vector.iov_base), vector.iov_len as u64))
    }

    /// Bytes, which the kernel copies.
    pub fn of_bytes(bytes: &'a [u8]) -> Run<'a> {
        let run = Run::new(MEMORY, address(bytes.as_ptr()), bytes.len() as u64);
        Run { is_of_bytes: true, ..run.copied() }
    }

    fn new(file: i32, offset: u64, length: u64) -> Run<'a> {
        let size = size_of::<layout::Run>() as u32;
        let raw = layout::Run { size, file, offset, length, ..layout::Run::default() };
        Run { raw, rtp: None, given: 0..0, is_of_bytes: false, borrowed: PhantomData }
    }

    /// Cuts the payload into packets of this many bytes, the last perhaps shorter; the default is one packet.
    pub fn in_packets(mut self, bytes: u32) -> Run<'a> {
        self.raw.packet_bytes = bytes;
        self
    }

    /// Skips this many bytes of the source before each packet's payload, at most
    /// [`layout::HEADER_BYTES_MAX`]: stored headers. The run's source contains them, its packets do not.
    pub fn passing_over(mut self, bytes: u32) -> Run<'a> {
        self.raw.skip_bytes = bytes;
        self
    }

    /// Sends trains of up to this many packets, by UDP segmentation; 0 and 1 mean single packets.
    pub fn in_trains(mut self, packets: u32) -> Run<'a> {
        self.raw.train_packets = packets;
        self
    }

    /// Adds headers of `each` bytes, consecutive in `headers`; there must be one for each packet, so the run
    /// must have a length.
    pub fn with_headers(mut self, headers: &'a [u8], each: usize) -> Run<'a> {
        let headers = headers.as_ptr_range();
        self.given = address(headers.start)..address(headers.end);
        self.raw.header_kind = layout::HEADER_GIVEN;
        self.raw.header = self.given.start;
        self.raw.header_bytes = u32::try_from(each).unwrap_or(u32::MAX);
        self
    }

    /// Adds headers made by the kernel's RTP engine.
    pub fn with_rtp(mut self, rtp: Rtp<'a>) -> Run<'a> {
        let size = size_of::<layout::Rtp>() as u32;
        self.raw.header_kind = layout::HEADER_RTP;
        self.raw.header_bytes = size;
        let mut raw = layout::Rtp {
            size,
            ssrc: rtp.ssrc,
            sequence: rtp.sequence,
            payload_type: rtp.payload_type,
            marker: rtp.marker.raw(),
            ..layout::Rtp::default()
        };
        match rtp.timestamps {
            Timestamps::Step { first, ticks, packets } => {
                (raw.timestamp, raw.timestamp_step, raw.step_packets) = (first, ticks, packets);
            }
            Timestamps::Table(table) => {
                raw.table = address(table.as_ptr());
                raw.table_count = u32::try_from(table.len()).unwrap_or(u32::MAX);
            }
        }
        self.rtp = Some(raw);
        self
    }

    /// Sends to this address instead of the connected peer.
    pub fn to(mut self, to: &'a SocketAddrAny) -> Run<'a> {
        self.raw.address = address(to.as_ptr());
        self.raw.address_bytes = to.addr_len();
        self
    }

    /// Copies the payload: later writes to the file do not change packets.
    pub fn copied(mut self) -> Run<'a> {
        self.raw.flags |= layout::COPY;
        self
    }

    /// Never waits, neither for room in the socket nor for storage.
    pub fn without_waiting(mut self) -> Run<'a> {
        self.raw.flags |= layout::DONTWAIT;
        self
    }

    /// Progress of all calls.
    pub fn sent(&self) -> Sent {
        let layout::Run { packets, trains, bytes, copied_bytes, .. } = self.raw;
        Sent { packets, trains, bytes, copied_bytes }
    }

    /// Bytes left, including skipped bytes; `None` for a run up to the end of the file.
    pub fn left(&self) -> Option<u64> {
        Some(self.raw.length).filter(|length| *length != layout::TO_END)
    }

    /// State of the RTP engine after the sent packets, if the engine makes the headers.
    pub fn rtp(&self) -> Option<&layout::Rtp> {
        self.rtp.as_ref()
    }

    /// Returns whether the payload is memory that this process may write.
    pub(super) fn is_of_bytes(&self) -> bool {
        self.is_of_bytes
    }

    /// Structure for the kernel, valid while `self` stays in place and borrowed.
    ///
    /// # Errors
    /// `EINVAL` for fewer headers than packets: the kernel would read beyond them.
    pub(super) fn prepare(&mut self, socket: BorrowedFd<'_>) -> io::Result<*mut layout::Run> {
        if self.raw.header_kind == layout::HEADER_GIVEN && !self.has_headers() {
            return Err(Errno::INVAL.into());
        }
        self.raw.socket = socket.as_raw_fd();
        if let Some(rtp) = &mut self.rtp {
            self.raw.header = address(&raw mut *rtp);
        }
        Ok(&raw mut self.raw)
    }

    /// Returns whether there is a given header for each packet that is left.
    fn has_headers(&self) -> bool {
        let packets = match self.raw.packet_bytes {
            0 => 1,
            bytes => self.raw.length.div_ceil(u64::from(bytes) + u64::from(self.raw.skip_bytes)).max(1),
        };
        let wanted = packets.checked_mul(self.raw.header_bytes.into());
        wanted.is_some_and(|wanted| wanted <= self.given.end.saturating_sub(self.raw.header))
    }
}

impl Marker {
    fn raw(self) -> u8 {
        match self {
            Marker::Never => layout::MARKER_NEVER,
            Marker::Always => layout::MARKER_ALWAYS,
            Marker::LastOfGroup => layout::MARKER_LAST_OF_GROUP,
            Marker::First => layout::MARKER_FIRST,
        }
    }
}

/// File descriptor value that stands for the caller's memory.
pub(super) const MEMORY: i32 = -1;

/// Address for the kernel.
pub(super) fn address<T>(pointer: *const T) -> u64 {
    pointer.expose_provenance() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_range_outside_a_mapping_is_refused() {
        let mapping = Mapping::new(File::open("/proc/self/exe").unwrap(), 4096).unwrap();
        assert!(Run::of_mapping(&mapping, 4000..4097).is_err());
        assert_eq!(Run::of_mapping(&mapping, 1000..4096).unwrap().left(), Some(3096));
    }

    #[test]
    fn every_packet_needs_a_header() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = std::os::fd::AsFd::as_fd(&socket);
        let is_taken = |run: Run<'_>, headers: &[u8]| {
            let mut run = run.in_packets(10).with_headers(headers, 12);
            run.prepare(socket).is_ok()
        };
        let bytes = [0; 25];
        assert!(is_taken(Run::of_bytes(&bytes), &[0; 36]));
        assert!(!is_taken(Run::of_bytes(&bytes), &[0; 35]));
        let passing = |run: Run<'_>, headers: &[u8]| is_taken(run.passing_over(2), headers);
        assert!(passing(Run::of_bytes(&bytes[..24]), &[0; 24]));
        assert!(!passing(Run::of_bytes(&bytes), &[0; 24]));
        let file = File::open("/proc/self/exe").unwrap();
        let whole = Run::of_file(std::os::fd::AsFd::as_fd(&file), 0, None);
        assert!(!is_taken(whole, &[0; 36]));
    }

    #[test]
    fn the_rtp_state_is_pointed_to_where_it_is() {
        let timestamps = Timestamps::Step { first: 5, ticks: 0, packets: 0 };
        let rtp = Rtp { ssrc: 1, payload_type: 33, sequence: 2, marker: Marker::First, timestamps };
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = std::os::fd::AsFd::as_fd(&socket);
        let mut run = Box::new(Run::of_bytes(b"payload").with_rtp(rtp));
        let mut moved = *run.clone();
        let places = [&mut *run, &mut moved].map(|run| {
            run.prepare(socket).unwrap();
            assert_eq!(run.raw.header, address(run.rtp().unwrap()));
            run.raw.header
        });
        assert_ne!(places[0], places[1]);
    }
}
