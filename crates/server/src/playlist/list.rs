//! Playlists: the assets of a channel, from the command line, an M3U file or a TOML file.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};
use wirepath_net::program::unknown_key;

/// Most bytes of a list, of one of its lines, and most entries of a channel.
const LIST_LIMIT: u64 = 4 << 20;
const LINE_LIMIT: usize = 4096;
const ENTRY_LIMIT: usize = 10_000;

/// Asset of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path of the file.
    pub path: PathBuf,
    /// List and line that name it, if a list does.
    pub source: Option<(PathBuf, usize)>,
    /// Earliest time at which it begins, in seconds since 1970.
    pub not_before_s: Option<u64>,
}

/// Assets of a channel, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Playlist {
    /// The assets.
    pub entries: Vec<Entry>,
    /// True if the first entry follows the last.
    pub repeats: bool,
    /// True if a list asks for transport streams by their tracks.
    pub is_demuxed: bool,
}

/// Form of a list of assets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListForm {
    /// A path in each line (`.m3u`, `.m3u8`).
    M3u,
    /// `assets`, `loop` and `demux` (`.toml`).
    Toml,
}

impl ListForm {
    /// The form that the ending of a path tells; `None` for an asset.
    fn of(path: &Path) -> Option<ListForm> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "m3u" | "m3u8" => Some(ListForm::M3u),
            "toml" => Some(ListForm::Toml),
            _ => None,
        }
    }
}

/// A list cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PlaylistError {
    /// The file cannot be read.
    #[error("cannot read the playlist {path}: {1}", path = .0.display())]
    Read(PathBuf, io::Error),
    /// The file is too long.
    #[error("cannot read the playlist {path}: longer than {LIST_LIMIT} bytes", path = .0.display())]
    Long(PathBuf),
    /// A line is invalid.
    #[error("{path}:{line}: {reason}", path = .0.display(), line = .1, reason = .2)]
    Line(PathBuf, usize, String),
    /// There is nothing to send.
    #[error("nothing to send: the playlist {path} has no asset", path = .0.display())]
    Empty(PathBuf),
    /// There are too many assets.
    #[error("too many assets: at most {ENTRY_LIMIT} can be sent in a channel")]
    Many,
    /// An asset is no file that can be read.
    #[error("{0}")]
    Asset(String),
    /// No asset of several can be played; the error is that of the first.
    #[error("none of {0} assets can be sent; the first: {1}")]
    NonePlayable(usize, Box<PlaylistError>),
    /// There is no asset.
    #[error("nothing to send: name at least one asset")]
    Nothing,
}

impl Playlist {
    /// The assets that arguments name: files, and lists of files by their endings.
    pub(crate) fn load(arguments: &[PathBuf], repeats: bool) -> Result<Playlist, PlaylistError> {
        let mut playlist = Playlist { repeats, ..Playlist::default() };
        for argument in arguments {
            match ListForm::of(argument) {
                Some(form) => playlist.add(argument, form, read(argument)?)?,
                None => {
                    playlist.entries.push(Entry { path: argument.clone(), source: None, not_before_s: None })
                }
            }
            if playlist.entries.len() > ENTRY_LIMIT {
                return Err(PlaylistError::Many);
            }
        }
        Ok(playlist)
    }

    /// The assets of one list: `bytes` of the file `list`.
    ///
    /// # Errors
    /// [`PlaylistError::Line`] with the first invalid line, [`PlaylistError::Empty`] and [`PlaylistError::Many`].
    pub fn parse(list: &Path, form: ListForm, bytes: Vec<u8>) -> Result<Playlist, PlaylistError> {
        let mut playlist = Playlist::default();
        playlist.add(list, form, bytes)?;
        Ok(playlist)
    }

    fn add(&mut self, list: &Path, form: ListForm, bytes: Vec<u8>) -> Result<(), PlaylistError> {
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
            PlaylistError::Line(list.to_owned(), line, "not UTF-8".to_owned())
        })?;
        match form {
            ListForm::M3u => self.entries.extend(read_m3u(list, &text)?),
            ListForm::Toml => self.add_toml(list, &text)?,
        }
        Ok(())
    }

    /// The entries from a place on whose assets are no regular files, with the reasons.
    pub(crate) fn missing_from(&self, index: usize) -> impl Iterator<Item = (&Entry, String)> {
        self.entries.iter().skip(index).filter_map(|entry| {
            let reason = match entry.path.metadata() {
                Ok(metadata) if metadata.is_file() => return None,
                Ok(_) => "not a regular file".to_owned(),
                Err(error) => error.to_string(),
            };
            Some((entry, reason))
        })
    }

    /// Index of the entry that follows the one at `index`, which was `entry` when it began: its place may have
    /// moved in a list that was read again.
    pub(crate) fn after(&self, index: usize, entry: &Entry) -> Option<usize> {
        let is_there = |at: &usize| self.entries.get(*at).is_some_and(|other| other.path == entry.path);
        let moved = || self.entries.iter().position(|other| other.path == entry.path);
        let next = Some(index).filter(is_there).or_else(moved).map_or(index, |at| at + 1);
        match next < self.entries.len() {
            true => Some(next),
            false => (self.repeats && !self.entries.is_empty()).then_some(0),
        }
    }

    /// Adds a TOML list: `assets`, strings or tables of `path` and `at`, `loop`, and `demux`.
    fn add_toml(&mut self, list: &Path, text: &str) -> Result<(), PlaylistError> {
        let mut lines = Lines::of(text);
        let fail = |line, reason: &str| PlaylistError::Line(list.to_owned(), line, reason.to_owned());
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            fail(Lines::of(text).number(at), error.message())
        })?;
        let before = self.entries.len();
        for (key, value) in table.get_ref() {
            let at = value.span().start;
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("loop", DeValue::Boolean(repeats)) => self.repeats |= repeats,
                ("demux", DeValue::Boolean(demuxed)) => self.is_demuxed |= demuxed,
                (key @ ("loop" | "demux"), _) => {
                    return Err(fail(lines.number(at), &format!("{key}: expected true or false")));
                }
                ("assets", DeValue::Array(assets)) => {
                    if assets.len() > ENTRY_LIMIT {
                        return Err(PlaylistError::Many);
                    }
                    for asset in assets.iter() {
                        let line = lines.number(asset.span().start);
                        let (name, not_before_s) =
                            toml_asset(asset.get_ref()).map_err(|reason| fail(line, &reason))?;
                        self.entries.push(Entry { not_before_s, ..entry(list, line, name)? });
                    }
                }
                ("assets", _) => return Err(fail(lines.number(at), "assets: expected a list")),
                (key, _) => {
                    let reason = unknown_key(key, &["assets", "demux", "loop"]);
                    return Err(fail(lines.number(key_at(text, key, at)), &reason));
                }
            }
        }
        if self.entries.len() == before { Err(PlaylistError::Empty(list.to_owned())) } else { Ok(()) }
    }
}

/// Numbers of lines at ascending places of a text. Counting goes on from the last place: a list may have thousands of
/// entries in megabytes.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl Lines<'_> {
    fn of(text: &str) -> Lines<'_> {
        Lines { text, at: 0, line: 1 }
    }

    /// Number of the line, from 1, that has the byte at `at`.
    fn number(&mut self, at: usize) -> usize {
        if at < self.at {
            (self.at, self.line) = (0, 1);
        }
        let at = at.min(self.text.len());
        let passed = &self.text.as_bytes()[self.at..at];
        self.line += passed.iter().filter(|byte| **byte == b'\n').count();
        self.at = at;
        self.line
    }
}

impl Entry {
    /// The error that its asset cannot be sent.
    pub(crate) fn error(&self, reason: &str) -> PlaylistError {
        let path = self.path.display();
        match &self.source {
            Some((list, line)) => {
                PlaylistError::Line(list.clone(), *line, format!("cannot send {path}: {reason}"))
            }
            None => PlaylistError::Asset(format!("cannot send {path}: {reason}")),
        }
    }
}

/// Place of a key in front of its value.
fn key_at(text: &str, key: &str, value_at: usize) -> usize {
    text.get(..value_at).and_then(|before| before.rfind(key)).unwrap_or(value_at)
}

/// Name and earliest time of an asset in a TOML list.
fn toml_asset<'a>(value: &'a DeValue<'_>) -> Result<(&'a str, Option<u64>), String> {
    const EXPECTED: &str = "expected a path, or { path = \"…\", at = 2026-11-26T20:00:00Z }";
    let table = match value {
        DeValue::String(path) => return Ok((path, None)),
        DeValue::Table(table) => table,
        _ => return Err(EXPECTED.to_owned()),
    };
    let (mut name, mut not_before_s) = (None, None);
    for (key, value) in table.iter() {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("path", DeValue::String(path)) => name = Some(path.as_ref()),
            ("at", DeValue::Datetime(at)) => not_before_s = Some(unix_s(at)?),
            (key, _) if key != "path" && key != "at" => return Err(unknown_key(key, &["path", "at"])),
            _ => return Err(EXPECTED.to_owned()),
        }
    }
    Ok((name.ok_or(EXPECTED)?, not_before_s))
}

/// Seconds since 1970 of a date and time with an offset from UTC.
fn unix_s(at: &toml::value::Datetime) -> Result<u64, String> {
    const EXPECTED: &str = "at: expected a date and time with an offset, such as 2026-11-26T20:00:00Z";
    let (Some(date), Some(time), Some(offset)) = (at.date, at.time, at.offset) else {
        return Err(EXPECTED.to_owned());
    };
    let offset_minutes = match offset {
        toml::value::Offset::Z => 0,
        toml::value::Offset::Custom { minutes } => i64::from(minutes),
    };
    // Days since 1970 in the Gregorian calendar, counted in years that begin in March.
    let (year, month) = (i64::from(date.year), i64::from(date.month));
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + i64::from(date.day)
        - 719_469;
    let seconds =
        i64::from(time.hour) * 3600 + i64::from(time.minute) * 60 + i64::from(time.second.unwrap_or(0));
    u64::try_from(days * 86_400 + seconds - offset_minutes * 60).map_err(|_| EXPECTED.to_owned())
}

/// Contents of a list, which are bounded.
fn read(list: &Path) -> Result<Vec<u8>, PlaylistError> {
    let failed = |error| PlaylistError::Read(list.to_owned(), error);
    let file = File::open(list).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
    }
    let mut bytes = Vec::new();
    file.take(LIST_LIMIT + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LIST_LIMIT {
        return Err(PlaylistError::Long(list.to_owned()));
    }
    Ok(bytes)
}

/// Entries of an M3U list: a path in each line; lines that begin with `#` are comments, `#EXTINF` among them.
fn read_m3u(list: &Path, text: &str) -> Result<Vec<Entry>, PlaylistError> {
    let mut entries = Vec::new();
    for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
        let name = line.trim();
        if name.is_empty() || name.starts_with('#') {
            continue;
        }
        if entries.len() == ENTRY_LIMIT {
            return Err(PlaylistError::Many);
        }
        entries.push(entry(list, number, name)?);
    }
    if entries.is_empty() { Err(PlaylistError::Empty(list.to_owned())) } else { Ok(entries) }
}

/// Entry of a list, whose path is relative to the list's folder.
fn entry(list: &Path, line: usize, name: &str) -> Result<Entry, PlaylistError> {
    let fail = |reason: &str| Err(PlaylistError::Line(list.to_owned(), line, reason.to_owned()));
    if name.is_empty() {
        return fail("expected a path");
    }
    if name.len() > LINE_LIMIT {
        return fail(&format!("a path of {} bytes: expected at most {LINE_LIMIT}", name.len()));
    }
    if name.contains("://") {
        return fail(&format!("{name} is a URL: expected the path of a file"));
    }
    if name.contains('\0') {
        return fail("a path with a zero byte");
    }
    let path = list.parent().unwrap_or(Path::new("")).join(name);
    Ok(Entry { path, source: Some((list.to_owned(), line)), not_before_s: None })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn load(name: &str, text: impl AsRef<[u8]>) -> Result<Playlist, String> {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join(name);
        std::fs::write(&list, text).unwrap();
        let playlist = Playlist::load(&[list], false);
        playlist.map_err(|error| error.to_string().replace(&format!("{}/", folder.path().display()), ""))
    }

    fn names(playlist: &Playlist) -> Vec<&str> {
        let names = playlist.entries.iter().map(|entry| entry.path.file_name().unwrap().to_str().unwrap());
        names.collect()
    }

    #[test]
    fn an_m3u_list_has_paths_relative_to_it() {
        let playlist =
            load("news.m3u", "\u{feff}#EXTM3U\r\n#EXTINF:10,News\r\na.ts\r\n\n /srv/b.ts \n").unwrap();
        assert_eq!(names(&playlist), ["a.ts", "b.ts"]);
        assert!(playlist.entries[0].path.is_absolute() && !playlist.repeats);
        assert_eq!(playlist.entries[1].path, Path::new("/srv/b.ts"));
        assert_eq!(playlist.entries[0].source.as_ref().unwrap().1, 3);
    }

    #[test]
    fn a_toml_list_has_assets_a_loop_and_times() {
        let text =
            "loop = true\nassets = [\n  \"a.ts\",\n  { path = \"b.ts\", at = 2026-11-26T20:00:00+01:00 },\n]";
        let playlist = load("news.toml", text).unwrap();
        assert_eq!((names(&playlist), playlist.repeats), (vec!["a.ts", "b.ts"], true));
        assert_eq!(playlist.entries[0].not_before_s, None);
        assert_eq!(playlist.entries[1].not_before_s, Some(1_795_719_600));
        assert_eq!(playlist.entries[1].source.as_ref().unwrap().1, 4);
    }

    #[test]
    fn each_asset_of_a_long_list_has_its_line() {
        let playlist = load("news.toml", format!("assets = [{}]", "'a',\n\n".repeat(10_000))).unwrap();
        let lines: Vec<usize> =
            playlist.entries.iter().map(|entry| entry.source.as_ref().unwrap().1).collect();
        assert!(lines.iter().copied().eq((0..10_000).map(|index| 1 + 2 * index)));
    }

    /// Promise: An invalid playlist is refused with the line of the error.
    #[test]
    fn errors_in_lists_have_their_line() {
        let long = format!("a.ts\n{}\n", "x".repeat(5000));
        for (name, text, expected) in [
            ("a.m3u", "#EXTM3U\n", "nothing to send: the playlist a.m3u has no asset"),
            ("a.m3u", "a.ts\nhttp://host/b.ts\n", "a.m3u:2: http://host/b.ts is a URL"),
            ("a.m3u", "a.ts\nb\0.ts\n", "a.m3u:2: a path with a zero byte"),
            ("a.m3u", &long, "a.m3u:2: a path of 5000 bytes: expected at most 4096"),
            ("a.toml", "\nassets = 3", "a.toml:2: assets: expected a list"),
            ("a.toml", "assets = [\n3]", "a.toml:2: expected a path, or"),
            ("a.toml", "assets = []", "nothing to send"),
            (
                "a.toml",
                "assets = [\"a\"]\nshuffle = true",
                "a.toml:2: unknown key `shuffle`: expected assets, demux, loop",
            ),
            ("a.toml", "asset = [\"a\"]", "a.toml:1: unknown key `asset`: did you mean `assets`?"),
            (
                "a.toml",
                "assets = [\n  { paht = \"a\" },\n]",
                "a.toml:2: unknown key `paht`: did you mean `path`?",
            ),
            ("a.toml", "assets = [\"a\"]\nloop = 3", "a.toml:2: loop: expected true or false"),
            ("a.toml", "assets = [\"a\"]\n\ndemux = 1", "a.toml:3: demux: expected true or false"),
            ("a.toml", "assets = [\"a\"\n\nb", "a.toml:3: "),
            (
                "a.toml",
                "assets = [{ path = \"a\", at = 20:00:00 }]",
                "a.toml:1: at: expected a date and time",
            ),
        ] {
            let error = load(name, text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        let error = load("a.m3u", b"a.ts\n\xff\n").unwrap_err();
        assert_eq!(error, "a.m3u:2: not UTF-8");
        let many = "a.ts\n".repeat(10_001);
        assert!(load("a.m3u", many).unwrap_err().starts_with("too many assets"));
        let many = format!("assets = [{}]", "'a',\n".repeat(10_001));
        assert!(load("a.toml", many).unwrap_err().starts_with("too many assets"));
        let huge = vec![b'#'; 5 << 20];
        assert!(load("a.m3u", huge).unwrap_err().contains("longer than 4194304 bytes"));
    }

    #[test]
    fn the_next_entry_is_found_in_a_list_that_has_changed() {
        let entry = |name: &str| Entry { path: name.into(), source: None, not_before_s: None };
        let list = |names: &[&str], repeats| Playlist {
            entries: names.iter().map(|name| entry(name)).collect(),
            repeats,
            is_demuxed: false,
        };
        assert_eq!(list(&["a", "b"], false).after(0, &entry("a")), Some(1));
        assert_eq!(list(&["a", "b"], false).after(1, &entry("b")), None);
        assert_eq!(list(&["a", "b"], true).after(1, &entry("b")), Some(0));
        assert_eq!(list(&["new", "a", "b"], true).after(0, &entry("a")), Some(2), "it has moved");
        assert_eq!(list(&["x", "y", "z"], true).after(1, &entry("gone")), Some(1), "what took its place");
        assert_eq!(list(&["a", "a", "b"], true).after(1, &entry("a")), Some(2), "the same twice");
    }

    proptest! {
        /// Promise: No playlist, however hostile, makes the sender panic or read beyond its limits.
        #[test]
        fn hostile_lists_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            for name in ["a.m3u", "a.toml"] {
                if let Ok(playlist) = load(name, &bytes) {
                    prop_assert!(!playlist.entries.is_empty());
                }
            }
        }
    }
}
