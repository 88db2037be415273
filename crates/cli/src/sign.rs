//! `wirepath sign`: signed URLs for `wirepath serve --url-key`.

use std::io::{self, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use wirepath_auth::{UrlKeys, UrlSignature};
use wirepath_http::AssetPath;
use wirepath_net::auth::read_url_keys;

use crate::values;

/// Schemes of URLs that the server serves.
const SCHEMES: [&str; 4] = ["rtsp", "rtsps", "http", "https"];

/// Arguments of `wirepath sign`.
#[derive(Args)]
#[command(after_help = "\
Make a key:  (umask 077; openssl rand -hex 32 > FILE)
Serve:       wirepath serve --url-key FILE /srv/media
Sign:        wirepath sign rtsp://HOST:8554/cams/lobby.mp4 --key FILE --for 2h

A URL that ends in a slash is that of a folder: its query can be appended to the URL of any file
below the folder. Only the path is signed, not host and protocol: the query is valid for RTSP and
HTTP. Everyone with the URL can read the file until the URL expires; running sessions and downloads
then continue.")]
pub(crate) struct Sign {
    /// URL of a file, or of a folder (ending in a slash)
    #[arg(value_name = "URL")]
    url: String,

    /// Key file: one key of at least 32 characters per line; the first key signs
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    /// Lifetime of the URL, such as 30s, 2h or 7days
    #[arg(long = "for", value_name = "TIME", value_parser = values::positive_time)]
    lifetime: Duration,

    /// Restrict the URL to the client with this address, as the server sees it [default: any client]
    #[arg(long, value_name = "IP")]
    address: Option<IpAddr>,
}

impl Sign {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let keys = read_url_keys(&self.key)?;
        let now =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).context("the clock is before 1970")?;
        let expires_s =
            now.as_secs().checked_add(self.lifetime.as_secs().max(1)).context("--for is too long")?;
        let url = signed(&self.url, &keys, expires_s, self.address)?;
        let mut output = io::stdout().lock();
        writeln!(output, "{url}").and_then(|()| output.flush())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Adds the signature to a URL, after its query if there is one.
fn signed(url: &str, keys: &UrlKeys, expires_s: u64, address: Option<IpAddr>) -> Result<String> {
    let url = url.split('#').next().unwrap_or_default();
    let (location, query) = url.split_once('?').unwrap_or((url, ""));
    ensure!(
        UrlSignature::parse(query) == Ok(None),
        "{url} is signed already: give the URL without its signature"
    );
    let (origin, path) = split_origin(location)?;
    let path = AssetPath::decode(path).with_context(|| format!("in the URL {url}"))?;
    let signature = keys.sign((path.as_bytes(), path.names_folder()), expires_s, address).query();
    let slash = if path.names_folder() && !path.is_root() { "/" } else { "" };
    let further = if query.is_empty() { String::new() } else { format!("{query}&") };
    Ok(format!("{origin}/{}{slash}?{further}{signature}", path.encoded()))
}

/// Splits a URL into the part before its path, and the path.
fn split_origin(url: &str) -> Result<(&str, &str)> {
    if url.starts_with('/') {
        return Ok(("", url));
    }
    let expected = || {
        format!(
            "{url:?}: expected a URL, such as rtsp://HOST:8554/clip.mp4, or a path that begins with /, such as /clip.mp4"
        )
    };
    let (scheme, rest) = url.split_once("://").with_context(expected)?;
    if !SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        bail!("{url:?}: expected a URL of {}", SCHEMES.join(", "));
    }
    let length = scheme.len() + 3 + rest.find('/').unwrap_or(rest.len());
    let (origin, path) = url.split_at(length);
    if path.is_empty() {
        bail!("{url:?} has no path: end it in / to sign all that is served");
    }
    Ok((origin, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed_url(url: &str) -> Result<String> {
        let keys = UrlKeys::parse(&"k".repeat(32)).unwrap();
        signed(url, &keys, 7, None)
    }

    #[test]
    fn urls_keep_their_form() {
        for (url, expected) in [
            ("rtsp://h:8554/a/b.ts", "rtsp://h:8554/a/b.ts?expires=7&signature="),
            ("HTTPS://h/a b/ü.ts", "HTTPS://h/a%20b/%C3%BC.ts?expires=7&signature="),
            ("http://h/cams/", "http://h/cams/?expires=7&signature="),
            ("http://h/", "http://h/?expires=7&signature="),
            ("/a.ts?demux=1#x", "/a.ts?demux=1&expires=7&signature="),
        ] {
            let signed = signed_url(url).unwrap();
            assert!(signed.starts_with(expected), "{signed}");
            assert_eq!(signed.len(), expected.len() + 43, "{signed}");
        }
        // The percent-encoded and the plain path are the same.
        let signature = |url: &str| signed_url(url).unwrap().rsplit_once('=').unwrap().1.to_owned();
        assert_eq!(signature("rtsp://h/a%20b"), signature("http://other/a b"));
        assert_ne!(signature("/a"), signature("/a/"));
    }

    #[test]
    fn what_cannot_be_signed_is_refused() {
        for (url, words) in [
            ("clip.ts", "or a path that begins with /"),
            ("ftp://h/clip.ts", "expected a URL of rtsp, rtsps, http, https"),
            ("http://h/../a", "`..` segment"),
            ("http://h/a?expires=5&signature=x", "is signed already"),
        ] {
            let error = format!("{:#}", signed_url(url).unwrap_err());
            assert!(error.contains(words), "{error}");
        }
    }
}
