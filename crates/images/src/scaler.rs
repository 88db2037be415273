//! Down-sampling, row by row: the three methods of the KStreams paper (section 5.2).

use std::iter;
use std::mem;

use crate::picture::Samples;
use crate::query::{Method, Scale};

/// Takes the rows of a picture, and writes those of a smaller one.
pub(crate) trait Scaler: Send {
    /// Takes the next row; writes at most one row to the front of `out` and returns its bytes.
    fn row(&mut self, row: &[u8], out: &mut [u8]) -> usize;
}

/// Width and height in pixels, before and after.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) from: (u32, u32),
    pub(crate) to: (u32, u32),
}

/// Bytes that the state of a scaler takes, at most.
pub(crate) fn state_bytes(method: Method, samples: Samples, to_width: u32) -> u64 {
    let (width, channels) = (u64::from(to_width), samples.channels as u64);
    match method {
        Method::Integral => width * channels * 8,
        Method::Middle => width * 4,
        Method::Linear => width * 8 + 2 * width * channels * 4,
    }
}

/// A scaler of pictures with such samples.
pub(crate) fn scaler(scale: Scale, samples: Samples, sizes: Sizes) -> Box<dyn Scaler> {
    match (samples.depth(), samples.channels) {
        (1, 1) => of_pixels::<u8, 1>(scale, sizes),
        (1, _) => of_pixels::<u8, 3>(scale, sizes),
        (_, 1) => of_pixels::<u16, 1>(scale, sizes),
        (_, _) => of_pixels::<u16, 3>(scale, sizes),
    }
}

fn of_pixels<S: Sample, const C: usize>(scale: Scale, sizes: Sizes) -> Box<dyn Scaler> {
    match scale.method {
        Method::Integral => Box::new(Integral::<S, C>::new(sizes, scale.ratio.denominator)),
        Method::Middle => Box::new(Middle::new(sizes, S::BYTES * C)),
        Method::Linear => Box::new(Linear::<S, C>::new(sizes)),
    }
}

/// A sample of one byte, or of two, the more significant one first.
trait Sample: Send + 'static {
    const BYTES: usize;
    fn read(bytes: &[u8]) -> u32;
    fn write(value: u32, bytes: &mut [u8]);
}

impl Sample for u8 {
    const BYTES: usize = 1;

    fn read(bytes: &[u8]) -> u32 {
        bytes[0].into()
    }

    fn write(value: u32, bytes: &mut [u8]) {
        bytes[0] = value as u8;
    }
}

impl Sample for u16 {
    const BYTES: usize = 2;

    fn read(bytes: &[u8]) -> u32 {
        u16::from_be_bytes([bytes[0], bytes[1]]).into()
    }

    fn write(value: u32, bytes: &mut [u8]) {
        bytes[..2].copy_from_slice(&(value as u16).to_be_bytes());
    }
}

/// Means of squares. What is left at the right and below, less than a square, is not used.
struct Integral<S, const C: usize> {
    /// Width and height of a square; of a picture that is smaller, its own.
    square: (u32, u32),
    /// Rows of the squares so far.
    rows: u32,
    /// Rows that are left to write.
    left: u32,
    sums: Vec<[u64; C]>,
    sample: std::marker::PhantomData<S>,
}

impl<S: Sample, const C: usize> Integral<S, C> {
    fn new(Sizes { from, to }: Sizes, side: u32) -> Self {
        let square = (side.min(from.0), side.min(from.1));
        let sums = vec![[0; C]; to.0 as usize];
        Integral { square, rows: 0, left: to.1, sums, sample: std::marker::PhantomData }
    }
}

impl<S: Sample, const C: usize> Scaler for Integral<S, C> {
    fn row(&mut self, row: &[u8], out: &mut [u8]) -> usize {
        if self.left == 0 {
            return 0;
        }
        let pixel = S::BYTES * C;
        let squares = row.chunks_exact(self.square.0 as usize * pixel);
        for (sum, square) in iter::zip(&mut self.sums, squares) {
            let mut of_row = [0; C];
            for pixel in square.chunks_exact(pixel) {
                for channel in 0..C {
                    of_row[channel] += S::read(&pixel[channel * S::BYTES..]);
                }
            }
            (0..C).for_each(|channel| sum[channel] += u64::from(of_row[channel]));
        }
        self.rows += 1;
        if self.rows < self.square.1 {
            return 0;
        }
        let pixels = u64::from(self.square.0) * u64::from(self.square.1);
        let samples = self.sums.iter().flatten();
        for (&sum, out) in iter::zip(samples, out.chunks_exact_mut(S::BYTES)) {
            S::write(((sum + pixels / 2) / pixels) as u32, out);
        }
        self.sums.fill([0; C]);
        self.rows = 0;
        self.left -= 1;
        self.sums.len() * pixel
    }
}

/// Middle pixels of neighbourhoods.
struct Middle {
    /// Offset in bytes of the pixels of a row that are taken.
    columns: Vec<u32>,
    pixel_bytes: usize,
    heights: (u32, u32),
    /// Rows so far, and rows that were written.
    rows: u32,
    written: u32,
}

impl Middle {
    fn new(Sizes { from, to }: Sizes, pixel_bytes: usize) -> Middle {
        let columns = (0..to.0).map(|at| middle(at, from.0, to.0) * pixel_bytes as u32).collect();
        Middle { columns, pixel_bytes, heights: (from.1, to.1), rows: 0, written: 0 }
    }
}

/// Middle of the neighbourhood of a pixel among `from` pixels that become `to`, rounded down.
fn middle(at: u32, from: u32, to: u32) -> u32 {
    ((2 * u64::from(at) + 1) * u64::from(from) / (2 * u64::from(to))) as u32
}

impl Scaler for Middle {
    fn row(&mut self, row: &[u8], out: &mut [u8]) -> usize {
        let (from, to) = self.heights;
        let row_number = self.rows;
        self.rows += 1;
        if self.written == to || middle(self.written, from, to) != row_number {
            return 0;
        }
        self.written += 1;
        match self.pixel_bytes {
            1 => take::<1>(&self.columns, row, out),
            2 => take::<2>(&self.columns, row, out),
            3 => take::<3>(&self.columns, row, out),
            _ => take::<6>(&self.columns, row, out),
        }
        self.columns.len() * self.pixel_bytes
    }
}

fn take<const PIXEL: usize>(columns: &[u32], row: &[u8], out: &mut [u8]) {
    for (&column, out) in iter::zip(columns, out.chunks_exact_mut(PIXEL)) {
        out.copy_from_slice(&row[column as usize..column as usize + PIXEL]);
    }
}

/// Linear interpolation between four pixels, with weights in 256ths. Keeps the row above.
struct Linear<S, const C: usize> {
    /// Left pixel, and weight of the one to its right.
    columns: Vec<(u32, u32)>,
    heights: (u32, u32),
    rows: u32,
    written: u32,
    /// A row, interpolated, and its number.
    above: Vec<[u32; C]>,
    above_is: Option<u32>,
    below: Vec<[u32; C]>,
    sample: std::marker::PhantomData<S>,
}

/// Pixel in front of the middle of a neighbourhood, and the weight of the pixel behind, in 256ths.
fn between(at: u32, from: u32, to: u32) -> (u32, u32) {
    let (position, unit) = ((2 * u64::from(at) + 1) * u64::from(from) - u64::from(to), 2 * u64::from(to));
    ((position / unit) as u32, (position % unit * 256 / unit) as u32)
}

impl<S: Sample, const C: usize> Linear<S, C> {
    fn new(Sizes { from, to }: Sizes) -> Self {
        let columns = (0..to.0).map(|at| between(at, from.0, to.0)).collect();
        let row = vec![[0; C]; to.0 as usize];
        let heights = (from.1, to.1);
        let sample = std::marker::PhantomData;
        Linear {
            columns,
            heights,
            rows: 0,
            written: 0,
            above: row.clone(),
            above_is: None,
            below: row,
            sample,
        }
    }

    /// Row of the picture in front of the next one to write, and weight of the row behind.
    fn next(&self) -> Option<(u32, u32)> {
        let (from, to) = self.heights;
        (self.written < to).then(|| between(self.written, from, to))
    }

    /// Interpolates a row.
    fn interpolate(columns: &[(u32, u32)], row: &[u8], out: &mut [[u32; C]]) {
        let pixel = S::BYTES * C;
        let last = row.len() - pixel;
        for (&(column, weight), out) in iter::zip(columns, out) {
            let left = column as usize * pixel;
            let right = (left + pixel).min(last);
            let (left, right) = (&row[left..left + pixel], &row[right..right + pixel]);
            for channel in 0..C {
                let sample = |pixel: &[u8]| S::read(&pixel[channel * S::BYTES..]);
                out[channel] = sample(left) * (256 - weight) + sample(right) * weight;
            }
        }
    }

    /// Writes a row between the one above and the one below.
    fn write(&mut self, weight: u32, out: &mut [u8]) -> usize {
        let samples = iter::zip(self.above.iter().flatten(), self.below.iter().flatten());
        for ((above, below), out) in iter::zip(samples, out.chunks_exact_mut(S::BYTES)) {
            S::write((above * (256 - weight) + below * weight + 0x8000) >> 16, out);
        }
        self.written += 1;
        self.above.len() * C * S::BYTES
    }
}

impl<S: Sample, const C: usize> Scaler for Linear<S, C> {
    fn row(&mut self, row: &[u8], out: &mut [u8]) -> usize {
        let number = self.rows;
        self.rows += 1;
        let mut written = 0;
        if let Some((above, weight)) = self.next()
            && above + 1 == number
            && self.above_is == Some(above)
        {
            Self::interpolate(&self.columns, row, &mut self.below);
            written = self.write(weight, out);
            mem::swap(&mut self.above, &mut self.below);
            self.above_is = Some(number);
        }
        if let Some((above, weight)) = self.next()
            && above == number
        {
            if self.above_is != Some(number) {
                Self::interpolate(&self.columns, row, &mut self.above);
                self.above_is = Some(number);
            }
            if weight == 0 {
                debug_assert_eq!(written, 0, "rows to write are at least a row apart");
                written = self.write(0, out);
            }
        }
        written
    }
}
