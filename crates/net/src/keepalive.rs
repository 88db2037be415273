//! Detection of vanished peers by the kernel, also on idle connections.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt;

/// Minimum interval between TCP keepalive probes.
const LEAST_PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Makes the kernel probe an idle peer, and end the connection when the peer acknowledges nothing for
/// `timeout`.
///
/// # Errors
/// Errors of `setsockopt`.
pub fn expect_acknowledgements(stream: impl AsFd, timeout: Duration) -> io::Result<()> {
    sockopt::set_socket_keepalive(&stream, true)?;
    sockopt::set_tcp_keepidle(&stream, (timeout / 2).max(LEAST_PROBE_INTERVAL))?;
    sockopt::set_tcp_keepintvl(&stream, (timeout / 8).max(LEAST_PROBE_INTERVAL))?;
    sockopt::set_tcp_user_timeout(&stream, u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}
