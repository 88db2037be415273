//! Options of `wirepath serve`: as flags and, under the same names, as keys of the configuration file. Flags win.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytesize::ByteSize;
use clap::Args;
use serde::{Deserialize, Deserializer};

/// Each field is a flag, and a key of the same name in the configuration file.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct ServeOptions {
    /// Folders and files to serve. One folder is the root; several appear under their own names
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Address of the RTSP door [default: 0.0.0.0:8554]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) rtsp: Option<SocketAddr>,

    /// Address of the HTTP door: downloads, /metrics, /api/status [default: 0.0.0.0:8080]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) http: Option<SocketAddr>,

    /// Folder to keep wire images in [default: /var/cache/wirepath for root, else ~/.cache/wirepath]
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,

    /// How much the wire images may take; the least recently used go first [default: 20GiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) cache_size: Option<ByteSize>,

    /// Engine threads [default: one for each core]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,

    /// Data path: auto, or wire_sendfile, gso_writev, sendmmsg or read_writev [default: auto]
    #[arg(long, value_name = "NAME")]
    pub(crate) path: Option<PathChoice>,

    /// How much of a stream may leave in one go, from 1ms to 500ms [default: 20ms]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(deserialize_with = "time")]
    pub(crate) burst: Option<Duration>,

    /// UDP ports that media leaves from, two for each session [default: 10000-32767]
    #[arg(long, value_name = "FIRST-LAST")]
    pub(crate) rtp_ports: Option<PortRange>,

    /// RTSP sessions at a time; more are refused with 453 [default: 10000]
    #[arg(long, value_name = "N")]
    pub(crate) max_sessions: Option<usize>,

    /// Connections to each door at a time [default: 20000]
    #[arg(long, value_name = "N")]
    pub(crate) max_connections: Option<usize>,

    /// Connections to each door from one address at a time [default: no limit of its own]
    #[arg(long, value_name = "N")]
    pub(crate) max_connections_per_address: Option<usize>,

    /// A session that nothing is heard of for so long is ended [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(deserialize_with = "time")]
    pub(crate) session_timeout: Option<Duration>,
}

impl ServeOptions {
    /// Reads the configuration file at `path`; relative paths in it are relative to its folder.
    pub(crate) fn from_file(path: &Path) -> Result<ServeOptions> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the configuration file {}", path.display()))?;
        let mut options: ServeOptions =
            toml::from_str(&text).with_context(|| format!("in the configuration file {}", path.display()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        options.paths.iter_mut().chain(options.cache.as_mut()).for_each(|path| *path = folder.join(&*path));
        Ok(options)
    }

    /// These options, and where one is not given, that of `file`.
    pub(crate) fn or(self, file: ServeOptions) -> ServeOptions {
        ServeOptions {
            paths: if self.paths.is_empty() { file.paths } else { self.paths },
            rtsp: self.rtsp.or(file.rtsp),
            http: self.http.or(file.http),
            cache: self.cache.or(file.cache),
            cache_size: self.cache_size.or(file.cache_size),
            threads: self.threads.or(file.threads),
            path: self.path.or(file.path),
            burst: self.burst.or(file.burst),
            rtp_ports: self.rtp_ports.or(file.rtp_ports),
            max_sessions: self.max_sessions.or(file.max_sessions),
            max_connections: self.max_connections.or(file.max_connections),
            max_connections_per_address: self
                .max_connections_per_address
                .or(file.max_connections_per_address),
            session_timeout: self.session_timeout.or(file.session_timeout),
        }
    }
}

/// The folder for wire images if none is named.
pub(crate) fn default_cache_folder() -> Result<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Ok("/var/cache/wirepath".into());
    }
    let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    match (folder("XDG_CACHE_HOME"), folder("HOME")) {
        (Some(cache), _) => Ok(cache.join("wirepath")),
        (None, Some(home)) => Ok(home.join(".cache/wirepath")),
        (None, None) => {
            bail!("no folder for wire images: neither XDG_CACHE_HOME nor HOME is set; use --cache DIR")
        }
    }
}

/// `auto`, or a data path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum PathChoice {
    /// The cheapest that works.
    Auto,
    /// This one, for as long as it works.
    Named(wirepath_server::DataPath),
}

impl FromStr for PathChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<PathChoice, String> {
        match text {
            "auto" => Ok(PathChoice::Auto),
            name => name.parse().map(PathChoice::Named).map_err(|error| format!("{error}, or auto")),
        }
    }
}

impl TryFrom<String> for PathChoice {
    type Error = String;

    fn try_from(text: String) -> Result<PathChoice, String> {
        text.parse()
    }
}

/// A range of UDP ports, both ends counted, with room for at least one pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct PortRange {
    pub(crate) first: u16,
    pub(crate) last: u16,
}

impl FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<PortRange, String> {
        let (first, last) = text.split_once('-').ok_or("two ports with a hyphen between them are wanted")?;
        let port =
            |text: &str| text.trim().parse::<u16>().map_err(|error| format!("{text:?} is no port: {error}"));
        let (first, last) = (port(first)?, port(last)?);
        if first < 1024 || last <= first {
            return Err(format!("{first}-{last} does not hold two ports above 1023"));
        }
        Ok(PortRange { first, last })
    }
}

impl TryFrom<String> for PortRange {
    type Error = String;

    fn try_from(text: String) -> Result<PortRange, String> {
        text.parse()
    }
}

fn time<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(value)?;
    humantime::parse_duration(&text).map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_text(text: &str) -> Result<ServeOptions> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wirepath.toml");
        std::fs::write(&path, text).unwrap();
        ServeOptions::from_file(&path)
    }

    #[test]
    fn flags_win_over_the_file() {
        let file =
            from_text("threads = 3\nburst = \"30ms\"\npath = \"sendmmsg\"\ncache-size = \"5GB\"").unwrap();
        let flags = ServeOptions { threads: NonZeroUsize::new(1), ..ServeOptions::default() };
        let options = flags.or(file);
        assert_eq!(options.threads, NonZeroUsize::new(1));
        assert_eq!(options.burst, Some(Duration::from_millis(30)));
        assert_eq!(options.path, Some(PathChoice::Named(wirepath_server::DataPath::Sendmmsg)));
        assert_eq!(options.cache_size, Some(ByteSize::gb(5)));
    }

    #[test]
    fn paths_in_the_file_are_relative_to_it() {
        let options = from_text("paths = [\"films\", \"/srv\"]").unwrap();
        assert!(options.paths[0].is_absolute() && options.paths[0].ends_with("films"));
        assert_eq!(options.paths[1], Path::new("/srv"));
    }

    #[test]
    fn what_is_wrong_in_the_file_is_said_with_its_place() {
        for (text, words) in [
            ("threads = 1\nport = 5", ["port", "line 2"]),
            ("path = \"fastest\"", ["fastest", "line 1"]),
            ("\n\nrtp-ports = \"9-5\"", ["9-5", "line 3"]),
            ("threads = 0", ["threads", "line 1"]),
            ("burst = 20", ["burst", "line 1"]),
        ] {
            let error = format!("{:#}", from_text(text).unwrap_err());
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }
}
