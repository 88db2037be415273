//! TLS listeners of a server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use wirepath_net::handed_sockets::HandedSockets;
use wirepath_net::tls::{Terminator, TlsFiles};

use crate::start_error::{StartError, listen};

/// Addresses with TLS, and its certificate.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// Certificate and key.
    pub files: TlsFiles,
    /// Listen addresses.
    pub addresses: TlsAddresses,
}

/// Addresses that listen for TLS.
#[derive(Clone, Copy, Debug, Default)]
pub struct TlsAddresses {
    /// Address of RTSP over TLS.
    pub rtsps: Option<SocketAddr>,
    /// Address of HTTPS.
    pub https: Option<SocketAddr>,
}

/// TLS of a server that listens.
pub(crate) struct TlsListeners {
    pub(crate) terminator: Arc<Terminator>,
    pub(crate) addresses: TlsAddresses,
    /// Taken by those who serve them.
    pub(crate) rtsps: Option<TcpListener>,
    pub(crate) https: Option<TcpListener>,
}

impl TlsListeners {
    /// Reads certificate and key, starts so many threads, and listens. A client that acknowledges nothing for
    /// `silence_limit` is considered gone.
    pub(crate) fn open(
        options: TlsOptions,
        threads: usize,
        silence_limit: Duration,
        handed: &mut HandedSockets,
    ) -> Result<Self, StartError> {
        let terminator = Terminator::open(options.files, threads, silence_limit)?;
        let mut listen =
            |protocol, address: Option<_>| address.map(|to| listen(protocol, to, handed)).transpose();
        let TlsAddresses { rtsps, https } = options.addresses;
        let (rtsps, https) = (listen("RTSPS", rtsps)?, listen("HTTPS", https)?);
        let address =
            |listener: &Option<TcpListener>| listener.as_ref().map(TcpListener::local_addr).transpose();
        let addresses = TlsAddresses { rtsps: address(&rtsps)?, https: address(&https)? };
        Ok(Self { terminator, addresses, rtsps, https })
    }
}
