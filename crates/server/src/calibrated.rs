//! The choice between data paths by what they cost on this machine: from a file, or measured and written to it.

use std::io;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use wirepath_streams::datapath::calibration::Calibrations;
use wirepath_streams::datapath::{Path, Support};

/// How long measuring takes; sessions are served meanwhile, by the order of preference.
const BUDGET: Duration = Duration::from_secs(2);

/// What this host supports, with the calibrations of `file`. If none holds for this kernel, paths are measured in the background,
/// and the file is written.
///
/// # Errors
/// If no thread can be had.
pub(crate) fn support(forced: Option<Path>, file: &FilePath) -> io::Result<Arc<Support>> {
    let calibrations = Calibrations::load(file).unwrap_or_else(|error| {
        tracing::warn!(file = %file.display(), %error, "what data paths cost here could not be read; measuring again");
        None
    });
    let support = Arc::new(Support::probe(forced, calibrations.unwrap_or_default()));
    announce(&support);
    if support.is_unmeasured() {
        let (measuring, file) = (Arc::clone(&support), file.to_owned());
        thread::Builder::new().name("measure".to_owned()).spawn(move || measure(&measuring, &file))?;
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
    let mut calibrations = Calibrations::load(file).ok().flatten().unwrap_or_default();
    calibrations.add(calibration);
    if let Err(error) = calibrations.store(file) {
        tracing::warn!(file = %file.display(), %error, "what data paths cost here could not be kept");
    }
}
