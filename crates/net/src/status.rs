//! `GET /api/status`: state of the program as JSON; all [`Metrics`] appear under `counters`.

use crate::metrics::Metrics;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::time::Instant;

/// State of a program: keys [added](Status::add) by its parts, and `version`, `uptime_s`, `uptime_ms` and
/// `counters`.
pub struct Status {
    started: Instant,
    parts: BTreeMap<&'static str, Box<dyn Fn() -> Json + Send + Sync>>,
    conclusions: BTreeMap<&'static str, Conclude>,
}

/// Derives a value from all other parts.
type Conclude = fn(&Json) -> Json;

impl Status {
    /// Status of a server started at this time.
    pub fn new(started: Instant) -> Self {
        Self { started, parts: BTreeMap::new(), conclusions: BTreeMap::new() }
    }

    /// Adds a key. `read` is called for each request and each event, on a separate thread, and must never
    /// wait for storage or an engine thread.
    pub fn add(&mut self, key: &'static str, read: impl Fn() -> Json + Send + Sync + 'static) {
        let before = self.parts.insert(key, Box::new(read));
        debug_assert!(before.is_none(), "{key} was added twice");
    }

    /// Adds a key whose value is derived from the others.
    pub fn conclude(&mut self, key: &'static str, conclude: Conclude) {
        let before = self.conclusions.insert(key, conclude);
        debug_assert!(before.is_none() && !self.parts.contains_key(key), "{key} was added twice");
    }

    /// State at this time. Takes a while with thousands of sessions.
    pub fn json(&self, metrics: &Metrics, now: Instant) -> Json {
        let mut object: Map<String, Json> =
            self.parts.iter().map(|(key, read)| ((*key).to_owned(), read())).collect();
        object.insert("version".into(), json!(env!("CARGO_PKG_VERSION")));
        let uptime = now.duration_since(self.started);
        object.insert("uptime_s".into(), json!(uptime.as_secs()));
        object.insert("uptime_ms".into(), json!(uptime.as_millis() as u64));
        object.insert("counters".into(), metrics.json());
        let mut status = Json::Object(object);
        for (key, conclude) in &self.conclusions {
            status[*key] = conclude(&status);
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn parts_and_our_own() {
        let started = Instant::now();
        let mut status = Status::new(started);
        status.add("sessions", || json!([{"asset": "clip.ts"}]));
        status.conclude("count", |all| json!(all["sessions"].as_array().map(Vec::len)));
        let json = status.json(&Metrics::default(), started + Duration::from_millis(90_250));
        let expected = json!({
            "version": env!("CARGO_PKG_VERSION"), "uptime_s": 90, "uptime_ms": 90_250, "counters": {},
            "sessions": [{"asset": "clip.ts"}], "count": 1,
        });
        assert_eq!(json, expected);
    }
}
