//! Options of `wirepath serve`: flags, and keys of the same names in the configuration file. Flags take
//! precedence.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bytesize::ByteSize;
use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches, Id, ValueEnum};
use http::{HeaderValue, Uri};
use toml::de::{DeTable, DeValue};
use wirepath_auth::{Access, FolderUsers};
use wirepath_net::http::AccessLog;
use wirepath_net::privileges::UserName;
use wirepath_net::program::{ListenAddress, unknown_key};
use wirepath_relay::RateSpec;
use wirepath_server::{
    ArchiveOptions, FolderBurst, FolderCacheControl, FolderDisposition, Gaps, HotMemorySize, ImagePolicy,
    LiveChannelOptions, MulticastRange, SrtpKeys, TimeZone,
};

use crate::confine::ConfineChoice;
use crate::cpus::Cpus;
use crate::image_options::ImageOptions;
use crate::values::{self, BurstOption};

/// Options of the server: each is a flag, and a key of the configuration file.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServeOptions {
    /// Folders and files to serve. A single folder is the root; several are served under their names
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// RTSP listen address; :PORT for every address [default: 0.0.0.0:8554]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) rtsp: Option<ListenAddress>,

    /// HTTP listen address, for downloads, /status and /metrics [default: 0.0.0.0:8080]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) http: Option<ListenAddress>,

    /// Listen address of RTSP over TLS (rtsps); media are interleaved, with --srtp also over UDP; needs
    /// --tls-certificate and --tls-key [default: none]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) rtsps: Option<ListenAddress>,

    /// SRTP for sessions over TLS, which may then use UDP; KEYS is the way in which clients get the keys;
    /// needs --rtsps [default: off]
    #[arg(long, value_name = "KEYS")]
    pub(crate) srtp: Option<SrtpChoice>,

    /// HTTPS listen address; needs --tls-certificate and --tls-key [default: none]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) https: Option<ListenAddress>,

    /// Certificate chain for --rtsps and --https (PEM, the server's own certificate first). SIGHUP reads
    /// certificate and key again
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_certificate: Option<PathBuf>,

    /// Private key of --tls-certificate (PEM, without a passphrase)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) images: ImageOptions,

    /// Assets that get a wire image: auto (those played so often that it pays off), all played ones, or none.
    /// Other assets play directly from their files [default: auto; all with --hot-memory SIZE]
    #[arg(long = "images", value_name = "WHICH")]
    pub(crate) image_policy: Option<PolicyChoice>,

    /// Maximum rate of writing wire images in the background, in bytes per second [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = values::rate)]
    pub(crate) image_rate: Option<ByteSize>,

    /// Maximum memory for making indexes and wire images, at least 4MiB; further files wait for their turn
    /// [default: 256MiB, at most an eighth of the memory]
    #[arg(long, value_name = "SIZE", value_parser = values::packing_memory)]
    pub(crate) packing_memory: Option<ByteSize>,

    /// Memory that holds images in use, for the data path wire_uring (no copy, few calls); auto: up to an
    /// eighth of the memory, for images that eight sessions play; 0: none [default: auto]
    #[arg(long, value_name = "SIZE", value_parser = values::hot_memory)]
    pub(crate) hot_memory: Option<HotMemorySize>,

    /// Duration of media sent in one burst, from 1ms to 500ms; auto: 10ms for few sessions, growing with
    /// their number up to --burst-max [default: auto]
    #[arg(long, value_name = "TIME", value_parser = values::burst)]
    pub(crate) burst: Option<BurstOption>,

    /// Longest burst of --burst auto, from 1ms to 500ms [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = values::burst_time)]
    pub(crate) burst_max: Option<Duration>,

    /// Longest burst for a folder (or a file), by its path in URLs; may be repeated [default: --burst-max]
    #[arg(long, value_name = "PATH=TIME", value_parser = values::folder_burst)]
    pub(crate) folder_burst_max: Vec<FolderBurst>,

    /// Admission of sessions: measured (refuse with 453 by the measured load), or off [default: measured]
    #[arg(long, value_name = "RULE")]
    pub(crate) admission: Option<AdmissionChoice>,

    /// Share of the engine threads' time and of --max-rate, in percent, reserved for downloads and everything
    /// else; sessions that would need it are refused with 453 [default: 15%]
    #[arg(long, value_name = "PERCENT", value_parser = values::percent)]
    pub(crate) reserve: Option<f64>,

    /// Maximum sending rate, such as 900Mb/s; sessions beyond it, less --reserve, are refused with 453
    /// [default: the speed of the active network cards; no limit if unknown]
    #[arg(long, value_name = "RATE")]
    pub(crate) max_rate: Option<RateSpec>,

    /// Processors to run on, such as 2-5,8; preferably processors that do not handle the network card's
    /// interrupts, or those of its NUMA node [default: all allowed to the process]
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<Cpus>,

    /// Engine threads, and as many HTTP and TLS threads [default: one per processor of --cpus]
    #[arg(long, value_name = "N", value_parser = values::threads)]
    pub(crate) threads: Option<NonZeroUsize>,

    /// Data path: auto or a name, such as wire_uring (needs --hot-memory), wire_mapping, wire_sendfile,
    /// gso_writev, krtpsendfile (needs the kernel module), sendmmsg or read_writev [default: auto]
    #[arg(long, value_name = "NAME")]
    pub(crate) path: Option<PathChoice>,

    /// Calibration of the data paths, by `wirepath assess`; if it has no entry for this kernel, the server
    /// measures for two seconds and adds one [default: calibration.json in the cache folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) calibration: Option<PathBuf>,

    /// UDP ports of RTP and RTCP, in pairs that sessions share; one pair suffices, such as 5004-5005
    /// [default: 10000-32767]
    #[arg(long, value_name = "FIRST-LAST")]
    pub(crate) rtp_ports: Option<PortRange>,

    /// Groups for clients that request RTP/AVP;multicast, one for each asset or channel being sent, and the even
    /// port of the first track, such as 239.255.42.1-239.255.42.99:5004?ttl=4&interface=eth0 [default: no multicast]
    #[arg(long, value_name = "GROUPS:PORT")]
    pub(crate) multicast: Option<MulticastRange>,

    /// Maximum number of RTSP sessions; further ones are refused with 453 [default: 10000]
    #[arg(long, value_name = "N")]
    pub(crate) max_sessions: Option<usize>,

    /// Maximum number of RTSP sessions of one client address [default: 1000]
    #[arg(long, value_name = "N")]
    pub(crate) max_sessions_per_address: Option<usize>,

    /// Maximum number of files that one client address has packed at a time (index or wire image); further
    /// ones are refused with 453 [default: as --max-sessions-per-address]
    #[arg(long, value_name = "N")]
    pub(crate) max_packings_per_address: Option<usize>,

    /// Maximum number of connections, of RTSP and of HTTP each [default: 20000]
    #[arg(long, value_name = "N")]
    pub(crate) max_connections: Option<usize>,

    /// Maximum number of connections from one client address, of RTSP and of HTTP each [default: 2000]
    #[arg(long, value_name = "N")]
    pub(crate) max_connections_per_address: Option<usize>,

    /// End idle sessions after this time, at least 5s [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    pub(crate) session_timeout: Option<Duration>,

    /// Maximum lag of a client that reads too slowly over TCP; beyond it, the client skips forward to a
    /// random access point [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    pub(crate) max_lag: Option<Duration>,

    /// Serve only the users in this file: lines of htdigest, written by `wirepath passwd FILE USER`. SIGHUP
    /// reads it again [default: everyone]
    #[arg(long, value_name = "FILE")]
    pub(crate) users: Option<PathBuf>,

    /// Users allowed in a folder (or for a file), by its path in URLs: names; * for any user of --users; -
    /// for everyone without a password. The innermost folder decides; may be repeated [default: any user]
    #[arg(long, value_name = "PATH=USER,USER", value_parser = values::folder_users)]
    pub(crate) folder_users: Vec<FolderUsers>,

    /// Users allowed to read /status, /api/* and /metrics, as in --folder-users [default: any user of
    /// --users]
    #[arg(long, value_name = "USER,USER", value_parser = values::access)]
    pub(crate) status_users: Option<Access>,

    /// Users allowed to end sessions, on the status page and by DELETE /api/sessions/ID, and to set the rule of
    /// lending by PUT /api/loans: names, or * for any user of --users [default: none]
    #[arg(long, value_name = "USER,USER", value_parser = values::administrators)]
    pub(crate) admin_users: Option<Access>,

    /// Lifetime of a nonce (authentication challenge); players answer a new one without asking the user
    /// [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = values::positive_time)]
    pub(crate) nonce_lifetime: Option<Duration>,

    /// Serve signed URLs, which need no user. `wirepath sign` signs with the first key of this file; every
    /// key in it is valid. SIGHUP reads the file again [default: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) url_key: Option<PathBuf>,

    /// Ask this service about each request that has neither a user of --users nor a signature: 2xx allows, 401
    /// and 403 refuse (POST of JSON with the fields of MediaMTX's authHTTPAddress) [default: none]
    #[arg(long, value_name = "URL", value_parser = values::callback_url)]
    pub(crate) auth_url: Option<Uri>,

    /// Time limit for a response of --auth-url; after it the client gets 503 [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = values::positive_time)]
    pub(crate) auth_timeout: Option<Duration>,

    /// Time for which responses of --auth-url are cached for equal requests of a client; 0s: not at all
    /// [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    pub(crate) auth_keep: Option<Duration>,

    /// Allow web pages of this origin (scheme, host, port) to read files over HTTP (CORS); * for all origins;
    /// may be repeated [default: none]
    #[arg(long, value_name = "ORIGIN", value_parser = values::origin)]
    pub(crate) cors: Vec<HeaderValue>,

    /// Cache-Control header of the files in a folder (or of a file), by its path in URLs; the innermost
    /// folder decides; may be repeated [default: none]
    #[arg(long, value_name = "PATH=VALUE", value_parser = values::folder_cache_control)]
    pub(crate) folder_cache_control: Vec<FolderCacheControl>,

    /// Content-Disposition header of the files in a folder (or of a file), by its path in URLs: attachment
    /// (browsers store a file under its name), or inline (they show it); the innermost folder decides; may be
    /// repeated [default: none]
    #[arg(long, value_name = "PATH=HOW", value_parser = values::folder_disposition)]
    pub(crate) folder_content_disposition: Vec<FolderDisposition>,

    /// Folder of recordings, by its path in URLs, that plays as one timeline: rtsp://HOST/PATH. PATTERN is
    /// the strftime format of the times in file names, without the extension, and in names of folders, as in
    /// %Y-%m-%d/%H-%M-%S; may be repeated [default: none; pattern %Y-%m-%dT%H-%M-%S]
    #[arg(long, value_name = "PATH[=PATTERN]", value_parser = values::archive)]
    pub(crate) archive: Vec<ArchiveOptions>,

    /// Time zone of recordings whose names have no %z [default: utc]
    #[arg(long, value_name = "ZONE")]
    pub(crate) archive_zone: Option<ZoneChoice>,

    /// Gaps between recordings: skip (the next recording follows at once), or hold (nothing is sent for the
    /// duration of the gap) [default: skip]
    #[arg(long, value_name = "HOW")]
    pub(crate) archive_gaps: Option<GapsChoice>,

    /// Channel: a playlist (.m3u, or .toml with start times) that plays as one endless stream, at the same
    /// position for every viewer of rtsp://HOST/NAME; may be repeated; SIGHUP reads playlists again [default:
    /// none]
    #[arg(long, value_name = "NAME=PLAYLIST", value_parser = values::channel)]
    pub(crate) channel: Vec<LiveChannelOptions>,

    /// Run as this user with all its groups, if started by root: the server opens its listeners, then gives up
    /// root's privileges. GROUP replaces the user's primary group [default: the user that starts the server]
    #[arg(long, value_name = "NAME[:GROUP]")]
    pub(crate) user: Option<UserName>,

    /// Confine the server to its folders (Landlock) and system calls (seccomp), so that an exploited bug
    /// cannot open other files or start programs [default: auto]
    #[arg(long, value_name = "HOW")]
    pub(crate) confine: Option<ConfineChoice>,

    /// Unix socket for handing the listening sockets over to a new server, which is started with the same
    /// options and --takeover, as the same user or root [default: none]
    #[arg(long, value_name = "SOCKET")]
    pub(crate) handover: Option<PathBuf>,

    /// Maximum time that sessions continue in the old server after a handover; then they end with a BYE
    /// [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    pub(crate) drain: Option<Duration>,

    /// Log each HTTP request: method, path, status, bytes, time and agent [default: no access log]
    #[arg(long, value_name = "FORM")]
    pub(crate) access_log: Option<AccessLog>,
}

/// Rule by which sessions are admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AdmissionChoice {
    /// Refuse sessions if the engine threads have no time for them, or while other sessions are late
    Measured,
    /// Apply only the counted limits, such as --max-sessions
    Off,
}

/// Keys of SRTP that DESCRIBE sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SrtpChoice {
    /// No SRTP: media go over the TLS connection only
    Off,
    /// Keys by MIKEY, for clients that request RTP/SAVP, such as GStreamer
    Mikey,
    /// Keys by MIKEY and, for movies, also by SDES, for ffmpeg; clients that ignore SDES cannot decode movies
    Sdes,
}

impl From<SrtpChoice> for SrtpKeys {
    fn from(choice: SrtpChoice) -> SrtpKeys {
        match choice {
            SrtpChoice::Off => SrtpKeys::None,
            SrtpChoice::Mikey => SrtpKeys::Mikey,
            SrtpChoice::Sdes => SrtpKeys::MikeyAndSdes,
        }
    }
}

/// Assets that wire images are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyChoice {
    /// Assets played so often that an image pays off
    Auto,
    /// All played assets
    All,
    /// None, except for files whose packets are not 188 bytes long
    None,
}

impl From<PolicyChoice> for ImagePolicy {
    fn from(choice: PolicyChoice) -> ImagePolicy {
        match choice {
            PolicyChoice::Auto => ImagePolicy::Auto,
            PolicyChoice::All => ImagePolicy::All,
            PolicyChoice::None => ImagePolicy::None,
        }
    }
}

/// Zone of times in names of recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ZoneChoice {
    /// UTC
    Utc,
    /// The server's time zone
    Local,
}

impl From<ZoneChoice> for TimeZone {
    fn from(choice: ZoneChoice) -> TimeZone {
        match choice {
            ZoneChoice::Utc => TimeZone::Utc,
            ZoneChoice::Local => TimeZone::Local,
        }
    }
}

/// Gaps between recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GapsChoice {
    /// The next recording follows at once
    Skip,
    /// Nothing is sent for the duration of the gap
    Hold,
}

impl From<GapsChoice> for Gaps {
    fn from(choice: GapsChoice) -> Gaps {
        match choice {
            GapsChoice::Skip => Gaps::Skip,
            GapsChoice::Hold => Gaps::Hold,
        }
    }
}

/// Options from a configuration file and from flags. Flags take precedence.
pub(crate) struct FileOptions {
    /// Parsed options.
    pub(crate) options: ServeOptions,
    /// The same options as they were written.
    matches: ArgMatches,
}

impl FileOptions {
    /// Reads a configuration file. `flags` are the flags of `A`. Relative paths in the file are relative to
    /// its folder.
    pub(crate) fn read<A: Args>(
        path: &Path,
        flags: impl IntoIterator<Item = OsString>,
    ) -> Result<FileOptions> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the configuration file {}", path.display()))?;
        let (arguments, paths) = arguments(&text, path.parent().unwrap_or(Path::new(".")))
            .with_context(|| format!("in the configuration file {}", path.display()))?;
        let command = A::augment_args(command()).args_override_self(true);
        let matches = command.try_get_matches_from(arguments.into_iter().chain(flags))?;
        let mut options = ServeOptions::from_arg_matches(&matches)?;
        if options.paths.is_empty() {
            options.paths = paths;
        }
        Ok(FileOptions { options, matches })
    }

    /// Names of the options that differ from the options `before`.
    pub(crate) fn changed_since(&self, before: &FileOptions) -> Vec<String> {
        let command = ServeOptions::augment_args(command());
        let options =
            command.get_arguments().filter_map(|option| Some((option.get_long()?, option.get_id())));
        let written = |of: &FileOptions, id: &Id| {
            let values = of.matches.get_raw(id.as_str());
            values.map(|values| values.map(OsStr::to_owned).collect::<Vec<_>>())
        };
        let changed = options.filter(|(_, id)| written(self, id) != written(before, id));
        let mut changed: Vec<String> = changed.map(|(name, _)| name.to_owned()).collect();
        if self.options.paths != before.options.paths {
            changed.push("paths".to_owned());
        }
        changed
    }
}

fn command() -> Command {
    Command::new("serve").no_binary_name(true)
}

/// Keys whose values are paths, relative to the folder of the configuration file.
const PATH_KEYS: &[&str] =
    &["cache", "calibration", "users", "url-key", "tls-certificate", "tls-key", "handover"];

/// Converts the keys of a configuration file to arguments, and checks each of them. Returns the arguments and
/// the paths to serve.
fn arguments(text: &str, folder: &Path) -> Result<(Vec<OsString>, Vec<PathBuf>)> {
    let command = ServeOptions::augment_args(command());
    let name = |option: &clap::Arg| option.get_long().unwrap_or(option.get_id().as_str()).to_owned();
    let known: Vec<String> = command.get_arguments().map(name).collect();
    let is_list = |key: &str| {
        let option = command.get_arguments().find(|option| option.get_long() == Some(key));
        option.is_some_and(|option| matches!(option.get_action(), ArgAction::Append))
    };
    let (mut arguments, mut paths) = (Vec::new(), Vec::new());
    for (key, value) in DeTable::parse(text)?.get_ref() {
        let (line, key) = (text[..key.span().start].matches('\n').count() + 1, key.get_ref().as_ref());
        if !known.iter().any(|name| name == key) {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            bail!("line {line}: {}", unknown_key(key, &known));
        }
        let values: Vec<OsString> = match value.get_ref() {
            DeValue::Array(list) if key == "paths" => {
                let path = list.iter().map(|path| Some(folder.join(path.get_ref().as_str()?)));
                let all: Option<Vec<PathBuf>> = path.collect();
                paths = all.with_context(|| format!("line {line}: paths: expected a list of strings"))?;
                continue;
            }
            DeValue::Array(list) if is_list(key) => {
                let texts = list.iter().map(|text| Some(located(key, text.get_ref().as_str()?, folder)));
                let texts: Option<Vec<OsString>> = texts.collect();
                texts.with_context(|| format!("line {line}: {key}: expected a list of strings"))?
            }
            DeValue::String(text) if key == "paths" => {
                bail!("line {line}: expected a list: write paths = [{text:?}]")
            }
            DeValue::String(path) if PATH_KEYS.contains(&key) => {
                vec![folder.join(&**path).into()]
            }
            DeValue::String(text) => vec![located(key, text, folder)],
            _ if key == "paths" => bail!("line {line}: paths: expected a list of strings"),
            DeValue::Integer(number) => {
                let number = i128::from_str_radix(number.as_str(), number.radix());
                vec![
                    number
                        .with_context(|| format!("line {line}: {key}: number too large"))?
                        .to_string()
                        .into(),
                ]
            }
            _ => bail!("line {line}: {key}: expected a string or a whole number"),
        };
        for value in values {
            let mut argument = OsString::from(format!("--{key}="));
            argument.push(value);
            ensure_valid(&command, &argument, line)?;
            arguments.push(argument);
        }
    }
    Ok((arguments, paths))
}

/// Value of a key. The playlist path of a channel is relative to the folder of the configuration file.
fn located(key: &str, text: &str, folder: &Path) -> OsString {
    match text.split_once('=').filter(|(_, list)| key == "channel" && !list.is_empty()) {
        Some((name, list)) => format!("{name}={}", folder.join(list).display()).into(),
        None => text.into(),
    }
}

/// Checks that the command accepts an argument; `line` is its line in the configuration file.
fn ensure_valid(command: &Command, argument: &OsString, line: usize) -> Result<()> {
    let parsed = command.clone().try_get_matches_from([argument]);
    parsed.map(drop).map_err(|error| {
        let message = error.to_string();
        let words: Vec<&str> = message.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
        anyhow!("line {line}: {}", words.join(" ").trim_start_matches("error: "))
    })
}

/// Choice of data path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathChoice {
    /// `auto`: the cheapest path that works.
    Auto,
    /// The path with this name, as long as it works.
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

/// Range of UDP ports, including both ends. Contains at least one pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        if first < 1024 {
            return Err(format!("port {first} is reserved: expected ports from 1024"));
        }
        if last < first {
            return Err(format!("the first port, {first}, is greater than the last, {last}"));
        }
        if wirepath_server::port_pairs(&(first..=last)) == 0 {
            return Err(format!("{first}-{last} has no even port before an odd one, as RTP and RTCP need"));
        }
        Ok(PortRange { first, last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_text(text: &str, flags: &[&str]) -> Result<ServeOptions> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wirepath.toml");
        std::fs::write(&path, text).unwrap();
        let flags = flags.iter().map(OsString::from);
        FileOptions::read::<ServeOptions>(&path, flags).map(|file| file.options)
    }

    #[test]
    fn options_that_changed_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wirepath.toml");
        let read = |text: &str, flags: &[&str]| {
            std::fs::write(&path, text).unwrap();
            FileOptions::read::<ServeOptions>(&path, flags.iter().map(OsString::from)).unwrap()
        };
        let before = read("threads = 1\npaths = [\"a\"]\ncors = [\"*\"]", &["--burst", "20ms"]);
        let changed = |text| read(text, &["--burst", "20ms"]).changed_since(&before);
        let none: [&str; 0] = [];
        assert_eq!(changed("cors = [\"*\"]\npaths = [\"a\"]\nthreads = 1"), none);
        // The flag takes precedence, so nothing has changed.
        assert_eq!(changed("cors = [\"*\"]\npaths = [\"a\"]\nthreads = 1\nburst = \"30ms\""), ["burst"; 0]);
        assert_eq!(changed("paths = [\"a\", \"b\"]\nthreads = 2"), ["threads", "cors", "paths"]);
    }

    #[test]
    fn flags_take_precedence_over_the_file() {
        let file =
            "threads = 3\nburst = \"30ms\"\npath = \"sendmmsg\"\ncache-size = \"5GB\"\npaths = [\"a\"]";
        let options = from_text(file, &["--threads", "1", "b"]).unwrap();
        assert_eq!(options.paths, [Path::new("b")]);
        assert_eq!(options.threads, NonZeroUsize::new(1));
        assert_eq!(options.burst, Some(BurstOption::Time(Duration::from_millis(30))));
        assert_eq!(options.path, Some(PathChoice::Named(wirepath_server::DataPath::Sendmmsg)));
        assert_eq!(options.images.cache_size, Some(bytesize::ByteSize::gb(5)));
        let options = from_text("threads = 0x10", &[]).unwrap();
        assert_eq!(options.threads, NonZeroUsize::new(16));
    }

    #[test]
    fn a_list_gives_an_option_several_times() {
        let text = "folder-burst-max = [\"/cams/=20ms\", \"a=b=50ms\"]";
        let options = from_text(text, &["--folder-burst-max", "c=1ms"]).unwrap();
        let folders: Vec<_> =
            options.folder_burst_max.iter().map(|folder| (folder.path.as_str(), folder.most_us)).collect();
        assert_eq!(folders, [("cams", 20_000), ("a=b", 50_000), ("c", 1000)]);
    }

    #[test]
    fn paths_in_the_file_are_relative_to_it() {
        let text = "paths = [\"films\", \"/srv\"]\ncalibration = \"costs\"\ntls-key = \"key.pem\"\nchannel = [\"a=b.m3u\"]";
        let options = from_text(text, &[]).unwrap();
        assert!(options.paths[0].is_absolute() && options.paths[0].ends_with("films"));
        assert_eq!(options.paths[1], Path::new("/srv"));
        assert_eq!(options.calibration, Some(options.paths[0].with_file_name("costs")));
        assert_eq!(options.tls_key, Some(options.paths[0].with_file_name("key.pem")));
        assert_eq!(options.channel[0].playlist, options.paths[0].with_file_name("b.m3u"));
    }

    /// Promise: Flags override the configuration file; an unknown key is an error with its line and a similar key.
    #[test]
    fn errors_in_the_file_have_their_line() {
        for (text, words) in [
            ("threads = 1\nport = 5", ["unknown key `port`: expected ", "line 2"]),
            ("\ncache_size = 5", ["line 2", "unknown key `cache_size`: did you mean `cache-size`?"]),
            ("path = \"fastest\"", ["fastest", "line 1"]),
            ("\n\nrtp-ports = \"9-5\"", ["9-5", "line 3"]),
            ("rtp-ports = \"3000-2000\"", ["line 1", "the first port, 3000, is greater than the last, 2000"]),
            ("rtp-ports = \"29201-29202\"", ["line 1", "no even port before an odd one"]),
            ("threads = 0", ["line 1", "expected a whole number from 1 to 1024"]),
            ("threads = 1025", ["line 1", "expected a whole number from 1 to 1024"]),
            (
                "burst = \"1ms\"\ncache-size = \"63KiB\"",
                ["line 2", "63.0 KiB is too small: expected at least 64.0 KiB"],
            ),
            ("cache-size = 10", ["line 1", "10 B is too small"]),
            ("images = \"some\"", ["line 1", "auto, all, none"]),
            ("image-rate = 10", ["line 1", "10 B is too small"]),
            ("packing-memory = \"1MiB\"", ["line 1", "expected at least 4.0 MiB"]),
            ("burst = 20", ["burst", "line 1"]),
            ("burst = \"2s\"", ["line 1", "expected a time from 1ms to 500ms"]),
            ("\npaths = \"../media\"", ["line 2", "expected a list: write paths = [\"../media\"]"]),
            ("rtsp = \"8554\"", ["line 1", "expected ADDRESS:PORT"]),
            ("access-log = \"xml\"", ["line 1", "text, json"]),
            ("paths = 3", ["line 1", "expected a list of strings"]),
            ("\nfolder-burst-max = [\"a=9s\"]", ["line 2", "expected a time from 1ms to 500ms"]),
            ("folder-users = [\"cams\"]", ["line 1", "expected PATH=USERS"]),
            ("folder-burst-max = [20]", ["line 1", "expected a list of strings"]),
            ("burst = 0.5", ["line 1", "expected a string or a whole number"]),
        ] {
            let error = format!("{:#}", from_text(text, &[]).unwrap_err());
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }
}
