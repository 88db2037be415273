//! Waiting with an end.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// A moment by which something must have happened.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// So many seconds from now.
    pub fn seconds(seconds: f64) -> Self {
        Self(Instant::now() + Duration::from_secs_f64(seconds))
    }

    /// Time left, zero if it has passed.
    pub fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Returns whether it has passed.
    pub fn has_passed(self) -> bool {
        self.left().is_zero()
    }

    /// Looks again and again until `look` answers something; `what` is what is waited for.
    ///
    /// For what the kernel gives no event for, like the number of another process's descriptors.
    pub fn wait_for<T>(self, what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        loop {
            if let Some(answer) = look()? {
                return Ok(answer);
            }
            if self.has_passed() {
                bail!("waited in vain for {what}");
            }
            std::thread::park_timeout(Duration::from_millis(10).min(self.left()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_in_time_is_answered() {
        let mut looks = 0;
        let look = || {
            looks += 1;
            Ok((looks == 3).then_some(looks))
        };
        assert_eq!(Deadline::seconds(5.0).wait_for("three", look).unwrap(), 3);
    }

    #[test]
    fn what_does_not_happen_is_named() {
        let error = Deadline::seconds(0.02).wait_for("godot", || Ok(None::<()>)).unwrap_err();
        assert_eq!(error.to_string(), "waited in vain for godot");
    }
}
