//! Socket options of TCP connections.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt;

/// Keepalive probes: idle time before the first probe, interval, and number of unanswered probes after which
/// the connection is dead. Two minutes in all.
const IDLE: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_secs(10);
const PROBES: u32 = 6;

/// Sets `TCP_NODELAY` and keepalive. Without keepalive, a connection whose peer vanished would never end.
/// Unacknowledged data suppresses probes; the kernel then drops the connection after a quarter of an hour.
/// `TCP_USER_TIMEOUT` would shorten that time, but would also drop peers that acknowledge and have no room.
pub(crate) fn set_up(connection: impl AsFd) -> rustix::io::Result<()> {
    sockopt::set_tcp_nodelay(&connection, true)?;
    sockopt::set_socket_keepalive(&connection, true)?;
    sockopt::set_tcp_keepidle(&connection, IDLE)?;
    sockopt::set_tcp_keepintvl(&connection, INTERVAL)?;
    sockopt::set_tcp_keepcnt(&connection, PROBES)
}
