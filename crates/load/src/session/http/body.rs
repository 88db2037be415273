//! Bodies of responses (RFC 9112 section 6.3), of which only the length matters.

use std::time::Duration;

use http::header;
use wirepath_http::{ChunkedReader, ResponseHead, fields};

use super::connection::Connection;
use crate::failure::Failure;

/// Body of a response.
pub(super) struct Body {
    framing: Framing,
    /// Bytes that came with the head.
    rest: Vec<u8>,
    /// Bytes of it that have come.
    pub(super) received: u64,
    /// When its request was sent.
    pub(super) asked_us: i64,
}

/// End of a body.
enum Framing {
    /// So many bytes are left.
    Length(u64),
    Chunked(ChunkedReader),
    /// The connection ends with it.
    Close,
}

impl Body {
    /// The body behind this head.
    pub(super) fn new(head: &ResponseHead, rest: Vec<u8>, asked_us: i64) -> Result<Body, Failure> {
        let coding = fields::joined(&head.fields, &header::TRANSFER_ENCODING);
        let framing = match (coding, fields::content_length(&head.fields)?) {
            (Some(coding), None) if coding.trim().eq_ignore_ascii_case("chunked") => {
                Framing::Chunked(ChunkedReader::default())
            }
            (Some(_), _) => return Err(Failure::Coding),
            (None, Some(length)) => Framing::Length(length),
            (None, None) => Framing::Close,
        };
        Ok(Body { framing, rest, received: 0, asked_us })
    }

    /// Bytes that are still to come, if that is known.
    pub(super) fn left(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(left) => Some(left),
            Framing::Chunked(_) | Framing::Close => None,
        }
    }

    /// Reads up to `most` bytes of the connection. Returns how many of them were of the body; `None` at its
    /// end.
    pub(super) async fn read(
        &mut self,
        connection: &mut Connection,
        most: u64,
        discards: bool,
        limit: Duration,
        mut data: impl FnMut(&[u8]),
    ) -> Result<Option<u64>, Failure> {
        if self.is_over() {
            connection.closes |= !self.rest.is_empty();
            return Ok(None);
        }
        let before = self.received;
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            let taken = self.take(&rest, &mut data)?;
            self.rest = rest[taken..].to_vec();
            return Ok(Some(self.received - before));
        }
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
                    taken = self.take(part, &mut data);
                })
                .await?;
            // A server that sends more than the body has lost its place.
            connection.closes |= taken? < bytes;
            length
        };
        match (length, &self.framing) {
            (0, Framing::Close) => {
                connection.closes = true;
                Ok(None)
            }
            (0, Framing::Length(_)) => Err(Failure::Short),
            (0, Framing::Chunked(_)) => Err(Failure::Truncated),
            _ => Ok(Some(self.received - before)),
        }
    }

    fn is_over(&self) -> bool {
        match &self.framing {
            Framing::Length(left) => *left == 0,
            Framing::Chunked(reader) => reader.is_over(),
            Framing::Close => false,
        }
    }

    /// Takes bytes of the connection; returns how many were of the body.
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
