//! Files to send: payload, and the same payload as packets with stored headers.
//!
//! Files are made once and kept for the next assessment. Their bytes are not zeros, which a file system may
//! store as a hole without pages, and not compressible.

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

/// Share of the available memory that files may fill.
const MEMORY_SHARE: f64 = 0.6;

/// Number of files in the experiment with most files, files held by a ring counted twice: `stream` has the
/// payload, and packets of four sizes.
pub(crate) const MOST_FILES: u64 = 9;

/// Attempts to read a file into memory: hypervisors and other programs may reclaim pages meanwhile.
const ATTEMPTS: u32 = 10;

/// Files of an assessment.
pub(crate) struct Media {
    files: BTreeMap<Content, Source>,
    /// Payload bytes in each file.
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
    /// Opens the files that cases send.
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

    /// Opens the user's file, or a generated file, of which `files` variants will be made.
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

    /// Payload bytes in each file.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Makes sure that a file of this kind exists.
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

    /// File for a case: in the page cache or not, by the options; and in the ring of `scratch` if the path
    /// sends from a ring.
    pub(crate) fn prepared_for(
        &mut self,
        case: &Case,
        scratch: &mut SendContext,
    ) -> Result<&MappedFile, Error> {
        let kind = case.content();
        if case.path.needs_ring() {
            scratch.ensure_ring().map_err(|error| Error::Unable(format!("it has no ring: {error}")))?;
        }
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

    /// File of a kind: in the page cache or not, by the options.
    pub(crate) fn prepared(&mut self, kind: Content) -> Result<&MappedFile, Error> {
        let source =
            self.files.get_mut(&kind).ok_or_else(|| Error::Unable(format!("no file for {kind:?}")))?;
        let length = source.file.metadata().doing("asking for a file's length")?.len();
        match self.cache {
            Cache::Warm => {
                // Pages that were read again are no longer mapped. A copy held by a ring stays valid.
                if load_into_cache(&source.file, length)? && !source.hot {
                    source.medium = None;
                }
            }
            Cache::Cold => {
                source.medium = None; // mapped pages are not dropped
                evict(&source.file, length)?;
            }
        }
        if source.medium.is_none() {
            let file = source.file.try_clone().doing("opening a file once more")?;
            // The first send from an unmapped page takes a page fault, which would affect the first runs and
            // not later runs. From cold pages the fault is part of the measurement.
            let map = if self.cache == Cache::Warm { MappedFile::populated } else { MappedFile::new };
            source.medium = Some(map(file, length).doing("mapping a file")?);
        }
        Ok(source.medium.as_ref().expect("it was just made if there was none"))
    }
}

/// Number of copies of the file in memory: payload, packets of each size, and another copy for a ring.
fn copies_in_memory(cases: &[Case]) -> u64 {
    let mut kinds: Vec<(Content, bool)> =
        cases.iter().map(|case| (case.content(), case.path.needs_hot_memory())).collect();
    kinds.push((Content::Payload, false)); // the source of all others
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

/// The volume, or less if memory cannot hold `files` files of that size.
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
    // Room for the same number of files in every experiment, so that all experiments have the same length.
    let files = files.max(MOST_FILES);
    let most = power_of_two((available as f64 * 1024.0 * MEMORY_SHARE) as u64 / files);
    if most >= options.volume {
        return Ok(options.volume);
    }
    progress.note(&format!("memory holds {files} files of {} MiB, which are sent repeatedly", most >> 20));
    Ok(most)
}

/// Rounds down to a power of two of at least 1 MiB, so that small changes of available memory do not cause
/// new files.
fn power_of_two(bytes: u64) -> u64 {
    1 << bytes.max(1 << 20).ilog2()
}

/// Loads a file into the page cache and checks that it is there, if the kernel can report it (Linux 6.5).
/// Returns whether it had to be read.
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

/// Drops a file from the page cache and checks that it is gone.
fn evict(file: &File, length: u64) -> Result<(), Error> {
    rustix::fs::fdatasync(file).doing("writing a file")?; // dirty pages are not dropped
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
