//! Reads an asset for packing: small extents are taken from larger parts, since the next extent is usually
//! near.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use wirepath_datapath::advise;
use wirepath_media::image::{MAX_STREAMS, PayloadRun, fill_padding};
use wirepath_media::payload::Piece;
use wirepath_media::track::Extent;

/// Bytes of a part, and bytes of a short part. Short parts are for assets in which many places are read in
/// turn: most of a long part might never be used.
const PART_LENGTH: usize = 1 << 18;
const SHORT_PART_LENGTH: usize = 1 << 16;

/// Most places that are read in long parts.
const FULL_PARTS: usize = 4;

/// Length from which an extent is read by itself: bytes after it might have to wait for storage.
const LONG_LENGTH: usize = 1 << 16;

/// Number of parts that are kept: one for each track, since tracks that are not interleaved in the file are
/// read in turn, and one for boxes.
const PARTS: usize = MAX_STREAMS + 1;

/// Parts of one asset at a time.
#[derive(Debug, Default)]
pub(super) struct AssetReader {
    /// Ordered by their last use, the latest first.
    parts: Vec<Part>,
    /// Bytes read into parts.
    #[cfg(test)]
    read_bytes: u64,
}

#[derive(Debug)]
struct Part {
    offset: u64,
    bytes: Vec<u8>,
}

impl AssetReader {
    /// Returns whether an extent is longer than parts: [`AssetReader::read_long`] reads it.
    pub(super) fn is_long(extent: Extent) -> bool {
        extent.length > PART_LENGTH as u64
    }

    /// Reads a long extent for a caller that keeps it.
    pub(super) fn read_long(asset: &File, extent: Extent) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(extent.length).map_err(io::Error::other)?];
        asset.read_exact_at(&mut bytes, extent.offset)?;
        Ok(bytes)
    }

    /// Drops what was read, because another asset is next or this one may have changed.
    pub(super) fn clear(&mut self) {
        self.parts.iter_mut().for_each(|part| part.bytes.clear());
    }

    /// Reads an extent of `asset`. Returns an error if the asset ends before the extent.
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
                PayloadRun::Bytes(bytes) => part.copy_from_slice(bytes),
            }
            payload = rest;
        }
        Ok(())
    }

    fn read_pieces(&mut self, asset: &File, pieces: &[Piece], mut payload: &mut [u8]) -> io::Result<()> {
        for piece in pieces {
            let (part, rest) = payload.split_at_mut(piece.length());
            match piece {
                Piece::Generated(generated) => part.copy_from_slice(generated.bytes()),
                Piece::Extent(extent) => part.copy_from_slice(self.read(asset, *extent)?),
                Piece::Swapped(swapped) => {
                    part.copy_from_slice(self.read(asset, swapped.extent)?);
                    swapped.swap(part);
                }
                Piece::Padding(padding) => fill_padding(part, *padding),
            }
            payload = rest;
        }
        Ok(())
    }

    /// Reads a part from the beginning of an extent; returns the index of the part.
    fn fill(&mut self, asset: &File, extent: Extent) -> io::Result<usize> {
        let index = self.part_for(extent);
        let others = self.parts.iter().enumerate();
        let others = others.filter(|(other, part)| *other != index && !part.bytes.is_empty()).count();
        let part = &mut self.parts[index];
        let wanted = usize::try_from(extent.length).map_err(io::Error::other)?;
        part.offset = extent.offset;
        let part_length = if others < FULL_PARTS { PART_LENGTH } else { SHORT_PART_LENGTH };
        let least = if wanted < LONG_LENGTH { part_length } else { 0 };
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
        #[cfg(test)]
        {
            self.read_bytes += length as u64;
        }
        // Storage reads ahead while this part is packed.
        let end = extent.offset + length as u64;
        advise(asset, end..end + PART_LENGTH as u64);
        if length < wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(index)
    }

    /// Index of the part to replace: the part that this extent continues, an empty part, or the least
    /// recently used part.
    fn part_for(&mut self, extent: Extent) -> usize {
        let parts = self.parts.iter().enumerate();
        let before = parts.filter(|(_, part)| part.is_read_on(extent)).max_by_key(|(_, part)| part.offset);
        if let Some((index, _)) = before {
            return index;
        }
        let empty = self.parts.iter().position(|part| part.bytes.is_empty());
        if empty.is_none() && self.parts.len() < PARTS {
            self.parts.push(Part { offset: 0, bytes: Vec::new() });
        }
        empty.unwrap_or(self.parts.len() - 1)
    }
}

impl Part {
    /// Returns whether an extent begins in this part or shortly after it.
    fn is_read_on(&self, extent: Extent) -> bool {
        let end = self.offset + self.bytes.len() as u64;
        !self.bytes.is_empty() && (self.offset..=end + SHORT_PART_LENGTH as u64).contains(&extent.offset)
    }

    fn has(&self, extent: Extent) -> bool {
        self.offset <= extent.offset && extent.end() <= self.offset + self.bytes.len() as u64
    }

    fn slice(&self, extent: Extent) -> &[u8] {
        &self.bytes[(extent.offset - self.offset) as usize..][..extent.length as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: A file of 16 tracks stored one after the other is read only about once during packing.
    #[test]
    fn tracks_that_lie_apart_are_read_once() {
        const TRACK: u64 = 400_000;
        for tracks in [1, 2, 6, MAX_STREAMS as u64] {
            let asset = tempfile::tempfile().unwrap();
            asset.set_len(tracks * TRACK).unwrap();
            let mut reader = AssetReader::default();
            for sample in 0..TRACK / 350 {
                for track in 0..tracks {
                    let extent = Extent { offset: track * TRACK + 350 * sample, length: 350 };
                    assert_eq!(reader.read(&asset, extent).unwrap().len(), 350);
                }
            }
            assert!(reader.parts.len() <= PARTS);
            assert!(reader.read_bytes <= 2 * tracks * TRACK, "{tracks}: {} bytes", reader.read_bytes);
        }
    }

    #[test]
    fn a_sequence_of_extents_takes_one_part() {
        let asset = tempfile::tempfile().unwrap();
        asset.set_len(1 << 22).unwrap();
        let mut reader = AssetReader::default();
        for offset in (0..1 << 22).step_by(1 << 16) {
            reader.read(&asset, Extent { offset, length: 1000 }).unwrap();
        }
        assert_eq!((reader.parts.len(), reader.read_bytes), (1, 1 << 22));
    }
}
