//! Samples of all tracks, interleaved by decode time.

use bytes::Bytes;

use super::Error;
use super::clusters::Clusters;
use super::segment::Segment;
use super::timeline::Timeline;
use crate::track::{Next, Sample};

/// Most samples of a file: a month of pictures and sound. A file has bytes for each.
const MAX_SAMPLES: u64 = 1 << 28;

/// Time over which a track is ahead of others that have no sample before these are given up: pictures of a
/// slow show are seconds apart, and the order of the first ones is seen only behind more of them. A track
/// that ends early costs that many held frames.
const WINDOW_US: i64 = 60_000_000;

/// Such a time for subtitles, which are rare.
const SUBTITLES_US: i64 = 1_000_000;

/// Most frames that are held for that.
const HELD_FRAMES: usize = 1 << 14;

/// Samples of a segment in decode order, interleaved over its tracks by decode time, as far as their blocks
/// are near each other.
#[derive(Clone, Debug)]
pub struct Samples {
    clusters: Clusters,
    tracks: Vec<Timeline>,
    cut: bool,
    given: u64,
}

impl Segment {
    /// Samples from the beginning.
    pub fn samples(&self) -> Samples {
        let tracks = self.tracks.iter().zip(&self.plans).enumerate();
        let tracks = tracks.map(|(index, (track, plan))| Timeline::new(track.clone(), plan.clone(), index));
        let clusters = Clusters::new(self.cluster, self.end);
        Samples { clusters, tracks: tracks.collect(), cut: self.cut, given: 0 }
    }
}

impl Samples {
    /// The next sample, or the bytes that are needed to find it.
    ///
    /// Not an iterator: bytes come in between.
    #[expect(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Next, Error> {
        let wanted = self.clusters.wanted();
        if wanted.is_none() {
            self.tracks.iter_mut().filter(|track| track.waits()).for_each(Timeline::finish);
        }
        match (wanted, self.sample()) {
            (_, Some(sample)) => {
                if self.given == MAX_SAMPLES {
                    return Err(Error::Limit { what: "samples", limit: MAX_SAMPLES });
                }
                self.given += 1;
                Ok(Next::Sample(sample))
            }
            (Some(wanted), None) => Ok(Next::Read(wanted)),
            (None, None) => Ok(Next::End),
        }
    }

    /// Takes the bytes that were to be read.
    ///
    /// # Panics
    /// If they are fewer.
    pub fn take(&mut self, bytes: impl Into<Bytes>) -> Result<(), Error> {
        let Some(wanted) = self.clusters.wanted() else { return Ok(()) };
        let bytes = bytes.into();
        assert_eq!(bytes.len() as u64, wanted.length, "the bytes that were wanted");
        if let Some(block) = self.clusters.take(&bytes)?
            && let Some(track) = self.tracks.iter_mut().find(|track| track.number() == block.track)
        {
            track.push(&block, &self.clusters.frames);
        }
        Ok(())
    }

    /// Ends the walk over clusters, since the rest of the file is damaged: what is known is still given.
    pub fn end(&mut self) {
        self.clusters.end();
    }

    /// Returns whether the file ends within an element (it was cut, or it grows), or another one follows in it.
    pub fn truncated(&self) -> bool {
        self.cut || self.clusters.truncated
    }

    /// Number of frames that are held.
    pub fn held(&self) -> usize {
        self.tracks.iter().map(Timeline::held).sum()
    }

    /// Bytes of memory of frames that are held.
    pub fn held_bytes(&self) -> usize {
        self.held() * size_of::<Sample>()
    }

    /// The sample that is decoded first, unless a track that has none may still have an earlier one.
    fn sample(&mut self) -> Option<Sample> {
        let (mut first, mut window) = (None, None);
        for (index, track) in self.tracks.iter().enumerate() {
            if track.waits() {
                window = window.max(Some(if track.is_continuous() { WINDOW_US } else { SUBTITLES_US }));
            }
            let next = track.next_us().map(|us| (us, index));
            first = first.min(next).or(first).or(next);
        }
        let (_, index) = first?;
        // By its own blocks: a wrong time of another track gives nothing up.
        let waits = window.is_some_and(|window| self.tracks[index].ahead_us() <= window);
        if waits && self.held() < HELD_FRAMES {
            return None;
        }
        self.tracks[index].pop()
    }
}
