//! How TCP connections of relays and proxies are set up.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt;

/// When a peer is asked whether it is there: after so long without a word, again every so often, and it is gone when it has not answered so
/// many times. That is two minutes in all.
const SILENCE: Duration = Duration::from_secs(60);
const ASKED_AGAIN: Duration = Duration::from_secs(10);
const ASKED: u32 = 6;

/// Has a connection send what it is given at once, and ask for its peer when nothing has come for long: one that went away without a word
/// would be waited for without end, and so would one that never knew of the connection because it closed its socket just then.
/// While something is on its way to a peer, it is not asked: then it has not answered that, and the kernel gives it up by itself, in a
/// quarter of an hour. A limit to that (`TCP_USER_TIMEOUT`) would end those as well that answer but have no room.
pub(crate) fn set_up(connection: impl AsFd) -> rustix::io::Result<()> {
    sockopt::set_tcp_nodelay(&connection, true)?;
    sockopt::set_socket_keepalive(&connection, true)?;
    sockopt::set_tcp_keepidle(&connection, SILENCE)?;
    sockopt::set_tcp_keepintvl(&connection, ASKED_AGAIN)?;
    sockopt::set_tcp_keepcnt(&connection, ASKED)
}
