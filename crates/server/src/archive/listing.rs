//! Recordings of an archive as JSON, a page at a time.

use chrono::{DateTime, SecondsFormat};
use http::{StatusCode, header};
use serde_json::{Value as Json, json};
use wirepath_http::{BodyPart, Response, encode_segment};
use wirepath_media::rtsp::ClockTime;

use super::folder::{ArchiveFolder, Length};
use super::recordings::{Recording, Recordings};

/// Default and largest number of recordings on a page. It is limited because their durations are read from
/// the files.
const USUAL_PAGE: usize = 100;
const MOST_PAGE: usize = 1000;

/// Requested part of the recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Query {
    /// Times in microseconds since 1970.
    from_us: i64,
    to_us: i64,
    limit: usize,
}

impl Query {
    /// Parses a query if it requests recordings: `recordings&from=TIME&to=TIME&limit=NUMBER`.
    fn parse(query: &str) -> Option<Result<Query, String>> {
        let parts = || query.split('&').map(|part| part.split_once('=').unwrap_or((part, "")));
        parts().any(|(name, _)| name == "recordings").then(|| {
            let mut asked = Query { from_us: i64::MIN, to_us: i64::MAX, limit: USUAL_PAGE };
            for (name, value) in parts() {
                match name {
                    "from" => asked.from_us = time_us(value)?,
                    "to" => asked.to_us = time_us(value)?,
                    "limit" => {
                        let limit = value.parse().ok().filter(|limit| (1..=MOST_PAGE).contains(limit));
                        asked.limit =
                            limit.ok_or_else(|| format!("limit={value}: expected 1 to {MOST_PAGE}"))?;
                    }
                    _ => {} // such as what a signed URL has
                }
            }
            Ok(asked)
        })
    }
}

/// Parses a time in a query: RFC 3339, or as in `Range: clock=`.
fn time_us(value: &str) -> Result<i64, String> {
    let text = value.replace("%3A", ":").replace("%3a", ":").replace("%2B", "+").replace("%2b", "+");
    let time = ClockTime::parse(&text).map(|time| time.0);
    let time = time.or_else(|| DateTime::parse_from_rfc3339(&text).ok().map(|time| time.timestamp_micros()));
    time.ok_or_else(|| format!("{value}: expected a time such as 2026-11-23T10:00:00Z"))
}

/// Response to GET of an archive's folder, if its query requests recordings. Waits for storage.
pub(crate) fn respond(folder: &ArchiveFolder, query: &str) -> Option<Response> {
    let query = match Query::parse(query)? {
        Ok(query) => query,
        Err(why) => return Some(Response::error(StatusCode::BAD_REQUEST, &why)),
    };
    let Some(_permit) = folder.permit_listing() else {
        let response =
            Response::error(StatusCode::SERVICE_UNAVAILABLE, "too many listings of this archive at a time");
        return Some(response.header(header::RETRY_AFTER, "1"));
    };
    let recordings = match folder.recordings() {
        Ok(recordings) => recordings,
        Err(error) => return Some(Response::error(error.http_status(), &error.to_string())),
    };
    let text = format!("{:#}\n", page(folder, &recordings, query));
    let response =
        Response::with_body(StatusCode::OK, "application/json", vec![BodyPart::Bytes(text.into_bytes())]);
    Some(response.header(header::CACHE_CONTROL, "no-cache"))
}

/// A page of recordings. Recordings that are gone or cannot be played, or do not tell their duration, have
/// none.
fn page(folder: &ArchiveFolder, recordings: &Recordings, query: Query) -> Json {
    let found = recordings.between(query.from_us, query.to_us);
    let listed = found.get(..query.limit).unwrap_or(found);
    let entry = |recording: &Recording| {
        let duration_us = match folder.length(recording, recordings) {
            Ok(Length::Known(duration_us)) => Some(duration_us),
            Ok(Length::Unknown | Length::NotPlayable) | Err(_) => None,
        };
        let end_us = duration_us.map(|duration_us| recording.start_us.saturating_add_unsigned(duration_us));
        let next = recordings.after(recording.start_us);
        let gap_us = end_us.zip(next).map(|(end_us, next)| next.start_us.saturating_sub(end_us).max(0));
        json!({
            "name": String::from_utf8_lossy(&recording.name),
            "url": url(&recording.name),
            "start": shown(recording.start_us),
            "duration_s": duration_us.map(|us| us as f64 / 1e6),
            "gap_s": gap_us.map(|us| us as f64 / 1e6),
        })
    };
    json!({
        "archive": folder.path(),
        "recordings": listed.iter().map(entry).collect::<Vec<_>>(),
        "total": recordings.all().len(),
        "next": found.get(query.limit).map(|next| shown(next.start_us)),
    })
}

/// Link to a recording from its archive.
fn url(name: &[u8]) -> String {
    name.split(|byte| *byte == b'/').map(encode_segment).collect::<Vec<_>>().join("/")
}

/// Time for people and programs (RFC 3339).
fn shown(time_us: i64) -> Option<String> {
    let time = DateTime::from_timestamp_micros(time_us)?;
    Some(time.to_rfc3339_opts(SecondsFormat::AutoSi, true))
}

#[cfg(test)]
mod tests {

    use wirepath_engine::{BlockingPool, Priority};

    use super::super::folder::LISTINGS;
    use super::super::{ArchiveOptions, NamePattern, TimeZone};
    use super::*;
    use crate::images::{ImageFolder, Store};
    use crate::library::Library;

    /// Promise: An archive makes four listings at a time; others get 503 and `Retry-After`, and work again later.
    #[test]
    fn listings_beyond_the_limit_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let media = home.path().join("media");
        std::fs::create_dir_all(media.join("cam")).unwrap();
        let cache = ImageFolder::open(&home.path().join("cache"), 1 << 20).unwrap();
        let readers = BlockingPool::start("reader", 1, Priority::Normal).unwrap();
        let pattern = NamePattern::parse(NamePattern::USUAL, TimeZone::Utc).unwrap();
        let options = ArchiveOptions { path: "cam".to_owned(), pattern };
        let library = Library::open(&[media]).unwrap();
        let store = Store::new(cache, readers, 1).unwrap();
        let folder = super::super::ArchiveFolder::new(options, &library, store).unwrap();
        let listed = || respond(&folder, "recordings").unwrap();
        let permits: Vec<_> = (1..LISTINGS).map(|_| folder.permit_listing().unwrap()).collect();
        assert_eq!(listed().status, StatusCode::OK, "it is the fourth");
        let last = folder.permit_listing().unwrap();
        let refused = listed();
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
        let head = String::from_utf8(refused.head(http::Version::HTTP_11, true, 0)).unwrap();
        assert!(head.to_ascii_lowercase().contains("retry-after: 1\r\n"), "{head}");
        drop(last);
        assert_eq!(listed().status, StatusCode::OK);
        drop(permits);
    }

    fn parsed(query: &str) -> Option<Result<Query, ()>> {
        Query::parse(query).map(|query| query.map_err(|_| ()))
    }

    #[test]
    fn queries_name_times_and_a_limit() {
        let ten = 1_795_428_000_000_000;
        let all = Query { from_us: i64::MIN, to_us: i64::MAX, limit: USUAL_PAGE };
        assert_eq!(parsed(""), None);
        assert_eq!(parsed("format=json"), None);
        assert_eq!(parsed("recordings"), Some(Ok(all)));
        for from in ["2026-11-23T10:00:00Z", "20261123T100000Z", "2026-11-23T11%3A00:00%2B01:00"] {
            let query = format!("recordings&from={from}&limit=5&token=x");
            assert_eq!(parsed(&query), Some(Ok(Query { from_us: ten, limit: 5, ..all })), "{from}");
        }
        for query in ["recordings&from=", "recordings&to=noon", "recordings&limit=0", "recordings&limit=1001"]
        {
            assert_eq!(parsed(query), Some(Err(())), "{query}");
        }
    }
}
