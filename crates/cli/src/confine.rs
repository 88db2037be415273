//! Confinement of `wirepath serve` to the folders that it needs.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use http::Uri;
use http::uri::Scheme;
use wirepath_net::confinement::{Extent, Reach, confine};
use wirepath_server::{LiveChannelOptions, ServerOptions, TimeZone};

/// System folders that a server reads: its own state and the state of the machine.
const OF_SYSTEM: &[&str] = &["/proc", "/sys"];

/// Devices of the data paths: the device of the kernel module, and the sink of calibration.
const DEVICES: &[&str] = &["/dev/wirepath", "/dev/null"];

/// Files that host name resolution reads, for an authentication callback with a host name.
const OF_NAMES: &[&str] =
    &["/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf"];

/// Files of the local time zone, for archives whose file names have local times.
const OF_ZONE: &[&str] = &["/etc/localtime", "/usr/share/zoneinfo"];

/// Locations of trusted certificates, for a callback over TLS.
const OF_TRUST: &[&str] = &[
    "/etc/ssl",
    "/etc/pki/tls",
    "/etc/pki/ca-trust",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/var/lib/ca-certificates",
];

/// Environment variables that name other trusted certificates.
const TRUST_VARIABLES: &[&str] = &["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Choice of confinement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConfineChoice {
    /// As far as the kernel supports it
    #[default]
    Auto,
    /// Completely; otherwise the server does not start
    On,
    /// Not at all
    Off,
}

/// Confines the process, which must not have other threads yet. Returns a line for the log.
pub(crate) fn confine_server(
    choice: ConfineChoice,
    options: &ServerOptions,
    configuration: Option<&Path>,
) -> Result<String> {
    if choice == ConfineChoice::Off {
        return Ok("the server is not confined: --confine off".to_owned());
    }
    // Access to a folder can be allowed only if the folder exists.
    for (kept, option) in
        [(&options.cache, "--cache DIR"), (&folder(&options.calibration), "--calibration FILE")]
    {
        std::fs::create_dir_all(kept).map_err(|error| {
            anyhow!("cannot make the folder {}: {error}; name another with {option}", kept.display())
        })?;
    }
    match (confine(&reach(options, configuration)), choice) {
        (Ok(extent @ (Extent::Part | Extent::Nothing)), ConfineChoice::On) => {
            bail!("--confine on is not possible: the server is confined {extent}; use --confine auto")
        }
        (Ok(extent), _) => Ok(format!("the server is confined {extent}")),
        (Err(error), ConfineChoice::On) => Err(error).context("--confine on is not possible"),
        (Err(error), _) => Ok(format!("the server is not confined: {error}")),
    }
}

/// Folders and files that a server with these options needs.
fn reach(options: &ServerOptions, configuration: Option<&Path>) -> Reach {
    let secrets = options.tls.iter().flat_map(|tls| [&tls.files.certificate, &tls.files.key]);
    let users = options.auth.iter().flat_map(|auth| auth.users.iter().chain(&auth.url_keys));
    let replaced =
        secrets.chain(users).chain([&options.calibration]).map(PathBuf::as_path).chain(configuration);
    let catalog = &options.catalog;
    let served = catalog
        .paths
        .iter()
        .flat_map(|path| if path.is_dir() { vec![path.clone()] } else { folders(path).collect() });
    let listed = catalog.channels.iter().flat_map(LiveChannelOptions::files);
    let listed: Vec<PathBuf> = listed.flat_map(|file| folders(&file).collect::<Vec<_>>()).collect();
    let system = OF_SYSTEM.iter().map(PathBuf::from);
    let callback = options.auth.iter().filter_map(|auth| auth.callback.as_ref());
    let asked = callback.flat_map(|callback| of_callback(&callback.url));
    let is_local = catalog.archives.iter().any(|archive| archive.pattern.zone() == TimeZone::Local);
    let zone = OF_ZONE.iter().filter(|_| is_local).map(PathBuf::from);
    let readable = served
        .chain(listed)
        .chain(replaced.flat_map(folders))
        .chain(system)
        .chain(asked)
        .chain(zone)
        .collect();
    // Writable, since the server calibrates its data paths if there is no calibration.
    let kept = [options.cache.clone(), folder(&options.calibration)];
    Reach {
        readable,
        writable: DEVICES.iter().map(PathBuf::from).chain(kept).collect(),
        notify_socket: std::env::var_os("NOTIFY_SOCKET"),
    }
}

/// Ensures that the server may read the files of the local time zone: a confined server may not, unless it
/// had archives with local times at its start.
pub(crate) fn ensure_zone() -> Result<()> {
    for file in OF_ZONE {
        match std::fs::File::open(file) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return Err(error).with_context(|| format!("--archive-zone local: cannot read {file}"));
            }
            // Without these files, local time is UTC.
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

/// Files that a request to the callback reads; none if its URL has an address and no TLS.
fn of_callback(url: &Uri) -> Vec<PathBuf> {
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    let names = if host.parse::<IpAddr>().is_ok() { &[][..] } else { OF_NAMES };
    let trust = if url.scheme() == Some(&Scheme::HTTPS) { OF_TRUST } else { &[][..] };
    let chosen = TRUST_VARIABLES.iter().filter(|_| !trust.is_empty()).filter_map(std::env::var_os);
    let chosen = chosen.flat_map(|paths| std::env::split_paths(&paths).collect::<Vec<_>>());
    names.iter().chain(trust).map(PathBuf::from).chain(chosen).collect()
}

/// Folders of a file that may be replaced by renaming: the folder of its name, and the folder of the file
/// that a symlink leads to.
fn folders(file: &Path) -> impl Iterator<Item = PathBuf> {
    let real = file.canonicalize().ok().map(|real| folder(&real));
    [folder(file)].into_iter().chain(real)
}

fn folder(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: With a callback, a confined server may read in addition only the files that the callback's
    /// URL needs.
    #[test]
    fn a_callback_is_reached_by_as_few_files_as_its_url_needs() {
        let reached = |url: &str| of_callback(&url.parse().unwrap());
        for url in ["http://127.0.0.1:9000/auth", "http://[::1]/"] {
            assert!(reached(url).is_empty(), "{url}");
        }
        assert_eq!(reached("http://auth.example/").len(), OF_NAMES.len());
        assert!(reached("https://192.0.2.1/").iter().all(|path| path != Path::new("/etc/hosts")));
        assert!(reached("https://192.0.2.1/").contains(&PathBuf::from("/etc/ssl")));
    }

    #[test]
    fn a_file_that_is_replaced_is_reached_by_its_folders() {
        let home = tempfile::tempdir().unwrap();
        let (live, archive) = (home.path().join("live"), home.path().join("archive"));
        for folder in [&live, &archive] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::write(archive.join("key1.pem"), "").unwrap();
        std::os::unix::fs::symlink("../archive/key1.pem", live.join("key.pem")).unwrap();
        let found: Vec<_> =
            folders(&live.join("key.pem")).map(|folder| folder.canonicalize().unwrap()).collect();
        assert_eq!(found, [live.canonicalize().unwrap(), archive.canonicalize().unwrap()]);
        assert_eq!(folder(Path::new("users")), Path::new("."));
    }
}
