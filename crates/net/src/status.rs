//! `GET /api/status`: the state of the program as JSON; all [`Metrics`] appear under `counters`.

use crate::metrics::Metrics;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::time::Instant;

/// State of a program: keys that its parts [add](Status::add), and `version`, `uptime_s` and `counters`.
pub struct Status {
    started: Instant,
    parts: BTreeMap<&'static str, Box<dyn Fn() -> Json + Send + Sync>>,
}

impl Status {
    /// The status of a server started at this time.
    pub fn new(started: Instant) -> Self {
        Self { started, parts: BTreeMap::new() }
    }

    /// Adds a key. `read` is called for each request, and must be quick.
    pub fn add(&mut self, key: &'static str, read: impl Fn() -> Json + Send + Sync + 'static) {
        let before = self.parts.insert(key, Box::new(read));
        debug_assert!(before.is_none(), "{key} was added twice");
    }

    /// The state at this time.
    pub fn json(&self, metrics: &Metrics, now: Instant) -> Json {
        let mut object: Map<String, Json> =
            self.parts.iter().map(|(key, read)| ((*key).to_owned(), read())).collect();
        object.insert("version".into(), json!(env!("CARGO_PKG_VERSION")));
        object.insert("uptime_s".into(), json!(now.duration_since(self.started).as_secs()));
        object.insert("counters".into(), metrics.json());
        Json::Object(object)
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
        let json = status.json(&Metrics::default(), started + Duration::from_secs(90));
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            json,
            json!({"version": version, "uptime_s": 90, "counters": {}, "sessions": [{"asset": "clip.ts"}]})
        );
    }
}
