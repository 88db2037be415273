//! Compares what a path sends with what it should send, byte for byte, before it is timed.
//!
//! Packets arrive at a socket of our own, over loopback and, where there is one, over the veth pair. On the
//! latter the kernel computes checksums and cuts trains before the device, and checks the sums on the other
//! side; a wrong one shows as a packet that does not arrive. RTP headers are read by a reader that others
//! wrote. Sender and receiver take turns on one thread, so nothing can be lost for want of room.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use rtp_types::RtpPacket;
use rustix::fs::{MemfdFlags, memfd_create};
use wirepath_datapath::{Extent, Headers, MappedFile, SendContext};

use crate::case::Case;
use crate::case::{Content, RUN};
use crate::error::{Doing, Error};
use crate::media::Media;
use crate::result::Transport;
use crate::send::{Sending, room};
use crate::sent::Sent;
use crate::subject::PathKind;
use crate::test_bed::TestBed;
use crate::test_socket::TestSocket;

/// Payload that each path sends over each way, in bytes.
const VOLUME: u64 = 2 << 20;

/// Payload may begin at any byte of a file: at an even one, where the kernel's checksums of spliced pages are
/// right, and at an odd one, where in some kernels they are not (Linux 6.12.95 and 6.18.44, MSG_MORE across a
/// page).
const STARTS: [u64; 2] = [0, 1];

/// Read timeout of a receiver on this machine.
const PATIENCE: Duration = Duration::from_secs(2);

/// Sends and compares.
///
/// # Errors
/// [`Error::Faulty`] with the place of a difference; [`Error::Unable`] if the path does not work here.
pub(crate) fn verify(
    case: &Case,
    test_bed: &TestBed,
    media: &mut Media,
    scratch: &mut SendContext,
) -> Result<(), Error> {
    let expected = Expected::read(media)?;
    let medium = media.prepared_for(case, scratch)?;
    let mut verify = || {
        over_all_ways(case, medium, &expected, test_bed, scratch)
            .and_then(|()| at_odd_offsets(case, &expected, test_bed, scratch))
    };
    test_bed.compute_checksums(false)?;
    let verified = verify();
    test_bed.compute_checksums(true)?;
    match verified {
        // Before Linux 6.12, trains need a device that computes checksums (EIO).
        Err(Error::Unable(_)) if case.path.sends_trains() => verify(),
        verified => verified,
    }
}

/// Ready packets begin where they begin: those of an even size never at an odd byte. So these paths send some
/// of an odd size too.
fn at_odd_offsets(
    case: &Case,
    expected: &Expected,
    test_bed: &TestBed,
    scratch: &mut SendContext,
) -> Result<(), Error> {
    let (Headers::Stored, Some(size)) = (case.headers(), case.size) else { return Ok(()) };
    if size < 2 || size % 2 == 1 {
        return Ok(());
    }
    let odd = Case { size: Some(size - 1), ..*case };
    let file = File::from(memfd_create("odd packets", MemfdFlags::CLOEXEC).doing("making a file in memory")?);
    let packets = expected.packets(size - 1);
    (&file).write_all(&packets).doing("writing packets into memory")?;
    let length = packets.len() as u64;
    let medium = MappedFile::new(file, length).doing("mapping packets in memory")?;
    if !case.path.needs_hot_memory() {
        return over_all_ways(&odd, &medium, expected, test_bed, scratch);
    }
    let region = medium.copy::<io::Error>(length, |_| Ok(())).map(Arc::new).doing("copying packets")?;
    medium.set_hot(Some(&region));
    let held = scratch.register_now(Arc::clone(&region));
    held.map_err(|error| Error::Unable(format!("its ring cannot hold packets of odd size: {error}")))?;
    let verified = over_all_ways(&odd, &medium, expected, test_bed, scratch);
    scratch.unregister(region.id());
    verified
}

fn over_all_ways(
    case: &Case,
    medium: &MappedFile,
    expected: &Expected,
    test_bed: &TestBed,
    scratch: &mut SendContext,
) -> Result<(), Error> {
    match case.transport {
        Transport::Udp => test_bed.datagram_pairs()?.into_iter().try_for_each(|(sender, receiver)| {
            receiver.set_read_timeout(Some(PATIENCE)).doing("setting up a socket")?;
            let socket = TestSocket::datagrams(case, sender)?;
            Verification { case, medium, socket: &socket, expected }.datagrams(&receiver, scratch)
        }),
        Transport::Tcp => test_bed.stream_pairs()?.into_iter().try_for_each(|(sender, receiver)| {
            receiver.set_read_timeout(Some(PATIENCE)).doing("setting up a connection")?;
            let socket = TestSocket::stream(case, sender)?;
            Verification { case, medium, socket: &socket, expected }.stream(&receiver, scratch)
        }),
    }
}

/// The payload's first bytes.
struct Expected(Vec<u8>);

impl Expected {
    fn read(media: &mut Media) -> Result<Expected, Error> {
        let mut bytes = vec![0; media.length().min(VOLUME) as usize];
        let payload = media.prepared(Content::Payload)?;
        payload.file().read_exact_at(&mut bytes, 0).doing("reading what is sent")?;
        Ok(Expected(bytes))
    }

    /// The same as ready packets.
    fn packets(&self, size: u16) -> Vec<u8> {
        let packets = self.0.chunks(size.into()).zip(0..);
        packets.flat_map(|(payload, index)| [&RUN.header(index).to_bytes(), payload].concat()).collect()
    }

    fn payload(&self, start: u64, length: usize) -> &[u8] {
        &self.0[start as usize..start as usize + length]
    }
}

struct Verification<'a> {
    case: &'a Case,
    medium: &'a MappedFile,
    socket: &'a TestSocket,
    expected: &'a Expected,
}

impl Verification<'_> {
    fn datagrams(&self, receiver: &UdpSocket, scratch: &mut SendContext) -> Result<(), Error> {
        let headers = self.case.headers();
        for start in STARTS {
            if headers == Headers::Stored && start > 0 {
                continue; // `at_odd_offsets` does these
            }
            let length = self.expected.0.len() as u64 - start;
            let walk = self.case.walk(length, length);
            let mut sending = Sending::new(self.case, self.medium, start, self.socket, scratch, 0);
            for stretch in walk.stretches(self.case.train_packets_received().into()) {
                sending.stretch(stretch, &mut Sent::default())?;
                let payload = self.expected.payload(start + stretch.start, stretch.bytes as usize);
                for (packet, index) in payload.chunks(walk.packet() as usize).zip(stretch.first..) {
                    self.receive(index, packet, receiver)?;
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
            PathKind::Stream(_) => headed(came, index as u32)?,
            PathKind::Block(_) => came,
        };
        same(payload, came)
            .map_err(|at| Error::Faulty(format!("packet {index} has a wrong byte at payload offset {at}")))
    }

    /// Sends blocks, from an even and from an odd byte on, and compares what arrives.
    fn stream(&self, mut receiver: &TcpStream, scratch: &mut SendContext) -> Result<(), Error> {
        let (PathKind::Block(path), TestSocket::Blocks(sink)) = (self.case.path, self.socket) else {
            unreachable!("a socket is made for its case")
        };
        let mut room_to_read = vec![0; 1 << 20];
        for start in STARTS {
            let length = self.expected.0.len() as u64 - start;
            for stretch in self.case.walk(length, length).stretches(1) {
                let mut offset = start + stretch.start;
                let end = offset + stretch.bytes;
                while offset < end {
                    let extent = Extent { offset, length: (end - offset).min(1 << 20) as usize };
                    match path.send(sink, self.medium, extent, scratch) {
                        Ok(bytes) => {
                            let came = &mut room_to_read[..bytes];
                            receiver.read_exact(came).map_err(|error| stuck(offset, &error))?;
                            same(self.expected.payload(offset, bytes), came).map_err(|at| {
                                Error::Faulty(format!("byte {} arrived wrong", offset + at as u64))
                            })?;
                            offset += bytes as u64;
                        }
                        Err(error) => drop(room(error, self.socket)?),
                    }
                }
            }
        }
        Ok(())
    }
}

fn stuck(offset: u64, error: &io::Error) -> Error {
    Error::Faulty(format!("bytes from {offset} on did not arrive ({error})"))
}

/// The payload of an RTP packet whose header is that of packet `index` of the run.
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

/// The place of the first difference.
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

    /// Promise: A wrong byte, length or header is found.
    #[test]
    fn a_wrong_byte_and_a_wrong_length_are_found() {
        assert_eq!(same(b"abcd", b"abcd"), Ok(()));
        assert_eq!(same(b"abcd", b"abxd"), Err(2));
        assert_eq!(same(b"abcd", b"abc"), Err(3));
        assert_eq!(same(b"abcd", b"abcde"), Err(4));
    }

    /// Promise: Every path is verified from odd file offsets, too.
    #[test]
    fn packets_of_odd_size_begin_at_odd_bytes_too() {
        let expected = Expected((0..=255).cycle().take(4000).collect());
        let packets = expected.packets(999);
        assert_eq!(packets.len(), 4000 + 5 * 12);
        assert_eq!(headed(&packets[1011..2022], 1).unwrap(), expected.payload(999, 999));
        assert_eq!(headed(&packets[4 * 1011..], 4).unwrap(), expected.payload(4 * 999, 4));
    }

    /// Promise: A wrong byte, length or header is found.
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
