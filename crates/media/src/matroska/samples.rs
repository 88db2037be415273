//! Samples of all tracks, interleaved by decode time.

use bytes::Bytes;

use super::Error;
use super::clusters::Clusters;
use super::segment::Segment;
use super::timeline::Timeline;
use crate::track::{Next, Sample};

/// Most samples of a file: a month of video and audio.
const MAX_SAMPLES: u64 = 1 << 28;

/// Longest time by which a track may be ahead of tracks without a sample before it stops waiting for them:
/// pictures of a slide show are seconds apart, and the order of the first ones is known only after several
/// more. If a track ends early, the frames of this time have to be kept.
const WINDOW_US: i64 = 60_000_000;

/// The same for subtitles, which are rare.
const SUBTITLES_US: i64 = 1_000_000;

/// Most frames that are kept while a track waits for others.
const HELD_FRAMES: usize = 1 << 14;

/// Samples of a segment in decode order, interleaved over its tracks by decode time if their blocks are near
/// each other.
#[derive(Clone, Debug)]
pub struct Samples {
    clusters: Clusters,
    tracks: Vec<Timeline>,
    cut: bool,
    given: u64,
}

impl Segment {
    /// Returns the samples from the beginning.
    pub fn samples(&self) -> Samples {
        let tracks = self.tracks.iter().zip(&self.plans).enumerate();
        let tracks = tracks.map(|(index, (track, plan))| Timeline::new(track.clone(), plan.clone(), index));
        let clusters = Clusters::new(self.cluster, self.end);
        Samples { clusters, tracks: tracks.collect(), cut: self.cut, given: 0 }
    }
}

impl Samples {
    /// Returns the next sample, or the bytes that are needed to find it.
    ///
    /// Not an iterator, because the caller has to read bytes in between.
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

    /// Takes the requested bytes.
    ///
    /// # Panics
    /// If `bytes` has fewer.
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

    /// Ends the file at a damaged place. Samples found before it are still returned.
    pub fn end(&mut self) {
        self.clusters.end();
    }

    /// Returns whether the file ends within an element (it was truncated, or is still being written), or
    /// another document follows in the file.
    pub fn truncated(&self) -> bool {
        self.cut || self.clusters.truncated
    }

    /// Number of frames that are kept.
    pub fn held(&self) -> usize {
        self.tracks.iter().map(Timeline::held).sum()
    }

    /// Bytes of memory of frames that are kept.
    pub fn held_bytes(&self) -> usize {
        self.held() * size_of::<Sample>()
    }

    /// Returns the earliest sample in decode order, unless a track without a sample may still have an earlier
    /// one.
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
        // Compared with the track's own blocks, so that a wrong time of another track does not end the
        // waiting.
        let waits = window.is_some_and(|window| self.tracks[index].ahead_us() <= window);
        if waits && self.held() < HELD_FRAMES {
            return None;
        }
        self.tracks[index].pop()
    }
}
