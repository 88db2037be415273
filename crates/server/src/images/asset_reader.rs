//! Reads an asset for packing: small extents out of larger parts, since what is wanted next is near.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use wirepath_datapath::advise;
use wirepath_media::image::PayloadRun;
use wirepath_media::payload::Piece;
use wirepath_media::track::Extent;

/// Bytes that are read at a time.
const PART_LENGTH: usize = 1 << 18;

/// Length of an extent that is read as it is: what is behind it may have to wait for storage.
const LONG_LENGTH: usize = 1 << 16;

/// Parts that are kept: tracks that are not interleaved in the file are read in turn.
const PARTS: usize = 4;

/// Parts of one asset at a time.
#[derive(Debug, Default)]
pub(super) struct AssetReader {
    /// Those that were read last are in front.
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    offset: u64,
    bytes: Vec<u8>,
}

impl AssetReader {
    /// Forgets what was read: another asset is next, or this one may have changed. Parts for long extents
    /// are freed.
    pub(super) fn clear(&mut self) {
        self.parts.retain(|part| part.bytes.capacity() <= PART_LENGTH);
        self.parts.iter_mut().for_each(|part| part.bytes.clear());
    }

    /// Reads an extent of `asset`. An asset that ends before it is an error.
    pub(super) fn read(&mut self, asset: &File, extent: Extent) -> io::Result<&[u8]> {
        let index = match self.parts.iter().position(|part| part.has(extent)) {
            Some(index) => index,
            None => self.fill(asset, extent)?,
        };
        self.parts[..=index].rotate_right(1);
        Ok(self.parts.first().map_or(&[], |part| part.slice(extent)))
    }

    /// Reads the payload of runs.
    pub(super) fn read_payload(
        &mut self,
        asset: &File,
        runs: &[PayloadRun],
        mut payload: &mut [u8],
    ) -> io::Result<()> {
        for run in runs {
            let (part, rest) = payload.split_at_mut(run.length());
            match run {
                PayloadRun::Packets(run) if run.is_contiguous() => asset.read_exact_at(part, run.offset)?,
                PayloadRun::Packets(run) => {
                    let mut span = vec![0; run.span()];
                    asset.read_exact_at(&mut span, run.offset)?;
                    run.copy(&span, part);
                }
                PayloadRun::Pieces(pieces) => self.read_pieces(asset, pieces, part)?,
            }
            payload = rest;
        }
        Ok(())
    }

    fn read_pieces(&mut self, asset: &File, pieces: &[Piece], mut payload: &mut [u8]) -> io::Result<()> {
        for piece in pieces {
            let (part, rest) = payload.split_at_mut(piece.length());
            part.copy_from_slice(match piece {
                Piece::Generated(generated) => generated.bytes(),
                Piece::Extent(extent) => self.read(asset, *extent)?,
            });
            payload = rest;
        }
        Ok(())
    }

    /// Reads a part that begins with an extent; returns its index.
    fn fill(&mut self, asset: &File, extent: Extent) -> io::Result<usize> {
        if self.parts.len() < PARTS {
            self.parts.push(Part { offset: 0, bytes: Vec::new() });
        }
        let index = self.parts.len() - 1;
        let part = &mut self.parts[index];
        let wanted = usize::try_from(extent.length).map_err(io::Error::other)?;
        if part.bytes.capacity() > PART_LENGTH {
            part.bytes = Vec::new();
        }
        part.offset = extent.offset;
        let least = if wanted < LONG_LENGTH { PART_LENGTH } else { 0 };
        part.bytes.resize(wanted.max(least), 0);
        let mut length = 0;
        while length < part.bytes.len() {
            match asset.read_at(&mut part.bytes[length..], extent.offset + length as u64) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    part.bytes.clear();
                    return Err(error);
                }
            }
        }
        part.bytes.truncate(length);
        // While this is packed, storage reads on.
        let end = extent.offset + length as u64;
        advise(asset, end..end + PART_LENGTH as u64);
        if length < wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(index)
    }
}

impl Part {
    fn has(&self, extent: Extent) -> bool {
        self.offset <= extent.offset && extent.end() <= self.offset + self.bytes.len() as u64
    }

    fn slice(&self, extent: Extent) -> &[u8] {
        &self.bytes[(extent.offset - self.offset) as usize..][..extent.length as usize]
    }
}
