//! One folder of an archive, with the matching names in it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

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
    /// True if it may have changed without a change of its version.
    is_fresh: bool,
    /// Reason why it could not be read at the last check. It keeps the names from before.
    failure: Option<FindError>,
    /// True if there are more matching names than the limits permitted.
    is_cut: bool,
    contents: Contents,
}

/// Matching names in a folder.
enum Contents {
    /// Files, by their times.
    Recordings(Vec<Recording>),
    Folders(BTreeMap<Vec<u8>, Folder>),
}

/// The last of many values in their order.
struct Last<T> {
    most: usize,
    values: Vec<T>,
    /// True if others were left out.
    is_cut: bool,
}

impl<T: Ord> Last<T> {
    fn push(&mut self, value: T) {
        // Sorts rarely, so that a value costs little.
        if self.values.len() > self.most + self.most / 4 {
            self.cut();
        }
        self.values.push(value);
    }

    /// The last values, sorted.
    fn cut(&mut self) {
        self.values.sort();
        let beyond = self.values.len().saturating_sub(self.most);
        self.values.drain(..beyond);
        self.is_cut |= beyond > 0;
    }
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

    /// Returns whether the names of a level are those of files.
    fn is_last(&self, level: usize) -> bool {
        level + 1 == self.check.pattern.levels()
    }

    /// Number of names that a folder of a level may have.
    fn room(&self, level: usize) -> usize {
        if self.is_last(level) { self.left.names } else { self.left.names.min(self.left.folders) }
    }

    /// Reads the matching names in a folder; those beyond the limits are left out.
    fn last<T: Ord>(
        &mut self,
        level: usize,
        path: &AssetPath,
        mut matching: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<Last<T>, FindError> {
        let mut last = Last { most: self.room(level), values: Vec::new(), is_cut: false };
        self.check.library.names(path, &mut |name| {
            if let Some(value) = matching(name) {
                last.push(value);
            }
            ControlFlow::Continue(())
        })?;
        self.reads += 1;
        last.cut();
        Ok(last)
    }
}

impl Folder {
    /// The folder of the first level in an archive; none if the path is not valid.
    pub(super) fn root(archive: &AssetPath, pattern: &NamePattern) -> Option<Folder> {
        Folder::below(archive, pattern.within(0).to_owned(), Parsed::new())
    }

    /// A folder in an archive; none if the path is not valid.
    fn below(archive: &AssetPath, within: String, fields: Parsed) -> Option<Folder> {
        let path = AssetPath::from_decoded(&[archive.as_bytes(), within.as_bytes()].join(&b'/')).ok()?;
        let contents = Contents::Recordings(Vec::new());
        let (version, is_fresh, failure, is_cut) = (None, false, None, false);
        Some(Folder { path, within, fields, version, is_fresh, failure, is_cut, contents })
    }

    /// Names of the folders in it.
    #[cfg(test)]
    pub(super) fn folders(&self) -> Vec<&Vec<u8>> {
        match &self.contents {
            Contents::Recordings(_) => Vec::new(),
            Contents::Folders(folders) => folders.keys().collect(),
        }
    }

    /// Returns whether the folder was there at the last check.
    pub(super) fn exists(&self) -> bool {
        self.version.is_some()
    }

    /// Reads this folder and those in it, if they have changed. A folder that is missing is empty; one that
    /// cannot be read keeps the names from before.
    pub(super) fn check(&mut self, walk: &mut Walk<'_>, level: usize) -> Result<(), FindError> {
        if walk.left.folders == 0 || walk.left.names == 0 {
            walk.is_cut = true;
            self.clear(walk);
            return Ok(());
        }
        walk.left.folders -= 1;
        let is_known = self.version.is_some();
        match self.update(walk, level) {
            Ok(()) => self.failure = None,
            Err(FindError::NotFound) => self.clear(walk),
            Err(error) if level == 0 && !is_known => return Err(error),
            Err(error) => {
                if self.failure.replace(error) != Some(error) {
                    (walk.check.note)(&self.path, error);
                }
            }
        }
        // Newer folders have grown since this one was read.
        self.cut(walk);
        walk.left.names -= self.names();
        walk.is_cut |= self.is_cut;
        if let Contents::Folders(folders) = &mut self.contents {
            // The newest are usually the last by name: the oldest are left out if there are too many.
            for folder in folders.values_mut().rev() {
                folder.check(walk, level + 1)?;
            }
        }
        Ok(())
    }

    /// Reads the folder if it has changed, if it could not be read before, or if more of its names are
    /// permitted than before.
    fn update(&mut self, walk: &mut Walk<'_>, level: usize) -> Result<(), FindError> {
        let version = walk.check.library.folder_version(&self.path)?;
        let has_room = self.is_cut && walk.room(level) > self.names();
        if self.version != Some(version) || self.is_fresh || self.failure.is_some() || has_room {
            self.read(walk, level, version)?;
        }
        Ok(())
    }

    /// Number of names that were kept.
    fn names(&self) -> usize {
        match &self.contents {
            Contents::Recordings(recordings) => recordings.len(),
            Contents::Folders(folders) => folders.len(),
        }
    }

    /// Leaves the oldest names out that are beyond the limits.
    fn cut(&mut self, walk: &mut Walk<'_>) {
        match &mut self.contents {
            Contents::Recordings(recordings) => {
                let beyond = recordings.len().saturating_sub(walk.left.names);
                recordings.drain(..beyond);
                self.is_cut |= beyond > 0;
                walk.is_changed |= beyond > 0;
            }
            Contents::Folders(folders) => {
                while folders.len() > walk.left.names.min(walk.left.folders) {
                    let first = folders.pop_first();
                    self.is_cut = true;
                    walk.is_changed |= first.is_some_and(|(_, folder)| folder.has_recordings());
                }
            }
        }
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
        (self.version, self.is_fresh, self.failure, self.is_cut) = (None, false, None, false);
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
        match walk.is_last(level) {
            true => self.read_files(walk, level, self.version == Some(version))?,
            false => self.read_folders(walk, level)?,
        }
        self.is_fresh = version.age_s(walk.check.now_s) < DISTINCT_AFTER_S;
        self.version = Some(version);
        Ok(())
    }

    /// Reads the names that are recordings.
    fn read_files(&mut self, walk: &mut Walk<'_>, level: usize, is_same: bool) -> Result<(), FindError> {
        let pattern = walk.check.pattern;
        let last = walk.last(level, &self.path, |name| {
            let start_us = pattern.file(&self.fields, name)?;
            Some(Recording { start_us, name: [self.within.as_bytes(), name].concat().into() })
        })?;
        let are_known = matches!(&self.contents, Contents::Recordings(known) if *known == last.values);
        // A recording may have been replaced by another of its name.
        walk.is_changed |= !is_same || !are_known;
        self.is_cut = last.is_cut;
        self.contents = Contents::Recordings(last.values);
        Ok(())
    }

    /// Reads the names that may be folders of recordings.
    fn read_folders(&mut self, walk: &mut Walk<'_>, level: usize) -> Result<(), FindError> {
        let pattern = walk.check.pattern;
        let last = walk.last(level, &self.path, |name| {
            pattern.folder(level, &self.fields, name).map(|_| name.to_vec())
        })?;
        let mut known = match &mut self.contents {
            Contents::Recordings(_) => BTreeMap::new(),
            Contents::Folders(folders) => std::mem::take(folders),
        };
        let folder = |name: Vec<u8>| {
            if let Some(folder) = known.remove(&name) {
                return Some((name, folder));
            }
            let fields = pattern.folder(level, &self.fields, &name)?;
            let own = std::str::from_utf8(&name).ok()?;
            let within = format!("{}{own}/{}", self.within, pattern.within(level + 1));
            Some((name, Folder::below(walk.archive, within, fields)?))
        };
        let folders = last.values.into_iter().filter_map(folder).collect();
        walk.is_changed |= known.values().any(Folder::has_recordings);
        self.is_cut = last.is_cut;
        self.contents = Contents::Folders(folders);
        Ok(())
    }
}
