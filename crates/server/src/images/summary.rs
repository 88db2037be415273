//! Description of an asset for clients.

use wirepath_media::image::{Description, Header};

/// Description of an asset: exact once its image is complete; until then estimated from its beginning and
/// end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Duration in microseconds, if known.
    pub duration_us: Option<u64>,
    /// Payload bytes.
    pub payload_bytes: u64,
    /// Programmes and warnings.
    pub description: Description,
}

impl Summary {
    /// Summary of a complete image.
    pub(super) fn of(header: &Header, description: Description) -> Summary {
        Summary { duration_us: Some(header.duration_us), payload_bytes: header.payload_bytes, description }
    }

    /// Logs in one line that a movie is played in part, if it has more warnings than `logged`.
    pub(super) fn warn(&self, asset: &str, logged: u64) {
        let warnings = self.warnings();
        let first = self.description.movie().and_then(|movie| movie.warnings.first.get(logged as usize));
        if warnings > logged {
            let first = first.map(tracing::field::display);
            tracing::warn!(asset, warnings, first, "a movie is played in part; `wirepath inspect` lists why");
        }
    }

    /// Warnings about a movie.
    pub(super) fn warnings(&self) -> u64 {
        self.description.movie().map_or(0, |movie| movie.warnings.first.len() as u64 + movie.warnings.omitted)
    }

    /// Mean bit rate of the payload in bits per second, if the duration is known.
    pub fn bits_per_second(&self) -> Option<u64> {
        let duration_us = self.duration_us.filter(|duration_us| *duration_us > 0)?;
        u64::try_from(u128::from(self.payload_bytes) * 8 * 1_000_000 / u128::from(duration_us)).ok()
    }
}
