//! Content types by file name extension. The table is our own: general tables take `.ts` for TypeScript.

/// File name extensions in order, each with its content type.
const TYPES: &[(&str, &str)] = &[
    ("3gp", "video/3gpp"),
    ("aac", "audio/aac"),
    ("avi", "video/x-msvideo"),
    ("avif", "image/avif"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("flac", "audio/flac"),
    ("flv", "video/x-flv"),
    ("gif", "image/gif"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/vnd.microsoft.icon"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("m2t", "video/mp2t"),
    ("m2ts", "video/mp2t"),
    ("m3u", "audio/mpegurl"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4s", "video/iso.segment"),
    ("m4v", "video/mp4"),
    ("md", "text/markdown; charset=utf-8"),
    ("mka", "audio/x-matroska"),
    ("mkv", "video/x-matroska"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpd", "application/dash+xml"),
    ("mpeg", "video/mpeg"),
    ("mpg", "video/mpeg"),
    ("mts", "video/mp2t"),
    ("oga", "audio/ogg"),
    ("ogg", "audio/ogg"),
    ("ogv", "video/ogg"),
    ("opus", "audio/ogg"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("srt", "application/x-subrip"),
    ("svg", "image/svg+xml"),
    ("ts", "video/mp2t"),
    ("txt", "text/plain; charset=utf-8"),
    ("vtt", "text/vtt; charset=utf-8"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    ("xml", "application/xml"),
    ("zip", "application/zip"),
];

/// Bytes of the longest known extension.
const LONGEST: usize = 4;

/// Content type of a file of this name; `application/octet-stream` if the extension is unknown.
pub fn content_type(name: &[u8]) -> &'static str {
    ending(name).and_then(of_ending).unwrap_or("application/octet-stream")
}

/// Extension of a name: the bytes after its last dot.
fn ending(name: &[u8]) -> Option<&[u8]> {
    name.iter().rposition(|&byte| byte == b'.').map(|dot| &name[dot + 1..])
}

/// Content type of an extension, in any letter case.
fn of_ending(ending: &[u8]) -> Option<&'static str> {
    let mut lower = [0; LONGEST];
    let lower = lower.get_mut(..ending.len())?;
    lower.copy_from_slice(ending);
    lower.make_ascii_lowercase();
    let place = TYPES.binary_search_by(|(known, _)| known.as_bytes().cmp(lower)).ok()?;
    Some(TYPES[place].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_can_be_searched() {
        assert!(TYPES.is_sorted_by(|(before, _), (after, _)| before < after));
        assert_eq!(TYPES.iter().map(|(ending, _)| ending.len()).max(), Some(LONGEST));
        assert!(TYPES.iter().all(|(ending, _)| ending.bytes().all(|byte| !byte.is_ascii_uppercase())));
    }

    #[test]
    fn knows_media() {
        for (name, expected) in [
            (&b"clip.ts"[..], "video/mp2t"),
            (b"CLIP.M2TS", "video/mp2t"),
            (b"a.b.mts", "video/mp2t"),
            (b"film.mp4", "video/mp4"),
            (b"film.mkv", "video/x-matroska"),
            (b"live.m3u8", "application/vnd.apple.mpegurl"),
            (b"live.mpd", "application/dash+xml"),
            (b"page.html", "text/html; charset=utf-8"),
            (b"ts", "application/octet-stream"),
            (b"", "application/octet-stream"),
            (b"clip.", "application/octet-stream"),
            (b"clip.\xff", "application/octet-stream"),
        ] {
            assert_eq!(content_type(name), expected, "{name:?}");
        }
    }
}
