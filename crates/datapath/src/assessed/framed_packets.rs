//! Packets in a connection, each behind its framing (RFC 2326 section 10.12), one by one: the papers' streaming
//! over TCP (table 2). Their programs sent no framing, so that a receiver could not find the packets. The calls
//! are those of the same path over UDP; a server sends trains instead, see [`FrameTrain::send`].

use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use rustix::io::writev;
use rustix::net::{SendFlags, send};
use wirepath_sys::errno_of;
use wirepath_sys::frames::Frame;

use crate::interleaved::{FrameTrain, TakenFrames, failed};
use crate::serving::sendfile;
use crate::sink::FLAGS;
use crate::{DataPath, MappedFile, SendContext, SendError};

/// The head of a frame waits for its payload, which makes one segment of them where the connection is idle.
const WAIT_FOR_PAYLOAD: SendFlags = FLAGS.union(SendFlags::MORE);

impl FrameTrain<'_> {
    /// Sends packet by packet, as `path` does over UDP, as many frames as the connection accepts. Never blocks,
    /// allocates nothing; the socket must be non-blocking.
    ///
    /// # Errors
    ///
    /// As [`FrameTrain::send`]; [`SendError::Unsupported`] for paths other than [`DataPath::FRAMED`].
    pub fn send_by(
        &self,
        path: DataPath,
        socket: BorrowedFd<'_>,
        context: &mut SendContext,
    ) -> Result<TakenFrames, SendError> {
        for packets in 0..self.train.packets() {
            let frame = self.frame(packets);
            let length = frame.head_length + frame.payload.len();
            match send_frame(path, frame, self.file, socket, context) {
                Ok(bytes) if bytes == length => {}
                Ok(bytes) => return Ok(TakenFrames { packets, bytes }),
                Err(error) if packets == 0 => return Err(error),
                // The caller tries the rest later, and gets the error then if it persists.
                Err(_) => return Ok(TakenFrames { packets, bytes: 0 }),
            }
        }
        Ok(TakenFrames { packets: self.train.packets(), bytes: 0 })
    }
}

/// Sends a frame; returns how many of its bytes the connection accepted.
fn send_frame(
    path: DataPath,
    frame: Frame,
    file: &MappedFile,
    socket: BorrowedFd<'_>,
    context: &mut SendContext,
) -> Result<usize, SendError> {
    let Frame { head, head_length, payload } = frame;
    let head = &head[..head_length];
    let offset = payload.start as u64;
    match path {
        DataPath::ReadSendRtp => {
            // The longest frame is longer than the buffer; its end is then sent like that of a frame that was cut.
            let whole = context.buffer.first(head.len() + payload.len());
            let (start, room) = whole.split_at_mut(head.len());
            start.copy_from_slice(head);
            file.read(offset, room)?;
            send(socket, whole, FLAGS).map_err(|errno| failed("send", errno))
        }
        DataPath::ReadWritev => {
            let room = context.buffer.first(payload.len());
            file.read(offset, room)?;
            let parts = [IoSlice::new(head), IoSlice::new(room)];
            writev(socket, &parts).map_err(|errno| failed("writev", errno))
        }
        DataPath::MmapWritev => {
            let frame = Frame { payload, ..frame };
            let sent = context.frames.send(socket, &file.mapping, std::iter::once(frame));
            sent.map_err(|error| failed("sendmsg", errno_of(&error)))
        }
        DataPath::MmapSendRtp => {
            let length = payload.len();
            behind_head(socket, head, length, || {
                let sent = file.mapping.copy(socket, payload);
                sent.map_err(|error| failed("send", errno_of(&error)))
            })
        }
        DataPath::RtpSendfile => behind_head(socket, head, payload.len(), || {
            sendfile::to_stream(socket, file.file(), offset, payload.len())
        }),
        other => Err(SendError::Unsupported { call: other.name(), errno: rustix::io::Errno::OPNOTSUPP }),
    }
}

/// Sends the head of a frame, and by `send_payload` its payload; returns how many bytes of both the connection
/// accepted. A payload that fails leaves the frame cut behind its head, and is tried again with the rest of it.
fn behind_head(
    socket: BorrowedFd<'_>,
    head: &[u8],
    payload: usize,
    send_payload: impl FnOnce() -> Result<usize, SendError>,
) -> Result<usize, SendError> {
    // Nothing would end the wait for a payload that there is not.
    let flags = if payload == 0 { FLAGS } else { WAIT_FOR_PAYLOAD };
    let sent = send(socket, head, flags).map_err(|errno| failed("send", errno))?;
    if sent < head.len() || payload == 0 {
        return Ok(sent);
    }
    Ok(sent + send_payload().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use rustix::io::Errno;

    use super::*;
    use crate::Train;
    use crate::interleaved::tests::{expected, stored};
    use crate::train::tests::HEADERS;

    fn pair() -> (UnixStream, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        (near, far)
    }

    /// Promise: Over TCP, the papers' paths send each packet as one frame: `$`, channel, length, packet.
    #[test]
    fn every_path_sends_the_same_frames() {
        let (file, train) = stored();
        for (path, headers) in DataPath::FRAMED.into_iter().flat_map(|path| HEADERS.map(|one| (path, one))) {
            for skip in [0, 10] {
                let frames = FrameTrain { channel: 4, file: &file, train: Train { skip, ..train }, headers };
                let (near, mut far) = pair();
                let taken = frames.send_by(path, near.as_fd(), &mut SendContext::default());
                assert_eq!(taken, Ok(TakenFrames { packets: 3, bytes: 0 }), "{path}");
                drop(near);
                let mut bytes = Vec::new();
                far.read_to_end(&mut bytes).unwrap();
                assert_eq!(bytes, expected(&frames), "{path}, {headers:?}, skip {skip}");
            }
        }
    }

    /// Promise: A frame that a full connection accepts only in part is completed before other data is sent.
    #[test]
    fn a_full_connection_takes_whole_frames_and_a_part_of_one() {
        let bytes: Vec<u8> =
            (0..1 << 20).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &bytes).unwrap();
        let file = MappedFile::new(file, bytes.len() as u64).unwrap();
        let (_, example) = stored();
        let train = Train { length: bytes.len() as u32, packet_size: 1001, ..example };
        for path in DataPath::FRAMED {
            let headers = crate::Headers::Generated;
            let frames = FrameTrain { channel: 0, file: &file, train, headers };
            let (near, mut far) = pair();
            let (mut context, mut sent) = (SendContext::default(), Vec::new());
            let mut rest = Some(train);
            // Nobody reads during the first call, so it fills the connection.
            let (begin, begun) = std::sync::mpsc::channel::<()>();
            let reading = std::thread::spawn(move || {
                let mut bytes = Vec::new();
                begun.recv().unwrap_err();
                far.read_to_end(&mut bytes).map(|_| bytes)
            });
            let mut begin = Some(begin);
            while let Some(train) = rest {
                let frames = FrameTrain { train, ..frames };
                let result = frames.send_by(path, near.as_fd(), &mut context);
                drop(begin.take());
                match result {
                    Ok(taken) => {
                        let mut left = Vec::new();
                        if taken.bytes > 0 {
                            frames.read_rest(taken, &mut left).unwrap();
                        }
                        near.set_nonblocking(false).unwrap();
                        std::io::Write::write_all(&mut &near, &left).unwrap();
                        near.set_nonblocking(true).unwrap();
                        sent.push(taken.packets);
                        rest = train.after(taken.packets + u32::from(taken.bytes > 0));
                    }
                    Err(SendError::Full { .. }) => {}
                    Err(error) => panic!("{path}: {error}"),
                }
            }
            drop(near);
            assert!(reading.join().unwrap().unwrap() == expected(&frames), "{path}: other bytes arrived");
            assert!(sent.len() > 1, "{path}: the connection was never full");
        }
    }

    #[test]
    fn what_fails_is_said_by_its_call() {
        let (file, train) = stored();
        let frames = FrameTrain { channel: 0, file: &file, train, headers: HEADERS[2] };
        let refused = |path| {
            let (near, far) = pair();
            drop(far);
            frames.send_by(path, near.as_fd(), &mut SendContext::default()).unwrap_err()
        };
        let calls = ["send", "writev", "send", "sendmsg", "send"];
        for (path, call) in DataPath::FRAMED.into_iter().zip(calls) {
            assert_eq!(refused(path), SendError::Other { call, errno: Errno::PIPE }, "{path}");
        }
        let unknown = SendError::Unsupported { call: "gso_writev", errno: Errno::OPNOTSUPP };
        assert_eq!(refused(DataPath::GsoWritev), unknown);
    }
}
