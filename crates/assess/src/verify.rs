//! Verification of a path before it is timed: compares sent and received bytes.
//!
//! Packets are received by a local socket, over loopback and, if there is one, over the veth pair. On the
//! pair the kernel computes checksums and cuts trains before the device, and checks the sums on the other
//! side; a packet with a wrong checksum does not arrive. RTP headers are parsed by a third-party parser.
//! Sender and receiver take turns on one thread, so no packet is lost because of full buffers.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use rtp_types::RtpPacket;
use rustix::fs::{MemfdFlags, memfd_create};
use wirepath_datapath::{CopyLayout, Extent, Headers, MappedFile, SendContext};

use crate::case::{Case, Content, RUN};
use crate::error::{Doing, Error};
use crate::packetization::PacketRange;
use crate::result::Transport;
use crate::send::{Sending, room};
use crate::sent::Sent;
use crate::subject::PathKind;
use crate::test_bed::TestBed;
use crate::test_files::Media;
use crate::test_socket::{TestSink, TestSocket};

/// Payload bytes that each path sends over each route.
const VOLUME: u64 = 2 << 20;

/// Start offsets of the payload in a file: an even one, where the kernel's checksums of spliced pages are
/// right, and an odd one, where in some kernels they are wrong (Linux 6.12.95 and 6.18.44, MSG_MORE across a
/// page).
const STARTS: [u64; 2] = [0, 1];

/// Read timeout of a receiver on this machine.
const PATIENCE: Duration = Duration::from_secs(2);

/// Sends a sample of the payload, and compares the received data.
///
/// # Errors
/// [`Error::Faulty`] with the offset of a difference; [`Error::Unable`] if the path does not work here.
pub(crate) fn verify(
    case: &Case,
    test_bed: &TestBed,
    media: &mut Media,
    context: &mut SendContext,
) -> Result<(), Error> {
    let payload = read(media, media.length().min(VOLUME))?;
    let medium = media.prepared_for(case, context)?;
    let sample = Sample { case, medium, payload: &payload, parts: parts(case, payload.len()) };
    let mut verify =
        || sample.over_all_ways(test_bed, context).and_then(|()| sample.at_odd_offsets(test_bed, context));
    test_bed.compute_checksums(false)?;
    let verified = verify();
    test_bed.compute_checksums(true)?;
    match verified {
        // Before Linux 6.12, trains need a device that computes checksums (EIO).
        Err(Error::Unable(_)) if case.path.sends_trains() => verify(),
        verified => verified,
    }
}

/// Sends ranges, with checksums computed by the kernel, and compares the received data.
pub(crate) fn verify_stretches(
    case: &Case,
    stretches: Vec<PacketRange>,
    test_bed: &TestBed,
    media: &mut Media,
    context: &mut SendContext,
) -> Result<(), Error> {
    let end = stretches.iter().map(|stretch| stretch.start + stretch.bytes).max().unwrap_or_default();
    let payload = read(media, end)?;
    let medium = media.prepared_for(case, context)?;
    test_bed.compute_checksums(false)?;
    let sample = Sample { case, medium, payload: &payload, parts: vec![(0, stretches)] };
    let verified = sample.over_all_ways(test_bed, context);
    test_bed.compute_checksums(true)?;
    verified
}

/// First bytes of the payload.
fn read(media: &mut Media, length: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; length as usize];
    let payload = media.prepared(Content::Payload)?;
    payload.file().read_exact_at(&mut bytes, 0).doing("reading what is sent")?;
    Ok(bytes)
}

/// Ranges of `length` payload bytes that a case sends: from each start offset on, as many packets at a time
/// as a receiver has room for.
fn parts(case: &Case, length: usize) -> Vec<(u64, Vec<PacketRange>)> {
    // `at_odd_offsets` sends stored packets at odd offsets.
    let starts = STARTS.into_iter().filter(|start| *start == 0 || case.headers() != Headers::Stored);
    let part = |start| {
        let length = length as u64 - start;
        (start, case.walk(length, length).stretches(case.train_packets_received().into()).collect())
    };
    starts.map(part).collect()
}

/// Payload to send and compare.
struct Sample<'a> {
    case: &'a Case,
    medium: &'a MappedFile,
    payload: &'a [u8],
    /// Start offsets of the payload in the file, and the ranges to send from each.
    parts: Vec<(u64, Vec<PacketRange>)>,
}

impl Sample<'_> {
    /// Stored packets have fixed offsets: packets of an even size never begin at an odd byte. So these paths
    /// send some packets of an odd size too.
    fn at_odd_offsets(&self, test_bed: &TestBed, context: &mut SendContext) -> Result<(), Error> {
        let (Headers::Stored, Some(size)) = (self.case.headers(), self.case.size) else { return Ok(()) };
        if size < 2 || size % 2 == 1 {
            return Ok(());
        }
        let odd = Case { size: Some(size - 1), ..*self.case };
        let file =
            File::from(memfd_create("odd packets", MemfdFlags::CLOEXEC).doing("making a file in memory")?);
        let packets = ready_packets(self.payload, size - 1);
        (&file).write_all(&packets).doing("writing packets into memory")?;
        let length = packets.len() as u64;
        let medium = MappedFile::new(file, length).doing("mapping packets in memory")?;
        let parts = parts(&odd, self.payload.len());
        let sample = Sample { case: &odd, medium: &medium, payload: self.payload, parts };
        if !odd.path.needs_hot_memory() {
            return sample.over_all_ways(test_bed, context);
        }
        let region = medium.copy::<io::Error>(length, |_| Ok(())).map(Arc::new).doing("copying packets")?;
        medium.set_hot(CopyLayout::Packets, Some(&region));
        let held = context.register_now(Arc::clone(&region));
        held.map_err(|error| Error::Unable(format!("its ring cannot hold packets of odd size: {error}")))?;
        let verified = sample.over_all_ways(test_bed, context);
        context.unregister(region.id());
        verified
    }

    fn over_all_ways(&self, test_bed: &TestBed, context: &mut SendContext) -> Result<(), Error> {
        match self.case.transport {
            Transport::Udp => test_bed.datagram_pairs()?.into_iter().try_for_each(|(sender, receiver)| {
                receiver.set_read_timeout(Some(PATIENCE)).doing("setting up a socket")?;
                self.datagrams(&TestSocket::datagrams(self.case, sender)?, &receiver, context)
            }),
            Transport::Tcp => test_bed.stream_pairs()?.into_iter().try_for_each(|(sender, receiver)| {
                receiver.set_read_timeout(Some(PATIENCE)).doing("setting up a connection")?;
                self.stream(&TestSocket::stream(self.case, sender)?, &receiver, context)
            }),
        }
    }

    fn datagrams(
        &self,
        socket: &TestSocket,
        receiver: &UdpSocket,
        context: &mut SendContext,
    ) -> Result<(), Error> {
        self.each_packet(socket, context, |payload, index, _| self.receive(index, payload, receiver))
    }

    /// Sends all packets, and calls `receive` for each that was sent, with its payload, its number, and the position in
    /// the file from which its call sent.
    fn each_packet(
        &self,
        socket: &TestSocket,
        context: &mut SendContext,
        mut receive: impl FnMut(&[u8], u64, u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for (start, stretches) in &self.parts {
            let mut sending = Sending::new(self.case, self.medium, *start, socket, context, 0);
            for stretch in stretches {
                sending.stretch(*stretch, &mut Sent::default())?;
                let position = start + stretch.start;
                let payload = &self.payload[position as usize..][..stretch.bytes as usize];
                let packet = self.case.size.map_or(payload.len(), usize::from);
                for (payload, index) in payload.chunks(packet).zip(stretch.first..) {
                    receive(payload, index, position)?;
                }
            }
        }
        Ok(())
    }

    fn receive(&self, index: u64, payload: &[u8], receiver: &UdpSocket) -> Result<(), Error> {
        let mut room = [0; 65_536];
        let length = receiver.recv(&mut room).map_err(|error| {
            Error::Faulty(format!("packet {index} did not arrive, or with a wrong checksum ({error})"))
        })?;
        let came = &room[..length];
        let came = match self.case.path {
            PathKind::Block(_) => came,
            PathKind::Stream(_) | PathKind::Interleaved => headed(came, index as u32)?,
        };
        is_payload(payload, came, index)
    }

    /// Sends packets in a connection, and receives each as one frame.
    fn frames(
        &self,
        socket: &TestSocket,
        mut receiver: &TcpStream,
        context: &mut SendContext,
    ) -> Result<(), Error> {
        let mut room = Vec::new();
        self.each_packet(socket, context, |payload, index, position| {
            let mut head = [0; 4];
            receiver.read_exact(&mut head).map_err(|error| stuck(position, &error))?;
            room.resize(framed(head, payload.len(), index)?, 0);
            receiver.read_exact(&mut room).map_err(|error| stuck(position, &error))?;
            is_payload(payload, headed(&room, index as u32)?, index)
        })
    }

    fn stream(
        &self,
        socket: &TestSocket,
        mut receiver: &TcpStream,
        context: &mut SendContext,
    ) -> Result<(), Error> {
        let (path, sink) = match (self.case.path, &socket.sink) {
            (PathKind::Block(path), TestSink::Blocks(sink)) => (path, sink),
            (_, TestSink::Frames(_)) => return self.frames(socket, receiver, context),
            _ => unreachable!("a socket is made for its case"),
        };
        let mut room_to_read = vec![0; 1 << 20];
        for (start, stretch) in
            self.parts.iter().flat_map(|(start, all)| all.iter().map(move |one| (start, one)))
        {
            let mut offset = start + stretch.start;
            let end = offset + stretch.bytes;
            while offset < end {
                let extent = Extent { offset, length: (end - offset).min(1 << 20) as usize };
                match path.send(sink, self.medium, extent, context) {
                    Ok(bytes) => {
                        let came = &mut room_to_read[..bytes];
                        receiver.read_exact(came).map_err(|error| stuck(offset, &error))?;
                        same(&self.payload[offset as usize..][..bytes], came).map_err(|at| {
                            Error::Faulty(format!("byte {} arrived wrong", offset + at as u64))
                        })?;
                        offset += bytes as u64;
                    }
                    Err(error) => drop(room(error, socket)?),
                }
            }
        }
        Ok(())
    }
}

fn ready_packets(payload: &[u8], size: u16) -> Vec<u8> {
    let packets = payload.chunks(size.into()).zip(0..);
    packets.flat_map(|(payload, index)| [&RUN.header(index).to_bytes(), payload].concat()).collect()
}

fn stuck(offset: u64, error: &io::Error) -> Error {
    Error::Faulty(format!("bytes from {offset} on did not arrive ({error})"))
}

/// Length of the packet behind this framing: `$`, channel 0, length (RFC 2326 section 10.12), if it is that of
/// `payload` bytes behind an RTP header.
fn framed(head: [u8; 4], payload: usize, index: u64) -> Result<usize, Error> {
    let length = wirepath_datapath::rtp::HEADER_LENGTH + payload;
    let expected = [0x24, 0, (length >> 8) as u8, length as u8];
    match head == expected {
        true => Ok(length),
        false => Err(Error::Faulty(format!(
            "packet {index} has a wrong framing: {head:?} instead of {expected:?}"
        ))),
    }
}

fn is_payload(expected: &[u8], came: &[u8], index: u64) -> Result<(), Error> {
    same(expected, came)
        .map_err(|at| Error::Faulty(format!("packet {index} has a wrong byte at payload offset {at}")))
}

/// Payload of an RTP packet whose header is that of packet `index` of the run.
fn headed(packet: &[u8], index: u32) -> Result<&[u8], Error> {
    let wrong = |what: String| Error::Faulty(format!("packet {index} has a wrong RTP header: {what}"));
    let read = RtpPacket::parse(packet).map_err(|error| wrong(error.to_string()))?;
    let header = RUN.header(index);
    let came = (
        read.version(),
        read.marker_bit(),
        read.payload_type(),
        read.sequence_number(),
        read.timestamp(),
        read.ssrc(),
    );
    let expected = (2, header.marker, header.payload_type, header.sequence, header.timestamp, header.ssrc);
    match came == expected && read.padding().is_none() && read.n_csrcs() == 0 && read.extension().is_none() {
        true => Ok(&packet[wirepath_datapath::rtp::HEADER_LENGTH..]),
        false => Err(wrong(format!("{came:?} instead of {expected:?}"))),
    }
}

/// Offset of the first difference.
fn same(expected: &[u8], came: &[u8]) -> Result<(), usize> {
    if expected == came {
        return Ok(());
    }
    let differ = expected.iter().zip(came).position(|(one, other)| one != other);
    Err(differ.unwrap_or(expected.len().min(came.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: Verification finds a wrong byte, length or header.
    #[test]
    fn a_wrong_byte_and_a_wrong_length_are_found() {
        assert_eq!(same(b"abcd", b"abcd"), Ok(()));
        assert_eq!(same(b"abcd", b"abxd"), Err(2));
        assert_eq!(same(b"abcd", b"abc"), Err(3));
        assert_eq!(same(b"abcd", b"abcde"), Err(4));
    }

    /// Promise: Verification finds a wrong byte, length or header.
    #[test]
    fn a_wrong_framing_is_found_in_each_of_its_bytes() {
        let head = [b'$', 0, 2, 12];
        assert_eq!(framed(head, 512, 7).unwrap(), 524);
        for byte in 0..4 {
            let mut wrong = head;
            wrong[byte] ^= 1;
            assert!(matches!(framed(wrong, 512, 7), Err(Error::Faulty(_))), "byte {byte}");
        }
    }

    /// Promise: Every path is also verified from odd file offsets.
    #[test]
    fn packets_of_odd_size_begin_at_odd_bytes_too() {
        let payload: Vec<u8> = (0..=255).cycle().take(4000).collect();
        let packets = ready_packets(&payload, 999);
        assert_eq!(packets.len(), 4000 + 5 * 12);
        assert_eq!(headed(&packets[1011..2022], 1).unwrap(), &payload[999..1998]);
        assert_eq!(headed(&packets[4 * 1011..], 4).unwrap(), &payload[4 * 999..]);
    }

    /// Promise: Verification finds a wrong byte, length or header.
    #[test]
    fn a_wrong_header_is_found_in_each_of_its_fields() {
        let mut packet = RUN.header(7).to_bytes().to_vec();
        packet.extend_from_slice(b"payload");
        assert_eq!(headed(&packet, 7).unwrap(), b"payload");
        for byte in 0..12 {
            let mut wrong = packet.clone();
            wrong[byte] ^= 1;
            assert!(matches!(headed(&wrong, 7), Err(Error::Faulty(_))), "byte {byte}");
        }
        assert!(headed(&packet[..11], 7).is_err());
    }
}
