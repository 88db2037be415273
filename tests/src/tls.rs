//! Certificates, and connections over TLS through OpenSSL, an implementation that is not the server's.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::process::find;
use crate::{http, require};

/// Certificate of `localhost` and 127.0.0.1 that signs itself, and its key.
pub struct Certificate {
    folder: TempDir,
}

impl Certificate {
    /// A new certificate.
    pub fn new() -> Result<Self> {
        let certificate = Self { folder: tempfile::tempdir()? };
        certificate.renew()?;
        Ok(certificate)
    }

    /// A new certificate that signs no other, as rustls wants that of a server to be.
    pub fn of_server() -> Result<Self> {
        let certificate = Self { folder: tempfile::tempdir()? };
        certificate.make(&["-addext", "basicConstraints=critical,CA:FALSE"])?;
        Ok(certificate)
    }

    /// Replaces certificate and key by new ones.
    pub fn renew(&self) -> Result<()> {
        self.make(&[])
    }

    fn make(&self, further: &[&str]) -> Result<()> {
        require!(find("openssl").is_some(), "openssl is not installed");
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
        command.args(["-days", "2", "-subj", "/CN=localhost"]);
        command.args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]).args(further);
        command.arg("-keyout").arg(self.key()).arg("-out").arg(self.file());
        let output = command.output().context("openssl")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// File of the certificate.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("certificate.pem")
    }

    /// File of the key.
    pub fn key(&self) -> PathBuf {
        self.folder.path().join("key.pem")
    }

    /// Arguments of a server that listens for TLS with it.
    pub fn arguments(&self) -> [String; 4] {
        [
            "--rtsps=127.0.0.1:0".to_owned(),
            "--https=127.0.0.1:0".to_owned(),
            format!("--tls-certificate={}", self.file().display()),
            format!("--tls-key={}", self.key().display()),
        ]
    }
}

/// `openssl s_client` between a TCP connection of the test and a server.
pub struct Tunnel(Child);

impl Tunnel {
    /// Connects from this address to a server that must have a certificate of `authority`. What is written to the
    /// connection that is returned goes through TLS. It ends at once if the handshake fails.
    pub fn open(server: SocketAddr, from: &str, authority: &Path) -> Result<(TcpStream, Tunnel)> {
        require!(find("openssl").is_some(), "openssl is not installed");
        let listener = TcpListener::bind("127.0.0.1:0").context("a port")?;
        let near = http::connect(listener.local_addr()?)?;
        let (far, _) = listener.accept().context("accept")?;
        Ok((near, Tunnel::carry(far, server, from, authority)?))
    }

    /// Carries what is written to the other side of a connection.
    fn carry(far: TcpStream, server: SocketAddr, from: &str, authority: &Path) -> Result<Tunnel> {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-quiet", "-verify_return_error", "-verify_quiet", "-CAfile"]);
        command.arg(authority).args(["-connect", &server.to_string(), "-bind", &format!("{from}:0")]);
        let child = command
            .stdin(Stdio::from(OwnedFd::from(far.try_clone()?)))
            .stdout(Stdio::from(OwnedFd::from(far)))
            .stderr(Stdio::null())
            .spawn()
            .context("openssl")?;
        Ok(Tunnel(child))
    }
}

/// Address where a client without TLS may connect once, and goes through TLS.
pub struct TunnelListener {
    /// The address.
    pub address: SocketAddr,
    accepting: Option<std::thread::JoinHandle<Result<Tunnel>>>,
}

impl TunnelListener {
    /// Listens for a connection to a server that must have a certificate of `authority`.
    pub fn open(server: SocketAddr, authority: &Path) -> Result<TunnelListener> {
        require!(find("openssl").is_some(), "openssl is not installed");
        let listener = TcpListener::bind("127.0.0.1:0").context("a port")?;
        let (address, authority) = (listener.local_addr()?, authority.to_owned());
        let accepting = std::thread::spawn(move || {
            let (far, _) = listener.accept().context("accept")?;
            Tunnel::carry(far, server, "127.0.0.1", &authority)
        });
        Ok(TunnelListener { address, accepting: Some(accepting) })
    }
}

impl Drop for TunnelListener {
    fn drop(&mut self) {
        // Nobody may have connected.
        _ = TcpStream::connect(self.address);
        if let Some(tunnel) = self.accepting.take().and_then(|accepting| accepting.join().ok()) {
            drop(tunnel);
        }
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        // It may have ended already.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}
