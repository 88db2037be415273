//! The calibration file: read, replaced as a whole, and changed by one program at a time.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::{Calibrations, VERSION};

/// A larger file was not written by us.
const MOST_BYTES: u64 = 1 << 20;

impl Calibrations {
    /// Reads the file; nothing if there is none.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is not a calibration file; do not replace it.
    pub fn load(file: &Path) -> io::Result<Option<Calibrations>> {
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

    /// Writes the file atomically, and creates its folder.
    pub fn store(&self, file: &Path) -> io::Result<()> {
        fs::create_dir_all(folder_of(file))?;
        let mut draft = file.as_os_str().to_owned();
        draft.push(format!(".{}.part", std::process::id()));
        let draft = Path::new(&draft);
        let text = serde_json::to_string_pretty(self)? + "\n";
        let written = fs::File::create(draft)
            .and_then(|mut opened| opened.write_all(text.as_bytes()).and_then(|()| opened.sync_all()))
            .and_then(|()| fs::rename(draft, file));
        if written.is_err() {
            _ = fs::remove_file(draft); // the first error says more than a second one would
        }
        written
    }

    /// Reads the file, changes the calibrations by `change`, and writes the file if they differ; returns the
    /// result of `change`. Locks the folder, since the file is replaced, so that no measurement is lost.
    ///
    /// # Errors
    ///
    /// As [`Calibrations::load`] and [`Calibrations::store`]: then the file is unchanged.
    pub fn update<T>(file: &Path, change: impl FnOnce(&mut Calibrations) -> T) -> io::Result<T> {
        let folder = folder_of(file);
        fs::create_dir_all(folder)?;
        let locked = fs::File::open(folder)?;
        locked.lock()?; // until it is closed
        let before = Calibrations::load(file)?.unwrap_or_default();
        let mut calibrations = before.clone();
        let answer = change(&mut calibrations);
        if calibrations != before {
            calibrations.store(file)?;
        }
        Ok(answer)
    }
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens a regular file to read; does not wait for others.
fn open_regular(file: &Path) -> io::Result<fs::File> {
    let opened = fs::OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(file)?;
    if !opened.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DataPath;
    use crate::calibration::DeviceKind;
    use crate::calibration::tests::{host, measured};

    #[test]
    fn a_file_is_read_back_and_a_wrong_one_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/calibration.json");
        assert_eq!(Calibrations::load(&file).unwrap(), None);
        let mut all = Calibrations::default();
        all.add(measured(DeviceKind::Named("eth0".to_owned()), 1500, &[(DataPath::GsoWritev, 1.5)]));
        all.add(measured(DeviceKind::Named("eth0".to_owned()), 1500, &[(DataPath::GsoWritev, 2.5)]));
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

    /// Promise: Concurrent writers of one calibration file keep each other's figures.
    #[test]
    fn no_change_is_lost_when_many_change_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/calibration.json");
        std::thread::scope(|scope| {
            for mtu in 1500..1532 {
                let file = &file;
                let one = measured(DeviceKind::WithChecksums, mtu, &[]);
                scope.spawn(move || Calibrations::update(file, |all| all.add(one)).unwrap());
            }
        });
        let kept = Calibrations::load(&file).unwrap().unwrap();
        assert_eq!(kept.of_host(&host("6.18")).count(), 32);
    }

    #[test]
    fn what_cannot_be_read_is_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("calibration.json");
        fs::write(&file, "something else").unwrap();
        let changed = Calibrations::update(&file, |_| panic!("it was read"));
        assert!(changed.is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "something else");
    }
}
