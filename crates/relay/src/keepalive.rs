//! Socket options of TCP connections.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt;

/// Keepalive probes: idle time before the first, interval, and number without an answer after which the
/// connection is dead. Two minutes in all.
const IDLE: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_secs(10);
const PROBES: u32 = 6;

/// Sets `TCP_NODELAY` and keepalive, without which a peer that vanished would be waited for without end.
/// Unacknowledged data suppresses probes; then the kernel drops the connection after a quarter of an hour.
/// `TCP_USER_TIMEOUT` would shorten that, but also drop peers that acknowledge and have no room.
pub(crate) fn set_up(connection: impl AsFd) -> rustix::io::Result<()> {
    sockopt::set_tcp_nodelay(&connection, true)?;
    sockopt::set_socket_keepalive(&connection, true)?;
    sockopt::set_tcp_keepidle(&connection, IDLE)?;
    sockopt::set_tcp_keepintvl(&connection, INTERVAL)?;
    sockopt::set_tcp_keepcnt(&connection, PROBES)
}
