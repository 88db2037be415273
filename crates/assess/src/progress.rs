//! Progress of an experiment, and requests to stop.

/// Observer of an experiment.
pub trait Progress: Send {
    /// Reports the share done (0 to 1, in time as far as known) and the current work.
    fn at(&mut self, share: f64, doing: &str);

    /// Shows a note to the user immediately.
    fn note(&mut self, text: &str);

    /// Returns whether to stop. Experiments ask between runs, and keep earlier results.
    fn stopped(&self) -> bool;
}

/// No observer.
pub(crate) struct NoProgress;

impl Progress for NoProgress {
    fn at(&mut self, _: f64, _: &str) {}

    fn note(&mut self, _: &str) {}

    fn stopped(&self) -> bool {
        false
    }
}
