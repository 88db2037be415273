//! Findings of an experiment, and their soundness.

use wirepath_datapath::SendContext;

use crate::case::Case;
use crate::error::Error;
use crate::result::{Assessment, LeftOut, Measurement};

/// True if all that was measured sent what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Soundness {
    /// All right.
    Sound,
    /// Wrong byte or lost packet, recorded among what was left out.
    Faulty,
}

/// Findings until now.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) measurements: Vec<Measurement>,
    pub(crate) left_out: Vec<LeftOut>,
    /// Cases that sent a wrong byte, or lost one.
    pub(crate) faults: u32,
}

impl Findings {
    /// Notes what concerns one case.
    ///
    /// # Errors
    /// Errors that concern more than that.
    pub(crate) fn of_case(&mut self, case: &Case, error: Error) -> Result<(), Error> {
        self.of_label(&case.label(), error)
    }

    /// The same with a label.
    ///
    /// # Errors
    /// As [`Findings::of_case`].
    pub(crate) fn of_label(&mut self, label: &str, error: Error) -> Result<(), Error> {
        match error {
            Error::Unable(_) => {}
            Error::Faulty(_) => self.faults += 1,
            other => return Err(other),
        }
        self.leave_out(label, &error);
        Ok(())
    }

    pub(crate) fn leave_out(&mut self, what: &str, why: &dyn std::fmt::Display) {
        self.left_out.push(LeftOut { what: what.to_owned(), why: why.to_string() });
    }

    /// Adds measurements and what was left out to the result.
    pub(crate) fn add_to(self, result: &mut Assessment) -> Soundness {
        result.measurements.extend(self.measurements);
        result.left_out.extend(self.left_out);
        if self.faults == 0 { Soundness::Sound } else { Soundness::Faulty }
    }
}

/// The cases without those whose path needs the kernel module, if that is not loaded.
pub(crate) fn with_what_is_there(cases: Vec<Case>, found: &mut Findings) -> Vec<Case> {
    let Err(error) = SendContext::default().open_module() else { return cases };
    let (left_out, cases): (Vec<Case>, _) = cases.into_iter().partition(|case| case.path.needs_module());
    let mut paths: Vec<&str> = left_out.iter().map(|case| case.path.name()).collect();
    paths.dedup();
    if !paths.is_empty() {
        found.leave_out(&paths.join(", "), &error);
    }
    cases
}
