//! Conversion of the options of `wirepath serve` to server options: checks them, and adds defaults.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use bytesize::ByteSize;
use wirepath_auth::Access;
use wirepath_datapath::SendContext;
use wirepath_net::auth::{AuthOptions, CallbackOptions};
use wirepath_net::http::HttpOptions;
use wirepath_net::program::ListenAddress;
use wirepath_net::tls::TlsFiles;
use wirepath_relay::RateSpec;
use wirepath_server::{
    AdmissionPolicy, ArchiveOptions, Burst, CatalogOptions, DataPath, Gaps, HotMemorySize, ResponseFields,
    RtspOptions, ServerOptions, SrtpKeys, TimeZone, TlsAddresses, TlsOptions,
};

use crate::image_options::CALIBRATION;
use crate::serve_options::{AdmissionChoice, PathChoice, PolicyChoice, PortRange, ServeOptions, SrtpChoice};
use crate::values::BurstOption;

/// Default share of the engine threads' time that is not used by sessions.
const RESERVE: f64 = 0.15;

/// Default length of the longest burst. Receivers buffer at least twice as much: 200 ms in GStreamer.
const BURST_MAX: Duration = Duration::from_millis(100);

/// Default time for which sessions continue after a handover.
const DRAIN: Duration = Duration::from_secs(3600);

/// Default lifetime of nonces.
const NONCE_LIFETIME: Duration = Duration::from_secs(300);

/// Default time limit of a response of the callback.
const CALLBACK_TIMEOUT: Duration = Duration::from_secs(2);

/// Default time for which responses of the callback are cached.
const CALLBACK_KEEP: Duration = Duration::from_secs(5);

/// Refuses more hot memory than the machine has memory, since hot memory cannot be swapped out.
fn ensure_memory(hot_memory: HotMemorySize) -> Result<()> {
    let HotMemorySize::Bytes(hot_memory_bytes) = hot_memory else { return Ok(()) };
    let system = rustix::system::sysinfo();
    let total = system.totalram as u64 * u64::from(system.mem_unit);
    ensure!(
        hot_memory_bytes < total,
        "--hot-memory {} is not possible: this machine has {} of memory; choose less",
        ByteSize::b(hot_memory_bytes),
        ByteSize::b(total)
    );
    Ok(())
}

/// Fails if the data path needs the kernel module, and this process cannot use it.
pub(crate) fn ensure_module(path: Option<DataPath>) -> Result<()> {
    match path.filter(|path| path.needs_module()) {
        Some(path) => SendContext::default().open_module().with_context(|| format!("the data path {path}")),
        None => Ok(()),
    }
}

/// Function that returns the listen address of an option.
pub(crate) type Resolve = fn(&ListenAddress) -> Result<SocketAddr, String>;

/// Checks the options and adds defaults.
pub(crate) fn server_options(options: ServeOptions, resolve: Resolve) -> Result<ServerOptions> {
    ensure!(
        !options.paths.is_empty(),
        "nothing to serve: name at least one folder or file (see `wirepath serve --help`)"
    );
    let session_timeout = session_timeout(options.session_timeout)?;
    let max_lag = options.max_lag.unwrap_or(Duration::from_secs(2));
    ensure!(max_lag >= Duration::from_millis(100), "--max-lag must be at least 100ms: media leave in bursts");
    let ports = options.rtp_ports.unwrap_or(PortRange { first: 10_000, last: 32_767 });
    let threads = threads(options.threads)?;
    let hot_memory = options.hot_memory.unwrap_or(HotMemorySize::Automatic);
    let is_hot = matches!(hot_memory, HotMemorySize::Bytes(_));
    let path = data_path(options.path, is_hot)?;
    ensure_memory(hot_memory)?;
    let auth = auth(&options)?;
    let address = |option: &str, address: &Option<ListenAddress>| {
        address.as_ref().map(resolve).transpose().map_err(|why| anyhow!("--{option}: {why}"))
    };
    let tls_addresses =
        TlsAddresses { rtsps: address("rtsps", &options.rtsps)?, https: address("https", &options.https)? };
    let srtp = srtp(options.srtp, &tls_addresses)?;
    let tls = tls(&options, tls_addresses)?;
    let connections = options.max_connections.unwrap_or(20_000);
    let connections_per_address = options.max_connections_per_address.unwrap_or(2_000);
    let sessions_per_address = options.max_sessions_per_address.unwrap_or(1_000);
    let cache = options.images.cache_folder()?;
    // Hot memory holds only images.
    let default_policy = if is_hot { PolicyChoice::All } else { PolicyChoice::Auto };
    Ok(ServerOptions {
        calibration: options.calibration.unwrap_or_else(|| cache.join(CALIBRATION)),
        catalog: CatalogOptions {
            paths: options.paths,
            archives: archives(options.archive, options.archive_zone.map_or(TimeZone::Utc, Into::into))?,
            gaps: options.archive_gaps.map_or(Gaps::Skip, Into::into),
            channels: options.channel,
        },
        rtsp: address("rtsp", &options.rtsp)?.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 8554))),
        http: address("http", &options.http)?.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 8080))),
        cache,
        cache_bytes: options.images.cache_bytes(),
        images: options.image_policy.unwrap_or(default_policy).into(),
        image_bytes_per_second: options.image_rate.unwrap_or(ByteSize::mib(64)).as_u64(),
        packing_memory_bytes: options.packing_memory.map(|size| size.as_u64()),
        packings_per_address: options.max_packings_per_address.unwrap_or(sessions_per_address),
        hot_memory,
        threads,
        path,
        lend: options.lend.unwrap_or_default(),
        max_sessions: options.max_sessions,
        // An explicit limit per address replaces the automatic bound.
        bounds_addresses: options.max_sessions_per_address.is_none()
            && options.max_connections_per_address.is_none(),
        admission: admission(options.admission, options.reserve, options.max_rate)?,
        burst: burst(options.burst.unwrap_or(BurstOption::Auto), options.burst_max)?,
        response_fields: ResponseFields {
            origins: options.cors,
            cache_control: options.folder_cache_control,
            dispositions: options.folder_content_disposition,
        },
        folder_bursts: options.folder_burst_max,
        multicast: options.multicast,
        drain: options.drain.unwrap_or(DRAIN),
        max_lag,
        auth,
        tls,
        rtsp_options: RtspOptions {
            session_timeout,
            connections,
            connections_per_address,
            sessions_per_address,
            srtp,
            ports: ports.first..=ports.last,
            ..RtspOptions::default()
        },
        http_options: HttpOptions {
            max_connections: connections,
            max_connections_per_address: connections_per_address,
            access_log: options.access_log,
            ..HttpOptions::default()
        },
    })
}

/// Time without a request after which a session ends, from `--session-timeout`.
fn session_timeout(timeout: Option<Duration>) -> Result<Duration> {
    let timeout = timeout.unwrap_or(Duration::from_secs(60));
    ensure!(
        timeout >= Duration::from_secs(5),
        "--session-timeout must be at least 5s: clients send keepalives less often"
    );
    Ok(timeout)
}

/// Number of engine threads, from `--threads`.
fn threads(threads: Option<NonZeroUsize>) -> Result<usize> {
    Ok(match threads {
        Some(threads) => threads.get(),
        None => available_parallelism().context("cannot find the number of cores; use --threads")?.get(),
    })
}

/// Data path, from `--path`; none for the cheapest one.
fn data_path(choice: Option<PathChoice>, is_hot: bool) -> Result<Option<DataPath>> {
    let path = match choice.unwrap_or(PathChoice::Auto) {
        PathChoice::Auto => None,
        PathChoice::Named(path) => Some(path),
    };
    ensure!(
        is_hot || !path.is_some_and(DataPath::needs_hot_memory),
        "the data path wire_uring needs memory: add --hot-memory SIZE"
    );
    Ok(path)
}

/// Keys of SRTP, from `--srtp`.
fn srtp(keys: Option<SrtpChoice>, addresses: &TlsAddresses) -> Result<SrtpKeys> {
    let keys = keys.map_or(SrtpKeys::None, Into::into);
    ensure!(
        keys == SrtpKeys::None || addresses.rtsps.is_some(),
        "--srtp needs --rtsps ADDRESS:PORT: keys of SRTP are told over TLS only"
    );
    Ok(keys)
}

/// Options of archives, with times of a zone; each once. Fails if a folder has several patterns.
fn archives(archives: Vec<ArchiveOptions>, zone: TimeZone) -> Result<Vec<ArchiveOptions>> {
    let mut all = Vec::<ArchiveOptions>::new();
    for archive in archives {
        let archive = ArchiveOptions { pattern: archive.pattern.in_zone(zone), ..archive };
        match all.iter().find(|other| other.path == archive.path) {
            None => all.push(archive),
            Some(other) if *other == archive => {}
            Some(other) => bail!(
                "--archive {}: the path is given with two patterns, {} and {}, but an archive has one: remove one of \
                 them, or move recordings with other names to another folder",
                archive.path,
                other.pattern,
                archive.pattern
            ),
        }
    }
    Ok(all)
}

/// Authentication options, from `--users`, `--url-key`, `--auth-url` and the related options.
fn auth(options: &ServeOptions) -> Result<Option<AuthOptions>> {
    let callback = callback(options)?;
    let (users, url_keys) = (options.users.clone(), options.url_key.clone());
    if users.is_none() {
        let rules = options.folder_users.iter().map(|rule| &rule.access).chain(&options.status_users);
        let rules = rules.chain(&options.admin_users);
        let has_others = url_keys.is_some() || callback.is_some();
        let is_public = has_others && rules.clone().all(|access| *access == Access::Public);
        let are_alone = options.nonce_lifetime.is_none() && (is_public || rules.count() == 0);
        ensure!(
            are_alone,
            "--folder-users, --status-users, --admin-users and --nonce-lifetime need users: add --users FILE"
        );
        if !has_others {
            return Ok(None);
        }
    }
    for (what, file) in [("the file of users", &users), ("the file of URL keys", &url_keys)] {
        if let Some(file) = file {
            ensure_not_served(what, file, &options.paths)?;
        }
    }
    Ok(Some(AuthOptions {
        users,
        url_keys,
        callback,
        folders: options.folder_users.clone(),
        status: options.status_users.clone().unwrap_or_default(),
        administrators: administrators(options.admin_users.clone()),
        nonce_lifetime: options.nonce_lifetime.unwrap_or(NONCE_LIFETIME),
    }))
}

/// Users that may end sessions, from `--admin-users`; none by default.
pub(crate) fn administrators(users: Option<Access>) -> Access {
    users.unwrap_or(Access::Users(Vec::new()))
}

/// Options of the callback, from `--auth-url` and the related options.
fn callback(options: &ServeOptions) -> Result<Option<CallbackOptions>> {
    let (timeout, keep) = (options.auth_timeout, options.auth_keep);
    let Some(url) = options.auth_url.clone() else {
        let are_alone = timeout.is_none() && keep.is_none();
        ensure!(are_alone, "--auth-timeout and --auth-keep need a service to ask: add --auth-url URL");
        return Ok(None);
    };
    let (timeout, keep) = (timeout.unwrap_or(CALLBACK_TIMEOUT), keep.unwrap_or(CALLBACK_KEEP));
    Ok(Some(CallbackOptions { url, timeout, keep }))
}

/// TLS options, from `--rtsps`, `--https` and the certificate options.
fn tls(options: &ServeOptions, addresses: TlsAddresses) -> Result<Option<TlsOptions>> {
    let listens = addresses.rtsps.is_some() || addresses.https.is_some();
    match (options.tls_certificate.clone(), options.tls_key.clone()) {
        (Some(certificate), Some(key)) if listens => {
            ensure_not_served("the TLS key", &key, &options.paths)?;
            Ok(Some(TlsOptions { files: TlsFiles { certificate, key }, addresses }))
        }
        (None, None) if !listens => Ok(None),
        (Some(_), Some(_)) => {
            bail!("nothing listens for TLS: add --rtsps ADDRESS:PORT or --https ADDRESS:PORT")
        }
        _ => bail!("TLS needs both --tls-certificate FILE and --tls-key FILE, and --rtsps or --https"),
    }
}

/// Fails if clients could read a file of secrets. Hashes of users are as secret as passwords.
fn ensure_not_served(what: &str, file: &Path, paths: &[PathBuf]) -> Result<()> {
    // A missing file is reported where it is opened.
    let Ok(real) = file.canonicalize() else { return Ok(()) };
    for path in paths {
        let below = path.canonicalize().ok().and_then(|served| real.strip_prefix(served).ok());
        let is_shown =
            |below: &Path| !below.iter().any(|name: &OsStr| name.as_encoded_bytes().starts_with(b"."));
        ensure!(
            !below.is_some_and(is_shown),
            "{what} {} lies in {}, which is served: move it, or let its name begin with a dot",
            file.display(),
            path.display()
        );
    }
    Ok(())
}

/// Admission options, from `--admission`, `--reserve` and `--max-rate`.
fn admission(
    rule: Option<AdmissionChoice>,
    reserve: Option<f64>,
    max_rate: Option<RateSpec>,
) -> Result<AdmissionPolicy> {
    let max_rate = max_rate.map(|rate| rate.rate(None).per_second.saturating_mul(8));
    match (rule.unwrap_or(AdmissionChoice::Measured), reserve) {
        (AdmissionChoice::Measured, reserve) => {
            Ok(AdmissionPolicy::Measured { reserve: reserve.unwrap_or(RESERVE), max_rate })
        }
        (AdmissionChoice::Off, None) if max_rate.is_none() => Ok(AdmissionPolicy::Off),
        (AdmissionChoice::Off, None) => {
            bail!("--max-rate belongs to --admission measured: give --max-rate or --admission off")
        }
        (AdmissionChoice::Off, Some(_)) => {
            bail!("--reserve belongs to --admission measured: give --reserve or --admission off")
        }
    }
}

/// Length of bursts, from `--burst` and `--burst-max`.
pub(crate) fn burst(burst: BurstOption, most: Option<Duration>) -> Result<Burst> {
    let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    match (burst, most) {
        (BurstOption::Auto, most) => Ok(Burst::Auto { most_us: us(most.unwrap_or(BURST_MAX)) }),
        (BurstOption::Time(time), None) => Ok(Burst::Fixed(us(time))),
        (BurstOption::Time(_), Some(_)) => bail!("--burst-max bounds --burst auto: give one of the two"),
    }
}
