//! Which path to use, and why.

use wirepath_datapath::calibration::{DeviceKind, USUAL_TRAIN};
use wirepath_datapath::{BlockPath, DataPath};

use crate::headers;
use crate::result::{Assessment, Measurement, Transport};
use crate::statistics::Summary;

/// The plain path that the papers measure others by.
pub fn baseline(experiment: &str) -> Option<&'static str> {
    match experiment {
        "stream" => Some("read_writev"),
        "download" => Some("read_write"),
        _ => None,
    }
}

/// What is recommended for one purpose.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// What for, for people.
    pub purpose: &'static str,
    /// The path.
    pub path: String,
    /// Payload bytes of the packets or blocks that it was judged by; none for the whole file.
    pub size: Option<u64>,
    /// Processor seconds for each GiB.
    pub cost: Summary,
    /// What the plain path costs, and its name.
    pub plain: Option<(Summary, &'static str)>,
    /// The next best, and what it costs.
    pub next: Option<(String, Summary)>,
    /// The figures of the two differ by less than their runs do: either will do.
    pub close: bool,
    /// What this path takes that others do not.
    pub needs: Option<&'static str>,
}

/// Why it cannot be said that a path is better than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Runs of the two differ by as much as the two do.
    TooNoisy,
    /// Nothing is known of the spread of one of them.
    TooFewRuns,
}

impl Doubt {
    /// In words.
    pub fn in_words(self) -> &'static str {
        match self {
            Doubt::TooNoisy => "too noisy to say",
            Doubt::TooFewRuns => "too few runs to say",
        }
    }

    /// Whether it cannot be said that the two medians differ: they are no further apart than the quartiles of one of them.
    pub fn of(one: &Summary, other: &Summary) -> Option<Doubt> {
        match one.distance().zip(other.distance()) {
            None => Some(Doubt::TooFewRuns),
            Some((a, b)) => {
                let apart = (one.median - other.median).abs();
                (apart <= a.max(b)).then_some(Doubt::TooNoisy)
            }
        }
    }
}

impl Verdict {
    /// How many times as much the plain path costs; nothing where it is the plain path.
    pub fn times(&self) -> Option<f64> {
        let (plain, _) = self.plain.filter(|(_, name)| *name != self.path)?;
        Some(plain.median / self.cost.median).filter(|times| times.is_finite())
    }

    /// Whether what was measured does not tell the path from the next one, and why.
    pub fn doubt(&self) -> Option<Doubt> {
        let (_, next) = self.next.as_ref()?;
        Doubt::of(&self.cost, next).or(self.close.then_some(Doubt::TooNoisy))
    }
}

/// Something that a path is wanted for.
struct Purpose {
    name: &'static str,
    experiment: &'static str,
    transport: Transport,
    suits: fn(&Measurement) -> bool,
}

const PURPOSES: [Purpose; 4] = [
    Purpose {
        name: "streaming with an image's headers",
        experiment: "stream",
        transport: Transport::Udp,
        suits: |_| true,
    },
    Purpose {
        name: "streaming with headers of its own",
        experiment: "stream",
        transport: Transport::Udp,
        suits: |measurement| {
            let path = measurement.path.parse::<DataPath>();
            path.is_ok_and(|path| path.makes_headers())
        },
    },
    Purpose {
        name: "download over TCP",
        experiment: "download",
        transport: Transport::Tcp,
        suits: |measurement| measurement.size.is_none(),
    },
    Purpose { name: "download over UDP", experiment: "download", transport: Transport::Udp, suits: |_| true },
];

/// What the figures of a result recommend; nothing for what was not measured.
pub fn verdicts(result: &Assessment) -> Vec<Verdict> {
    PURPOSES.iter().filter_map(|purpose| verdict(result, purpose)).collect()
}

/// The path that `wirepath serve` takes by what was measured of its own trains, which are shorter than those that [`verdicts`] goes by,
/// and why, for people.
pub fn of_server(result: &Assessment) -> Option<(String, String)> {
    let costs = result.server.as_ref()?;
    let without_memory: Vec<DataPath> =
        DataPath::SERVING.into_iter().filter(|path| !path.needs_hot_memory()).collect();
    let devices = match &costs.device {
        DeviceKind::Named(device) => device,
        DeviceKind::WithChecksums => "devices that compute checksums",
        DeviceKind::WithoutChecksums => "devices that compute no checksums",
    };
    let why = format!(
        "over {devices}: cheapest per packet in trains of {USUAL_TRAIN}, as streams of 4 Mb/s leave (streaming above: full trains): {}",
        costs.in_words(&without_memory)
    );
    Some((costs.cheapest(&without_memory)?.to_string(), why))
}

fn verdict(result: &Assessment, purpose: &Purpose) -> Option<Verdict> {
    let of_purpose = |measurement: &&Measurement| {
        measurement.experiment == purpose.experiment
            && measurement.transport == purpose.transport
            // Variants: of a bare loop, of packets by themselves.
            && !measurement.path.contains(':')
    };
    let size = judged_by(result, purpose);
    let mut costs: Vec<(&Measurement, Summary)> = result
        .measurements
        .iter()
        .filter(of_purpose)
        .filter(|measurement| measurement.size == size)
        .filter_map(|measurement| Some((measurement, cost(measurement)?)))
        .collect();
    costs.sort_by(|(_, one), (_, other)| one.median.total_cmp(&other.median));
    let plain = baseline(purpose.experiment).and_then(|name| {
        costs.iter().find(|(measurement, _)| measurement.path == name).map(|(_, cost)| (*cost, name))
    });
    let mut suiting = costs.iter().filter(|(measurement, _)| (purpose.suits)(measurement));
    let (best, cost) = suiting.next()?;
    let next = suiting.next();
    Some(Verdict {
        purpose: purpose.name,
        path: best.path.clone(),
        size,
        cost: *cost,
        plain,
        next: next.map(|(measurement, cost)| (measurement.path.clone(), *cost)),
        close: next.is_some_and(|(_, next)| next.least <= cost.greatest),
        needs: needs(best),
    })
}

/// What a path takes that others do not.
fn needs(measurement: &Measurement) -> Option<&'static str> {
    let name = &measurement.path;
    if name.parse::<DataPath>().is_ok_and(DataPath::needs_hot_memory) {
        return Some("it needs its files in memory: serve --hot-memory SIZE");
    }
    if name.parse().is_ok_and(DataPath::needs_module) || name.parse().is_ok_and(BlockPath::needs_module) {
        return Some("it needs the kernel module: docs/module.md");
    }
    let of_blocks = name.parse::<BlockPath>().is_ok_and(BlockPath::needs_hot_memory);
    of_blocks
        .then_some("it needs its file in registered memory, which serve has for streams only (--hot-memory)")
}

/// The size that paths are judged by: the largest that is not fragmented; for TCP the whole file.
fn judged_by(result: &Assessment, purpose: &Purpose) -> Option<u64> {
    if purpose.transport == Transport::Tcp {
        return None;
    }
    // Over IPv6 a full packet has less payload than these allow, and is still the largest that is not larger.
    let rtp = if purpose.experiment == "stream" { headers::RTP } else { 0 };
    let headers = u64::from(headers::UDP_OVER_IPV4 + rtp);
    let room = |measurement: &Measurement| {
        u64::from(measurement.mtu.min(result.settings.mtu)).saturating_sub(headers)
    };
    let sizes = result.measurements.iter().filter(|measurement| {
        measurement.experiment == purpose.experiment
            && measurement.transport == purpose.transport
            && measurement.size.is_some_and(|size| size <= room(measurement))
    });
    sizes.filter_map(|measurement| measurement.size).max()
}

/// Processor seconds for each GiB, of all runs together.
pub fn cost(measurement: &Measurement) -> Option<Summary> {
    Summary::of(
        measurement.runs.iter().map(crate::result::Run::cpu_s_per_gib).filter(|cost| cost.is_finite()),
    )
}

#[cfg(test)]
mod tests;
