//! Certificate chain and private key, from PEM files.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::secret_file::warn_if_public;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore, ServerConfig};

/// Longest file of certificates or of a key, in bytes.
const MOST_FILE_BYTES: u64 = 1 << 20;

/// Time at which every certificate has expired: the beginning of the year 10000.
const END_OF_TIME_S: u64 = 253_402_300_800;

/// Files of a server's certificate.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// Certificate chain, the server's own first, in PEM form.
    pub certificate: PathBuf,
    /// Private key of the first certificate, in PEM form.
    pub key: PathBuf,
}

/// TLS cannot start, or its certificate cannot be replaced.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {0}: {1}")]
    Read(PathBuf, #[source] io::Error),
    /// The file has no certificate.
    #[error("no certificate in {0}: expected PEM, which begins with -----BEGIN CERTIFICATE-----")]
    NoCertificate(PathBuf),
    /// The file has no usable key.
    #[error("no private key in {0}: expected PEM (PKCS #8, PKCS #1 or SEC 1) without a passphrase")]
    NoKey(PathBuf),
    /// A file is not PEM.
    #[error("{0} is not PEM: {1}")]
    Pem(PathBuf, #[source] pem::Error),
    /// The key belongs to another certificate.
    #[error(
        "the key {key} does not belong to the first certificate in {certificate}: give the files of one pair"
    )]
    Mismatch {
        /// File of the certificate.
        certificate: PathBuf,
        /// File of the key.
        key: PathBuf,
    },
    /// The certificate has expired.
    #[error("the certificate in {0} expired {1} days ago: renew it")]
    Expired(PathBuf, u64),
    /// Certificate or key is unusable.
    #[error("the certificate {0} and its key {1} cannot be used: {2}")]
    Unusable(PathBuf, PathBuf, #[source] Error),
    /// Threads for TLS cannot be started.
    #[error("cannot start threads for TLS: {0}")]
    Threads(#[source] io::Error),
}

/// Certificate in use.
pub(super) struct Certificate {
    pub(super) config: Arc<ServerConfig>,
    /// Expiry time in seconds since 1970; 0 if unknown.
    pub(super) expires_s: u64,
}

/// Reads certificate and key. Waits for storage.
pub(super) fn load(files: &TlsFiles) -> Result<Certificate, TlsError> {
    let TlsFiles { certificate, key } = files;
    let chain = read_chain(certificate)?;
    let leaf = chain.first().ok_or_else(|| TlsError::NoCertificate(certificate.clone()))?;
    let expires_s = ensure_valid_now(leaf, certificate)?;
    let private_key = read_key(key)?;
    let unusable = |error| match error {
        Error::InconsistentKeys(_) => {
            TlsError::Mismatch { certificate: certificate.clone(), key: key.clone() }
        }
        error => TlsError::Unusable(certificate.clone(), key.clone(), error),
    };
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private_key));
    let mut config = config.map_err(unusable)?;
    // Resumed handshakes need no signature; tickets need no memory per client.
    config.ticketer = ring::Ticketer::new().map_err(unusable)?;
    Ok(Certificate { config: Arc::new(config), expires_s })
}

fn read_chain(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(file, |_| Ok(()))?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    chain.map_err(|error| TlsError::Pem(file.to_owned(), error))
}

fn read_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let bytes = read(file, |opened| warn_if_public(file, opened))?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::NoKey(file.to_owned()),
        error => TlsError::Pem(file.to_owned(), error),
    })
}

/// Reads a file, after `check` of the open file.
fn read(file: &Path, check: impl FnOnce(&File) -> io::Result<()>) -> Result<Vec<u8>, TlsError> {
    let read = || {
        let mut bytes = Vec::new();
        let opened = File::open(file)?;
        check(&opened)?;
        opened.take(MOST_FILE_BYTES + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > MOST_FILE_BYTES {
            true => Err(io::Error::new(io::ErrorKind::FileTooLarge, "longer than 1 MiB")),
            false => Ok(bytes),
        }
    };
    read().map_err(|error| TlsError::Read(file.to_owned(), error))
}

/// Checks that a certificate has not expired, and returns its expiry time. A certificate that is not valid
/// yet only causes a warning, since the clock may be wrong.
fn ensure_valid_now(leaf: &CertificateDer<'_>, file: &Path) -> Result<u64, TlsError> {
    let now_s = UnixTime::now().as_secs();
    if let Some(CertificateError::NotValidYetContext { .. }) = judge(leaf, now_s) {
        tracing::warn!(file = %file.display(), "the TLS certificate is not valid yet: check the clock");
    }
    match judge(leaf, END_OF_TIME_S) {
        Some(CertificateError::ExpiredContext { not_after, .. }) if not_after.as_secs() < now_s => {
            Err(TlsError::Expired(file.to_owned(), (now_s - not_after.as_secs()) / 86_400))
        }
        Some(CertificateError::ExpiredContext { not_after, .. }) => Ok(not_after.as_secs()),
        _ => Ok(0),
    }
}

/// First fault of a certificate at a time. No issuer is trusted here, so there is always a fault; the
/// validity period is checked before the issuer.
fn judge(leaf: &CertificateDer<'_>, time_s: u64) -> Option<CertificateError> {
    let certificate = ParsedCertificate::try_from(leaf).ok()?;
    let time = UnixTime::since_unix_epoch(Duration::from_secs(time_s));
    let algorithms = ring::default_provider().signature_verification_algorithms.all;
    let nobody = RootCertStore::empty();
    match verify_server_cert_signed_by_trust_anchor(&certificate, &nobody, &[], time, algorithms) {
        Err(Error::InvalidCertificate(error)) => Some(error),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2020-02-01: expiry of the test certificate, a month after its beginning.
    const EXPIRED_S: u64 = 1_580_515_200;

    #[test]
    fn the_period_of_validity_is_read() {
        let leaf = CertificateDer::from_pem_slice(include_bytes!("expired.pem")).expect("PEM");
        let at = |time_s| judge(&leaf, time_s);
        assert!(matches!(at(EXPIRED_S - 60 * 86_400), Some(CertificateError::NotValidYetContext { .. })));
        assert_eq!(at(EXPIRED_S - 1), Some(CertificateError::UnknownIssuer));
        assert!(matches!(
            at(END_OF_TIME_S),
            Some(CertificateError::ExpiredContext { not_after, .. }) if not_after.as_secs() == EXPIRED_S
        ));
        let error = ensure_valid_now(&leaf, Path::new("old.pem")).expect_err("it has expired");
        assert!(error.to_string().contains("old.pem expired"), "{error}");
    }
}
