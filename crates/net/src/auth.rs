//! Access control of clients, for RTSP and HTTP alike: users and rules, signed URLs and the callback, with files,
//! counters and log around [`wirepath_auth`].

mod callback;
mod counters;
mod files;
mod latency;
mod refusal;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use serde_json::json;
use wirepath_auth::{Access, Area, Attempt, Authenticator, BasicCredentials, Denial, FolderUsers, Reason};
use wirepath_auth::{Rules, RulesError, SignedPath, UrlDenial, UrlKeys, UrlKeysError, UrlSignature};
use wirepath_auth::{Users, UsersError};
use wirepath_http::{AssetPath, Request, Response};

use crate::http::now_s;
use crate::limits::client;
use crate::listener::Addresses;
use crate::log_limit::LogLimit;
use crate::metrics::Metrics;
use crate::status::Status;
use callback::{Callback, Verdict};
use counters::{Counters, Counts, Failure};

pub use callback::CallbackOptions;
pub use files::{read_url_keys, read_users};
pub use refusal::{AuthRefusal, RETRY_AFTER_S, RefusalKind};

/// Log lines about refused requests in a second.
const LINES_PER_SECOND: u32 = 1;

/// Most characters of a name or path in a log line.
const MOST_LOGGED: usize = 100;

/// Realm of challenges where no file of users has one.
const REALM: &str = "Wirepath";

/// Options of authentication. Users, keys or a callback: at least one.
#[derive(Clone, Debug)]
pub struct AuthOptions {
    /// File of users.
    pub users: Option<PathBuf>,
    /// Rules for folders.
    pub folders: Vec<FolderUsers>,
    /// Users that status and metrics are for.
    pub status: Access,
    /// Time after which a nonce expires.
    pub nonce_lifetime: Duration,
    /// File of keys for signed URLs.
    pub url_keys: Option<PathBuf>,
    /// Service that is asked about requests without a user of the file.
    pub callback: Option<CallbackOptions>,
}

/// Authentication cannot begin, or its users or keys cannot be replaced.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// A file cannot be read.
    #[error("cannot read the file of {0} {1}: {2}")]
    Read(&'static str, PathBuf, #[source] io::Error),
    /// The file is not one of users.
    #[error("in the file of users {0}: {1}")]
    Users(PathBuf, #[source] UsersError),
    /// The file is not one of keys.
    #[error("in the file of URL keys {0}: {1}")]
    UrlKeys(PathBuf, #[source] UrlKeysError),
    /// The rules contradict each other.
    #[error("rules for folders: {0}")]
    Rules(#[from] RulesError),
    /// No key for nonces.
    #[error("no random key for nonces: {0}")]
    Random(#[source] io::Error),
    /// No certificates to check the callback's with.
    #[error("cannot read the certificates that this machine trusts, for the authentication callback: {0}")]
    Roots(#[source] io::Error),
}

/// Access control of a server's clients.
pub struct AccessControl {
    authenticator: Authenticator,
    /// File of users.
    users: Option<PathBuf>,
    /// File of keys, and what it holds.
    url_keys: Option<(PathBuf, RwLock<Arc<UrlKeys>>)>,
    callback: Option<Callback>,
    /// Locked from reading a file to replacing what it held: an older reading must not come last.
    reload: Mutex<()>,
    counters: Counters,
    log: LogLimit,
    started: Instant,
}

/// A request, as far as access control looks at it.
#[derive(Clone, Copy, Debug)]
pub struct AuthRequest<'a> {
    /// Method.
    pub method: &'a str,
    /// Name of the protocol, without TLS: `rtsp` or `http`.
    pub protocol: &'a str,
    /// The request opens a file or folder. Others are for users only where there are some.
    pub opens: bool,
    /// Place that it is about.
    pub area: Area<'a>,
    /// Path of the request.
    pub path: &'a [u8],
    /// Path of the presentation, where the request is about a track.
    pub presentation: Option<&'a [u8]>,
    /// Query, without the question mark.
    pub query: &'a str,
    /// Value of `Authorization`.
    pub authorization: Option<&'a str>,
    /// Value of `User-Agent`.
    pub agent: Option<&'a str>,
    /// User that an earlier request of this connection was admitted as.
    pub admitted: Option<&'a str>,
    /// Address and port of the client.
    pub peer: SocketAddr,
    /// The connection has TLS.
    pub is_secure: bool,
}

/// Reason for which a request is admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The place is for everyone.
    Everyone,
    /// A user of this name authenticated.
    User(String),
    /// The URL is signed.
    SignedUrl,
    /// The callback allowed it.
    Callback,
}

impl AccessControl {
    /// Reads the files of users and keys.
    ///
    /// # Errors
    /// A file cannot be read or is wrong, or rules contradict each other.
    pub fn open(options: &AuthOptions) -> Result<Arc<AccessControl>, AuthError> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| AuthError::Random(error.into()))?;
        let users = match &options.users {
            Some(file) => read_users(file)?,
            None => Users::none(REALM),
        };
        let rules = Rules::new(&options.folders, options.status.clone())?;
        let url_keys = options
            .url_keys
            .as_ref()
            .map(|file| read_url_keys(file).map(|keys| (file.clone(), RwLock::new(Arc::new(keys)))));
        let callback = options.callback.clone().map(Callback::open).transpose();
        let control = AccessControl {
            authenticator: Authenticator::new(users, rules, &key, options.nonce_lifetime),
            users: options.users.clone(),
            url_keys: url_keys.transpose()?,
            callback: callback.map_err(AuthError::Roots)?,
            reload: Mutex::default(),
            counters: Counters::default(),
            log: LogLimit::new(LINES_PER_SECOND),
            started: Instant::now(),
        };
        control.warn_of_unknown_users();
        Ok(Arc::new(control))
    }

    /// Reads the files of users and keys again, and forgets answers of the callback; a broken file leaves what it
    /// held as it is. Waits for storage.
    pub fn reload(&self) {
        let _alone = self.reload.lock();
        if let Some(file) = &self.users {
            match read_users(file) {
                Ok(users) => {
                    tracing::info!(file = %file.display(), users = users.count(), "users are read again");
                    self.authenticator.replace_users(users);
                    self.warn_of_unknown_users();
                }
                Err(error) => {
                    tracing::error!(%error, "the users stay as they were; mend the file and send SIGHUP")
                }
            }
        }
        if let Some((file, current)) = &self.url_keys {
            match read_url_keys(file) {
                Ok(keys) => {
                    tracing::info!(file = %file.display(), keys = keys.count(), "URL keys are read again");
                    *current.write() = Arc::new(keys);
                }
                Err(error) => {
                    tracing::error!(%error, "the URL keys stay as they were; mend the file and send SIGHUP")
                }
            }
        }
        if let Some(callback) = &self.callback {
            callback.forget();
        }
    }

    /// Replaces the rules for folders and for status; contradictions leave them as they are.
    pub fn replace_rules(&self, folders: &[FolderUsers], status: Access) -> Result<(), RulesError> {
        self.authenticator.replace_rules(Rules::new(folders, status)?);
        self.warn_of_unknown_users();
        Ok(())
    }

    /// Adds counters and users to metrics and status. Without authentication nothing is counted.
    pub fn register(control: Option<&Arc<AccessControl>>, metrics: &mut Metrics, status: &mut Status) {
        let counted = control.cloned();
        metrics.register("auth", Counts::METRICS, move || {
            counted.as_ref().map_or_else(Counts::default, |control| control.counters.snapshot())
        });
        if let Some(control) = control.cloned() {
            status.add("auth", move || {
                json!({
                    "users": control.users.as_ref().map(|_| control.authenticator.users().count()),
                    "url_keys": control.url_keys.as_ref().map(|(_, keys)| keys.read().count()),
                    "callback": control.callback.as_ref().map(Callback::shown_url),
                })
            });
        }
    }

    /// Admits a request, and returns why. A refusal is counted, logged and held back as long as it has to be.
    ///
    /// # Errors
    /// The refusal.
    pub async fn check(&self, request: AuthRequest<'_>) -> Result<Admission, AuthRefusal> {
        let attempt = self.attempt(&request);
        if self.authenticator.is_public(request.area) {
            return Ok(Admission::Everyone);
        }
        if request.opens && request.area != Area::Status {
            if let Some(checked) = self.check_url(&request) {
                return checked;
            }
            if let Some(callback) = &self.callback
                && !self.authenticator.is_of_user(&attempt)
            {
                return self.ask(callback, &request, &attempt).await;
            }
        }
        if self.users.is_none() {
            return self.without_users(&request);
        }
        match self.authenticator.check(&attempt) {
            Ok(user) => Ok(user.map_or(Admission::Everyone, Admission::User)),
            Err(denial) => Err(self.deny(denial, &request).await),
        }
    }

    /// Admits a request over HTTP, or returns the response that denies it. Notes the user of the connection.
    pub async fn check_http(
        &self,
        area: Area<'_>,
        path: &AssetPath,
        request: &Request,
        (Addresses { peer, is_secure, .. }, user): (Addresses, &mut Option<String>),
    ) -> Result<(), Response> {
        let admission = self.check(AuthRequest {
            method: request.method.as_str(),
            protocol: "http",
            opens: true,
            area,
            path: path.as_bytes(),
            presentation: None,
            query: &request.query,
            authorization: request.authorization.as_deref(),
            agent: request.agent.as_deref(),
            admitted: user.as_deref(),
            peer,
            is_secure,
        });
        if let Admission::User(name) = admission.await.map_err(|refusal| refusal.http_response())? {
            *user = Some(name);
        }
        Ok(())
    }

    fn attempt<'a>(&self, request: &AuthRequest<'a>) -> Attempt<'a> {
        let AuthRequest { method, area, path, presentation, authorization, admitted, .. } = *request;
        let (peer, is_secure) = (request.peer, request.is_secure);
        let (counted, now_ms) = (client(peer.ip()), self.started.elapsed().as_millis() as u64);
        let client = peer.ip().to_canonical();
        Attempt {
            method,
            area,
            path,
            presentation,
            authorization,
            is_secure,
            admitted,
            client,
            counted,
            now_ms,
        }
    }

    /// Decides about a request with a signed URL; none if it has no signature, or there are no keys.
    fn check_url(&self, request: &AuthRequest<'_>) -> Option<Result<Admission, AuthRefusal>> {
        let keys = Arc::clone(&self.url_keys.as_ref()?.1.read());
        let path = SignedPath { path: request.path, presentation: request.presentation };
        let checked = match UrlSignature::parse(request.query) {
            Ok(None) => return None,
            Ok(Some(signature)) => keys.check(&signature, path, request.peer.ip(), now_s()),
            Err(denial) => Err(denial),
        };
        Some(match checked {
            Ok(()) => {
                self.counters.url_admissions.increment();
                Ok(Admission::SignedUrl)
            }
            Err(denial) => {
                let failure = match denial {
                    UrlDenial::Malformed => Failure::UrlMalformed,
                    UrlDenial::Wrong => Failure::UrlWrong,
                    UrlDenial::Expired => Failure::UrlExpired,
                    UrlDenial::OtherAddress => Failure::UrlAddress,
                };
                Err(self.refuse(failure, RefusalKind::Forbidden, denial.to_string(), (None, request)))
            }
        })
    }

    /// Has the callback decide about a request.
    async fn ask(
        &self,
        callback: &Callback,
        request: &AuthRequest<'_>,
        attempt: &Attempt<'_>,
    ) -> Result<Admission, AuthRefusal> {
        let basic = attempt.basic();
        if let Some(BasicCredentials { user, .. }) = &basic
            && let Err(denial) = self.authenticator.check_try(user, attempt)
        {
            return Err(self.deny(denial, request).await);
        }
        // The tracks of a presentation are one question.
        let path = request.presentation.unwrap_or(request.path);
        let question = question(request, path, basic.as_ref());
        let verdict = callback.ask(request.peer.ip(), (path, question), &self.counters).await;
        let user = basic.map(|basic| basic.user);
        match verdict {
            Verdict::Allowed => return Ok(Admission::Callback),
            Verdict::Failed => {
                let why = "the authentication callback failed; try again later".to_owned();
                let kind = RefusalKind::Unavailable;
                return Err(self.refuse(Failure::CallbackFailed, kind, why, (user, request)));
            }
            Verdict::Unauthorized | Verdict::Forbidden => {}
        }
        let denial = self.authenticator.deny(user, attempt);
        if verdict == Verdict::Unauthorized && !denial.challenges.is_empty() {
            return Err(self.deny(denial, request).await);
        }
        let why = "the authentication callback refuses this request".to_owned();
        let refusal = self.refuse(Failure::Callback, RefusalKind::Forbidden, why, (denial.user, request));
        hold_back(denial.delay).await;
        Err(refusal)
    }

    /// Decides about a request that nobody else decides about, where there are no users.
    fn without_users(&self, request: &AuthRequest<'_>) -> Result<Admission, AuthRefusal> {
        let (failure, why) = match request.area {
            // There is no session that it could be about.
            Area::Path(_) if !request.opens => return Ok(Admission::Everyone),
            Area::Path(_) => {
                (Failure::Unsigned, "the URL is not signed, and this server opens signed URLs only")
            }
            Area::Status => (
                Failure::Forbidden,
                "status and metrics need a user: start the server with --users FILE, or --status-users - for everyone",
            ),
        };
        Err(self.refuse(failure, RefusalKind::Forbidden, why.to_owned(), (None, request)))
    }

    /// Counts, logs and holds back the denial of a user.
    async fn deny(&self, denial: Denial, request: &AuthRequest<'_>) -> AuthRefusal {
        let Denial { reason, user, challenges, delay } = denial;
        let why = reason.to_string();
        let kind = match reason {
            Reason::Forbidden => RefusalKind::Forbidden,
            Reason::Slowed => RefusalKind::Slowed,
            _ => RefusalKind::Challenge(challenges),
        };
        let failure = match reason {
            Reason::Missing => {
                self.counters.challenges.increment();
                return AuthRefusal { kind, why };
            }
            Reason::Stale => {
                self.counters.stale_nonces.increment();
                return AuthRefusal { kind, why };
            }
            Reason::Wrong => Failure::Wrong,
            Reason::Malformed(_) => Failure::Malformed,
            Reason::Forbidden => Failure::Forbidden,
            Reason::Slowed => Failure::Slowed,
        };
        let refusal = self.refuse(failure, kind, why, (user, request));
        hold_back(delay).await;
        refusal
    }

    /// Counts and logs a refusal.
    fn refuse(
        &self,
        failure: Failure,
        kind: RefusalKind,
        why: String,
        (user, request): (Option<String>, &AuthRequest<'_>),
    ) -> AuthRefusal {
        self.counters.failures.increment(failure);
        if let Some(suppressed) = self.log.pass(Instant::now()) {
            let short = |text: &str| text.chars().take(MOST_LOGGED).collect::<String>();
            let (user, path) = (user.as_deref().map(short), short(&String::from_utf8_lossy(request.path)));
            // Debug form: names may hold line ends.
            tracing::warn!(peer = %request.peer, ?user, ?path, suppressed, "authentication failed: {why}");
        }
        AuthRefusal { kind, why }
    }

    fn warn_of_unknown_users(&self) {
        let users = self.authenticator.unknown_users();
        if let Some(file) = self.users.as_ref().filter(|_| !users.is_empty()) {
            tracing::warn!(?users, file = %file.display(), "rules name users that the file does not have");
        }
    }
}

async fn hold_back(delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}

/// The question to the callback: fields as MediaMTX's `authHTTPAddress` sends them, and the user agent. Credentials are
/// those that came over TLS.
fn question(request: &AuthRequest<'_>, path: &[u8], basic: Option<&BasicCredentials>) -> Vec<u8> {
    let token = request.authorization.filter(|_| request.is_secure).and_then(bearer);
    let question = json!({
        "user": basic.map_or("", |basic| &basic.user),
        "password": basic.map_or("", |basic| &basic.password),
        "token": token.unwrap_or_default(),
        "ip": request.peer.ip().to_canonical().to_string(),
        "action": "read",
        "path": String::from_utf8_lossy(path),
        "protocol": format!("{}{}", request.protocol, if request.is_secure { "s" } else { "" }),
        "id": null,
        "query": request.query,
        "userAgent": request.agent.unwrap_or_default(),
    });
    question.to_string().into_bytes()
}

/// The token of `Authorization: Bearer` (RFC 6750 section 2.1).
fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("Bearer").then(|| token.trim())
}
