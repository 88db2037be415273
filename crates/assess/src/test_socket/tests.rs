use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::thread;

use wirepath_datapath::{BlockPath, Extent, MappedFile, SendContext, SendError};

use super::*;

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
    (TestSocket::Blocks(Box::new(sink)), receiver, sent)
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
        drop(receiver); // with unread bytes: the connection is reset
        let ended = socket.finish();
        assert!(matches!(ended, Err(Error::SinkStopped { .. })), "{path}: {ended:?}");
    }
}

#[test]
fn a_receiver_that_ends_a_connection_has_stopped_and_the_path_is_not_faulty() {
    for path in BlockPath::ALL.into_iter().filter(|path| !path.needs_hot_memory() && !path.needs_module()) {
        let (socket, receiver, _) = full(path);
        let TestSocket::Blocks(sink) = &socket else { unreachable!() };
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
