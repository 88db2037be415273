//! Calibration of data paths on this machine: read from a file, or measured and written to it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use wirepath_datapath::calibration::{Calibration, Calibrations};
use wirepath_datapath::{DataPath, Support};
use wirepath_engine::{BlockingPool, Priority};

/// Time limit of measuring. Meanwhile sessions are served by the order of preference.
const BUDGET: Duration = Duration::from_secs(2);

/// Support of this host, with the calibrations of `file`, and with or without hot memory. If no calibration
/// is of this host, paths are measured in the background and added to the file. A file of another format is
/// not changed.
pub(crate) fn support(forced: Option<DataPath>, file: &Path, hot_memory: bool) -> io::Result<Arc<Support>> {
    let calibrations = Calibrations::load(file).unwrap_or_else(|error| {
        tracing::warn!(
            file = %file.display(), %error,
            "cannot use the calibration file; leaving it unchanged"
        );
        None
    });
    let support = Arc::new(Support::probe(forced, calibrations.unwrap_or_default(), hot_memory));
    announce(&support);
    if support.is_unmeasured() {
        let (measuring, file) = (Arc::clone(&support), file.to_owned());
        // The thread ends after this job, since the pool is dropped here.
        let once = BlockingPool::start("measure", 1, Priority::Background)?;
        let taken = once.submit(move || measure(&measuring, &file));
        debug_assert!(taken, "a new pool has room for one job");
    }
    Ok(support)
}

fn announce(support: &Support) {
    let choice = support.host();
    tracing::info!(path = %choice.path, reason = choice.reason, "data path chosen");
    if !choice.path.makes_headers() {
        let own = support.host_for_own_headers();
        tracing::info!(path = %own.path, reason = own.reason, "data path for per-session headers chosen");
    }
}

fn measure(support: &Support, file: &Path) {
    let calibration = match support.calibrate(BUDGET) {
        Ok(calibration) => calibration,
        Err(error) => {
            return tracing::warn!(%error, "calibration failed; using the default order");
        }
    };
    match keep(calibration, file) {
        Ok(calibrations) => support.adopt(calibrations),
        Err(error) => tracing::warn!(file = %file.display(), %error, "cannot store the calibration"),
    }
    announce(support);
}

/// Adds our calibration to the file. If the file already has a calibration from an assessment or another
/// server, that calibration is kept, since an assessment is better than two seconds beside a server's work,
/// and only missing costs are added to it (it may be older than the kernel module). Returns the file's
/// calibrations.
fn keep(own: Calibration, file: &Path) -> io::Result<Calibrations> {
    Calibrations::update(file, |calibrations| {
        calibrations.complete(&own);
        calibrations.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirepath_datapath::calibration::{DeviceKind, Host};

    fn measured(origin: &str, device: DeviceKind) -> Calibration {
        let (host, origin) = (Host::this(), origin.to_owned());
        Calibration { host, device, mtu: 1500, origin, unix_s: 1, costs: Vec::new() }
    }

    /// Promise: Concurrent writers of one calibration file keep each other's figures.
    #[test]
    fn what_an_assessment_measured_meanwhile_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("calibration.json");
        let kept = |calibrations: &Calibrations| {
            calibrations.of_host(&Host::this()).map(|entry| entry.origin.clone()).collect::<Vec<_>>()
        };
        let others = Calibrations::update(&file, |calibrations| {
            calibrations.add(measured("of a device without checksums", DeviceKind::WithoutChecksums));
        });
        others.unwrap();
        let first = keep(measured("a server's", DeviceKind::WithChecksums), &file).unwrap();
        assert_eq!(kept(&first), ["of a device without checksums", "a server's"]);
        Calibrations::update(&file, |calibrations| {
            calibrations.add(measured("an assessment's", DeviceKind::WithChecksums));
        })
        .unwrap();
        let later = keep(measured("another server's", DeviceKind::WithChecksums), &file).unwrap();
        assert_eq!(kept(&later), ["of a device without checksums", "an assessment's"]);
        assert_eq!(Calibrations::load(&file).unwrap(), Some(later));
    }
}
