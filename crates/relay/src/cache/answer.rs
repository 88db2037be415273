//! Responses to clients: heads, and the parts of the body after them.

use std::fs::File;
use std::sync::Arc;
use std::time::SystemTime;

use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode, Version};
use wirepath_engine::DropOnPool;
use wirepath_http::fields::{date_s, only};
use wirepath_http::{
    BodyPart, Conditions, EntityTag, RangeSet, Response, Verdict, content, status_line, write_head,
};
use wirepath_streams::{self as streams, WriteProgress};

use super::entry::Entry;
use super::head::{self, ClientRequest, OriginResponse};

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// Header fields of a 304 response (RFC 9110 section 15.4.5).
const NOT_MODIFIED_FIELDS: &[HeaderName] = &[
    header::CACHE_CONTROL,
    header::CONTENT_LOCATION,
    header::DATE,
    header::ETAG,
    header::EXPIRES,
    header::LAST_MODIFIED,
    header::VARY,
];

/// Entry and its body, which is complete or still growing.
#[derive(Clone)]
pub(super) struct Served {
    pub(super) entry: Arc<Entry>,
    pub(super) file: Arc<DropOnPool<Arc<File>>>,
    pub(super) progress: Option<Arc<WriteProgress>>,
}

/// Head of a response, and the parts of its body.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) head: Vec<u8>,
    pub(super) parts: Vec<streams::ObjectPart>,
}

/// Source of a response, for `Cache-Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Served from the cache.
    Hit,
    /// Stale entry, served because the origin failed.
    Stale,
    /// Entry that the origin confirmed.
    Revalidated,
    /// Fetched and stored.
    Miss,
    /// Fetched for another request and stored.
    Shared,
    /// Passed through, for this reason.
    Passed(&'static str),
}

impl Source {
    fn field(self, left_s: u64) -> HeaderValue {
        let text = match self {
            Source::Hit => format!("wirepath; hit; ttl={left_s}"),
            Source::Stale => "wirepath; hit; fwd=stale; detail=stale-if-error".to_owned(),
            Source::Revalidated => "wirepath; fwd=stale; fwd-status=304; stored".to_owned(),
            Source::Miss => "wirepath; fwd=miss; stored".to_owned(),
            Source::Shared => "wirepath; fwd=miss; stored; collapsed".to_owned(),
            Source::Passed(why) => format!("wirepath; fwd={why}"),
        };
        HeaderValue::from_str(&text).expect("it is visible ASCII")
    }
}

impl Served {
    pub(super) fn is_whole(&self) -> bool {
        self.progress.as_ref().is_none_or(|progress| progress.bytes() == self.entry.bytes)
    }

    /// Response to a GET or HEAD request, with its conditions and ranges; `boundary` is a source of
    /// random numbers.
    pub(super) fn answer(
        &self,
        request: &ClientRequest,
        source: Source,
        now: SystemTime,
        boundary: fn() -> u128,
    ) -> Answer {
        let (entry, is_ok) = (&self.entry, self.entry.status == StatusCode::OK);
        let (tag, modified_s) = validators(&entry.fields);
        let conditions = conditions(&request.fields);
        let mut fields = entry.fields.clone();
        fields.insert(header::AGE, entry.age(now).as_secs().into());
        fields.append(CACHE_STATUS, source.field(entry.time_to_live(now).as_secs()));
        if is_ok && conditions.verdict(tag.as_ref(), modified_s) == Verdict::NotModified {
            let kept = |name: &HeaderName| {
                NOT_MODIFIED_FIELDS.contains(name) || *name == header::AGE || *name == CACHE_STATUS
            };
            let fields = fields.iter().filter(|(name, _)| kept(name));
            let fields = fields.map(|(name, value)| (name.clone(), value.clone())).collect();
            return Answer {
                head: finish(StatusCode::NOT_MODIFIED, fields, request, None),
                parts: Vec::new(),
            };
        }
        // A date alone does not distinguish two versions of the same second (RFC 9110 section 8.8.2.2).
        let settled = date_s(&entry.fields, &header::DATE)
            .zip(modified_s)
            .is_some_and(|(date, modified)| modified + 1 < date);
        let applies = is_ok
            && request.method == Method::GET
            && conditions.range_applies(tag.as_ref(), modified_s, settled);
        let range = only(&request.fields, &header::RANGE).filter(|_| applies).and_then(RangeSet::parse);
        let content_type = only(&entry.fields, &header::CONTENT_TYPE).unwrap_or("application/octet-stream");
        let selected = content(range.as_ref(), entry.bytes, content_type, boundary);
        self.of(selected, fields, request)
    }

    /// Response with the selected bytes of the entry. The selection changes some header fields.
    fn of(&self, selected: Response, mut fields: HeaderMap, request: &ClientRequest) -> Answer {
        let status = if selected.status == StatusCode::OK { self.entry.status } else { selected.status };
        let is_error = selected.status == StatusCode::RANGE_NOT_SATISFIABLE;
        if is_error {
            [header::CONTENT_ENCODING, header::ETAG, header::LAST_MODIFIED]
                .iter()
                .for_each(|name| drop(fields.remove(name)));
        }
        for (name, value) in &selected.headers {
            // The entry's own Content-Type remains, unless the response has several parts or is an error.
            let is_changed = *name == header::CONTENT_RANGE
                || *name == header::ACCEPT_RANGES && self.entry.status == StatusCode::OK
                || *name == header::CONTENT_TYPE
                    && (is_error || value.as_bytes().starts_with(b"multipart/byteranges"));
            if is_changed {
                fields.insert(name, value.clone());
            }
        }
        let head = finish(status, fields, request, Some(selected.body_length()));
        let parts = if request.method == Method::HEAD { Vec::new() } else { selected.body };
        Answer { head, parts: parts.into_iter().map(|part| self.part(part)).collect() }
    }

    fn part(&self, part: BodyPart) -> streams::ObjectPart {
        let file = Arc::clone(&**self.file);
        match (part, &self.progress) {
            (BodyPart::Bytes(bytes), _) => streams::ObjectPart::Bytes(bytes.into()),
            (BodyPart::Extent(extent), None) => {
                streams::ObjectPart::Extent { file, range: extent.offset..extent.end() }
            }
            (BodyPart::Extent(extent), Some(progress)) => {
                let progress = Arc::clone(progress);
                streams::ObjectPart::Following { file, range: extent.offset..extent.end(), progress }
            }
        }
    }
}

/// Head of a response that passes through.
pub(super) fn passed(response: &OriginResponse, request: &ClientRequest, why: &'static str) -> Vec<u8> {
    let mut fields = response.fields.clone();
    fields.append(CACHE_STATUS, Source::Passed(why).field(0));
    if response.body_bytes.is_none() {
        fields.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    finish(response.status, fields, request, None)
}

fn finish(
    status: StatusCode,
    mut fields: HeaderMap,
    request: &ClientRequest,
    length: Option<u64>,
) -> Vec<u8> {
    if let Some(length) = length {
        fields.insert(header::CONTENT_LENGTH, length.into());
    }
    match (request.keep_alive, request.version) {
        (false, _) => drop(fields.insert(header::CONNECTION, HeaderValue::from_static("close"))),
        (true, Version::HTTP_10) if !fields.contains_key(header::CONNECTION) => {
            fields.insert(header::CONNECTION, HeaderValue::from_static("keep-alive"));
        }
        (true, _) => {}
    }
    head::add_via(&mut fields);
    write_head(&status_line(status), &fields)
}

/// Conditions that a cache may evaluate (RFC 9111 section 4.3.2).
fn conditions(fields: &HeaderMap) -> Conditions {
    Conditions::of(fields).without_preconditions()
}

fn validators(fields: &HeaderMap) -> (Option<EntityTag>, Option<u64>) {
    (only(fields, &header::ETAG).and_then(EntityTag::read), date_s(fields, &header::LAST_MODIFIED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};
    use wirepath_engine::{BlockingPool, Priority};

    const TOLD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nContent-Type: a/b\r\nETag: \"t\"\r\n\
        Date: Fri, 15 Jan 2027 08:00:00 GMT\r\nLast-Modified: Thu, 14 Jan 2027 08:00:00 GMT\r\nX: y\r\n\
        Cache-Control: max-age=60\r\n\r\n";

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_800_000_000) // 15 Jan 2027 08:00:00
    }

    /// Head and body length of the response to a request for a stored entry that is ten seconds old.
    fn answer(method: &str, lines: &str) -> (String, u64) {
        let response = OriginResponse::read(TOLD.as_bytes(), &Method::GET).unwrap().unwrap().0;
        let entry = Arc::new(Entry::new("http://o/", &HeaderMap::new(), &response, now()).unwrap());
        let pool = BlockingPool::start("closer", 1, Priority::Normal).unwrap();
        let file = Arc::new(DropOnPool::new(Arc::new(tempfile::tempfile().unwrap()), &pool));
        let served = Served { entry, file, progress: None };
        let request = format!("{method} / HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
        let request = ClientRequest::read(request.as_bytes()).unwrap();
        let answer = served.answer(&request, Source::Hit, now() + Duration::from_secs(10), || 7);
        let bytes = answer.parts.iter().map(|part| match part {
            streams::ObjectPart::Extent { range, .. } => range.end - range.start,
            _ => 0,
        });
        (String::from_utf8(answer.head).unwrap(), bytes.sum())
    }

    #[test]
    fn a_hit_has_the_head_of_the_origin_with_its_age() {
        let (head, bytes) = answer("GET", "");
        assert_eq!(
            head,
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Type: a/b\r\nETag: \"t\"\r\n\
             Date: Fri, 15 Jan 2027 08:00:00 GMT\r\nLast-Modified: Thu, 14 Jan 2027 08:00:00 GMT\r\nX: y\r\nAge: 10\r\n\
             Cache-Status: wirepath; hit; ttl=50\r\nAccept-Ranges: bytes\r\nContent-Length: 1000\r\nVia: 1.1 wirepath\r\n\r\n"
        );
        assert_eq!(bytes, 1000);
        let (of_head, bytes) = answer("HEAD", "Range: bytes=0-1\r\n");
        assert_eq!((of_head, bytes), (head, 0));
    }

    /// Promise: Cached responses serve ranges, HEAD and conditional requests.
    #[test]
    fn conditions_and_ranges_are_answered() {
        const EARLIER: &str = "Wed, 13 Jan 2027 08:00:00 GMT";
        const MODIFIED: &str = "Thu, 14 Jan 2027 08:00:00 GMT";
        for (lines, status, bytes, has) in [
            ("If-None-Match: \"t\"\r\n".to_owned(), 304, 0, "Age: 10"),
            ("If-None-Match: \"u\"\r\n".to_owned(), 200, 1000, "X: y"),
            (format!("If-Modified-Since: {MODIFIED}\r\n"), 304, 0, "ETag: \"t\""),
            (format!("If-Modified-Since: {EARLIER}\r\n"), 200, 1000, "X: y"),
            ("Range: bytes=-10\r\n".to_owned(), 206, 10, "Content-Range: bytes 990-999/1000"),
            ("Range: bytes=0-0,500-509\r\n".to_owned(), 206, 11, "Content-Type: multipart/byteranges"),
            ("Range: bytes=1000-\r\n".to_owned(), 416, 0, "Content-Range: bytes */1000"),
            ("Range: bytes=0-1\r\nIf-Range: \"u\"\r\n".to_owned(), 200, 1000, "X: y"),
            (format!("Range: bytes=0-1\r\nIf-Range: {MODIFIED}\r\n"), 206, 2, "Content-Range"),
        ] {
            let (head, sent) = answer("GET", &lines);
            assert!(
                head.starts_with(&format!("HTTP/1.1 {status} ")) && head.contains(has),
                "{lines}: {head}"
            );
            assert_eq!(sent, bytes, "{lines}");
        }
        assert!(!answer("GET", "If-None-Match: \"t\"\r\n").0.contains("Content-"), "a 304 has no body");
    }
}
