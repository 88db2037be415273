//! The files that are sent: payload, and the same payload as ready packets.
//!
//! Files are made once and kept for the next assessment. Their bytes are neither zeros, which a file system
//! may keep as a hole without pages, nor compressible.

mod make;
mod stale_files;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};
use wirepath_datapath::rtp::HEADER_LENGTH;
use wirepath_datapath::{Extent, MappedFile, SendContext};
use wirepath_sys::page_cache::cached_pages;

pub(crate) use make::unnamed_file;
pub use stale_files::remove_made;

use crate::case::{Case, Content};
use crate::error::{Doing, Error};
use crate::findings::Findings;
use crate::options::Options;
use crate::packetization::Packetization;
use crate::progress::Progress;
use crate::result::Cache;

/// Share of the memory that is available now that files may fill.
const MEMORY_SHARE: f64 = 0.6;

/// Files of the experiment that has most, those that a ring holds counted twice: `stream` has the payload,
/// and packets of four sizes.
pub(crate) const MOST_FILES: u64 = 9;

/// Attempts to read a file into memory: hypervisors and others reclaim pages meanwhile.
const ATTEMPTS: u32 = 10;

/// The files of an assessment.
pub(crate) struct Media {
    files: BTreeMap<Content, Source>,
    /// Bytes of payload in each.
    length: u64,
    cache: Cache,
    scratch: PathBuf,
    is_user_file: bool,
}

struct Source {
    file: File,
    medium: Option<MappedFile>,
    /// True if the ring holds a copy of the medium.
    hot: bool,
}

impl Media {
    /// Opens what these cases send.
    pub(crate) fn open_for(
        cases: &[Case],
        options: &Options,
        progress: &mut dyn Progress,
    ) -> Result<Media, Error> {
        let largest = cases.iter().filter_map(|case| case.size).max().unwrap_or_default();
        Media::open(options, copies_in_memory(cases), largest.into(), progress)
    }

    /// Records the length of the file, if it is shorter than the volume.
    pub(crate) fn explain(&self, options: &Options, found: &mut Findings<'_>) {
        if self.length >= options.volume {
            return;
        }
        let why = match self.is_user_file {
            true => "the file is no longer",
            false => "memory does not hold all the files that are sent in that length",
        };
        let why = format!("{why}: it has {} bytes, and is sent repeatedly", self.length);
        found.leave_out(&format!("a file of {} bytes", options.volume), &why);
    }

    /// Opens the user's file, or the one that is made, which `files` variants will be made of.
    pub(crate) fn open(
        options: &Options,
        files: u64,
        largest_packet: u64,
        progress: &mut dyn Progress,
    ) -> Result<Media, Error> {
        let (file, length) = match &options.file {
            Some(path) => {
                let (file, length) = own_file(path, largest_packet)?;
                (file, length.min(options.volume))
            }
            None => {
                let length = that_fits(options, files, progress)?.max(largest_packet);
                stale_files::remove(&options.scratch, length, progress);
                let name = make::name(&options.scratch, Content::Payload, length);
                (make::kept(&name, length, progress, make::payload())?, length)
            }
        };
        let source = Source { file, medium: None, hot: false };
        Ok(Media {
            files: BTreeMap::from([(Content::Payload, source)]),
            length,
            cache: options.cache,
            scratch: options.scratch.clone(),
            is_user_file: options.file.is_some(),
        })
    }

    /// Bytes of payload in each file.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Makes sure that there is a file of this kind.
    pub(crate) fn ensure(&mut self, kind: Content, progress: &mut dyn Progress) -> Result<(), Error> {
        let (Content::Ready(packet), false) = (kind, self.files.contains_key(&kind)) else { return Ok(()) };
        let payload = &self.files[&Content::Payload].file;
        let packets = Packetization::new(self.length, packet.into(), self.length).packets_in_file();
        let length = self.length + packets * HEADER_LENGTH as u64;
        let content = make::ready(payload, self.length, packet);
        let file = match self.is_user_file {
            true => make::unnamed_file(&self.scratch, length, progress, content)?,
            false => make::kept(&make::name(&self.scratch, kind, self.length), length, progress, content)?,
        };
        self.files.insert(kind, Source { file, medium: None, hot: false });
        Ok(())
    }

    /// A file for this way: in the page cache or not, as was asked for; and in the ring of `scratch` if that
    /// is what is sent from.
    pub(crate) fn prepared_for(
        &mut self,
        case: &Case,
        scratch: &mut SendContext,
    ) -> Result<&MappedFile, Error> {
        let kind = case.content();
        if case.path.needs_hot_memory() {
            if self.cache == Cache::Cold {
                return Err(Error::Unable("it sends from registered memory, which is never cold".to_owned()));
            }
            self.prepared(kind)?;
            let Some(Source { medium: Some(medium), hot, .. }) = self.files.get_mut(&kind) else {
                return Err(Error::Unable(format!("no file for {kind:?}")));
            };
            if !*hot {
                let held = scratch.register_copy(medium);
                held.map_err(|error| Error::Unable(format!("its ring cannot hold the file: {error}")))?;
                *hot = true;
            }
            let beginning = Extent { offset: 0, length: 1 };
            if !scratch.has_registered(medium, beginning) {
                return Err(Error::Unable("its ring failed".to_owned()));
            }
        }
        self.prepared(kind)
    }

    /// A file, in the page cache or not, as was asked for.
    pub(crate) fn prepared(&mut self, kind: Content) -> Result<&MappedFile, Error> {
        let source =
            self.files.get_mut(&kind).ok_or_else(|| Error::Unable(format!("no file for {kind:?}")))?;
        let length = source.file.metadata().doing("asking for a file's length")?.len();
        match self.cache {
            Cache::Warm => {
                // Pages that were read anew are not mapped any more. A ring holds a copy, which stays valid.
                if load_into_cache(&source.file, length)? && !source.hot {
                    source.medium = None;
                }
            }
            Cache::Cold => {
                source.medium = None; // what is mapped is not dropped
                evict(&source.file, length)?;
            }
        }
        if source.medium.is_none() {
            let file = source.file.try_clone().doing("opening a file once more")?;
            // A page that a send is the first to touch costs a fault, which would be in the first runs and
            // not in the later ones. From cold pages the fault is a part of what is measured.
            let map = if self.cache == Cache::Warm { MappedFile::populated } else { MappedFile::new };
            source.medium = Some(map(file, length).doing("mapping a file")?);
        }
        Ok(source.medium.as_ref().expect("it was just made if there was none"))
    }
}

/// Copies of the file in memory: as payload, as ready packets of each size, and once more for a ring.
fn copies_in_memory(cases: &[Case]) -> u64 {
    let mut kinds: Vec<(Content, bool)> =
        cases.iter().map(|case| (case.content(), case.path.needs_hot_memory())).collect();
    kinds.push((Content::Payload, false)); // what all others are made of
    kinds.sort_unstable();
    kinds.dedup();
    kinds.len() as u64
}

fn own_file(path: &Path, largest_packet: u64) -> Result<(File, u64), Error> {
    let wrong = |why: &str| Error::Input(format!("{} cannot be sent: {why}", path.display()));
    let file = File::open(path).map_err(|error| wrong(&error.to_string()))?;
    let metadata = file.metadata().map_err(|error| wrong(&error.to_string()))?;
    match metadata.len() {
        _ if metadata.is_dir() => Err(wrong("it is a directory; name a file")),
        _ if !metadata.is_file() => Err(wrong("not a regular file")),
        length if length < largest_packet => Err(wrong(&format!(
            "it has {length} bytes, and a packet has {largest_packet}; name a larger file, or none and one is made"
        ))),
        length => Ok((file, length)),
    }
}

/// The volume, or less if memory does not hold so much so many times.
fn that_fits(options: &Options, files: u64, progress: &mut dyn Progress) -> Result<u64, Error> {
    if options.cache == Cache::Cold {
        return Ok(options.volume);
    }
    let table = std::fs::read_to_string("/proc/meminfo").doing("asking for the available memory")?;
    let available =
        table.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.split_whitespace().next());
    let Some(available) = available.and_then(|kilobytes| kilobytes.parse::<u64>().ok()) else {
        return Ok(options.volume);
    };
    // As many files for every experiment, so that all have the same.
    let files = files.max(MOST_FILES);
    let most = power_of_two((available as f64 * 1024.0 * MEMORY_SHARE) as u64 / files);
    if most >= options.volume {
        return Ok(options.volume);
    }
    progress.note(&format!("memory holds {files} files of {} MiB, which are sent repeatedly", most >> 20));
    Ok(most)
}

/// A power of two of at least a MiB, so that a little more or less memory makes no other files.
fn power_of_two(bytes: u64) -> u64 {
    1 << bytes.max(1 << 20).ilog2()
}

/// Brings a file into the page cache and sees that it is there, as far as the kernel tells (Linux 6.5).
/// Answers whether it had to be read.
fn load_into_cache(mut file: &File, length: u64) -> Result<bool, Error> {
    let pages = length.div_ceil(rustix::param::page_size() as u64);
    let cached = || cached_pages(file.as_fd(), 0..length).unwrap_or(pages);
    let mut room = Vec::new();
    for attempt in 0..ATTEMPTS {
        if cached() >= pages {
            return Ok(attempt > 0);
        }
        room.resize(1 << 20, 0);
        rustix::fs::seek(file, rustix::fs::SeekFrom::Start(0)).doing("reading a file")?;
        while file.read(&mut room).doing("reading a file")? > 0 {}
    }
    Err(Error::Unable(format!(
        "of the file's {pages} pages {} stay in the page cache: memory is too small, or other programs take it; use a smaller \
         --volume",
        cached()
    )))
}

/// Takes a file out of the page cache and sees that it is gone.
fn evict(file: &File, length: u64) -> Result<(), Error> {
    rustix::fs::fdatasync(file).doing("writing a file")?; // what is dirty is not dropped
    fadvise(file, 0, None, Advice::DontNeed).doing("dropping a file from the page cache")?;
    match cached_pages(file.as_fd(), 0..length) {
        Ok(0) => Ok(()),
        Ok(pages) => Err(Error::Unable(format!(
            "{pages} pages of the file stay in the page cache: another program uses it, or its file system lives in memory; \
             use another --scratch"
        ))),
        Err(error) => {
            Err(Error::Unable(format!("cannot check that the file is cold, which takes Linux 6.5: {error}")))
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
