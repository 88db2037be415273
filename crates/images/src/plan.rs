//! Plan of an answer: the header that is made, the extents of the file, the handlers that they pass.

use std::fs::File;
use std::sync::Arc;

use wirepath_net::http::Parts;
use wirepath_streams::{Extents, Handler, ObjectPart};

use crate::gray::Gray;
use crate::picture::{Picture, Rectangle, Samples};
use crate::pnm;
use crate::query::{Scale, Transformation};
use crate::scaled::Scaled;

/// Most bytes that a handler may keep: rows of a million pixels.
const STATE_LIMIT: u64 = 16 << 20;

/// Plan of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    part: Rectangle,
    gray: bool,
    scale: Option<Scale>,
    /// Width, height and samples of the answer.
    width: u32,
    height: u32,
    samples: Samples,
}

/// A transformation that this picture does not have. The client's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A part that is not in the picture.
    #[error("invalid crop: the picture has {0} by {1} pixels; choose a part of it that is not empty")]
    Outside(u32, u32),
    /// Rows that are too long for the memory of a request.
    #[error(
        "rows too long to scale: that needs {0} bytes of memory, at most {STATE_LIMIT} are allowed; crop first"
    )]
    Wide(u64),
}

impl Plan {
    /// The plan for a picture.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn new(picture: &Picture, steps: &Transformation) -> Result<Plan, PlanError> {
        let part = steps.crop.unwrap_or(picture.whole());
        if !picture.holds(part) {
            return Err(PlanError::Outside(picture.width, picture.height));
        }
        let gray = steps.gray && picture.samples.channels == 3;
        let samples = if gray { picture.samples.gray() } else { picture.samples };
        let scale = steps.scale;
        let of = |pixels| scale.map_or(pixels, |scale| scale.ratio.of(pixels));
        let needed = scale.map_or(0, |scale| Scaled::needs(scale, samples, part.width));
        if needed > STATE_LIMIT {
            return Err(PlanError::Wide(needed));
        }
        Ok(Plan { part, gray, scale, width: of(part.width), height: of(part.height), samples })
    }

    /// The header of the answer.
    pub fn header(&self) -> Vec<u8> {
        pnm::write(self.width, self.height, self.samples)
    }

    /// Samples of the answer.
    pub fn samples(&self) -> Samples {
        self.samples
    }

    /// Bytes behind the header.
    pub fn bytes(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height) * self.samples.pixel_bytes() as u64
    }

    /// Handlers that the part passes, in their order.
    pub fn handlers(&self, picture: &Picture) -> Vec<Handler> {
        let gray = self.gray.then(|| Handler::Rewrite(Box::new(Gray::new(picture.samples))));
        let Rectangle { width, height, .. } = self.part;
        let scaled = self
            .scale
            .map(|scale| Handler::Rewrite(Box::new(Scaled::new(scale, self.samples, width, height))));
        gray.into_iter().chain(scaled).collect()
    }

    /// Extents of the part.
    pub fn extents(&self, picture: &Picture, file: Arc<File>) -> Extents {
        let Rectangle { width, height, .. } = self.part;
        let bytes = u64::from(width) * u64::from(height) * picture.samples.pixel_bytes() as u64;
        Extents::new(file, bytes, picture.extents(self.part))
    }

    /// Parts that follow the header, and handlers for them.
    pub fn parts(&self, picture: &Picture, file: Arc<File>) -> Parts {
        let parts = vec![ObjectPart::Extents(self.extents(picture, file))];
        Parts { parts, handlers: self.handlers(picture), bytes: self.bytes() }
    }
}
