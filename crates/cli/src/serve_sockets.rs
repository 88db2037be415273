//! Listening sockets of `wirepath serve` that are open before it starts: from systemd, from the old server, or
//! opened by root before it becomes another user.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::path::Path;

use anyhow::{Result, anyhow, bail, ensure};
use wirepath_net::handed_sockets::HandedSockets;
use wirepath_net::handover::{self, Takeover};
use wirepath_net::program::ListenAddress;
use wirepath_server::{ServerOptions, StartError};

use crate::serve_options::ServeOptions;

/// Sockets that are opened before the server starts.
pub(crate) struct ServeSockets {
    /// Listening sockets.
    pub(crate) handed: HandedSockets,
    /// Listener for successors of this server.
    pub(crate) successors: Option<UnixListener>,
    /// Handover from the server whose sockets these are.
    pub(crate) takeover: Option<Takeover>,
}

impl ServeSockets {
    /// Takes over sockets if that is requested, and listens for successors. The addresses of sockets from
    /// another process are set in the options, which must not name other addresses.
    pub(crate) fn open(
        handed: HandedSockets,
        options: &mut ServeOptions,
        takes_over: bool,
    ) -> Result<ServeSockets> {
        let path = options.handover.clone();
        let sockets = match (takes_over, path) {
            (false, path) => {
                let successors = path.as_deref().map(listen).transpose()?;
                ServeSockets { handed, successors, takeover: None }
            }
            (true, None) => {
                bail!("--takeover needs --handover SOCKET: give the socket of the running server")
            }
            (true, Some(path)) => {
                ensure!(
                    handed.addresses()?.is_empty(),
                    "--takeover is not possible with sockets of systemd (LISTEN_FDS): they are there already"
                );
                ensure!(
                    options.multicast.is_none(),
                    "--takeover is not possible with --multicast: two servers would send to the same groups"
                );
                take_over(&path)?
            }
        };
        for (name, address) in sockets.handed.addresses()? {
            adopt(options, name, address)?;
        }
        Ok(sockets)
    }

    /// Opens the listeners that were not handed in.
    pub(crate) fn listen(&mut self, options: &ServerOptions) -> Result<()> {
        let tls = options.tls.as_ref().map(|tls| tls.addresses).unwrap_or_default();
        let (rtsp, http) = (Some(options.rtsp), Some(options.http));
        for (protocol, address) in
            [("RTSP", rtsp), ("HTTP", http), ("RTSPS", tls.rtsps), ("HTTPS", tls.https)]
        {
            let Some(address) = address else { continue };
            let listening = self.handed.listen(protocol, address);
            listening.map_err(|error| with_advice(StartError::Listen(protocol, address, error)))?;
        }
        Ok(())
    }
}

/// Adds a hint to the option that avoids an error at start.
pub(crate) fn with_advice(error: StartError) -> anyhow::Error {
    match &error {
        StartError::Listen(protocol, _, source)
            if matches!(
                source.kind(),
                ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable | ErrorKind::PermissionDenied
            ) =>
        {
            anyhow!("{error}; choose another with --{} ADDRESS:PORT", protocol.to_lowercase())
        }
        _ => error.into(),
    }
}

fn listen(path: &Path) -> Result<UnixListener> {
    handover::listen(path).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => {
            anyhow!("a server listens at {} already: add --takeover to replace it", path.display())
        }
        _ => anyhow!("cannot listen at {} (--handover): {error}", path.display()),
    })
}

fn take_over(path: &Path) -> Result<ServeSockets> {
    let (handed, takeover) = handover::receive(path).map_err(|error| {
        // A killed server leaves its socket behind.
        let has_server = !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused);
        let remedy = if has_server { "" } else { "; no server listens there: start without --takeover" };
        anyhow!("cannot take over from the server at {} (--handover): {error}{remedy}", path.display())
    })?;
    let successors = Some(takeover.next_listener()?);
    Ok(ServeSockets { handed, successors, takeover: Some(takeover) })
}

/// Sets an option to the address of a socket. Fails if the option has another address.
fn adopt(options: &mut ServeOptions, name: &'static str, address: SocketAddr) -> Result<()> {
    let option = match name {
        "rtsp" => &mut options.rtsp,
        "http" => &mut options.http,
        "rtsps" => &mut options.rtsps,
        _ => &mut options.https,
    };
    let asked = option.replace(ListenAddress::Address(address));
    let asked =
        asked.map_or(Ok(address), |asked| asked.resolve()).map_err(|error| anyhow!("--{name}: {error}"))?;
    // Port 0 stands for any port.
    let is_same = asked.ip() == address.ip() && [0, address.port()].contains(&asked.port());
    ensure!(
        is_same,
        "--{name} {asked} is not the address of the socket that is handed in, {address}: leave the option out or give \
         that address; another one needs a restart"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};

    use super::*;

    #[test]
    fn another_address_than_that_of_the_socket_is_refused() {
        let address = SocketAddr::from(([127, 0, 0, 1], 8554));
        for (given, is_refused) in [
            ("--rtsp=127.0.0.1:8554", false),
            ("--rtsp=127.0.0.1:0", false),
            ("--http=127.0.0.1:80", false),
            ("--rtsp=127.0.0.1:8555", true),
            ("--rtsp=0.0.0.0:8554", true),
        ] {
            let command = ServeOptions::augment_args(Command::new("serve"));
            let matches = command.try_get_matches_from(["serve", given]).unwrap();
            let mut options = ServeOptions::from_arg_matches(&matches).unwrap();
            assert_eq!(adopt(&mut options, "rtsp", address).is_err(), is_refused, "{given}");
            assert_eq!(options.rtsp, Some(ListenAddress::Address(address)));
        }
    }
}
