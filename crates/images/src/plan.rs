//! Plan of an answer: the header that is made, the extents of the file, the handlers that they pass.

use std::fs::File;
use std::sync::Arc;

use wirepath_net::http::Parts;
use wirepath_streams::{Extents, Handler, ObjectPart};

use crate::gray::Gray;
use crate::overview::Overview;
use crate::picture::{Picture, Rectangle, Samples};
use crate::pnm;
use crate::query::{Scale, Transformation};
use crate::scaled::Scaled;

/// Most bytes that a handler may keep: rows of a million pixels.
const STATE_LIMIT: u64 = 16 << 20;

/// Plan of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Part of the source.
    part: Rectangle,
    gray: bool,
    /// Scale of the part; none if the part has the size of the answer.
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
    /// An overview that cannot be the source of the answer.
    #[error("the overview (1/{0} of the picture) has too few pixels for this scale; leave out overviews")]
    Coarse(u32),
}

impl Plan {
    /// The plan for a picture, the source of the answer.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn new(picture: &Picture, steps: &Transformation) -> Result<Plan, PlanError> {
        Plan::from_source(picture, steps, 1, picture)
    }

    /// The plan for a picture of which an overview is the source of the answer. The size of the answer is that of
    /// [`Plan::new`].
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn of_overview(
        picture: &Picture,
        steps: &Transformation,
        overview: &Overview,
        source: &Picture,
    ) -> Result<Plan, PlanError> {
        Plan::from_source(picture, steps, overview.factor, source)
    }

    fn from_source(
        picture: &Picture,
        steps: &Transformation,
        factor: u32,
        source: &Picture,
    ) -> Result<Plan, PlanError> {
        let asked = steps.crop.unwrap_or(picture.whole());
        if !picture.holds(asked) {
            return Err(PlanError::Outside(picture.width, picture.height));
        }
        let gray = steps.gray && source.samples.channels == 3;
        let samples = if gray { source.samples.gray() } else { source.samples };
        let of = |pixels| steps.scale.map_or(pixels, |scale| scale.ratio.of(pixels));
        let (width, height) = (of(asked.width), of(asked.height));
        let part = reduced(asked, factor, source);
        let left =
            steps.scale.map(|scale| scale.after(factor).ok_or(PlanError::Coarse(factor))).transpose()?;
        if part.width < width || part.height < height {
            return Err(PlanError::Coarse(factor));
        }
        let scale = left.filter(|_| (part.width, part.height) != (width, height));
        let needed = scale.map_or(0, |scale| Scaled::needs(scale, samples, part.width, width));
        if needed > STATE_LIMIT {
            return Err(PlanError::Wide(needed));
        }
        Ok(Plan { part, gray, scale, width, height, samples })
    }

    /// The header of the answer.
    pub fn header(&self) -> Vec<u8> {
        pnm::write(self.width, self.height, self.samples)
    }

    /// The part of the source that the answer is made from.
    pub fn part(&self) -> Rectangle {
        self.part
    }

    /// Samples of the answer.
    pub fn samples(&self) -> Samples {
        self.samples
    }

    /// Bytes behind the header.
    pub fn bytes(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height) * self.samples.pixel_bytes() as u64
    }

    /// Handlers that the part passes, in their order. `picture` is the source.
    pub fn handlers(&self, picture: &Picture) -> Vec<Handler> {
        let gray = self.gray.then(|| Handler::Rewrite(Box::new(Gray::new(picture.samples))));
        let (from, to) = ((self.part.width, self.part.height), (self.width, self.height));
        let scaled =
            self.scale.map(|scale| Handler::Rewrite(Box::new(Scaled::new(scale, self.samples, from, to))));
        gray.into_iter().chain(scaled).collect()
    }

    /// Extents of the part. `picture` is the source.
    pub fn extents(&self, picture: &Picture, file: Arc<File>) -> Extents {
        let Rectangle { width, height, .. } = self.part;
        let bytes = u64::from(width) * u64::from(height) * picture.samples.pixel_bytes() as u64;
        Extents::new(file, bytes, picture.extents(self.part))
    }

    /// Parts that follow the header, and handlers for them. `picture` is the source.
    pub fn parts(&self, picture: &Picture, file: Arc<File>) -> Parts {
        let parts = vec![ObjectPart::Extents(self.extents(picture, file))];
        Parts { parts, handlers: self.handlers(picture), bytes: self.bytes() }
    }
}

/// The pixels of a source, `factor` times smaller than its picture, for a part of the picture. Places and lengths
/// are rounded down, but there is a pixel at least.
fn reduced(part: Rectangle, factor: u32, source: &Picture) -> Rectangle {
    let side = |start: u32, length: u32, most: u32| {
        let start = (start / factor).min(most - 1);
        (start, (length / factor).clamp(1, most - start))
    };
    let (x, width) = side(part.x, part.width, source.width);
    let (y, height) = side(part.y, part.height, source.height);
    Rectangle { x, y, width, height }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::{Format, Layout};
    use crate::query::{Method, Ratio};
    use crate::scaled::tests::through;
    use proptest::prelude::*;

    fn picture(width: u32, height: u32) -> Picture {
        let samples = Samples { channels: 1, maximum: 255 };
        Picture { format: Format::Tiff, width, height, samples, layout: Layout::Rows(0) }
    }

    fn steps(crop: Option<Rectangle>, numerator: u32, denominator: u32, method: Method) -> Transformation {
        let scale = Some(Scale { ratio: Ratio { numerator, denominator }, method });
        Transformation { crop, scale, overviews: true, ..Transformation::default() }
    }

    /// Promise: An answer at 1/8 from an overview of 1/8 is a 64th of the picture's bytes, without a handler.
    #[test]
    fn an_overview_of_the_size_of_the_answer_is_sent_as_it_is() {
        let (full, source) = (picture(8000, 4096), picture(1000, 512));
        let overview = Overview::new((8000, 4096), (1000, 512), 8).expect("an overview");
        let steps = steps(None, 1, 8, Method::Integral);
        let (without, with) = (
            Plan::new(&full, &steps).expect("a plan"),
            Plan::of_overview(&full, &steps, &overview, &source).expect("a plan"),
        );
        let bytes = |plan: &Plan, picture: &Picture| -> u64 {
            picture.extents(plan.part()).map(|extent| extent.end - extent.start).sum()
        };
        assert_eq!((bytes(&without, &full), bytes(&with, &source)), (8000 * 4096, 1000 * 512));
        assert_eq!((without.header(), without.bytes()), (with.header(), with.bytes()));
        assert!(with.handlers(&source).is_empty() && without.handlers(&full).len() == 1);
        let crop = Some(Rectangle { x: 17, y: 8, width: 7999 - 17, height: 33 });
        let part = Plan::of_overview(&full, &Transformation { crop, ..steps }, &overview, &source);
        assert_eq!(part.expect("a plan").part(), Rectangle { x: 2, y: 1, width: 997, height: 4 });
    }

    #[test]
    fn an_overview_with_fewer_pixels_than_the_answer_is_refused() {
        let (full, source) = (picture(80, 40), picture(10, 5));
        let overview = Overview::new((80, 40), (10, 5), 8).expect("an overview");
        let coarse = |steps: &Transformation, source: &Picture| {
            Plan::of_overview(&full, steps, &overview, source) == Err(PlanError::Coarse(8))
        };
        assert!(coarse(&steps(None, 1, 4, Method::Middle), &source));
        assert!(coarse(&steps(None, 1, 12, Method::Integral), &source));
        assert!(coarse(&Transformation::default(), &source));
        assert!(coarse(&steps(None, 1, 8, Method::Middle), &picture(9, 5)), "another than was announced");
        assert!(!coarse(&steps(None, 1, 12, Method::Linear), &source));
    }

    proptest! {
        /// Promise: An answer from an overview has the size of an answer from the picture, for every part and
        /// scale.
        #[test]
        fn answers_from_overviews_have_the_same_size(
            (width, height) in (1u32..300, 1u32..300),
            factor in 2u32..40,
            is_rounded_up: bool,
            (x, y, across, down) in (0u32..300, 0u32..300, 1u32..300, 1u32..300),
            (numerator, more, method) in (1u32..20, 0u32..200, 0..3),
        ) {
            let of = |full: u32| if is_rounded_up { full.div_ceil(factor) } else { (full / factor).max(1) };
            let (full, source) = (picture(width, height), picture(of(width), of(height)));
            let overview = Overview { factor, width: source.width, height: source.height, directory: 8 };
            let (x, y) = (x % width, y % height);
            let crop = Rectangle { x, y, width: across.min(width - x), height: down.min(height - y) };
            let steps = match method {
                0 => steps(Some(crop), 1, 1 + more, Method::Integral),
                1 => steps(Some(crop), numerator, numerator + more, Method::Middle),
                _ => steps(Some(crop), numerator, numerator + more, Method::Linear),
            };
            let Some(chosen) = steps.source(std::slice::from_ref(&overview)) else { return Ok(()) };
            let plan = Plan::of_overview(&full, &steps, chosen, &source).expect("a plan");
            let without = Plan::new(&full, &steps).expect("a plan");
            prop_assert_eq!(plan.header(), without.header());
            let part = plan.part();
            prop_assert!(source.holds(part), "{:?}", part);
            let mut bytes = vec![0; (part.width * part.height) as usize];
            for handler in plan.handlers(&source) {
                let Handler::Rewrite(mut handler) = handler else { panic!("another handler") };
                bytes = through(&mut *handler, &bytes, &[]);
            }
            prop_assert_eq!(bytes.len() as u64, without.bytes());
        }
    }
}
