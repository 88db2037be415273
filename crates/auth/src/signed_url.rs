//! Signed URLs: an HMAC over path, expiry and perhaps the client's address, in the query, admits who has the URL.
//!
//! The signature is HMAC-SHA-256 (RFC 2104) over the text `PATH?expires=UNIXTIME`, or
//! `PATH?expires=UNIXTIME&address=IP`, in Base64url (RFC 4648 section 5). `PATH` begins with a slash and is not
//! percent-encoded: players encode paths anew. One that ends in a slash is a folder's, and covers all beneath it.

use std::fmt;
use std::net::IpAddr;

use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, Engine, GeneralPurpose, GeneralPurposeConfig};
use percent_encoding::percent_decode_str;
use ring::hmac;
use subtle::ConstantTimeEq;

/// Longest query that is looked at, in bytes.
const MOST_QUERY_BYTES: usize = 2048;

/// Most folders around a path whose signatures are tried.
const MOST_FOLDERS: usize = 64;

/// Most keys of a file.
const MOST_KEYS: usize = 8;

/// Lengths of a key: shorter ones can be guessed, longer ones are another file.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 32..=1024;

/// Bytes of a signature.
const SIGNATURE_BYTES: usize = 32;

/// Base64url as it is written here, without padding, and read, with it or without it.
const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Keys of signatures: the first signs, all are good. Without `Debug`: keys do not belong into a log.
#[derive(Clone)]
pub struct UrlKeys(Vec<hmac::Key>);

/// A text is no list of keys. No message shows a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlKeysError {
    /// A line, counted from 1, is too short or too long.
    #[error("line {0}: expected a key of 32 to 1024 characters, such as `openssl rand -hex 32` prints")]
    Length(usize),
    /// More keys than are tried.
    #[error("more than {MOST_KEYS} keys: remove those whose URLs have expired")]
    TooMany,
    /// No key at all.
    #[error("no keys; write one with `openssl rand -hex 32`")]
    Empty,
}

/// Reason for which a signed URL does not admit a request. Only who has a right signature learns more than that it
/// is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlDenial {
    /// The parameters cannot be read.
    Malformed,
    /// No key signed this for the path.
    Wrong,
    /// The time is over.
    Expired,
    /// The URL is for another client.
    OtherAddress,
}

/// In words for the client.
impl fmt::Display for UrlDenial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UrlDenial::Malformed => {
                "the signed URL is malformed: expected expires=UNIXTIME and signature=BASE64URL, each once"
            }
            UrlDenial::Wrong => "the signature of the URL is wrong",
            UrlDenial::Expired => "the URL has expired",
            UrlDenial::OtherAddress => "the URL is for another client address",
        })
    }
}

/// Parameters of a signed URL; others may stand in the query, and are not signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlSignature {
    /// Time from which the URL is not good any more, in seconds of Unix time.
    pub expires_s: u64,
    /// Address that it is for; none for any.
    pub address: Option<IpAddr>,
    /// The signature.
    signature: [u8; SIGNATURE_BYTES],
}

impl UrlSignature {
    /// Reads a query without its question mark; none if it is not signed.
    ///
    /// # Errors
    /// [`UrlDenial::Malformed`].
    pub fn parse(query: &str) -> Result<Option<UrlSignature>, UrlDenial> {
        let [mut expires, mut address, mut signature] = [None; 3];
        let mut is_twice = false;
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let place = match name {
                "expires" => &mut expires,
                "address" => &mut address,
                "signature" => &mut signature,
                _ => continue,
            };
            is_twice |= place.replace(value).is_some();
        }
        // Without these two, an `address` is another's.
        if expires.is_none() && signature.is_none() {
            return Ok(None);
        }
        if is_twice || query.len() > MOST_QUERY_BYTES {
            return Err(UrlDenial::Malformed);
        }
        let read = || {
            let address = match address {
                Some(address) => Some(decoded(address)?.parse::<IpAddr>().ok()?.to_canonical()),
                None => None,
            };
            Some(UrlSignature {
                expires_s: number(&decoded(expires?)?)?,
                address,
                signature: BASE64URL.decode(decoded(signature?)?).ok()?.try_into().ok()?,
            })
        };
        read().map(Some).ok_or(UrlDenial::Malformed)
    }

    /// The parameters as they stand in a query.
    pub fn query(&self) -> String {
        let signature = BASE64URL.encode(self.signature);
        format!("{}&signature={signature}", signed_parameters(self.expires_s, self.address))
    }
}

fn decoded(value: &str) -> Option<String> {
    percent_decode_str(value).decode_utf8().ok().map(String::from)
}

/// A number of digits alone: `parse` takes a plus sign.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn signed_parameters(expires_s: u64, address: Option<IpAddr>) -> String {
    match address {
        Some(address) => format!("expires={expires_s}&address={address}"),
        None => format!("expires={expires_s}"),
    }
}

impl UrlKeys {
    /// Reads the lines of a file, a key each. Empty lines and those that begin with `#` are skipped.
    ///
    /// # Errors
    /// A line is not a key (the error names the first one), or there are too many keys.
    pub fn parse(text: &str) -> Result<UrlKeys, UrlKeysError> {
        let mut keys = Vec::new();
        for (index, line) in text.lines().enumerate() {
            match line.trim() {
                key if key.is_empty() || key.starts_with('#') => {}
                key if KEY_BYTES.contains(&key.len()) => {
                    keys.push(hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()));
                }
                _ => return Err(UrlKeysError::Length(index + 1)),
            }
        }
        match keys.len() {
            0 => Err(UrlKeysError::Empty),
            1..=MOST_KEYS => Ok(UrlKeys(keys)),
            _ => Err(UrlKeysError::TooMany),
        }
    }

    /// Number of keys.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Signs a path, decoded and without slashes at its ends, of a file or of a folder with all beneath it.
    pub fn sign(
        &self,
        (path, is_folder): (&[u8], bool),
        expires_s: u64,
        address: Option<IpAddr>,
    ) -> UrlSignature {
        let address = address.map(|address| address.to_canonical());
        let text = match is_folder {
            true => folder_text(path),
            false => [b"/", path].concat(),
        };
        let parameters = format!("?{}", signed_parameters(expires_s, address));
        let tag = hmac::sign(&self.0[0], &[&text, parameters.as_bytes()].concat());
        let mut signature = [0; SIGNATURE_BYTES];
        signature.copy_from_slice(tag.as_ref());
        UrlSignature { expires_s, address, signature }
    }

    /// Checks a signature for a path, decoded and without slashes at its ends, of this client at this time.
    ///
    /// # Errors
    /// The reason for which the request is not admitted.
    pub fn check(
        &self,
        signature: &UrlSignature,
        path: &[u8],
        client: IpAddr,
        now_s: u64,
    ) -> Result<(), UrlDenial> {
        let UrlSignature { expires_s, address, signature } = signature;
        let parameters = format!("?{}", signed_parameters(*expires_s, *address));
        let is_right = self.0.iter().any(|key| covers(key, path, &parameters, signature));
        match is_right {
            false => Err(UrlDenial::Wrong),
            true if *expires_s <= now_s => Err(UrlDenial::Expired),
            true if address.is_some_and(|address| address != client.to_canonical()) => {
                Err(UrlDenial::OtherAddress)
            }
            true => Ok(()),
        }
    }
}

/// Returns whether a signature by this key is for the path, or for a folder around it: those next to the root, where
/// there are very many. Hashes the path once, however many folders there are.
fn covers(key: &hmac::Key, path: &[u8], parameters: &str, signature: &[u8; SIGNATURE_BYTES]) -> bool {
    let is_signed = |text: &hmac::Context| {
        let mut text = text.clone();
        text.update(parameters.as_bytes());
        bool::from(text.sign().as_ref().ct_eq(signature))
    };
    let mut text = hmac::Context::with_key(key);
    text.update(b"/");
    if is_signed(&text) {
        return true; // the root, in which everything lies
    }
    let mut names = path.split(|&byte| byte == b'/').enumerate().peekable();
    while let Some((depth, name)) = names.next() {
        text.update(name);
        if names.peek().is_none() && is_signed(&text) {
            return true;
        }
        text.update(b"/");
        if depth < MOST_FOLDERS && is_signed(&text) {
            return true;
        }
    }
    false
}

fn folder_text(path: &[u8]) -> Vec<u8> {
    if path.is_empty() { b"/".to_vec() } else { [b"/", path, b"/"].concat() }
}

#[cfg(test)]
mod tests;
