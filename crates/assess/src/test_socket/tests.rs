use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use wirepath_datapath::{BlockPath, Extent, MappedFile, SendContext, SendError};

use super::*;
use crate::case::RUN;
use crate::send::Sending;

/// Full connection whose receiver reads nothing, and its other end.
fn full(path: BlockPath) -> (TestSocket, TcpStream, usize) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (receiver, _) = listener.accept().unwrap();
    let file = tempfile::tempfile().unwrap();
    file.set_len(1 << 20).unwrap();
    let medium = MappedFile::new(file, 1 << 20).unwrap();
    let sink = BlockSink::tcp(sender, path).unwrap();
    let (mut scratch, mut sent) = (SendContext::default(), 0);
    let block = Extent { offset: 0, length: 1 << 20 };
    loop {
        match path.send(&sink, &medium, block, &mut scratch) {
            Ok(bytes) => sent += bytes,
            Err(SendError::Full { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    (TestSocket::new(TestSink::Blocks(Box::new(sink))), receiver, sent)
}

/// Promise: The time of a run over TCP ends when the receiver has acknowledged all bytes.
#[test]
fn a_run_over_tcp_ends_when_all_of_it_is_acknowledged() {
    for path in [BlockPath::ReadWrite, BlockPath::Sendfile, BlockPath::MmapZerocopy] {
        let (socket, mut receiver, sent) = full(path);
        assert!(unacknowledged(socket.socket()).unwrap() > 0, "{path}");
        let reading = thread::spawn(move || receiver.read_exact(&mut vec![0; sent]));
        socket.finish().unwrap();
        assert_eq!(unacknowledged(socket.socket()).unwrap(), 0, "{path}");
        reading.join().unwrap().unwrap();
    }
}

#[test]
fn a_receiver_that_goes_while_the_rest_is_sent_has_stopped() {
    for path in [BlockPath::ReadWrite, BlockPath::MmapZerocopy] {
        let (socket, receiver, _) = full(path);
        let address = receiver.local_addr().unwrap().to_string();
        drop(receiver); // with unread bytes: the connection is reset
        let ended = socket.finish();
        assert!(
            matches!(&ended, Err(Error::SinkStopped { sink, .. }) if *sink == address),
            "{path}: {ended:?}"
        );
    }
}

#[test]
fn a_receiver_that_ends_a_connection_has_stopped_and_the_path_is_not_faulty() {
    for path in BlockPath::ALL.into_iter().filter(|path| !path.needs_hot_memory() && !path.needs_module()) {
        let (socket, receiver, _) = full(path);
        let TestSink::Blocks(sink) = &socket.sink else { unreachable!() };
        drop(receiver); // with unread bytes: the connection is reset
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 12).unwrap();
        let (medium, mut scratch) = (MappedFile::new(file, 1 << 12).unwrap(), SendContext::default());
        let block = Extent { offset: 0, length: 1 << 12 };
        for _ in 0..2 {
            // The first send after a reset fails with the reset, every further send with a broken pipe.
            let error = path.send(sink, &medium, block, &mut scratch).unwrap_err();
            let told = crate::send::room(error, &socket);
            assert!(matches!(told, Err(Error::SinkStopped { .. })), "{path}: {told:?}");
        }
    }
}

/// Promise: A frame that a full connection accepts only in part is completed before other data is sent.
#[test]
fn frames_that_a_full_connection_cuts_arrive_whole() {
    const VOLUME: u64 = 2 << 20;
    let payload: Vec<u8> =
        (0..VOLUME as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&payload).unwrap();
    let medium = MappedFile::new(file, VOLUME).unwrap();
    for path in PathKind::framed() {
        let case = Case::new(path, Transport::Tcp, Some(1001));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        let socket = TestSocket::stream(&case, sender).unwrap();
        // Room for a few packets.
        sockopt::set_socket_send_buffer_size(socket.socket(), 1).unwrap();
        let reading = thread::spawn(move || {
            let mut bytes = Vec::new();
            receiver.read_to_end(&mut bytes).map(|_| bytes)
        });
        let mut context = SendContext::default();
        let mut sending = Sending::new(&case, &medium, 0, &socket, &mut context, 0);
        let mut sent = Sent::default();
        for stretch in case.walk(VOLUME, VOLUME).stretches(case.train_packets().into()) {
            sending.stretch(stretch, &mut sent).unwrap();
        }
        drop(socket);
        let arrived = reading.join().unwrap().unwrap();
        assert_eq!(arrived.len() as u64, sent.transport_bytes, "{path}");
        assert!(path != PathKind::Interleaved || sent.cuts > 0, "{path}: no frame was cut");
        let mut left = &arrived[..];
        for (payload, index) in payload.chunks(1001).zip(0..) {
            let length = 12 + payload.len();
            let frame =
                [&[b'$', 0, (length >> 8) as u8, length as u8][..], &RUN.header(index).to_bytes(), payload];
            let frame = frame.concat();
            assert!(left.starts_with(&frame), "{path}: frame {index} differs");
            left = &left[frame.len()..];
        }
    }
}
