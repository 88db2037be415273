//! Options of `wirepath serve`: flags, and keys of the same names in the configuration file. Flags take
//! precedence.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytesize::ByteSize;
use clap::{Args, Command, ValueEnum};
use serde::{Deserialize, Deserializer};
use toml::de::DeTable;
use wirepath_net::http::AccessLog;

use crate::image_options::ImageOptions;
use crate::values;

/// Options of the server: each is a flag, and a key of the configuration file.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(crate) struct ServeOptions {
    /// Folders and files to serve. One folder is the root; several appear under their own names
    #[arg(value_name = "PATH")]
    #[serde(deserialize_with = "paths")]
    pub(crate) paths: Vec<PathBuf>,

    /// RTSP listen address; :PORT for every address [default: 0.0.0.0:8554]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = values::listen_address)]
    #[serde(deserialize_with = "listen_address")]
    pub(crate) rtsp: Option<SocketAddr>,

    /// HTTP listen address, for downloads, /metrics and /api/status [default: 0.0.0.0:8080]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = values::listen_address)]
    #[serde(deserialize_with = "listen_address")]
    pub(crate) http: Option<SocketAddr>,

    #[command(flatten)]
    #[serde(skip)] // read separately: serde's `flatten` would lose the lines of errors
    pub(crate) images: ImageOptions,

    /// Memory for images that are played, for the data path wire_uring: no copy, few calls [default: 0]
    #[arg(long, value_name = "SIZE")]
    pub(crate) hot_memory: Option<ByteSize>,

    /// Engine threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = values::threads)]
    #[serde(deserialize_with = "threads")]
    pub(crate) threads: Option<NonZeroUsize>,

    /// Data path: auto, or the name of one, such as wire_uring (needs --hot-memory), wire_sendfile,
    /// gso_writev, krtpsendfile (needs the kernel module), sendmmsg or read_writev [default: auto]
    #[arg(long, value_name = "NAME")]
    pub(crate) path: Option<PathChoice>,

    /// Calibration of the data paths, by `wirepath assess`; without one of this kernel, the server measures
    /// for two seconds and adds it [default: calibration.json in the cache folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) calibration: Option<PathBuf>,

    /// UDP ports of RTP and RTCP, two for each session [default: 10000-32767]
    #[arg(long, value_name = "FIRST-LAST")]
    pub(crate) rtp_ports: Option<PortRange>,

    /// Maximum number of RTSP sessions; more are refused with 453 [default: 10000, or as many as --rtp-ports
    /// suffice for]
    #[arg(long, value_name = "N")]
    pub(crate) max_sessions: Option<usize>,

    /// Maximum number of RTSP sessions of one client address [default: 1000]
    #[arg(long, value_name = "N")]
    pub(crate) max_sessions_per_address: Option<usize>,

    /// Maximum number of connections, of RTSP and of HTTP each [default: 20000]
    #[arg(long, value_name = "N")]
    pub(crate) max_connections: Option<usize>,

    /// Maximum number of connections from one client address, of RTSP and of HTTP each [default: 2000]
    #[arg(long, value_name = "N")]
    pub(crate) max_connections_per_address: Option<usize>,

    /// End idle sessions after this time, at least 5s [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    #[serde(deserialize_with = "time")]
    pub(crate) session_timeout: Option<Duration>,

    /// Log each HTTP request: method, path, status, bytes, time and agent [default: no such log]
    #[arg(long, value_name = "FORM")]
    pub(crate) access_log: Option<AccessLogForm>,
}

/// Form of the log of HTTP requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AccessLogForm {
    /// Fields, as in the rest of the log
    Text,
    /// A JSON object on a line of its own
    Json,
}

impl From<AccessLogForm> for AccessLog {
    fn from(form: AccessLogForm) -> AccessLog {
        match form {
            AccessLogForm::Text => AccessLog::Text,
            AccessLogForm::Json => AccessLog::Json,
        }
    }
}

impl ServeOptions {
    /// Reads a configuration file; relative paths in it are relative to its folder.
    pub(crate) fn from_file(path: &Path) -> Result<ServeOptions> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the configuration file {}", path.display()))?;
        let mut options = ServeOptions::from_text(&text)
            .with_context(|| format!("in the configuration file {}", path.display()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let own = [options.images.cache.as_mut(), options.calibration.as_mut()];
        let paths = options.paths.iter_mut().chain(own.into_iter().flatten());
        paths.for_each(|path| *path = folder.join(&*path));
        Ok(options)
    }

    fn from_text(text: &str) -> Result<ServeOptions> {
        check_keys(text)?;
        Ok(ServeOptions { images: toml::from_str(text)?, ..toml::from_str(text)? })
    }

    /// These options, completed by those of `file`.
    pub(crate) fn or(self, file: ServeOptions) -> ServeOptions {
        ServeOptions {
            paths: if self.paths.is_empty() { file.paths } else { self.paths },
            rtsp: self.rtsp.or(file.rtsp),
            http: self.http.or(file.http),
            images: self.images.or(file.images),
            hot_memory: self.hot_memory.or(file.hot_memory),
            threads: self.threads.or(file.threads),
            path: self.path.or(file.path),
            calibration: self.calibration.or(file.calibration),
            rtp_ports: self.rtp_ports.or(file.rtp_ports),
            max_sessions: self.max_sessions.or(file.max_sessions),
            max_sessions_per_address: self.max_sessions_per_address.or(file.max_sessions_per_address),
            max_connections: self.max_connections.or(file.max_connections),
            max_connections_per_address: self
                .max_connections_per_address
                .or(file.max_connections_per_address),
            session_timeout: self.session_timeout.or(file.session_timeout),
            access_log: self.access_log.or(file.access_log),
        }
    }
}

/// Refuses keys that are neither the name of a flag nor `paths`, with their line.
fn check_keys(text: &str) -> Result<()> {
    let table = DeTable::parse(text)?;
    let command = ServeOptions::augment_args(Command::new("serve"));
    let known: Vec<&str> = command
        .get_arguments()
        .map(|argument| argument.get_long().unwrap_or(argument.get_id().as_str()))
        .collect();
    let Some(key) = table.get_ref().keys().find(|key| !known.contains(&key.get_ref().as_ref())) else {
        return Ok(());
    };
    let line = text[..key.span().start].matches('\n').count() + 1;
    bail!("line {line}: unknown key `{}`: expected {}", key.get_ref(), known.join(", "))
}

/// Deserializes paths. Serde's message about a string would name a sequence, which TOML does not.
fn paths<'de, D: Deserializer<'de>>(value: D) -> Result<Vec<PathBuf>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a list of strings")]
    enum Paths {
        List(Vec<PathBuf>),
        Single(String),
    }
    match Paths::deserialize(value)? {
        Paths::List(paths) => Ok(paths),
        Paths::Single(path) => {
            Err(serde::de::Error::custom(format!("expected a list: write paths = [{path:?}]")))
        }
    }
}

/// Deserializes an address to listen on.
fn listen_address<'de, D: Deserializer<'de>>(value: D) -> Result<Option<SocketAddr>, D::Error> {
    values::listen_address(&String::deserialize(value)?).map(Some).map_err(serde::de::Error::custom)
}

/// Deserializes a time.
fn time<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Duration>, D::Error> {
    values::time(&String::deserialize(value)?).map(Some).map_err(serde::de::Error::custom)
}

/// Deserializes the number of engine threads.
fn threads<'de, D: Deserializer<'de>>(value: D) -> Result<Option<NonZeroUsize>, D::Error> {
    let text = i64::deserialize(value)?.to_string();
    values::threads(&text).map(Some).map_err(serde::de::Error::custom)
}

/// Choice of the data path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum PathChoice {
    /// `auto`: the cheapest that works.
    Auto,
    /// By name, as long as it works.
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

/// Range of UDP ports, including both ends, with at least one pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct PortRange {
    pub(crate) first: u16,
    pub(crate) last: u16,
}

impl FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<PortRange, String> {
        let (first, last) = text.split_once('-').ok_or("expected FIRST-LAST, such as 10000-32767")?;
        let port = |text: &str| {
            text.trim().parse::<u16>().map_err(|_| format!("invalid port {text:?}: expected up to 65535"))
        };
        let (first, last) = (port(first)?, port(last)?);
        if first < 1024 || last <= first {
            return Err(format!("{first}-{last} has no two ports above 1023"));
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
    fn flags_take_precedence_over_the_file() {
        let file =
            from_text("threads = 3\nburst = \"30ms\"\npath = \"sendmmsg\"\ncache-size = \"5GB\"").unwrap();
        let flags = ServeOptions { threads: NonZeroUsize::new(1), ..ServeOptions::default() };
        let options = flags.or(file);
        assert_eq!(options.threads, NonZeroUsize::new(1));
        assert_eq!(options.images.burst, Some(Duration::from_millis(30)));
        assert_eq!(options.path, Some(PathChoice::Named(wirepath_server::DataPath::Sendmmsg)));
        assert_eq!(options.images.cache_size, Some(bytesize::ByteSize::gb(5)));
    }

    #[test]
    fn paths_in_the_file_are_relative_to_it() {
        let options = from_text("paths = [\"films\", \"/srv\"]\ncalibration = \"costs\"").unwrap();
        assert!(options.paths[0].is_absolute() && options.paths[0].ends_with("films"));
        assert_eq!(options.paths[1], Path::new("/srv"));
        assert_eq!(options.calibration, Some(options.paths[0].with_file_name("costs")));
    }

    /// Promise: Flags override the configuration file; an unknown key is an error with its position.
    #[test]
    fn errors_in_the_file_have_their_line() {
        for (text, words) in [
            ("threads = 1\nport = 5", ["port", "line 2"]),
            ("path = \"fastest\"", ["fastest", "line 1"]),
            ("\n\nrtp-ports = \"9-5\"", ["9-5", "line 3"]),
            ("threads = 0", ["line 1", "expected a whole number from 1 to 1024"]),
            ("threads = 1025", ["line 1", "expected a whole number from 1 to 1024"]),
            (
                "burst = \"1ms\"\ncache-size = \"63KiB\"",
                ["line 2", "63.0 KiB is too small: expected at least 64.0 KiB"],
            ),
            ("cache-size = 10", ["line 1", "10 B is too small"]),
            ("burst = 20", ["burst", "line 1"]),
            ("burst = \"2s\"", ["line 1", "expected a time from 1ms to 500ms"]),
            ("\npaths = \"../media\"", ["line 2", "expected a list: write paths = [\"../media\"]"]),
            ("rtsp = \"8554\"", ["line 1", "expected ADDRESS:PORT"]),
        ] {
            let error = format!("{:#}", from_text(text).unwrap_err());
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }
}
