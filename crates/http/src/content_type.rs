//! Content types by the ending of a name. A table of our own: general ones take `.ts` for TypeScript.

/// Content types, each with the endings of names, separated by spaces.
const TYPES: &[(&str, &str)] = &[
    ("application/dash+xml", "mpd"),
    ("application/json", "json"),
    ("application/pdf", "pdf"),
    ("application/vnd.apple.mpegurl", "m3u8"),
    ("application/x-subrip", "srt"),
    ("application/xml", "xml"),
    ("application/zip", "zip"),
    ("audio/aac", "aac"),
    ("audio/flac", "flac"),
    ("audio/mp4", "m4a"),
    ("audio/mpeg", "mp3"),
    ("audio/mpegurl", "m3u"),
    ("audio/ogg", "oga ogg opus"),
    ("audio/wav", "wav"),
    ("audio/x-matroska", "mka"),
    ("image/avif", "avif"),
    ("image/gif", "gif"),
    ("image/jpeg", "jpeg jpg"),
    ("image/png", "png"),
    ("image/svg+xml", "svg"),
    ("image/vnd.microsoft.icon", "ico"),
    ("image/webp", "webp"),
    ("text/css; charset=utf-8", "css"),
    ("text/csv; charset=utf-8", "csv"),
    ("text/html; charset=utf-8", "htm html"),
    ("text/javascript; charset=utf-8", "js"),
    ("text/markdown; charset=utf-8", "md"),
    ("text/plain; charset=utf-8", "txt"),
    ("text/vtt; charset=utf-8", "vtt"),
    ("video/3gpp", "3gp"),
    ("video/iso.segment", "m4s"),
    ("video/mp2t", "m2t m2ts mts ts"),
    ("video/mp4", "m4v mp4"),
    ("video/mpeg", "mpeg mpg"),
    ("video/ogg", "ogv"),
    ("video/quicktime", "mov"),
    ("video/webm", "webm"),
    ("video/x-flv", "flv"),
    ("video/x-matroska", "mkv"),
    ("video/x-msvideo", "avi"),
];

/// The content type of a file of this name, `application/octet-stream` when the ending says nothing.
pub fn content_type(name: &[u8]) -> &'static str {
    let ending = name.iter().rposition(|&byte| byte == b'.').map(|dot| &name[dot + 1..]);
    let is_known = |known: &str| ending.is_some_and(|ending| known.as_bytes().eq_ignore_ascii_case(ending));
    let types = if ending.is_some() { TYPES } else { &[] };
    let known = types.iter().find(|(_, endings)| endings.split(' ').any(is_known)).map(|&(kind, _)| kind);
    known.unwrap_or("application/octet-stream")
}

#[cfg(test)]
mod tests {
    use super::*;

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
