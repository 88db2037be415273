//! Options of an HTTP listener.

use super::access_log::AccessLog;
use super::connection::Timeouts;

/// Limits of an HTTP listener.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Maximum number of connections.
    pub max_connections: usize,
    /// Maximum number of connections from one address; for IPv6, from one /64 network.
    pub max_connections_per_address: usize,
    /// Timeouts for clients.
    pub timeouts: Timeouts,
    /// Form of the access log; `None` for no access log.
    pub access_log: Option<AccessLog>,
    /// True if the access log has the queries of requests, which must not contain secrets such as signatures.
    pub logs_queries: bool,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            max_connections: 4096,
            max_connections_per_address: 256,
            timeouts: Timeouts::default(),
            access_log: None,
            logs_queries: false,
        }
    }
}
