//! Warnings for operators, derived from the rest of the status.

use serde_json::{Value as Json, json};

use crate::admission::LATE;

/// Share of a limit in use from which a warning is given.
const NEAR: f64 = 0.8;

/// Share of packets lost, as reported by a client, from which the client is named.
const LOSS: f64 = 0.005;

/// Most names in one warning.
const MOST_NAMES: usize = 3;

/// Warnings: limits that are near, sessions that are late, offload that is missing, clients that lose
/// packets, assets that failed.
pub(crate) fn conclude(status: &Json) -> Json {
    let late = lateness(status).into_iter().collect();
    let groups = [limits(status), late, data_path(status), losses(status), assets(status)];
    groups.into_iter().flatten().map(|(kind, text)| json!({"kind": kind, "text": text})).collect()
}

/// Kind for programs, and text for people.
type Warning = (&'static str, String);

fn limits(status: &Json) -> Vec<Warning> {
    let limit = |name, option, used: &str, most: &str| {
        let (used, most) = (status.pointer(used)?.as_f64()?, status.pointer(most)?.as_f64()?);
        let text = format!("{used} of {most} {name} are in use: raise {option}");
        (most > 0.0 && used >= NEAR * most).then_some(("limit_near", text))
    };
    let rtsp = "/rtsp/limits/connections";
    [
        limit("sessions", "--max-sessions", "/counters/rtsp/sessions", "/rtsp/limits/sessions"),
        limit(
            "sessions that there is capacity for",
            "the number of processors or --max-rate, or lower --reserve",
            "/capacity/sessions_playing",
            "/capacity/sessions",
        ),
        limit("RTSP connections", "--max-connections", "/rtsp/connections", rtsp),
        limit("HTTP connections", "--max-connections", "/http/connections", "/http/limits/connections"),
        limit(
            "file descriptors",
            "the limit of open files (ulimit -n, LimitNOFILE=)",
            "/counters/process/open_fds",
            "/counters/process/max_fds",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn lateness(status: &Json) -> Option<Warning> {
    let capacity = &status["capacity"];
    let late_ms = capacity["lateness_p99_ms"].as_f64()?;
    let refused = if capacity["is_late"] == true { ": new ones and downloads are refused" } else { "" };
    let text = format!("sessions are {late_ms:.0} ms late (99 %){refused}");
    (late_ms > LATE.as_secs_f64() * 1000.0).then_some(("late", text))
}

fn data_path(status: &Json) -> Vec<Warning> {
    let path = &status["data_path"];
    let devices = list(&path["devices_without_checksums"]).filter_map(Json::as_str).map(|device| {
        let why = "so payload is copied for its sessions: turn on tx-checksumming (ethtool -K)";
        ("offload_missing", format!("{device} computes no checksums, {why}"))
    });
    let exceptions = list(&path["exceptions"]).map(|exception| {
        let text = |key: &str| exception[key].as_str().unwrap_or_default().to_owned();
        ("stepped_down", format!("{}, using {}", text("reason"), text("name")))
    });
    let hot_memory = status["hot_memory"]["given_up"]
        .as_str()
        .filter(|_| status["hot_memory"]["automatic"] != true)
        .map(|reason| ("hot_memory", format!("no more images are held in hot memory: {reason}")));
    devices.chain(exceptions).chain(hot_memory).collect()
}

fn losses(status: &Json) -> Vec<Warning> {
    let lost = |session: &Json| session["receiver_report"]["fraction_lost"].as_f64().unwrap_or(0.0);
    let mut losing: Vec<&Json> = list(&status["sessions"]).filter(|session| lost(session) >= LOSS).collect();
    losing.sort_by(|one, other| lost(other).total_cmp(&lost(one)));
    let name = |session: &&Json| {
        format!("{} ({:.1} %)", session["client"].as_str().unwrap_or_default(), 100.0 * lost(session))
    };
    let by_clients = in_words("clients that report lost packets", &losing, name);
    let refused = |session: &&Json| session["packets_lost_here"].as_u64().unwrap_or(0) > 0;
    let here: Vec<&Json> = list(&status["sessions"]).filter(refused).collect();
    let name = |session: &&Json| {
        format!("{} ({})", session["client"].as_str().unwrap_or_default(), session["packets_lost_here"])
    };
    let by_network = in_words("sessions with packets that the network did not take", &here, name);
    let by_clients = by_clients.map(|text| ("client_loss", text));
    by_clients.into_iter().chain(by_network.map(|text| ("server_loss", text))).collect()
}

fn assets(status: &Json) -> Vec<Warning> {
    let failed: Vec<&Json> = list(&status["assets"]).filter(|asset| asset["state"] == "failed").collect();
    let name = |asset: &&Json| {
        let text = |key: &str| asset[key].as_str().unwrap_or_default();
        format!("{} ({})", text("name"), text("reason"))
    };
    let text = in_words("assets that cannot be played", &failed, name);
    text.map(|text| ("asset_failed", text)).into_iter().collect()
}

fn list(value: &Json) -> impl Iterator<Item = &Json> {
    value.as_array().into_iter().flatten()
}

/// `clients that report lost packets (4): A, B, C and 1 more`; none of nothing.
fn in_words(what: &str, of: &[&Json], name: impl Fn(&&Json) -> String) -> Option<String> {
    let names: Vec<String> = of.iter().take(MOST_NAMES).map(name).collect();
    let more = of.len() - names.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!of.is_empty()).then(|| format!("{what} ({}): {}{more}", of.len(), names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(status: Json) -> Vec<(String, String)> {
        let text = |value: &Json| value.as_str().unwrap().to_owned();
        list(&conclude(&status)).map(|warning| (text(&warning["kind"]), text(&warning["text"]))).collect()
    }

    #[test]
    fn a_quiet_server_has_none() {
        assert_eq!(texts(json!({})), []);
        let quiet = json!({
            "rtsp": {"limits": {"sessions": 10, "connections": 10}, "connections": 7},
            "capacity": {"sessions": 20, "sessions_playing": 15, "lateness_p99_ms": 100.0},
            "counters": {"rtsp": {"sessions": 7}, "process": {"open_fds": 5, "max_fds": 100}},
            "data_path": {"exceptions": [], "devices_without_checksums": []},
            "sessions": [{"client": "a", "packets_lost_here": 0, "receiver_report": null}],
            "assets": [{"name": "a", "state": "ready", "reason": null}],
        });
        assert_eq!(texts(quiet), []);
    }

    /// Promise: The status warns of nearly reached limits, missing offload, loss reported by RTCP and failed
    /// assets.
    #[test]
    fn what_an_operator_should_know() {
        let session = |client: &str, lost: f64, here: u64| {
            json!({
                "client": client, "packets_lost_here": here, "receiver_report": {"fraction_lost": lost},
            })
        };
        let status = json!({
            "rtsp": {"limits": {"sessions": 10}},
            "capacity": {"sessions": 20, "sessions_playing": 16, "lateness_p99_ms": 101.4, "is_late": true},
            "counters": {"rtsp": {"sessions": 8}, "process": {"open_fds": 95, "max_fds": 100}},
            "data_path": {
                "exceptions": [{"name": "sendmmsg", "reason": "wire_sendfile failed on a route"}],
                "devices_without_checksums": ["eth7"],
            },
            "hot_memory": {"given_up": "too little"},
            "sessions": [
                session("a", 0.01, 0), session("b", 0.5, 0), session("c", 0.02, 7), session("d", 0.03, 0),
            ],
            "assets": [{"name": "x", "state": "failed", "reason": "no PCR"}],
        });
        let found = texts(status);
        let kinds: Vec<&str> = found.iter().map(|(kind, _)| kind.as_str()).collect();
        let expected = [
            "limit_near",
            "limit_near",
            "limit_near",
            "late",
            "offload_missing",
            "stepped_down",
            "hot_memory",
            "client_loss",
            "server_loss",
            "asset_failed",
        ];
        assert_eq!(kinds, expected, "{found:?}");
        assert_eq!(found[0].1, "8 of 10 sessions are in use: raise --max-sessions");
        assert_eq!(
            found[7].1,
            "clients that report lost packets (4): b (50.0 %), d (3.0 %), c (2.0 %) and 1 more"
        );
        assert_eq!(found[3].1, "sessions are 101 ms late (99 %): new ones and downloads are refused");
        assert_eq!(found[9].1, "assets that cannot be played (1): x (no PCR)");
    }
}
