//! Arguments of `wirepath assess clients`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use wirepath_assess::clients::{ClientOptions, Dimensions, MediaTransport, Peer, Processors, Storage};
use wirepath_server::DataPath;

use crate::image_options::{CALIBRATION, default_cache_folder};
use crate::serve_options::PathChoice;
use crate::values::{BurstOption, burst, positive_count, positive_time, time};

/// Device of the kernel module.
const MODULE: &str = "/dev/wirepath";

/// Default number of sessions started per second.
const RAMP: f64 = 500.0;

/// Maximum number of clients, above all other limits.
const MOST: usize = 65_000;

/// Valid bit rates of generated transport streams, in Mb/s.
const RATES: std::ops::RangeInclusive<f64> = 0.1..=200.0;

/// Arguments of `wirepath assess clients`.
#[derive(Args)]
#[command(after_help = "\
The first values of --rates, --transport, --assets, --storage, --burst, --path and --processors form the base case. \
Each further value is a case that differs from the base case only in this value. With --quick, each of these options that \
is not given has a single value.

Examples, as root:
  wirepath assess clients --quick
  wirepath assess clients --rates 4,8,25 --transport udp,tcp --report clients.html
  wirepath assess clients --quick --path all --csv steps.csv
  wirepath assess clients --quick --peer gstreamer=bench/peers/gstreamer --peer mediamtx=bench/peers/mediamtx

sh runs a peer's command in the server's network namespace and on the server's processor. Environment variables: \
ADDRESS and PORT to listen at; MEDIA, the folder of assets; ASSETS, their number; ASSET, the name of the first, which clients \
play as rtsp://ADDRESS:PORT/ASSET (http:// for TRANSPORT http); BIT_RATE, their mean rate in bits per second; TRANSPORT \
(udp, tcp or http); SCRATCH, a folder that is kept. At the end of a step the process group is killed.

Exit code: 0 if every case has a number, even if it is not the server's limit (the result says so); 3 if a server had \
no timely client in a case, or did not start; 1 if the run could not begin or ended early; 2 for invalid arguments; 130 or \
143 after a signal, with the result until then.")]
pub(in crate::assess) struct Clients {
    /// Write the result as JSON to FILE; with `-`, standard output has only the JSON
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,

    /// Write every step as a row of CSV
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,

    /// Write the result as an HTML page with plots
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,

    /// Shorter steps, and one value for each dimension that is not given: some minutes for each case
    #[arg(long)]
    quick: bool,

    /// Bit rates of the media in Mb/s [default: 4,0.5,2,8,25; with --quick 4]
    #[arg(long, value_name = "RATE", value_delimiter = ',', value_parser = rate)]
    rates: Vec<f64>,

    /// Transports of media [default: udp,tcp,http; with --quick udp]
    #[arg(long, value_name = "TRANSPORT", value_delimiter = ',')]
    transport: Vec<TransportName>,

    /// Numbers of assets, played by Zipf's law with exponent 1.1 [default: 1,32; with --quick 1]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = positive_count)]
    assets: Vec<NonZeroUsize>,

    /// Location of assets before a step: memory (page cache), disk (at least 32 assets) [default:
    /// memory,disk; with --quick memory]
    #[arg(long, value_name = "WHERE", value_delimiter = ',')]
    storage: Vec<Storage>,

    /// Lengths of bursts, as in `wirepath serve --burst` [default: auto,10ms; with --quick auto]
    #[arg(long, value_name = "TIME", value_delimiter = ',', value_parser = burst)]
    burst: Vec<BurstOption>,

    /// Data paths, as in `wirepath serve --path`, measured in turns; `all` for auto and every path of this
    /// machine, with the kernel module's if it is loaded [default: auto,wire_sendfile,gso_writev,sendmmsg;
    /// with --quick auto]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = path)]
    path: Vec<String>,

    /// Processors of the server: one; or all, shared with the clients [default: one,all; with --quick one]
    #[arg(long, value_name = "WHICH", value_delimiter = ',')]
    processors: Vec<Processors>,

    /// Asset to play instead of generated transport streams
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rates", "assets"])]
    file: Option<PathBuf>,

    /// Measured time of each step [default: 8s; 4s with --quick]
    #[arg(long, value_name = "TIME", value_parser = positive_time)]
    window: Option<Duration>,

    /// Time from the start of the last session to the measurement [default: 2s; 1s with --quick]
    #[arg(long, value_name = "TIME", value_parser = time)]
    settle: Option<Duration>,

    /// Sessions to start each second [default: 500]
    #[arg(long, value_name = "RATE", value_parser = positive_count)]
    ramp: Option<NonZeroUsize>,

    /// Clients of the first step
    #[arg(long, value_name = "N", default_value = "200", value_parser = positive_count)]
    first: NonZeroUsize,

    /// Maximum number of clients [default: as many as open files and addresses allow]
    #[arg(long, value_name = "N", value_parser = positive_count)]
    most: Option<NonZeroUsize>,

    /// Media that a player buffers before it plays
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = positive_time)]
    buffer: Duration,

    /// The server's processor [default: the last that may be used]
    #[arg(long, value_name = "N")]
    cpu: Option<u32>,

    /// Number of `wirepath serve` processes, which share processors and clients evenly, if one process may
    /// not open enough files. Needs a single asset
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=64))]
    processes: u16,

    /// Further argument for `wirepath serve`, such as --server=--images=all; may be repeated. With
    /// --admission or --reserve here, `--admission off` is not added
    #[arg(long = "server", value_name = "ARGUMENT", allow_hyphen_values = true)]
    server: Vec<String>,

    /// Another server to measure in turns with `wirepath serve`; may be repeated
    #[arg(long, value_name = "NAME=COMMAND")]
    peer: Vec<Peer>,

    /// Folder for assets, wire images and logs, which are kept for later runs [default: /var/cache/wirepath
    /// for root, else ~/.cache/wirepath]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,

    /// The server's calibration file [default: calibration.json in the server's default cache folder]
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum TransportName {
    /// RTP over UDP
    Udp,
    /// RTP over the RTSP connection
    Tcp,
    /// HTTP downloads, read at the rate of the media, up to 10 s ahead
    Http,
}

impl Clients {
    pub(super) fn options(&self) -> Result<ClientOptions> {
        let seconds = |full: u64, quick: u64| Duration::from_secs(if self.quick { quick } else { full });
        let folder = |given: &Option<PathBuf>| given.clone().map_or_else(default_cache_folder, Ok);
        let calibration = match &self.calibration {
            Some(file) => file.clone(),
            None => default_cache_folder()
                .context("no default calibration file: use --calibration FILE")?
                .join(CALIBRATION),
        };
        ensure!(
            self.file.is_none() || !self.storage.contains(&Storage::Disk),
            "--storage disk needs several assets, since one is read from the disk once: leave --file out"
        );
        let dimensions = self.dimensions();
        let several = dimensions.assets.iter().any(|number| *number > 1)
            || dimensions.storages.contains(&Storage::Disk);
        ensure!(
            self.processes == 1 || !several,
            "--processes shares clients evenly, which several assets are not: add --assets 1 --storage memory"
        );
        let mut names: Vec<&str> = self.peer.iter().map(|peer| peer.name.as_str()).collect();
        names.sort_unstable();
        ensure!(
            names.windows(2).all(|pair| pair[0] != pair[1]),
            "two peers have the same name; give each its own"
        );
        Ok(ClientOptions {
            dimensions,
            file: self.file.clone(),
            window: self.window.unwrap_or(seconds(8, 4)),
            settle: self.settle.unwrap_or(seconds(2, 1)),
            ramp: self.ramp.map_or(RAMP, |ramp| ramp.get() as f64),
            first: self.first.get(),
            most: self.most.map_or(MOST, NonZeroUsize::get),
            buffer: self.buffer,
            cpu: self.cpu,
            processes: usize::from(self.processes),
            server_arguments: self.server.clone(),
            peers: self.peer.clone(),
            scratch: folder(&self.scratch).context("no default folder for assets: use --scratch DIR")?,
            calibration,
        })
    }

    fn dimensions(&self) -> Dimensions {
        let usual = Dimensions::usual(self.quick);
        let file_alone = self.file.is_some();
        Dimensions {
            rates: match file_alone {
                true => usual.rates[..1].to_vec(),
                false => or(self.rates.iter().map(|rate| rate * 1e6).collect(), usual.rates),
            },
            storages: match file_alone {
                true => or(self.storage.clone(), vec![Storage::Memory]),
                false => or(self.storage.clone(), usual.storages),
            },
            assets: match file_alone {
                true => vec![1],
                false => or(self.assets.iter().map(|number| number.get()).collect(), usual.assets),
            },
            processors: or(self.processors.clone(), usual.processors),
            transports: or(
                self.transport.iter().copied().map(MediaTransport::from).collect(),
                usual.transports,
            ),
            paths: or(expanded(&self.path), usual.paths),
            bursts: or(self.burst.iter().copied().map(time_of).collect(), usual.bursts),
        }
    }
}

impl From<TransportName> for MediaTransport {
    fn from(name: TransportName) -> MediaTransport {
        match name {
            TransportName::Udp => MediaTransport::Udp,
            TransportName::Tcp => MediaTransport::Tcp,
            TransportName::Http => MediaTransport::Http,
        }
    }
}

/// Returns the given values, or the default values if none are given.
fn or<T>(given: Vec<T>, usual: Vec<T>) -> Vec<T> {
    if given.is_empty() { usual } else { given }
}

fn time_of(burst: BurstOption) -> Option<Duration> {
    match burst {
        BurstOption::Auto => None,
        BurstOption::Time(time) => Some(time),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| RATES.contains(rate));
    rate.ok_or_else(|| format!("expected megabits a second, from {} to {}", RATES.start(), RATES.end()))
}

/// Name that stands for all data paths.
const ALL_PATHS: &str = "all";

/// Names of data paths without duplicates. `all` stands for the paths that this machine may have.
fn expanded(names: &[String]) -> Vec<String> {
    let has_module = std::path::Path::new(MODULE).exists();
    let may_work = |path: &DataPath| has_module || !path.needs_module();
    let mut paths: Vec<String> = Vec::new();
    for name in names {
        let meant = match name.as_str() {
            ALL_PATHS => {
                let named = DataPath::ALL.into_iter().filter(may_work).map(|path| path.name().to_owned());
                std::iter::once("auto".to_owned()).chain(named).collect()
            }
            _ => vec![name.clone()],
        };
        paths.extend(meant);
    }
    let mut once = std::collections::HashSet::new();
    paths.retain(|path| once.insert(path.clone()));
    paths
}

/// Parses a data path of `wirepath serve`, or `all`.
fn path(text: &str) -> Result<String, String> {
    if text == ALL_PATHS {
        return Ok(text.to_owned());
    }
    text.parse::<PathChoice>().map(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn parsed(arguments: &[&str]) -> Result<Clients, clap::Error> {
        let command = Clients::augment_args(Command::new("clients").no_binary_name(true));
        Clients::from_arg_matches(&command.try_get_matches_from(arguments)?)
    }

    fn cases(arguments: &[&str]) -> Vec<String> {
        let dimensions = parsed(arguments).unwrap().dimensions();
        dimensions.cases().iter().map(ToString::to_string).collect()
    }

    /// Promise: `assess clients` varies one dimension at a time; with `--quick` only the dimensions that are
    /// named.
    #[test]
    fn what_is_named_is_varied() {
        assert_eq!(cases(&["--quick"]), ["4 Mb/s UDP"]);
        assert_eq!(cases(&["--quick", "--rates", "8,25"]), ["8 Mb/s UDP", "25 Mb/s UDP"]);
        assert_eq!(cases(&["--quick", "--burst", "20ms,auto"]), ["4 Mb/s UDP, burst 20 ms", "4 Mb/s UDP"]);
        let several =
            cases(&["--quick", "--transport", "tcp,udp", "--path", "auto,sendmmsg", "--assets", "1,9"]);
        assert_eq!(several, ["4 Mb/s TCP", "4 Mb/s UDP", "4 Mb/s TCP, 9 assets", "4 Mb/s TCP, sendmmsg"]);
        assert!(cases(&[]).len() > 10);
    }

    /// Promise: `assess clients --path all` measures `auto` and every data path that the machine may have.
    #[test]
    fn all_stands_for_each_data_path() {
        let paths = parsed(&["--quick", "--path", "sendmmsg,all"]).unwrap().dimensions().paths;
        assert_eq!(paths[..2], ["sendmmsg", "auto"]);
        assert_eq!(paths.iter().filter(|path| *path == "sendmmsg").count(), 1, "{paths:?}");
        let has = |path: &DataPath| paths.iter().any(|name| name == path.name());
        assert!(DataPath::SERVING.iter().all(has), "{paths:?}");
        let has_module = std::path::Path::new(MODULE).exists();
        assert_eq!(has(&DataPath::Krtpsendfile), has_module, "{paths:?}");
    }

    #[test]
    fn invalid_values_are_refused() {
        for wrong in [
            ["--rates", "0"],
            ["--rates", "1000"],
            ["--transport", "sctp"],
            ["--storage", "tape"],
            ["--burst", "2s"],
            ["--path", "fastest"],
            ["--peer", "nameless"],
            ["--most", "0"],
            ["--processes", "0"],
        ] {
            assert!(parsed(&wrong).is_err(), "{wrong:?}");
        }
        assert!(parsed(&["--file", "a.ts", "--rates", "4"]).is_err());
        let cold = parsed(&["--file", "a.ts", "--storage", "disk"]).unwrap();
        assert!(cold.options().unwrap_err().to_string().contains("several assets"));
        assert!(parsed(&["--file", "a.ts"]).unwrap().dimensions().storages == [Storage::Memory]);
        let shared = parsed(&["--processes", "2"]).unwrap();
        assert!(shared.options().unwrap_err().to_string().contains("--assets 1"));
        assert!(parsed(&["--quick", "--processes", "2"]).unwrap().options().is_ok());
        let twice = parsed(&["--peer", "a=x", "--peer", "a=y"]).unwrap();
        assert!(twice.options().unwrap_err().to_string().contains("same name"));
    }
}
