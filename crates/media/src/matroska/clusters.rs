//! Reader of the clusters of a segment (RFC 9559 section 5.1.3). It reads only the headers of elements and
//! blocks.

use super::Error;
use super::block::{self, BlockHeader, Fault};
use super::ebml::{Element, Header, MAX_HEADER};
use super::id::{
    BLOCK, BLOCK_DURATION, BLOCK_GROUP, CLUSTER, EBML, IN_SEGMENT, REFERENCE_BLOCK, SIMPLE_BLOCK, TIMESTAMP,
};
use crate::track::{Extent, MAX_SAMPLE_BYTES};

/// Bytes that are read of each element: its header and a number of 8 bytes, or the header of a block without
/// lacing.
const READ: u64 = MAX_HEADER as u64 + 8;

/// Most consecutive elements without a block. Files for playback do not have more.
const MAX_SKIPPED: u64 = 100_000;

/// Block with the times from its cluster and its group. Its frames are in [`Clusters::frames`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Number of the track.
    pub(super) track: u64,
    /// Presentation time in ticks.
    pub(super) time: i64,
    /// True if a decoder can start here.
    pub(super) key: bool,
    /// Duration in ticks, if its group contains it.
    pub(super) duration: Option<u64>,
}

/// Reader of clusters.
#[derive(Clone, Debug)]
pub(super) struct Clusters {
    at: u64,
    /// End of the segment, or of the file if that is earlier.
    end: u64,
    cluster: Option<Cluster>,
    group: Option<Group>,
    /// Block whose header is longer than the bytes read so far, and number of bytes to read.
    long: Option<(Extent, u64)>,
    skipped: u64,
    /// True if the file ends within an element, or another document follows.
    pub(super) truncated: bool,
    /// Frames of the last block.
    pub(super) frames: Vec<Extent>,
}

#[derive(Clone, Copy, Debug)]
struct Cluster {
    /// End of the cluster; `None` if the next element of the segment ends it.
    end: Option<u64>,
    time: Option<u64>,
}

/// Group of a block and its properties.
#[derive(Clone, Copy, Debug)]
struct Group {
    end: u64,
    block: Option<BlockHeader>,
    refers: bool,
    duration: Option<u64>,
}

impl Clusters {
    /// Reader from the cluster at `at`; without a cluster there is nothing to read.
    pub(super) fn new(at: Option<u64>, end: u64) -> Self {
        let (cluster, group, long, frames) = (None, None, None, Vec::new());
        Self { at: at.unwrap_or(end), end, cluster, group, long, skipped: 0, truncated: false, frames }
    }

    /// Bytes to read next; `None` at the end.
    pub(super) fn wanted(&self) -> Option<Extent> {
        if let Some((body, length)) = self.long {
            return Some(Extent { length, ..body });
        }
        let left = self.end.saturating_sub(self.at);
        (left > 0).then(|| Extent { offset: self.at, length: left.min(READ) })
    }

    /// Takes the requested bytes, and returns a block if they complete one.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Option<Block>, Error> {
        if let Some((body, _)) = self.long.take() {
            return self.block(bytes, body);
        }
        self.skipped += 1;
        if self.skipped > MAX_SKIPPED {
            return Err(Error::Limit { what: "elements in a row without media", limit: MAX_SKIPPED });
        }
        let header = match Header::read(bytes, self.at) {
            Err(_) if bytes.len() < MAX_HEADER => {
                self.cut();
                return Ok(None);
            }
            header => header?,
        };
        let within = self.group.is_some() || self.cluster.is_some_and(|cluster| cluster.end.is_some());
        if header.id == EBML && !within {
            // Another document, for instance after recordings were concatenated, has tracks of its own.
            self.cut();
            return Ok(None);
        }
        if self.cluster.is_some_and(|cluster| match cluster.end {
            Some(end) => self.at >= end,
            None => self.group.is_none() && IN_SEGMENT.contains(&header.id),
        }) {
            self.cluster = None;
        }
        match self.cluster {
            None if header.id == CLUSTER => {
                let end = header.size.map(|size| header.data().saturating_add(size));
                self.truncated |= end.is_some_and(|end| end > self.end);
                self.cluster = Some(Cluster { end: end.map(|end| end.min(self.end)), time: None });
                self.at = header.data();
                Ok(None)
            }
            parent => {
                let end = match (self.group, parent.and_then(|cluster| cluster.end)) {
                    (Some(group), _) => group.end,
                    (None, end) => end.unwrap_or(self.end),
                };
                match header.body(end) {
                    Err(_) if header.size.is_some() && end == self.end => {
                        self.cut();
                        Ok(None)
                    }
                    body => self.element(&header, body?, bytes),
                }
            }
        }
    }

    /// Ends reading.
    pub(super) fn end(&mut self) {
        (self.at, self.long) = (self.end, None);
    }

    /// Ends reading, because the file ends within an element or another document follows.
    fn cut(&mut self) {
        self.truncated = true;
        self.end();
    }

    /// Reads an element of a cluster, a group or the segment.
    fn element(&mut self, header: &Header, body: Extent, bytes: &[u8]) -> Result<Option<Block>, Error> {
        let known = &bytes[header.length as usize..];
        let known = &known[..known.len().min(usize::try_from(body.length).unwrap_or(usize::MAX))];
        let number = || Element { header: *header, data: known }.unsigned();
        match (&mut self.cluster, &mut self.group, header.id) {
            (Some(cluster), None, TIMESTAMP) => cluster.time = Some(number()?),
            (Some(_), None, SIMPLE_BLOCK) | (Some(_), Some(_), BLOCK) => {
                self.frames.clear();
                self.at = header.offset;
                return self.block(known, body);
            }
            (Some(_), None, BLOCK_GROUP) => {
                let (block, refers, duration) = (None, false, None);
                self.group = Some(Group { end: body.end(), block, refers, duration });
                self.frames.clear();
                self.at = body.offset;
                return Ok(self.end_of_group());
            }
            (Some(_), Some(group), BLOCK_DURATION) => group.duration = Some(number()?),
            (Some(_), Some(group), REFERENCE_BLOCK) => group.refers = true,
            _ => {}
        }
        self.at = body.end();
        Ok(self.end_of_group())
    }

    /// Reads a block that begins with `bytes`.
    fn block(&mut self, bytes: &[u8], body: Extent) -> Result<Option<Block>, Error> {
        if body.length > MAX_SAMPLE_BYTES {
            return Err(Error::Limit { what: "bytes in a block", limit: MAX_SAMPLE_BYTES });
        }
        let id = if self.group.is_some() { BLOCK } else { SIMPLE_BLOCK };
        let offset = self.at;
        let fault = |reason| Error::Element { id, offset, reason };
        self.frames.clear();
        let header = match block::read(bytes, body, &mut self.frames) {
            Ok(header) => header,
            Err(Fault::Wrong(reason)) => return Err(fault(reason)),
            Err(Fault::Short) if bytes.len() as u64 >= block::MAX_HEADER => {
                return Err(fault("the sizes of its lace have too many bytes"));
            }
            Err(Fault::Short) => {
                let more = (bytes.len() as u64 * 8).max(READ).min(body.length).min(block::MAX_HEADER);
                self.long = Some((body, more));
                return Ok(None);
            }
        };
        self.at = body.end();
        let time = self.cluster.and_then(|cluster| cluster.time);
        time.ok_or_else(|| fault("its cluster has no Timestamp before it"))?;
        if let Some(group) = &mut self.group {
            group.block = Some(header);
            return Ok(self.end_of_group());
        }
        self.skipped = 0;
        Ok(Some(self.timed(header, header.key, None)))
    }

    /// Block of the group, if the group ends here.
    fn end_of_group(&mut self) -> Option<Block> {
        let group = self.group.take_if(|group| self.at >= group.end)?;
        let header = group.block?;
        self.skipped = 0;
        Some(self.timed(header, !group.refers, group.duration))
    }

    fn timed(&self, header: BlockHeader, key: bool, duration: Option<u64>) -> Block {
        let cluster = self.cluster.and_then(|cluster| cluster.time).unwrap_or(0);
        let time = i64::try_from(cluster).unwrap_or(i64::MAX).saturating_add(header.time.into());
        Block { track: header.track, time, key, duration }
    }
}
