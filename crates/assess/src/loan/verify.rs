//! Compares what sends bring with what they should, byte for byte, before they are timed: over loopback and,
//! where there is one, over the veth pair, with checksums computed by the kernel.

use std::io::Read;
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use wirepath_datapath::{BlockPath, Extent, MappedFile, SendContext};

use super::sends::{How, Sends};
use crate::error::{Doing, Error};
use crate::result::Transport;
use crate::send::{Sending, room};
use crate::sent::Sent;
use crate::test_bed::TestBed;
use crate::test_socket::TestSocket;

/// Payload that is compared, at least, and sends, at least.
const VOLUME: u64 = 128 << 10;
const SENDS: u64 = 4;

/// Read timeout of a receiver on this machine.
const PATIENCE: Duration = Duration::from_secs(2);

/// Sends and compares.
///
/// # Errors
/// [`Error::Faulty`] with the place of a difference; [`Error::Unable`] if it does not work here.
pub(super) fn verify(
    sends: &Sends,
    file: u64,
    medium: &MappedFile,
    test_bed: &TestBed,
    scratch: &mut SendContext,
) -> Result<(), Error> {
    let volume = VOLUME.max(SENDS * u64::from(sends.size));
    let end = sends.stretches(file, volume).map(|send| send.start + send.bytes).max().unwrap_or_default();
    let mut expected = vec![0; end as usize];
    medium.file().read_exact_at(&mut expected, 0).doing("reading what is sent")?;
    let expected = Expected { bytes: expected, file, volume };
    let case = sends.case();
    test_bed.compute_checksums(false)?;
    let verified = match sends.transport {
        Transport::Udp => test_bed.datagram_pairs()?.into_iter().try_for_each(|(sender, receiver)| {
            receiver.set_read_timeout(Some(PATIENCE)).doing("setting up a socket")?;
            let socket = TestSocket::datagrams(&case, sender)?;
            datagrams(sends, &expected, medium, &socket, &receiver, scratch)
        }),
        Transport::Tcp => test_bed.stream_pairs()?.into_iter().try_for_each(|(sender, receiver)| {
            receiver.set_read_timeout(Some(PATIENCE)).doing("setting up a connection")?;
            let socket = TestSocket::stream(&case, sender)?;
            stream(sends, &expected, medium, &socket, &receiver, scratch)
        }),
    };
    test_bed.compute_checksums(true)?;
    verified
}

/// Expected bytes.
struct Expected {
    /// The file's first bytes, as many as are sent.
    bytes: Vec<u8>,
    /// Length of the file.
    file: u64,
    /// Bytes to send.
    volume: u64,
}

fn datagrams(
    sends: &Sends,
    expected: &Expected,
    medium: &MappedFile,
    socket: &TestSocket,
    receiver: &UdpSocket,
    scratch: &mut SendContext,
) -> Result<(), Error> {
    let case = sends.case();
    let mut sending = Sending::new(&case, medium, 0, socket, scratch, 0);
    let mut room = vec![0; 1 << 16];
    for stretch in sends.stretches(expected.file, expected.volume) {
        sending.stretch(stretch, &mut Sent::default())?;
        let sent = &expected.bytes[stretch.start as usize..][..stretch.bytes as usize];
        for (datagram, number) in sent.chunks(sends.segment.into()).zip(1..) {
            let what = || format!("datagram {number} of the send from byte {}", stretch.start);
            let length = receiver.recv(&mut room).map_err(|error| {
                Error::Faulty(format!("{} did not arrive, or with a wrong checksum ({error})", what()))
            })?;
            if room[..length] != *datagram {
                return Err(Error::Faulty(format!("{} arrived with other bytes or another length", what())));
            }
        }
    }
    Ok(())
}

fn stream(
    sends: &Sends,
    expected: &Expected,
    medium: &MappedFile,
    socket: &TestSocket,
    mut receiver: &TcpStream,
    scratch: &mut SendContext,
) -> Result<(), Error> {
    let TestSocket::Blocks(sink) = socket else { unreachable!("blocks go to a socket for blocks") };
    let path = if sends.how == How::Copied { BlockPath::Loan } else { BlockPath::MmapZerocopy };
    let mut came = vec![0; sends.size as usize];
    for stretch in sends.stretches(expected.file, expected.volume) {
        let (mut offset, end) = (stretch.start, stretch.start + stretch.bytes);
        while offset < end {
            let extent = Extent { offset, length: (end - offset) as usize };
            match path.send(sink, medium, extent, scratch) {
                Ok(bytes) => {
                    let wrong = |what: &str| Error::Faulty(format!("bytes from {offset} on {what}"));
                    let came = &mut came[..bytes];
                    receiver.read_exact(came).map_err(|error| wrong(&format!("did not arrive ({error})")))?;
                    if *came != expected.bytes[offset as usize..][..bytes] {
                        return Err(wrong("arrived with other bytes"));
                    }
                    offset += bytes as u64;
                }
                Err(error) => drop(room(error, socket)?),
            }
        }
    }
    Ok(())
}
