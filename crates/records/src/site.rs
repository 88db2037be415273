//! Answers to requests: stored records, records in other formats, schemas, folders.

use std::cell::Cell;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use http::{HeaderValue, Method, StatusCode, header};
use rustix::io::{ReadWriteFlags, preadv2};
use serde_json::json;
use wirepath_http::{
    AssetPath, BodyPart, Representation, Request, Response, ResponseContext, encode_segment, respond,
};
use wirepath_net::folder::{Entry, FindError, Found, StoredFile};
use wirepath_net::http::{Answer, Endpoint, Parts, Site, boundary, now_s};

use crate::answer::{Answered, answer, answer_at_once};
use crate::error::RecordsError;
use crate::query::{FORMAT_LIMIT, Format, Question};
use crate::records::{Records, Unmade};
use crate::stored::Stored;

/// Descriptors of an answer: its file, what is made for it, and a second one of its connection for the engine.
const PER_ANSWER: usize = 3;

/// Most bytes of metadata that are looked at by the thread that serves connections.
const READ_AT_ONCE: usize = 256 << 10;

/// The records of a folder, beside metrics and status.
pub struct RecordSite {
    records: Records,
    endpoint: Endpoint,
}

impl RecordSite {
    /// A site of these records.
    pub fn new(records: Records, endpoint: Endpoint) -> RecordSite {
        RecordSite { records, endpoint }
    }

    /// Answers on another thread, unless the kernel has all that is needed in memory and nothing is computed.
    async fn answer_question(&self, path: AssetPath, request: Request, question: Question) -> Answer {
        if !path.names_folder()
            && let Question::Whole | Question::Format(_) = question
            && let Some(stored) = self.records.folder.find_cached(&path)
            && let Some(answer) = at_once(&self.records, stored, &request, &question)
        {
            return answer;
        }
        let made = self.records.compute(move |records| look_up(records, &path, &question, &request));
        made.await.unwrap_or_else(|unmade| match unmade {
            Unmade::Busy => Response::error(StatusCode::SERVICE_UNAVAILABLE, &unmade.to_string())
                .header(header::RETRY_AFTER, "5")
                .into(),
            Unmade::Failed => Response::error(StatusCode::INTERNAL_SERVER_ERROR, &unmade.to_string()).into(),
        })
    }
}

impl Site for RecordSite {
    type Admission = ();

    fn descriptors(&self, path: &AssetPath) -> usize {
        if self.endpoint.has(path) { 0 } else { PER_ANSWER }
    }

    async fn answer(&self, path: AssetPath, request: Request, _client: (SocketAddr, ())) -> Answer {
        if let Some(answer) = self.endpoint.find(&path).await {
            return answer;
        }
        match Question::parse(&request.query) {
            Ok(question) => self.answer_question(path, request, question).await,
            Err(error) => failed(&error, &path),
        }
    }

    /// A format description.
    fn accepts(&self, method: &Method, path: &AssetPath) -> Option<usize> {
        (method == Method::POST && !self.endpoint.has(path) && !path.names_folder()).then_some(FORMAT_LIMIT)
    }

    async fn act(
        &self,
        path: AssetPath,
        request: Request,
        body: Vec<u8>,
        _client: (SocketAddr, Option<&str>),
    ) -> Answer {
        if !request.query.is_empty() {
            let why = "a format description stands alone; leave out the query";
            return Response::error(StatusCode::BAD_REQUEST, why).into();
        }
        match Format::describe(&body) {
            // What a POST asks for is made for it: no conditions, no ranges.
            Ok(format) => {
                let request = Request { conditions: Default::default(), ..request };
                self.answer_question(path, request, Question::Format(format)).await
            }
            Err(error) => failed(&error, &path),
        }
    }
}

/// Reads what is in the page cache; never blocks.
fn read_cached(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    let length = bytes.len();
    match preadv2(file, &mut [IoSliceMut::new(bytes)], at, ReadWriteFlags::NOWAIT)? {
        read if read == length => Ok(()),
        _ => Err(ErrorKind::WouldBlock.into()),
    }
}

/// The answer, if it can be made without waiting. Else the look-up that may wait says what is wrong, if anything is.
fn at_once(records: &Records, stored: StoredFile, request: &Request, question: &Question) -> Option<Answer> {
    let left = Cell::new(READ_AT_ONCE);
    let read = |bytes: &mut [u8], at| {
        left.set(left.get().checked_sub(bytes.len()).ok_or(ErrorKind::WouldBlock)?);
        read_cached(&stored.file, bytes, at)
    };
    let opened = Stored::open(stored.size, read).ok()?;
    match question {
        Question::Format(format) => {
            let answered = answer_at_once(&opened, format, stored.size, &records.limits(), read)?;
            Some(formatted(request, stored, answered))
        }
        _ => {
            let response = respond_with(request, &stored, stored.size, opened.form.content_type(), "");
            Some(Answer::of_cached_file(response, stored.file))
        }
    }
}

/// The answer for a path. May block.
fn look_up(records: &Records, path: &AssetPath, question: &Question, request: &Request) -> Answer {
    let (folder, limits) = (&records.folder, records.limits());
    let stored = match folder.find(path) {
        Ok(Found::File(stored)) if !path.names_folder() => stored,
        Ok(Found::File(_)) => return unfound(FindError::NotFound, path),
        Ok(Found::Folder) if !path.names_folder() => return with_slash(path),
        Ok(Found::Folder) => {
            return folder
                .list(path)
                .map_or_else(|error| unfound(error, path), |entries| listing(&entries).into());
        }
        Err(error) => return unfound(error, path),
    };
    let read = |bytes: &mut [u8], at| stored.file.read_exact_at(bytes, at);
    let opened = match Stored::open(stored.size, read) {
        Ok(opened) => opened,
        Err(error) => return failed(&error, path),
    };
    match question {
        Question::Whole => {
            let response = respond_with(request, &stored, stored.size, opened.form.content_type(), "");
            Answer::of_file(response, stored.file)
        }
        Question::Schema => schema(&opened).into(),
        Question::Format(format) => match answer(&opened, format, stored.size, &limits, read) {
            Ok(answered) => formatted(request, stored, answered),
            Err(error) => failed(&error, path),
        },
    }
}

fn formatted(request: &Request, stored: StoredFile, Answered { assembly, form }: Answered) -> Answer {
    let bytes = assembly.bytes();
    let mut response = if request.method == Method::POST {
        // Made for this request only.
        Response::with_body(StatusCode::OK, form.content_type(), Vec::new())
            .header(header::CACHE_CONTROL, "no-store")
    } else {
        // An answer has no ranges: it is made from its beginning each time.
        let request = Request { range: None, ..request.clone() };
        let mut steps = DefaultHasher::new();
        request.query.hash(&mut steps);
        respond_with(&request, &stored, bytes, form.content_type(), &format!("-{:x}", steps.finish()))
    };
    if response.status != StatusCode::OK {
        return response.into();
    }
    response.headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("none"));
    if request.method == Method::HEAD {
        return response.into();
    }
    (response.body, response.content_length) = (Vec::new(), Some(0));
    let parts = assembly.parts(&Arc::new(stored.file));
    Answer::of_parts(response, Parts { parts, handlers: Vec::new(), bytes })
}

fn respond_with(
    request: &Request,
    stored: &StoredFile,
    size: u64,
    content_type: &'static str,
    steps: &str,
) -> Response {
    let made = Representation { size, modified_s: stored.modified_s, tag: stored.tag(steps), content_type };
    respond(request, &made, &ResponseContext { now_s: now_s(), boundary })
}

/// The columns of stored records.
fn schema(records: &Stored) -> Response {
    let columns = records.schema.fields().iter().map(|field| {
        json!({"name": field.name(), "type": field.data_type().to_string(), "nullable": field.is_nullable()})
    });
    json_response(&json!({"form": records.form.name(), "columns": columns.collect::<Vec<_>>()}))
}

/// The names in a folder; those of folders end in a slash.
fn listing(entries: &[Entry]) -> Response {
    let name = |Entry { name, is_folder }: &Entry| {
        format!("{}{}", encode_segment(name), if *is_folder { "/" } else { "" })
    };
    json_response(&json!(entries.iter().map(name).collect::<Vec<_>>()))
}

fn json_response(value: &serde_json::Value) -> Response {
    let body = vec![BodyPart::Bytes(format!("{value:#}\n").into_bytes())];
    Response::with_body(StatusCode::OK, "application/json", body).header(header::CACHE_CONTROL, "no-store")
}

/// The answer for records that cannot be served as the client asks.
fn failed(error: &RecordsError, path: &AssetPath) -> Answer {
    let status = match error {
        RecordsError::Query(_) | RecordsError::Long(_) => StatusCode::BAD_REQUEST,
        RecordsError::Unsupported(_) | RecordsError::Invalid { .. } => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        RecordsError::Full(_) | RecordsError::Slow(_) => StatusCode::SERVICE_UNAVAILABLE,
        RecordsError::Read(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    if let RecordsError::Read(error) = error {
        tracing::warn!(path = path.encoded(), %error, "records cannot be served");
    }
    let response = Response::error(status, &error.to_string());
    let is_full = matches!(error, RecordsError::Full(_));
    if is_full { response.header(header::RETRY_AFTER, "5") } else { response }.into()
}

fn unfound(error: FindError, path: &AssetPath) -> Answer {
    if let FindError::Failed(_) | FindError::Exhausted = error {
        tracing::warn!(path = path.encoded(), %error, "file cannot be served");
    }
    let response = Response::error(error.status(), &error.to_string());
    let is_busy = response.status == StatusCode::SERVICE_UNAVAILABLE;
    if is_busy { response.header(header::RETRY_AFTER, "5") } else { response }.into()
}

/// Redirects to the folder's URL, which ends in a slash, or the names in its listing would be wrong.
fn with_slash(path: &AssetPath) -> Answer {
    let name = encode_segment(path.segments().last().unwrap_or_default());
    Response::error(StatusCode::MOVED_PERMANENTLY, "folder URLs end in a slash")
        .header(header::LOCATION, &format!("{name}/"))
        .into()
}
