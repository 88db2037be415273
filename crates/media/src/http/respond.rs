//! The answer to a request for a stored file: conditions, then ranges, then the body by reference (RFC 9110
//! sections 13.2.2 and 14.2).

use super::condition::Verdict;
use super::{EntityTag, Extent, Method, Part, RangeSet, Request, Response, Status, http_date};

/// The value of `Allow`.
pub const ALLOWED: &str = "GET, HEAD, OPTIONS";

/// What is known of a file before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Size in bytes.
    pub size: u64,
    /// When it was last modified, in seconds since 1970.
    pub modified_s: u64,
    /// A strong tag that is another one whenever the content is.
    pub tag: EntityTag,
    /// Its content type.
    pub content_type: &'static str,
}

/// What an answer depends on besides the request and the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Circumstances {
    /// The time, in seconds since 1970.
    pub now_s: u64,
    /// A random number: the boundary between parts, which no file can hold on purpose.
    pub boundary: u128,
}

/// The answer to a request for a file.
pub fn respond(request: &Request, facts: &Facts, circumstances: &Circumstances) -> Response {
    if let Some(response) = respond_to_method(request.method) {
        return response;
    }
    if request.method == Method::Head {
        // A range is defined for GET only (RFC 9110 section 14.2).
        let request = Request { range: None, ..request.clone() };
        return get(&request, facts, circumstances).without_body();
    }
    get(request, facts, circumstances)
}

/// The answer to a method that needs no look at the target, which is any but GET and HEAD (RFC 9110 sections 9.3.7,
/// 15.5.6 and 15.6.2).
pub fn respond_to_method(method: Method) -> Option<Response> {
    let response = match method {
        Method::Get | Method::Head => return None,
        Method::Options => Response::empty(Status::NoContent),
        Method::Disallowed => Response::error(Status::MethodNotAllowed, "nothing can be changed here"),
        Method::Unknown => Response::error(Status::NotImplemented, "this method is not known here"),
    };
    Some(response.header("Allow", ALLOWED))
}

fn get(request: &Request, facts: &Facts, circumstances: &Circumstances) -> Response {
    let validators = Validators::of(facts, circumstances.now_s);
    let response = match request.conditions.verdict(Some(&validators.tag), Some(validators.modified_s)) {
        Verdict::Failed => {
            Response::error(Status::PreconditionFailed, "the file is not the one the request is about")
        }
        Verdict::NotModified => Response::empty(Status::NotModified),
        Verdict::Go => selected(request, facts, &validators, circumstances),
    };
    response
        .header("ETag", validators.tag.to_string())
        .header("Last-Modified", http_date(validators.modified_s))
}

/// The tag and date as they are sent and compared.
struct Validators {
    tag: EntityTag,
    modified_s: u64,
    settled: bool,
}

impl Validators {
    /// A file modified within the last seconds may be modified again without its date showing it, so until then
    /// its tag is a weak one (RFC 9110 section 8.8.1). A date in the future is told as now (section 8.8.2.1).
    fn of(facts: &Facts, now_s: u64) -> Self {
        let settled = facts.modified_s.saturating_add(1) < now_s;
        let tag = if settled { facts.tag.clone() } else { facts.tag.weakened() };
        Self { tag, modified_s: facts.modified_s.min(now_s), settled }
    }
}

fn selected(
    request: &Request,
    facts: &Facts,
    validators: &Validators,
    circumstances: &Circumstances,
) -> Response {
    let (tag, modified_s) = (Some(&validators.tag), Some(validators.modified_s));
    let applies = request.conditions.range_applies(tag, modified_s, validators.settled);
    let range = request.range.as_ref().filter(|_| applies);
    content(range, facts.size, facts.content_type, circumstances.boundary)
}

/// The answer to GET for so many bytes of this type, of which perhaps some ranges are asked for; `boundary` is as in
/// [`Circumstances`].
pub fn content(range: Option<&RangeSet>, size: u64, content_type: &str, boundary: u128) -> Response {
    let response = match range.map(|range| range.resolve(size)) {
        None => whole(size, content_type),
        Some(extents) => match extents[..] {
            [] => return not_satisfiable(size),
            [extent] => one_range(size, content_type, extent),
            _ => several_ranges(size, content_type, &extents, boundary),
        },
    };
    response.header("Accept-Ranges", "bytes")
}

fn whole(size: u64, content_type: &str) -> Response {
    let extent = Extent { offset: 0, length: size };
    let body = if size == 0 { Vec::new() } else { vec![Part::Extent(extent)] };
    Response::with_body(Status::Ok, content_type, body)
}

fn one_range(size: u64, content_type: &str, extent: Extent) -> Response {
    Response::with_body(Status::PartialContent, content_type, vec![Part::Extent(extent)])
        .header("Content-Range", content_range(extent, size))
}

/// RFC 9110 section 14.6.
fn several_ranges(size: u64, content_type: &str, extents: &[Extent], boundary: u128) -> Response {
    let mut body = Vec::with_capacity(2 * extents.len() + 1);
    for (index, &extent) in extents.iter().enumerate() {
        let line_break = if index == 0 { "" } else { "\r\n" };
        let range = content_range(extent, size);
        let head = format!(
            "{line_break}--{boundary:032x}\r\nContent-Type: {content_type}\r\nContent-Range: {range}\r\n\r\n"
        );
        body.push(Part::Bytes(head.into_bytes()));
        body.push(Part::Extent(extent));
    }
    body.push(Part::Bytes(format!("\r\n--{boundary:032x}--\r\n").into_bytes()));
    let content_type = format!("multipart/byteranges; boundary={boundary:032x}");
    Response::with_body(Status::PartialContent, &content_type, body)
}

fn not_satisfiable(size: u64) -> Response {
    Response::error(Status::RangeNotSatisfiable, &format!("the file has {size} bytes"))
        .header("Content-Range", format!("bytes */{size}"))
        .header("Accept-Ranges", "bytes")
}

fn content_range(extent: Extent, size: u64) -> String {
    format!("bytes {}-{}/{size}", extent.offset, extent.end() - 1)
}

#[cfg(test)]
mod tests;
