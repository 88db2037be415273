//! Compressed buffers of record batches (compression of bodies, Arrow columnar format): only the columns that have to be
//! computed with are decompressed.

use std::io::Read;
use std::ops::Range;

use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::{self as ipc, CompressionType};
use lz4_flex::frame::FrameDecoder;
use ruzstd::decoding::StreamingDecoder;

use crate::batch::{ALIGNMENT, Batch, IS_STORED};
use crate::error::{RecordsError, Result};

/// Bytes in front of a compressed buffer: its length without compression, or [`IS_STORED`].
const PREFIX: usize = IS_STORED.len();

/// A buffer of a compressed batch.
struct Compressed<'a> {
    bytes: &'a [u8],
    /// Its length without compression; none if it is not compressed.
    length: Option<u64>,
}

impl<'a> Compressed<'a> {
    /// The buffer at this place of a body. Empty ones have no prefix.
    fn of(body: &'a [u8], buffer: &ipc::Buffer) -> Option<Compressed<'a>> {
        let start = usize::try_from(buffer.offset()).ok()?;
        let bytes = body.get(start..start.checked_add(usize::try_from(buffer.length()).ok()?)?)?;
        let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX>() else {
            return bytes.is_empty().then_some(Compressed { bytes, length: None });
        };
        let length = match *prefix {
            IS_STORED => None,
            length => Some(u64::try_from(i64::from_le_bytes(length)).ok()?),
        };
        Some(Compressed { bytes: rest, length })
    }

    fn length(&self) -> u64 {
        self.length.unwrap_or(self.bytes.len() as u64)
    }

    /// Fills `to`, which has the length without compression. Fails if there are more bytes, or fewer.
    fn write(&self, codec: CompressionType, to: &mut [u8]) -> std::result::Result<(), String> {
        match (self.length, codec) {
            (None, _) => {
                to.copy_from_slice(self.bytes);
                Ok(())
            }
            (Some(_), CompressionType::LZ4_FRAME) => fill(FrameDecoder::new(self.bytes), to),
            (Some(_), CompressionType::ZSTD) => {
                fill(StreamingDecoder::new(self.bytes).map_err(|error| error.to_string())?, to)
            }
            (Some(_), other) => Err(format!("an unknown compression {}", other.0)),
        }
    }
}

/// Fills `to` with all bytes of a decoder.
fn fill(mut decoder: impl Read, to: &mut [u8]) -> std::result::Result<(), String> {
    decoder.read_exact(to).map_err(|error| error.to_string())?;
    match decoder.read(&mut [0]) {
        Ok(0) => Ok(()),
        Ok(_) => Err("more bytes than it says".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Decompresses the buffers of a batch, at this place of the file, whose body is `body`. Returns the batch without
/// compression and its body, of at most `most` bytes.
pub(crate) fn decompress(batch: Batch, body: Buffer, most: u64, at: u64) -> Result<(Batch, Buffer)> {
    let Some(codec) = batch.compression else { return Ok((batch, body)) };
    let buffers = batch.buffers.iter().map(|buffer| Compressed::of(&body, buffer));
    let buffers: Option<Vec<_>> = buffers.collect();
    let buffers = buffers.ok_or_else(|| RecordsError::invalid(at, "a compressed buffer without a length"))?;
    let (places, all) = places(&buffers).filter(|(_, all)| *all <= most).ok_or_else(|| {
        let why = format!("computing with record batches of more than {most} bytes; store shorter ones");
        RecordsError::Unsupported(why)
    })?;
    let mut made = MutableBuffer::from_len_zeroed(all as usize);
    for (buffer, place) in buffers.iter().zip(&places) {
        let to = &mut made.as_slice_mut()[place.start as usize..place.end as usize];
        buffer.write(codec, to).map_err(|why| {
            RecordsError::invalid(at, format!("a buffer that cannot be decompressed: {why}"))
        })?;
    }
    let place = |place: &Range<u64>| ipc::Buffer::new(place.start as i64, (place.end - place.start) as i64);
    let buffers = places.iter().map(place).collect();
    Ok((Batch { buffers, compression: None, ..batch }, made.into()))
}

/// Places of the buffers without compression, one behind the other, and bytes of all; none if these are too many for
/// a number.
fn places(buffers: &[Compressed<'_>]) -> Option<(Vec<Range<u64>>, u64)> {
    let mut all = 0u64;
    let place = |buffer: &Compressed<'_>| {
        let (start, end) = (all, all.checked_add(buffer.length())?);
        all = end.checked_next_multiple_of(ALIGNMENT)?;
        Some(start..end)
    };
    let places = buffers.iter().map(place).collect::<Option<_>>()?;
    Some((places, all))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use lz4_flex::frame::FrameEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    const CODECS: [CompressionType; 2] = [CompressionType::LZ4_FRAME, CompressionType::ZSTD];

    /// A compressed buffer with its prefix.
    pub(crate) fn compressed(codec: CompressionType, bytes: &[u8]) -> Vec<u8> {
        let frame = match codec {
            CompressionType::ZSTD => compress_to_vec(bytes, CompressionLevel::Fastest),
            _ => {
                let mut encoder = FrameEncoder::new(Vec::new());
                encoder.write_all(bytes).expect("memory");
                encoder.finish().expect("memory")
            }
        };
        [(bytes.len() as i64).to_le_bytes().to_vec(), frame].concat()
    }

    /// The buffers of a body without compression, of at most 1 MiB.
    fn opened(codec: CompressionType, buffers: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        let mut batch = Batch { compression: Some(codec), ..Batch::default() };
        let mut body = Vec::new();
        for buffer in buffers {
            batch.buffers.push(ipc::Buffer::new(body.len() as i64, buffer.len() as i64));
            body.extend_from_slice(buffer);
            body.resize(body.len().next_multiple_of(8), 0);
        }
        let (batch, body) = decompress(batch, body.into(), 1 << 20, 7)?;
        assert_eq!(batch.compression, None);
        let bytes = |buffer: &ipc::Buffer| {
            assert_eq!(buffer.offset() % 8, 0);
            body[buffer.offset() as usize..(buffer.offset() + buffer.length()) as usize].to_vec()
        };
        Ok(batch.buffers.iter().map(bytes).collect())
    }

    #[test]
    fn buffers_are_decompressed() {
        let long: Vec<u8> = (0..300_000u32).map(|number| (number / 1000) as u8).collect();
        let stored = [&IS_STORED[..], b"as it is"].concat();
        for codec in CODECS {
            let buffers = [compressed(codec, b"short"), Vec::new(), stored.clone(), compressed(codec, &long)];
            let opened = opened(codec, &buffers).expect("buffers");
            assert_eq!(opened, [b"short".to_vec(), Vec::new(), b"as it is".to_vec(), long.clone()]);
        }
    }

    /// Promise: Compressed records that are longer than they say, or than the limit, are refused, not decompressed.
    #[test]
    fn buffers_of_other_lengths_are_refused() {
        let zeros = vec![0; 1 << 20];
        for codec in CODECS {
            let whole = compressed(codec, &zeros);
            assert!(
                whole.len() < 100_000 && opened(codec, std::slice::from_ref(&whole)).is_ok(),
                "{}",
                whole.len()
            );
            let says = |length: i64| [&length.to_le_bytes()[..], &whole[PREFIX..]].concat();
            for (length, words) in [
                ((1 << 20) - 1, "more bytes than it says"),
                (0, "more bytes than it says"),
                ((1 << 20) + 1, "more than 1048576 bytes"),
                (i64::MAX, "more than 1048576 bytes"),
                (-2, "without a length"),
            ] {
                let error = opened(codec, &[says(length)]).expect_err(words).to_string();
                assert!(error.contains(words), "{length}: {error}");
            }
            for buffers in [[whole.clone(), compressed(codec, b"1")], [says(1 << 62), says(1 << 62)]] {
                let error = opened(codec, &buffers).expect_err("too many").to_string();
                assert!(error.contains("more than 1048576 bytes"), "{error}");
            }
            let cut = whole[..whole.len() / 2].to_vec();
            for damaged in [cut, whole[..PREFIX].to_vec(), whole[..7].to_vec(), says(1 << 19)] {
                assert!(matches!(opened(codec, &[damaged]), Err(RecordsError::Invalid { at: 7, .. })));
            }
        }
    }
}
