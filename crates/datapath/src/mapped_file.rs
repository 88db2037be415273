//! Mapped files, from which trains and extents are sent.

use std::fs::File;
use std::io;
use std::num::NonZero;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, pread};
use wirepath_sys::mapping::Mapping;
use wirepath_sys::page_cache::cached_pages;
use wirepath_sys::region::Region;

use crate::SendError;
use crate::read_once::read_once;

/// A stored file with packets: open, and mapped for the paths that send from a mapping.
#[derive(Debug)]
pub struct MappedFile {
    pub(crate) file: Arc<File>,
    /// Shared with queued sends.
    pub(crate) mapping: Arc<Mapping>,
    /// True for an asset, which contains no packet headers.
    has_payload_only: bool,
    /// Identities of the regions with copies, by [`CopyLayout`]; 0 if there is none.
    hot: [AtomicU64; 2],
}

impl MappedFile {
    /// Maps the first `length` bytes of `file`. The file may grow up to that length later: an image can be
    /// sent from while it is still being written.
    ///
    /// # Errors
    /// Those of `mmap`; `EINVAL` for an empty length.
    pub fn new(file: impl Into<Arc<File>>, length: u64) -> io::Result<MappedFile> {
        let file = file.into();
        let mapping = Mapping::new(&file, in_memory(length)?)?;
        Ok(MappedFile::with(file, mapping, false))
    }

    /// Maps an asset of `length` bytes: a file of payload only.
    ///
    /// # Errors
    /// As [`MappedFile::new`].
    pub fn of_asset(asset: Arc<File>, length: u64) -> io::Result<MappedFile> {
        let mapping = Mapping::new(&asset, in_memory(length)?)?;
        Ok(MappedFile::with(asset, mapping, true))
    }

    /// Like [`MappedFile::new`], but maps every page at once, so that no send is the first to touch a page:
    /// for measuring. Takes as long as reading the parts that are not in memory.
    pub fn populated(file: File, length: u64) -> io::Result<MappedFile> {
        let mapping = Mapping::populated(&file, in_memory(length)?)?;
        Ok(MappedFile::with(file.into(), mapping, false))
    }

    fn with(file: Arc<File>, mapping: Mapping, has_payload_only: bool) -> MappedFile {
        let mapping = Arc::new(mapping);
        MappedFile { file, mapping, has_payload_only, hot: [AtomicU64::new(0), AtomicU64::new(0)] }
    }

    /// Returns whether the file has no packet headers because it is an asset.
    #[inline]
    pub fn has_payload_only(&self) -> bool {
        self.has_payload_only
    }

    /// Advises the kernel to start reading a range into the page cache. Without it, the pages are read in
    /// smaller pieces.
    pub fn advise(&self, range: Range<u64>) {
        advise(&self.file, range);
    }

    /// Tells the kernel to read only the [advised](MappedFile::advise) ranges from storage: its own
    /// read-ahead, of megabytes on some devices, would take memory from other files.
    pub fn read_only_as_told(&self) {
        read_only_as_told(&self.file);
        self.mapping.expect_random_access();
    }

    /// Reads a range into the page cache and maps it, so that a send soon after does not wait for storage.
    /// May block.
    ///
    /// # Errors
    ///
    /// `EFAULT` if the file has become shorter, else those of reading.
    pub fn read_ahead(&self, range: Range<u64>) -> io::Result<()> {
        self.advise(range.clone());
        let length = range.end.saturating_sub(range.start) as usize;
        self.mapping.prefault(Extent { offset: range.start, length }.in_memory())
    }

    /// Maps the pages of a range, so that a send from the mapping takes no page fault. May block.
    ///
    /// # Errors
    ///
    /// Those of [`Mapping::populate`](wirepath_sys::mapping::Mapping::populate). Sends take page faults then.
    pub fn map_pages(&self, range: Range<u64>) -> io::Result<()> {
        let length = range.end.saturating_sub(range.start) as usize;
        self.mapping.populate(Extent { offset: range.start, length }.in_memory())
    }

    /// Releases the whole pages of a range: from the page table, and from the page cache unless others use
    /// them or the network still sends them. May block.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a range that was not mapped, else those of `posix_fadvise`.
    pub fn release(&self, range: Range<u64>) -> io::Result<()> {
        let Some(length) = NonZero::new(range.end.saturating_sub(range.start)) else { return Ok(()) };
        let extent = Extent { offset: range.start, length: length.get() as usize };
        self.mapping.forget(extent.in_memory())?;
        Ok(fadvise(&self.file, range.start, Some(length), Advice::DontNeed)?)
    }

    /// Releases the pages of a range that are not in a page table, but not pages that were [read
    /// ahead](MappedFile::read_ahead) and not released. May block.
    ///
    /// # Errors
    ///
    /// Those of `posix_fadvise`.
    pub fn release_unmapped(&self, range: Range<u64>) -> io::Result<()> {
        let Some(length) = NonZero::new(range.end.saturating_sub(range.start)) else { return Ok(()) };
        Ok(fadvise(&self.file, range.start, Some(length), Advice::DontNeed)?)
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// A verified copy of its first `length` bytes, from which a ring can send: [`MappedFile::set_hot`]. The
    /// pages read for it are dropped from the page cache if the kernel supports that.
    ///
    /// # Errors
    ///
    /// `ENOMEM` without enough memory, those of reading the file, or those of `check`.
    pub fn copy<E: From<io::Error>>(
        &self,
        length: u64,
        check: impl FnOnce(&[u8]) -> Result<(), E>,
    ) -> Result<Region, E> {
        let length = in_memory(length)?;
        Region::new(length, |bytes| {
            read_once(&self.file, bytes, 0)?;
            check(bytes)
        })
    }

    /// Lets threads whose ring holds `region`, a copy of this file's start in this layout, send from it; none
    /// ends that.
    pub fn set_hot(&self, layout: CopyLayout, region: Option<&Region>) {
        // Relaxed, since the sending thread received the region in another way.
        self.hot[layout as usize].store(region.map_or(0, Region::id), Relaxed);
    }

    /// Identity of the region that is a copy of this file in this layout, if any.
    #[inline]
    pub(crate) fn hot(&self, layout: CopyLayout) -> Option<u64> {
        Some(self.hot[layout as usize].load(Relaxed)).filter(|id| *id != 0)
    }

    /// Reads what fills `buffer`.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), SendError> {
        const CALL: &str = "pread";
        let wanted = buffer.len();
        match pread(&self.file, buffer, offset) {
            Ok(read) if read == wanted => Ok(()),
            Ok(_) => Err(SendError::Storage { call: CALL, errno: Errno::NODATA }),
            Err(errno) => Err(SendError::Storage { call: CALL, errno }),
        }
    }
}

/// Advises the kernel to start reading a range of a file into the page cache. Without it, a call reads the
/// range.
pub fn advise(file: &File, range: Range<u64>) {
    let length = NonZero::new(range.end.saturating_sub(range.start));
    let _ = fadvise(file, range.start, length, Advice::WillNeed);
}

/// Tells the kernel to read from a file only as much as each call requests. Without it, the kernel reads
/// further.
pub fn read_only_as_told(file: &File) {
    let _ = fadvise(file, 0, None, Advice::Random);
}

/// A length that memory can have.
pub(crate) fn in_memory(length: u64) -> io::Result<usize> {
    usize::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

/// Layout of a copy of a file in a region, from which a ring sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyLayout {
    /// The bytes of the file, for UDP: [`MappedFile::copy`].
    Packets,
    /// Each packet after its framing, for RTSP connections: [`MappedFile::copy_framed`].
    Frames,
}

/// Bytes of a file, by reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: usize,
}

impl Extent {
    /// The extent as a range of the mapping.
    pub(crate) fn in_memory(self) -> Range<usize> {
        let start = self.offset as usize;
        start..start + self.length
    }

    /// Returns whether the kernel may compute a wrong checksum when `sendfile` sends this. Its sum over pages
    /// that are added by reference is wrong after a part of odd length (seen on Linux 6.12 and 6.18), and it
    /// computes one in software where the device does not, where the packet is fragmented and, without
    /// UDP_SEGMENT, where it had to wait for its payload. Parts of odd length come from odd offsets; media,
    /// which have even packets, have none.
    pub(crate) fn confuses_checksums(self) -> bool {
        let page = rustix::param::page_size() as u64;
        self.offset % 2 == 1 && self.offset % page + self.length as u64 > page
    }
}

/// Presence of a file's range in the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageCache {
    /// The whole range is present: reading does not wait for storage.
    Warm,
    /// Part of it is missing, or the presence is unknown (before Linux 6.5).
    Cold,
}

impl PageCache {
    /// Queries the kernel; never blocks. An error counts as cold, since reading the range will report it.
    pub fn of(file: &File, range: Range<u64>) -> PageCache {
        let page = rustix::param::page_size() as u64;
        let first = range.start / page * page;
        let pages = range.end.div_ceil(page) - first / page;
        match cached_pages(file.as_fd(), first..range.end) {
            Ok(cached) if cached >= pages => PageCache::Warm,
            Ok(_) | Err(_) => PageCache::Cold,
        }
    }
}
