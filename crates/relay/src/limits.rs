//! Limit of connections by the descriptors that the system allows.

use wirepath_net::raise_descriptor_limit;

/// Descriptors used by everything except connections: listeners, health checks, 32 metrics clients, the log.
const OTHERS: u64 = 200;

/// Descriptors of an engine thread: an epoll and an eventfd.
const PER_THREAD: u64 = 2;

/// Error: the requested number of connections needs more descriptors than the process may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{connections} connections need {needed} descriptors, and the limit of this process is {limit}: raise it (ulimit -n, or \
     LimitNOFILE= of a systemd unit) or allow at most {possible} connections"
)]
pub struct TooManyConnections {
    connections: usize,
    needed: u64,
    limit: u64,
    possible: u64,
}

/// Raises the limit of open files, and returns the limit of connections of `each` descriptors beside so many
/// engine threads: the number `asked` for, if the descriptors suffice, or by default at most `usual`.
pub(crate) fn connections(
    asked: Option<usize>,
    each: u64,
    usual: usize,
    threads: usize,
) -> Result<usize, TooManyConnections> {
    let others = OTHERS + PER_THREAD * threads as u64;
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

    /// Promise: Connections above the limit wait; a limit above the available descriptors is refused.
    /// Promise: The number of a cache's clients is limited.
    #[test]
    fn connections_are_limited_by_descriptors() {
        assert_eq!(possible(None, 10, 20_000, 200, 1 << 20), Ok(20_000));
        assert_eq!(possible(None, 10, 20_000, 200, 1024), Ok(82));
        assert_eq!(possible(None, 10, 20_000, 200 + 2 * 64, 1024), Ok(69), "64 threads need some");
        assert_eq!(possible(Some(82), 10, 20_000, 200, 1024), Ok(82));
        let error = possible(Some(83), 10, 20_000, 200, 1024).unwrap_err().to_string();
        assert!(
            error.contains("83 connections need 1030 descriptors") && error.contains("at most 82"),
            "{error}"
        );
        assert!(possible(Some(usize::MAX), 8, 4096, 200, 1 << 30).is_err());
    }
}
