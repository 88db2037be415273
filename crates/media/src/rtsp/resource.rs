//! Request URLs (RFC 2326 section 3.2).

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use wirepath_http::{AssetPath, PathError};

/// Characters that are escaped in returned URLs. `,` and `;` separate parts of `RTP-Info`; `%` is already
/// escaped.
const ILLEGAL: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}')
    .add(b',')
    .add(b';');

/// Prefix of track names in URLs, before the track's number.
const TRACK: &str = "track";

/// Target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `*`: the server itself.
    Server,
    /// A presentation or one of its tracks.
    Resource(Resource),
}

/// URL of a presentation or track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// `rtsp://host:port` as the client wrote it; `None` if the client sent only a path.
    origin: Option<String>,
    /// Path for responses: valid in a URL and in `RTP-Info`, without a slash at its end and without query.
    encoded: String,
    /// Path below the root.
    path: AssetPath,
    /// Query as sent, without the question mark and without a track name appended to it.
    query: String,
}

/// Error of a URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResourceError {
    /// Neither `rtsp://`, nor a path, nor `*`.
    #[error("invalid URL: expected rtsp://host/path, a path or `*`")]
    Scheme,
    /// No host between `rtsp://` and the path.
    #[error("invalid URL: no host")]
    Host,
    /// Unescaped control character.
    #[error("invalid URL: control character; write it as %XX")]
    Control,
    /// Unescaped bytes that are not UTF-8.
    #[error("invalid URL: not UTF-8; write other bytes as %XX")]
    Encoding,
    /// Invalid path after the host.
    #[error(transparent)]
    Path(#[from] PathError),
}

impl Target {
    /// Parses the URL of a request line.
    pub fn parse(url: &str) -> Result<Self, ResourceError> {
        match url {
            "*" => Ok(Self::Server),
            _ => Resource::parse(url).map(Self::Resource),
        }
    }
}

impl Resource {
    /// Parses a URL or an absolute path. A fragment, empty segments and `.` segments are dropped. A track
    /// name that a client appends to a URL with a query (`clip.ts?a=b/track1`) is moved to the path.
    pub fn parse(url: &str) -> Result<Self, ResourceError> {
        if url.chars().any(char::is_control) {
            return Err(ResourceError::Control);
        }
        if url.contains(char::REPLACEMENT_CHARACTER) {
            return Err(ResourceError::Encoding);
        }
        let (origin, path) = split_origin(url)?;
        let path = path.split('#').next().unwrap_or_default();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let (query, track) = split_appended(query);
        let path = match track {
            Some(track) => format!("{}/{track}", path.trim_end_matches('/')),
            None => path.to_owned(),
        };
        let encoded = utf8_percent_encode(path.trim_end_matches('/'), ILLEGAL).to_string();
        let path = AssetPath::decode(if path.is_empty() { "/" } else { &path })?;
        Ok(Self { origin, encoded, path, query: query.to_owned() })
    }

    /// Path below the root: names separated by slashes, without a slash at either end, without `.` and `..`.
    pub fn path(&self) -> &[u8] {
        self.path.as_bytes()
    }

    /// Query as sent, without the question mark; empty if there is none.
    pub fn query(&self) -> &str {
        &self.query
    }

    /// URL without query and without a slash at its end. `origin` (`rtsp://host:port`) is used if the client
    /// sent none.
    pub fn url(&self, origin: &str) -> String {
        format!("{}{}", self.origin.as_deref().unwrap_or(origin), self.encoded)
    }

    /// Splits a URL that ends in `/trackN` into the URL of the presentation and the track number.
    pub fn split_track(&self) -> Option<(Self, u32)> {
        let (presentation, last) = match self.path().iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&self.path()[..slash], &self.path()[slash + 1..]),
            None => (&b""[..], self.path()),
        };
        let number = track_number(std::str::from_utf8(last).ok()?)?;
        let (encoded, _) = self.encoded.rsplit_once('/')?;
        let encoded = encoded.trim_end_matches('/').to_owned();
        let path = AssetPath::from_decoded(presentation).ok()?;
        Some((Self { origin: self.origin.clone(), encoded, path, query: self.query.clone() }, number))
    }
}

/// Track number in the name of a track.
fn track_number(name: &str) -> Option<u32> {
    let number = name.strip_prefix(TRACK)?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok()).flatten()
}

/// Splits a query from the text that a client appended to its URL: a slash, or a slash and a track name.
fn split_appended(query: &str) -> (&str, Option<&str>) {
    match query.rsplit_once('/') {
        Some((query, "")) => (query, None),
        Some((query, name)) if track_number(name).is_some() => (query, Some(name)),
        _ => (query, None),
    }
}

fn split_origin(url: &str) -> Result<(Option<String>, &str), ResourceError> {
    if url.starts_with('/') {
        return Ok((None, url));
    }
    let (scheme, rest) = url.split_once("://").ok_or(ResourceError::Scheme)?;
    // rtsps: a proxy in front of the server terminated TLS.
    if !scheme.eq_ignore_ascii_case("rtsp") && !scheme.eq_ignore_ascii_case("rtsps") {
        return Err(ResourceError::Scheme);
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    // The password is removed, because responses are logged.
    let host = authority.rsplit('@').next().unwrap_or_default();
    if host.is_empty() || host.starts_with(':') || host.contains(char::is_whitespace) {
        return Err(ResourceError::Host);
    }
    let origin = utf8_percent_encode(host, ILLEGAL);
    Ok((Some(format!("{}://{origin}", scheme.to_ascii_lowercase())), path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(url: &str) -> Resource {
        Resource::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn urls_are_decoded_and_given_back_legal() {
        for (url, path, given_back) in [
            ("rtsp://host:8554/clip.ts", "clip.ts", "rtsp://host:8554/clip.ts"),
            ("RTSP://host/sub/a%20b.ts/", "sub/a b.ts", "rtsp://host/sub/a%20b.ts"),
            ("rtsp://host/a b/fü.ts", "a b/fü.ts", "rtsp://host/a%20b/f%C3%BC.ts"),
            ("rtsp://[::1]:8554/a,b;c.ts", "a,b;c.ts", "rtsp://[::1]:8554/a%2Cb%3Bc.ts"),
            ("rtsp://me:secret@host/x", "x", "rtsp://host/x"),
            ("rtsps://host", "", "rtsps://host"),
            ("rtsp://host?x=y", "", "rtsp://host"),
            ("/clip.ts", "clip.ts", "rtsp://local/clip.ts"),
            ("rtsp://host//a/./b%2Fc?q=/../", "a/b/c", "rtsp://host//a/./b%2Fc"),
            ("rtsp://host/100%25.ts#t=1", "100%.ts", "rtsp://host/100%25.ts"),
        ] {
            let parsed = resource(url);
            assert_eq!(parsed.path(), path.as_bytes(), "{url}");
            assert_eq!(parsed.url("rtsp://local"), given_back, "{url}");
        }
        assert_eq!(resource("/%ff").path(), [0xff]);
        assert_eq!(Target::parse("*"), Ok(Target::Server));
    }

    #[test]
    fn what_cannot_name_anything_is_refused() {
        for (url, error) in [
            ("http://host/", ResourceError::Scheme),
            ("clip.ts", ResourceError::Scheme),
            ("", ResourceError::Scheme),
            ("rtspu://host/x", ResourceError::Scheme),
            ("rtsp:///clip.ts", ResourceError::Host),
            ("rtsp://:8554/clip.ts", ResourceError::Host),
            ("rtsp://host/%zz", ResourceError::Path(PathError::Escape(1))),
            ("rtsp://host/100%", ResourceError::Path(PathError::Escape(4))),
            ("rtsp://host/%4", ResourceError::Path(PathError::Escape(1))),
            ("rtsp://host/a%00b", ResourceError::Path(PathError::Nul)),
            ("rtsp://host/a\0b", ResourceError::Control),
            ("rtsp://host/a\tb", ResourceError::Control),
            ("rtsp://host/../etc", ResourceError::Path(PathError::DotDot)),
            ("rtsp://host/a/%2e%2e/b", ResourceError::Path(PathError::DotDot)),
            ("rtsp://host/a%2f..", ResourceError::Path(PathError::DotDot)),
            ("rtsp://host/\u{fffd}", ResourceError::Encoding),
        ] {
            assert_eq!(Resource::parse(url), Err(error), "{url}");
        }
    }

    #[test]
    fn queries_are_kept_without_an_appended_track() {
        for (url, query, path) in [
            ("rtsp://h/clip.ts?a=b&c", "a=b&c", "clip.ts"),
            ("rtsp://h/clip.ts?a=b#c", "a=b", "clip.ts"),
            ("rtsp://h/clip.ts?a=b/", "a=b", "clip.ts"),
            ("rtsp://h/clip.ts?a=b/track2", "a=b", "clip.ts/track2"),
            ("rtsp://h/clip.ts/?a=b/track2", "a=b", "clip.ts/track2"),
            ("rtsp://h/clip.ts?a=b/c", "a=b/c", "clip.ts"),
            ("rtsp://h/clip.ts/track2?a=b", "a=b", "clip.ts/track2"),
            ("rtsp://h?a=b", "a=b", ""),
        ] {
            let parsed = resource(url);
            assert_eq!((parsed.query(), parsed.path()), (query, path.as_bytes()), "{url}");
            assert!(!parsed.url("").contains('?'), "{url}");
        }
        let (presentation, number) = resource("/clip.ts?a=b/track2").split_track().expect("a track");
        assert_eq!((presentation.url(""), presentation.query(), number), ("/clip.ts".to_owned(), "a=b", 2));
    }

    #[test]
    fn tracks_are_split_off() {
        let (presentation, track) = resource("rtsp://host/a%20b.ts/track1").split_track().expect("a track");
        assert_eq!((presentation.path(), track), (&b"a b.ts"[..], 1));
        assert_eq!(presentation.url(""), "rtsp://host/a%20b.ts");
        let (presentation, track) = resource("/clip.ts//track12/").split_track().expect("a track");
        assert_eq!((presentation.url(""), track), ("/clip.ts".to_owned(), 12));
        for url in ["/clip.ts", "/clip.ts/track", "/clip.ts/track-1", "/clip.ts/track99999999999", "/"] {
            assert_eq!(resource(url).split_track(), None, "{url}");
        }
    }
}
