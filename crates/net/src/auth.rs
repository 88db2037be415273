//! Access control of clients, for RTSP and HTTP: users and rules, signed URLs and the callback, with files,
//! counters and log on top of [`wirepath_auth`].

mod callback;
mod counters;
mod files;
mod latency;
mod options;
mod refusal;
mod request;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use serde_json::json;
use wirepath_auth::{Area, Attempt, Authenticator, Denial, Reason};
use wirepath_auth::{Rules, UrlDenial, UrlKeys, UrlSignature, Users};
use wirepath_http::{AssetPath, Request, Response};

use crate::http::now_s;
use crate::listener::Addresses;
use crate::log_limit::LogLimit;
use crate::metrics::Metrics;
use crate::status::Status;
use callback::{Callback, Verdict};
use counters::{Counters, Counts, Failure};
use files::read_users;
use request::question;

pub use callback::CallbackOptions;
pub use files::read_url_keys;
pub use options::{AuthError, AuthOptions};
pub use refusal::{AuthRefusal, RETRY_AFTER_S, RefusalKind};
pub use request::{Admission, AuthRequest};

/// Log lines per second about refused requests.
const LINES_PER_SECOND: u32 = 1;

/// Maximum number of characters of a name or path in a log line.
const MOST_LOGGED: usize = 100;

/// Realm of challenges if no file of users sets one.
const REALM: &str = "Wirepath";

/// Access control of a server's clients.
pub struct AccessControl {
    authenticator: Authenticator,
    /// File of users.
    users: Option<PathBuf>,
    /// File of keys, and its content.
    url_keys: Option<(PathBuf, RwLock<Arc<UrlKeys>>)>,
    callback: Option<Callback>,
    /// Locked from reading a file to replacing its content, so that an older reading does not come last.
    reload: Mutex<()>,
    counters: Counters,
    log: LogLimit,
    started: Instant,
}

impl AccessControl {
    /// Reads the files of users and keys.
    ///
    /// # Errors
    /// A file cannot be read or is invalid, or rules contradict each other.
    pub fn open(options: &AuthOptions) -> Result<Arc<AccessControl>, AuthError> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| AuthError::Random(error.into()))?;
        let users = match &options.users {
            Some(file) => read_users(file)?,
            None => Users::none(REALM),
        };
        let rules = Rules::new(&options.folders, options.status.clone())?;
        let rules = rules.administered_by(options.administrators.clone());
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

    /// Reads the files of users and keys again, and drops cached answers of the callback; an invalid file
    /// leaves its old content in use. Waits for storage.
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
                    tracing::error!(%error, "the users are unchanged; correct the file and send SIGHUP")
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
                    tracing::error!(%error, "the URL keys are unchanged; correct the file and send SIGHUP")
                }
            }
        }
        if let Some(callback) = &self.callback {
            callback.forget();
        }
    }

    /// Replaces the rules for folders, status and administration. [`AccessControl::reload`], which reads the users of
    /// these rules, warns of unknown ones.
    pub fn replace_rules(&self, rules: Rules) {
        self.authenticator.replace_rules(rules);
    }

    /// Returns whether any user may administer the server.
    pub fn has_administrators(&self) -> bool {
        self.users.is_some() && self.authenticator.has_administrators()
    }

    /// Adds counters and users to metrics and status. Without authentication all counters are 0.
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

    /// Admits a request, and returns the reason. A refusal is counted, logged and delayed as the
    /// authenticator requires.
    ///
    /// # Errors
    /// The refusal.
    pub async fn check(&self, request: AuthRequest<'_>) -> Result<Admission, AuthRefusal> {
        let attempt = request.attempt(self.started.elapsed().as_millis() as u64);
        if self.authenticator.is_public(request.area) {
            return Ok(Admission::Everyone);
        }
        if let Some(path) = request.opens.filter(|_| matches!(request.area, Area::Path(_))) {
            if let Some(checked) = self.check_url(path, &request) {
                return checked;
            }
            if let Some(callback) = &self.callback
                && !self.authenticator.is_of_user(&attempt)
            {
                return self.ask(callback, path, (&request, &attempt)).await;
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

    /// Admits a request over HTTP, or returns the response that denies it. Records the user of the
    /// connection.
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
            opens: Some(path.as_bytes()),
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

    /// Decides about a request with a signed URL; `None` if the URL has no signature, or there are no keys.
    fn check_url(&self, path: &[u8], request: &AuthRequest<'_>) -> Option<Result<Admission, AuthRefusal>> {
        let keys = Arc::clone(&self.url_keys.as_ref()?.1.read());
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

    /// Lets the callback decide about a request.
    async fn ask(
        &self,
        callback: &Callback,
        path: &[u8],
        (request, attempt): (&AuthRequest<'_>, &Attempt<'_>),
    ) -> Result<Admission, AuthRefusal> {
        let basic = attempt.basic();
        let user = basic.as_ref().map(|basic| basic.user.as_str());
        // Tokens can be guessed like passwords.
        let is_try = basic.is_some() || request.token().is_some();
        if is_try && let Err(denial) = self.authenticator.check_try(user, attempt) {
            return Err(self.deny(denial, request).await);
        }
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
        let denial = self.authenticator.deny(user, is_try, attempt);
        if verdict == Verdict::Unauthorized && !denial.challenges.is_empty() {
            return Err(self.deny(denial, request).await);
        }
        let why = "the authentication callback refuses this request".to_owned();
        let refusal = self.refuse(Failure::Callback, RefusalKind::Forbidden, why, (denial.user, request));
        hold_back(denial.delay).await;
        Err(refusal)
    }

    /// Decides about a request that neither a signed URL nor the callback decides about, if there are no
    /// users.
    fn without_users(&self, request: &AuthRequest<'_>) -> Result<Admission, AuthRefusal> {
        let (failure, why) = match request.area {
            // Without an opened path there is no session that the request could be about.
            Area::Path(_) if request.opens.is_none() => return Ok(Admission::Everyone),
            Area::Path(_) => {
                (Failure::Unsigned, "the URL is not signed, and this server opens signed URLs only")
            }
            Area::Administration => {
                (Failure::Forbidden, "administration needs a user: start with --users FILE")
            }
            Area::Status => (
                Failure::Forbidden,
                "status and metrics need a user: start the server with --users FILE, or --status-users - for everyone",
            ),
        };
        Err(self.refuse(failure, RefusalKind::Forbidden, why.to_owned(), (None, request)))
    }

    /// Counts, logs and delays the denial of a user.
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
            // Debug form, because names may contain line ends.
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
