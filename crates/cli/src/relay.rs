//! `wirepath relay`: the stream service.

mod board;
mod cache;
mod counts;
mod door;
mod group;
mod modes;
mod proxy;
mod report;
mod row;
mod running;
mod wires;

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

use crate::{format, number, terminal};
use cache::Caching;
use proxy::Proxy;
use running::Showing;
use wires::Wires;

/// Arguments of `wirepath relay`.
#[derive(Args)]
#[command(group = ArgGroup::new("what to do").args(["inputs", "config", "check", "addresses"]).required(true).multiple(true))]
#[command(group = ArgGroup::new("behind").args(["to", "cache"]))]
#[command(mut_args(modes::keep_apart))]
#[command(after_help = "\
Addresses:
  tcp://HOST:PORT           connect
  tcp://[HOST]:PORT?listen  wait for a connection
  udp://@[GROUP]:PORT       receive
  udp://HOST:PORT           send
  unix:PATH[?listen]        a Unix socket
  -                         standard input or output
  file:PATH                 a file; to write one that exists, add ?append
                            or ?overwrite
For UDP add ?iface=NAME&ttl=HOPS for multicast, ?packet=BYTES for the size of datagrams that are made of a stream. \
The shell takes ? and & for itself: put such addresses in quotes.

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

Several inputs are merged (--order), several outputs mirrored unless --pattern says otherwise. Bytes of \
connections, pipes and files that nobody has to look at are not copied, but for a mirror with a file among its outputs. With \
--config many streams run at once; when one ends or fails, the others go on.

With --listen and --to it is a TCP proxy: each connection goes to one of the backends (HOST:PORT, tcp://HOST:PORT or \
unix:PATH), and its end is passed on as it came, each way: in order or as a reset. With --listen and --cache it is an HTTP cache: \
clients are answered from what is kept, and from the origin what is not: what is fetched goes to the cache and to all who \
want it at the same time, once. When either listens, one line goes to standard output, unless that is for JSON:
ready listen=tcp://ADDRESS:PORT, or of a cache: ready http=http://ADDRESS:PORT/
SIGTERM, SIGINT or SIGHUP drains for the time of --drain; a second one ends at once. The log goes to standard error; RUST_LOG sets \
its level (default: info).

Exit code: 0 if all inputs came to their end and all was delivered (peers over TCP have acknowledged it), but for what \
--when-full says; 1 if something failed, 128 and the signal's number if it was stopped; 3 if all inputs came to their end, but a \
mirror went on without an output that failed, or shares of a record did not come. Of a proxy or cache: 0 if all connections or \
answers ended before it did, 3 if some were cut.")]
pub(crate) struct Relay {
    #[command(flatten)]
    wires: Wires,

    /// Run the streams of a configuration file (TOML), with their classes and rates
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Only say whether the configuration file is right, and the keys that it names; nothing else is opened
    #[arg(long, requires = "config")]
    check: bool,

    #[command(flatten)]
    showing: Showing,

    #[command(flatten)]
    listening: Listening,

    #[command(flatten, next_help_heading = "TCP proxy")]
    proxy: Proxy,

    #[command(flatten, next_help_heading = "HTTP cache")]
    caching: Caching,
}

/// Where clients come in, and how long they may stay at the end.
#[derive(Args)]
struct Listening {
    /// Take connections here: [HOST]:PORT, of IPv4 and IPv6 without a host, or for a proxy unix:PATH; may be given more than once
    #[arg(long = "listen", value_name = "ADDRESS", value_parser = said_once(Endpoint::to_listen), requires = "behind")]
    addresses: Vec<Endpoint>,

    /// How long connections and answers may go on after SIGTERM, SIGINT or SIGHUP
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration, requires = "addresses")]
    drain: Duration,

    /// Engine threads, over which connections, or streams of a configuration file, are spread [default: one for each core; one where
    /// the file weighs classes against each other, which holds on each thread]
    #[arg(long, value_name = "N", value_parser = number::threads)]
    threads: Option<NonZeroUsize>,
}

/// A parser of addresses for arguments: which address is wrong, who parses them says already.
fn said_once<T: 'static>(
    parse: fn(&str) -> Result<T, AddressError>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| parse(text).map_err(|error| error.why().to_owned())
}

/// Ends with this: an option would do nothing here.
fn refuse(words: &str) -> ! {
    clap::Error::raw(ErrorKind::ArgumentConflict, format!("{words}\n")).exit()
}

impl Listening {
    /// Whether each address is there once.
    fn check(&self) -> Result<()> {
        for (place, address) in self.addresses.iter().enumerate() {
            let is_taken = self.addresses[..place].iter().any(|before| before.excludes(address));
            ensure!(!is_taken, "--listen {address} is there twice; give each an address of its own");
        }
        Ok(())
    }

    /// Engine threads, as told or one for each core.
    fn threads(&self) -> Result<usize> {
        match self.threads {
            Some(threads) => Ok(threads.get()),
            None => {
                Ok(available_parallelism().context("the number of cores is not known; use --threads")?.get())
            }
        }
    }

    /// Engine threads for so many streams. A stream stays on its thread, so more threads would have nothing to do; and what classes
    /// are weighed by holds on each thread, so it is spread only if that is asked for.
    fn threads_for(&self, configuration: &Configuration, streams: u64) -> Result<usize> {
        let weighs = configuration.sharing.policy != Policy::BestEffort;
        if streams < 2 || (weighs && self.threads.is_none()) {
            return Ok(1);
        }
        Ok(self.threads()?.min(streams as usize))
    }
}

impl Relay {
    /// Relays until there is nothing more to relay, something fails or a signal comes.
    pub(crate) fn run(self) -> Result<ExitCode> {
        self.listening.check()?;
        if self.proxy.is_meant() {
            return self.proxy.run(&self.listening, &self.showing);
        }
        if self.caching.is_meant() {
            return self.caching.run(&self.listening, &self.showing);
        }
        let file = self.config.as_deref();
        if file.is_none() && self.listening.threads.is_some() {
            // Clap would say which options are missing, and nobody who has one stream misses them.
            refuse(
                "--threads spreads connections, or the streams of a --config; one stream (--in, --out) stays on one thread",
            );
        }
        let mut configuration = file.map(Configuration::from_file).transpose()?.unwrap_or_default();
        self.wires.add_to(&mut configuration)?;
        if let Some(report) = &self.showing.json
            && let Some(user) = configuration.user_of(report)
        {
            bail!("--json {} is also {user}; give the report a file of its own", report.display());
        }
        let streams = configuration.streams.len() as u64;
        if let Some(file) = file {
            let file = format::name(file);
            ensure!(
                streams > 0,
                "the configuration file {file} has no [[stream]]; without one there is nothing to do"
            );
            if self.check {
                configuration.check_keys().map_err(|(stream, error)| {
                    anyhow!("in the configuration file {file}, stream {stream}: {error}")
                })?;
                let classes = configuration.sharing.classes.len() as u64;
                let streams = format::counted(streams, "stream", "streams");
                let classes = format::counted(classes, "class", "classes");
                let policy = policy_in_words(&configuration.sharing.policy);
                terminal::print(&format!("{file}: OK, {streams} in {classes}, {policy}\n"))?;
                return Ok(ExitCode::SUCCESS);
            }
        }
        let threads = self.listening.threads_for(&configuration, streams)?;
        running::run(&configuration, threads, file.is_some(), &self.showing)
    }
}

/// How classes are weighed against each other.
fn policy_in_words(policy: &Policy) -> String {
    match *policy {
        Policy::BestEffort => "best effort".to_owned(),
        Policy::Priority => "strict priority".to_owned(),
        Policy::Deadline => "earliest deadline first".to_owned(),
        Policy::FairShare { round: Round::Volume(bytes), .. } => {
            format!("sharing volume in rounds of {}", format::size(bytes))
        }
        Policy::FairShare { round: Round::ProcessorTime(us), .. } => {
            let round = humantime::format_duration(Duration::from_micros(us));
            format!("sharing processor time in rounds of {round}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_laid_out_in_the_help_fits_80_columns() {
        let help = Relay::augment_args(clap::Command::new("relay")).get_after_help().unwrap().to_string();
        let laid_out: Vec<&str> = help.lines().filter(|line| line.starts_with("  ")).collect();
        assert!(laid_out.len() > 15, "{help}");
        assert!(laid_out.iter().all(|line| line.len() <= 80), "{laid_out:#?}");
    }
}
