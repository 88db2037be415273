//! Energy counters of processor packages: RAPL, through powercap (Documentation/power/powercap in the
//! kernel).

use std::path::{Path, PathBuf};

use crate::host::read;

/// Folder of power zones.
pub(crate) const FOLDER: &str = "/sys/class/powercap";

/// Prefixes of the zone and name of a package. Zones of cores and memory (`intel-rapl:0:0`) are parts of a
/// package, and `psys` counts packages again. AMD processors use the same names.
const ZONE: &str = "intel-rapl:";
const PACKAGE: &str = "package-";

/// Meter of the energy of all packages since its creation.
#[derive(Clone, Debug)]
pub(crate) struct EnergyMeter {
    packages: Vec<Package>,
}

/// Counter of a package.
#[derive(Clone, Debug)]
struct Package {
    name: String,
    file: PathBuf,
    /// Largest value, after which the counter wraps to 0.
    greatest_uj: u64,
    last_uj: u64,
    total_uj: u64,
}

impl EnergyMeter {
    /// Meter of the packages in this folder; `None` without readable packages.
    pub(crate) fn of_folder(folder: &Path) -> Option<EnergyMeter> {
        let zones = std::fs::read_dir(folder).ok()?.flatten().filter(|zone| {
            let name = zone.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(ZONE));
            number.is_some_and(|number| number.parse::<u32>().is_ok())
        });
        let mut packages: Vec<Package> = zones.filter_map(|zone| Package::of_zone(&zone.path())).collect();
        packages.sort_by(|one, other| one.name.cmp(&other.name));
        (!packages.is_empty()).then_some(EnergyMeter { packages })
    }

    /// Names of the packages.
    pub(crate) fn names(&self) -> Vec<String> {
        self.packages.iter().map(|package| package.name.clone()).collect()
    }

    /// Joules so far; `None` if a counter can no longer be read. A counter may wrap at most once between
    /// calls.
    pub(crate) fn joules(&mut self) -> Option<f64> {
        let totals: Option<Vec<u64>> = self.packages.iter_mut().map(Package::total_uj).collect();
        Some(totals?.iter().sum::<u64>() as f64 / 1e6)
    }
}

impl Package {
    fn of_zone(zone: &Path) -> Option<Package> {
        let name = read::line(zone.join("name")).filter(|name| name.starts_with(PACKAGE))?;
        let file = zone.join("energy_uj");
        let last_uj = read::number(&file)?;
        let greatest_uj = read::number(zone.join("max_energy_range_uj"))?;
        Some(Package { name, file, greatest_uj, last_uj, total_uj: 0 })
    }

    fn total_uj(&mut self) -> Option<u64> {
        let now = read::number(&self.file)?;
        let since = match now.checked_sub(self.last_uj) {
            Some(since) => since,
            None => now + 1 + self.greatest_uj.saturating_sub(self.last_uj),
        };
        self.last_uj = now;
        self.total_uj += since;
        Some(self.total_uj)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(folder: &Path, zone: &str, name: &str, energy: &str) -> PathBuf {
        let zone = folder.join(zone);
        std::fs::create_dir_all(&zone).unwrap();
        std::fs::write(zone.join("name"), format!("{name}\n")).unwrap();
        std::fs::write(zone.join("max_energy_range_uj"), "999999\n").unwrap();
        let file = zone.join("energy_uj");
        std::fs::write(&file, format!("{energy}\n")).unwrap();
        file
    }

    /// Promise: Energy is the sum of all processor packages, and stays correct when a counter wraps.
    #[test]
    fn packages_are_added_and_counters_begin_anew() {
        let folder = tempfile::tempdir().unwrap();
        let first = zone(folder.path(), "intel-rapl:0", "package-0", "100000");
        let second = zone(folder.path(), "intel-rapl:1", "package-1", "900000");
        let core = zone(folder.path(), "intel-rapl:0:0", "core", "5");
        zone(folder.path(), "intel-rapl:2", "psys", "7");
        zone(folder.path(), "intel-rapl-mmio:0", "package-0", "9");
        zone(folder.path(), "intel-rapl", "package-9", "9");
        let mut meter = EnergyMeter::of_folder(folder.path()).unwrap();
        assert_eq!(meter.names(), ["package-0", "package-1"]);
        assert_eq!(meter.joules(), Some(0.0));
        std::fs::write(&first, "350000\n").unwrap();
        std::fs::write(&core, "800000\n").unwrap();
        assert_eq!(meter.joules(), Some(0.25));
        // 900,000 to 999,999, then 0 to 150,000.
        std::fs::write(&second, "150000\n").unwrap();
        assert_eq!(meter.joules(), Some(0.5));
        assert_eq!(meter.joules(), Some(0.5), "nothing more came");
        std::fs::remove_file(&second).unwrap();
        assert_eq!(meter.joules(), None);
    }

    #[test]
    fn a_machine_without_counters_has_no_meter() {
        let folder = tempfile::tempdir().unwrap();
        assert!(EnergyMeter::of_folder(folder.path()).is_none());
        assert!(EnergyMeter::of_folder(&folder.path().join("none")).is_none());
        let file = zone(folder.path(), "intel-rapl:0", "package-0", "1");
        std::fs::write(file, "what\n").unwrap();
        assert!(EnergyMeter::of_folder(folder.path()).is_none(), "a counter that is no number");
    }
}
