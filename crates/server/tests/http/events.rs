//! Server-sent events of the status.

use crate::http_support::RunningListener;
use crate::{Client, open};
use serde_json::Value as Json;
use std::io::Read;
use wirepath_net::http::{HttpOptions, MOST_LISTENERS};

/// A client that has asked for events, behind the head of the answer.
struct Listening(Client, Vec<u8>);

impl Listening {
    fn new(listener: &RunningListener) -> Self {
        let mut client = Client::new(listener);
        client.send("GET /api/events HTTP/1.1\r\nHost: h\r\n\r\n");
        let mut listening = Self(client, Vec::new());
        let head = listening.until("\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("\r\nContent-Type: text/event-stream\r\n"), "{head}");
        assert!(head.contains("\r\nConnection: close\r\n"), "{head}");
        assert_eq!(listening.until("\n\n"), "retry: 2000\n\n");
        listening
    }

    fn until(&mut self, end: &str) -> String {
        loop {
            let place = self.1.windows(end.len()).position(|window| window == end.as_bytes());
            if let Some(place) = place {
                let rest = self.1.split_off(place + end.len());
                return String::from_utf8(std::mem::replace(&mut self.1, rest)).unwrap();
            }
            let mut bytes = [0; 4096];
            let length = self.0.stream.read(&mut bytes).unwrap();
            assert!(length > 0, "the stream ended");
            self.1.extend_from_slice(&bytes[..length]);
        }
    }

    fn event(&mut self) -> Json {
        let event = self.until("\n\n");
        serde_json::from_str(event.strip_prefix("data: ").unwrap_or_else(|| panic!("{event}"))).unwrap()
    }
}

/// Promise: `/api/events` sends what `/api/status` shows at intervals, the same to all listeners.
#[test]
fn all_listeners_see_the_same() {
    let listener = open();
    let (mut one, mut other) = (Listening::new(&listener), Listening::new(&listener));
    let mut first = one.event();
    let second = one.event();
    assert!(second["uptime_ms"].as_u64() > first["uptime_ms"].as_u64());
    let mut seen = vec![other.event(), other.event()];
    seen.retain(|event| event["uptime_ms"] == second["uptime_ms"]);
    assert_eq!(seen, [second], "it is rendered once");
    assert_eq!(first["counters"]["http"]["responses_sending"], 0);
    let keys = |json: &Json| json.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let mut client = Client::new(&listener);
    let status: Json = serde_json::from_slice(&client.ask("GET", "/api/status", "").body).unwrap();
    assert_eq!(keys(&first), keys(&status));
    assert_eq!(status["counters"]["http"]["event_streams"], 2);
    first["http"].take();
    drop((one, other));
    assert_eq!(client.ask("HEAD", "/api/events", "").status, 200);
    assert_eq!(client.ask("GET", "/api/events/", "").status, 200);
}

#[test]
fn listeners_are_limited_and_end_when_drained() {
    let listener = RunningListener::new(HttpOptions::default());
    let mut listening: Vec<_> = (0..MOST_LISTENERS).map(|_| Listening::new(&listener)).collect();
    let mut client = Client::new(&listener);
    let refused = client.ask("GET", "/api/events", "");
    assert_eq!((refused.status, refused.value("Retry-After")), (503, Some("5")));
    listener.drain();
    for client in &mut listening {
        let events = [std::mem::take(&mut client.1), client.0.rest()].concat();
        assert!(events.is_empty() || events.ends_with(b"\n\n"), "an event is cut");
    }
    drop((listening, client));
    listener.wait();
}

#[test]
fn a_listener_is_a_connection() {
    let options = HttpOptions { max_connections_per_address: 1, ..HttpOptions::default() };
    let listener = RunningListener::new(options);
    let listening = Listening::new(&listener);
    assert_eq!(Client::new(&listener).answer(false).status, 503);
    drop(listening);
}
