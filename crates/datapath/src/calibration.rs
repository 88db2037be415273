//! What the paths of a server were measured to cost on this machine, kept in a file.

mod loans;

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path as FilePath;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

pub use loans::{LoanThreshold, LoanTransport};

use crate::Path;

/// Packets in the trains that paths are chosen by: those of a stream of 4 Mb/s in bursts of 20 ms.
pub const USUAL_TRAIN: u32 = 8;

/// Measured packets are of this size: seven packets of a transport stream and a header.
pub const PACKET_SIZE: u16 = 1328;

/// A path further back in the order of [`Path::SERVING`] must be cheaper by this share to be chosen instead: measurements of two
/// seconds on a busy machine differ by nearly as much.
const MARGIN: f64 = 0.20;

/// What paths cost on one machine and kernel, one kind of device and one MTU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The machine and its kernel.
    pub host: Host,
    /// The device that it was measured on, or stands for.
    pub device: DeviceKind,
    /// MTU in bytes.
    pub mtu: u32,
    /// When and how it was measured, in words.
    pub origin: String,
    /// What each path cost.
    pub costs: Vec<PathCost>,
}

/// What a machine's costs depend on, so that a copied file says nothing of another machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Release of the kernel, as `uname -r` says.
    pub kernel: String,
    /// Name of the processor, or of its architecture where it has none.
    pub processor: String,
    /// Number of processors.
    pub processors: usize,
}

impl Host {
    /// This one.
    pub fn this() -> Host {
        let name = rustix::system::uname();
        let in_words = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        // A file of the kernel's that lists every processor: the first one is at its start.
        let described = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = described.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Host {
            kernel: in_words(name.release()),
            processor: model.map_or_else(|| in_words(name.machine()), |(_, model)| model.to_owned()),
            // Not those that this thread may use: who measures keeps to one.
            processors: described.lines().filter(|line| line.starts_with("processor")).count().max(1),
        }
    }
}

/// Devices that cost the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// The one of this name.
    Named(String),
    /// All that compute checksums on transmission.
    WithChecksums,
    /// All that do not.
    WithoutChecksums,
}

/// What one path cost with trains of one length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathCost {
    /// Name of the path.
    pub path: String,
    /// Packets of [`PACKET_SIZE`] bytes in a train.
    pub packets_per_train: u32,
    /// User and system time, the median of all rounds.
    pub cpu_ns_per_packet: f64,
}

impl Calibration {
    /// Cost in nanoseconds of a packet in trains of [`USUAL_TRAIN`].
    pub fn cost_ns(&self, path: Path) -> Option<f64> {
        let usual = |cost: &&PathCost| cost.packets_per_train == USUAL_TRAIN && cost.path == path.name();
        self.costs
            .iter()
            .find(usual)
            .map(|cost| cost.cpu_ns_per_packet)
            .filter(|ns| ns.is_finite() && *ns > 0.0)
    }

    /// The cheapest of these paths, which are in the order of preference; nothing if none of them was measured.
    pub fn cheapest(&self, paths: &[Path]) -> Option<Path> {
        let costs = paths.iter().filter_map(|path| Some((*path, self.cost_ns(*path)?)));
        costs
            .reduce(|best, next| if next.1 < best.1 * (1.0 - MARGIN) { next } else { best })
            .map(|(path, _)| path)
    }

    /// What was measured, most preferred path first: `wire_sendfile 92 ns, gso_writev 121 ns`.
    pub fn in_words(&self) -> String {
        let figure = |path: &Path| Some(format!("{path} {:.0} ns", self.cost_ns(*path)?));
        Path::SERVING.iter().filter_map(figure).collect::<Vec<_>>().join(", ")
    }
}

/// The calibrations of one user, at most one for each host, kind of device and MTU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibrations {
    /// Version of this format.
    version: u32,
    entries: Vec<Calibration>,
    /// From which sizes on pages are lent. Files of programs that knew none have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    loans: Vec<LoanThreshold>,
}

/// The one version there is.
const VERSION: u32 = 1;

/// A file larger than this is not ours.
const MOST_BYTES: u64 = 1 << 20;

/// Calibrations kept; the oldest go first.
const MOST_ENTRIES: usize = 64;

impl Calibrations {
    /// Reads the file; nothing if there is none.
    ///
    /// # Errors
    /// If it cannot be read, is damaged, or is something else: what is wrong, in words. Whoever has written it may want it back, so
    /// it should not be replaced.
    pub fn load(file: &FilePath) -> io::Result<Option<Calibrations>> {
        let opened = match open_regular(file) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut text = String::new();
        opened.take(MOST_BYTES).read_to_string(&mut text)?;
        let read: Calibrations = serde_json::from_str(&text)?;
        if read.version != VERSION {
            return Err(io::Error::other(format!(
                "it is of version {}, and this program reads {VERSION}",
                read.version
            )));
        }
        Ok(Some(read))
    }

    /// Writes the file, whole or not at all; its folder is made.
    ///
    /// # Errors
    /// What the calls say.
    pub fn store(&self, file: &FilePath) -> io::Result<()> {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(FilePath::new("."));
        fs::create_dir_all(folder)?;
        let mut draft = file.as_os_str().to_owned();
        draft.push(format!(".{}.part", std::process::id()));
        let draft = FilePath::new(&draft);
        let text = serde_json::to_string_pretty(self)? + "\n";
        let written = fs::File::create(draft)
            .and_then(|mut opened| opened.write_all(text.as_bytes()).and_then(|()| opened.sync_all()))
            .and_then(|()| fs::rename(draft, file));
        if written.is_err() {
            _ = fs::remove_file(draft); // the first error says more than a second one would
        }
        written
    }

    /// Adds one, in place of an earlier one of the same host, device and MTU.
    pub fn add(&mut self, calibration: Calibration) {
        self.version = VERSION;
        self.entries.retain(|other| {
            (&other.host, &other.device, other.mtu)
                != (&calibration.host, &calibration.device, calibration.mtu)
        });
        self.entries.push(calibration);
        let surplus = self.entries.len().saturating_sub(MOST_ENTRIES);
        self.entries.drain(..surplus);
    }

    /// The one that holds for this host and device: that of the device by name, else that of its kind; of several the one
    /// whose MTU is nearest.
    pub fn find(&self, host: &Host, devices: &[DeviceKind], mtu: u32) -> Option<&Calibration> {
        devices.iter().find_map(|device| {
            self.entries
                .iter()
                .filter(|entry| entry.host == *host && entry.device == *device)
                .min_by_key(|entry| entry.mtu.abs_diff(mtu))
        })
    }
}

/// Opens a file to read from, and nothing that would make us wait or that is not stored.
fn open_regular(file: &FilePath) -> io::Result<fs::File> {
    let opened = fs::OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(file)?;
    if !opened.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(kernel: &str) -> Host {
        Host { kernel: kernel.to_owned(), processor: "a test's".to_owned(), processors: 2 }
    }

    fn measured(device: DeviceKind, mtu: u32, costs: &[(Path, f64)]) -> Calibration {
        let cost = |(path, ns): &(Path, f64)| PathCost {
            path: path.name().to_owned(),
            packets_per_train: USUAL_TRAIN,
            cpu_ns_per_packet: *ns,
        };
        let origin = "a test".to_owned();
        Calibration { host: host("6.18"), device, mtu, origin, costs: costs.iter().map(cost).collect() }
    }

    #[test]
    fn the_cheapest_is_chosen_if_it_is_clearly_cheaper() {
        let paths = [Path::WireSendfile, Path::GsoWritev, Path::Sendmmsg];
        for (gso_ns, expected) in [
            (100.0, Path::WireSendfile),
            (85.0, Path::WireSendfile),
            (75.0, Path::GsoWritev),
            (-1.0, Path::WireSendfile),
        ] {
            let costs = [(Path::WireSendfile, 100.0), (Path::GsoWritev, gso_ns), (Path::Sendmmsg, 400.0)];
            let calibration = measured(DeviceKind::WithChecksums, 1500, &costs);
            assert_eq!(calibration.cheapest(&paths), Some(expected), "{gso_ns}");
        }
        let only =
            measured(DeviceKind::WithChecksums, 1500, &[(Path::Sendmmsg, 1.0), (Path::GsoWritev, f64::NAN)]);
        assert_eq!(only.cheapest(&paths[..2]), None);
        assert_eq!(only.in_words(), "sendmmsg 1 ns");
    }

    #[test]
    fn the_nearest_is_found() {
        let named = DeviceKind::Named("eth0".to_owned());
        let mut all = Calibrations::default();
        for (device, mtu) in
            [(DeviceKind::WithChecksums, 1500), (DeviceKind::WithChecksums, 9000), (named.clone(), 1500)]
        {
            all.add(measured(device, mtu, &[]));
        }
        let found = |devices: &[DeviceKind], mtu| {
            all.find(&host("6.18"), devices, mtu).map(|found| (&found.device, found.mtu))
        };
        assert_eq!(found(&[named.clone(), DeviceKind::WithChecksums], 8000), Some((&named, 1500)));
        assert_eq!(found(&[DeviceKind::WithChecksums], 8000), Some((&DeviceKind::WithChecksums, 9000)));
        assert_eq!(found(&[DeviceKind::WithoutChecksums], 1500), None);
        assert_eq!(all.find(&host("6.19"), &[named], 1500), None);
    }

    #[test]
    fn a_file_is_read_back_and_a_wrong_one_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/calibration.json");
        assert_eq!(Calibrations::load(&file).unwrap(), None);
        let mut all = Calibrations::default();
        all.add(measured(DeviceKind::Named("eth0".to_owned()), 1500, &[(Path::GsoWritev, 1.5)]));
        all.add(measured(DeviceKind::Named("eth0".to_owned()), 1500, &[(Path::GsoWritev, 2.5)]));
        all.store(&file).unwrap();
        assert_eq!(Calibrations::load(&file).unwrap(), Some(all));
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "no draft is left");
        for text in ["", "{}", "[]", r#"{"version": 2, "entries": []}"#, "\u{0}"] {
            fs::write(&file, text).unwrap();
            assert!(Calibrations::load(&file).is_err(), "{text}");
        }
        assert!(
            Calibrations::load(folder.path()).is_err() && Calibrations::load("/dev/null".as_ref()).is_err()
        );
    }
}
