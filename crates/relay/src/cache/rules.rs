//! What may be kept and given out (RFC 9111), where the library that knows most of it has to be helped.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_cache_semantics::{CacheOptions, CachePolicy};
use wirepath_http::fields::{date_s, joined};

/// What is to be understood whole, or the answer is kept for nobody: the library leaves out lines with other
/// bytes than ASCII.
const RULES: &[HeaderName] = &[header::AGE, header::CACHE_CONTROL, header::EXPIRES, header::VARY];

/// What stands for any age that is greater (RFC 9111 section 1.2.2).
const GREATEST_AGE_S: u64 = 1 << 31;

/// What forbids to give out what is not fresh, whatever a client or a failing origin makes of it (RFC 9111
/// section 4.2.4).
const AGAINST_STALE: &[&str] = &["must-revalidate", "no-cache", "proxy-revalidate", "s-maxage"];

/// What says that an answer is for all, though it was asked for with a cookie.
const FOR_ALL: &[&str] = &["max-age", "public", "s-maxage"];

/// The rules. Directives are told apart without case (RFC 9111 section 5.2), and an answer is as old as it or
/// its date says (section 4.2.3): both the library leaves to us.
pub(super) fn policy(
    request: &HeaderMap,
    status: StatusCode,
    fields: &HeaderMap,
    received: SystemTime,
) -> CachePolicy {
    policy_of_age(request, status, fields, received, age_s(fields, received))
}

/// For how long an answer is fresh, counted from when the origin made it.
pub(super) fn lifetime(
    request: &HeaderMap,
    status: StatusCode,
    fields: &HeaderMap,
    received: SystemTime,
) -> Duration {
    // What would be left of that when it came, had it no age then.
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
    CachePolicy::new_options(&get(request), &response, received, options)
}

/// A GET request with these fields. Its URL is always the same here: entries of others are found under other
/// names.
pub(super) fn get(fields: &HeaderMap) -> Request<()> {
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

/// How old an answer was when it came: as it says, or by its date if that is more. With a greater age than
/// the greatest the library's sums overflow; what is no age is taken for the greatest.
fn age_s(fields: &HeaderMap, received: SystemTime) -> u64 {
    let read = |age: &HeaderValue| age.to_str().ok().and_then(|age| age.parse().ok());
    let stated_s = fields.get(header::AGE).map_or(0, |age| read(age).unwrap_or(GREATEST_AGE_S));
    let received_s = received.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let made_s = date_s(fields, &header::DATE).unwrap_or(received_s);
    stated_s.max(received_s.saturating_sub(made_s)).min(GREATEST_AGE_S)
}

/// Returns whether what decides about an answer can be read.
pub(super) fn can_be_judged(fields: &HeaderMap) -> bool {
    RULES.iter().flat_map(|name| fields.get_all(name)).all(|value| value.to_str().is_ok())
}

/// Returns whether the origin forbids to give it out when it is not fresh. Of all that does, the library
/// knows one directive.
pub(super) fn forbids_stale(fields: &HeaderMap) -> bool {
    has_directive(fields, AGAINST_STALE)
}

/// Returns whether the origin says that an answer is for all, or for how long it is good.
pub(super) fn is_for_all(fields: &HeaderMap) -> bool {
    has_directive(fields, FOR_ALL) || fields.contains_key(header::EXPIRES)
}

/// Returns whether `Cache-Control` has one of these, with a value or without.
pub(super) fn has_directive(fields: &HeaderMap, names: &[&str]) -> bool {
    let control = joined(fields, &header::CACHE_CONTROL).unwrap_or_default().to_ascii_lowercase();
    let name = |directive: &str| directive.split('=').next().unwrap_or_default().trim().to_owned();
    control.split(',').map(name).any(|name| names.contains(&name.as_str()))
}
