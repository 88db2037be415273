//! One folder of an archive, with the matching names in it.

use std::collections::BTreeMap;

use chrono::format::Parsed;
use wirepath_http::AssetPath;

use super::super::name_pattern::NamePattern;
use super::super::recordings::Recording;
use super::{TreeCheck, TreeLimits};
use crate::library::{FindError, Version};

/// Age in seconds from which a folder's version is certain to change with the next change.
const DISTINCT_AFTER_S: i64 = 2;

/// Folder of recordings or of further folders.
pub(super) struct Folder {
    path: AssetPath,
    /// Path from the archive, with a slash at its end; empty for the archive itself.
    within: String,
    /// Fields of the time in the names of the path.
    fields: Parsed,
    /// Version that was read last; none if it was missing or beyond the limits.
    version: Option<Version>,
    /// True if it may have changed without a change of its version, or could not be read.
    is_fresh: bool,
    /// Number of names that were read.
    names: usize,
    /// True if there were more names than the limit permitted.
    is_cut: bool,
    contents: Contents,
}

/// Matching names in a folder.
enum Contents {
    /// Files, by their times.
    Recordings(Vec<Recording>),
    Folders(BTreeMap<Vec<u8>, Folder>),
}

/// State of a check.
pub(super) struct Walk<'a> {
    check: &'a TreeCheck<'a>,
    archive: &'a AssetPath,
    /// Names and folders that are still permitted.
    pub(super) left: TreeLimits,
    /// True if recordings were added or removed.
    pub(super) is_changed: bool,
    /// True if the limits were reached.
    pub(super) is_cut: bool,
    /// Number of folders that were read.
    pub(super) reads: u64,
}

impl<'a> Walk<'a> {
    pub(super) fn new(check: &'a TreeCheck<'a>, archive: &'a AssetPath, limits: TreeLimits) -> Walk<'a> {
        Walk { check, archive, left: limits, is_changed: false, is_cut: false, reads: 0 }
    }
}

impl Folder {
    /// The folder of the first level in an archive.
    pub(super) fn root(archive: &AssetPath, pattern: &NamePattern) -> Folder {
        let within = pattern.within(0).to_owned();
        // The pattern has no names that a path cannot have.
        let root = Folder::below(archive, within, Parsed::new());
        root.unwrap_or_else(|| Folder::new(archive.clone(), String::new(), Parsed::new()))
    }

    /// A folder in an archive; none if the path is not valid.
    fn below(archive: &AssetPath, within: String, fields: Parsed) -> Option<Folder> {
        let path = AssetPath::from_decoded(&[archive.as_bytes(), within.as_bytes()].join(&b'/')).ok()?;
        Some(Folder::new(path, within, fields))
    }

    fn new(path: AssetPath, within: String, fields: Parsed) -> Folder {
        let contents = Contents::Recordings(Vec::new());
        Folder { path, within, fields, version: None, is_fresh: false, names: 0, is_cut: false, contents }
    }

    /// Returns whether the folder was there at the last check.
    pub(super) fn exists(&self) -> bool {
        self.version.is_some()
    }

    /// Reads this folder and those in it, if they have changed. A folder that is missing is empty.
    pub(super) fn check(&mut self, walk: &mut Walk<'_>, level: usize) -> Result<(), FindError> {
        if walk.left.folders == 0 {
            walk.is_cut = true;
            self.clear(walk);
            return Ok(());
        }
        walk.left.folders -= 1;
        let Some(version) = walk.check.library.version(&self.path) else {
            self.clear(walk);
            return Ok(());
        };
        let has_room = self.is_cut && walk.left.names > self.names;
        if self.version != Some(version) || self.is_fresh || has_room {
            self.read(walk, level, version)?;
        }
        walk.left.names = walk.left.names.saturating_sub(self.names);
        walk.is_cut |= self.is_cut;
        if let Contents::Folders(folders) = &mut self.contents {
            // The newest are usually the last by name: the oldest are left out if there are too many.
            for folder in folders.values_mut().rev() {
                folder.check(walk, level + 1)?;
            }
        }
        Ok(())
    }

    /// Appends the recordings of this folder and of those in it.
    pub(super) fn collect(&self, all: &mut Vec<Recording>) {
        match &self.contents {
            Contents::Recordings(recordings) => all.extend_from_slice(recordings),
            Contents::Folders(folders) => folders.values().for_each(|folder| folder.collect(all)),
        }
    }

    /// Forgets what was read.
    fn clear(&mut self, walk: &mut Walk<'_>) {
        walk.is_changed |= self.has_recordings();
        (self.version, self.is_fresh, self.is_cut, self.names) = (None, false, false, 0);
        self.contents = Contents::Recordings(Vec::new());
    }

    fn has_recordings(&self) -> bool {
        match &self.contents {
            Contents::Recordings(recordings) => !recordings.is_empty(),
            Contents::Folders(folders) => folders.values().any(Folder::has_recordings),
        }
    }

    /// Reads the names in this version of the folder.
    fn read(&mut self, walk: &mut Walk<'_>, level: usize, version: Version) -> Result<(), FindError> {
        walk.reads += 1;
        let most = walk.left.names;
        let names = match walk.check.library.names(&self.path, most) {
            Ok(names) => names,
            Err(error) if level == 0 || error == FindError::Exhausted => return Err(error),
            // A file, a link out of the served folder, or a folder that was just removed.
            Err(FindError::NotFound) => Vec::new(),
            Err(error @ FindError::Forbidden) => {
                (walk.check.note)(&self.path, error);
                Vec::new()
            }
            Err(error) => {
                // The names of before are as good as any until it can be read.
                (walk.check.note)(&self.path, error);
                self.is_fresh = true;
                return Ok(());
            }
        };
        let is_same = self.version == Some(version);
        (self.names, self.is_cut) = (names.len(), names.len() == most);
        self.is_fresh = version.age_s(walk.check.now_s) < DISTINCT_AFTER_S;
        self.version = Some(version);
        if level + 1 == walk.check.pattern.levels() {
            self.take_files(walk, names, is_same);
        } else {
            self.take_folders(walk, level, names);
        }
        Ok(())
    }

    /// Keeps the names that are recordings.
    fn take_files(&mut self, walk: &mut Walk<'_>, names: Vec<Vec<u8>>, is_same: bool) {
        let recording = |name: Vec<u8>| {
            let start_us = walk.check.pattern.file(&self.fields, &name)?;
            Some(Recording { start_us, name: [self.within.as_bytes(), &name].concat().into() })
        };
        let mut recordings: Vec<Recording> = names.into_iter().filter_map(recording).collect();
        recordings.sort_unstable();
        let are_known = matches!(&self.contents, Contents::Recordings(known) if *known == recordings);
        // A recording may have been replaced by another of its name.
        walk.is_changed |= !is_same || !are_known;
        self.contents = Contents::Recordings(recordings);
    }

    /// Keeps the names that may be folders of recordings.
    fn take_folders(&mut self, walk: &mut Walk<'_>, level: usize, names: Vec<Vec<u8>>) {
        let mut known = match &mut self.contents {
            Contents::Recordings(_) => BTreeMap::new(),
            Contents::Folders(folders) => std::mem::take(folders),
        };
        let pattern = walk.check.pattern;
        let folder = |name: Vec<u8>| {
            let fields = pattern.folder(level, &self.fields, &name)?;
            if let Some(folder) = known.remove(&name) {
                return Some((name, folder));
            }
            let own = std::str::from_utf8(&name).ok()?;
            let within = format!("{}{own}/{}", self.within, pattern.within(level + 1));
            Some((name, Folder::below(walk.archive, within, fields)?))
        };
        let folders = names.into_iter().filter_map(folder).collect();
        walk.is_changed |= known.values().any(Folder::has_recordings);
        self.contents = Contents::Folders(folders);
    }
}
