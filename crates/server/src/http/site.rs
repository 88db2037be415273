//! Answers of the library: files, and folders as listings.

use super::listing::{self, Links};
use crate::library::{FindError, FolderListing, Found, Library};
use http::{StatusCode, header};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use wirepath_http::{AssetPath, Request, Response, ResponseContext, encode_segment, respond};
use wirepath_net::http::{Answer, Endpoint, Site, now_s};

/// Files of a folder that are looked into for its listing, and bytes of each; more would keep the client
/// waiting.
const SNIFFED: usize = 256;
const SNIFFED_BYTES: usize = 4096;

/// The files of a library, beside metrics and status.
pub struct LibrarySite {
    library: Arc<Library>,
    endpoint: Endpoint,
    /// Port that listings link to for playing.
    rtsp_port: u16,
}

impl LibrarySite {
    /// A site of these files, which are played from this port.
    pub fn new(library: Arc<Library>, endpoint: Endpoint, rtsp_port: u16) -> LibrarySite {
        LibrarySite { library, endpoint, rtsp_port }
    }
}

impl Site for LibrarySite {
    /// Looks in the library off this thread: storage may be slow.
    async fn answer(&self, path: AssetPath, request: Request, local: SocketAddr) -> Answer {
        if let Some(answer) = self.endpoint.find(&path) {
            return answer;
        }
        let (library, rtsp_port) = (Arc::clone(&self.library), self.rtsp_port);
        let looked_up = tokio::task::spawn_blocking(move || {
            let links = Links::new(&request.host, local, rtsp_port);
            find(&library, &path, &request, &links)
        });
        looked_up.await.unwrap_or_else(|error| {
            tracing::error!(%error, "looking up a file failed");
            Response::error(StatusCode::INTERNAL_SERVER_ERROR, "the file could not be looked up").into()
        })
    }
}

fn find(library: &Library, path: &AssetPath, request: &Request, links: &Links) -> Answer {
    match library.find(path) {
        Ok(Found::File(_)) if path.names_folder() => not_found(FindError::NotFound, path),
        Ok(Found::File(asset)) => {
            let name = path.segments().last().unwrap_or_default();
            let context = ResponseContext { now_s: now_s(), boundary: boundary() };
            let response = respond(request, &asset.representation(name), &context);
            Answer { response, file: Some(Arc::new(asset.file)) }
        }
        Ok(Found::Folder) if !path.names_folder() => with_slash(path),
        Ok(Found::Folder) => match library.list(path) {
            Ok(mut folder) => {
                note_streams(library, path, &mut folder);
                listing::respond(request.accept.listing(), path, &folder, links).into()
            }
            Err(error) => not_found(error, path),
        },
        Err(error) => not_found(error, path),
    }
}

/// Notes which files of a folder can be played, as far as their beginnings tell.
fn note_streams(library: &Library, path: &AssetPath, folder: &mut FolderListing) {
    let named = folder.entries.iter_mut().filter(|entry| listing::is_named_as_stream(entry));
    for entry in named.take(SNIFFED) {
        let file = AssetPath::from_decoded(&[path.as_bytes(), &entry.name].join(&b'/'));
        entry.is_stream = file.ok().and_then(|file| library.find_file(&file).ok()).map(|asset| {
            let mut head = [0; SNIFFED_BYTES];
            let length = asset.file.read_at(&mut head, 0).unwrap_or(0);
            begins_as_stream(&head[..length])
        });
    }
}

/// Returns whether sync bytes are where the packets of a transport stream have them (ISO/IEC 13818-1 section
/// 2.4.3.2): each 188 bytes, or 192 or 204 with what some recorders and modulators add.
fn begins_as_stream(head: &[u8]) -> bool {
    let is_sync = |at: usize| head.get(at).is_none_or(|&byte| byte == 0x47);
    let is_begin =
        |at: usize| [188, 192, 204].iter().any(|length| (0..3).all(|packet| is_sync(at + packet * length)));
    // Of a short file only its first byte can begin a packet.
    let last = head.len().saturating_sub(2 * 204 + 1);
    head.len() >= 188 && (0..=last).any(is_begin)
}

fn not_found(error: FindError, path: &AssetPath) -> Answer {
    if let FindError::Io(_) | FindError::Exhausted = error {
        tracing::warn!(path = path.encoded(), %error, "file cannot be served");
    }
    let response = Response::error(error.http_status(), &error.to_string());
    let busy = response.status == StatusCode::SERVICE_UNAVAILABLE;
    if busy { response.header(header::RETRY_AFTER, "5") } else { response }.into()
}

/// A folder's address ends in a slash, or the links in its list would lead elsewhere. A relative address
/// keeps what a proxy put in front.
fn with_slash(path: &AssetPath) -> Answer {
    let name = encode_segment(path.segments().last().unwrap_or_default());
    Response::error(StatusCode::MOVED_PERMANENTLY, "this is a folder: its address ends in a slash")
        .header(header::LOCATION, &format!("{name}/"))
        .into()
}

/// Random, so that no file can hold it on purpose; without randomness, the parts are still right for any
/// other file.
fn boundary() -> u128 {
    let mut bytes = [0; 16];
    if let Err(error) = getrandom::fill(&mut bytes) {
        tracing::warn!(%error, "no random boundary for the parts of a body");
    }
    u128::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: A file is offered for playing if it begins as a transport stream does.
    #[test]
    fn streams_are_told_from_other_files() {
        let packets = |length: usize| [vec![0x47], vec![0; length - 1]].concat().repeat(3);
        for length in [188, 192, 204] {
            assert!(begins_as_stream(&packets(length)), "packets of {length} bytes");
        }
        assert!(begins_as_stream(&[vec![1; 100], packets(188)].concat()), "the first packet is cut");
        assert!(begins_as_stream(&packets(188)[..188]), "one packet");
        assert!(!begins_as_stream(b"") && !begins_as_stream(b"G"), "too short for a packet");
        assert!(!begins_as_stream(&b"const text = 'Good Golly'; ".repeat(100)));
    }
}
