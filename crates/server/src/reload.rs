//! Parts of a running server that are read or set again: files of users and certificates, the catalog, rules
//! and limits of folders, fields of responses. Sessions and connections in progress keep the old values.

use std::sync::Arc;

use wirepath_auth::{Access, FolderUsers, Rules, RulesError};
use wirepath_engine::BlockingPool;
use wirepath_http::AssetPath;
use wirepath_net::auth::AccessControl;
use wirepath_net::tls::Terminator;

use crate::burst_limits::{BurstLimits, FolderBurst};
use crate::catalog::{CatalogError, CatalogOptions, CurrentCatalog};
use crate::http::{CurrentFields, ResponseFields};
use crate::images::Store;
use crate::library::Library;
use crate::plays::Plays;

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
    /// Catalog; None keeps the current one.
    pub catalog: Option<CatalogOptions>,
    /// Rules for users; None keeps the current ones.
    pub rules: Option<AccessRules>,
    /// Fields of HTTP responses.
    pub response_fields: ResponseFields,
    /// Longest bursts of folders, for sessions that are set up from now on.
    pub folder_bursts: Vec<FolderBurst>,
}

/// Options that a running server cannot take.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// Files, archives or channels cannot be served.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// Rules contradict each other.
    #[error("--folder-users: {0}")]
    Rules(RulesError),
}

impl ReloadError {
    /// Returns whether the server lacks the permission to open a file or folder (EACCES).
    pub fn is_denied(&self) -> bool {
        matches!(self, ReloadError::Catalog(error) if error.is_denied())
    }
}

/// Handle for changing options of a running server.
#[derive(Clone)]
pub struct Reloader {
    pub(crate) catalog: Arc<CurrentCatalog>,
    pub(crate) store: Arc<Store>,
    pub(crate) pool: BlockingPool,
    pub(crate) access: Option<Arc<AccessControl>>,
    pub(crate) terminator: Option<Arc<Terminator>>,
    pub(crate) fields: Arc<CurrentFields>,
    pub(crate) bursts: Arc<BurstLimits>,
    pub(crate) plays: Arc<Plays>,
}

impl Reloader {
    /// Returns whether there are users, a certificate or channels to read again.
    pub fn has_files(&self) -> bool {
        self.access.is_some() || self.terminator.is_some() || !self.catalog.get().channels.is_empty()
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
        self.catalog.get().channels.reload();
    }

    /// Applies options. Invalid ones change nothing. Must be called on a tokio runtime; waits for storage.
    pub fn take_over(&self, options: ReloadableOptions) -> Result<(), ReloadError> {
        let ReloadableOptions { catalog, rules, response_fields, folder_bursts } = options;
        let access = self.access.as_ref().zip(rules);
        let rules = access.map(|(access, AccessRules { folders, status, administrators })| {
            let rules = Rules::new(&folders, status)?.administered_by(administrators);
            Ok::<_, RulesError>((access, rules, folders))
        });
        let rules = rules.transpose().map_err(ReloadError::Rules)?;
        let current = self.catalog.get();
        let catalog = catalog.filter(|options| !current.has(options));
        let next = catalog.map(|options| current.open_next(options, &self.store, &self.pool)).transpose()?;
        // Removed entries go before their rules; added entries come after theirs.
        if let Some(next) = &next {
            self.catalog.reduce_to(next);
        }
        let folders = rules.map(|(access, rules, folders)| {
            access.replace_rules(rules);
            folders
        });
        self.fields.replace(response_fields.clone());
        self.bursts.replace(folder_bursts.clone());
        if let Some(next) = next {
            self.catalog.replace(next);
        }
        // Last, since this may wait for storage for long.
        let next = self.catalog.get();
        current.log_changes(&next);
        self.catalog.look_up_plays(&self.plays);
        warn_of_idle_users(&next.library, &folders.unwrap_or_default());
        warn_of_idle_options(&next.library, &response_fields, &folder_bursts);
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
