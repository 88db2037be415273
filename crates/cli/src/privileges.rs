//! Change of `wirepath serve` from root to the user of `--user`.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use bytesize::ByteSize;
use rustix::fs::{Access, access};
use rustix::process::{Resource, getrlimit};
use wirepath_net::privileges::{Account, UserName};
use wirepath_server::ServerOptions;

use crate::serve_sockets::ServeSockets;

/// Opens the listeners, and then changes the process to a user, for good. The process must not have other
/// threads yet. Returns a line for the log.
pub(crate) fn become_user(
    name: &UserName,
    options: &ServerOptions,
    configuration: Option<&Path>,
    sockets: &mut ServeSockets,
) -> Result<String> {
    let account = name.find().context("--user")?;
    if account.is_current().context("--user")? {
        return Ok(format!("the server runs as user {account}, as it was started"));
    }
    sockets.listen(options)?;
    account.assume().context("--user")?;
    ensure_cache(&options.cache, &account)?;
    if let Some(file) = configuration {
        ensure_configuration(file, &account)?;
    }
    let lockable = match getrlimit(Resource::Memlock).current {
        Some(bytes) => format!("; lockable memory: {}", ByteSize::b(bytes)),
        None => String::new(),
    };
    Ok(format!("the server runs as user {account}; the privileges of root are given up{lockable}"))
}

/// Makes the cache folder if it does not exist. Fails if the user cannot write to it. The folder is not given
/// to the user, since it may be anyone's.
fn ensure_cache(cache: &Path, account: &Account) -> Result<()> {
    let (user, folder) = (account.user(), cache.display());
    let quoted = format!("'{}'", folder.to_string().replace('\'', "'\\''"));
    let made = DirBuilder::new().recursive(true).mode(0o700).create(cache);
    made.map_err(|error| {
        anyhow!(
            "user {user} cannot make the cache folder {folder}: {error}; make it (install -d -m 700 -o {user} \
             {quoted}), or name another with --cache DIR"
        )
    })?;
    let writable = access(cache, Access::WRITE_OK | Access::EXEC_OK).map_err(io::Error::from);
    writable.map_err(|error| {
        anyhow!(
            "user {user} cannot write to the cache folder {folder}: {error}; name a folder of the user with --cache DIR, \
             or, if it has only a cache, give it to the user (chown -R {user}: {quoted})"
        )
    })
}

/// Fails if the user cannot read the configuration file: then no reload would succeed.
fn ensure_configuration(file: &Path, account: &Account) -> Result<()> {
    access(file, Access::READ_OK).map_err(|errno| {
        anyhow!(
            "user {} cannot read the configuration file {}: {}; let the user's group read it, since SIGHUP reads it \
             again",
            account.user(),
            file.display(),
            io::Error::from(errno)
        )
    })
}
