//! The `ready` line of streams, the one line on standard output. It is printed when all streams are open or
//! have failed.

use std::collections::BTreeMap;

use wirepath_relay::{Configuration, GroupEvent, StreamSnapshot};
use wirepath_streams::StreamEvent;

/// Streams that are not open yet, and the line so far.
pub(super) struct Ready {
    /// Number of events to wait for, per stream: its start, and each of its listeners.
    awaited: BTreeMap<String, usize>,
    line: String,
    any_started: bool,
}

impl Ready {
    pub(super) fn new(configuration: &Configuration) -> Ready {
        let streams = configuration.streams.iter();
        let awaited = streams.map(|plan| (plan.name.clone(), 1 + plan.config.listeners())).collect();
        Ready { awaited, line: "ready".to_owned(), any_started: false }
    }

    /// Notes an event. Returns the line when no stream is left to open and at least one has started.
    pub(super) fn note(&mut self, stream: &StreamSnapshot, event: &GroupEvent) -> Option<String> {
        let left = self.awaited.get_mut(&stream.name)?;
        match event {
            GroupEvent::Started => {
                self.any_started = true;
                *left -= 1;
            }
            GroupEvent::Running(StreamEvent::Listening { name, address, .. }) => {
                let scheme = if name.starts_with("unix:") { "unix:" } else { "tcp://" };
                self.line += &format!(" listen={scheme}{address}");
                *left -= 1;
            }
            GroupEvent::OpenFailed | GroupEvent::Ended(_) => *left = 0,
            _ => return None,
        }
        if *left == 0 {
            self.awaited.remove(&stream.name);
        }
        (self.awaited.is_empty() && self.any_started).then(|| self.line.clone())
    }
}

#[cfg(test)]
mod tests {
    use wirepath_streams::{Framing, Object, StreamBuilder};

    use super::*;

    fn named(name: &str) -> StreamSnapshot {
        StreamSnapshot { name: name.to_owned(), ..StreamSnapshot::default() }
    }

    fn listening(name: &str, address: &str) -> GroupEvent {
        let input = Object::memory("any", "".into());
        let port = StreamBuilder::default().input(input, Framing::Whole).build().status().inputs[0].port;
        let (name, address) = (name.to_owned(), address.to_owned());
        GroupEvent::Running(StreamEvent::Listening { port, name, address })
    }

    fn of(streams: &[(&str, usize)]) -> Ready {
        let awaited = streams.iter().map(|(name, awaited)| ((*name).to_owned(), *awaited)).collect();
        Ready { awaited, line: "ready".to_owned(), any_started: false }
    }

    #[test]
    fn the_line_comes_once_when_all_are_open() {
        let mut ready = of(&[("a", 2), ("b", 2), ("c", 1)]);
        assert_eq!(ready.note(&named("a"), &GroupEvent::Started), None);
        assert_eq!(ready.note(&named("a"), &listening("tcp://:0?listen", "[::]:9001")), None);
        assert_eq!(ready.note(&named("c"), &GroupEvent::OpenFailed), None);
        assert_eq!(ready.note(&named("b"), &GroupEvent::Started), None);
        let line = ready.note(&named("b"), &listening("unix:/run/b?listen", "/run/b"));
        assert_eq!(line.as_deref(), Some("ready listen=tcp://[::]:9001 listen=unix:/run/b"));
        assert_eq!(ready.note(&named("a"), &GroupEvent::Ended(Ok(()))), None);
    }

    #[test]
    fn streams_that_all_fail_are_not_ready() {
        let mut ready = of(&[("a", 1)]);
        assert_eq!(ready.note(&named("a"), &GroupEvent::OpenFailed), None);
    }
}
