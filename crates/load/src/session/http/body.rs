//! Bodies of responses (RFC 9112 section 6.3). Only their lengths are needed.

use std::time::Duration;

use http::header;
use wirepath_http::{ChunkedReader, ResponseHead, fields};

use super::connection::Connection;
use crate::failure::Failure;

/// Body of a response.
pub(super) struct Body {
    framing: Framing,
    /// Bytes that were received with the head.
    rest: Vec<u8>,
    /// Number of bytes of the body received so far.
    pub(super) received: u64,
    /// Expected length: the length of the requested range.
    pub(super) expected: Option<u64>,
    /// Time at which the request was sent.
    pub(super) requested_us: i64,
}

/// Rule for the end of a body.
enum Framing {
    /// Number of remaining bytes.
    Length(u64),
    Chunked(ChunkedReader),
    /// The body ends with the connection.
    Close,
}

impl Body {
    /// Body after this head.
    pub(super) fn new(
        head: &ResponseHead,
        rest: Vec<u8>,
        requested_us: i64,
        expected: Option<u64>,
    ) -> Result<Body, Failure> {
        let coding = fields::joined(&head.fields, &header::TRANSFER_ENCODING);
        let framing = match (coding, fields::content_length(&head.fields)?) {
            (Some(coding), None) if coding.trim().eq_ignore_ascii_case("chunked") => {
                Framing::Chunked(ChunkedReader::default())
            }
            (Some(_), _) => return Err(Failure::Coding),
            (None, Some(length)) if i64::try_from(length).is_err() => return Err(Failure::Length),
            (None, Some(length)) => Framing::Length(length),
            (None, None) => Framing::Close,
        };
        Ok(Body { framing, rest, received: 0, expected, requested_us })
    }

    /// Number of remaining bytes, if known.
    pub(super) fn left(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(left) => Some(left),
            Framing::Chunked(_) | Framing::Close => None,
        }
    }

    /// Reads up to `most` bytes from the connection, repeatedly until data of the body are among them.
    /// Returns the number of bytes of the body; `None` at the end of the body.
    pub(super) async fn read(
        &mut self,
        connection: &mut Connection,
        most: u64,
        discards: bool,
        limit: Duration,
        mut data: impl FnMut(&[u8]),
    ) -> Result<Option<u64>, Failure> {
        let before = self.received;
        loop {
            if self.received > before {
                return Ok(Some(self.received - before));
            }
            if self.is_over() {
                connection.closes |= !self.rest.is_empty();
                return Ok(None);
            }
            if !self.rest.is_empty() {
                let rest = std::mem::take(&mut self.rest);
                let taken = self.take(&rest, &mut data)?;
                self.rest = rest[taken..].to_vec();
            } else if self.receive(connection, most, discards, limit, &mut data).await? == 0 {
                connection.closes = true;
                return Ok(None);
            }
        }
    }

    /// Reads once. Returns 0 if the connection, and with it the body, has ended.
    async fn receive(
        &mut self,
        connection: &mut Connection,
        most: u64,
        discards: bool,
        limit: Duration,
        data: &mut impl FnMut(&[u8]),
    ) -> Result<usize, Failure> {
        let most = self.left().unwrap_or(u64::MAX).min(most);
        let length = if discards && matches!(self.framing, Framing::Length(_)) {
            let length = connection.discard(most, limit).await?;
            self.add(length as u64);
            length
        } else {
            let (mut taken, mut bytes) = (Ok(0), 0);
            let length = connection
                .read(most, limit, |part| {
                    bytes = part.len();
                    taken = self.take(part, data);
                })
                .await?;
            // After bytes beyond the body, the connection cannot be used again.
            connection.closes |= taken? < bytes;
            length
        };
        match (length, &self.framing) {
            (0, Framing::Length(_)) => Err(Failure::Short),
            (0, Framing::Chunked(_)) => Err(Failure::Truncated),
            (length, _) => Ok(length),
        }
    }

    fn is_over(&self) -> bool {
        match &self.framing {
            Framing::Length(left) => *left == 0,
            Framing::Chunked(reader) => reader.is_over(),
            Framing::Close => false,
        }
    }

    /// Takes bytes from the connection. Returns how many bytes belong to the body.
    fn take(&mut self, bytes: &[u8], data: &mut impl FnMut(&[u8])) -> Result<usize, Failure> {
        let taken = match &mut self.framing {
            Framing::Chunked(reader) => {
                let mut length = 0;
                let taken = reader.read(bytes, |part| {
                    length += part.len() as u64;
                    data(part);
                })?;
                self.received += length;
                return Ok(taken);
            }
            Framing::Length(left) => usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len()),
            Framing::Close => bytes.len(),
        };
        data(&bytes[..taken]);
        self.add(taken as u64);
        Ok(taken)
    }

    fn add(&mut self, length: u64) {
        self.received += length;
        if let Framing::Length(left) = &mut self.framing {
            *left -= length;
        }
    }
}
