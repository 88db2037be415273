//! Reading the configuration of `wirepath serve` again while it runs.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use wirepath_net::program::ListenAddress;
use wirepath_server::{ReloadableOptions, Reloader, ResponseFields};

use crate::serve_options::{FileOptions, ServeOptions};
use crate::server_options::server_options;

/// Options that a running server takes over.
const RELOADABLE: &[&str] =
    &["folder-users", "status-users", "cors", "folder-cache-control", "folder-burst-max"];

/// Reads a configuration file and flags, which take precedence.
type Read = fn(&Path, Vec<OsString>) -> Result<FileOptions>;

/// Configuration file with flags, as the server runs by them.
pub(crate) struct Configuration {
    file: PathBuf,
    flags: Vec<OsString>,
    read: Read,
    /// As read at the start.
    started: FileOptions,
}

impl Configuration {
    /// Reads the file.
    pub(crate) fn read(file: PathBuf, flags: Vec<OsString>, read: Read) -> Result<Configuration> {
        let started = read(&file, flags.clone())?;
        Ok(Configuration { file, flags, read, started })
    }

    /// The file.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// The options to start with.
    pub(crate) fn options(&self) -> ServeOptions {
        self.started.options.clone()
    }

    /// Reads the file again and has the server take over what it can. Logs what comes of it. Waits for storage.
    pub(crate) fn reload(&self, reloader: &Reloader) {
        match self.take_over(reloader) {
            Ok(waiting) => {
                tracing::info!(file = %self.file.display(), "the configuration is read again");
                if !waiting.is_empty() {
                    tracing::warn!(
                        "at the next start only, these options take effect: {}",
                        waiting.join(", ")
                    );
                }
            }
            Err(error) => {
                tracing::error!("the configuration stays as it was: {error:#}; mend it and send SIGHUP");
            }
        }
    }

    /// Returns the names of the options that the running server cannot take over.
    fn take_over(&self, reloader: &Reloader) -> Result<Vec<String>> {
        let now = (self.read)(&self.file, self.flags.clone())?;
        // With this file the next start must succeed.
        server_options(now.options.clone(), without_names)?;
        let mut waiting = now.changed_since(&self.started);
        waiting.retain(|name| !RELOADABLE.contains(&name.as_str()));
        let options = now.options;
        let reloadable = ReloadableOptions {
            response_fields: ResponseFields {
                origins: options.cors,
                cache_control: options.folder_cache_control,
            },
            folder_users: options.folder_users,
            status_users: options.status_users.unwrap_or_default(),
            folder_bursts: options.folder_burst_max,
        };
        reloader.take_over(reloadable).context("--folder-users")?;
        Ok(waiting)
    }
}

/// Resolves no name: that waits for the network, and a confined server cannot read the files that it takes. The running
/// server keeps its listeners.
fn without_names(address: &ListenAddress) -> Result<SocketAddr, String> {
    match address {
        ListenAddress::Address(address) => Ok(*address),
        ListenAddress::Name(_, port) => Ok((Ipv4Addr::UNSPECIFIED, *port).into()),
    }
}
