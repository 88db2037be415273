//! Answers to requests: pictures, what is made of them, and pages.

use std::fs::File;
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
use wirepath_net::folder::{FindError, Folder, Found, StoredFile};
use wirepath_net::http::{Answer, Endpoint, Site, boundary, now_s};

use crate::open::{find_overviews, open_overview, open_picture};
use crate::overview::{DamagedOverview, Overview, Overviews};
use crate::page;
use crate::picture::{Format, Picture, PictureError};
use crate::plan::Plan;
use crate::query::{Question, Transformation};

/// Descriptors of an answer: its file, and a second one of its connection for the engine.
const PER_ANSWER: usize = 2;

/// The pictures of a folder, beside metrics and status.
pub struct PictureSite {
    folder: Arc<Folder>,
    endpoint: Endpoint,
}

impl PictureSite {
    /// A site of this folder.
    pub fn new(folder: Folder, endpoint: Endpoint) -> PictureSite {
        PictureSite { folder: Arc::new(folder), endpoint }
    }
}

impl Site for PictureSite {
    type Admission = ();

    fn descriptors(&self, path: &AssetPath) -> usize {
        if self.endpoint.has(path) { 0 } else { PER_ANSWER }
    }

    /// Opens the file and reads its header on another thread, unless the kernel has both in memory.
    async fn answer(&self, path: AssetPath, request: Request, _client: (SocketAddr, ())) -> Answer {
        if let Some(answer) = self.endpoint.find(&path).await {
            return answer;
        }
        let question = match Question::parse(&request.query) {
            Ok(question) => question,
            Err(error) => return Response::error(StatusCode::BAD_REQUEST, &error.to_string()).into(),
        };
        if !path.names_folder()
            && let Some(stored) = self.folder.find_cached(&path)
            && let Ok(opened) = open(&question, stored.size, |bytes, at| read_cached(&stored.file, bytes, at))
        {
            return answer(&question, &request, stored, opened, Answer::of_cached_file);
        }
        let folder = Arc::clone(&self.folder);
        let looked_up = tokio::task::spawn_blocking(move || look_up(&folder, &path, &question, &request));
        looked_up.await.unwrap_or_else(|error| {
            tracing::error!(%error, "file lookup failed");
            Response::error(StatusCode::INTERNAL_SERVER_ERROR, "file lookup failed").into()
        })
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

/// The answer for a path. May block.
fn look_up(folder: &Folder, path: &AssetPath, question: &Question, request: &Request) -> Answer {
    let stored = match folder.find(path) {
        Ok(Found::File(stored)) if !path.names_folder() => stored,
        Ok(Found::File(_)) => return failed(FindError::NotFound, path),
        Ok(Found::Folder) if !path.names_folder() => return with_slash(path),
        Ok(Found::Folder) => {
            let listing = folder.list(path).map(|entries| page::listing(path, &entries).into());
            return listing.unwrap_or_else(|error| failed(error, path));
        }
        Err(error) => return failed(error, path),
    };
    match open(question, stored.size, |bytes, at| stored.file.read_exact_at(bytes, at)) {
        Ok(opened) => answer(question, request, stored, opened, Answer::of_file),
        Err(error) => unusable(&error, path),
    }
}

/// Headers of a file that a request needs.
struct Opened {
    picture: Picture,
    /// The overview that is the source of the answer.
    source: Option<(Overview, Picture)>,
    /// All overviews; none unless they are asked for.
    overviews: Overviews,
}

/// Reads the headers. Damaged overviews are left out.
fn open(
    question: &Question,
    size: u64,
    read: impl Fn(&mut [u8], u64) -> io::Result<()>,
) -> Result<Opened, PictureError> {
    let picture = open_picture(size, &read)?;
    let mut opened = Opened { picture, source: None, overviews: Overviews::default() };
    match question {
        Question::Information => {
            opened.overviews = find_overviews(size, &read, &opened.picture)?;
            for overview in opened.overviews.usable.clone() {
                if let Err(error) = open_overview(size, &read, &overview) {
                    opened.overviews.leave_out(&overview, error)?;
                }
            }
        }
        Question::Transformed(steps) if steps.overviews => {
            let mut overviews = find_overviews(size, &read, &opened.picture)?;
            while let Some(overview) = steps.source(&overviews.usable).copied() {
                match open_overview(size, &read, &overview) {
                    Ok(source) => {
                        opened.source = Some((overview, source));
                        break;
                    }
                    Err(error) => overviews.leave_out(&overview, error)?,
                }
            }
        }
        _ => {}
    }
    Ok(opened)
}

/// The answer for a picture.
fn answer(
    question: &Question,
    request: &Request,
    stored: StoredFile,
    opened: Opened,
    whole: impl FnOnce(Response, File) -> Answer,
) -> Answer {
    match question {
        Question::Whole => {
            let response = respond_with(request, &stored, stored.size, opened.picture.format, "");
            whole(response, stored.file)
        }
        Question::View => page::viewer().into(),
        Question::Information => information(&opened).into(),
        Question::Transformed(steps) => transformed(request, stored, opened, steps),
    }
}

fn transformed(request: &Request, stored: StoredFile, opened: Opened, steps: &Transformation) -> Answer {
    let Opened { picture, source, .. } = opened;
    let planned = match &source {
        Some((overview, source)) => Plan::of_overview(&picture, steps, overview, source),
        None => Plan::new(&picture, steps),
    };
    let plan = match planned {
        Ok(plan) => plan,
        Err(error) => return Response::error(StatusCode::BAD_REQUEST, &error.to_string()).into(),
    };
    let header = plan.header();
    let format = Format::of_channels(plan.samples().channels);
    // What is made has no ranges: it is made from its beginning each time.
    let request = Request { range: None, ..request.clone() };
    let length = header.len() as u64 + plan.bytes();
    let mut response = respond_with(&request, &stored, length, format, &steps.tag());
    if response.status != StatusCode::OK {
        return response.into();
    }
    response.headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("none"));
    if request.method == Method::HEAD {
        return response.into();
    }
    response.content_length = Some(header.len() as u64);
    response.body = vec![BodyPart::Bytes(header)];
    let source = source.map_or(picture, |(_, source)| source);
    Answer::of_parts(response, plan.parts(&source, Arc::new(stored.file)))
}

fn respond_with(request: &Request, stored: &StoredFile, size: u64, format: Format, steps: &str) -> Response {
    let (modified_s, tag) = (stored.modified_s, stored.tag(steps));
    let made = Representation { size, modified_s, tag, content_type: format.content_type() };
    respond(request, &made, &ResponseContext { now_s: now_s(), boundary })
}

fn information(opened: &Opened) -> Response {
    let Picture { width, height, samples, format, .. } = &opened.picture;
    let usable = |Overview { factor, width, height, .. }: &Overview| json!({ "factor": factor, "width": width, "height": height });
    let damaged =
        |DamagedOverview { at, error }: &DamagedOverview| json!({ "at": at, "error": error.to_string() });
    let text = json!({
        "width": width, "height": height, "channels": samples.channels, "maximum": samples.maximum,
        "content_type": format.content_type(),
        "overviews": opened.overviews.usable.iter().map(usable).collect::<Vec<_>>(),
        "damaged_overviews": opened.overviews.damaged.iter().map(damaged).collect::<Vec<_>>(),
    });
    let body = vec![BodyPart::Bytes(format!("{text}\n").into_bytes())];
    Response::with_body(StatusCode::OK, "application/json", body).header(header::CACHE_CONTROL, "no-store")
}

/// The answer for a file that is no picture that can be served.
fn unusable(error: &PictureError, path: &AssetPath) -> Answer {
    let status = match error {
        PictureError::Read(_) => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::UNSUPPORTED_MEDIA_TYPE,
    };
    tracing::debug!(path = path.encoded(), %error, "picture cannot be served");
    Response::error(status, &error.to_string()).into()
}

fn failed(error: FindError, path: &AssetPath) -> Answer {
    if let FindError::Failed(_) | FindError::Exhausted = error {
        tracing::warn!(path = path.encoded(), %error, "file cannot be served");
    }
    let response = Response::error(error.status(), &error.to_string());
    let is_busy = response.status == StatusCode::SERVICE_UNAVAILABLE;
    if is_busy { response.header(header::RETRY_AFTER, "5") } else { response }.into()
}

/// Redirects to the folder's URL, which ends in a slash, or the links in its listing would be wrong.
fn with_slash(path: &AssetPath) -> Answer {
    let name = encode_segment(path.segments().last().unwrap_or_default());
    Response::error(StatusCode::MOVED_PERMANENTLY, "folder URLs end in a slash")
        .header(header::LOCATION, &format!("{name}/"))
        .into()
}
