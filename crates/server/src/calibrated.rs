//! The choice between data paths by what they cost on this machine: from a file, or measured and written to it.

use std::io;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use wirepath_streams::datapath::calibration::Calibrations;
use wirepath_streams::datapath::{Path, Support};
use wirepath_streams::{BlockingPool, Importance};

/// How long measuring takes; sessions are served meanwhile, by the order of preference.
const BUDGET: Duration = Duration::from_secs(2);

/// What this host supports, with the calibrations of `file`, and with memory for hot images or without. If none holds for this host, paths are measured in the background,
/// and added to the file. A file that is something else is left as it is.
///
/// # Errors
/// If no thread can be had.
pub(crate) fn support(forced: Option<Path>, file: &FilePath, hot_memory: bool) -> io::Result<Arc<Support>> {
    let calibrations = Calibrations::load(file).unwrap_or_else(|error| {
        tracing::warn!(
            file = %file.display(), %error,
            "the calibration file does not say what data paths cost here, and is left as it is; remove it or name another"
        );
        None
    });
    let support = Arc::new(Support::probe(forced, calibrations.unwrap_or_default(), hot_memory));
    announce(&support);
    if support.is_unmeasured() {
        let (measuring, file) = (Arc::clone(&support), file.to_owned());
        // The thread ends when the pool, and with it the way to give it more to do, is dropped here.
        let once = BlockingPool::start("measure", 1, Importance::Background)?;
        let taken = once.submit(move || measure(&measuring, &file));
        debug_assert!(taken, "a new pool has room for one job");
    }
    Ok(support)
}

fn announce(support: &Support) {
    let choice = support.host();
    tracing::info!(path = %choice.path, reason = choice.reason, "data path chosen");
}

fn measure(support: &Support, file: &FilePath) {
    let calibration = match support.calibrate(BUDGET) {
        Ok(calibration) => calibration,
        Err(error) => {
            tracing::warn!(%error, "data paths could not be measured; the order of preference stays");
            return;
        }
    };
    announce(support);
    // Read again: an assessment may have written meanwhile, or another server.
    let Ok(calibrations) = Calibrations::load(file) else {
        tracing::info!("what was measured is not kept, and will be measured again at the next start");
        return;
    };
    let mut calibrations = calibrations.unwrap_or_default();
    calibrations.add(calibration);
    if let Err(error) = calibrations.store(file) {
        tracing::warn!(file = %file.display(), %error, "what data paths cost here could not be kept");
    }
}
