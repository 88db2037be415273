//! Access log: one line for each request.

use std::net::SocketAddr;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use http::{Method, StatusCode};
use serde_json::json;
use wirepath_http::{Request, Target};

/// Target of events whose message is the whole line, written without time and level.
pub const JSON_TARGET: &str = "wirepath_access_json";

/// Target of text lines.
const TARGET: &str = "wirepath_access";

/// Form of the access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AccessLog {
    /// Fields, as in the rest of the log
    Text,
    /// A JSON object on a line of its own
    Json,
}

/// Request that is not answered yet.
pub(super) struct Access {
    client: SocketAddr,
    method: Method,
    path: String,
    /// Query, if queries are logged and the request has one.
    query: Option<String>,
    agent: Option<String>,
    start: Instant,
}

impl Access {
    /// Begins the entry of a request, with its query or without.
    pub(super) fn begin(client: SocketAddr, request: &Request, logs_query: bool) -> Access {
        let path = match &request.target {
            // An encoded path has no line break.
            Target::Path(path) => format!("/{}", path.encoded()),
            Target::Asterisk | Target::Authority => "*".to_owned(),
        };
        let (method, agent) = (request.method.clone(), request.agent.clone());
        // A socket of both families has IPv4 addresses in the form of IPv6.
        let client = SocketAddr::new(client.ip().to_canonical(), client.port());
        let query = (logs_query && !request.query.is_empty()).then(|| request.query.clone());
        Access { client, method, path, query, agent, start: Instant::now() }
    }

    /// Writes the line of a request, with the number of body bytes of the response, and whether it was
    /// complete.
    pub(super) fn end(&self, form: AccessLog, status: StatusCode, bytes: u64, is_complete: bool) {
        let Access { client, method, path, query, agent, start } = self;
        let (status, seconds) = (status.as_u16(), start.elapsed().as_secs_f64());
        match form {
            AccessLog::Text => {
                tracing::info!(target: TARGET, %client, %method, path, query, status, bytes, is_complete, seconds, agent, "request");
            }
            AccessLog::Json => {
                let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
                let mut line = json!({
                    "time": time, "client": client.to_string(), "method": method.as_str(), "path": path,
                    "status": status, "bytes": bytes, "is_complete": is_complete, "seconds": seconds, "agent": agent,
                });
                if let Some(query) = query {
                    line["query"] = query.as_str().into();
                }
                tracing::info!(target: JSON_TARGET, "{line}");
            }
        }
    }
}
