//! Readers of what HTTP servers send: heads of responses, chunked bodies and playlists. No bytes make them
//! panic, how they are cut makes no difference, and segments follow one another on the same server.

use wirepath_http::{ChunkedError, ChunkedReader, HeadError, HeadReader, ResponseHead};
use wirepath_media::hls::{Location, Playlist, read};

/// Reads `data` as each of them, whole and cut into pieces of a size that its first byte gives.
pub fn fuzz(data: &[u8]) {
    let Some((&piece, data)) = data.split_first() else { return };
    let (piece, whole) = (usize::from(piece) + 1, data.len().max(1));
    assert_eq!(heads(data, piece), heads(data, whole), "how heads are cut makes a difference");
    assert_eq!(chunked(data, piece), chunked(data, whole), "how a body is cut makes a difference");
    playlist(data);
}

fn heads(data: &[u8], piece: usize) -> (Vec<ResponseHead>, Option<HeadError>) {
    let (mut reader, mut heads) = (HeadReader::default(), Vec::new());
    for mut piece in data.chunks(piece) {
        while !piece.is_empty() {
            let taken = reader.feed(piece);
            assert!(taken > 0);
            piece = &piece[taken..];
            loop {
                match reader.next_response() {
                    Ok(Some(head)) => heads.push(head),
                    Ok(None) => break,
                    Err(error) => return (heads, Some(error)),
                }
            }
        }
    }
    (heads, None)
}

/// Data of a body, bytes that were of it, and whether it is over.
fn chunked(data: &[u8], piece: usize) -> Result<(Vec<u8>, usize, bool), ChunkedError> {
    let (mut reader, mut body, mut read) = (ChunkedReader::default(), Vec::new(), 0);
    for piece in data.chunks(piece) {
        let taken = reader.read(piece, |part| body.extend_from_slice(part))?;
        assert!(taken == piece.len() || reader.is_over());
        read += taken;
    }
    assert!(body.len() <= read && read <= data.len());
    Ok((body, read, reader.is_over()))
}

fn playlist(data: &[u8]) {
    let at = Location { authority: "host".to_owned(), path: "/folder/list.m3u8".to_owned() };
    let is_path = |path: &str| path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic());
    match read(data, &at) {
        Ok(Playlist::Variant(path)) => assert!(is_path(&path), "{path}"),
        Ok(Playlist::Segments(segments)) => {
            let mut end_us = 0;
            for segment in &segments {
                assert!(is_path(&segment.path), "{}", segment.path);
                assert!(segment.start_us == end_us && segment.duration_us >= 0);
                end_us = segment.start_us + segment.duration_us;
            }
            assert!(!segments.is_empty());
        }
        Err(_) => {}
    }
}
