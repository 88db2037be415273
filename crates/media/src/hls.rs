//! Playlists of HTTP Live Streaming (RFC 8216), for a client of servers that may be hostile.

mod location;

use std::num::NonZeroU64;

use m3u8_rs::{ByteRange, MediaSegment};

pub use location::{Location, encoded};

/// Longest playlist in bytes.
pub const PLAYLIST_LIMIT: usize = 1 << 20;

/// Most lines of a playlist: the parser uses many times the bytes of a line.
const LINE_LIMIT: usize = 100_000;

/// Longest path of a URL in bytes.
const PATH_LIMIT: usize = 2_048;

/// Most bytes of all paths of a playlist. Resolved paths are longer than relative references.
const PATHS_LIMIT: usize = 4 * PLAYLIST_LIMIT;

/// Longest segment in seconds.
const LONGEST_SEGMENT_S: f64 = 3_600.0;

/// Playlist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Playlist {
    /// Path of the variant with the highest `BANDWIDTH` of a master playlist; the first of several.
    Variant(String),
    /// Segments of a complete media playlist.
    Segments(Vec<Segment>),
}

/// Media segment, or a media initialization section, which has no duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Path and query of the URL, on the server of the playlist.
    pub path: Box<str>,
    /// Byte range of the resource; `None` for all of it.
    pub range: Option<Range>,
    /// Media time of the beginning.
    pub start_us: i64,
    /// Duration in media time.
    pub duration_us: i64,
}

/// Byte range of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: NonZeroU64,
}

/// Error of a playlist that cannot be played: the server's fault, except if something is not supported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaylistError {
    /// First line that is not `#EXTM3U`.
    #[error("the first line is not #EXTM3U")]
    NotPlaylist,
    /// Invalid bytes or attributes.
    #[error("malformed at byte {0}")]
    Malformed(usize),
    /// More lines or bytes than the limits.
    #[error("more than {LINE_LIMIT} lines, or more than {PATHS_LIMIT} bytes of URLs")]
    TooLong,
    /// Missing or invalid duration.
    #[error("invalid #EXTINF: expected seconds up to {LONGEST_SEGMENT_S}")]
    Duration,
    /// Invalid byte range.
    #[error("invalid #EXT-X-BYTERANGE: expected LENGTH@OFFSET, or LENGTH after a segment of the same URL")]
    Range,
    /// Master playlist without variants.
    #[error("the master playlist has no variant")]
    NoVariant,
    /// Media playlist without segments.
    #[error("no segments")]
    NoSegments,
    /// Live playlist, to which segments are still added.
    #[error("live playlists are not supported: #EXT-X-ENDLIST is missing")]
    Live,
    /// URL that is too long or has another scheme.
    #[error("unsupported URL: expected http:// or a relative URL of at most {PATH_LIMIT} bytes")]
    Url,
    /// URL of another server.
    #[error("URL of another server, {0}: only the server that was named is used")]
    OtherServer(String),
}

/// Reads the playlist of the location `at`.
///
/// # Errors
/// [`PlaylistError`] if the playlist cannot be played to its end.
pub fn read(text: &[u8], at: &Location) -> Result<Playlist, PlaylistError> {
    let text = normalized(text)?;
    let rest = |rest: &[u8]| text.len() - rest.len();
    if m3u8_rs::is_master_playlist(&text) {
        let (left, master) =
            m3u8_rs::parse_master_playlist(&text).map_err(|_| PlaylistError::Malformed(0))?;
        if !left.is_empty() {
            return Err(PlaylistError::Malformed(rest(left)));
        }
        let variants = master.variants.iter().filter(|variant| !variant.is_i_frame).rev();
        let best = variants.max_by_key(|variant| variant.bandwidth).ok_or(PlaylistError::NoVariant)?;
        return Ok(Playlist::Variant(at.resolve(&best.uri)?));
    }
    let (left, media) = m3u8_rs::parse_media_playlist(&text).map_err(|_| PlaylistError::Malformed(0))?;
    match (left, media.end_list) {
        ([], true) => segments(&media.segments, at).map(Playlist::Segments),
        ([], false) => Err(PlaylistError::Live),
        (left, _) => Err(PlaylistError::Malformed(rest(left))),
    }
}

/// Removes the titles of segments, which the parser takes for URLs if they contain commas, and ends the last
/// line.
fn normalized(text: &[u8]) -> Result<Vec<u8>, PlaylistError> {
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    let mut normal = Vec::with_capacity(text.len() + 1);
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if number == 0 && line != b"#EXTM3U" {
            return Err(PlaylistError::NotPlaylist);
        }
        if number == LINE_LIMIT {
            return Err(PlaylistError::TooLong);
        }
        if let Some(value) = line.strip_prefix(b"#EXTINF:") {
            let seconds = value.split(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
            let is_number = seconds.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
            let seconds = std::str::from_utf8(seconds).ok().filter(|_| is_number);
            let seconds: Option<f64> = seconds.and_then(|seconds| seconds.parse().ok());
            let seconds = seconds.filter(|seconds| (0.0..=LONGEST_SEGMENT_S).contains(seconds));
            let seconds = seconds.ok_or(PlaylistError::Duration)?;
            normal.extend_from_slice(format!("#EXTINF:{seconds},").as_bytes());
        } else {
            normal.extend_from_slice(line);
        }
        normal.push(b'\n');
    }
    Ok(normal)
}

fn segments(found: &[MediaSegment], at: &Location) -> Result<Vec<Segment>, PlaylistError> {
    let mut segments: Vec<Segment> = Vec::with_capacity(found.len());
    let (mut start_us, mut bytes) = (0, 0);
    for segment in found {
        if let Some(map) = &segment.map {
            // The default offset is 0 (RFC 8216 section 4.3.2.5).
            let range = map.byte_range.as_ref().map(|range| read_range(range, Some(0))).transpose()?;
            segments.push(Segment { path: at.resolve(&map.uri)?.into(), range, start_us, duration_us: 0 });
        }
        let path: Box<str> = at.resolve(&segment.uri)?.into();
        let before = segments.last().filter(|before| before.path == path).and_then(|before| before.range);
        let next = before.and_then(|range| range.offset.checked_add(range.length.get()));
        let range = segment.byte_range.as_ref().map(|range| read_range(range, next)).transpose()?;
        bytes += path.len() + segment.map.as_ref().map_or(0, |map| map.uri.len() + at.path.len());
        if bytes > PATHS_LIMIT {
            return Err(PlaylistError::TooLong);
        }
        let duration_us = (f64::from(segment.duration) * 1e6) as i64;
        segments.push(Segment { path, range, start_us, duration_us });
        start_us += duration_us;
    }
    if segments.is_empty() { Err(PlaylistError::NoSegments) } else { Ok(segments) }
}

fn read_range(range: &ByteRange, next: Option<u64>) -> Result<Range, PlaylistError> {
    let offset = range.offset.or(next).ok_or(PlaylistError::Range)?;
    let length = NonZeroU64::new(range.length).ok_or(PlaylistError::Range)?;
    offset.checked_add(length.get()).ok_or(PlaylistError::Range)?;
    Ok(Range { offset, length })
}

#[cfg(test)]
mod tests;
