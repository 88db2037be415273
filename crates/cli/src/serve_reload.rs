//! Reload of the configuration of `wirepath serve` at run time.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use wirepath_net::program::ListenAddress;
use wirepath_server::{
    AccessRules, ReloadError, ReloadableOptions, Reloader, ResponseFields, ServerOptions, TimeZone,
};

use crate::confine::ensure_zone;
use crate::serve_options::{FileOptions, ServeOptions};
use crate::server_options::{administrators, server_options};

/// Options that a running server can change.
const RELOADABLE: &[&str] =
    &["cors", "folder-cache-control", "folder-content-disposition", "folder-burst-max"];

/// Rules and catalog. A running server changes them together, and only while the [`ACCESS`] options are those
/// of the start: rules are about the users in the users file, an added path may not be for everyone, and a
/// rule must not go while its path stays.
const RULES_AND_CATALOG: &[&str] = &[
    "folder-users",
    "status-users",
    "admin-users",
    "paths",
    "archive",
    "archive-zone",
    "archive-gaps",
    "channel",
];

/// Access options, which wait for a restart.
const ACCESS: &[&str] = &["users", "url-key", "auth-url"];

/// Function that reads a configuration file and flags. Flags take precedence.
type Read = fn(&Path, Vec<OsString>) -> Result<FileOptions>;

/// Configuration file and flags of the running server.
pub(crate) struct Configuration {
    file: PathBuf,
    flags: Vec<OsString>,
    read: Read,
    /// Options as read at the start.
    started: FileOptions,
    /// Options whose rules and catalog are in force, if not those of the start.
    applied: Option<FileOptions>,
}

impl Configuration {
    /// Reads the configuration file.
    pub(crate) fn read(file: PathBuf, flags: Vec<OsString>, read: Read) -> Result<Configuration> {
        let started = read(&file, flags.clone())?;
        Ok(Configuration { file, flags, read, started, applied: None })
    }

    /// Path of the configuration file.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Options to start the server with.
    pub(crate) fn options(&self) -> ServeOptions {
        self.started.options.clone()
    }

    /// Reads the file again and applies the options that a running server can change. Logs the result. Waits
    /// for storage.
    pub(crate) fn reload(&mut self, reloader: &Reloader) {
        match self.take_over(reloader) {
            Ok(waiting) => {
                tracing::info!(file = %self.file.display(), "the configuration is read again");
                if !waiting.is_empty() {
                    tracing::warn!(
                        "these changed options take effect at the next start: {}",
                        waiting.join(", ")
                    );
                }
                if !reloader.has_users() && waiting.iter().any(|name| name == "users") {
                    tracing::warn!("until the next start, everything is served without a password");
                }
            }
            Err(error) => {
                let remedy = match is_denied(&error) {
                    true => {
                        "let the user that the server runs as read the file; a confined server (--confine) opens \
                         files in the folders of its start only: for a file in another folder, restart it"
                    }
                    false => "mend it and send SIGHUP",
                };
                tracing::error!("the configuration is unchanged: {error:#}; {remedy}");
            }
        }
    }

    /// Applies the changed options. Returns the names of the changed options that need a restart.
    fn take_over(&mut self, reloader: &Reloader) -> Result<Vec<String>> {
        let now = (self.read)(&self.file, self.flags.clone())?;
        let mut waiting = now.changed_since(&self.started);
        let same_access = !waiting.iter().any(|name| ACCESS.contains(&name.as_str()));
        let is_applied_together = |name: &String| RULES_AND_CATALOG.contains(&name.as_str());
        waiting.retain(|name| !RELOADABLE.contains(&name.as_str()) && !is_applied_together(name));
        if !same_access {
            let in_force = self.applied.as_ref().unwrap_or(&self.started);
            waiting.extend(now.changed_since(in_force).into_iter().filter(is_applied_together));
        }
        let mut options = now.options.clone();
        // It stays as it is, and its default was that of the user who started the server (--user).
        options.images.cache.get_or_insert_default();
        let ServerOptions { catalog, .. } = checked(server_options(options.clone(), without_names)?)?;
        let rules = AccessRules {
            folders: options.folder_users,
            status: options.status_users.unwrap_or_default(),
            administrators: administrators(options.admin_users),
        };
        let reloadable = ReloadableOptions {
            catalog: same_access.then_some(catalog),
            rules: same_access.then_some(rules),
            response_fields: ResponseFields {
                origins: options.cors,
                cache_control: options.folder_cache_control,
                dispositions: options.folder_content_disposition,
            },
            folder_bursts: options.folder_burst_max,
        };
        reloader.take_over(reloadable)?;
        if same_access {
            self.applied = Some(now);
        }
        Ok(waiting)
    }
}

/// Replaces host names by an address: resolving waits for the network, and a confined server cannot read the
/// files that the resolver needs. The running server keeps its listeners.
fn without_names(address: &ListenAddress) -> Result<SocketAddr, String> {
    match address {
        ListenAddress::Address(address) => Ok(*address),
        ListenAddress::Name(_, port) => Ok((Ipv4Addr::UNSPECIFIED, *port).into()),
    }
}

/// Checks that the files exist which the next start needs, and that those of the local time zone can be read.
/// A confined server can see whether files exist, but cannot open all of them.
fn checked(options: ServerOptions) -> Result<ServerOptions> {
    let paths = options.catalog.paths.iter().map(|path| ("paths", path));
    let access = options.auth.iter().flat_map(|auth| {
        let (users, keys) = (auth.users.iter(), auth.url_keys.iter());
        users.map(|file| ("users", file)).chain(keys.map(|file| ("url-key", file)))
    });
    let tls = options.tls.iter().map(|tls| &tls.files);
    let tls = tls.flat_map(|tls| [("tls-certificate", &tls.certificate), ("tls-key", &tls.key)]);
    let lists = options.catalog.channels.iter().map(|channel| ("channel", &channel.playlist));
    for (option, file) in paths.chain(access).chain(tls).chain(lists) {
        file.metadata().with_context(|| format!("{option}: cannot find {}", file.display()))?;
    }
    if options.catalog.archives.iter().any(|archive| archive.pattern.zone() == TimeZone::Local) {
        ensure_zone()?;
    }
    Ok(options)
}

/// Returns whether the cause is a lack of permission to open a file (EACCES).
fn is_denied(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let opening = cause.downcast_ref::<io::Error>();
        opening.is_some_and(|error| error.kind() == ErrorKind::PermissionDenied)
            || cause.downcast_ref::<ReloadError>().is_some_and(ReloadError::is_denied)
    })
}
