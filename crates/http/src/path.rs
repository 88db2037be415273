//! Paths in request targets (RFC 3986 section 3.3): percent-decoding, and refused segments.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// Encoded characters: all except the unreserved characters of RFC 3986 section 2.3. A colon is encoded
/// because a relative link `a:b` would be read as a scheme.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Decoded path below the served root: names joined by single slashes, no slash at either end.
///
/// The root is empty. Names are bytes, as in the file system; no name is empty, `.` or `..`, and no name
/// contains a NUL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AssetPath {
    bytes: Vec<u8>,
    folder: bool,
}

/// Invalid path of a request target, a fault of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A percent sign without two hexadecimal digits after it: a literal percent sign must be sent as `%25`.
    #[error("the percent sign at byte {0} of the path is not followed by two hexadecimal digits; write %25")]
    Escape(usize),
    /// Decoded NUL byte, which file names cannot contain.
    #[error("the path holds a NUL byte")]
    Nul,
    /// A `..` segment, also after decoding: clients resolve these segments before sending (RFC 3986 section
    /// 5.2.4).
    #[error("the path holds a `..` segment")]
    DotDot,
    /// The path does not begin with a slash.
    #[error("the path does not begin with a slash")]
    Relative,
}

impl AssetPath {
    /// Decodes the path of a request target; a query or fragment after it is ignored.
    ///
    /// Empty and `.` segments are dropped. An encoded slash is a slash, since no name can contain one.
    pub fn decode(target: &str) -> Result<Self, PathError> {
        let path = target.split(['?', '#']).next().unwrap_or_default();
        if !path.starts_with('/') {
            return Err(PathError::Relative);
        }
        check_escapes(path.as_bytes())?;
        let decoded = Cow::from(percent_decode_str(path));
        if decoded.contains(&0) {
            return Err(PathError::Nul);
        }
        Self::from_decoded(&decoded)
    }

    /// Bytes of the path: `folder/clip.ts`, or empty for the root.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns whether this is the root itself.
    pub fn is_root(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns whether the path ended in a slash, so that it can only be a folder.
    pub fn names_folder(&self) -> bool {
        self.folder
    }

    /// Names, from the root down.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.split(|&byte| byte == b'/').filter(|segment| !segment.is_empty())
    }

    /// Path as written in a URL, without the leading slash.
    pub fn encoded(&self) -> String {
        self.segments().map(encode_segment).collect::<Vec<_>>().join("/")
    }

    /// Path of already decoded names joined by `/`.
    pub fn from_decoded(decoded: &[u8]) -> Result<Self, PathError> {
        let mut bytes = Vec::with_capacity(decoded.len());
        let mut folder = true;
        for segment in decoded.split(|&byte| byte == b'/') {
            folder = matches!(segment, b"" | b".");
            match segment {
                b"" | b"." => {}
                b".." => return Err(PathError::DotDot),
                name => {
                    if !bytes.is_empty() {
                        bytes.push(b'/');
                    }
                    bytes.extend_from_slice(name);
                }
            }
        }
        Ok(Self { bytes, folder })
    }
}

/// Name as written in a URL.
pub fn encode_segment(name: &[u8]) -> String {
    percent_encode(name, ENCODED).to_string()
}

fn check_escapes(path: &[u8]) -> Result<(), PathError> {
    for (offset, _) in path.iter().enumerate().filter(|&(_, &byte)| byte == b'%') {
        let digits = path.get(offset + 1..offset + 3);
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            return Err(PathError::Escape(offset));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes() {
        for (target, bytes, folder) in [
            ("/", "", true),
            ("/clip.ts", "clip.ts", false),
            ("/sub/clip.ts?t=1&x=/../", "sub/clip.ts", false),
            ("/sub/", "sub", true),
            ("//sub//./clip.ts", "sub/clip.ts", false),
            ("/sub/.", "sub", true),
            ("/a%20b%2fc%25.ts", "a b/c%.ts", false),
            ("/f%C3%BC.ts", "fü.ts", false),
            ("/fü.ts", "fü.ts", false),
            ("/a..b/...", "a..b/...", false),
            ("/a%0Ab#top", "a\nb", false),
        ] {
            let path = AssetPath::decode(target).unwrap();
            assert_eq!((path.as_bytes(), path.names_folder()), (bytes.as_bytes(), folder), "{target}");
        }
        assert_eq!(AssetPath::decode("/%ff").unwrap().as_bytes(), [0xff]);
    }

    #[test]
    fn refuses() {
        for (target, error) in [
            ("clip.ts", PathError::Relative),
            ("", PathError::Relative),
            ("*", PathError::Relative),
            ("/a%", PathError::Escape(2)),
            ("/a%2", PathError::Escape(2)),
            ("/%41%zz", PathError::Escape(4)),
            ("/a%00", PathError::Nul),
            ("/..", PathError::DotDot),
            ("/a/../b", PathError::DotDot),
            ("/%2e%2E/etc/passwd", PathError::DotDot),
            ("/a%2f..%2fb", PathError::DotDot),
        ] {
            assert_eq!(AssetPath::decode(target), Err(error), "{target}");
        }
    }

    #[test]
    fn encodes_what_it_decodes() {
        for name in ["a b", "100%.ts", "a:b", "ü?#", "new\nline", "<\"'&>"] {
            let encoded = encode_segment(name.as_bytes());
            let path = AssetPath::decode(&format!("/{encoded}")).unwrap();
            assert_eq!((path.as_bytes(), path.encoded()), (name.as_bytes(), encoded));
        }
    }
}
