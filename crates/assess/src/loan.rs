//! The experiment `loan`: sends that copy against sends that lend their pages, by size (figures 1 to 6 of the
//! zero-copy protocol paper).
//!
//! A send is one call, and both kinds bring the same bytes by the same call; over UDP in the same datagrams,
//! which UDP_SEGMENT cuts. Only MSG_ZEROCOPY differs. Each size is sent from the beginning of a page on and
//! from one byte before a page on, since a loan costs by the page: a program that lends decides by both.
//! Datagrams larger than the MTU, which the paper sent, cannot be compared: the kernel copies what it is to
//! fragment, whatever it is lent.
//!
//! A copy by the kernel is no loan. A size with such a copy in one run has no figure for lending.

mod arithmetic;
mod keep;
mod point;
mod rounds;
mod sends;
mod series;
mod supplies;
mod threshold;
mod turned;
mod verify;

pub use keep::{Kept, keep};

use crate::costs::ColdCopies;
use crate::error::Error;
use crate::findings::Findings;
use crate::findings::Soundness;
use crate::options::Options;
use crate::progress::Progress;
use crate::result::{Assessment, Cache, Loan};
use crate::test_bed;
use series::Series;

/// MTU of Ethernet.
const USUAL_MTU: u32 = 1500;

/// The MTU measured beside the one that was asked for: that of the paper, and of networks that carry large
/// frames.
const LARGE_MTU: u32 = 9000;

/// Makes the experiment, for each MTU on a test bed of its own, and adds what it found to `result`, also
/// before an error.
///
/// # Errors
/// Errors that end the assessment; [`Error::Stopped`] on a request to stop.
pub fn run(
    options: &Options,
    result: &mut Assessment,
    progress: &mut dyn Progress,
) -> Result<Soundness, Error> {
    let mut found = Findings::default();
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
    if options.mtu != USUAL_MTU {
        let why = format!("{} was asked for; leave --mtu out for the usual one", options.mtu);
        found.leave_out(&format!("loan with an MTU of {USUAL_MTU} bytes"), &why);
    }
    let mut made_with = Vec::new();
    let mut loan = Loan { points: Vec::new(), thresholds: Vec::new() };
    let mut outcome = Ok(());
    for (index, mtu) in mtus.iter().enumerate() {
        let share = 1.0 / mtus.len() as f64;
        let mut part = Part { whole: &mut *progress, from: index as f64 * share, share };
        let mut series = Series::new(&options, copies.as_mut());
        let staged = test_bed::within(&options.sink, *mtu, options.cpu, |test_bed| {
            if test_bed.mtu != *mtu {
                say_other_mtu(test_bed.mtu, *mtu, &mut found);
            }
            // A way that cannot be given another MTU is measured once.
            let made = match made_with.contains(&test_bed.mtu) {
                true => Ok(()),
                false => series.make(test_bed, &mut found, &mut part),
            };
            made_with.push(test_bed.mtu);
            made.map(|()| test_bed.cpu)
        });
        let mut taken = series.take(&mut found);
        loan.points.append(&mut taken.points);
        loan.thresholds.append(&mut taken.thresholds);
        result.measurements.append(&mut taken.measurements);
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

fn say_other_mtu(is: u32, wanted: u32, found: &mut Findings) {
    let why = format!(
        "the route to the sink has {is}; only a test bed of our own, which takes root, can have another"
    );
    found.leave_out(&format!("loan with an MTU of {wanted} bytes"), &why);
}

/// Progress of a part, within that of the whole.
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
