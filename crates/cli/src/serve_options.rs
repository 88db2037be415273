//! Options of `wirepath serve`: flags, and keys of the same names in the configuration file. Flags take
//! precedence.

mod choices;
mod file;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use bytesize::ByteSize;
use clap::Args;
use http::{HeaderValue, Uri};
use wirepath_auth::{Access, FolderUsers};
use wirepath_net::http::AccessLog;
use wirepath_net::privileges::UserName;
use wirepath_net::program::ListenAddress;
use wirepath_relay::RateSpec;
use wirepath_server::{
    ArchiveOptions, FolderBurst, FolderCacheControl, FolderDisposition, HotMemorySize, Lending,
    LiveChannelOptions, MulticastRange,
};

use crate::confine::ConfineChoice;
use crate::cpus::Cpus;
use crate::image_options::ImageOptions;
use crate::values::{self, BurstOption};

pub(crate) use choices::{
    AdmissionChoice, GapsChoice, PathChoice, PolicyChoice, PortRange, SrtpChoice, ZoneChoice,
};
pub(crate) use file::FileOptions;

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

    /// Sending without a copy: always; safe (copy files over HTTP and trains with headers of a session's own, whose
    /// bytes other programs could change before they leave); never (copy everything). Administrators can change it
    /// at run time by PUT /api/loans [default: always]
    #[arg(long, value_name = "RULE")]
    pub(crate) lend: Option<Lending>,

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
