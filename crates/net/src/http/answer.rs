//! Answers of a [`Site`](super::Site): made for a request, or prepared.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use rustix::io::{ReadWriteFlags, preadv2};
use wirepath_http::{BodyPart, Response};

use super::events::{self, Subscription};
use super::parts::Parts;
use super::prepared::{Prepared, SMALL_BYTES};

/// Response, and the sources of its body.
#[derive(Debug)]
pub struct Answer {
    /// Head and body.
    pub response: Response,
    /// File of the body's extents.
    pub file: Option<Arc<File>>,
    /// Parts of files that follow the body's bytes.
    pub parts: Option<Parts>,
    /// Events that replace the body.
    pub events: Option<Subscription>,
}

impl Answer {
    /// Response whose extents are in this file. Reads small bodies into memory, which costs less than sending
    /// them without a copy on an engine thread. Waits for storage, and may close the file.
    pub fn of_file(response: Response, file: File) -> Self {
        match read_body(&response, &file) {
            Some(body) => Response { body, ..response }.into(),
            // If the file cannot be read, sending the body fails, and the connection is cut there.
            None => Self::of_cached_file(response, file),
        }
    }

    /// Response whose extents are in this file, which is not read before sending; small bodies are then read
    /// if they are in the page cache. Never blocks.
    pub fn of_cached_file(response: Response, file: impl Into<Arc<File>>) -> Self {
        Self { file: Some(file.into()), ..response.into() }
    }

    /// Response with parts of files after its body; their length is added to the response's length.
    pub fn of_parts(response: Response, parts: Parts) -> Self {
        let content_length = Some(response.content_length.unwrap_or(0) + parts.bytes);
        Self { parts: Some(parts), ..Response { content_length, ..response }.into() }
    }

    /// Length in bytes of the body to send.
    pub(super) fn body_length(&self) -> u64 {
        self.response.body_length() + self.parts.as_ref().map_or(0, |parts| parts.bytes)
    }

    /// Response with events as its body, until the client disconnects or the listener drains.
    pub(super) fn of_events(subscription: Subscription) -> Self {
        Self { events: Some(subscription), ..events::response().into() }
    }
}

/// Body with its extents read into memory; `None` if it is long or cannot be read. May block.
fn read_body(response: &Response, file: &File) -> Option<Vec<BodyPart>> {
    let parts = response.body.iter().map(|part| match part {
        BodyPart::Bytes(bytes) => Ok(BodyPart::Bytes(bytes.clone())),
        BodyPart::Extent(extent) => {
            let mut bytes = vec![0; extent.length as usize];
            file.read_exact_at(&mut bytes, extent.offset).map(|()| BodyPart::Bytes(bytes))
        }
    });
    (response.body_length() <= SMALL_BYTES).then(|| parts.collect::<io::Result<_>>().ok())?
}

/// Appends a small body to the head; returns the head alone as an error if the body is long or not entirely
/// in the page cache.
pub(super) fn read_behind(mut head: Vec<u8>, body: &[BodyPart], file: &File) -> Result<Vec<u8>, Vec<u8>> {
    let (head_length, length) = (head.len(), body.iter().map(BodyPart::length).sum::<u64>());
    if length > SMALL_BYTES {
        return Err(head);
    }
    head.reserve(length as usize);
    for part in body {
        match part {
            BodyPart::Bytes(bytes) => head.extend_from_slice(bytes),
            BodyPart::Extent(extent) => {
                let (start, length) = (head.len(), extent.length as usize);
                head.resize(start + length, 0);
                let mut room = [IoSliceMut::new(&mut head[start..])];
                if preadv2(file, &mut room, extent.offset, ReadWriteFlags::NOWAIT) != Ok(length) {
                    head.truncate(head_length);
                    return Err(head);
                }
            }
        }
    }
    Ok(head)
}

impl From<Response> for Answer {
    fn from(response: Response) -> Self {
        Self { response, file: None, parts: None, events: None }
    }
}

/// Reply to a request.
pub(super) enum Reply {
    Prepared(Prepared),
    /// Boxed, because it is large, and most replies to many small requests are prepared.
    Made(Box<Answer>),
}

impl Reply {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Reply::Prepared(prepared) => prepared.head.status(),
            Reply::Made(answer) => answer.response.status,
        }
    }

    pub(super) fn fields(&mut self) -> &mut HeaderMap {
        match self {
            Reply::Prepared(prepared) => &mut prepared.fields,
            Reply::Made(answer) => &mut answer.response.headers,
        }
    }

    /// Length in bytes of the body to send.
    pub(super) fn body_length(&self) -> u64 {
        match self {
            Reply::Prepared(prepared) => prepared.body.length() as u64,
            Reply::Made(answer) => answer.body_length(),
        }
    }

    pub(super) fn is_of_events(&self) -> bool {
        matches!(self, Reply::Made(answer) if answer.events.is_some())
    }
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Reply::Made(Box::new(answer))
    }
}

impl From<Response> for Reply {
    fn from(response: Response) -> Self {
        Answer::from(response).into()
    }
}
