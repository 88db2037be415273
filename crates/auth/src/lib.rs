//! Digest authentication (RFC 7616, with what clients of RFC 2069 and RFC 2617 send) for RTSP and HTTP alike, and over
//! TLS Basic authentication (RFC 7617): users, rules for folders, challenges and their answers; and signed URLs. Bytes and
//! values, no I/O and no clock.

mod algorithm;
mod authenticator;
mod basic;
mod challenge;
mod credentials;
mod nonce;
mod parameters;
mod replay;
mod rules;
mod signed_url;
mod throttle;
mod users;

pub use algorithm::{Algorithm, user_hash};
pub use authenticator::{Attempt, Authenticator, Denial, Reason};
pub use basic::BasicCredentials;
pub use challenge::Challenge;
pub use credentials::{Credentials, CredentialsError};
pub use rules::{Access, Area, FolderUsers, Rules, RulesError};
pub use signed_url::{UrlDenial, UrlKeys, UrlKeysError, UrlSignature};
pub use throttle::MOST_DELAY;
pub use users::{Users, UsersError, with_password};
