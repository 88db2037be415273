//! Removal of test files of earlier assessments.

use std::fs;
use std::path::Path;

use crate::progress::Progress;

/// Removes all files that assessments made in this folder, except files that are being made. A process that
/// has such a file open can still use it.
pub fn remove_made(folder: &Path, progress: &mut dyn Progress) {
    remove(folder, 0, progress); // no payload has this length
}

/// Removes files that this program made in this folder for payloads of other lengths, and unfinished files of
/// makers that were killed. A process that has such a file open can still use it.
pub(super) fn remove(folder: &Path, length: u64, progress: &mut dyn Progress) {
    let Ok(entries) = fs::read_dir(folder) else { return }; // it is made when a file is
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if is_leftover(name, length)
            && let Err(error) = fs::remove_file(entry.path())
            && error.kind() != std::io::ErrorKind::NotFound
        {
            progress.note(&format!("{} could not be removed: {error}", entry.path().display()));
        }
    }
}

/// Returns whether a file of this name was made by an assessment, and is neither of this length nor being
/// made: `assess-VERSION-LENGTH.payload`, `assess-VERSION-LENGTH-PACKET.packets`, and these with
/// `.unfinished-PID`.
fn is_leftover(name: &str, length: u64) -> bool {
    let Some((stem, ending)) = name.strip_prefix("assess-").and_then(|rest| rest.split_once('.')) else {
        return false;
    };
    let numbers: Option<Vec<u64>> = stem.split('-').map(|part| part.parse().ok()).collect();
    let Some(numbers) = numbers else { return false };
    let current = numbers[..].starts_with(&[super::make::VERSION.into(), length]);
    match (ending, &numbers[..], ending.strip_prefix("unfinished-").map(str::parse::<u32>)) {
        ("payload", [_, _], _) | ("packets", [_, _, _], _) => !current,
        (_, [_, _] | [_, _, _], Some(Ok(maker))) => !is_running(maker),
        _ => false,
    }
}

fn is_running(process: u32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::NoProgress;

    /// Promise: Test files are kept for one length at a time; the assessment removes no other files.
    #[test]
    fn files_of_other_lengths_and_of_killed_makers_go_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let own = std::process::id();
        let stay = [
            "assess-1-1048576.payload".to_owned(),
            "assess-1-1048576-512.packets".to_owned(),
            format!("assess-1-2097152.unfinished-{own}"),
            "assess-1-2097152.payload.bak".to_owned(),
            "assess-results.payload".to_owned(),
            "calibration.json".to_owned(),
        ];
        // No process has this id: the kernel's largest is 2^22.
        let go = [
            "assess-1-2097152.payload",
            "assess-0-1048576.payload",
            "assess-1-2097152-512.packets",
            "assess-1-1048576.unfinished-4194305",
            "assess-1-1048576-512.unfinished-4194305",
        ];
        stay.iter()
            .map(String::as_str)
            .chain(go)
            .for_each(|name| fs::write(folder.path().join(name), "").unwrap());
        remove(folder.path(), 1 << 20, &mut NoProgress);
        let mut left: Vec<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut expected = stay.to_vec();
        expected.sort();
        assert_eq!(left, expected);
    }

    /// Promise: A quick assessment removes its own test files.
    #[test]
    fn all_that_was_made_goes_but_for_what_is_being_made() {
        let folder = tempfile::tempdir().unwrap();
        let making = format!("assess-1-2097152.unfinished-{}", std::process::id());
        for name in ["assess-1-1048576.payload", "assess-1-1048576-512.packets", "film.payload", &making] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        remove_made(folder.path(), &mut NoProgress);
        assert!(folder.path().join("film.payload").exists() && folder.path().join(making).exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
