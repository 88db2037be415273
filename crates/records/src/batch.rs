//! Metadata of a record batch: rows, nodes and buffers, checked against its body.

use std::ops::Range;

use arrow_buffer::Buffer;
use arrow_ipc::{self as ipc, CompressionType};

use crate::error::{RecordsError, Result};
use crate::layout::{Buffers, Layout};

/// Alignment of buffers in a body.
pub(crate) const ALIGNMENT: u64 = 8;

/// Prefix of a buffer that is not compressed, within a compressed batch.
pub(crate) const IS_STORED: [u8; 8] = (-1i64).to_le_bytes();

/// Longest padding behind a buffer: writers align to up to 64 bytes.
const MOST_PADDING: u64 = 63;

/// Metadata of a record batch, or of the values of a dictionary.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    pub(crate) rows: i64,
    pub(crate) nodes: Vec<ipc::FieldNode>,
    pub(crate) buffers: Vec<ipc::Buffer>,
    /// Number of further buffers of each array of views.
    pub(crate) views: Vec<i64>,
    pub(crate) compression: Option<CompressionType>,
}

/// Part of a body: an extent of the file, and zeros behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) range: Range<u64>,
    pub(crate) zeros: u64,
}

/// Column that is computed: validity, if there are nulls, and values.
pub(crate) struct Computed {
    pub(crate) nulls: usize,
    pub(crate) buffers: [Buffer; 2],
}

/// Column of an answer.
pub(crate) enum Part<'a> {
    /// This one of the file.
    Column(usize),
    Computed(&'a Computed),
}

/// Part of a body.
pub(crate) enum Piece<'a> {
    Stored(Extent),
    /// Bytes that are made, those of a prefix in front of them, and zeros behind them.
    Made {
        prefix: &'static [u8],
        bytes: &'a [u8],
    },
}

impl Piece<'_> {
    /// Its length with the zeros.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Piece::Stored(Extent { range, zeros }) => range.end - range.start + zeros,
            Piece::Made { prefix, bytes } => {
                ((prefix.len() + bytes.len()) as u64).next_multiple_of(ALIGNMENT)
            }
        }
    }
}

/// Nodes, buffers and counts of views of one column.
struct Place {
    nodes: Range<usize>,
    buffers: Range<usize>,
    views: Range<usize>,
}

impl Batch {
    /// Reads metadata at this place of the file, of a body of `body` bytes.
    pub(crate) fn read(batch: ipc::RecordBatch<'_>, at: u64, body: u64) -> Result<Batch> {
        let invalid = |why: &str| Err(RecordsError::invalid(at, why));
        let nodes: Vec<_> = batch.nodes().into_iter().flatten().copied().collect();
        let buffers: Vec<_> = batch.buffers().into_iter().flatten().copied().collect();
        let views: Vec<i64> = batch.variadicBufferCounts().into_iter().flatten().collect();
        let compression = batch.compression().map(|compression| compression.codec());
        if batch.length() < 0 {
            return invalid("a record batch of a negative length");
        }
        if nodes.iter().any(|node| node.length() < 0 || !(0..=node.length()).contains(&node.null_count())) {
            return invalid("a column of a negative length, or with more nulls than values");
        }
        let is_inside = |buffer: &ipc::Buffer| {
            let (start, length) = (u64::try_from(buffer.offset()), u64::try_from(buffer.length()));
            matches!((start, length), (Ok(start), Ok(length)) if start.checked_add(length).is_some_and(|end| end <= body))
        };
        if !buffers.iter().all(is_inside) {
            return invalid("a buffer outside the body of its record batch");
        }
        Ok(Batch { rows: batch.length(), nodes, buffers, views, compression })
    }

    /// A batch of columns of this one and of computed ones, and the pieces of its body. `body` is the place of this
    /// one's. Computed columns of a compressed batch are not compressed, and say so.
    pub(crate) fn project<'a>(
        &self,
        parts: impl IntoIterator<Item = Part<'a>>,
        layouts: &[Layout],
        body: &Range<u64>,
        at: u64,
    ) -> Result<(Batch, Vec<Piece<'a>>)> {
        let places = self.places(layouts, at)?;
        let mut made = Batch { rows: self.rows, compression: self.compression, ..Batch::default() };
        let (mut pieces, mut offset) = (Vec::new(), 0);
        let mut add = |made: &mut Batch, length: i64, piece: Piece<'a>| {
            made.buffers.push(ipc::Buffer::new(offset as i64, length));
            offset += piece.length();
            pieces.push(piece);
        };
        for part in parts {
            match part {
                Part::Column(column) => {
                    let Place { nodes, buffers, views } = &places[column];
                    if self.nodes[nodes.start].length() != self.rows {
                        let why = format!("column {column} has another length than its record batch");
                        return Err(RecordsError::invalid(at, why));
                    }
                    made.nodes.extend(&self.nodes[nodes.clone()]);
                    made.views.extend(&self.views[views.clone()]);
                    for number in buffers.clone() {
                        let extent = self.extent(number, body);
                        add(&mut made, self.buffers[number].length(), Piece::Stored(extent));
                    }
                }
                Part::Computed(Computed { nulls, buffers }) => {
                    made.nodes.push(ipc::FieldNode::new(self.rows, *nulls as i64));
                    for bytes in buffers {
                        let is_stored = self.compression.is_some() && !bytes.is_empty();
                        let prefix: &[u8] = if is_stored { &IS_STORED } else { &[] };
                        let length = (prefix.len() + bytes.len()) as i64;
                        add(&mut made, length, Piece::Made { prefix, bytes });
                    }
                }
            }
        }
        Ok((made, pieces))
    }

    /// Fails if a buffer is too short for the values of its array; `layouts` are those of all its columns.
    pub(crate) fn check_lengths<'a>(&self, layouts: impl Iterator<Item = &'a Layout>, at: u64) -> Result<()> {
        let wrong = || RecordsError::invalid(at, "a buffer that is shorter than the values of its column");
        let (mut nodes, mut buffer, mut views) = (self.nodes.iter(), 0, self.views.iter());
        for layout in layouts {
            for (array, contents) in layout.arrays.iter().zip(&layout.contents) {
                let node = nodes.next().ok_or_else(wrong)?;
                let further = match array {
                    Buffers::Fixed(_) => 0,
                    Buffers::Views(_) => {
                        let further = views.next().and_then(|&count| usize::try_from(count).ok());
                        further.filter(|&count| count <= self.buffers.len()).ok_or_else(wrong)?
                    }
                };
                let (Buffers::Fixed(count) | Buffers::Views(count)) = *array;
                for (number, content) in contents.iter().enumerate() {
                    let bytes = self.buffers.get(buffer + number).ok_or_else(wrong)?.length() as u64;
                    if !content.fits(bytes, node.length() as u64, node.null_count() as u64) {
                        return Err(wrong());
                    }
                }
                buffer += count + further;
            }
        }
        Ok(())
    }

    /// Where a buffer is in the file, with its padding where the file has it: then neighbours stay neighbours.
    fn extent(&self, number: usize, body: &Range<u64>) -> Extent {
        let buffer = &self.buffers[number];
        let (start, length) = (body.start + buffer.offset() as u64, buffer.length() as u64);
        let end = start + length;
        let next = self.buffers.get(number + 1).map_or(body.end, |next| body.start + next.offset() as u64);
        if next >= end && next - end <= MOST_PADDING && (next - start).is_multiple_of(ALIGNMENT) {
            return Extent { range: start..next, zeros: 0 };
        }
        Extent { range: start..end, zeros: length.next_multiple_of(ALIGNMENT) - length }
    }

    /// The place of each column.
    fn places(&self, layouts: &[Layout], at: u64) -> Result<Vec<Place>> {
        let too_few = || RecordsError::invalid(at, "fewer columns in a record batch than in the schema");
        let (mut node, mut buffer, mut view) = (0, 0, 0);
        let mut places = Vec::with_capacity(layouts.len());
        for layout in layouts {
            let first = (node, buffer, view);
            node += layout.nodes;
            for array in &layout.arrays {
                buffer += match *array {
                    Buffers::Fixed(count) => count,
                    Buffers::Views(fixed) => {
                        let further = self.views.get(view).and_then(|&count| usize::try_from(count).ok());
                        view += 1;
                        let further = further.filter(|&count| count <= self.buffers.len());
                        fixed + further.ok_or_else(too_few)?
                    }
                };
            }
            if node > self.nodes.len() || buffer > self.buffers.len() {
                return Err(too_few());
            }
            places.push(Place { nodes: first.0..node, buffers: first.1..buffer, views: first.2..view });
        }
        Ok(places)
    }
}
