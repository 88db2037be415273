//! `wirepath relay`: streams, the TCP proxy and the HTTP cache.

mod cache;
mod messages;
mod modes;
mod proxy;
mod ready;
mod status_table;
mod stream_options;
mod streams;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::error::ErrorKind;
use clap::{ArgGroup, Args};
use wirepath_engine::{Policy, Round};
use wirepath_relay::{AddressError, Configuration, Endpoint};
use wirepath_streams::Lending;

use crate::{format, terminal, values};
use cache::CacheOptions;
use proxy::ProxyOptions;
use stream_options::StreamOptions;

/// Arguments of `wirepath relay`.
#[derive(Args)]
#[command(group = ArgGroup::new("what to do").args(["inputs", "config", "check", "addresses"]).required(true).multiple(true))]
#[command(group = ArgGroup::new("behind").args(["to", "cache"]))]
#[command(mut_args(modes::keep_apart))]
#[command(after_help = "\
Addresses:
  tcp://HOST:PORT           connect
  tcp://[HOST]:PORT?listen  listen for one connection
  udp://@[HOST]:PORT        receive; HOST: a local address or a group to join
  udp://HOST:PORT           send
  unix:PATH[?listen]        a Unix socket
  -                         standard input or output
  file:PATH                 a file; to write to an existing one, add ?append
                            or ?overwrite
Options of UDP addresses: ?iface=NAME and ?ttl=HOPS for multicast, ?packet=BYTES for the size of datagrams made of a \
stream. Quote addresses with ? or & for the shell.

Examples:
  wirepath relay --in 'udp://@239.1.1.1:5000?iface=eth0' \\
                 --out udp://10.0.0.2:5000 --out udp://10.0.0.3:5000
  wirepath relay --in tcp://camera:9000 \\
                 --out 'tcp://:9001?listen' --out file:record.ts
  wirepath relay --in file:multiplex.ts --framing ts \\
                 --handler ts:programme=2 --out file:one.ts
  wirepath relay --config relay.toml --metrics 127.0.0.1:9100
  wirepath relay --listen :80 --to 10.0.0.2:8080 --to 10.0.0.3:8080 \\
                 --balance leastconn
  wirepath relay --listen :80 --cache /var/cache/films \\
                 --origin http://storage:8080

Several inputs are merged (--order); several outputs are mirrored, or --pattern distributes records. Without handlers and \
framing, bytes of connections, pipes and files are not copied, except to mirrors with a file. With --config many \
streams run at once; when one ends or fails, the others continue.

With --listen and --to, relay is a TCP proxy: each client is connected to one of the backends (HOST:PORT, tcp://HOST:PORT or \
unix:PATH); a graceful end or a reset of either side is passed on. With --listen and --cache, relay is an HTTP cache: \
concurrent requests for one resource share one fetch from the origin.

When all addresses are open, one line goes to standard output, unless --json or an output uses it: ready, with \
listen=tcp://ADDRESS:PORT for each listener, or for a cache http=http://ADDRESS:PORT/
SIGTERM, SIGINT or SIGHUP drains within --drain; a second signal ends at once. The log goes to standard error; RUST_LOG \
sets its level (default: info).

Exit code: 0 if all inputs ended and all records were delivered (acknowledged by TCP peers) except those that --when-full \
drops; 1 after a failure; 3 if all inputs ended, but a mirror lost an output or records lacked shares or portions; 128 plus \
the signal's number after a signal. Proxy and cache: 0 if all connections ended in time, 3 if some were reset.")]
pub(crate) struct Relay {
    #[command(flatten)]
    stream: StreamOptions,

    /// Run the streams of a configuration file (TOML), with their classes and rates
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Validate the configuration file and its keys, and exit
    #[arg(long, requires = "config")]
    check: bool,

    /// Allow other machines to control handlers, trust and options at the address of --metrics
    #[arg(long, requires = "metrics")]
    remote_control: bool,

    /// Sending without a copy: always; safe (copy the bytes of files, which other programs could change
    /// before the packets leave); never (copy everything, for each output). Can be changed at run time by PUT /api/loans
    #[arg(long, value_name = "RULE", default_value = "always")]
    lend: Lending,

    #[command(flatten)]
    showing: Showing,

    #[command(flatten)]
    listening: Listening,

    #[command(flatten, next_help_heading = "TCP proxy")]
    proxy: ProxyOptions,

    #[command(flatten, next_help_heading = "HTTP cache")]
    cache: CacheOptions,
}

/// Ways to see what relays do.
#[derive(Args)]
struct Showing {
    /// HTTP listen address for /metrics (OpenMetrics), /api/status (JSON) and, for streams, control of
    /// handlers
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = values::listen_address)]
    metrics: Option<SocketAddr>,

    /// Write a report as JSON to FILE at the end; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Options of the listeners of the proxy and the cache.
#[derive(Args)]
struct Listening {
    /// Listen address: [HOST]:PORT (without a host: IPv4 and IPv6), or for a proxy unix:PATH; may be repeated
    #[arg(long = "listen", value_name = "ADDRESS", value_parser = without_address(Endpoint::to_listen), requires = "behind")]
    addresses: Vec<Endpoint>,

    /// Time limit for open connections after SIGTERM, SIGINT or SIGHUP
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = values::time, requires = "addresses")]
    drain: Duration,

    /// Engine threads for connections, or for the streams of a configuration file [default: one per core; one
    /// if the file has a sharing policy, which applies to each thread separately]
    #[arg(long, value_name = "N", value_parser = values::threads)]
    threads: Option<NonZeroUsize>,
}

/// Value parser of addresses. Its errors omit the address, which the argument parser adds.
fn without_address<T: 'static>(
    parse: fn(&str) -> Result<T, AddressError>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| parse(text).map_err(|error| error.why().to_owned())
}

/// Exits with an error about an option that would be ignored.
fn refuse(message: &str) -> ! {
    clap::Error::raw(ErrorKind::ArgumentConflict, format!("{message}\n")).exit()
}

/// Exits with an error about an invalid value.
fn refuse_value(message: &str) -> ! {
    clap::Error::raw(ErrorKind::ValueValidation, format!("{message}\n")).exit()
}

impl Listening {
    /// Checks that no listen address is repeated.
    fn check(&self) -> Result<()> {
        for (index, address) in self.addresses.iter().enumerate() {
            let is_taken = self.addresses[..index].iter().any(|before| before.conflicts_with(address));
            ensure!(!is_taken, "duplicate --listen {address}; name each address once");
        }
        Ok(())
    }

    /// Number of engine threads: as configured, or one per core.
    fn threads(&self) -> Result<usize> {
        let threads = self.threads.map_or_else(available_parallelism, Ok);
        Ok(threads.context("cannot find the number of cores; use --threads")?.get())
    }

    /// Number of engine threads for streams. A stream stays on its thread, so more threads than streams would
    /// idle. A sharing policy applies to each thread separately, so streams with a policy get several threads
    /// only on request.
    fn threads_for(&self, configuration: &Configuration) -> Result<usize> {
        let streams = configuration.streams.len();
        let has_policy = configuration.sharing.policy != Policy::BestEffort;
        if streams < 2 || (has_policy && self.threads.is_none()) {
            return Ok(1);
        }
        Ok(self.threads()?.min(streams))
    }
}

impl Relay {
    /// Relays until all streams have ended, a failure or a signal.
    pub(crate) fn run(self) -> Result<ExitCode> {
        self.listening.check()?;
        if self.proxy.is_selected() {
            return self.proxy.run(&self.listening, &self.showing);
        }
        if self.cache.is_selected() {
            return self.cache.run(&self.listening, &self.showing);
        }
        if self.config.is_none() && self.listening.threads.is_some() {
            // Clap would only list missing options.
            refuse("--threads needs --config, --to or --cache: one stream (--in, --out) runs on one thread");
        }
        let mut configuration = match &self.config {
            Some(file) => Configuration::from_file(file)?,
            None => Configuration::default(),
        };
        configuration.lending.set(self.lend);
        self.stream.add_to(&mut configuration)?;
        if let Some(report) = &self.showing.json
            && let Some(user) = configuration.user_of(report)
        {
            bail!("--json {} is also {user}; write the report to another file", report.display());
        }
        if let Some(file) = &self.config {
            let file = format::name(file);
            ensure!(
                !configuration.streams.is_empty(),
                "the configuration file {file} has no [[stream]]; add one"
            );
            if self.check {
                return check(&configuration, &file);
            }
        }
        let with_folder = configuration.streams.iter().find(|stream| stream.config.handler_folder.is_some());
        if let (Some(stream), None) = (with_folder, self.showing.metrics) {
            bail!(
                "handler-folder of {} has no effect without --metrics, whose clients set handlers",
                stream.name
            );
        }
        let threads = self.listening.threads_for(&configuration)?;
        streams::run(&configuration, threads, self.config.is_some(), self.remote_control, &self.showing)
    }
}

/// Checks the keys of a configuration, and prints a summary of the configuration.
fn check(configuration: &Configuration, file: &str) -> Result<ExitCode> {
    configuration
        .check_keys()
        .map_err(|(stream, error)| anyhow!("in the configuration file {file}, stream {stream}: {error}"))?;
    let streams = format::counted(configuration.streams.len() as u64, "stream", "streams");
    let classes = format::counted(configuration.sharing.classes.len() as u64, "class", "classes");
    let policy = policy(&configuration.sharing.policy);
    terminal::print(&format!("{file}: OK, {streams} in {classes}, {policy}\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn policy(policy: &Policy) -> String {
    match policy {
        Policy::BestEffort => "best effort".to_owned(),
        Policy::Priority => "strict priority".to_owned(),
        Policy::Deadline => "earliest deadline first".to_owned(),
        Policy::Custom(_) => "a policy of its own".to_owned(),
        Policy::FairShare { round: Round::Volume(bytes), .. } => {
            format!("sharing volume in rounds of {}", format::size(*bytes))
        }
        Policy::FairShare { round: Round::ProcessorTime(us), .. } => {
            let round = humantime::format_duration(Duration::from_micros(*us));
            format!("sharing processor time in rounds of {round}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_of_the_help_fits_80_columns() {
        let help = Relay::augment_args(clap::Command::new("relay")).get_after_help().unwrap().to_string();
        let laid_out: Vec<&str> = help.lines().filter(|line| line.starts_with("  ")).collect();
        assert!(laid_out.len() > 15, "{help}");
        assert!(laid_out.iter().all(|line| line.len() <= 80), "{laid_out:#?}");
    }
}
