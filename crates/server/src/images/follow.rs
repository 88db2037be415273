//! Recordings that images follow: which ones, and when they are finished.

use std::time::{Duration, SystemTime};

use wirepath_media::image::Identity;

/// Time without a change after which a recording is finished. Recorders write nothing while they collect a fragment or
/// fill a buffer, so the length of the longest fragment is added, up to a limit.
pub(super) const QUIET: Duration = Duration::from_secs(10);
const MOST_FRAGMENT: Duration = Duration::from_secs(20);

/// Time without a change after which every recording is finished.
pub(super) const LONGEST_QUIET: Duration = QUIET.saturating_add(MOST_FRAGMENT);

/// Time without a change, beside the length of the last fragment, after which a recording is finished whose recorder
/// has begun another file.
const SUCCEEDED_QUIET: Duration = Duration::from_millis(500);

/// Longest time by which the clock of a file server may be ahead of this host's. A later modification tells nothing about
/// when it was made.
const MOST_AHEAD: Duration = Duration::from_secs(60);

/// Recordings whose images grow with them, for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    /// None: an image has what the file has when it is opened.
    Nothing,
    /// Fragmented MP4 files to which a recorder still appends.
    Growing,
    /// For the newest recording of an archive: also those that a recorder has just finished, since it may go on with
    /// another file, and transport streams as they are stored, which do not tell whether they are finished.
    Recent,
}

/// Time since the last modification of an asset; the longest time if that is in the future.
pub(super) fn age(identity: Identity) -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    age_at(now, identity)
}

/// The same at a time since 1970.
fn age_at(now: Duration, identity: Identity) -> Duration {
    let modified = Duration::from_nanos(identity.mtime_ns.max(0).unsigned_abs());
    match modified.checked_sub(now) {
        Some(ahead) if ahead > MOST_AHEAD => Duration::MAX,
        _ => now.saturating_sub(modified),
    }
}

/// Time without a change after which a recording with fragments of this length is finished.
pub(super) fn quiet(fragment_us: u64) -> Duration {
    QUIET + Duration::from_micros(fragment_us).min(MOST_FRAGMENT)
}

/// The same for a recording whose recorder has begun another file, with a last fragment of this length.
pub(super) fn quiet_before_successor(fragment_us: u64) -> Duration {
    SUCCEEDED_QUIET + Duration::from_micros(fragment_us).min(MOST_FRAGMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_from_the_future_are_old() {
        let age_s = |mtime_s: i64| {
            let identity = Identity { size: 0, mtime_ns: mtime_s * 1_000_000_000, inode: 1, device: 1 };
            age_at(Duration::from_secs(1_000_000), identity)
        };
        assert_eq!(age_s(999_990), Duration::from_secs(10));
        assert_eq!(age_s(1_000_060), Duration::ZERO, "another clock");
        assert_eq!(age_s(1_000_061), Duration::MAX);
        assert_eq!(age_s(-5), Duration::from_secs(1_000_000));
    }
}
