//! Readers of kernel files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Maximum number of bytes read: the longest text needed is the first processor's part of /proc/cpuinfo.
const LIMIT: u64 = 64 * 1024;

/// Content of a file, trimmed; `None` if the file cannot be read or is empty.
pub(crate) fn text(path: impl AsRef<Path>) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(LIMIT).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    Some(text).filter(|text| !text.is_empty())
}

/// First line of a file, with control characters replaced.
pub(crate) fn line(path: impl AsRef<Path>) -> Option<String> {
    Some(printable(text(path)?.lines().next()?))
}

/// First line of a file as a number.
pub(crate) fn number(path: impl AsRef<Path>) -> Option<u64> {
    line(path)?.trim().parse().ok()
}

/// Text with control characters, which could command a terminal, replaced by blanks.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect::<String>()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: `wirepath assess host` describes the machine, whatever `/proc` and `/sys` contain.
    #[test]
    fn odd_files_are_tolerated() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("value");
        let read = |content: &[u8]| {
            std::fs::write(&file, content).unwrap();
            (line(&file), number(&file))
        };
        assert_eq!(read(b""), (None, None));
        assert_eq!(read(b" 12\n13\n"), (Some("12".to_owned()), Some(12)));
        assert_eq!(read(b"\xff\x1b[2J\n"), (Some("\u{fffd} [2J".to_owned()), None));
        assert_eq!(read(b"99999999999999999999999"), (Some("99999999999999999999999".to_owned()), None));
        assert_eq!((line(folder.path()), line("/proc/no/such/file")), (None, None));
        assert_eq!(text("/dev/zero").map(|text| text.len() as u64), Some(LIMIT)); // endless, but limited
    }
}
