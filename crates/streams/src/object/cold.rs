//! Pages of files and mappings that may not be in memory.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use wirepath_datapath::Mapping;

/// Pages that may not be in memory.
#[derive(Debug)]
pub(crate) enum Cold {
    File(Arc<File>, Range<u64>),
    /// Ranges of a file that are read in sequence.
    Spans(Arc<File>, Vec<Range<u64>>),
    Mapping(Arc<Mapping>, Range<usize>),
}

impl Cold {
    /// Brings the pages into memory; returns the offset reached. May block.
    pub(crate) fn bring_in(self) -> (u64, std::io::Result<()>) {
        match self {
            Cold::File(file, range) => (range.end, warm(&file, range)),
            Cold::Spans(file, spans) => (0, spans.into_iter().try_for_each(|span| warm(&file, span))),
            Cold::Mapping(mapping, range) => (range.end as u64, mapping.prefault(range)),
        }
    }
}

/// Reads a range of a file into the page cache; stops at the end of the file. May block.
fn warm(file: &File, range: Range<u64>) -> std::io::Result<()> {
    let mut buffer = vec![0; 256 * 1024];
    let mut offset = range.start;
    while offset < range.end {
        let wanted = buffer.len().min((range.end - offset) as usize);
        match file.read_at(&mut buffer[..wanted], offset)? {
            0 => break,
            read => offset += read as u64,
        }
    }
    Ok(())
}

/// Bytes of a file that are checked in the page cache, or read ahead, at a time.
pub(super) const WINDOW: u64 = 2 * 1024 * 1024;

/// Time for which pages found in memory are assumed to stay there, unless they were read. Other programs may
/// need the memory while a slow peer takes a window.
pub(super) const TRUST: Duration = Duration::from_secs(1);
