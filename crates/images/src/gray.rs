//! Gray: each pixel becomes its luminance (ITU-R BT.601).

use wirepath_streams::{Common, HandlerError, Piece, Rewrite};

use crate::picture::Samples;

/// Weights of red, green and blue, in 65536ths: 0.299, 0.587 and 0.114.
const WEIGHTS: [u32; 3] = [19_595, 38_470, 7_471];

/// Most bytes of a pixel.
const PIXEL: usize = 6;

/// Handler that makes pixels of red, green and blue gray. Its state is the pixel that lies across two pieces.
#[derive(Debug)]
pub struct Gray {
    depth: usize,
    begun: [u8; PIXEL],
    /// Bytes of that pixel.
    held: usize,
}

impl Gray {
    /// A handler for pixels of three such samples.
    pub fn new(samples: Samples) -> Gray {
        debug_assert_eq!(samples.channels, 3, "gray stays gray");
        Gray { depth: samples.depth(), begun: [0; PIXEL], held: 0 }
    }

    /// Takes what completes the pixel that has begun; returns that pixel and the rest of the piece.
    fn complete<'a>(&mut self, piece: &'a [u8]) -> (Option<[u8; PIXEL]>, &'a [u8]) {
        let pixel = 3 * self.depth;
        if self.held == 0 {
            return (None, piece);
        }
        let (first, rest) = piece.split_at((pixel - self.held).min(piece.len()));
        self.begun[self.held..self.held + first.len()].copy_from_slice(first);
        self.held += first.len();
        if self.held < pixel {
            return (None, rest);
        }
        self.held = 0;
        (Some(self.begun), rest)
    }
}

impl Common for Gray {
    fn name(&self) -> &'static str {
        "gray"
    }

    fn state_limit(&self) -> usize {
        PIXEL
    }

    fn state_bytes(&self) -> usize {
        self.held
    }
}

impl Rewrite for Gray {
    fn room(&self, length: usize) -> usize {
        (self.held + length) / 3 / self.depth * self.depth
    }

    fn rewrite(&mut self, piece: Piece<'_>, out: &mut [u8]) -> Result<Option<usize>, HandlerError> {
        let pixel = 3 * self.depth;
        let (first, rest) = self.complete(piece.bytes);
        let mut written = 0;
        if let Some(first) = first {
            written = luminance(&first[..pixel], self.depth, out);
        }
        let (whole, begun) = rest.split_at(rest.len() / pixel * pixel);
        written += luminance(whole, self.depth, &mut out[written..]);
        if !begun.is_empty() {
            self.begun[..begun.len()].copy_from_slice(begun);
            self.held = begun.len();
        }
        Ok(Some(written))
    }
}

/// Writes the luminance of whole pixels; returns the number of bytes.
fn luminance(pixels: &[u8], depth: usize, out: &mut [u8]) -> usize {
    let [red, green, blue] = WEIGHTS;
    if depth == 1 {
        for (pixel, gray) in pixels.chunks_exact(3).zip(out.iter_mut()) {
            let sum = red * u32::from(pixel[0]) + green * u32::from(pixel[1]) + blue * u32::from(pixel[2]);
            *gray = ((sum + 0x8000) >> 16) as u8;
        }
        return pixels.len() / 3;
    }
    for (pixel, gray) in pixels.chunks_exact(6).zip(out.chunks_exact_mut(2)) {
        let sample = |at: usize| u64::from(u16::from_be_bytes([pixel[at], pixel[at + 1]]));
        let sum = u64::from(red) * sample(0) + u64::from(green) * sample(2) + u64::from(blue) * sample(4);
        gray.copy_from_slice(&(((sum + 0x8000) >> 16) as u16).to_be_bytes());
    }
    pixels.len() / 3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaled::tests::through;
    use proptest::prelude::*;

    fn gray(samples: Samples, bytes: &[u8], cuts: &[usize]) -> Vec<u8> {
        through(&mut Gray::new(samples), bytes, cuts)
    }

    #[test]
    fn white_stays_white_and_weights_are_those_of_the_standard() {
        let bytes = Samples { channels: 3, maximum: 255 };
        let pixels = [255, 255, 255, 0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255];
        assert_eq!(gray(bytes, &pixels, &[]), [255, 0, 76, 150, 29]);
        let words = Samples { channels: 3, maximum: 65535 };
        assert_eq!(gray(words, &[255; 6], &[]), [255, 255]);
        assert_eq!(gray(words, &[0x80, 1, 0x80, 1, 0x80, 1], &[]), [0x80, 1]);
    }

    proptest! {
        /// Promise: The gray form of a picture does not depend on how the picture is cut into pieces.
        #[test]
        fn cuts_make_no_difference(
            bytes in prop::collection::vec(any::<u8>(), 0..400),
            cuts in prop::collection::vec(0usize..20, 0..60),
            is_wide: bool,
        ) {
            let samples = Samples { channels: 3, maximum: if is_wide { 1000 } else { 255 } };
            let whole = gray(samples, &bytes, &[]);
            prop_assert_eq!(whole.len(), bytes.len() / samples.pixel_bytes() * samples.depth());
            prop_assert_eq!(gray(samples, &bytes, &cuts), whole);
        }
    }
}
