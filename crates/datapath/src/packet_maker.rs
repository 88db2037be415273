//! Trains whose packets are made in memory: read into a buffer, written packet by packet into another, and
//! sent from there. Packets are encrypted (SRTP, RFC 3711), have a header extension (ONVIF replay), or both.
//!
//! To a UDP socket a train is one `sendto` with UDP_SEGMENT, or one `sendto` for each packet if the route
//! does not support it. To an RTSP connection it is one `send` of frames. The bytes are processed three
//! times: by a `pread`, the encryption or copy, and the copy into the socket. Encryption needs the bytes in
//! user space, so no path by reference is possible; few sessions have extensions, so they have no path of
//! their own.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use wirepath_media::image::MAX_TRAIN_BYTES;
use wirepath_media::replay::{EXTENSION_BIT, EXTENSION_LENGTH, Extension};
use wirepath_media::rtp::HEADER_LENGTH;
use wirepath_media::srtp::{MasterKey, RtpProtector, TAG_LENGTH};
use wirepath_sys::datagrams;

use crate::buffer::Buffer;
use crate::interleaved::{FRAMING_LENGTH, FrameTrain, framing, send_bytes};
use crate::joined_trains::{made_headers, whole};
use crate::{DataPath, SendContext, SendError, StoredTrains, Train, UdpSink};

/// Maker of the packets of a stream's trains.
pub struct PacketMaker {
    /// Encryption.
    protector: Option<RtpProtector>,
    /// Extensions of the packets of the next train.
    extensions: Option<Extensions>,
}

/// Header extensions of the packets of a train. Each packet has one, so that all packets but the last have
/// one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extensions {
    /// Extension of the first packet. The others have the same CSeq, and the time that their timestamps
    /// follow after. They are clean if they have the timestamp of the first one, or if all are.
    pub first: Extension,
    /// Ticks of the timestamps in a second, not 0.
    pub clock_hz: u32,
    /// True if all access units are random access points, as those of sound are.
    pub all_clean: bool,
    /// Stored timestamp of the last access unit before a gap or the end, if it may be in the train.
    pub end: Option<u32>,
}

/// Packets in a buffer.
struct MadePackets {
    /// Index of the first packet, as counted by SRTP.
    first: u64,
    packets: u32,
    /// Length of all of them, including the bytes in front of each.
    length: usize,
    /// Length of each except the last, including the bytes in front of it.
    packet_size: usize,
}

impl Extensions {
    /// Extension of packet `index` of a train.
    fn of(&self, train: &Train, index: u32) -> Extension {
        let timestamp = |index| train.run.header(train.first + index).timestamp;
        let ticks = timestamp(index).wrapping_sub(timestamp(0));
        let later_us = i64::from(ticks as i32) * 1_000_000 / i64::from(self.clock_hz.max(1));
        let end = self.end == Some(timestamp(index));
        Extension {
            wall_us: self.first.wall_us.saturating_add(later_us),
            clean: self.all_clean || self.first.clean && ticks == 0,
            end,
            discontinuity: self.first.discontinuity && index == 0,
            terminal: self.first.terminal && end,
            cseq: self.first.cseq,
        }
    }
}

impl PacketMaker {
    /// Maker for a stream before its first packet. Packets are encrypted if there is a key.
    pub fn new(key: Option<&MasterKey>) -> PacketMaker {
        PacketMaker { protector: key.map(RtpProtector::new), extensions: None }
    }

    /// Bytes that are added to each packet by encryption, and by extensions if packets have some.
    pub fn added_length(key: Option<&MasterKey>, has_extensions: bool) -> u16 {
        let tag = if key.is_some() { TAG_LENGTH } else { 0 };
        let extension = if has_extensions { EXTENSION_LENGTH } else { 0 };
        (tag + extension) as u16
    }

    /// Sets the extensions of the next train, or of the rest of it.
    pub fn set_extensions(&mut self, extensions: Option<Extensions>) {
        self.extensions = extensions;
    }

    /// Returns whether packets are encrypted.
    pub fn encrypts(&self) -> bool {
        self.protector.is_some()
    }

    /// Sends the first packets, at least one, of trains that are stored one after another to a sink that was set up for
    /// `path`; returns how many. Never blocks; allocates only the first time.
    ///
    /// # Errors
    /// As [`DataPath::send`]; [`SendError::Other`] if the key is used up.
    pub fn send(
        &mut self,
        sink: &UdpSink,
        trains: StoredTrains<'_>,
        context: &mut SendContext,
        path: DataPath,
    ) -> Result<u32, SendError> {
        const CALL: &str = "sendto";
        let (buffer, output) = (&mut context.buffer, &mut context.made);
        let packets = self.make(trains, buffer, output.all(), &[])?;
        let bytes = &output.all()[..packets.length];
        let sent = match path.segments() {
            true => {
                let size = (packets.packets > 1).then_some(packets.packet_size as u16);
                let sent = datagrams::send(sink.socket(), &[IoSlice::new(bytes)], size, None);
                sent.map(|_| packets.packets).map_err(|error| SendError::of_udp_io(CALL, &error))?
            }
            false => {
                let mut sent = 0;
                for packet in bytes.chunks(packets.packet_size) {
                    match datagrams::send(sink.socket(), &[IoSlice::new(packet)], None, None) {
                        Ok(_) => sent += 1,
                        Err(error) if sent == 0 => return Err(SendError::of_udp_io(CALL, &error)),
                        // The caller tries the rest later, and gets the error then if it persists.
                        Err(_) => break,
                    }
                }
                sent
            }
        };
        self.note_sent(&packets, sent);
        Ok(sent)
    }

    /// Sends the train's first packets, at least one, as frames of an RTSP connection; returns how many. If
    /// only part of the last frame was accepted, the rest of it is put into `rest`.
    ///
    /// # Errors
    /// As [`FrameTrain::send`]; [`SendError::Other`] if the key is used up.
    pub fn send_frames(
        &mut self,
        socket: BorrowedFd<'_>,
        frames: &FrameTrain<'_>,
        context: &mut SendContext,
        rest: &mut Vec<u8>,
    ) -> Result<u32, SendError> {
        let (buffer, output) = (&mut context.buffer, &mut context.made);
        let FrameTrain { channel, file, train, headers } = *frames;
        let trains = StoredTrains { file, trains: &[train], headers };
        let packets = self.make(trains, buffer, output.all(), &[channel])?;
        let bytes = &output.all()[..packets.length];
        let taken = send_bytes(socket, bytes)?;
        let sent = taken.div_ceil(packets.packet_size);
        let end = (sent * packets.packet_size).min(bytes.len());
        rest.extend_from_slice(&bytes[taken..end]);
        self.note_sent(&packets, sent as u32);
        Ok(sent as u32)
    }

    /// Makes as many packets as fit `output`, each after its framing if there is a channel.
    fn make(
        &self,
        trains: StoredTrains<'_>,
        buffer: &mut Buffer,
        output: &mut [u8],
        channel: &[u8],
    ) -> Result<MadePackets, SendError> {
        let StoredTrains { file, trains, headers } = trains;
        let train = whole(trains).ok_or_else(too_long)?;
        let framed = if channel.is_empty() { 0 } else { FRAMING_LENGTH };
        let stored = usize::from(train.packet_size).saturating_sub(headers.stored_length());
        let extension_length = if self.extensions.is_some() { EXTENSION_LENGTH } else { 0 };
        let tag_length = if self.protector.is_some() { TAG_LENGTH } else { 0 };
        let header_length = HEADER_LENGTH + extension_length;
        let around = framed + header_length + tag_length;
        let most = (MAX_TRAIN_BYTES as usize).min(output.len()) / (stored + around);
        let train = &train.up_to(most.max(1) as u32);
        let first_sequence = train.header_fields(0, headers).sequence;
        let first = match &self.protector {
            Some(protector) => protector.index(first_sequence).map_err(|_| used_up())?,
            None => first_sequence.into(),
        };
        let extent = train.extent();
        let read = buffer.first(extent.length);
        file.read(extent.offset, read)?;
        let mut length = 0;
        for (index, made) in (0..train.packets()).zip(made_headers(trains, headers)) {
            let payload = train.payload(index, headers);
            let start = (payload.offset - extent.offset) as usize;
            let payload = read.get(start..start + payload.length).ok_or_else(too_long)?;
            let size = header_length + payload.len() + tag_length;
            let place = output.get_mut(length..length + framed + size).ok_or_else(too_long)?;
            let (frame, packet) = place.split_at_mut(framed);
            if let [channel] = channel {
                frame.copy_from_slice(&framing(*channel, size as u16));
            }
            let mut header = match train.is_as_stored(index, headers) {
                true => {
                    *read.get(start - HEADER_LENGTH..).and_then(<[u8]>::first_chunk).ok_or_else(too_long)?
                }
                false => made,
            };
            let extension = match &self.extensions {
                Some(extensions) => &extensions.of(train, index).to_bytes()[..],
                None => &[],
            };
            if !extension.is_empty() {
                header[0] |= EXTENSION_BIT;
            }
            match &self.protector {
                Some(protector) => {
                    protector.protect(first + u64::from(index), &header, extension, payload, packet);
                }
                None => {
                    packet[..HEADER_LENGTH].copy_from_slice(&header);
                    packet[HEADER_LENGTH..header_length].copy_from_slice(extension);
                    packet[header_length..].copy_from_slice(payload);
                }
            }
            length += framed + size;
        }
        let packet_size = if train.packets() > 1 { stored + around } else { length };
        Ok(MadePackets { first, packets: train.packets(), length, packet_size })
    }

    fn note_sent(&mut self, packets: &MadePackets, sent: u32) {
        if let Some(protector) = &mut self.protector {
            protector.note_sent(packets.first + u64::from(sent.max(1)) - 1);
        }
    }
}

#[cold]
fn used_up() -> SendError {
    SendError::Other { call: "SRTP: the key is used up", errno: Errno::KEYEXPIRED }
}

#[cold]
fn too_long() -> SendError {
    SendError::Other { call: "a made packet has no room for its tag or extension", errno: Errno::MSGSIZE }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use rustix::net::sockopt::set_socket_send_buffer_size;
    use wirepath_media::rtp::{Header, Run};

    use super::*;
    use crate::train::tests::{HEADERS, example};
    use crate::{Headers, MappedFile};

    fn key() -> MasterKey {
        MasterKey::from([5; 30])
    }

    /// A train of this length in packets of this size, and its file.
    fn stored(length: u32, packet_size: u16) -> (MappedFile, Train) {
        let train = Train { packet_size, ..example(length) };
        let mut bytes: Vec<u8> = (0..length).map(|place| (place % 251) as u8).collect();
        for (index, packet) in (0..).zip(bytes.chunks_mut(packet_size.into())) {
            // As in joined trains, the headers do not follow from the run.
            let header = train.run.header(index);
            let header = Header { marker: index % 2 == 1, timestamp: header.timestamp + 7 * index, ..header };
            packet[..HEADER_LENGTH].copy_from_slice(&header.to_bytes());
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        (MappedFile::new(file, length.into()).unwrap(), train)
    }

    /// Packets of a train, each encrypted by itself.
    fn expected(file: &MappedFile, train: &Train, headers: Headers) -> Vec<Vec<u8>> {
        let mut protector = RtpProtector::new(&key());
        let packets = (0..train.packets()).map(|index| {
            let payload = train.payload(index, headers);
            let mut clear = vec![0; payload.length];
            file.read(payload.offset, &mut clear).unwrap();
            let count = protector.index(train.header_fields(index, headers).sequence).unwrap();
            let mut packet = vec![0; HEADER_LENGTH + clear.len() + TAG_LENGTH];
            let mut header = train.header(index, headers);
            if headers == Headers::Stored {
                file.read(train.stored_packet(index).offset, &mut header).unwrap();
            }
            protector.protect(count, &header, &[], &clear, &mut packet);
            protector.note_sent(count);
            packet
        });
        packets.collect()
    }

    /// Promise: A train of SRTP leaves by one call, or packet by packet, each packet encrypted by itself
    /// across a wrap.
    #[test]
    fn trains_are_encrypted_packet_by_packet() {
        let (file, train) = stored(70, 28);
        for headers in HEADERS {
            for path in [DataPath::GsoWritev, DataPath::Sendmmsg] {
                let (receiver, socket) =
                    (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
                socket.connect(receiver.local_addr().unwrap()).unwrap();
                let sink = UdpSink::new(socket, 60, path).unwrap();
                let (mut maker, mut context) = (PacketMaker::new(Some(&key())), SendContext::default());
                let whole = StoredTrains { file: &file, trains: &[train], headers };
                assert_eq!(maker.send(&sink, whole, &mut context, path), Ok(3));
                for packet in expected(&file, &train, headers) {
                    let mut received = [0; 100];
                    let length = receiver.recv(&mut received).unwrap();
                    assert_eq!(received[..length], packet, "{headers:?} {path}");
                }
                // The same packets again in two trains, of which the second has other timestamps, with an unused key
                // stream.
                let mut trains = [train.up_to(1), train.after(1).unwrap()];
                trains[1].run.first.timestamp += 3600;
                let last = maker.protector.as_ref().unwrap().index(0).unwrap() - 1;
                let two = StoredTrains { trains: &trains, ..whole };
                assert_eq!(maker.send(&sink, two, &mut context, path), Ok(3));
                for index in last + 1..=last + 3 {
                    let mut received = [0; 100];
                    receiver.recv(&mut received).unwrap();
                    assert_eq!(received[2..4], (index as u16).to_be_bytes(), "{headers:?} {path}");
                    let packet = (index - last - 1) as u32;
                    let later = if packet > 0 { 3600 } else { 0 };
                    let timestamp = train.header_fields(packet, headers).timestamp + later;
                    let is_made = headers != Headers::Stored;
                    assert!(!is_made || received[4..8] == timestamp.to_be_bytes(), "{headers:?} {path}");
                }
            }
        }
    }

    /// Promise: Each packet of a train of ONVIF replay has its own wall clock and flags, over UDP and TCP,
    /// encrypted or not.
    #[test]
    fn packets_have_extensions_of_their_own() {
        let (file, mut train) = stored(70, 28);
        train.run = Run { step: 48 << 16, ..train.run };
        let timestamp = |index| train.run.header(train.first + index).timestamp;
        let first = Extension {
            wall_us: 5_000_000,
            clean: true,
            discontinuity: true,
            cseq: 9,
            ..Extension::default()
        };
        let terminal = Extension { terminal: true, ..first };
        let extensions =
            Extensions { first: terminal, clock_hz: 48_000, all_clean: false, end: Some(timestamp(2)) };
        let expected = [
            first,
            Extension { wall_us: 5_001_000, clean: false, discontinuity: false, ..first },
            Extension {
                wall_us: 5_002_000,
                end: true,
                terminal: true,
                clean: false,
                discontinuity: false,
                ..first
            },
        ];
        let packets = |key: Option<&MasterKey>| -> Vec<Vec<u8>> {
            let mut protector = key.map(RtpProtector::new);
            let packets = (0..3).zip(&expected).map(|(index, extension)| {
                let mut header = train.header(index, Headers::Generated);
                header[0] |= 0x10;
                let payload = train.payload(
                    index,
                    Headers::Own { sequence_offset: 0, timestamp_offset: 0, marker: false, stored: true },
                );
                let mut clear = vec![0; payload.length];
                file.read(payload.offset, &mut clear).unwrap();
                let extension = extension.to_bytes();
                let Some(protector) = &mut protector else {
                    return [&header[..], &extension, &clear].concat();
                };
                let count = protector.index(train.header_fields(index, Headers::Generated).sequence).unwrap();
                let mut packet = vec![0; HEADER_LENGTH + EXTENSION_LENGTH + clear.len() + TAG_LENGTH];
                protector.protect(count, &header, &extension, &clear, &mut packet);
                protector.note_sent(count);
                packet
            });
            packets.collect()
        };
        let own = Headers::Own { sequence_offset: 0, timestamp_offset: 0, marker: false, stored: true };
        for key in [None, Some(key())] {
            let expected = packets(key.as_ref());
            for path in [DataPath::GsoWritev, DataPath::Sendmmsg] {
                let (receiver, socket) =
                    (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
                socket.connect(receiver.local_addr().unwrap()).unwrap();
                let sink = UdpSink::new(socket, 60, path).unwrap();
                let (mut maker, mut context) = (PacketMaker::new(key.as_ref()), SendContext::default());
                maker.set_extensions(Some(extensions));
                let trains = StoredTrains { file: &file, trains: &[train], headers: own };
                assert_eq!(maker.send(&sink, trains, &mut context, path), Ok(3));
                for packet in &expected {
                    let mut received = [0; 100];
                    let length = receiver.recv(&mut received).unwrap();
                    assert_eq!(&received[..length], packet, "{path}");
                }
            }
            let (near, mut far) = UnixStream::pair().unwrap();
            let (mut maker, mut context) = (PacketMaker::new(key.as_ref()), SendContext::default());
            maker.set_extensions(Some(extensions));
            let frames = FrameTrain { channel: 4, file: &file, train, headers: own };
            let sent = maker.send_frames(near.as_fd(), &frames, &mut context, &mut Vec::new());
            assert_eq!(sent, Ok(3));
            drop(near);
            let mut came = Vec::new();
            far.read_to_end(&mut came).unwrap();
            let framed = |packet: &Vec<u8>| [&framing(4, packet.len() as u16)[..], packet].concat();
            assert_eq!(came, expected.iter().flat_map(framed).collect::<Vec<u8>>());
        }
    }

    /// Promise: SRTP over the RTSP connection is one frame for each packet, whole however little the
    /// connection takes.
    #[test]
    fn frames_are_whole_however_little_is_taken() {
        let (file, train) = stored(40 * 1040 - 500, 1040);
        for headers in HEADERS {
            let mut headers_left = headers;
            let (near, mut far) = UnixStream::pair().unwrap();
            near.set_nonblocking(true).unwrap();
            far.set_nonblocking(true).unwrap();
            set_socket_send_buffer_size(&near, 1).unwrap(); // the least that the kernel has
            let (mut maker, mut context) = (PacketMaker::new(Some(&key())), SendContext::default());
            let (mut left, mut rest, mut cut_frames, mut came) = (Some(train), Vec::new(), 0, Vec::new());
            while left.is_some() || !rest.is_empty() {
                let sent = match left {
                    Some(train) if rest.is_empty() => {
                        let frames = FrameTrain { channel: 4, file: &file, train, headers: headers_left };
                        let sent = maker.send_frames(near.as_fd(), &frames, &mut context, &mut rest);
                        if let (Ok(_), Headers::Own { marker, .. }) = (&sent, &mut headers_left) {
                            *marker = false; // only the first packet has one
                        }
                        cut_frames += u32::from(!rest.is_empty());
                        sent.map(|packets| left = train.after(packets))
                    }
                    _ => send_bytes(near.as_fd(), &rest).map(|bytes| drop(rest.drain(..bytes))),
                };
                if matches!(sent, Err(SendError::Full { .. })) {
                    let mut some = [0; 700];
                    let length = far.read(&mut some).unwrap();
                    came.extend_from_slice(&some[..length]);
                } else {
                    sent.unwrap();
                }
            }
            drop(near);
            far.set_nonblocking(false).unwrap();
            far.read_to_end(&mut came).unwrap();
            assert!(cut_frames > 0, "{headers:?}: every frame was taken whole");
            let framed = expected(&file, &train, headers)
                .into_iter()
                .map(|packet| [framing(4, packet.len() as u16).to_vec(), packet].concat());
            assert!(came == framed.flatten().collect::<Vec<u8>>(), "{headers:?}: other bytes");
        }
    }
}
