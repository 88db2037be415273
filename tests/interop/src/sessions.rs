//! Sessions of a client in the server's status.

use std::collections::BTreeSet;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, Result};
use wirepath_tests::server::Server;

/// Time between two looks at the status.
const INTERVAL: Duration = Duration::from_millis(100);

/// Values that the status showed of the sessions of a client.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Seen {
    pub(crate) transports: BTreeSet<String>,
    /// Whether their packets are encrypted by SRTP.
    pub(crate) srtp: BTreeSet<bool>,
    pub(crate) speeds: Vec<f64>,
    pub(crate) scales: Vec<f64>,
}

impl Seen {
    /// Adds the sessions of a user agent.
    fn add(&mut self, status: &serde_json::Value, agent: &str) -> Result<()> {
        let sessions = status["sessions"].as_array().context("the status has no sessions")?;
        for session in sessions.iter().filter(|session| session["agent"] == agent) {
            let transport = session["transport"].as_str().context("a session without a transport")?;
            self.transports.insert(transport.to_owned());
            self.srtp.insert(session["srtp"].is_string());
            let rate =
                |name: &str| session[name].as_f64().with_context(|| format!("a session without a {name}"));
            let (speed, scale) = (rate("speed")?, rate("scale")?);
            for (rates, rate) in [(&mut self.speeds, speed), (&mut self.scales, scale)] {
                if !rates.contains(&rate) {
                    rates.push(rate);
                }
            }
        }
        Ok(())
    }
}

/// Calls `play`, and returns what the status showed of sessions of `agent` meanwhile.
pub(crate) fn watch<T>(server: &Server, agent: &str, play: impl FnOnce() -> Result<T>) -> Result<(T, Seen)> {
    std::thread::scope(|scope| {
        let (stop, stopped) = channel::<()>();
        let watcher = scope.spawn(move || {
            let mut seen = Seen::default();
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                seen.add(&server.status()?, agent)?;
            }
            anyhow::Ok(seen)
        });
        let played = play();
        drop(stop);
        let seen =
            watcher.join().map_err(|_| anyhow::anyhow!("the thread that reads the status panicked"))?;
        Ok((played?, seen?))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn session(agent: &str, scale: f64) -> serde_json::Value {
        json!({ "agent": agent, "transport": "udp", "srtp": "AES", "speed": 1.0, "scale": scale })
    }

    #[test]
    fn only_sessions_of_the_agent_are_added() {
        let mut seen = Seen::default();
        for scale in [1.0, -4.0, -4.0] {
            let status = json!({ "sessions": [session("ours", scale), session("other", 8.0)] });
            seen.add(&status, "ours").unwrap();
        }
        assert_eq!(
            (seen.speeds.as_slice(), seen.scales.as_slice()),
            ([1.0].as_slice(), [1.0, -4.0].as_slice())
        );
        assert!(seen.srtp.iter().eq([&true]) && seen.transports.iter().eq(["udp"]), "{seen:?}");
        assert!(seen.add(&json!({}), "ours").is_err(), "no sessions");
    }
}
