//! Connections to the addresses of a name.

use std::future::Future;
use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use tokio::time::timeout;

/// Tries the addresses one after the other, within `limit`. Each address gets an equal part of the time left,
/// so that an unresponsive address leaves time for the others.
pub(crate) async fn connect_to_any<A: Clone, C, F: Future<Output = io::Result<C>>>(
    addresses: &[A],
    limit: Duration,
    connect: impl Fn(A) -> F,
) -> io::Result<C> {
    let begun = Instant::now();
    let mut last = io::ErrorKind::AddrNotAvailable.into();
    for (tried, address) in addresses.iter().enumerate() {
        let left = limit.saturating_sub(begun.elapsed());
        match timeout(left / (addresses.len() - tried) as u32, connect(address.clone())).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(error)) if is_local_exhaustion(&error) => return Err(error),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

/// Returns whether connecting failed for lack of local descriptors or memory. Such an error says nothing
/// about the peer.
pub(crate) fn is_local_exhaustion(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    /// Promise: If an address of a name does not answer, time remains to try the other addresses.
    #[test]
    fn an_unresponsive_address_leaves_time_for_the_others() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let connect = |address: &'static str| async move {
            match address {
                "silent" => pending().await,
                "wanting" => Err(Errno::MFILE.into()),
                "closed" => Err(io::ErrorKind::ConnectionRefused.into()),
                open => Ok(open),
            }
        };
        let tried = |addresses: &'static [&'static str]| {
            runtime.block_on(connect_to_any(addresses, Duration::from_millis(200), connect))
        };
        let by = |addresses| tried(addresses).map_err(|error| error.kind());
        assert_eq!(by(&["silent", "closed", "silent", "open"]), Ok("open"));
        assert_eq!(by(&["silent", "closed"]), Err(io::ErrorKind::ConnectionRefused));
        assert_eq!(by(&["closed", "silent"]), Err(io::ErrorKind::TimedOut));
        assert!(tried(&["wanting", "closed"]).is_err_and(|error| is_local_exhaustion(&error)));
    }
}
