//! The experiment `loan`: sends that copy against sends that lend their pages, by size (figures 1 to 6 of the zero-copy protocol
//! paper).
//!
//! A send is one call, and both kinds bring the same bytes by the same call; over UDP in the same datagrams, which UDP_SEGMENT cuts.
//! Only MSG_ZEROCOPY differs. Datagrams larger than the MTU, which the paper sent, cannot be compared: the kernel copies what it
//! is to fragment, whatever it is lent.
//!
//! What the kernel copied after all is no loan. A size of which one run has such a copy has no figure for lending.

mod arithmetic;
mod keep;
mod sends;
mod series;
mod verify;

pub use keep::keep;

use crate::costs::ColdCopies;
use crate::error::Error;
use crate::experiment::Soundness;
use crate::options::Options;
use crate::progress::Progress;
use crate::result::{Assessment, Cache, Loan};
use crate::rounds::Found;
use crate::stage::{self, Stage};
use series::Series;

/// The MTU measured beside the one that was asked for: that of the paper, and of networks that carry large frames.
const LARGE_MTU: u32 = 9000;

/// Makes the experiment, for each MTU on a stage of its own, and adds what it found to `result`, also before an error.
///
/// # Errors
/// What ends the assessment; [`Error::Stopped`] if whoever watches says so.
pub fn run(
    options: &Options,
    result: &mut Assessment,
    progress: &mut dyn Progress,
) -> Result<Soundness, Error> {
    let mut found = Found::default();
    if options.cache == Cache::Cold {
        found.leave_out("loan from storage", &"what is lent is memory: its payload is in the page cache");
    }
    let options = Options { cache: Cache::Warm, ..options.clone() };
    let mut copies = ColdCopies::new(series::LARGEST as usize);
    if copies.is_none() {
        found.leave_out("loan: the copy alone", &"too little memory is free for blocks that are in no cache");
    }
    let mut mtus = vec![options.mtu, LARGE_MTU];
    mtus.dedup();
    let mut loan = Loan { points: Vec::new(), thresholds: Vec::new() };
    let mut outcome = Ok(());
    for (index, mtu) in mtus.iter().enumerate() {
        let share = 1.0 / mtus.len() as f64;
        let mut part = Part { whole: &mut *progress, from: index as f64 * share, share };
        let mut series = Series::new(&options, copies.as_mut());
        let staged = stage::within(&options.sink, *mtu, options.cpu, |stage| {
            let is_another = of_another_mtu(stage, *mtu, &mut found);
            let made =
                if is_another && index > 0 { Ok(()) } else { series.make(stage, &mut found, &mut part) };
            made.map(|()| stage.cpu)
        });
        let (points, thresholds, mut measurements) = series.take();
        loan.points.extend(points);
        loan.thresholds.extend(thresholds);
        result.measurements.append(&mut measurements);
        outcome = staged.map(|cpu| result.settings.cpu = Some(cpu));
        if outcome.is_err() {
            break;
        }
    }
    if !loan.points.is_empty() {
        result.loan = Some(loan);
    }
    result.left_out.append(&mut found.left_out);
    outcome?;
    Ok(if found.faults == 0 { Soundness::Sound } else { Soundness::Faulty })
}

/// Whether the way to the sink has another MTU, which is then said.
fn of_another_mtu(stage: &Stage, mtu: u32, found: &mut Found) -> bool {
    if stage.mtu == mtu {
        return false;
    }
    let why = format!(
        "the way to the sink has {}; only a stage of our own, which takes root, can have another",
        stage.mtu
    );
    found.leave_out(&format!("loan with an MTU of {mtu} bytes"), &why);
    true
}

/// A part of an experiment, for whoever watches all of it.
struct Part<'a> {
    whole: &'a mut dyn Progress,
    from: f64,
    share: f64,
}

impl Progress for Part<'_> {
    fn at(&mut self, share: f64, doing: &str) {
        self.whole.at(self.from + share.clamp(0.0, 1.0) * self.share, doing);
    }

    fn note(&mut self, text: &str) {
        self.whole.note(text);
    }

    fn stopped(&self) -> bool {
        self.whole.stopped()
    }
}
