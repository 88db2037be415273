//! Cues (RFC 9559 section 5.1.5): random access points listed in the file.

use super::Error;
use super::ebml::Elements;
use super::id::{CUE_CLUSTER_POSITION, CUE_POINT, CUE_TIME, CUE_TRACK, CUE_TRACK_POSITIONS};
use super::segment::{Cue, Segment};

/// Most cues: 72 hours with a cue each second. A `Cues` element has room for many more.
const MAX_CUES: usize = 1 << 18;

/// Reads the data of a `Cues` element at `offset`; positions count from `base`. Cues of unknown tracks are
/// skipped.
pub(super) fn read(data: &[u8], offset: u64, base: u64, segment: &Segment) -> Result<Vec<Cue>, Error> {
    let mut cues = Vec::new();
    for point in Elements::new(data, offset) {
        let point = point?;
        if point.header.id != CUE_POINT {
            continue;
        }
        let mut time = 0;
        for field in point.children() {
            let field = field?;
            match field.header.id {
                CUE_TIME => time = field.unsigned()?,
                CUE_TRACK_POSITIONS => {
                    let (mut number, mut position) = (0, 0);
                    for field in field.children() {
                        let field = field?;
                        match field.header.id {
                            CUE_TRACK => number = field.unsigned()?,
                            CUE_CLUSTER_POSITION => position = field.unsigned()?,
                            _ => {}
                        }
                    }
                    let cluster = base.saturating_add(position);
                    if let Some(track) = segment.track(number).filter(|_| cluster < segment.size) {
                        let ns = u128::from(time) * u128::from(segment.tick_ns);
                        let time_us = u64::try_from(ns / 1000).unwrap_or(u64::MAX);
                        if cues.len() == MAX_CUES {
                            return Err(Error::Limit { what: "cues", limit: MAX_CUES as u64 });
                        }
                        cues.push(Cue { time_us, track, cluster });
                    }
                }
                _ => {}
            }
        }
    }
    Ok(cues)
}
