//! Response fields set by the operator: CORS, `Cache-Control` by folder; and `Content-Disposition`.

use std::sync::Arc;

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method};
use parking_lot::RwLock;
use wirepath_http::{AssetPath, Request, Response};

/// Seconds for which a browser may cache the response to a preflight.
const PREFLIGHT_AGE_S: &str = "86400";

/// Request fields that pages of other origins may send: ranges, conditions, passwords.
const ALLOWED_FIELDS: &str =
    "Authorization, If-Match, If-Modified-Since, If-None-Match, If-Range, If-Unmodified-Since, Range";

/// Response fields that pages of other origins may read, in addition to those that are always allowed.
const EXPOSED_FIELDS: &str = "Accept-Ranges, Content-Disposition, Content-Length, Content-Range, ETag";

/// `Cache-Control` of the files in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderCacheControl {
    /// Path of the folder or file in URLs, not encoded, without slashes at its ends; empty for everything.
    pub path: String,
    /// Value of the field.
    pub value: HeaderValue,
}

/// `Content-Disposition` of the files in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderDisposition {
    /// Path of the folder or file in URLs, not encoded, without slashes at its ends; empty for everything.
    pub path: String,
    /// Value of the field.
    pub disposition: Disposition,
}

/// Handling of a file by browsers (RFC 6266 section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The file is stored under its name.
    Attachment,
    /// The file is shown or played, as without the field.
    Inline,
}

/// Response fields set by the operator.
#[derive(Clone, Debug, Default)]
pub struct ResponseFields {
    /// Origins whose pages may read responses (WHATWG Fetch, section 3.3); `*` for all.
    pub origins: Vec<HeaderValue>,
    /// `Cache-Control` of folders; the innermost decides.
    pub cache_control: Vec<FolderCacheControl>,
    /// `Content-Disposition` of folders; the innermost decides.
    pub dispositions: Vec<FolderDisposition>,
}

/// The current fields, which may be replaced while the server runs.
#[derive(Debug, Default)]
pub(crate) struct CurrentFields(RwLock<Arc<ResponseFields>>);

impl CurrentFields {
    pub(crate) fn new(fields: ResponseFields) -> Arc<CurrentFields> {
        Arc::new(CurrentFields(RwLock::new(Arc::new(fields))))
    }

    pub(crate) fn get(&self) -> Arc<ResponseFields> {
        Arc::clone(&self.0.read())
    }

    /// Replaces the fields for later requests.
    pub(crate) fn replace(&self, fields: ResponseFields) {
        *self.0.write() = Arc::new(fields);
    }
}

impl ResponseFields {
    /// Fields of every response to a request.
    pub(crate) fn of_request(&self, request: &Request) -> HeaderMap {
        let mut fields = HeaderMap::new();
        if self.origins.is_empty() {
            return fields;
        }
        let is_open = self.origins.iter().any(|origin| origin == "*");
        if !is_open {
            fields.insert(header::VARY, HeaderValue::from_static("Origin"));
        }
        let Some(origin) = &request.origin else { return fields };
        let allowed = match is_open {
            true => HeaderValue::from_static("*"),
            false => match self.origins.iter().find(|allowed| *allowed == origin) {
                Some(allowed) => allowed.clone(),
                None => return fields,
            },
        };
        fields.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        let others: &[(HeaderName, &'static str)] = match request.method {
            Method::OPTIONS => &[
                (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD"),
                (header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_FIELDS),
                (header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_AGE_S),
            ],
            _ => &[(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_FIELDS)],
        };
        fields.extend(others.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))));
        fields
    }

    /// Adds the fields for files to a response about a file.
    pub(crate) fn of_file(&self, response: Response, path: &AssetPath, request: &Request) -> Response {
        let mut response = response;
        if let Some(value) = self.cache_control(path.as_bytes()) {
            response.headers.insert(header::CACHE_CONTROL, value.clone());
        }
        if response.status.is_success()
            && let Some(value) = self.content_disposition(path, &request.query)
        {
            response.headers.insert(header::CONTENT_DISPOSITION, value);
        }
        response
    }

    /// `Cache-Control` of a file.
    pub(super) fn cache_control(&self, path: &[u8]) -> Option<&HeaderValue> {
        let rules = self.cache_control.iter().map(|folder| (folder.path.as_str(), &folder.value));
        innermost(rules, path)
    }

    /// `Content-Disposition` of a file; `?download` counts more than folders.
    pub(super) fn content_disposition(&self, path: &AssetPath, query: &str) -> Option<HeaderValue> {
        let rules = self.dispositions.iter().map(|folder| (folder.path.as_str(), folder.disposition));
        let disposition = match is_download(query) {
            true => Disposition::Attachment,
            false => innermost(rules, path.as_bytes())?,
        };
        match disposition {
            Disposition::Inline => Some(HeaderValue::from_static("inline")),
            Disposition::Attachment => {
                HeaderValue::from_str(&attachment(path.segments().last().unwrap_or_default())).ok()
            }
        }
    }
}

/// The rule of the innermost folder around a file, or of the file itself.
fn innermost<'a, Rule>(rules: impl Iterator<Item = (&'a str, Rule)>, path: &[u8]) -> Option<Rule> {
    let holds = |(folder, _): &(&str, Rule)| {
        let rest = path.strip_prefix(folder.as_bytes());
        folder.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    rules.filter(holds).max_by_key(|(folder, _)| folder.len()).map(|(_, rule)| rule)
}

/// Returns whether a query requests that the file is stored instead of shown: `?download` or `?download=1`.
fn is_download(query: &str) -> bool {
    query.split('&').any(|part| matches!(part, "download" | "download=1"))
}

/// Value of `Content-Disposition` (RFC 6266 section 4): the name in ASCII for old clients, and the exact
/// name.
fn attachment(name: &[u8]) -> String {
    let is_plain = |byte: u8| byte == b' ' || byte.is_ascii_graphic() && !b"\"\\%".contains(&byte);
    let plain: String = String::from_utf8_lossy(name)
        .chars()
        .map(|c| if c.is_ascii() && is_plain(c as u8) { c } else { '_' })
        .collect();
    match name.iter().all(|&byte| is_plain(byte)) {
        true => format!("attachment; filename=\"{plain}\""),
        false => {
            let exact: String = name.iter().map(|&byte| escaped(byte)).collect();
            format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{exact}")
        }
    }
}

/// A byte in the encoding of RFC 8187 section 3.2.1.
fn escaped(byte: u8) -> String {
    match byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_downloads_are_quoted_or_encoded() {
        assert_eq!(attachment(b"a b.ts"), "attachment; filename=\"a b.ts\"");
        assert_eq!(
            attachment("Fußball \"1\"%.ts".as_bytes()),
            "attachment; filename=\"Fu_ball _1__.ts\"; filename*=UTF-8''Fu%C3%9Fball%20%221%22%25.ts"
        );
        assert_eq!(attachment(b"\xff\n"), "attachment; filename=\"__\"; filename*=UTF-8''%FF%0A");
    }

    #[test]
    fn a_query_asks_for_a_download() {
        for (query, expected) in
            [("", false), ("download", true), ("a=b&download=1", true), ("download=0", false)]
        {
            assert_eq!(is_download(query), expected, "{query}");
        }
    }

    #[test]
    fn the_innermost_folder_decides_about_dispositions() {
        let rule = |path: &str, disposition| FolderDisposition { path: path.to_owned(), disposition };
        let dispositions = vec![rule("cam", Disposition::Attachment), rule("cam/web", Disposition::Inline)];
        let fields = ResponseFields { dispositions, ..ResponseFields::default() };
        for (path, query, expected) in [
            ("a.ts", "", None),
            ("camera/a.ts", "", None),
            ("cam/a.ts", "", Some("attachment; filename=\"a.ts\"")),
            ("cam/web/a.ts", "", Some("inline")),
            ("cam/web/a.ts", "download", Some("attachment; filename=\"a.ts\"")),
            ("a.ts", "download=1", Some("attachment; filename=\"a.ts\"")),
        ] {
            let path = AssetPath::from_decoded(path.as_bytes()).unwrap();
            let value = fields.content_disposition(&path, query);
            assert_eq!(value.as_ref().map(|value| value.to_str().unwrap()), expected, "{path:?}?{query}");
        }
    }

    proptest! {
        /// Promise: No name of a file adds a header field or parameter to `Content-Disposition`, and the name is in it.
        #[test]
        fn no_name_leaves_its_parameter(name in prop::collection::vec(1_u8.., 1..40)) {
            prop_assume!(!name.contains(&b'/'));
            let value = attachment(&name);
            prop_assert!(value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{}", value);
            let plain = value.strip_prefix("attachment; filename=\"").unwrap();
            let (plain, rest) = plain.split_once('"').unwrap();
            prop_assert!(!plain.contains(['\\', '%']));
            match rest.strip_prefix("; filename*=UTF-8''") {
                Some(exact) => {
                    prop_assert!(!exact.contains([' ', ';', '"', '\\', '=', ',']), "{}", exact);
                    let decoded = AssetPath::decode(&format!("/{}", exact.replace('#', "%23"))).unwrap();
                    prop_assert_eq!(decoded.as_bytes(), &name[..]);
                }
                None => prop_assert!(rest.is_empty() && plain.as_bytes() == name, "{}", value),
            }
        }
    }

    #[test]
    fn the_innermost_folder_decides_about_caches() {
        let rule = |path: &str, value| FolderCacheControl {
            path: path.to_owned(),
            value: HeaderValue::from_static(value),
        };
        let cache_control =
            vec![rule("", "max-age=60"), rule("live", "no-store"), rule("live/old", "immutable")];
        let fields = ResponseFields { cache_control, ..ResponseFields::default() };
        for (path, expected) in [
            ("a.ts", "max-age=60"),
            ("live/a.ts", "no-store"),
            ("live/old/a.ts", "immutable"),
            ("live2/a.ts", "max-age=60"),
        ] {
            assert_eq!(fields.cache_control(path.as_bytes()).unwrap(), expected, "{path}");
        }
        assert_eq!(ResponseFields::default().cache_control(b"a.ts"), None);
    }
}
