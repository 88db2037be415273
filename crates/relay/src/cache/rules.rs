//! Rules for storing and reusing responses (RFC 9111) that the library does not implement.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_cache_semantics::{CacheOptions, CachePolicy};
use wirepath_http::fields::{date_s, joined};

/// Header fields that must be readable: the library ignores lines with bytes that are not ASCII.
const READABLE: &[HeaderName] = &[header::AGE, header::CACHE_CONTROL, header::EXPIRES, header::VARY];

/// Maximum age. A greater age counts as this one (RFC 9111 section 1.2.2).
const MAX_AGE_S: u64 = 1 << 31;

/// Directives that forbid stale responses, whatever the client allows, and even if the origin fails (RFC 9111
/// section 4.2.4).
const FORBID_STALE: &[&str] = &["must-revalidate", "no-cache", "proxy-revalidate", "s-maxage"];

/// Directives that allow a response to be shared even if its request had a cookie.
const FOR_ALL: &[&str] = &["max-age", "public", "s-maxage"];

/// Policy of a response. The library compares directives case-sensitively (contrary to RFC 9111 section 5.2)
/// and does not derive the age from the date (section 4.2.3), so this function prepares both.
pub(super) fn policy(
    request: &HeaderMap,
    status: StatusCode,
    fields: &HeaderMap,
    received: SystemTime,
) -> CachePolicy {
    policy_of_age(request, status, fields, received, age_s(fields, received))
}

/// Time for which a response is fresh, counted from its creation by the origin.
pub(super) fn lifetime(
    request: &HeaderMap,
    status: StatusCode,
    fields: &HeaderMap,
    received: SystemTime,
) -> Duration {
    // The library returns the time left on receipt, so the age is set to 0.
    policy_of_age(request, status, fields, received, 0).time_to_live(received)
}

fn policy_of_age(
    request: &HeaderMap,
    status: StatusCode,
    fields: &HeaderMap,
    received: SystemTime,
    age_s: u64,
) -> CachePolicy {
    let mut response = Response::new(());
    (*response.status_mut(), *response.headers_mut()) = (status, with_lower_directives(fields));
    response.headers_mut().insert(header::AGE, age_s.into());
    let options = CacheOptions { shared: true, ..CacheOptions::default() };
    CachePolicy::new_options(&get_request(request), &response, received, options)
}

/// GET request with these header fields. The URL does not matter, since entries are already selected by URL.
pub(super) fn get_request(fields: &HeaderMap) -> Request<()> {
    let mut request = Request::new(());
    *request.headers_mut() = with_lower_directives(fields);
    request
}

fn with_lower_directives(fields: &HeaderMap) -> HeaderMap {
    let mut fields = fields.clone();
    if let Some(control) = joined(&fields, &header::CACHE_CONTROL)
        && let Ok(control) = HeaderValue::from_str(&control.to_ascii_lowercase())
    {
        fields.insert(header::CACHE_CONTROL, control);
    }
    fields
}

/// Age of a response on receipt: the greater of its stated age and the age by its date. An invalid age counts
/// as the maximum; the library's sums overflow beyond the maximum.
fn age_s(fields: &HeaderMap, received: SystemTime) -> u64 {
    let read = |age: &HeaderValue| age.to_str().ok().and_then(|age| age.parse().ok());
    let stated_s = fields.get(header::AGE).map_or(0, |age| read(age).unwrap_or(MAX_AGE_S));
    let received_s = received.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let made_s = date_s(fields, &header::DATE).unwrap_or(received_s);
    stated_s.max(received_s.saturating_sub(made_s)).min(MAX_AGE_S)
}

/// Returns whether the header fields that decide about storing are readable.
pub(super) fn is_readable(fields: &HeaderMap) -> bool {
    READABLE.iter().flat_map(|name| fields.get_all(name)).all(|value| value.to_str().is_ok())
}

/// Returns whether the origin forbids stale responses. The library knows only one of these directives.
pub(super) fn forbids_stale(fields: &HeaderMap) -> bool {
    has_directive(fields, FORBID_STALE)
}

/// Returns whether the response may be shared, or states its lifetime.
pub(super) fn is_for_all(fields: &HeaderMap) -> bool {
    has_directive(fields, FOR_ALL) || fields.contains_key(header::EXPIRES)
}

/// Returns whether `Cache-Control` has one of these directives, with or without a value.
pub(super) fn has_directive(fields: &HeaderMap, names: &[&str]) -> bool {
    let control = joined(fields, &header::CACHE_CONTROL).unwrap_or_default().to_ascii_lowercase();
    let name = |directive: &str| directive.split('=').next().unwrap_or_default().trim().to_owned();
    control.split(',').map(name).any(|name| names.contains(&name.as_str()))
}
