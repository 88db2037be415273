//! Sessions of a client in the server's status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use wirepath_tests::server::Server;

/// Time between two looks at the status.
const INTERVAL: Duration = Duration::from_millis(100);

/// Successive states of a session that pauses and resumes.
const PAUSE: [&str; 3] = ["playing", "resting", "playing"];

/// Values that the status showed of the sessions of a client.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Seen {
    pub(crate) transports: BTreeSet<String>,
    /// Encryption of their packets by SRTP: true for encrypted ones.
    pub(crate) srtp: BTreeSet<bool>,
    pub(crate) speeds: Vec<f64>,
    pub(crate) scales: Vec<f64>,
    /// Successive states of each session, by its number.
    phases: BTreeMap<u64, Vec<Phase>>,
}

/// State of a session, and its count of sent packets at each look.
#[derive(Debug, PartialEq)]
struct Phase {
    state: String,
    packets: Vec<u64>,
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
            let number =
                |name: &str| session[name].as_u64().with_context(|| format!("a session without {name}"));
            let state = session["state"].as_str().context("a session without a state")?;
            let (id, packets) = (number("id")?, number("packets")?);
            let phases = self.phases.entry(id).or_default();
            match phases.last_mut().filter(|phase| phase.state == state) {
                Some(phase) => phase.packets.push(packets),
                None => phases.push(Phase { state: state.to_owned(), packets: vec![packets] }),
            }
        }
        Ok(())
    }

    /// Ensures that a session rested between two states of playing, and that it sent nothing meanwhile. The first
    /// look at the rest may be before the end of the picture with which the pause begins.
    pub(crate) fn ensure_paused(&self) -> Result<()> {
        let is_pause = |phases: &[Phase]| phases.iter().map(|phase| &phase.state).eq(PAUSE);
        let mut windows = self.phases.values().flat_map(|phases| phases.windows(PAUSE.len()));
        let pause = windows.find(|phases| is_pause(phases));
        let pause = pause.with_context(|| format!("the server's status showed no pause: {self:?}"))?;
        let counts = pause[1].packets.get(1..).unwrap_or_default();
        let is_still = counts.windows(2).all(|pair| pair[0] == pair[1]);
        ensure!(is_still, "the server sent packets during the pause: {counts:?} packets in all");
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
        json!({
            "agent": agent, "transport": "udp", "srtp": "AES", "speed": 1.0, "scale": scale,
            "id": 1, "state": "playing", "packets": 0,
        })
    }

    /// Successive looks at a session: its state and its count of packets.
    fn looks(looks: &[(&str, u64)]) -> Seen {
        let mut seen = Seen::default();
        for (state, packets) in looks {
            let mut session = session("ours", 1.0);
            session["state"] = (*state).into();
            session["packets"] = (*packets).into();
            seen.add(&json!({ "sessions": [session] }), "ours").unwrap();
        }
        seen
    }

    #[test]
    fn a_pause_is_a_rest_without_packets_between_two_states_of_playing() {
        let (playing, end) = (("playing", 5), ("playing", 9));
        let is_paused = |states: &[(&str, u64)]| looks(states).ensure_paused().is_ok();
        assert!(is_paused(&[playing, ("resting", 5), end]));
        assert!(is_paused(&[("resting", 0), playing, ("resting", 5), ("resting", 6), ("resting", 6), end]));
        assert!(!is_paused(&[playing, playing, end]), "no rest");
        assert!(!is_paused(&[("resting", 0), playing, end]), "a rest before playing only");
        assert!(!is_paused(&[playing, ("resting", 5), ("ended", 5)]), "not resumed");
        assert!(!is_paused(&[playing, ("resting", 5), ("resting", 6), ("resting", 7), end]), "packets");
    }

    #[test]
    fn states_of_two_sessions_are_no_pause() {
        let mut seen = looks(&[("playing", 5)]);
        let mut other = session("ours", 1.0);
        (other["id"], other["state"]) = (2.into(), "resting".into());
        seen.add(&json!({ "sessions": [other] }), "ours").unwrap();
        seen.add(&json!({ "sessions": [session("ours", 1.0)] }), "ours").unwrap();
        assert!(seen.ensure_paused().is_err());
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
