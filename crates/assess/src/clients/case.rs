//! Cases: media and transport of the clients, and options of the server.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Longest burst of `--burst auto`, unless `--burst-max` says otherwise.
const LONGEST_AUTO: Duration = Duration::from_millis(100);

/// Fewest assets of a case on disk: a single asset would be read once for all clients.
const LEAST_ON_DISK: usize = 32;

/// Values by dimension: the first value of each dimension forms the base case, and each other value forms a
/// case that differs from the base in that dimension only.
#[derive(Clone, Debug, PartialEq)]
pub struct Dimensions {
    /// Bit rates of the media in bits per second.
    pub rates: Vec<f64>,
    /// Locations of assets before a step.
    pub storages: Vec<Storage>,
    /// Numbers of assets; several assets are requested by Zipf's law.
    pub assets: Vec<usize>,
    /// Processors of the server.
    pub processors: Vec<Processors>,
    /// Transports of media.
    pub transports: Vec<MediaTransport>,
    /// Values of `wirepath serve --path`.
    pub paths: Vec<String>,
    /// Bursts of `wirepath serve`; `None` for `--burst auto`.
    pub bursts: Vec<Option<Duration>>,
}

/// Case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientCase {
    /// Name of the user's own asset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Bit rate of the media in bits per second.
    pub bits_per_second: f64,
    /// Location of assets before a step.
    pub storage: Storage,
    /// Number of assets.
    pub assets: usize,
    /// Processors of the server.
    pub processors: Processors,
    /// Transport of media.
    pub transport: MediaTransport,
    /// `--path` of `wirepath serve`.
    pub path: String,
    /// Burst of `wirepath serve` in milliseconds; `None` for `--burst auto`.
    pub burst_ms: Option<f64>,
}

/// Transport of media.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MediaTransport {
    /// RTP over UDP, set up by RTSP.
    Udp,
    /// RTP over the RTSP connection.
    Tcp,
    /// Download that a progressive player reads at the rate of its media.
    Http,
}

/// Location of assets before a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Storage {
    /// In the page cache.
    Memory,
    /// On the disk.
    Disk,
}

/// Processors of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Processors {
    /// One; clients use the others.
    One,
    /// All, shared with the clients.
    All,
}

/// Unknown value of a dimension.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {0} or {1}")]
pub struct UnknownWord(&'static str, &'static str);

impl Dimensions {
    /// Dimensions measured by default; the quick form has the base case only.
    pub fn usual(quick: bool) -> Dimensions {
        let all = Dimensions {
            rates: vec![4e6, 0.5e6, 2e6, 8e6, 25e6],
            storages: vec![Storage::Memory, Storage::Disk],
            assets: vec![1, 32],
            processors: vec![Processors::One, Processors::All],
            transports: vec![MediaTransport::Udp, MediaTransport::Tcp, MediaTransport::Http],
            paths: ["auto", "wire_sendfile", "gso_writev", "sendmmsg"].map(str::to_owned).to_vec(),
            bursts: vec![None, Some(Duration::from_millis(10))],
        };
        if quick { all.base_alone() } else { all }
    }

    fn base_alone(mut self) -> Dimensions {
        self.rates.truncate(1);
        self.storages.truncate(1);
        self.assets.truncate(1);
        self.processors.truncate(1);
        self.transports.truncate(1);
        self.paths.truncate(1);
        self.bursts.truncate(1);
        self
    }

    /// Base case, then the cases that differ from it in one dimension. Empty if a dimension has no value.
    pub fn cases(&self) -> Vec<ClientCase> {
        let Some(base) = self.base() else { return Vec::new() };
        let mut cases = vec![base.clone()];
        let with = |change: &dyn Fn(&mut ClientCase)| {
            let mut case = base.clone();
            change(&mut case);
            case
        };
        cases.extend(self.transports[1..].iter().map(|value| with(&|case| case.transport = *value)));
        cases.extend(self.rates[1..].iter().map(|value| with(&|case| case.bits_per_second = *value)));
        cases.extend(self.assets[1..].iter().map(|value| with(&|case| case.assets = *value)));
        cases.extend(self.storages[1..].iter().map(|value| with(&|case| case.storage = *value)));
        cases.extend(
            self.bursts[1..].iter().map(|value| with(&|case| case.burst_ms = value.map(milliseconds))),
        );
        cases.extend(self.paths[1..].iter().map(|value| with(&|case| case.path.clone_from(value))));
        cases.extend(self.processors[1..].iter().map(|value| with(&|case| case.processors = *value)));
        for case in cases.iter_mut().filter(|case| case.storage == Storage::Disk) {
            case.assets = case.assets.max(LEAST_ON_DISK);
        }
        let mut distinct: Vec<ClientCase> = Vec::new();
        for case in cases {
            if !distinct.contains(&case) {
                distinct.push(case);
            }
        }
        distinct
    }

    fn base(&self) -> Option<ClientCase> {
        Some(ClientCase {
            file: None,
            bits_per_second: *self.rates.first()?,
            storage: *self.storages.first()?,
            assets: *self.assets.first()?,
            processors: *self.processors.first()?,
            transport: *self.transports.first()?,
            path: self.paths.first()?.clone(),
            burst_ms: self.bursts.first()?.map(milliseconds),
        })
    }
}

/// Groups of cases that differ only in options of the server (path, burst, processors).
pub(crate) fn groups(cases: &[ClientCase]) -> Vec<Vec<ClientCase>> {
    let mut groups: Vec<Vec<ClientCase>> = Vec::new();
    for case in cases {
        match groups.iter_mut().find(|group| group[0].plays_as(case)) {
            Some(group) => group.push(case.clone()),
            None => groups.push(vec![case.clone()]),
        }
    }
    groups
}

impl ClientCase {
    /// Returns whether the case differs from another in options that only `wirepath serve` has.
    pub fn is_own_variation_of(&self, other: &ClientCase) -> bool {
        self.path != other.path || self.burst_ms != other.burst_ms
    }

    /// Returns whether both cases play the same media over the same transport, so that they can be measured
    /// in turns.
    fn plays_as(&self, other: &ClientCase) -> bool {
        let of = |case: &ClientCase| (case.bits_per_second, case.storage, case.assets, case.transport);
        of(self) == of(other)
    }

    /// Value of `--burst` of `wirepath serve`.
    pub(crate) fn burst_option(&self) -> String {
        self.burst_ms.map_or_else(|| "auto".to_owned(), |ms| format!("{:.0}us", ms * 1000.0))
    }

    /// Longest burst that the server may send; all servers are allowed this.
    pub(crate) fn longest_burst(&self) -> Duration {
        self.burst_ms.map_or(LONGEST_AUTO, |ms| Duration::from_secs_f64(ms / 1000.0))
    }
}

impl fmt::Display for MediaTransport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            MediaTransport::Udp => "UDP",
            MediaTransport::Tcp => "TCP",
            MediaTransport::Http => "HTTP",
        })
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

impl fmt::Display for ClientCase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(formatter, "{file} ({:.2} Mb/s)", self.bits_per_second / 1e6)?,
            None => write!(formatter, "{} Mb/s", self.bits_per_second / 1e6)?,
        }
        write!(formatter, " {}", self.transport)?;
        if self.assets > 1 {
            write!(formatter, ", {} assets", self.assets)?;
        }
        if self.storage == Storage::Disk {
            write!(formatter, ", cold")?;
        }
        if self.processors == Processors::All {
            write!(formatter, ", all cores")?;
        }
        if let Some(ms) = self.burst_ms {
            write!(formatter, ", burst {ms} ms")?;
        }
        if self.path != "auto" {
            write!(formatter, ", {}", self.path)?;
        }
        Ok(())
    }
}

/// Names of values, for options and results.
macro_rules! words {
    ($type:ident, $($variant:ident $word:literal),* ; $first:literal $second:literal) => {
        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(match self { $($type::$variant => $word),* })
            }
        }

        impl std::str::FromStr for $type {
            type Err = UnknownWord;

            fn from_str(text: &str) -> Result<$type, UnknownWord> {
                match text { $($word => Ok($type::$variant),)* _ => Err(UnknownWord($first, $second)) }
            }
        }
    };
}

words!(Storage, Memory "memory", Disk "disk"; "memory" "disk");
words!(Processors, One "one", All "all"; "one" "all");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_dimension_is_varied_at_a_time() {
        let usual = Dimensions::usual(false);
        let cases = usual.cases();
        assert_eq!(cases.len(), 1 + 2 + 4 + 1 + 1 + 1 + 3 + 1);
        let names: Vec<String> = cases.iter().map(ToString::to_string).collect();
        assert_eq!(names[..4], ["4 Mb/s UDP", "4 Mb/s TCP", "4 Mb/s HTTP", "0.5 Mb/s UDP"]);
        assert!(names.contains(&"4 Mb/s UDP, wire_sendfile".to_owned()), "{names:?}");
        assert!(names.contains(&"4 Mb/s UDP, 32 assets, cold".to_owned()), "{names:?}");
        assert_eq!((cases[0].burst_option(), cases[0].longest_burst()), ("auto".to_owned(), LONGEST_AUTO));
        let short = cases.iter().find(|case| case.burst_ms.is_some()).unwrap();
        assert_eq!(
            (short.burst_option(), short.to_string()),
            ("10000us".into(), "4 Mb/s UDP, burst 10 ms".into())
        );
        let own = cases.iter().filter(|case| case.is_own_variation_of(&cases[0])).count();
        assert_eq!(own, 4, "bursts and paths");
        assert_eq!(Dimensions::usual(true).cases().len(), 1);
        let quick = Dimensions::usual(true);
        let on_disk = Dimensions { storages: vec![Storage::Disk], assets: vec![1, 32, 64], ..quick };
        let names: Vec<String> = on_disk.cases().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["4 Mb/s UDP, 32 assets, cold", "4 Mb/s UDP, 64 assets, cold"]);
        assert!(Dimensions { rates: Vec::new(), ..usual }.cases().is_empty());
    }

    /// Promise: `assess clients` alternates between data paths, bursts and processors of one server while it
    /// measures.
    #[test]
    fn cases_of_the_same_media_are_measured_in_turns() {
        let groups = groups(&Dimensions::usual(false).cases());
        let names: Vec<String> = groups[0].iter().map(ToString::to_string).collect();
        let paths = ["wire_sendfile", "gso_writev", "sendmmsg"].map(|path| format!("4 Mb/s UDP, {path}"));
        assert_eq!(names[..2], ["4 Mb/s UDP", "4 Mb/s UDP, burst 10 ms"]);
        assert_eq!((&names[2..5], names[5].as_str()), (&paths[..], "4 Mb/s UDP, all cores"));
        assert!(groups[1..].iter().all(|group| group.len() == 1), "{groups:?}");
        let all: usize = groups.iter().map(Vec::len).sum();
        assert_eq!(all, Dimensions::usual(false).cases().len());
    }

    #[test]
    fn words_are_read_back() {
        for storage in [Storage::Memory, Storage::Disk] {
            assert_eq!(storage.to_string().parse(), Ok(storage));
        }
        assert_eq!("both".parse::<Processors>().unwrap_err().to_string(), "expected one or all");
    }
}
