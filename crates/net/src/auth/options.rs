//! Options of access control, and errors at its start.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use wirepath_auth::{Access, FolderUsers, RulesError, UrlKeysError, UsersError};

use super::callback::CallbackOptions;

/// Options of authentication: at least one of users, keys or a callback.
#[derive(Clone, Debug)]
pub struct AuthOptions {
    /// File of users.
    pub users: Option<PathBuf>,
    /// Rules for folders.
    pub folders: Vec<FolderUsers>,
    /// Users who may read status and metrics.
    pub status: Access,
    /// Users who may end sessions; never everyone.
    pub administrators: Access,
    /// Time after which a nonce expires.
    pub nonce_lifetime: Duration,
    /// File of keys for signed URLs.
    pub url_keys: Option<PathBuf>,
    /// Service that decides about requests without a user of the file.
    pub callback: Option<CallbackOptions>,
}

/// Authentication cannot start, or its users or keys cannot be replaced.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// A file cannot be read.
    #[error("cannot read the file of {0} {1}: {2}")]
    Read(&'static str, PathBuf, #[source] io::Error),
    /// The file is not a valid file of users.
    #[error("in the file of users {0}: {1}")]
    Users(PathBuf, #[source] UsersError),
    /// The file is not a valid file of keys.
    #[error("in the file of URL keys {0}: {1}")]
    UrlKeys(PathBuf, #[source] UrlKeysError),
    /// The rules contradict each other.
    #[error("rules for folders: {0}")]
    Rules(#[from] RulesError),
    /// No random key for nonces.
    #[error("no random key for nonces: {0}")]
    Random(#[source] io::Error),
    /// No certificates for verifying the callback's service.
    #[error("cannot read the certificates that this machine trusts, for the authentication callback: {0}")]
    Roots(#[source] io::Error),
}
