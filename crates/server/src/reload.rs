//! Parts of a running server that are read or set again: files of users and certificates, rules and limits of
//! folders, fields of responses. Sessions and connections in progress keep the old values.

use std::sync::Arc;

use wirepath_auth::{Access, FolderUsers, RulesError};
use wirepath_http::AssetPath;
use wirepath_net::auth::AccessControl;
use wirepath_net::tls::Terminator;

use crate::burst_limits::{BurstLimits, FolderBurst};
use crate::channels::Channels;
use crate::http::{CurrentFields, ResponseFields};
use crate::library::Library;

/// Rules of who may open what.
#[derive(Clone, Debug)]
pub struct AccessRules {
    /// Users of folders.
    pub folders: Vec<FolderUsers>,
    /// Users who may see status and metrics.
    pub status: Access,
    /// Users that may end sessions.
    pub administrators: Access,
}

/// Options that can be changed while the server runs.
#[derive(Clone, Debug)]
pub struct ReloadableOptions {
    /// Rules for users; None leaves them as they are.
    pub rules: Option<AccessRules>,
    /// Fields of HTTP responses.
    pub response_fields: ResponseFields,
    /// Longest bursts of folders, for sessions that are set up from now on.
    pub folder_bursts: Vec<FolderBurst>,
}

/// Handle for changing options of a running server.
#[derive(Clone)]
pub struct Reloader {
    pub(crate) library: Arc<Library>,
    pub(crate) access: Option<Arc<AccessControl>>,
    pub(crate) terminator: Option<Arc<Terminator>>,
    pub(crate) fields: Arc<CurrentFields>,
    pub(crate) bursts: Arc<BurstLimits>,
    pub(crate) channels: Arc<Channels>,
}

impl Reloader {
    /// Returns whether there are users, a certificate or channels to read again.
    pub fn has_files(&self) -> bool {
        self.access.is_some() || self.terminator.is_some() || !self.channels.is_empty()
    }

    /// Returns whether the server has users. Without users, everyone is served.
    pub fn has_users(&self) -> bool {
        self.access.is_some()
    }

    /// Reads users, certificate and lists of channels again, and logs the results. Waits for storage.
    pub fn read_files(&self) {
        if let Some(access) = &self.access {
            access.reload();
        }
        if let Some(terminator) = &self.terminator {
            terminator.reload();
        }
        self.channels.reload();
    }

    /// Applies options. Rules that contradict each other change nothing.
    pub fn take_over(&self, options: ReloadableOptions) -> Result<(), RulesError> {
        if let (Some(access), Some(rules)) = (&self.access, options.rules) {
            access.replace_rules(&rules.folders, (rules.status, rules.administrators))?;
            warn_of_idle_users(&self.library, &rules.folders);
        }
        warn_of_idle_options(&self.library, &options.response_fields, &options.folder_bursts);
        self.fields.replace(options.response_fields);
        self.bursts.replace(options.folder_bursts);
        Ok(())
    }
}

/// Warns of rules that match nothing that is served: the folder that a misspelt rule was meant for has the
/// rule of its parent.
pub(crate) fn warn_of_idle_users(library: &Library, rules: &[FolderUsers]) {
    warn_of_idle(library, "--folder-users", rules.iter().map(|rule| rule.path.as_str()));
}

/// Warns of fields and bursts that match nothing that is served.
pub(crate) fn warn_of_idle_options(library: &Library, fields: &ResponseFields, bursts: &[FolderBurst]) {
    let caching = fields.cache_control.iter().map(|folder| folder.path.as_str());
    warn_of_idle(library, "--folder-cache-control", caching);
    let dispositions = fields.dispositions.iter().map(|folder| folder.path.as_str());
    warn_of_idle(library, "--folder-content-disposition", dispositions);
    warn_of_idle(library, "--folder-burst-max", bursts.iter().map(|folder| folder.path.as_str()));
}

fn warn_of_idle<'a>(library: &Library, option: &str, paths: impl Iterator<Item = &'a str>) {
    for path in paths {
        if !AssetPath::from_decoded(path.as_bytes()).is_ok_and(|path| library.has(&path)) {
            tracing::warn!(path, "{option} names a path that is not served: check the path");
        }
    }
}
