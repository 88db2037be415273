//! Files of users and of keys.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use wirepath_auth::{UrlKeys, Users};

use super::AuthError;
use crate::secret_file::warn_if_public;

/// Longest file of users or keys, in bytes.
const MOST_FILE_BYTES: u64 = 16 << 20;

/// Reads a file of users.
pub(super) fn read_users(file: &Path) -> Result<Users, AuthError> {
    let text = read_text(file).map_err(|error| AuthError::Read("users", file.to_owned(), error))?;
    Users::parse(&text).map_err(|error| AuthError::Users(file.to_owned(), error))
}

/// Reads a file of keys for signed URLs.
///
/// # Errors
/// The file cannot be read, or a line of it is wrong.
pub fn read_url_keys(file: &Path) -> Result<UrlKeys, AuthError> {
    let text = read_text(file).map_err(|error| AuthError::Read("URL keys", file.to_owned(), error))?;
    UrlKeys::parse(&text).map_err(|error| AuthError::UrlKeys(file.to_owned(), error))
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = File::open(path)?;
    warn_if_public(path, &file)?;
    file.take(MOST_FILE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_FILE_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "longer than 16 MiB"));
    }
    Ok(text)
}
