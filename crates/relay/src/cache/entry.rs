//! Entry of a cache: the head of a stored response, its use for requests (RFC 9111), and its record on disk.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_cache_semantics::{AfterResponse, BeforeRequest, CachePolicy};
use serde::{Deserialize, Serialize};
use wirepath_http::fields::joined;
use wirepath_http::http_date;

use super::head::{OriginResponse, fold};
use super::rules::{self, forbids_stale, get_request, is_for_all, is_readable};

/// Schema of records. Records with another schema are removed.
const SCHEMA: &str = "wirepath-cache/1";

/// Header fields that describe the body. A 304 does not change them (RFC 9111 section 3.2).
const BODY_FIELDS: &[HeaderName] =
    &[header::CONTENT_LENGTH, header::CONTENT_ENCODING, header::CONTENT_RANGE, header::CONTENT_TYPE];

/// Response to GET that is stored, or about to be stored.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) url: String,
    pub(super) status: StatusCode,
    /// Header fields as received, except the length.
    pub(super) fields: HeaderMap,
    pub(super) bytes: u64,
    /// Request header fields that `Vary` names.
    varying: HeaderMap,
    received: SystemTime,
    policy: CachePolicy,
}

/// Use of an entry for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// The entry is the response.
    Fresh,
    /// The entry is the response if the origin confirms it.
    Stale,
    /// The entry is the response to another request for the same URL.
    Other,
}

impl Entry {
    /// Makes an entry of the response to a GET with these fields, if a shared cache may store the response
    /// and can use it later.
    pub(super) fn new(
        url: &str,
        request: &HeaderMap,
        response: &OriginResponse,
        now: SystemTime,
    ) -> Option<Entry> {
        // The lifetime of many responses is heuristic; responses to requests with a cookie are probably
        // private.
        if request.contains_key(header::COOKIE) && !is_for_all(&response.fields) {
            return None;
        }
        Entry::of(url, request, response, now)
    }

    fn of(url: &str, request: &HeaderMap, response: &OriginResponse, now: SystemTime) -> Option<Entry> {
        let bytes = response.body_bytes?;
        let mut fields = response.fields.clone();
        fields.remove(header::CONTENT_LENGTH);
        if !fields.contains_key(header::DATE) {
            fields.insert(header::DATE, date(now)); // RFC 9110 section 6.6.1
        }
        if !is_readable(&fields) {
            return None;
        }
        let varies = joined(&fields, &header::VARY).unwrap_or_default();
        let partial =
            response.status == StatusCode::PARTIAL_CONTENT || fields.contains_key(header::CONTENT_RANGE);
        let personal =
            fields.contains_key(header::SET_COOKIE) || varies.split(',').any(|name| name.trim() == "*");
        let mut policy = rules::policy(request, response.status, &fields, now);
        if partial || personal || response.status == StatusCode::NO_CONTENT || !policy.is_storable() {
            return None;
        }
        let validates = fields.contains_key(header::ETAG) || fields.contains_key(header::LAST_MODIFIED);
        if policy.time_to_live(now).is_zero() && !validates {
            return None;
        }
        let varying = varying(request, &varies);
        policy = rules::policy(&varying, response.status, &fields, now);
        Some(Entry {
            url: url.to_owned(),
            status: response.status,
            fields,
            bytes,
            varying,
            received: now,
            policy,
        })
    }

    /// Use of the entry for a GET or HEAD request with these header fields.
    pub(super) fn use_for(&self, request: &HeaderMap, now: SystemTime) -> Use {
        match self.policy.before_request(&get_request(request), now) {
            BeforeRequest::Fresh(_) if self.policy.is_stale(now) && forbids_stale(&self.fields) => Use::Stale,
            BeforeRequest::Fresh(_) => Use::Fresh,
            BeforeRequest::Stale { matches: true, .. } => Use::Stale,
            BeforeRequest::Stale { matches: false, .. } => Use::Other,
        }
    }

    /// Adds the conditions of a revalidation. An entry without a tag and a date has none.
    pub(super) fn add_conditions(&self, fields: &mut HeaderMap) {
        if let Some(tag) = self.fields.get(header::ETAG) {
            fields.insert(header::IF_NONE_MATCH, tag.clone());
        }
        if let Some(modified) = self.fields.get(header::LAST_MODIFIED) {
            fields.insert(header::IF_MODIFIED_SINCE, modified.clone());
        }
    }

    /// Entry with the header fields of a 304; None if the 304 is about another version.
    pub(super) fn renewed(
        &self,
        request: &HeaderMap,
        response: &OriginResponse,
        now: SystemTime,
    ) -> Option<Entry> {
        let mut renewal = Response::new(());
        (*renewal.status_mut(), *renewal.headers_mut()) = (response.status, response.fields.clone());
        let validators = [header::ETAG, header::LAST_MODIFIED];
        if !validators.iter().any(|name| response.fields.contains_key(name)) {
            // Some origins leave the validators out (RFC 9110 section 15.4.5): then the 304 is about this
            // entry.
            let own = validators
                .into_iter()
                .filter_map(|name| Some((name.clone(), self.fields.get(name)?.clone())));
            renewal.headers_mut().extend(own);
        }
        if let AfterResponse::Modified(..) = self.policy.after_response(&get_request(request), &renewal, now)
        {
            return None;
        }
        let mut fields = self.fields.clone();
        fields.remove(header::AGE);
        fields.insert(header::DATE, date(now));
        for (name, value) in response.fields.iter().filter(|(name, _)| !BODY_FIELDS.contains(name)) {
            fields.insert(name, value.clone());
        }
        let response = OriginResponse { status: self.status, fields, body_bytes: Some(self.bytes) };
        Entry::of(&self.url, request, &response, now) // stored even if this request has a cookie
    }

    /// Returns whether the entry may be served when the origin fails (RFC 5861 section 4).
    pub(super) fn serves_on_error(&self, now: SystemTime) -> bool {
        let control = joined(&self.fields, &header::CACHE_CONTROL).unwrap_or_default().to_ascii_lowercase();
        let limit_s = control.split(',').map(str::trim).find_map(|directive| {
            directive.strip_prefix("stale-if-error=")?.trim_matches('"').parse::<u64>().ok()
        });
        !forbids_stale(&self.fields)
            && limit_s.is_some_and(|limit_s| self.staleness(now) <= Duration::from_secs(limit_s))
    }

    /// Age of the response, including its time in upstream caches.
    pub(super) fn age(&self, now: SystemTime) -> Duration {
        self.policy.age(now)
    }

    /// Time for which the entry stays fresh.
    pub(super) fn time_to_live(&self, now: SystemTime) -> Duration {
        self.policy.time_to_live(now)
    }

    fn staleness(&self, now: SystemTime) -> Duration {
        let lifetime = rules::lifetime(&self.varying, self.status, &self.fields, self.received);
        self.age(now).saturating_sub(lifetime)
    }

    /// Record with the name and time of the body's file.
    pub(super) fn record(&self, body: &str, body_modified_ns: u64) -> Record {
        let received = self.received.duration_since(UNIX_EPOCH).unwrap_or_default();
        Record {
            schema: SCHEMA.to_owned(),
            url: self.url.clone(),
            received_ms: received.as_millis() as u64,
            varying: as_text(&self.varying),
            status: self.status.as_u16(),
            fields: as_text(&self.fields),
            body: body.to_owned(),
            bytes: self.bytes,
            body_modified_ns,
        }
    }
}

/// Entry as JSON, in a file beside the file of its body.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    schema: String,
    url: String,
    received_ms: u64,
    /// Names and values of the request header fields that `Vary` names. Each character is a byte.
    varying: Vec<(String, String)>,
    status: u16,
    /// Names and values of the response header fields. Each character is a byte.
    fields: Vec<(String, String)>,
    /// File of the body: name, length, and time of its last change in nanoseconds since 1970.
    pub(super) body: String,
    pub(super) bytes: u64,
    pub(super) body_modified_ns: u64,
}

impl Record {
    /// Parses a record; None if it is damaged or has another schema.
    pub(super) fn read(json: &[u8]) -> Option<Record> {
        serde_json::from_slice(json).ok().filter(|record: &Record| record.schema == SCHEMA)
    }

    /// Entry of the record; None if it is damaged.
    pub(super) fn entry(&self) -> Option<Entry> {
        let (varying, fields) = (fold(from_text(&self.varying)?), from_text(&self.fields)?);
        if !is_readable(&fields) {
            return None;
        }
        let status = StatusCode::from_u16(self.status).ok()?;
        let received = UNIX_EPOCH.checked_add(Duration::from_millis(self.received_ms))?;
        let policy = rules::policy(&varying, status, &fields, received);
        Some(Entry { url: self.url.clone(), status, fields, bytes: self.bytes, varying, received, policy })
    }
}

fn varying(request: &HeaderMap, varies: &str) -> HeaderMap {
    let mut varying = HeaderMap::new();
    for name in
        varies.split(',').filter_map(|name| name.trim().to_ascii_lowercase().parse::<HeaderName>().ok())
    {
        varying.extend(request.get_all(&name).iter().map(|value| (name.clone(), value.clone())));
    }
    varying
}

fn date(now: SystemTime) -> HeaderValue {
    let now_s = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    HeaderValue::from_str(&http_date(now_s)).expect("a date is visible ASCII")
}

fn as_text(fields: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| value.as_bytes().iter().map(|&byte| char::from(byte)).collect();
    fields.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

fn from_text(lines: &[(String, String)]) -> Option<HeaderMap> {
    let mut fields = HeaderMap::with_capacity(lines.len());
    for (name, value) in lines {
        let bytes =
            value.chars().map(|character| u8::try_from(character).ok()).collect::<Option<Vec<u8>>>()?;
        fields.append(name.parse::<HeaderName>().ok()?, HeaderValue::from_bytes(&bytes).ok()?);
    }
    Some(fields)
}

#[cfg(test)]
mod tests;
