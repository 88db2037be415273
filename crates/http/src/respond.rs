//! Response to a request for a stored file: conditions, then ranges, then the body by reference (RFC 9110
//! sections 13.2.2 and 14.2).

use http::{Method, StatusCode, header};

use crate::condition::Verdict;
use crate::{BodyPart, EntityTag, Extent, RangeSet, Request, Response, http_date};

/// Value of `Allow`.
pub const ALLOWED: &str = "GET, HEAD, OPTIONS";

/// Metadata of a stored file: the selected representation of RFC 9110 section 3.2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Representation {
    /// Size in bytes.
    pub size: u64,
    /// Time of the last modification, in seconds since 1970.
    pub modified_s: u64,
    /// Strong tag that changes whenever the content changes.
    pub tag: EntityTag,
    /// Content type.
    pub content_type: &'static str,
}

impl Representation {
    /// Returns whether the file can no longer change without a change of its date, at this time in seconds
    /// since 1970.
    pub fn is_settled(&self, now_s: u64) -> bool {
        self.modified_s.saturating_add(1) < now_s
    }

    /// Tag and modification date to send at this time. A file modified within the last seconds may be
    /// modified again without a change of its date, so its tag is weak until then (RFC 9110 section 8.8.1). A
    /// date in the future is sent as the current time (section 8.8.2.1).
    fn validators(&self, now_s: u64) -> (EntityTag, u64) {
        let tag = if self.is_settled(now_s) { self.tag.clone() } else { self.tag.weakened() };
        (tag, self.modified_s.min(now_s))
    }
}

/// Time and randomness of a response.
#[derive(Clone, Copy, Debug)]
pub struct ResponseContext {
    /// Current time in seconds since 1970.
    pub now_s: u64,
    /// Source of random numbers for the boundary between parts, which no file can contain on purpose. Called
    /// only for responses with several parts.
    pub boundary: fn() -> u128,
}

/// Response to a request for a file.
pub fn respond(request: &Request, file: &Representation, context: &ResponseContext) -> Response {
    respond_to_method(&request.method).unwrap_or_else(|| {
        let response = get(request, file, context);
        if request.method == Method::HEAD { response.without_body() } else { response }
    })
}

/// Response to a method other than GET and HEAD, which does not depend on the target (RFC 9110 sections
/// 9.3.7, 15.5.6 and 15.6.2).
pub fn respond_to_method(method: &Method) -> Option<Response> {
    let response = match *method {
        Method::GET | Method::HEAD => return None,
        Method::OPTIONS => Response::empty(StatusCode::NO_CONTENT),
        Method::POST | Method::PUT | Method::DELETE | Method::PATCH | Method::TRACE | Method::CONNECT => {
            Response::error(StatusCode::METHOD_NOT_ALLOWED, "read-only server")
        }
        _ => Response::error(StatusCode::NOT_IMPLEMENTED, "unknown method"),
    };
    Some(response.header(header::ALLOW, ALLOWED))
}

fn get(request: &Request, file: &Representation, context: &ResponseContext) -> Response {
    let is_settled = file.is_settled(context.now_s);
    let (tag, modified_s) = file.validators(context.now_s);
    let conditions = &request.conditions;
    let response = match conditions.verdict(Some(&tag), Some(modified_s)) {
        Verdict::Failed => Response::error(
            StatusCode::PRECONDITION_FAILED,
            "the file is another version than the request names",
        ),
        Verdict::NotModified => Response::empty(StatusCode::NOT_MODIFIED),
        Verdict::Go => {
            // Ranges are defined for GET only (RFC 9110 section 14.2).
            let applies = request.method == Method::GET
                && conditions.range_applies(Some(&tag), Some(modified_s), is_settled);
            let range = request.range.as_ref().filter(|_| applies);
            content(range, file.size, file.content_type, context.boundary)
        }
    };
    with_validators(response, (&tag, modified_s))
}

/// Response to a GET for the whole file, without range or conditions, at this time in seconds since 1970.
pub fn respond_in_full(file: &Representation, now_s: u64) -> Response {
    let (tag, modified_s) = file.validators(now_s);
    with_validators(content(None, file.size, file.content_type, || 0), (&tag, modified_s))
}

fn with_validators(response: Response, (tag, modified_s): (&EntityTag, u64)) -> Response {
    response.header(header::ETAG, &tag.to_string()).header(header::LAST_MODIFIED, &http_date(modified_s))
}

/// Response to GET for `size` bytes of this type, or for ranges of them; see [`ResponseContext`] for
/// `boundary`.
pub fn content(range: Option<&RangeSet>, size: u64, content_type: &str, boundary: fn() -> u128) -> Response {
    let response = match range.map(|range| range.resolve(size)).as_deref() {
        None => {
            let body = (size > 0).then_some(BodyPart::Extent(Extent { offset: 0, length: size }));
            Response::with_body(StatusCode::OK, content_type, body.into_iter().collect())
        }
        Some([]) => Response::error(StatusCode::RANGE_NOT_SATISFIABLE, &format!("the file has {size} bytes"))
            .header(header::CONTENT_RANGE, &format!("bytes */{size}")),
        Some([extent]) => {
            let body = vec![BodyPart::Extent(*extent)];
            Response::with_body(StatusCode::PARTIAL_CONTENT, content_type, body)
                .header(header::CONTENT_RANGE, &content_range(*extent, size))
        }
        Some(extents) => several_ranges(size, content_type, extents, boundary()),
    };
    response.fixed_header(header::ACCEPT_RANGES, "bytes")
}

/// Response with several parts (RFC 9110 section 14.6).
fn several_ranges(size: u64, content_type: &str, extents: &[Extent], boundary: u128) -> Response {
    let mut body = Vec::with_capacity(2 * extents.len() + 1);
    for (index, &extent) in extents.iter().enumerate() {
        let line_break = if index == 0 { "" } else { "\r\n" };
        let range = content_range(extent, size);
        let head = format!(
            "{line_break}--{boundary:032x}\r\nContent-Type: {content_type}\r\nContent-Range: {range}\r\n\r\n"
        );
        body.push(BodyPart::Bytes(head.into_bytes()));
        body.push(BodyPart::Extent(extent));
    }
    body.push(BodyPart::Bytes(format!("\r\n--{boundary:032x}--\r\n").into_bytes()));
    let content_type = format!("multipart/byteranges; boundary={boundary:032x}");
    Response::with_body(StatusCode::PARTIAL_CONTENT, &content_type, body)
}

fn content_range(extent: Extent, size: u64) -> String {
    format!("bytes {}-{}/{size}", extent.offset, extent.end() - 1)
}

#[cfg(test)]
mod tests;
