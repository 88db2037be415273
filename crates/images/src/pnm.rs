//! Headers of binary PPM and PGM (netpbm's ppm(5) and pgm(5)).

use crate::picture::{Format, Layout, MOST_PIXELS, Picture, PictureError, Samples};

/// Longest header, comments included.
pub(crate) const HEADER_LIMIT: usize = 4096;

/// Reads the header at the beginning of a file of `file_bytes` bytes. `head` has the first [`HEADER_LIMIT`] bytes,
/// or all of a shorter file.
///
/// # Errors
/// See [`PictureError`].
pub(crate) fn read(head: &[u8], file_bytes: u64) -> Result<Picture, PictureError> {
    let (format, channels) = match head {
        [b'P', b'5', ..] => (Format::Pgm, 1),
        [b'P', b'6', ..] => (Format::Ppm, 3),
        [b'P', b'1'..=b'3', ..] => return Err(unsupported("plain PNM; convert it to binary PPM or PGM")),
        [b'P', b'4' | b'7', ..] => return Err(unsupported("PBM or PAM; convert it to PPM or PGM")),
        _ => return Err(unsupported("neither binary PPM nor PGM nor TIFF; convert it")),
    };
    let mut header = Header { bytes: head, at: 2 };
    let width = header.number("width", MOST_PIXELS)?;
    let height = header.number("height", MOST_PIXELS)?;
    let maximum = header.number("maximum", u32::from(u16::MAX))?;
    let start = header.end()?;
    let samples = Samples { channels, maximum: maximum as u16 };
    let needed = start + u64::from(width) * u64::from(height) * samples.pixel_bytes() as u64;
    if needed > file_bytes {
        return Err(PictureError::Truncated { file: file_bytes, needed });
    }
    Ok(Picture { format, width, height, samples, layout: Layout::Rows(start) })
}

/// The header of a picture that is made.
pub(crate) fn write(width: u32, height: u32, samples: Samples) -> Vec<u8> {
    let magic = if samples.channels == 1 { "P5" } else { "P6" };
    format!("{magic}\n{width} {height}\n{}\n", samples.maximum).into_bytes()
}

fn unsupported(why: &str) -> PictureError {
    PictureError::Unsupported(format!("it is {why}"))
}

/// A header that is being read.
struct Header<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Header<'_> {
    fn invalid(&self, why: String) -> PictureError {
        PictureError::Invalid { format: "PNM header", at: self.at as u64, why }
    }

    fn next(&self) -> Result<u8, PictureError> {
        self.bytes.get(self.at).copied().ok_or_else(|| {
            let why = match self.bytes.len() {
                HEADER_LIMIT.. => format!("it is longer than {HEADER_LIMIT} bytes"),
                _ => "the file ends".to_owned(),
            };
            self.invalid(why)
        })
    }

    /// Skips white space and comments, of which there must be some.
    fn skip_space(&mut self, before: &str) -> Result<(), PictureError> {
        let start = self.at;
        loop {
            match self.next()? {
                b'#' => {
                    while !matches!(self.next()?, b'\n' | b'\r') {
                        self.at += 1;
                    }
                }
                byte if is_space(byte) => self.at += 1,
                _ if self.at > start => return Ok(()),
                _ => return Err(self.invalid(format!("no white space in front of the {before}"))),
            }
        }
    }

    /// Reads a decimal number from 1 to `most`.
    fn number(&mut self, name: &str, most: u32) -> Result<u32, PictureError> {
        self.skip_space(name)?;
        let mut number: u32 = 0;
        let start = self.at;
        while let digit @ b'0'..=b'9' = self.next()? {
            number = number.saturating_mul(10).saturating_add(u32::from(digit - b'0'));
            self.at += 1;
        }
        if self.at == start || number == 0 || number > most {
            self.at = start;
            return Err(self.invalid(format!("invalid {name}: expected 1 to {most}")));
        }
        Ok(number)
    }

    /// Skips the one byte of white space behind the last number; returns the place of the first pixel. A comment
    /// may stand in front of it.
    fn end(&mut self) -> Result<u64, PictureError> {
        if self.next()? == b'#' {
            while !matches!(self.next()?, b'\n' | b'\r') {
                self.at += 1;
            }
        }
        if !is_space(self.next()?) {
            return Err(self.invalid("no white space behind the maximum".to_owned()));
        }
        Ok(self.at as u64 + 1)
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(head: &[u8]) -> String {
        read(head, 1 << 40).expect_err("it is wrong").to_string()
    }

    #[test]
    fn reads_headers_with_comments() {
        let picture = read(b"P6 # by hand\n# and a line\n640\t480 #\n255\nxyz", 1 << 30).expect("a picture");
        assert_eq!((picture.width, picture.height, picture.format), (640, 480, Format::Ppm));
        assert_eq!(
            (picture.samples, picture.layout),
            (Samples { channels: 3, maximum: 255 }, Layout::Rows(40))
        );
        let picture = read(b"P5\r3 2 65535#\n", 26).expect("a picture");
        assert_eq!((picture.samples.pixel_bytes(), picture.layout), (2, Layout::Rows(14)));
        let written = write(3, 2, Samples { channels: 1, maximum: 65535 });
        assert_eq!(read(&written, 100).expect("our own").samples, picture.samples);
    }

    /// Promise: A file that is not a binary PPM or PGM is refused with the position and the reason.
    #[test]
    fn refuses_what_is_wrong() {
        for (head, words) in [
            (&b""[..], "unsupported picture: it is neither binary PPM nor PGM nor TIFF"),
            (b"P1\n1 1\n0", "it is plain PNM; convert it to binary PPM or PGM"),
            (b"P2\n1 1 1\n0", "it is plain PNM; convert it to binary PPM or PGM"),
            (b"P3\n1 1 1\n0 0 0", "it is plain PNM; convert it to binary PPM or PGM"),
            (b"P4\n1 1\n\0", "it is PBM or PAM; convert it to PPM or PGM"),
            (b"P7\nWIDTH 1", "it is PBM or PAM; convert it to PPM or PGM"),
            (b"P6", "at byte 2: the file ends"),
            (b"P6640 480 255\n", "at byte 2: no white space in front of the width"),
            (b"P6 0 480 255\n", "at byte 3: invalid width: expected 1 to 268435456"),
            (b"P6 99999999999999999999 480 255\n", "invalid width"),
            (b"P6 -1 480 255\n", "invalid width"),
            (b"P6 640 x 255\n", "at byte 7: invalid height"),
            (b"P6 640 480 65536\n", "invalid maximum: expected 1 to 65535"),
            (b"P6 640 480 255x", "at byte 14: no white space behind the maximum"),
            (b"P6 640 480 255", "at byte 14: the file ends"),
        ] {
            let error = error(head);
            assert!(error.contains(words), "{error}: {words}");
        }
        let long = [&b"P6 #"[..], &[b'x'; HEADER_LIMIT]].concat();
        assert!(error(&long[..HEADER_LIMIT]).contains("longer than 4096 bytes"));
    }

    /// Promise: A picture file shorter than its header says is refused.
    #[test]
    fn refuses_a_truncated_picture() {
        let head = b"P6\n2 2\n255\n";
        assert!(read(head, 11 + 12).is_ok());
        let error = read(head, 11 + 11).expect_err("a byte is missing");
        assert!(matches!(error, PictureError::Truncated { file: 22, needed: 23 }), "{error}");
        assert!(read(b"P6 268435456 268435456 65535\n", u64::MAX).is_ok(), "the product fits");
    }
}
