//! Arguments of `wirepath load`.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use wirepath_load::{Mix, Options, Outcome, Scheme, Storm, Target, Transport};
use wirepath_relay::RateSpec;

use crate::values::{positive_count, positive_time, threads, time};

/// Maximum number of addresses in a network of `--from`.
const MOST_ADDRESSES: u32 = 1 << 16;

/// Default duration of media that a player buffers.
const BUFFER: Duration = Duration::from_millis(200);

/// Default duration of a storm.
const STORM: Duration = Duration::from_secs(5);

/// Valid numbers of sessions per second.
const RAMP: std::ops::RangeInclusive<f64> = 0.001..=1e6;

/// Arguments of `wirepath load`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  wirepath load rtsp://server:8554/clip.ts --sessions 1000 --ramp 100 --for 1m --sample 5%
  wirepath load http://server:8080/clip.mp4 --sessions 200 --rate 5Mb/s
  wirepath load http://server:8080/hls/index.m3u8 --sessions 200
  wirepath load rtsp://server:8554/clip.ts --sessions 500 --storm 1000 --json storm.json

A session is timely if it did not fail, a player that buffers --buffer of media had no underrun and, over RTSP, at \
least 0.9 of the media's rate arrived. Over HTTP, the segments of a playlist (.m3u8) are played at the playlist's \
rate, other assets at --rate. Without --rate other assets are downloaded repeatedly, and a session is timely if it \
did not fail. Failed sessions are not retried. When the media of a session ends, or its time by --churn, a new session \
begins.

Exit code: 0 if --require holds (by default: all judged sessions are timely and none failed), 3 if it does not, 1 if the \
run could not begin, 2 for invalid arguments, 130 or 143 after a signal, with the result until then.")]
pub(crate) struct Load {
    /// Assets to play, the most popular first: rtsp://HOST[:PORT]/ASSET or http://HOST[:PORT]/PATH, not mixed
    #[arg(value_name = "URL", required = true, value_parser = Target::parse)]
    targets: Vec<Target>,

    /// Number of concurrent sessions
    #[arg(long, value_name = "N", default_value = "1", value_parser = positive_count)]
    sessions: NonZeroUsize,

    /// Sessions to start each second
    #[arg(long, value_name = "RATE", default_value = "50", value_parser = ramp)]
    ramp: f64,

    /// Duration from the start of the last session to the end
    #[arg(long = "for", value_name = "TIME", default_value = "30s", value_parser = positive_time)]
    duration: Duration,

    /// Time after the start of the last session from which lateness and underruns count; 0s counts all
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = time)]
    settle: Duration,

    /// Transport of media over RTSP [default: udp]
    #[arg(long, value_name = "TRANSPORT")]
    transport: Option<TransportName>,

    /// Rate of playing assets over HTTP, as progressive players do: 5Mb/s, 800kb/s; without it, assets are
    /// downloaded at full speed
    #[arg(long, value_name = "RATE")]
    rate: Option<RateSpec>,

    /// Share of the sessions whose media are received and judged, chosen at random; the kernel drops the
    /// media of the others
    #[arg(long, value_name = "SHARE", default_value = "100%", value_parser = share)]
    sample: f64,

    /// Distribution of sessions over several assets: even, or zipf:S
    #[arg(long, value_name = "MIX", default_value = "even")]
    mix: Mix,

    /// Seek in each session, on average at this interval; not in downloads
    #[arg(long, value_name = "TIME", value_parser = positive_time)]
    seek_every: Option<Duration>,

    /// End each session, on average after this time, and begin another
    #[arg(long, value_name = "TIME", value_parser = positive_time)]
    churn: Option<Duration>,

    /// Share of sessions ended by --churn that vanish without a TEARDOWN: half by a reset, half silently; at
    /// most --sessions and 1,000 are silent at a time
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = share, requires = "churn")]
    vanish: f64,

    /// Media that a player buffers before it plays [default: 200ms]
    #[arg(long, value_name = "TIME", value_parser = positive_time)]
    buffer: Option<Duration>,

    /// Local addresses, used in turn: ADDRESS, or ADDRESS/PREFIX for all hosts of a network
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    from: Vec<Addresses>,

    /// Local addresses of the judged sessions [default: those of --from]
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    sample_from: Vec<Addresses>,

    /// Rate of additional set-ups per second (SETUP and TEARDOWN) during --storm-for; the result shows
    /// lateness before, during and after; RTSP only
    #[arg(long, value_name = "RATE", value_parser = ramp)]
    storm: Option<f64>,

    /// Duration of --storm, in the middle of the time after --settle [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = positive_time, requires = "storm")]
    storm_for: Option<Duration>,

    /// Threads that play sessions
    #[arg(long, value_name = "N", default_value = "1", value_parser = threads)]
    threads: NonZeroUsize,

    /// Time limit for connecting, for each response, for the first packet, and between bytes of a body
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = positive_time)]
    timeout: Duration,

    /// Criteria of success: timely (all), timely:SHARE, lossless (RTSP), none [default: timely]
    #[arg(long, value_name = "CRITERION", value_delimiter = ',')]
    require: Vec<Require>,

    /// Write the result as JSON to FILE; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,

    /// Write the result as an HTML page
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum TransportName {
    /// RTP over UDP
    Udp,
    /// RTP over the RTSP connection
    Tcp,
}

/// Criterion of success.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Require {
    /// At least this share of the counted sessions is timely.
    Timely(f64),
    /// No packet of judged sessions is lost.
    Lossless,
    /// No criterion.
    None,
}

/// Local addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Addresses(Vec<IpAddr>);

impl Load {
    /// Error message about an option that is not supported for the URLs, if any.
    pub(super) fn conflict(&self) -> Option<String> {
        if let Some(storm) = self.storm().filter(|storm| !storm.fits(self.duration, self.settle)) {
            return Some(format!(
                "--for leaves no time around a storm of {} s: expected a second before and after it, in addition to --settle",
                storm.duration.as_secs_f64()
            ));
        }
        let http = self.targets.iter().filter(|target| target.scheme == Scheme::Http).count();
        let downloads = self.targets.iter().filter(|target| target.is_download()).count();
        if http == 0 {
            return self
                .rate
                .map(|_| "--rate is not supported for rtsp:// URLs: media have their own".to_owned());
        }
        if http < self.targets.len() {
            return Some("rtsp:// and http:// URLs cannot be mixed: start one run for each".to_owned());
        }
        let plays = self.rate.is_some() || downloads < http;
        let refused = [
            (self.storm.is_some(), "--storm is not supported for http:// URLs"),
            (self.transport.is_some(), "--transport is not supported for http:// URLs"),
            (
                self.require.contains(&Require::Lossless),
                "--require lossless is not supported for http:// URLs",
            ),
            (
                self.rate.is_some() && downloads == 0,
                "--rate is not supported for playlists: they have their own",
            ),
            (self.seek_every.is_some() && !plays, "--seek-every is not supported for downloads: add --rate"),
            (self.buffer.is_some() && !plays, "--buffer is not supported for downloads: add --rate"),
            (!self.settle.is_zero() && !plays, "--settle is not supported for downloads: add --rate"),
        ];
        refused.iter().find(|(is_refused, _)| *is_refused).map(|(_, why)| (*why).to_owned())
    }

    /// Error messages about criteria that are not met.
    pub(super) fn failures(&self, outcome: &Outcome) -> Vec<String> {
        if self.require.is_empty() {
            let failure = Require::Timely(1.0).failure(outcome, ", the default,");
            return failure.into_iter().collect();
        }
        self.require.iter().filter_map(|require| require.failure(outcome, "")).collect()
    }

    fn storm(&self) -> Option<Storm> {
        self.storm.map(|rate| Storm { rate, duration: self.storm_for.unwrap_or(STORM) })
    }

    pub(super) fn options(&self) -> Result<Options> {
        Ok(Options {
            targets: self.targets.clone(),
            mix: self.mix,
            sessions: self.sessions.get(),
            ramp: self.ramp,
            duration: self.duration,
            settle: self.settle,
            transport: match self.transport {
                None | Some(TransportName::Udp) => Transport::Udp,
                Some(TransportName::Tcp) => Transport::Tcp,
            },
            rate: self.rate.map(|rate| rate.rate(None).per_second.saturating_mul(8)),
            sample: self.sample,
            seek_every: self.seek_every,
            churn: self.churn,
            vanish: self.vanish,
            buffer: self.buffer.unwrap_or(BUFFER),
            from: all(&self.from),
            sample_from: all(&self.sample_from),
            storm: self.storm(),
            threads: self.threads.get(),
            timeout: self.timeout,
        })
    }
}

fn all(addresses: &[Addresses]) -> Vec<IpAddr> {
    addresses.iter().flat_map(|addresses| addresses.0.iter().copied()).collect()
}

impl Require {
    /// Error message if the criterion is not met. `origin` follows its name.
    fn failure(self, outcome: &Outcome, origin: &str) -> Option<String> {
        let lost = outcome.media.lost + outcome.media.missing_at_start;
        match self {
            Require::Timely(least) if outcome.timely_share() < least => Some(format!(
                "{} of {} sessions that were judged or failed were timely: --require timely:{}%{origin} is not met",
                outcome.sessions.timely,
                outcome.counted(),
                least * 100.0
            )),
            Require::Lossless if lost > 0 => {
                Some(format!("{lost} packets were lost: --require lossless{origin} is not met"))
            }
            Require::Timely(_) | Require::Lossless | Require::None => None,
        }
    }
}

impl FromStr for Require {
    type Err = String;

    fn from_str(text: &str) -> Result<Require, String> {
        match (text, text.strip_prefix("timely:")) {
            ("timely", _) => Ok(Require::Timely(1.0)),
            ("lossless", _) => Ok(Require::Lossless),
            ("none", _) => Ok(Require::None),
            (_, Some(least)) => share(least).map(Require::Timely),
            _ => Err("expected timely, timely:SHARE, lossless or none".to_owned()),
        }
    }
}

impl FromStr for Addresses {
    type Err = String;

    fn from_str(text: &str) -> Result<Addresses, String> {
        const EXPECTED: &str = "expected ADDRESS or ADDRESS/PREFIX, such as 127.1.0.0/20";
        let Some((network, prefix)) = text.split_once('/') else {
            return text.parse().map(|address| Addresses(vec![address])).map_err(|_| EXPECTED.to_owned());
        };
        let network: std::net::Ipv4Addr = network.parse().map_err(|_| EXPECTED.to_owned())?;
        let prefix: u32 = prefix.parse().ok().filter(|prefix| *prefix <= 32).ok_or(EXPECTED)?;
        let size = 1u64 << (32 - prefix);
        if size > MOST_ADDRESSES.into() {
            return Err(format!("{text} has more than {MOST_ADDRESSES} addresses"));
        }
        let first = u64::from(network.to_bits()) / size * size;
        // Network and broadcast addresses are not host addresses.
        let hosts = if size > 2 { first + 1..first + size - 1 } else { first..first + size };
        Ok(Addresses(hosts.map(|bits| IpAddr::V4((bits as u32).into())).collect()))
    }
}

/// Parses a share, such as `5%` or `0.05`.
fn share(text: &str) -> Result<f64, String> {
    let (digits, scale) = text.strip_suffix('%').map_or((text, 1.0), |digits| (digits, 100.0));
    let share = digits.trim().parse::<f64>().ok().map(|number| number / scale);
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a share from 0% to 100%, such as 5% or 0.05".to_owned())
}

fn ramp(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| RAMP.contains(rate));
    rate.ok_or_else(|| "expected sessions a second, such as 50 or 0.5, at least 0.001".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_in_both_forms() {
        assert_eq!((share("5%"), share("0.05"), share("100 %")), (Ok(0.05), Ok(0.05), Ok(1.0)));
        for text in ["", "5", "101%", "-1%", "NaN", "all"] {
            assert!(share(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ramps_are_bounded() {
        assert_eq!((ramp("0.5"), ramp("0.001")), (Ok(0.5), Ok(0.001)));
        for text in ["0", "1e-300", "-1", "NaN", "inf", "1e7"] {
            assert!(ramp(text).is_err(), "{text}");
        }
    }

    #[test]
    fn criteria_are_read() {
        assert_eq!("timely".parse(), Ok(Require::Timely(1.0)));
        assert_eq!("timely:99.5%".parse(), Ok(Require::Timely(0.995)));
        assert_eq!(("lossless".parse(), "none".parse()), (Ok(Require::Lossless), Ok(Require::None)));
        assert!("timely:".parse::<Require>().is_err() && "all".parse::<Require>().is_err());
    }

    #[test]
    fn networks_are_their_hosts() {
        let addresses = |text: &str| text.parse::<Addresses>().map(|addresses| addresses.0);
        assert_eq!(addresses("::1"), Ok(vec!["::1".parse().unwrap()]));
        let hosts = addresses("127.1.0.7/24").unwrap();
        assert_eq!((hosts.len(), hosts[0].to_string().as_str()), (254, "127.1.0.1"));
        assert_eq!(addresses("127.1.0.1/32").map(|hosts| hosts.len()), Ok(1));
        assert!(
            addresses("10.0.0.0/8").is_err() && addresses("10.0.0.0/33").is_err() && addresses("x").is_err()
        );
    }
}
