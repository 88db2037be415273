//! Progress of an experiment, and requests to stop.

/// Observer of an experiment.
pub trait Progress: Send {
    /// So large a share of the experiment (0 to 1, in time as far as that is known) is done; this is what is
    /// done now.
    fn at(&mut self, share: f64, doing: &str);

    /// Something that the user should know at once.
    fn note(&mut self, text: &str);

    /// Returns whether to stop. Experiments ask between runs; what they have until then is kept.
    fn stopped(&self) -> bool;
}

/// Nobody watches.
pub struct Unwatched;

impl Progress for Unwatched {
    fn at(&mut self, _: f64, _: &str) {}

    fn note(&mut self, _: &str) {}

    fn stopped(&self) -> bool {
        false
    }
}
