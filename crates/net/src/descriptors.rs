//! The limit of open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard one, as far as this user may. Returns the limit that holds
/// then.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum
        && let Err(errno) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
    {
        tracing::warn!(%errno, "raising the limit of open files failed");
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
