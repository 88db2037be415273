//! Shares that cross a network in which others send, too.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use wirepath_engine::{Engine, EngineOptions};
use wirepath_streams::handlers::{Key, Open, Seal};
use wirepath_streams::{
    Framing, Handler, Object, OutputOptions, OutputPattern, RunningStream, SHARE_HEADER, StreamBuilder,
    StreamOptions,
};

/// Time limit that only a hang exceeds.
const PATIENCE: Duration = Duration::from_secs(60);

/// As many records as fit in a socket buffer whose reader may be slow.
const RECORDS: usize = 100;
const RECORD: usize = 100;
const SHARE: usize = SHARE_HEADER + RECORD;
const FORGED: u64 = 2000;

/// Most records that wait for shares: fewer than are forged.
const WINDOW: usize = 50;

fn key() -> Key {
    Key::new(&[7; 32])
}

/// The end of a path: decrypts datagrams, and passes shares on over a connection.
fn path(engine: &Engine) -> (UdpSocket, RunningStream, Object) {
    let inlet = UdpSocket::bind("127.0.0.1:0").unwrap();
    let outside = UdpSocket::bind("127.0.0.1:0").unwrap();
    outside.connect(inlet.local_addr().unwrap()).unwrap();
    let (near, far) = UnixStream::pair().unwrap();
    let stream = StreamBuilder::default()
        .input(Object::datagrams("path", inlet.into(), None, None).unwrap(), Framing::Whole)
        .handler(Handler::Rewrite(Box::new(Open::new(key(), 2000))))
        .output(Object::stream("opened", near.into()).unwrap())
        .build();
    let running = stream.start(engine, StreamOptions::default());
    (outside, running, Object::stream("shares", far.into()).unwrap())
}

/// A forged share, of a record far ahead.
fn forged(number: u64) -> Vec<u8> {
    let header = [2, 2, 1 + (number % 200) as u8, 0, 0, RECORD as u8];
    [&header[..], &(1_000_000 + number).to_be_bytes()[2..], &[0; RECORD]].concat()
}

fn wait_until(mut holds: impl FnMut() -> bool) {
    let patience = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < patience, "it does not come");
        std::thread::yield_now();
    }
}

/// Promise: If each path is sealed, forged shares do not displace real shares.
///
/// Forged shares take the room of real shares if they are accepted. On sealed paths they are not.
#[test]
fn forged_shares_displace_none_where_each_path_is_sealed() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let (object, collected) = Object::collect("out", RECORDS * RECORD);
    let mut together = StreamBuilder::default().collect_shares(2, WINDOW, 1 << 20).output(object).build();
    let mut paths = Vec::new();
    for _ in 0..3 {
        let (outside, running, shares) = path(&engine);
        together.attach_input(shares, Framing::Fixed(SHARE)).unwrap();
        paths.push((outside, running));
    }
    let together = together.start(&engine, StreamOptions::default());

    let mut came = 0;
    for number in 0..FORGED {
        for (outside, running) in &paths {
            outside.send(&forged(number)).unwrap();
            // At most as many at a time as fit in the socket buffer.
            wait_until(|| number % 50 != 49 || running.status().bytes_in == (number + 1) * SHARE as u64);
        }
        came += 1;
    }
    let records: Vec<u8> = (0..RECORDS * RECORD).map(|at| (at * 7 / 3) as u8).collect();
    let builder = StreamBuilder::default()
        .pattern(OutputPattern::Shares { threshold: 2 })
        .input(Object::memory("records", records.clone().into()), Framing::Fixed(RECORD));
    let sealed = |outside: &UdpSocket| {
        let handlers = vec![Handler::Rewrite(Box::new(Seal::new(key(), 2000).unwrap()))];
        let socket = outside.try_clone().unwrap().into();
        let object = Object::datagrams("sealed", socket, None, Some(SHARE + 28)).unwrap();
        (object, OutputOptions { handlers, ..OutputOptions::default() })
    };
    let builder = paths.iter().fold(builder, |builder, (outside, _)| {
        let (object, options) = sealed(outside);
        builder.output_with(object, options)
    });
    builder.build().run().unwrap();

    wait_until(|| collected.bytes().len() == records.len());
    assert!(collected.bytes() == records, "other records came");
    assert_eq!(together.status().shares.unwrap().lost, 0);
    for (_, running) in &paths {
        let reports = running.status().reports;
        assert!(reports.contains(&("open", "refused", came)), "{reports:?}");
    }
}
