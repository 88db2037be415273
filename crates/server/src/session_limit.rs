//! The limit of sessions, and the limit of the process that determines it.

use wirepath_net::DescriptorBudget;

/// Most sessions if nothing else limits them.
const USUAL: usize = 10_000;

/// Descriptors of a session with its own RTSP connection: the connection and its RTP socket.
const PER_SESSION: usize = 2;

/// More open files than the reserve of any limit, so that the limit that an error suggests is enough.
const MARGIN: usize = 1024;

/// More sessions were requested than open files allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "--max-sessions {sessions} needs {needed} open files, and the limit of this process (RLIMIT_NOFILE) is {limit}, \
     enough for {possible} sessions: run `sudo prlimit --pid $$ --nofile={needed}` in this shell and start again (in a \
     systemd unit: LimitNOFILE={needed}; a container: `--ulimit nofile={needed}:{needed}`), or lower --max-sessions"
)]
pub struct TooManySessions {
    sessions: usize,
    needed: usize,
    limit: u64,
    possible: usize,
}

/// Most sessions: the number `asked` for, or else the default, as far as open files allow. Logs which limit
/// applies. `limit` is the limit of open files.
pub(crate) fn sessions(
    asked: Option<usize>,
    limit: u64,
    descriptors: &DescriptorBudget,
) -> Result<usize, TooManySessions> {
    let for_clients = descriptors.for_clients();
    let sessions = choose(asked, limit, for_clients)?;
    let possible = for_clients / PER_SESSION;
    let limited_by = match asked {
        Some(_) => "--max-sessions",
        None if possible < USUAL => "open files",
        None => "the default of --max-sessions",
    };
    tracing::info!(
        sessions,
        limited_by,
        open_files = limit,
        for_clients,
        each = PER_SESSION,
        "limit of sessions; a session takes an RTSP connection and an RTP socket, a download three open files"
    );
    Ok(sessions)
}

fn choose(asked: Option<usize>, limit: u64, for_clients: usize) -> Result<usize, TooManySessions> {
    let possible = for_clients / PER_SESSION;
    match asked {
        Some(sessions) if sessions > possible => {
            let others = usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(for_clients);
            let all = sessions.saturating_mul(PER_SESSION).saturating_add(others);
            let needed = all.checked_next_multiple_of(MARGIN).unwrap_or(usize::MAX).saturating_add(MARGIN);
            Err(TooManySessions { sessions, needed, limit, possible })
        }
        Some(sessions) => Ok(sessions),
        None => Ok(USUAL.min(possible)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_limit_sessions() {
        assert_eq!(choose(None, 131_072, 130_000), Ok(10_000));
        assert_eq!(choose(None, 1024, 900), Ok(450));
        assert_eq!(choose(Some(450), 1024, 900), Ok(450));
        assert_eq!(choose(Some(20_000), 131_072, 130_000), Ok(20_000));
        let error = choose(Some(451), 1024, 900).unwrap_err().to_string();
        assert!(error.contains("enough for 450 sessions") && error.contains("--nofile=3072"), "{error}");
        assert!(choose(Some(usize::MAX), u64::MAX, 900).is_err());
    }
}
