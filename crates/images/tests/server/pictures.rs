//! Pictures for tests, and what netpbm makes of them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use wirepath_tests::{process, python, require};

use crate::TestBed;

/// A binary PPM (three channels) or PGM with pixels that differ from their neighbours.
pub(crate) fn picture(width: u32, height: u32, channels: u32, maximum: u32) -> Vec<u8> {
    let magic = if channels == 3 { "P6" } else { "P5" };
    let mut bytes = format!("{magic}\n# a comment\n{width} {height}\n{maximum}\n").into_bytes();
    let mut state = 0x9e37_79b9_u32;
    for place in 0..width * height * channels {
        // Slopes and noise.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let value = (place / channels * 3 + place % channels * 80 + (state >> 24) / 4) % (maximum + 1);
        if maximum > 255 {
            bytes.push((value >> 8) as u8);
        }
        bytes.push(value as u8);
    }
    bytes
}

/// Output of a tool of netpbm for a file. Skips where there is none.
pub(crate) fn netpbm(tool: &str, arguments: &[&str], file: &Path) -> Result<Vec<u8>> {
    require!(process::find(tool).is_some(), "{tool} is not installed");
    let output = Command::new(tool).args(arguments).arg(file).output().with_context(|| tool.to_owned())?;
    ensure!(output.status.success(), "{tool}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}

/// Runs a script in the folder that can use numpy, tifffile and `read`, which reads a picture of [`picture`].
/// Skips where a module is missing.
pub(crate) fn tifffile(bed: &TestBed, script: &str) -> Result<()> {
    let program = env!("CARGO_BIN_EXE_wirepath-images");
    python::run(program, &["numpy", "tifffile"], &format!("{READ}\n{script}"), [bed.folder.path()])?;
    Ok(())
}

/// A line of such a script: stores a picture as a TIFF. `options` are of `tifffile.imwrite`.
pub(crate) fn write_tiff(from: &str, name: &str, options: &str) -> String {
    format!("tifffile.imwrite(folder / {name:?}, read({from:?}), metadata=None, {options})\n")
}

/// Factors of the overviews of [`store_pyramid`].
pub(crate) const FACTORS: [u32; 3] = [2, 4, 8];

/// Stores `a.tif`, a tiled BigTIFF of the picture `1.ppm` with overviews that are the other pictures `2.ppm`,
/// `4.ppm` and `8.ppm`: what was made tells its source.
pub(crate) fn store_pyramid(bed: &TestBed, width: u32, height: u32, order: &str) -> Result<()> {
    let mut script =
        format!("with tifffile.TiffWriter(folder / 'a.tif', bigtiff=True, byteorder={order:?}) as out:\n");
    for factor in [1].into_iter().chain(FACTORS) {
        let name = format!("{factor}.ppm");
        bed.store(&name, &picture(width.div_ceil(factor), height.div_ceil(factor), 3, 255))?;
        let kind = u32::from(factor > 1);
        let options = format!("photometric='rgb', tile=(64, 112), subfiletype={kind}, metadata=None");
        script += &format!("    out.write(read({name:?}), {options})\n");
    }
    tifffile(bed, &script)
}

const READ: &str = r#"
import pathlib, sys
folder = pathlib.Path(sys.argv[1])
def read(name):
    magic, _, size, _, pixels = (folder / name).read_bytes().split(b"\n", 4)
    width, height = map(int, size.split())
    shape = (height, width, 3) if magic == b"P6" else (height, width)
    return numpy.frombuffer(pixels, numpy.uint8).reshape(shape)
"#;

/// Header lines and samples of a picture that was made.
pub(crate) fn samples(picture: &[u8]) -> Result<(String, Vec<u32>)> {
    let mut ends = picture.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let end = ends.nth(2).context("no header of three lines")?;
    let header = String::from_utf8(picture[..end].to_vec())?;
    let is_wide = !header.ends_with("\n255\n");
    let samples = picture[end..].chunks(if is_wide { 2 } else { 1 });
    Ok((
        header,
        samples.map(|sample| sample.iter().fold(0, |value, byte| value << 8 | u32::from(*byte))).collect(),
    ))
}

/// Fails unless two pictures have the same header, and samples that differ by at most `most`.
pub(crate) fn ensure_alike(made: &[u8], expected: &[u8], most: u32) -> Result<()> {
    let (made, expected) = (samples(made)?, samples(expected)?);
    ensure!(made.0 == expected.0, "header {:?} is not {:?}", made.0, expected.0);
    ensure!(made.1.len() == expected.1.len(), "{} samples: expected {}", made.1.len(), expected.1.len());
    let far = made.1.iter().zip(&expected.1).position(|(a, b)| a.abs_diff(*b) > most);
    ensure!(far.is_none(), "sample {far:?} differs: {:?}", far.map(|at| (made.1[at], expected.1[at])));
    Ok(())
}
