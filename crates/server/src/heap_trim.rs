//! Returns memory of ended sessions to the system. The allocator would keep it for later sessions, which may
//! never come.

/// Least decrease of the number of sessions before memory is returned: for less memory the search is not
/// worth its cost.
const LEAST_FALL: u64 = 100;

/// Least decrease of the number of sessions as a part of their number: one over this.
const FALL_PART: u64 = 4;

/// Number of measurements to wait before memory is returned, since connections end after their sessions.
const DELAY: u32 = 5;

/// Rule for returning memory.
#[derive(Debug, Default)]
pub(crate) struct HeapTrim {
    /// Largest number of sessions since memory was last returned.
    most: u64,
    /// Number of measurements since the number of sessions fell.
    fallen_for: u32,
}

impl HeapTrim {
    /// Notes the number of sessions, which is measured each second. Returns whether memory should be returned
    /// now.
    pub(crate) fn note(&mut self, sessions: u64) -> bool {
        self.most = self.most.max(sessions);
        if self.most - sessions < LEAST_FALL.max(self.most / FALL_PART) {
            self.fallen_for = 0;
            return false;
        }
        self.fallen_for += 1;
        let is_due = self.fallen_for >= DELAY;
        if is_due {
            *self = HeapTrim { most: sessions, fallen_for: 0 };
        }
        is_due
    }
}

/// Returns memory to the system, on a thread that may block.
pub(crate) fn trim() {
    drop(tokio::task::spawn_blocking(|| {
        let found = wirepath_datapath::heap::trim();
        tracing::debug!(found, "memory of sessions that have ended was given back");
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(trim: &mut HeapTrim, numbers: impl IntoIterator<Item = u64>) -> usize {
        numbers.into_iter().filter(|sessions| trim.note(*sessions)).count()
    }

    #[test]
    fn it_is_due_once_for_each_fall() {
        let mut trim = HeapTrim::default();
        assert_eq!(times(&mut trim, [100, 1000, 5000, 4000, 5000, 3000, 0, 0, 0]), 0);
        assert_eq!(times(&mut trim, [0]), 1);
        assert_eq!(times(&mut trim, [0; 100]), 0, "nothing has fallen since");
        assert_eq!(times(&mut trim, [99, 0, 0, 0, 0, 0, 0]), 0, "few");
        assert_eq!(
            times(&mut trim, [10_000, 9_000, 8_000, 7_600, 7_600, 7_600, 7_600, 7_600]),
            0,
            "not a quarter"
        );
    }
}
