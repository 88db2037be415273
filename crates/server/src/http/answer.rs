//! What to answer: one of our own two names, or what the library has.

use super::door::Shared;
use super::listing::{self, Links};
use crate::library::{FindError, Found, Library};
use crate::metrics;
use std::fs::File;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use wirepath_doors::now_s;
use wirepath_media::http::{
    AssetPath, Circumstances, Method, Part, Request, Response, Status, Target, encode_segment, respond,
    respond_to_method,
};

/// An answer, and the file that its extents are of.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) response: Response,
    pub(super) file: Option<Arc<File>>,
}

impl From<Response> for Answer {
    fn from(response: Response) -> Self {
        Self { response, file: None }
    }
}

impl Shared {
    /// The answer to a request that came to this address of ours.
    pub(super) async fn answer(&self, request: Request, local: SocketAddr) -> Answer {
        if let Some(response) = respond_to_method(request.method) {
            return response.into();
        }
        let Target::Path(path) = &request.target else {
            return Response::error(Status::BadRequest, "this method needs a path").into();
        };
        let head_only = request.method == Method::Head;
        let answer = match path.as_bytes() {
            b"metrics" => generated(metrics::CONTENT_TYPE, self.site.metrics.text()),
            b"api/status" => {
                let json = self.site.status.json(&self.site.metrics, Instant::now());
                generated("application/json", format!("{json:#}\n"))
            }
            _ => self.stored(path.clone(), request, local).await,
        };
        if head_only { Answer { response: answer.response.without_body(), ..answer } } else { answer }
    }

    /// Looks in the library, off this thread: a disk may have to turn.
    async fn stored(&self, path: AssetPath, request: Request, local: SocketAddr) -> Answer {
        let Some(library) = self.site.library.clone() else {
            return Response::error(Status::NotFound, "here are /metrics and /api/status, and nothing else")
                .into();
        };
        let rtsp_port = self.options.rtsp_port;
        let looked_up = tokio::task::spawn_blocking(move || {
            let links = Links::new(&request.host, local, rtsp_port);
            find(&library, &path, &request, &links)
        });
        looked_up.await.unwrap_or_else(|error| {
            tracing::error!(%error, "looking a file up failed");
            Response::error(Status::InternalServerError, "the file could not be looked up").into()
        })
    }
}

/// Something made for this moment.
fn generated(content_type: &str, text: String) -> Answer {
    Response::with_body(Status::Ok, content_type, vec![Part::Bytes(text.into_bytes())])
        .header("Cache-Control", "no-store")
        .into()
}

fn find(library: &Library, path: &AssetPath, request: &Request, links: &Links) -> Answer {
    match library.find(path) {
        Ok(Found::File(_)) if path.names_folder() => not_found(FindError::NotFound, path),
        Ok(Found::File(asset)) => {
            let name = path.segments().last().unwrap_or_default();
            let circumstances = Circumstances { now_s: now_s(), boundary: boundary() };
            let response = respond(request, &asset.for_http(name), &circumstances);
            Answer { response, file: Some(Arc::new(asset.file)) }
        }
        Ok(Found::Folder) if !path.names_folder() => with_slash(path),
        Ok(Found::Folder) => match library.list(path) {
            Ok(folder) => listing::respond(request.accept.listing(), path, &folder, links).into(),
            Err(error) => not_found(error, path),
        },
        Err(error) => not_found(error, path),
    }
}

fn not_found(error: FindError, path: &AssetPath) -> Answer {
    if let FindError::Io(_) | FindError::Exhausted = error {
        tracing::warn!(path = path.encoded(), %error, "a file cannot be served");
    }
    let response = Response::error(error.http_status(), &error.to_string());
    let busy = response.status == Status::ServiceUnavailable;
    if busy { response.header("Retry-After", "5") } else { response }.into()
}

/// A folder's address ends in a slash, or the links in its list would lead elsewhere. A relative address keeps what a
/// proxy put in front.
fn with_slash(path: &AssetPath) -> Answer {
    let name = encode_segment(path.segments().last().unwrap_or_default());
    Response::error(Status::MovedPermanently, "this is a folder: its address ends in a slash")
        .header("Location", format!("{name}/"))
        .into()
}

/// Random, so that no file can hold it on purpose; without randomness, the parts are still right for any other file.
fn boundary() -> u128 {
    let mut bytes = [0; 16];
    if let Err(error) = getrandom::fill(&mut bytes) {
        tracing::warn!(%error, "no random boundary for the parts of a body");
    }
    u128::from_ne_bytes(bytes)
}
