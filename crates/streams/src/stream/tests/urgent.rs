//! Connections whose peers send urgent data, before which `splice` stops.

use std::os::fd::OwnedFd;

use rustix::net::{SendFlags, send};

use super::*;

/// More bytes than a pipe holds.
const BEHIND: usize = 3_000_000;

fn pairs() -> [(&'static str, OwnedFd, OwnedFd); 2] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let far = listener.accept().unwrap().0;
    let (unix_near, unix_far) = UnixStream::pair().unwrap();
    [("tcp", near.into(), far.into()), ("unix", unix_near.into(), unix_far.into())]
}

/// Sends all bytes, the byte in the middle as urgent data.
fn send_all(near: &OwnedFd) {
    let behind = vec![b'a'; BEHIND];
    let parts = [(&b"before"[..], SendFlags::empty()), (b"!", SendFlags::OOB), (&behind, SendFlags::empty())];
    for (mut bytes, flags) in parts {
        while !bytes.is_empty() {
            bytes = &bytes[send(near, bytes, flags).unwrap()..];
        }
    }
}

fn all() -> Vec<u8> {
    [&b"before!"[..], &vec![b'a'; BEHIND]].concat()
}

fn stream(from: OwnedFd) -> (Stream, UnixStream) {
    let (to, reader) = UnixStream::pair().unwrap();
    let builder = StreamBuilder::default().input(Object::stream("from", from).unwrap(), Framing::Whole);
    (builder.output(Object::stream("to", to.into()).unwrap()).build(), reader)
}

/// Promise: TCP urgent data keeps its position, and no byte is delayed or lost.
///
/// Both if the peer ends after the urgent data, so that no further event comes, and if it stays.
#[test]
fn what_is_urgent_stays_in_its_place_and_holds_nothing_up() {
    let engine = engine();
    for (name, near, far) in pairs().into_iter().chain(pairs()) {
        let (stream, mut reader) = stream(far);
        let running = stream.start(&engine, crate::StreamOptions::default());
        let writing = std::thread::spawn(move || {
            send_all(&near);
            near
        });
        let mut bytes = vec![0; all().len()];
        reader.set_read_timeout(Some(PATIENCE)).unwrap();
        reader.read_exact(&mut bytes).unwrap();
        assert!(bytes == all(), "{name}: other bytes came");
        drop(writing.join().unwrap());
        assert_eq!(running.wait_for(PATIENCE).expect("it does not end").result, Ok(()));
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}

/// Promise: TCP urgent data keeps its position, and no byte is delayed or lost.
///
/// All bytes, and the end, have arrived when the stream begins.
#[test]
fn what_is_behind_something_urgent_is_not_lost_at_the_end() {
    let engine = engine();
    for is_on_engine in [true, false] {
        for (name, near, far) in pairs() {
            for bytes in [&b"before"[..], b"behind"] {
                let flags = if bytes == b"behind" { SendFlags::OOB } else { SendFlags::empty() };
                send(&near, bytes, flags).unwrap();
            }
            send(&near, b", and more", SendFlags::empty()).unwrap();
            drop(near);
            let (mut stream, mut reader) = stream(far);
            if is_on_engine {
                let running = stream.start(&engine, crate::StreamOptions::default());
                assert_eq!(running.wait_for(PATIENCE).expect("it does not end").result, Ok(()));
            } else {
                stream.run().unwrap();
                drop(stream);
            }
            let mut words = String::new();
            reader.read_to_string(&mut words).unwrap();
            assert_eq!(words, "beforebehind, and more", "{name}");
        }
    }
}
