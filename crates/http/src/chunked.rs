//! Chunked transfer coding (RFC 9112 section 7.1), for a receiver that keeps the data only.

/// Longest line in bytes: a size with its extensions, or a field of the trailer.
const LINE_LIMIT: usize = 4 * 1024;

/// Maximum size of the trailer in bytes.
const TRAILER_LIMIT: usize = 16 * 1024;

/// Fault of a chunked body, caused by the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkedError {
    /// Chunk size without hexadecimal digits.
    #[error("invalid chunk size: expected hexadecimal digits")]
    Size,
    /// Bytes follow the data of a chunk.
    #[error("a chunk is longer than its size")]
    End,
    /// A line or the trailer is too long.
    #[error("chunk extensions or trailer too long")]
    TooLong,
}

/// Reader of one chunked body, in pieces of any size.
#[derive(Clone, Debug, Default)]
pub struct ChunkedReader {
    state: State,
    /// Bytes read of the current line.
    line: usize,
    /// Bytes read of the trailer.
    trailer: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Chunk size, with the value read so far.
    #[default]
    Begin,
    Size(u64),
    /// Extensions of a chunk of this size.
    Extension(u64),
    Data(u64),
    /// Line end after the data.
    DataEnd,
    Trailer,
    Over,
}

impl ChunkedReader {
    /// Reads `bytes` and passes on the data in them. Returns the number of bytes that belong to this body:
    /// fewer than given only if the body [is over](Self::is_over).
    ///
    /// # Errors
    /// [`ChunkedError`]; the beginning of the next response is then unknown.
    pub fn read(&mut self, bytes: &[u8], mut data: impl FnMut(&[u8])) -> Result<usize, ChunkedError> {
        let mut at = 0;
        while at < bytes.len() && !self.is_over() {
            if let State::Data(left) = self.state {
                let length = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len() - at);
                data(&bytes[at..at + length]);
                at += length;
                let left = left - length as u64;
                self.state = if left == 0 { State::DataEnd } else { State::Data(left) };
            } else {
                self.step(bytes[at])?;
                at += 1;
            }
        }
        Ok(at)
    }

    /// Returns whether the last chunk and the trailer have been read.
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Reads a byte that is not data.
    fn step(&mut self, byte: u8) -> Result<(), ChunkedError> {
        self.line += 1;
        self.trailer += usize::from(self.state == State::Trailer);
        if self.line > LINE_LIMIT || self.trailer > TRAILER_LIMIT {
            return Err(ChunkedError::TooLong);
        }
        let digit = char::from(byte).to_digit(16).map(u64::from);
        self.state = match (self.state, byte, digit) {
            (State::Begin, _, Some(digit)) => State::Size(digit),
            (State::Size(size), _, Some(digit)) => {
                let shifted = size.checked_mul(16).ok_or(ChunkedError::Size)?;
                State::Size(shifted + digit)
            }
            (State::Size(size) | State::Extension(size), b'\n', _) => self.begin_line(match size {
                0 => State::Trailer,
                size => State::Data(size),
            }),
            (State::Size(size), b';' | b' ' | b'\t' | b'\r', _) | (State::Extension(size), ..) => {
                State::Extension(size)
            }
            (State::DataEnd, b'\r', _) if self.line == 1 => State::DataEnd,
            (State::DataEnd, b'\n', _) => self.begin_line(State::Begin),
            (State::DataEnd, ..) => return Err(ChunkedError::End),
            (State::Trailer, b'\n', _) if self.line == 1 => State::Over,
            (State::Trailer, b'\n', _) => self.begin_line(State::Trailer),
            (State::Trailer, b'\r', _) if self.line == 1 => {
                self.line = 0; // an empty line has no bytes before its line end
                State::Trailer
            }
            (State::Trailer, ..) => State::Trailer,
            (State::Begin | State::Size(_) | State::Data(_) | State::Over, ..) => {
                return Err(ChunkedError::Size);
            }
        };
        Ok(())
    }

    fn begin_line(&mut self, state: State) -> State {
        self.line = 0;
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Data of a body that arrives in pieces of this size, and the bytes left after its end.
    fn decode(bytes: &[u8], piece: usize) -> Result<(Vec<u8>, Option<Vec<u8>>), ChunkedError> {
        let (mut reader, mut data) = (ChunkedReader::default(), Vec::new());
        let mut read = 0;
        for piece in bytes.chunks(piece) {
            read += reader.read(piece, |part| data.extend_from_slice(part))?;
        }
        Ok((data, reader.is_over().then(|| bytes[read..].to_vec())))
    }

    #[test]
    fn bodies_are_read_however_they_are_cut() {
        let text = b"4;name=\"value\"\r\nWiki\r\n5\r\npedia\r\nE \r\n in\r\n\r\nchunks.\r\n0\r\nA: b\r\n\r\nHTTP/1.1 200";
        for piece in 1..text.len() {
            let (data, rest) = decode(text, piece).unwrap();
            assert_eq!(data, b"Wikipedia in\r\n\r\nchunks.");
            assert_eq!(rest.unwrap(), b"HTTP/1.1 200");
        }
        assert_eq!(decode(b"1\nx\n0\n\n", 1), Ok((b"x".to_vec(), Some(Vec::new()))));
        assert_eq!(decode(b"5\r\nab", 9), Ok((b"ab".to_vec(), None)));
    }

    #[test]
    fn faults_are_named() {
        for (text, error) in [
            ("\r\n", ChunkedError::Size),
            ("x\r\n", ChunkedError::Size),
            ("-1\r\n", ChunkedError::Size),
            ("10000000000000000\r\n", ChunkedError::Size),
            ("1\r\nab\r\n", ChunkedError::End),
            ("1\r\na\r\r\n", ChunkedError::End),
        ] {
            assert_eq!(decode(text.as_bytes(), 3), Err(error), "{text:?}");
        }
        let extension = format!("1;{}", "x".repeat(LINE_LIMIT));
        assert_eq!(decode(extension.as_bytes(), 100), Err(ChunkedError::TooLong));
        let trailer = format!("0\r\n{}", "A: b\r\n".repeat(TRAILER_LIMIT));
        assert_eq!(decode(trailer.as_bytes(), 100), Err(ChunkedError::TooLong));
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(bytes in prop::collection::vec(prop::sample::select(b"01aF;\r\n x".to_vec()), 0..60), piece in 1usize..9) {
            prop_assert_eq!(decode(&bytes, piece), decode(&bytes, bytes.len().max(1)));
        }

        #[test]
        fn data_come_back(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..6), piece in 1usize..60) {
            let mut text = Vec::new();
            for part in &parts {
                text.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                text.extend_from_slice(part);
                text.extend_from_slice(b"\r\n");
            }
            text.extend_from_slice(b"0\r\n\r\n");
            prop_assert_eq!(decode(&text, piece), Ok((parts.concat(), Some(Vec::new()))));
        }
    }
}
