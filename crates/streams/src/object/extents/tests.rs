use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use super::*;

fn stored(length: usize) -> (Arc<File>, Vec<u8>) {
    let bytes: Vec<u8> = (0..length).map(|at| (at / 251 + at) as u8).collect();
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(&bytes).expect("room for it");
    (Arc::new(file), bytes)
}

fn joined(bytes: &[u8], ranges: &[Range<u64>]) -> Vec<u8> {
    ranges.iter().flat_map(|range| &bytes[range.start as usize..range.end as usize]).copied().collect()
}

fn length(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// Short and long extents, adjacent ones, empty ones, and backward jumps.
fn mixed() -> Vec<Range<u64>> {
    let rows = (0..3000).map(|row| row * 700 + 13..row * 700 + 113);
    let others = [5..5, 0..20_000, 20_000..20_001, 2_000_000..2_090_000, 7..8, 1_000..1_010, 1_010..1_500];
    rows.chain(others).collect()
}

/// Promise: Extents of a file are sent in order, short ones with few calls and long ones by reference.
#[test]
fn short_and_long_extents_are_sent_in_their_order() {
    let (file, bytes) = stored(2_100_000);
    let ranges = mixed();
    let expected = joined(&bytes, &ranges);
    let (near, mut far) = UnixStream::pair().expect("a pair");
    let reader = std::thread::spawn(move || {
        let mut received = Vec::new();
        far.read_to_end(&mut received).map(|_| received)
    });
    let mut extents = Extents::new(file, length(&ranges), ranges);
    let mut calls = 0;
    while !extents.is_read() {
        match extents.send(near.as_fd(), true, u64::MAX, false) {
            Ok(_) => calls += 1,
            Err(SendError::Full { .. }) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
    drop(near);
    assert!(reader.join().expect("no panic").expect("it reads") == expected, "other bytes arrived");
    assert_eq!(extents.bytes(), 0);
    assert!(calls < 40, "{calls} calls");
}

#[test]
fn a_handler_is_given_them_without_gaps() {
    let (file, bytes) = stored(2_100_000);
    let ranges = mixed();
    for room in [1000, 128 * 1024] {
        let mut extents = Extents::new(Arc::clone(&file), length(&ranges), ranges.clone());
        let mut read = Vec::new();
        loop {
            let mut buffer = BytesMut::new();
            match extents.read_into(&mut buffer, room) {
                Ok(ReadOutcome::Bytes(count)) => {
                    assert!((1..=room).contains(&count) && buffer.len() == count)
                }
                Ok(ReadOutcome::End) => break,
                Err(Unread::Blocked(Awaited::Pages(cold))) => {
                    cold.bring_in().1.expect("it can be read");
                    extents.note_warm();
                }
                _ => panic!("neither bytes nor the end"),
            }
            read.extend_from_slice(&buffer);
        }
        assert!(read == joined(&bytes, &ranges), "other bytes in pieces of {room}");
    }
}

/// Promise: Any number of extents takes bounded memory.
#[test]
fn extents_are_made_as_they_are_needed() {
    let (file, _) = stored(10);
    let endless = (0..).map(|number: u64| number % 9..number % 9 + 1);
    let extents = Extents::new(file, u64::MAX, endless);
    assert!(extents.window.len() <= MAXIMUM_RANGES);
}

#[test]
fn a_long_extent_is_looked_up_in_windows() {
    let (file, _) = stored(10);
    let long = 1 << 40;
    let mut extents = Extents::new(file, long, std::iter::once(0..long));
    assert_eq!((extents.window.len(), &extents.window[0]), (1, &(0..WINDOW_BYTES)));
    extents.advance(WINDOW_BYTES);
    assert_eq!(
        (extents.window.front(), extents.bytes),
        (Some(&(WINDOW_BYTES..2 * WINDOW_BYTES)), long - WINDOW_BYTES)
    );
}

/// Promise: A file truncated while its extents are sent is an error, not the end of the stream.
#[test]
fn a_truncated_file_is_an_error() {
    let (file, _) = stored(100_000);
    file.set_len(50).expect("it is ours");
    let (near, _far) = UnixStream::pair().expect("a pair");
    for range in [60_000..60_010, 40_000..90_000] {
        let mut extents = Extents::new(Arc::clone(&file), 10, [range.clone()]);
        let sent = extents.send(near.as_fd(), true, u64::MAX, false);
        assert!(matches!(sent, Err(SendError::Storage { errno: Errno::NODATA, .. })), "{sent:?}");
        let mut extents = Extents::new(Arc::clone(&file), 10, [range]);
        extents.note_warm();
        assert!(matches!(extents.read_into(&mut BytesMut::new(), 100), Err(Unread::Failed(TRUNCATED, _))));
    }
}
