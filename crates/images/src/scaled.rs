//! A smaller picture, from rows that come in pieces.

use std::fmt;

use wirepath_streams::{Common, HandlerError, Piece, Rewrite};

use crate::picture::Samples;
use crate::query::Scale;
use crate::scaler::{Scaler, Sizes, scaler, state_bytes};

/// Handler that makes a picture smaller. Its state is the row that has begun, and what the method keeps: a row of
/// sums, or two rows of the smaller picture.
pub struct Scaled {
    row_bytes: usize,
    out_row_bytes: usize,
    /// Bytes of a row whose end has not come.
    begun: Vec<u8>,
    scaler: Box<dyn Scaler>,
    scaler_bytes: usize,
}

impl Scaled {
    /// A handler that makes a picture of `from` pixels, across and down, one of `to` pixels.
    pub fn new(scale: Scale, samples: Samples, from: (u32, u32), to: (u32, u32)) -> Scaled {
        Scaled {
            row_bytes: from.0 as usize * samples.pixel_bytes(),
            out_row_bytes: to.0 as usize * samples.pixel_bytes(),
            begun: Vec::new(),
            scaler: scaler(scale, samples, Sizes { from, to }),
            scaler_bytes: state_bytes(scale.method, samples, to.0) as usize,
        }
    }

    /// Bytes of state for rows of these widths, at most.
    pub fn needs(scale: Scale, samples: Samples, from: u32, to: u32) -> u64 {
        u64::from(from) * samples.pixel_bytes() as u64 + state_bytes(scale.method, samples, to)
    }
}

impl Common for Scaled {
    fn name(&self) -> &'static str {
        "scaled"
    }

    fn state_limit(&self) -> usize {
        self.row_bytes + self.scaler_bytes
    }

    fn state_bytes(&self) -> usize {
        self.begun.len() + self.scaler_bytes
    }
}

impl Rewrite for Scaled {
    fn room(&self, length: usize) -> usize {
        (self.begun.len() + length) / self.row_bytes * self.out_row_bytes
    }

    fn rewrite(&mut self, piece: Piece<'_>, out: &mut [u8]) -> Result<Option<usize>, HandlerError> {
        let Scaled { row_bytes, begun, scaler, .. } = self;
        let mut rest = piece.bytes;
        let mut written = 0;
        if !begun.is_empty() {
            let (end, behind) = rest.split_at((*row_bytes - begun.len()).min(rest.len()));
            begun.extend_from_slice(end);
            rest = behind;
            if begun.len() == *row_bytes {
                written += scaler.row(begun, out);
                begun.clear();
            }
        }
        let rows = rest.chunks_exact(*row_bytes);
        let next = rows.remainder();
        for row in rows {
            written += scaler.row(row, &mut out[written..]);
        }
        begun.extend_from_slice(next);
        Ok(Some(written))
    }
}

impl fmt::Debug for Scaled {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scaled { row_bytes, out_row_bytes, begun, .. } = self;
        write!(formatter, "Scaled({row_bytes} to {out_row_bytes} bytes, {} begun)", begun.len())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::query::{Method, Ratio};
    use proptest::prelude::*;

    /// Output of a handler for bytes that come in pieces of these lengths, the rest in one.
    pub(crate) fn through(handler: &mut dyn Rewrite, mut bytes: &[u8], cuts: &[usize]) -> Vec<u8> {
        let mut made = Vec::new();
        for length in cuts.iter().copied().chain([usize::MAX]) {
            let (piece, rest) = bytes.split_at(length.min(bytes.len()));
            bytes = rest;
            // A byte of room too many, which stays as it is.
            let room = handler.room(piece.len());
            let mut out = vec![0xa5; room + 1];
            let piece = Piece::part(piece, false, false);
            let written = handler.rewrite(piece, &mut out).expect("it does not fail").expect("it passes");
            assert!(written <= room && out[room] == 0xa5, "{written} bytes where {room} have room");
            assert!(handler.state_bytes() <= handler.state_limit());
            made.extend_from_slice(&out[..written]);
        }
        made
    }

    fn scale(numerator: u32, denominator: u32, method: Method) -> Scale {
        Scale { ratio: Ratio { numerator, denominator }, method }
    }

    const GRAY: Samples = Samples { channels: 1, maximum: 255 };

    fn handler(scale: Scale, samples: Samples, width: u32, height: u32) -> Scaled {
        Scaled::new(scale, samples, (width, height), (scale.ratio.of(width), scale.ratio.of(height)))
    }

    fn scaled(scale: Scale, width: u32, height: u32, bytes: &[u8]) -> Vec<u8> {
        through(&mut handler(scale, GRAY, width, height), bytes, &[])
    }

    #[test]
    fn each_method_takes_its_pixels() {
        #[rustfmt::skip]
        let picture = [
            0, 10, 20, 30, 99,
            40, 50, 60, 70, 99,
            80, 90, 100, 110, 99,
        ];
        let half = |method| scaled(scale(1, 2, method), 5, 3, &picture);
        assert_eq!(half(Method::Integral), [25, 45], "what is left at the edges is not used");
        // Of 5 to 2, neighbourhoods are 2.5 wide: the middles are 1.25 and 3.75.
        assert_eq!(half(Method::Middle), [50, 70]);
        // In the middle of pixel 1 and of pixel 3 begin 0.75 to the left: weights 64 and 192 of 256 below.
        let two_thirds = scaled(scale(2, 3, Method::Linear), 3, 3, &[0, 0, 0, 0, 0, 0, 0, 0, 128]);
        assert_eq!(two_thirds, [0, 0, 0, 72]);
        assert_eq!(scaled(scale(1, 1, Method::Linear), 5, 3, &picture), picture);
        assert_eq!(scaled(scale(1, 1, Method::Middle), 5, 3, &picture), picture);
        assert_eq!(scaled(scale(1, 1, Method::Integral), 5, 3, &picture), picture);
        assert_eq!(scaled(scale(1, 9, Method::Integral), 5, 3, &picture).len(), 1, "at least a pixel");
    }

    /// The same by floating-point numbers, from the whole picture.
    fn expected(scale: Scale, samples: Samples, width: u32, height: u32, bytes: &[u8]) -> Vec<f64> {
        let (to_width, to_height) = (scale.ratio.of(width), scale.ratio.of(height));
        let sample = |x: u32, y: u32, channel: usize| {
            let at = ((y * width + x) as usize * samples.channels + channel) * samples.depth();
            let bytes = &bytes[at..at + samples.depth()];
            bytes.iter().fold(0.0, |value, byte| value * 256.0 + f64::from(*byte))
        };
        let middle = |at: u32, from: u32, to: u32| (f64::from(at) + 0.5) * f64::from(from) / f64::from(to);
        let pixel = |x: u32, y: u32, channel: usize| match scale.method {
            Method::Integral => {
                let side = scale.ratio.denominator;
                let (right, below) = (((x + 1) * side).min(width), ((y + 1) * side).min(height));
                let square = (y * side..below).flat_map(|y| (x * side..right).map(move |x| (x, y)));
                let all: Vec<f64> = square.map(|(x, y)| sample(x, y, channel)).collect();
                all.iter().sum::<f64>() / all.len() as f64
            }
            Method::Middle => {
                sample(middle(x, width, to_width) as u32, middle(y, height, to_height) as u32, channel)
            }
            Method::Linear => {
                let (x, y) = (middle(x, width, to_width) - 0.5, middle(y, height, to_height) - 0.5);
                let (left, above) = (x as u32, y as u32);
                let (right, below) = ((left + 1).min(width - 1), (above + 1).min(height - 1));
                let (dx, dy) = (x - f64::from(left), y - f64::from(above));
                let upper = sample(left, above, channel) * (1.0 - dx) + sample(right, above, channel) * dx;
                let lower = sample(left, below, channel) * (1.0 - dx) + sample(right, below, channel) * dx;
                upper * (1.0 - dy) + lower * dy
            }
        };
        let places = (0..to_height).flat_map(|y| (0..to_width).map(move |x| (x, y)));
        places.flat_map(|(x, y)| (0..samples.channels).map(move |channel| pixel(x, y, channel))).collect()
    }

    fn methods() -> impl Strategy<Value = Scale> {
        let ratio = (1u32..12, 0u32..12);
        (0..3, ratio).prop_map(|(method, (numerator, more))| match method {
            0 => scale(1, numerator, Method::Integral),
            1 => scale(numerator, numerator + more, Method::Middle),
            _ => scale(numerator, numerator + more, Method::Linear),
        })
    }

    proptest! {
        /// Promise: A smaller picture does not depend on how the picture is cut, and equals an independent
        /// computation.
        #[test]
        fn cuts_make_no_difference(
            scale in methods(),
            (width, height) in (1u32..24, 1u32..24),
            (is_wide, is_coloured) in any::<(bool, bool)>(),
            noise in prop::collection::vec(any::<u8>(), 24 * 24 * 6),
            cuts in prop::collection::vec(0usize..50, 0..60),
        ) {
            let maximum = if is_wide { 65535 } else { 255 };
            let samples = Samples { channels: if is_coloured { 3 } else { 1 }, maximum };
            let bytes = &noise[..(width * height) as usize * samples.pixel_bytes()];
            let made = through(&mut handler(scale, samples, width, height), bytes, &[]);
            let cut = through(&mut handler(scale, samples, width, height), bytes, &cuts);
            prop_assert_eq!(&made, &cut);
            let expected = expected(scale, samples, width, height, bytes);
            prop_assert_eq!(made.len(), expected.len() * samples.depth());
            // Weights of 256ths are off by up to a 256th in each direction.
            let error = if scale.method == Method::Linear { f64::from(maximum) / 128.0 + 1.0 } else { 0.501 };
            for (made, expected) in made.chunks_exact(samples.depth()).zip(expected) {
                let value = made.iter().fold(0.0, |value, byte| value * 256.0 + f64::from(*byte));
                prop_assert!((value - expected).abs() <= error, "{value} is not {expected}");
            }
        }
    }
}
