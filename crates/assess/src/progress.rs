//! Progress of an experiment, and requests to stop.

/// Observer of an experiment.
pub trait Progress: Send {
    /// Reports the share that is done (0 to 1, in time as far as that is known) and the current work.
    fn at(&mut self, share: f64, doing: &str);

    /// Shows a note to the user at once.
    fn note(&mut self, text: &str);

    /// Returns whether to stop. Experiments ask between runs; what they have until then is kept.
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
