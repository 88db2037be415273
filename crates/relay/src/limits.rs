//! How many connections there can be: each takes descriptors, and of those the system gives so many.

use wirepath_net::raise_descriptor_limit;

/// Descriptors for everything else: listening sockets, checks of backends, who asks for metrics (32), the log.
const OTHERS: u64 = 200;

/// Descriptors of an engine thread: what it waits with, and what wakes it.
const OF_THREAD: u64 = 2;

/// More connections are asked for than there can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{connections} connections take {needed} descriptors, and this process may open {limit}: raise the limit (ulimit -n, or LimitNOFILE= \
     of a systemd unit) or ask for {possible} at most"
)]
pub struct TooManyConnections {
    connections: usize,
    needed: u64,
    limit: u64,
    possible: u64,
}

/// Raises the limit of open files as far as this user may, and answers how many connections there may be that take `each` descriptors
/// beside so many engine threads: those asked for, or else `usual` at most.
///
/// # Errors
/// If so many were asked for that descriptors do not suffice.
pub(crate) fn connections(
    asked: Option<usize>,
    each: u64,
    usual: usize,
    threads: usize,
) -> Result<usize, TooManyConnections> {
    let others = OTHERS + OF_THREAD * threads as u64;
    possible(asked, each, usual, others, raise_descriptor_limit())
}

fn possible(
    asked: Option<usize>,
    each: u64,
    usual: usize,
    others: u64,
    limit: u64,
) -> Result<usize, TooManyConnections> {
    let possible = limit.saturating_sub(others) / each;
    match asked {
        Some(connections) if connections as u64 > possible => {
            let needed = (connections as u64).saturating_mul(each).saturating_add(others);
            Err(TooManyConnections { connections, needed, limit, possible })
        }
        Some(connections) => Ok(connections),
        None => Ok(usual.min(possible as usize).max(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: Connections above the limit wait; a limit that descriptors do not allow is refused.
    /// Promise: Clients of a cache are limited.
    #[test]
    fn there_are_as_many_as_asked_for_or_as_there_can_be() {
        assert_eq!(possible(None, 10, 20_000, 200, 1 << 20), Ok(20_000));
        assert_eq!(possible(None, 10, 20_000, 200, 1024), Ok(82));
        assert_eq!(possible(None, 10, 20_000, 200 + 2 * 64, 1024), Ok(69), "64 threads have theirs");
        assert_eq!(possible(Some(82), 10, 20_000, 200, 1024), Ok(82));
        let error = possible(Some(83), 10, 20_000, 200, 1024).unwrap_err().to_string();
        assert!(
            error.contains("83 connections take 1030 descriptors") && error.contains("ask for 82"),
            "{error}"
        );
        assert!(possible(Some(usize::MAX), 8, 4096, 200, 1 << 30).is_err());
    }
}
