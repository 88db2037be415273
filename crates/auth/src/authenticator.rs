//! The decision about a request.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use wirepath_http::AssetPath;

use crate::algorithm::{Algorithm, user_hash};
use crate::basic::{self, BasicCredentials, after_basic};
use crate::challenge::Challenge;
use crate::credentials::{Credentials, CredentialsError};
use crate::nonce::Nonces;
use crate::replay::Replays;
use crate::rules::{Access, Area, Rules};
use crate::throttle::{Throttle, UNREADABLE_DELAY};
use crate::users::Users;

/// Authenticates requests and applies rules. Nothing is kept of clients that have not authenticated, but their
/// wrong attempts, in a bounded table.
pub struct Authenticator {
    users: RwLock<Arc<Users>>,
    rules: RwLock<Arc<Rules>>,
    nonces: Nonces,
    replays: Mutex<Replays>,
    throttle: Mutex<Throttle>,
}

/// A request, as far as authentication looks at it.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// Method.
    pub method: &'a str,
    /// Place that it is about.
    pub area: Area<'a>,
    /// Path of the request.
    pub path: &'a [u8],
    /// Path that the hashed URI may name instead: that of the presentation, where the request is about a track.
    pub presentation: Option<&'a [u8]>,
    /// Value of `Authorization`.
    pub authorization: Option<&'a str>,
    /// The connection has TLS: then Basic is offered and taken.
    pub is_secure: bool,
    /// User that an earlier request of this connection was admitted as.
    pub admitted: Option<&'a str>,
    /// Address of the client.
    pub client: IpAddr,
    /// Address that wrong attempts are counted for: that of the client, or its network.
    pub counted: IpAddr,
    /// Time since any beginning, the same for all requests.
    pub now_ms: u64,
}

/// Reason for which a request is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No credentials: the client has to answer a challenge first.
    Missing,
    /// Right, but for a nonce that has expired, was used or is not of this process: the client tries again by
    /// itself.
    Stale,
    /// Wrong user, password or token.
    Wrong,
    /// Not the answer to a challenge of this server.
    Malformed(CredentialsError),
    /// The user is not among those that the place is for.
    Forbidden,
    /// The address had too many wrong attempts; this one was not checked.
    Slowed,
}

/// In words for the client.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Missing => "authentication is required",
            Reason::Stale => "the nonce is stale; answer the new challenge",
            Reason::Wrong => "wrong user name, password or token",
            Reason::Malformed(error) => return error.fmt(f),
            Reason::Forbidden => "the user has no access to this path",
            Reason::Slowed => "too many wrong attempts from this address; try again later",
        })
    }
}

/// Denial of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Reason.
    pub reason: Reason,
    /// Name that the client gave, whether there is such a user or not.
    pub user: Option<String>,
    /// Values of `WWW-Authenticate`, one for each header line, in this order; none where trying again is of no use.
    pub challenges: Vec<String>,
    /// Time that the answer is to be held back.
    pub delay: Duration,
}

impl Attempt<'_> {
    /// User and password of Basic over TLS; none without TLS, where nobody may rely on them.
    pub fn basic(&self) -> Option<BasicCredentials> {
        let authorization = self.authorization.filter(|_| self.is_secure)?;
        after_basic(authorization).and_then(BasicCredentials::parse)
    }
}

impl Authenticator {
    /// An authenticator with nonces under this random key, which expire.
    pub fn new(users: Users, rules: Rules, key: &[u8; 32], nonce_lifetime: Duration) -> Authenticator {
        let lifetime_ms = u64::try_from(nonce_lifetime.as_millis()).unwrap_or(u64::MAX);
        Authenticator {
            users: RwLock::new(Arc::new(users)),
            rules: RwLock::new(Arc::new(rules)),
            nonces: Nonces::new(key, lifetime_ms),
            replays: Mutex::default(),
            throttle: Mutex::default(),
        }
    }

    /// Users of now.
    pub fn users(&self) -> Arc<Users> {
        Arc::clone(&self.users.read())
    }

    /// Replaces the users.
    pub fn replace_users(&self, users: Users) {
        *self.users.write() = Arc::new(users);
    }

    /// Replaces the rules.
    pub fn replace_rules(&self, rules: Rules) {
        *self.rules.write() = Arc::new(rules);
    }

    fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read())
    }

    /// Names in the rules that are no users of now.
    pub fn unknown_users(&self) -> Vec<String> {
        let (users, rules) = (self.users(), self.rules());
        rules.users().filter(|user| !users.has(user)).map(str::to_owned).collect()
    }

    /// Returns whether a place is for everyone.
    pub fn is_public(&self, area: Area<'_>) -> bool {
        *self.rules().access(area) == Access::Public
    }

    /// Returns whether any user may administer the server.
    pub fn has_administrators(&self) -> bool {
        !matches!(self.rules().access(Area::Administration), Access::Users(users) if users.is_empty())
    }

    /// Returns whether a request has the answer to a challenge of these users, or over TLS the name of one.
    pub fn is_of_user(&self, attempt: &Attempt<'_>) -> bool {
        let users = self.users();
        let Some(authorization) = attempt.authorization.filter(|_| users.count() > 0) else { return false };
        match attempt.basic() {
            Some(basic) => users.has(&basic.user),
            None => is_digest(authorization),
        }
    }

    /// Lets a user's password, or a token, be tried that another than this judges.
    ///
    /// # Errors
    /// A denial if the address had too many wrong attempts.
    pub fn check_try(&self, user: Option<&str>, attempt: &Attempt<'_>) -> Result<(), Denial> {
        self.check_guessing(user, attempt)
            .map_err(|reason| self.denial(reason, user.map(str::to_owned), attempt))
    }

    /// Denial of a request that another judged: of a wrong password or token, if it was an attempt, or of none.
    pub fn deny(&self, user: Option<String>, is_try: bool, attempt: &Attempt<'_>) -> Denial {
        let reason = if is_try { Reason::Wrong } else { Reason::Missing };
        self.denial(reason, user, attempt)
    }

    /// Admits a request, or says why not. Returns its user; none where everyone is admitted.
    pub fn check(&self, attempt: &Attempt<'_>) -> Result<Option<String>, Denial> {
        let rules = self.rules();
        let access = rules.access(attempt.area);
        if *access == Access::Public {
            return Ok(None);
        }
        let Some(authorization) = attempt.authorization else {
            return Err(self.denial(Reason::Missing, None, attempt));
        };
        if let Some(basic) = after_basic(authorization).filter(|_| attempt.is_secure) {
            return self.check_basic(basic, access, attempt);
        }
        let credentials = Credentials::parse(authorization)
            .map_err(|error| self.denial(Reason::Malformed(error), None, attempt))?;
        match self.check_credentials(&credentials, access, attempt) {
            Ok(()) => Ok(Some(credentials.user)),
            Err(reason) => Err(self.denial(reason, Some(credentials.user), attempt)),
        }
    }

    /// Admits a user by the password itself.
    fn check_basic(
        &self,
        encoded: &str,
        access: &Access,
        attempt: &Attempt<'_>,
    ) -> Result<Option<String>, Denial> {
        let malformed = Reason::Malformed(CredentialsError::Malformed);
        let credentials =
            BasicCredentials::parse(encoded).ok_or_else(|| self.denial(malformed, None, attempt))?;
        let checked = self
            .check_guessing(Some(&credentials.user), attempt)
            .and_then(|()| if self.is_password(&credentials) { Ok(()) } else { Err(Reason::Wrong) });
        match checked.and_then(|()| check_access(access, &credentials.user)) {
            Ok(()) => Ok(Some(credentials.user)),
            Err(reason) => Err(self.denial(reason, Some(credentials.user), attempt)),
        }
    }

    fn check_guessing(&self, user: Option<&str>, attempt: &Attempt<'_>) -> Result<(), Reason> {
        // A client that gave a right password on this connection is no guesser, whatever others of its address do.
        let is_known = user.is_some() && attempt.admitted == user;
        match !is_known && self.throttle.lock().is_exhausted(attempt.counted, attempt.now_ms) {
            true => Err(Reason::Slowed),
            false => Ok(()),
        }
    }

    /// Returns whether a password is the user's. Takes as long for a user that does not exist.
    fn is_password(&self, credentials: &BasicCredentials) -> bool {
        let users = self.users();
        let BasicCredentials { user, password } = credentials;
        let is_right = |algorithm: Algorithm| {
            let hash = users.hash(user, algorithm);
            let given = user_hash(algorithm, user, users.realm(), password);
            let nobody = "0".repeat(algorithm.digits());
            self.nonces.are_equal(&given, hash.unwrap_or(&nobody)) && hash.is_some()
        };
        // All users have the first algorithm that is offered.
        users.algorithms().next().is_some_and(is_right)
    }

    fn check_credentials(
        &self,
        credentials: &Credentials,
        access: &Access,
        attempt: &Attempt<'_>,
    ) -> Result<(), Reason> {
        self.check_guessing(Some(&credentials.user), attempt)?;
        if !self.is_right(credentials, attempt) {
            return Err(Reason::Wrong);
        }
        let nonce = self.nonces.recognise(&credentials.nonce, attempt.client, attempt.now_ms);
        let nonce = nonce.ok_or(Reason::Stale)?;
        if let Some(count) = &credentials.count
            && !self.replays.lock().accept(nonce, count.number, attempt.now_ms)
        {
            return Err(Reason::Stale);
        }
        check_access(access, &credentials.user)
    }

    /// Returns whether the hash is that of the user's password and of this request. Takes as long for a user that
    /// does not exist.
    fn is_right(&self, credentials: &Credentials, attempt: &Attempt<'_>) -> bool {
        let users = self.users();
        let hash = users.hash(&credentials.user, credentials.algorithm);
        let nobody = "0".repeat(credentials.algorithm.digits());
        let expected = credentials.expected_response(hash.unwrap_or(&nobody), attempt.method);
        let is_equal = self.nonces.are_equal(&credentials.response.to_ascii_lowercase(), &expected);
        is_equal
            && hash.is_some()
            && credentials.realm == users.realm()
            && is_about(&credentials.uri, attempt)
    }

    fn denial(&self, reason: Reason, user: Option<String>, attempt: &Attempt<'_>) -> Denial {
        let delay = match reason {
            Reason::Malformed(_) => UNREADABLE_DELAY,
            Reason::Wrong => self.throttle.lock().count(attempt.counted, attempt.now_ms),
            _ => Duration::ZERO,
        };
        let challenges = match reason {
            Reason::Forbidden | Reason::Slowed => Vec::new(),
            reason => self.challenges(attempt, reason == Reason::Stale),
        };
        Denial { reason, user, challenges, delay }
    }

    fn challenges(&self, attempt: &Attempt<'_>, is_stale: bool) -> Vec<String> {
        let users = self.users();
        let nonce = self.nonces.issue(attempt.client, attempt.now_ms);
        let challenge = |algorithm: Algorithm| {
            let (realm, nonce) = (users.realm().to_owned(), nonce.clone());
            Challenge { realm, nonce, algorithm, counts: true, is_stale }.to_string()
        };
        let basic = attempt.is_secure.then(|| basic::challenge(users.realm()));
        users.algorithms().map(challenge).chain(basic).collect()
    }
}

fn is_digest(authorization: &str) -> bool {
    let scheme = authorization.split_whitespace().next().unwrap_or_default();
    scheme.eq_ignore_ascii_case("Digest")
}

fn check_access(access: &Access, user: &str) -> Result<(), Reason> {
    match access {
        Access::Users(users) if !users.iter().any(|other| other == user) => Err(Reason::Forbidden),
        _ => Ok(()),
    }
}

/// Returns whether a hashed URI names what the request is about. Clients hash a URL in one form and send another;
/// live555 hashes the presentation's for its tracks.
fn is_about(uri: &str, attempt: &Attempt<'_>) -> bool {
    let path = match uri.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |slash| &rest[slash..]),
        None if uri == "*" => "/",
        None => uri,
    };
    let Ok(path) = AssetPath::decode(path) else { return false };
    let path = path.as_bytes();
    path == attempt.path || Some(path) == attempt.presentation
}

#[cfg(test)]
mod tests;
