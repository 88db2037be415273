//! Recommended paths, and reasons.

use wirepath_datapath::DataPath;
use wirepath_datapath::calibration::{DeviceKind, USUAL_TRAIN};

use crate::header_sizes;
use crate::result::{Assessment, Experiment, Measurement, PathKind, Transport, Variant};
use crate::statistics::Summary;

/// Recommendation for one purpose.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    /// Purpose, in words.
    pub purpose: &'static str,
    /// Recommended path.
    pub path: PathKind,
    /// Payload bytes of the packets or blocks compared; `None` for the whole file.
    pub size: Option<u64>,
    /// Processor seconds per GiB.
    pub cost: Summary,
    /// Cost of the plain path, and that path.
    pub plain: Option<(Summary, PathKind)>,
    /// Second-best path, and its cost.
    pub next: Option<(PathKind, Summary)>,
    /// True if the two paths differ by less than their runs do: either will do.
    pub close: bool,
    /// Requirement of this path that other paths do not have.
    pub needs: Option<&'static str>,
}

/// Significance of the difference between two medians.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Significance {
    /// Different.
    Significant,
    /// The runs differ by as much as the medians do.
    TooNoisy,
    /// Unknown spread of one of the two.
    TooFewRuns,
}

impl Significance {
    /// Significance of the difference between two figures: significant if the medians differ by more than the
    /// larger interquartile range.
    pub fn of(one: &Summary, other: &Summary) -> Significance {
        match one.distance().zip(other.distance()) {
            None => Significance::TooFewRuns,
            Some((a, b)) if (one.median - other.median).abs() <= a.max(b) => Significance::TooNoisy,
            Some(_) => Significance::Significant,
        }
    }

    /// Reason for the doubt, if the difference is not significant.
    pub fn doubt(self) -> Option<&'static str> {
        match self {
            Significance::Significant => None,
            Significance::TooNoisy => Some("too noisy to say"),
            Significance::TooFewRuns => Some("too few runs to say"),
        }
    }
}

impl Verdict {
    /// Cost of the plain path as a multiple; `None` if this is the plain path.
    pub(crate) fn times(&self) -> Option<f64> {
        let (plain, _) = self.plain.filter(|(_, name)| *name != self.path)?;
        Some(plain.median / self.cost.median).filter(|times| times.is_finite())
    }

    /// Significance of the difference from the second-best path.
    pub(crate) fn significance(&self) -> Significance {
        match &self.next {
            None => Significance::Significant,
            Some((_, next)) => match Significance::of(&self.cost, next) {
                Significance::Significant if self.close => Significance::TooNoisy,
                significance => significance,
            },
        }
    }
}

/// Purpose of a path.
struct Purpose {
    name: &'static str,
    experiment: Experiment,
    transport: Transport,
    suits: fn(&Measurement) -> bool,
}

const PURPOSES: [Purpose; 5] = [
    Purpose {
        name: "streaming with an image's headers",
        experiment: Experiment::Stream,
        transport: Transport::Udp,
        suits: |_| true,
    },
    Purpose {
        name: "streaming with headers of its own",
        experiment: Experiment::Stream,
        transport: Transport::Udp,
        suits: |measurement| matches!(measurement.path.kind, PathKind::Stream(path) if path.makes_headers()),
    },
    Purpose {
        name: "streaming over TCP",
        experiment: Experiment::Stream,
        transport: Transport::Tcp,
        suits: |_| true,
    },
    Purpose {
        name: "download over TCP",
        experiment: Experiment::Download,
        transport: Transport::Tcp,
        suits: |measurement| measurement.size.is_none(),
    },
    Purpose {
        name: "download over UDP",
        experiment: Experiment::Download,
        transport: Transport::Udp,
        suits: |_| true,
    },
];

/// Recommendations of a result; purposes without measurements are left out.
pub(crate) fn verdicts(result: &Assessment) -> Vec<Verdict> {
    PURPOSES.iter().filter_map(|purpose| verdict(result, purpose)).collect()
}

/// Path that `wirepath serve` chooses by the costs of its own trains, which are shorter than those of
/// [`verdicts`], and the reason in words.
pub(crate) fn of_server(result: &Assessment) -> Option<(String, String)> {
    let costs = result.server.as_ref()?;
    let without_ring: Vec<DataPath> =
        DataPath::SERVING.into_iter().filter(|path| !path.needs_ring()).collect();
    let devices = match &costs.device {
        DeviceKind::Named(device) => device,
        DeviceKind::WithChecksums => "devices that compute checksums",
        DeviceKind::WithoutChecksums => "devices that compute no checksums",
    };
    let why = format!(
        "over {devices}: cheapest per packet in trains of {USUAL_TRAIN}, as streams of 4 Mb/s leave (streaming above: full trains): {}",
        costs.in_words(&without_ring, false)
    );
    Some((costs.cheapest(&without_ring, false)?.to_string(), why))
}

fn verdict(result: &Assessment, purpose: &Purpose) -> Option<Verdict> {
    let of_purpose = |measurement: &&Measurement| {
        measurement.experiment == purpose.experiment
            && measurement.transport == purpose.transport
            && measurement.path.variant == Variant::Plain
    };
    let size = judged_by(result, purpose);
    let mut costs: Vec<(&Measurement, Summary)> = result
        .measurements
        .iter()
        .filter(of_purpose)
        .filter(|measurement| measurement.size == size)
        .filter_map(|measurement| Some((measurement, measurement.cost()?)))
        .collect();
    costs.sort_by(|(_, one), (_, other)| one.median.total_cmp(&other.median));
    let plain = purpose.experiment.baseline().and_then(|plain| {
        costs.iter().find(|(measurement, _)| measurement.path.kind == plain).map(|(_, cost)| (*cost, plain))
    });
    let mut suiting = costs.iter().filter(|(measurement, _)| (purpose.suits)(measurement));
    let (best, cost) = suiting.next()?;
    let next = suiting.next();
    Some(Verdict {
        purpose: purpose.name,
        path: best.path.kind,
        size,
        cost: *cost,
        plain,
        next: next.map(|(measurement, cost)| (measurement.path.kind, *cost)),
        close: next.is_some_and(|(_, next)| next.least <= cost.greatest),
        needs: needs(best.path.kind),
    })
}

/// Requirement of a path that other paths do not have.
fn needs(path: PathKind) -> Option<&'static str> {
    match path {
        _ if path.needs_module() => Some("it needs the kernel module (package wirepath-dkms)"),
        _ if !path.needs_hot_memory() => None,
        PathKind::Interleaved => None,
        PathKind::Stream(_) => Some("it needs its files in memory: serve --hot-memory SIZE"),
        PathKind::Block(_) => {
            Some("it needs its file in registered memory, which serve has for streams only (--hot-memory)")
        }
    }
}

/// Size that paths are compared at: the largest that is not fragmented; for downloads over TCP the whole file.
fn judged_by(result: &Assessment, purpose: &Purpose) -> Option<u64> {
    if (purpose.experiment, purpose.transport) == (Experiment::Download, Transport::Tcp) {
        return None;
    }
    // Over IPv6 a full packet has less payload than these headers allow, and is still the largest size within
    // it.
    let rtp = if purpose.experiment == Experiment::Stream { header_sizes::RTP } else { 0 };
    let headers = u64::from(header_sizes::UDP_OVER_IPV4 + rtp);
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

#[cfg(test)]
mod tests;
