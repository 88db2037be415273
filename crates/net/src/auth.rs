//! Authentication of clients, for RTSP and HTTP alike: the file of users, counters and log around
//! [`wirepath_auth`].

mod counters;

use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{StatusCode, header};
use parking_lot::Mutex;
use serde_json::json;
use wirepath_auth::{Access, Area, Attempt, Authenticator, Denial, FolderUsers, Reason, Rules, RulesError};
use wirepath_auth::{Users, UsersError};
use wirepath_http::{AssetPath, Request, Response};

use crate::limits::client;
use crate::listener::Addresses;
use crate::log_limit::LogLimit;
use crate::metrics::Metrics;
use crate::status::Status;
use counters::{Counters, Counts, Failure};

/// Longest file of users, in bytes.
const MOST_FILE_BYTES: u64 = 16 << 20;

/// Log lines about wrong tries in a second.
const LINES_PER_SECOND: u32 = 1;

/// Most characters of a name or path in a log line.
const MOST_LOGGED: usize = 100;

/// Seconds after which a client whose tries are not looked at may try again.
pub const RETRY_AFTER_S: &str = "10";

/// Options of authentication.
#[derive(Clone, Debug)]
pub struct AuthOptions {
    /// File of users.
    pub users: PathBuf,
    /// Rules for folders.
    pub folders: Vec<FolderUsers>,
    /// Users that status and metrics are for.
    pub status: Access,
    /// Time after which a nonce expires.
    pub nonce_lifetime: Duration,
}

/// Authentication cannot begin, or its users cannot be replaced.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The file cannot be read.
    #[error("cannot read the file of users {0}: {1}")]
    Read(PathBuf, #[source] io::Error),
    /// The file is not one of users.
    #[error("in the file of users {0}: {1}")]
    Users(PathBuf, #[source] UsersError),
    /// The rules contradict each other.
    #[error("rules for folders: {0}")]
    Rules(#[from] RulesError),
    /// No key for nonces.
    #[error("no random key for nonces: {0}")]
    Random(#[source] io::Error),
}

/// Authentication of a server's clients.
pub struct AccessControl {
    authenticator: Authenticator,
    file: PathBuf,
    /// Locked from reading the file to replacing the users: an older reading must not come last.
    reload: Mutex<()>,
    counters: Counters,
    log: LogLimit,
    started: Instant,
}

/// A request, as far as authentication looks at it.
#[derive(Clone, Copy, Debug)]
pub struct AuthRequest<'a> {
    /// Method.
    pub method: &'a str,
    /// Place that it is about.
    pub area: Area<'a>,
    /// Path of the request.
    pub path: &'a [u8],
    /// Path of the presentation, where the request is about a track.
    pub presentation: Option<&'a [u8]>,
    /// Value of `Authorization`.
    pub authorization: Option<&'a str>,
    /// User that an earlier request of this connection was admitted as.
    pub admitted: Option<&'a str>,
    /// Address and port of the client.
    pub peer: SocketAddr,
    /// The connection has TLS.
    pub is_secure: bool,
}

impl AccessControl {
    /// Reads the file of users.
    pub fn open(options: &AuthOptions) -> Result<Arc<AccessControl>, AuthError> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| AuthError::Random(error.into()))?;
        let users = read_users(&options.users)?;
        let rules = Rules::new(&options.folders, options.status.clone())?;
        let control = AccessControl {
            authenticator: Authenticator::new(users, rules, &key, options.nonce_lifetime),
            file: options.users.clone(),
            reload: Mutex::default(),
            counters: Counters::default(),
            log: LogLimit::new(LINES_PER_SECOND),
            started: Instant::now(),
        };
        control.warn_of_unknown_users();
        Ok(Arc::new(control))
    }

    /// Reads the file of users again; a broken one leaves the users as they are. Waits for storage.
    pub fn reload(&self) {
        let _alone = self.reload.lock();
        match read_users(&self.file) {
            Ok(users) => {
                tracing::info!(file = %self.file.display(), users = users.count(), "users are read again");
                self.authenticator.replace_users(users);
                self.warn_of_unknown_users();
            }
            Err(error) => {
                tracing::error!(%error, "the users stay as they were; mend the file and send SIGHUP")
            }
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
            status.add("auth", move || json!({ "users": control.authenticator.users().count() }));
        }
    }

    /// Admits a request, and returns its user, if it has one. A denial is counted, logged and held back as long
    /// as it has to be.
    pub async fn check(&self, request: AuthRequest<'_>) -> Result<Option<String>, Denial> {
        let AuthRequest { method, area, path, presentation, authorization, admitted, peer, is_secure } =
            request;
        let (counted, now_ms) = (client(peer.ip()), self.started.elapsed().as_millis() as u64);
        let client = peer.ip().to_canonical();
        let attempt = Attempt {
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
        };
        let denial = match self.authenticator.check(&attempt) {
            Ok(user) => return Ok(user),
            Err(denial) => denial,
        };
        self.note(&denial, path, peer);
        if !denial.delay.is_zero() {
            tokio::time::sleep(denial.delay).await;
        }
        Err(denial)
    }

    /// Admits a request over HTTP, or returns the response that denies it. Notes the user of the connection.
    pub async fn check_http(
        &self,
        area: Area<'_>,
        path: &AssetPath,
        request: &Request,
        (Addresses { peer, is_secure, .. }, user): (Addresses, &mut Option<String>),
    ) -> Result<(), Response> {
        let (method, authorization) = (request.method.as_str(), request.authorization.as_deref());
        let (path, presentation, admitted) = (path.as_bytes(), None, user.as_deref());
        let request =
            AuthRequest { method, area, path, presentation, authorization, admitted, peer, is_secure };
        let admitted = self.check(request).await.map_err(|denial| http_response(&denial))?;
        *user = admitted.or(user.take());
        Ok(())
    }

    fn note(&self, denial: &Denial, path: &[u8], peer: SocketAddr) {
        let failure = match denial.reason {
            Reason::Missing => return self.counters.challenges.increment(),
            Reason::Stale => return self.counters.stale_nonces.increment(),
            Reason::Wrong => Failure::Wrong,
            Reason::Malformed(_) => Failure::Malformed,
            Reason::Forbidden => Failure::Forbidden,
            Reason::Slowed => Failure::Slowed,
        };
        self.counters.failures.increment(failure);
        let Some(suppressed) = self.log.pass(Instant::now()) else { return };
        let short = |text: &str| text.chars().take(MOST_LOGGED).collect::<String>();
        let (user, path) = (denial.user.as_deref().map(short), short(&String::from_utf8_lossy(path)));
        // Debug form: names may hold line ends.
        tracing::warn!(%peer, ?user, ?path, suppressed, "authentication failed: {}", denial.reason);
    }

    fn warn_of_unknown_users(&self) {
        let users = self.authenticator.unknown_users();
        if !users.is_empty() {
            tracing::warn!(?users, file = %self.file.display(), "rules name users that the file does not have");
        }
    }
}

fn http_response(denial: &Denial) -> Response {
    let why = denial.reason.to_string();
    match denial.reason {
        Reason::Forbidden => Response::error(StatusCode::FORBIDDEN, &why),
        Reason::Slowed => {
            Response::error(StatusCode::TOO_MANY_REQUESTS, &why).header(header::RETRY_AFTER, RETRY_AFTER_S)
        }
        _ => {
            let response = Response::error(StatusCode::UNAUTHORIZED, &why);
            let response = response.header(header::CACHE_CONTROL, "no-store");
            let add =
                |response: Response, challenge: &String| response.header(header::WWW_AUTHENTICATE, challenge);
            denial.challenges.iter().fold(response, add)
        }
    }
}

/// Reads a file of users.
pub fn read_users(file: &Path) -> Result<Users, AuthError> {
    let text = read_text(file).map_err(|error| AuthError::Read(file.to_owned(), error))?;
    Users::parse(&text).map_err(|error| AuthError::Users(file.to_owned(), error))
}

fn read_text(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(file)?.take(MOST_FILE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_FILE_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "longer than 16 MiB"));
    }
    Ok(text)
}
