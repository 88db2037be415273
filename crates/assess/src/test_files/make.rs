//! Generation of test files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use wirepath_datapath::rtp::HEADER_LENGTH;

use crate::case::{Content, RUN};
use crate::error::{Doing, Error};
use crate::progress::Progress;

/// Version of the generated content; part of the file names.
pub(super) const VERSION: u32 = 1;

/// Bytes between progress reports and stop requests.
const STEP: u64 = 16 << 20;

/// Writes the next bytes into an empty buffer; leaves it empty at the end.
pub(crate) trait Writer: FnMut(&mut Vec<u8>) -> io::Result<()> {}
impl<F: FnMut(&mut Vec<u8>) -> io::Result<()>> Writer for F {}

/// Name of a kept file.
pub(super) fn name(scratch: &Path, kind: Content, length: u64) -> PathBuf {
    scratch.join(match kind {
        Content::Payload => format!("assess-{VERSION}-{length}.payload"),
        Content::Ready(packet) => format!("assess-{VERSION}-{length}-{packet}.packets"),
    })
}

/// Opens the file of this name if it has the right length; else generates it and then gives it that name.
pub(super) fn kept(
    name: &Path,
    length: u64,
    progress: &mut dyn Progress,
    content: impl Writer,
) -> Result<File, Error> {
    match File::open(name) {
        Ok(file) if file.metadata().is_ok_and(|metadata| metadata.len() == length) => return Ok(file),
        _ => {} // made again, and replaces any existing file
    }
    let folder = name.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|error| Error::of_file("make the folder", folder, error))?;
    let unfinished = name.with_extension(format!("unfinished-{}", std::process::id()));
    let made = File::create_new(&unfinished)
        .map_err(|error| Error::of_file("make", &unfinished, error))
        .and_then(|file| fill(&file, &unfinished, length, progress, content));
    let made = made
        .and_then(|()| fs::rename(&unfinished, name).map_err(|error| Error::of_file("name", name, error)));
    if let Err(error) = made {
        fs::remove_file(&unfinished).ok(); // the first error is reported
        return Err(error);
    }
    File::open(name).map_err(|error| Error::of_file("open", name, error))
}

/// File without a name, which vanishes when closed.
pub(crate) fn unnamed_file(
    folder: &Path,
    length: u64,
    progress: &mut dyn Progress,
    content: impl Writer,
) -> Result<File, Error> {
    fs::create_dir_all(folder).map_err(|error| Error::of_file("make the folder", folder, error))?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    let file = options
        .custom_flags(rustix::fs::OFlags::TMPFILE.bits() as i32)
        .open(folder)
        .map_err(|error| Error::of_file("make a file in", folder, error))?;
    fill(&file, folder, length, progress, content)?;
    Ok(file)
}

fn fill(
    file: &File,
    name: &Path,
    length: u64,
    progress: &mut dyn Progress,
    mut content: impl Writer,
) -> Result<(), Error> {
    let failed = |error| Error::of_file("write", name, error);
    let mut writer = BufWriter::with_capacity(1 << 20, file);
    let (mut written, mut said) = (0, 0);
    let mut block = Vec::new();
    while written < length {
        block.clear();
        content(&mut block).map_err(failed)?;
        let part = &block[..block.len().min((length - written) as usize)];
        writer.write_all(part).map_err(failed)?;
        written += part.len() as u64;
        if written - said >= STEP {
            said = written;
            progress.at(0.0, &format!("making what is sent: {} of {} MiB", written >> 20, length >> 20));
            if progress.stopped() {
                return Err(Error::Stopped);
            }
        }
    }
    writer.flush().map_err(failed)?;
    // Written to storage before measuring, so that writeback does not happen during runs.
    file.sync_data().doing("writing what is sent to storage")
}

/// Numbers of a xorshift generator: the same in every assessment, never zero, and without a usable pattern.
pub(super) fn payload() -> impl Writer {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    move |block: &mut Vec<u8>| {
        for _ in 0..8192 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            block.extend_from_slice(&state.to_le_bytes());
        }
        Ok(())
    }
}

/// Packets of the payload, with their headers.
pub(super) fn ready(payload: &File, length: u64, packet: u16) -> impl Writer + '_ {
    let mut index: u32 = 0;
    move |block: &mut Vec<u8>| {
        let start = u64::from(index) * u64::from(packet);
        let size = u64::from(packet).min(length - start) as usize;
        block.extend_from_slice(&RUN.header(index).to_bytes());
        block.resize(HEADER_LENGTH + size, 0);
        payload.read_exact_at(&mut block[HEADER_LENGTH..], start)?;
        index += 1;
        Ok(())
    }
}
