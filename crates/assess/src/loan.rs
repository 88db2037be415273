//! The experiment `loan`: sends that copy against sends that lend their pages, by size (figures 1 to 6 of the
//! zero-copy protocol paper).
//!
//! A send is one call. Both kinds send the same bytes by the same call; over UDP in the same datagrams, cut
//! by UDP_SEGMENT. Only MSG_ZEROCOPY differs. A third kind is what programs use: the path `loan`, which lends
//! or copies by the calibration. All are measured in the same rounds, and compared round by round. Each size
//! is sent from the beginning of a page and from 64 bytes before a page, since the cost of a loan is per
//! page; a program that lends has a threshold for each. Beside them are sends as one datagram larger than the
//! MTU, as the paper sent them: copied, and by `sendfile`, which refers to the pages. The kernel copies lent
//! datagrams (MSG_ZEROCOPY) that it has to fragment.
//!
//! Then sends of all kinds go to a device with a rate and a queue that can be full.
//!
//! A send that the kernel copied is not a loan. A size with such a copy in any run has no figure for lending.

mod copied_loans;
mod keep;
mod queue;
mod sends;
mod series;
mod threshold;

pub use keep::{StoredThresholds, keep};
pub(crate) use series::GOAL;

use crate::error::Error;
use crate::findings::{Findings, Soundness};
use crate::machine_costs::ColdCopies;
use crate::options::Options;
use crate::progress::Progress;
use crate::result::{Assessment, Cache};

/// MTU of Ethernet.
const USUAL_MTU: u32 = 1500;

/// MTU measured in addition to the requested one: that of the paper, and of networks with jumbo frames.
const LARGE_MTU: u32 = 9000;

/// Approximate share of the time used before sends to a queue.
const BEFORE_QUEUE: f64 = 0.85;

/// Runs the experiment, for each MTU on its own test bed, and adds its findings to `result`, also before an
/// error.
///
/// # Errors
/// Errors that end the assessment; [`Error::Stopped`] on a request to stop.
pub fn run(
    options: &Options,
    result: &mut Assessment,
    progress: &mut dyn Progress,
) -> Result<Soundness, Error> {
    let mut found = Findings::new(result, progress);
    if options.cache == Cache::Cold {
        found.leave_out("loan from storage", &"what is lent is memory: its payload is in the page cache");
    }
    let options = Options { cache: Cache::Warm, ..options.clone() };
    let mut copies = ColdCopies::new(series::LARGEST as usize);
    if copies.is_none() {
        found.leave_out("loan: the copy alone", &"too little memory is free for blocks that are in no cache");
    }
    if options.mtu != USUAL_MTU {
        let why = format!("{} was asked for; leave --mtu out for the usual one", options.mtu);
        found.leave_out(&format!("loan with an MTU of {USUAL_MTU} bytes"), &why);
    }
    let mut mtus = vec![options.mtu, LARGE_MTU];
    mtus.dedup();
    let mut measured = Vec::new();
    for (index, mtu) in mtus.iter().enumerate() {
        let share = 1.0 / mtus.len() as f64;
        found.part = (index as f64 * share, share);
        found.on_test_bed(&options, *mtu, |test_bed, found| {
            if test_bed.mtu != *mtu {
                let why = test_bed.other_mtu();
                found.leave_out(&format!("loan with an MTU of {mtu} bytes"), &why);
            }
            // A route whose MTU cannot be changed is measured once.
            if measured.contains(&test_bed.mtu) {
                return Ok(());
            }
            measured.push(test_bed.mtu);
            found.note_tcp_peer(test_bed);
            let whole = found.part;
            found.part = (whole.0, whole.1 * BEFORE_QUEUE);
            series::measure(&options, test_bed, copies.as_mut(), found)?;
            found.part = (whole.0 + whole.1 * BEFORE_QUEUE, whole.1 * (1.0 - BEFORE_QUEUE));
            queue::measure(&options, test_bed, found)
        })?;
    }
    Ok(found.soundness())
}
