//! References in playlists, resolved against the URL of the playlist (RFC 3986 section 5).

use super::{PATH_LIMIT, PlaylistError};

/// `http://` URL of a playlist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Host and port, as in the URL.
    pub authority: String,
    /// Path and query; the path begins with a slash.
    pub path: String,
}

impl Location {
    /// Resolves a reference to a path and query on the same server. Characters that are not allowed in a
    /// request line are percent-encoded.
    ///
    /// # Errors
    /// [`PlaylistError::OtherServer`], so that a server cannot direct load to other servers;
    /// [`PlaylistError::Url`].
    pub fn resolve(&self, reference: &str) -> Result<String, PlaylistError> {
        let reference = reference.split('#').next().unwrap_or_default();
        if reference.is_empty() || reference.len() > PATH_LIMIT {
            return Err(PlaylistError::Url);
        }
        let path = match self.after_authority(reference)? {
            Some(path) if path.starts_with('/') => without_dots(path),
            Some(path) => without_dots(&format!("/{path}")),
            None if reference.starts_with('/') => without_dots(reference),
            None if reference.starts_with('?') => format!("{}{reference}", split_query(&self.path).0),
            None => {
                let (base, _) = split_query(&self.path);
                let folder = &base[..base.rfind('/').map_or(0, |slash| slash + 1)];
                without_dots(&format!("{folder}{reference}"))
            }
        };
        let path = encoded(&path);
        if path.len() > PATH_LIMIT { Err(PlaylistError::Url) } else { Ok(path) }
    }

    /// Returns the rest of a reference after its server; `None` if it has no server.
    fn after_authority<'a>(&self, reference: &'a str) -> Result<Option<&'a str>, PlaylistError> {
        let rest = match scheme(reference) {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some(_) => return Err(PlaylistError::Url),
            None if reference.starts_with("//") => reference,
            None => return Ok(None),
        };
        let rest = rest.strip_prefix("//").ok_or(PlaylistError::Url)?;
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let own = without_default_port(&self.authority);
        if !without_default_port(authority).eq_ignore_ascii_case(own) {
            let shown = authority.chars().filter(|character| !character.is_control()).take(80);
            return Err(PlaylistError::OtherServer(shown.collect()));
        }
        Ok(Some(path))
    }
}

/// Encodes a path for a request line: all characters except graphic ASCII are percent-encoded.
pub fn encoded(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'!'..=b'~' => text.push(byte.into()),
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// Removes the port if it is the default of `http://` (RFC 9110 section 4.2.1).
fn without_default_port(authority: &str) -> &str {
    authority.strip_suffix(":80").or_else(|| authority.strip_suffix(':')).unwrap_or(authority)
}

/// Splits an absolute reference into scheme and rest after the colon.
fn scheme(reference: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = reference.split_once(':')?;
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme.then_some((scheme, rest))
}

fn split_query(path: &str) -> (&str, &str) {
    path.split_at(path.find('?').unwrap_or(path.len()))
}

/// Removes `.` and `..` from a path (RFC 3986 section 5.2.4).
fn without_dots(path: &str) -> String {
    let (path, query) = split_query(path);
    let mut names: Vec<&str> = Vec::new();
    let mut parts = path.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        match part {
            "." | ".." => {
                if part == ".." {
                    names.pop();
                }
                // The remaining path is a folder.
                if is_last {
                    names.push("");
                }
            }
            name => names.push(name),
        }
    }
    format!("/{}{query}", names.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn location() -> Location {
        Location { authority: "host:80".to_owned(), path: "/a/b/list.m3u8?token=1/2".to_owned() }
    }

    #[test]
    fn references_are_resolved() {
        for (reference, path) in [
            ("1.ts", "/a/b/1.ts"),
            ("./c/1.ts?x=../y", "/a/b/c/1.ts?x=../y"),
            ("../1.ts", "/a/1.ts"),
            ("../../../1.ts", "/1.ts"),
            ("/1.ts", "/1.ts"),
            ("..", "/a/"),
            ("c/.", "/a/b/c/"),
            ("?x", "/a/b/list.m3u8?x"),
            ("//HOST:80/x", "/x"),
            ("http://host:80", "/"),
            ("http://Host/x", "/x"),
            ("http://host:/x", "/x"),
            ("HTTP://host:80?x", "/?x"),
            ("ü 1.ts#part", "/a/b/%C3%BC%201.ts"),
        ] {
            assert_eq!(location().resolve(reference).as_deref(), Ok(path), "{reference}");
        }
    }

    /// Promise: A playlist cannot direct `wirepath load` at another server.
    #[test]
    fn other_servers_are_refused() {
        let other = |name: &str| Err(PlaylistError::OtherServer(name.to_owned()));
        assert_eq!(location().resolve("http://host:8080/x"), other("host:8080"));
        let without_port = Location { authority: "host".to_owned(), ..location() };
        assert_eq!(without_port.resolve("http://host:80/x").as_deref(), Ok("/x"));
        assert_eq!(location().resolve("//me@host:80/x"), other("me@host:80"));
        let long = "x".repeat(PATH_LIMIT + 1);
        let unsupported = ["https://host:80/x", "data:text/plain,x", "http:x", "", "#x", &long];
        assert!(unsupported.iter().all(|reference| location().resolve(reference) == Err(PlaylistError::Url)));
    }

    proptest! {
        #[test]
        fn every_path_fits_a_request_line(reference in "\\PC{0,40}|[./?#a:]{0,12}|\\s{0,3}[\\x00-\\x20]{0,9}") {
            if let Ok(path) = location().resolve(&reference) {
                prop_assert!(path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic()), "{}", path);
                let folders = path.split('?').next().unwrap_or_default();
                prop_assert!(folders.split('/').all(|name| name != ".." && name != "."), "{}", path);
            }
        }
    }
}
