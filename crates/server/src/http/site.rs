//! Responses of the library: files, and folders as listings.

use super::administration;
use super::asset_rate::{AssetRates, asset_of};
use super::kept_files::KeptFiles;
use super::loans::LoanControl;
use super::response_fields::{CurrentFields, ResponseFields};
use super::session_end::{SessionEnd, session_of};
use super::{listing, page};
use crate::admission::Admission;
use crate::archive::respond_with_recordings;
use crate::catalog::{Catalog, CurrentCatalog};
use crate::library::{Asset, FindError, FolderListing, Found, Library};
use crate::rtsp::TunnelEntrance;
use http::{HeaderMap, Method, StatusCode, header};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use wirepath_auth::Area;
use wirepath_http::{
    AssetPath, Representation, Request, Response, ResponseContext, Target, encode_segment, respond,
};
use wirepath_media::container::is_movie;
use wirepath_media::ts::check_head;
use wirepath_net::Addresses;
use wirepath_net::auth::AccessControl;
use wirepath_net::http::{Answer, Endpoint, Prepared, Site, TakenOver, boundary, now_s};
use wirepath_net::loans;

/// Most files of a folder whose beginnings are read for its listing, and bytes that are read of each.
const SNIFFED: usize = 256;
const SNIFFED_BYTES: usize = 4096;

/// The files of a library, together with the status page, metrics and status.
pub struct LibrarySite {
    catalog: Arc<CurrentCatalog>,
    kept_files: Arc<KeptFiles>,
    endpoint: Endpoint,
    /// RTSP port for links in listings.
    rtsp_port: u16,
    admission: Option<Arc<Admission>>,
    access: Option<Arc<AccessControl>>,
    tunnels: Option<TunnelEntrance>,
    session_end: Option<SessionEnd>,
    loans: Option<LoanControl>,
    asset_rates: Option<AssetRates>,
    fields: Arc<CurrentFields>,
}

impl LibrarySite {
    /// A site of these files, which are played at this RTSP port, in a process that may have `open_files`
    /// open files.
    pub fn new(library: Arc<Library>, endpoint: Endpoint, rtsp_port: u16, open_files: u64) -> LibrarySite {
        LibrarySite::of(CurrentCatalog::new(Catalog::of(library)), endpoint, rtsp_port, open_files)
    }

    /// A site of the current catalog: its files, and the recordings of its archives.
    pub(crate) fn of(
        catalog: Arc<CurrentCatalog>,
        endpoint: Endpoint,
        rtsp_port: u16,
        open_files: u64,
    ) -> LibrarySite {
        let kept_files = KeptFiles::new(open_files);
        LibrarySite {
            catalog,
            kept_files,
            endpoint,
            rtsp_port,
            admission: None,
            access: None,
            tunnels: None,
            session_end: None,
            loans: None,
            asset_rates: None,
            fields: Arc::default(),
        }
    }

    /// The site that refuses downloads while sessions are late.
    pub(crate) fn yielding_to(self, admission: Arc<Admission>) -> LibrarySite {
        LibrarySite { admission: Some(admission), ..self }
    }

    /// The site with additional response fields, which may be replaced while it serves.
    pub(crate) fn with_fields(self, fields: Arc<CurrentFields>) -> LibrarySite {
        LibrarySite { fields, ..self }
    }

    /// The site with RTSP through tunnels.
    pub(crate) fn with_tunnels(self, entrance: TunnelEntrance) -> LibrarySite {
        LibrarySite { tunnels: Some(entrance), ..self }
    }

    /// The site on which administrators can end sessions.
    pub(crate) fn with_session_end(self, session_end: SessionEnd) -> LibrarySite {
        LibrarySite { session_end: Some(session_end), ..self }
    }

    /// The site on which administrators can set the rule of lending.
    pub(crate) fn with_loans(self, loans: LoanControl) -> LibrarySite {
        LibrarySite { loans: Some(loans), ..self }
    }

    /// The site with the bit rates of assets.
    pub(crate) fn with_asset_rates(self, asset_rates: AssetRates) -> LibrarySite {
        LibrarySite { asset_rates: Some(asset_rates), ..self }
    }

    /// Returns whether a path is that of the status page, the status, the metrics, a session, an asset's rates or
    /// the rule of lending.
    fn is_status(&self, path: &AssetPath) -> bool {
        let is_part = session_of(path).is_some() || asset_of(path).is_some() || self.loans_at(path).is_some();
        self.endpoint.has(path) || is_page(path) || is_part
    }

    /// The rule of lending, if this is its path.
    fn loans_at(&self, path: &AssetPath) -> Option<&LoanControl> {
        self.loans.as_ref().filter(|_| loans::is_path(path))
    }

    /// The site for users only, or for everyone.
    pub(crate) fn for_users(self, access: Option<Arc<AccessControl>>) -> LibrarySite {
        LibrarySite { access, ..self }
    }
}

/// Descriptors of a download: its file, and a second one of its connection for the engine.
const PER_DOWNLOAD: usize = 2;

/// Catalog that rules admitted a request to; none without rules.
#[derive(Default)]
pub struct Admitted(Option<Arc<Catalog>>);

impl Site for LibrarySite {
    type Admission = Admitted;

    async fn admit(
        &self,
        path: &AssetPath,
        request: &Request,
        (addresses, user): (Addresses, &mut Option<String>),
    ) -> Result<Self::Admission, Response> {
        if matches!(request.method, Method::DELETE | Method::PUT) {
            administration::admit(self.access.as_deref(), path, request, (addresses, user)).await?;
            return Ok(Admitted(None));
        }
        let Some(access) = &self.access else { return Ok(Admitted(None)) };
        let area = if self.is_status(path) { Area::Status } else { Area::Path(path.as_bytes()) };
        loop {
            let catalog = self.catalog.get();
            access.check_http(area, path, request, (addresses, &mut *user)).await?;
            // Else a reload replaced the catalog meanwhile, perhaps with its rules: the new ones decide.
            if self.catalog.is_current(&catalog) {
                return Ok(Admitted(Some(catalog)));
            }
        }
    }

    /// Small files that were requested lately.
    fn prepared(&self, path: &AssetPath, request: &Request, admission: &Self::Admission) -> Option<Prepared> {
        let is_refused =
            || self.admission.as_ref().is_some_and(|admission| admission.refuses_downloads().is_some());
        if !request.is_plain_get() || self.is_status(path) || is_refused() {
            return None;
        }
        let catalog = admission.0.clone().unwrap_or_else(|| self.catalog.get());
        let mut prepared = self.kept_files.prepared(&catalog.library, path, now_s())?;
        let fields = self.fields.get();
        if let Some(value) = fields.cache_control(path.as_bytes()) {
            prepared.fields.insert(header::CACHE_CONTROL, value.clone());
        }
        if let Some(value) = fields.content_disposition(path, &request.query) {
            prepared.fields.insert(header::CONTENT_DISPOSITION, value);
        }
        Some(prepared)
    }

    /// Pages of other origins must not see who watches what: only files and folders get these fields.
    fn fields(&self, request: &Request) -> HeaderMap {
        match &request.target {
            Target::Path(path) if self.is_status(path) => HeaderMap::new(),
            _ => self.fields.get().of_request(request),
        }
    }

    fn accepts(&self, method: &Method, path: &AssetPath) -> Option<usize> {
        match *method {
            Method::DELETE => self.session_end.as_ref().and(session_of(path)).map(|_| 0),
            Method::PUT => self.loans_at(path).map(|_| loans::MAX_BODY_BYTES),
            _ => None,
        }
    }

    async fn act(
        &self,
        path: AssetPath,
        _request: Request,
        body: Vec<u8>,
        client: (SocketAddr, Option<&str>),
    ) -> Answer {
        if let Some(loans) = self.loans_at(&path) {
            return loans.set(&body, client).into();
        }
        let ended = self.session_end.as_ref().zip(session_of(&path));
        ended.map_or_else(not_a_session, |(session_end, number)| session_end.end(number, client)).into()
    }

    fn takes_over(&self, request: &Request) -> bool {
        self.tunnels.as_ref().is_some_and(|tunnels| tunnels.takes(request))
    }

    /// RTSP authenticates each request inside the tunnel.
    async fn take_over(&self, request: Request, client: TakenOver) -> io::Result<StatusCode> {
        match &self.tunnels {
            Some(tunnels) => tunnels.serve(request, client).await,
            None => Ok(StatusCode::NOT_FOUND), // it takes nothing over
        }
    }

    fn descriptors(&self, path: &AssetPath) -> usize {
        if self.is_status(path) { 0 } else { PER_DOWNLOAD }
    }

    /// Looks up the file on another thread, unless its name is in the kernel's cache: storage may be slow.
    async fn answer(
        &self,
        path: AssetPath,
        request: Request,
        (local, admission): (SocketAddr, Self::Admission),
    ) -> Answer {
        if let Some(answer) = self.endpoint.find(&path).await {
            return answer;
        }
        if is_page(&path) {
            return page::respond().into();
        }
        if let Some(loans) = self.loans_at(&path) {
            return loans.show().into();
        }
        if let Some((rates, name)) = self.asset_rates.as_ref().zip(asset_of(&path)) {
            return rates.answer(name).await.into();
        }
        if let Some(why) = self.admission.as_ref().and_then(|admission| admission.refuses_downloads()) {
            return busy(why);
        }
        let catalog = admission.0.unwrap_or_else(|| self.catalog.get());
        if let Some(open) = self.kept_files.find(&catalog.library, &path, now_s()) {
            let response = respond_with(&request, &open.representation);
            return Answer::of_cached_file(self.fields.get().of_file(response, &path, &request), open.file);
        }
        let rtsp_port = self.rtsp_port;
        let fields = self.fields.get();
        let looked_up = tokio::task::spawn_blocking(move || {
            // Links in a folder's listing are relative to its URL, which ends in a slash.
            let archive = path.names_folder().then(|| catalog.archives.find(path.as_bytes())).flatten();
            if let Some(response) = archive.and_then(|folder| respond_with_recordings(folder, &request.query))
            {
                return response.into();
            }
            let rtsp = listing::rtsp_url(&request.host, local, rtsp_port);
            find(&catalog.library, &path, &request, (&rtsp, &fields))
        });
        looked_up.await.unwrap_or_else(|error| {
            tracing::error!(%error, "file lookup failed");
            Response::error(StatusCode::INTERNAL_SERVER_ERROR, "file lookup failed").into()
        })
    }
}

/// Returns whether a path is that of the status page. A folder of this name is still found: its URL ends in a
/// slash.
fn is_page(path: &AssetPath) -> bool {
    path.as_bytes() == b"status" && !path.names_folder()
}

fn find(
    library: &Library,
    path: &AssetPath,
    request: &Request,
    (rtsp, fields): (&str, &ResponseFields),
) -> Answer {
    match library.find(path) {
        Ok(Found::File(_)) if path.names_folder() => not_found(FindError::NotFound, path),
        Ok(Found::File(Asset { file, version })) => {
            let representation = version.representation(path.segments().last().unwrap_or_default());
            let response = respond_with(request, &representation);
            Answer::of_file(fields.of_file(response, path, request), file)
        }
        Ok(Found::Folder) if !path.names_folder() => with_slash(path, &request.query),
        Ok(Found::Folder) => match library.list(path) {
            Ok(mut folder) => {
                note_streams(library, path, &mut folder);
                listing::respond(request.listing, path, &folder, rtsp).into()
            }
            Err(error) => not_found(error, path),
        },
        Err(error) => not_found(error, path),
    }
}

fn not_a_session() -> Response {
    Response::error(StatusCode::NOT_FOUND, "no such session")
}

fn respond_with(request: &Request, file: &Representation) -> Response {
    respond(request, file, &ResponseContext { now_s: now_s(), boundary })
}

/// Marks the files of a folder that can be played, by their beginnings.
fn note_streams(library: &Library, path: &AssetPath, folder: &mut FolderListing) {
    let named = folder.entries.iter_mut().filter(|entry| listing::is_named_as_stream(entry));
    for entry in named.take(SNIFFED) {
        let file = AssetPath::from_decoded(&[path.as_bytes(), &entry.name].join(&b'/'));
        entry.is_stream = file.ok().and_then(|file| library.find_file(&file).ok()).map(|asset| {
            let mut head = [0; SNIFFED_BYTES];
            let length = asset.file.read_at(&mut head, 0).unwrap_or(0);
            is_movie(&head[..length]) || check_head(&head[..length], length < head.len()).is_ok()
        });
    }
}

fn busy(why: &str) -> Answer {
    Response::error(StatusCode::SERVICE_UNAVAILABLE, why).header(header::RETRY_AFTER, "5").into()
}

fn not_found(error: FindError, path: &AssetPath) -> Answer {
    if let FindError::Io(_) | FindError::Exhausted | FindError::Unread = error {
        tracing::warn!(path = path.encoded(), %error, "file cannot be served");
    }
    let response = Response::error(error.http_status(), &error.to_string());
    let busy = response.status == StatusCode::SERVICE_UNAVAILABLE;
    if busy { response.header(header::RETRY_AFTER, "5") } else { response }.into()
}

/// Redirects to the folder's URL, which ends in a slash; otherwise the links in its listing would be wrong. A
/// relative URL keeps a prefix that a proxy added. The query is kept, since it may contain the client's
/// signature.
fn with_slash(path: &AssetPath, query: &str) -> Answer {
    let name = encode_segment(path.segments().last().unwrap_or_default());
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    Response::error(StatusCode::MOVED_PERMANENTLY, "folder URLs end in a slash")
        .header(header::LOCATION, &format!("{name}/{query}"))
        .into()
}
