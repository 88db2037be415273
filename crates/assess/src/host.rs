//! Description of the machine: hardware, limits, missing requirements of data paths, and their remedies.
//!
//! Values of /proc and /sys are untrusted input: missing or malformed values are left out or shown as they
//! are, and never cause an error. So examining a machine always succeeds.

mod advice;
mod departure;
mod devices;
mod limits;
pub mod machine;
mod paths;
pub(crate) mod read;

use crate::result::Host;

pub use departure::{DepartureError, Discipline, try_departure_times};

/// Examines this machine.
pub fn examine() -> Host {
    let kernel = machine::kernel();
    let mut host = Host {
        processor: machine::processor(),
        processors: machine::processors(),
        memory: machine::memory(),
        devices: devices::all(),
        limits: limits::all(),
        paths: paths::all(&kernel),
        advice: Vec::new(),
        load: machine::load(),
        kernel,
    };
    host.advice = advice::advice(&host);
    host
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: `wirepath assess host` describes the machine, whatever `/proc` and `/sys` contain.
    #[test]
    fn this_machine_is_described() {
        let host = examine();
        assert!(host.processors >= 1 && host.memory > 1 << 20, "{host:?}");
        assert!(
            host.devices.iter().any(|device| device.name == "lo" && device.mtu > 0),
            "{:?}",
            host.devices
        );
        assert!(host.limits.iter().any(|limit| limit.name == "RLIMIT_NOFILE"), "{:?}", host.limits);
        assert!(host.paths.iter().all(|state| state.runs || state.missing.is_some()), "{:?}", host.paths);
        let complete = |text: &String| !text.is_empty() && !text.contains('\n');
        for advice in &host.advice {
            let parts = [&advice.finding, &advice.consequence, &advice.remedy];
            assert!(parts.into_iter().all(complete), "{advice:?}");
        }
    }
}
