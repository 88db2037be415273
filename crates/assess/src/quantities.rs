//! All figures of a result, by name, for comparison, listing and noise checks.

use std::fmt;

use serde::Serialize;
use wirepath_report::number;

use crate::path_costs::{self, Cost};
use crate::result::{Assessment, Experiment, LoanPoint, Measurement, Part, RelayCost, Transport};

/// Figure and its runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quantity {
    /// Name of the figure.
    pub name: Name,
    /// Unit of the runs.
    pub unit: Unit,
    /// Runs, in the order they were made.
    pub runs: Vec<f64>,
}

/// Name of a figure: figures of two results with the same name measure the same thing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Name {
    /// Subject of the measurement.
    #[serde(rename = "experiment")]
    pub topic: Topic,
    /// UDP or TCP, if the figure is of one transport.
    pub transport: Option<Transport>,
    /// MTU, if the figure depends on it.
    pub mtu: Option<u32>,
    /// Path, call, or property of a path.
    pub what: String,
    /// Bytes of a packet, send or copy; null for the whole file, or if there is no size.
    pub size: Option<u64>,
    /// True for a file sent in one call.
    pub whole: bool,
}

/// Subject of a figure; written as `stream`, `relay: mirror`, `costs` or `profile of stream`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(into = "String")]
pub enum Topic {
    /// Data paths, and the page loan.
    Paths(Experiment),
    /// Part of the relay experiment.
    Relay(Part),
    /// Kernel entry and copies.
    Costs,
    /// Profile of an experiment.
    Profile(Experiment),
}

impl fmt::Display for Topic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Topic::Paths(experiment) => write!(formatter, "{experiment}"),
            Topic::Relay(part) => write!(formatter, "relay: {part}"),
            Topic::Costs => formatter.write_str("costs"),
            Topic::Profile(experiment) => write!(formatter, "profile of {experiment}"),
        }
    }
}

impl From<Topic> for String {
    fn from(topic: Topic) -> String {
        topic.to_string()
    }
}

/// Unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Processor seconds per GiB.
    SecondsPerGib,
    /// Seconds.
    Seconds,
    /// Bytes per second: the only unit in which more is better.
    BytesPerSecond,
    /// Share of samples.
    Share,
}

impl Unit {
    /// Unit of the cost of a relay case.
    pub fn of_relay(cost: &RelayCost) -> Unit {
        let is_of_each = cost.case.is_of_datagrams() || cost.case.part.is_judged();
        if is_of_each { Unit::Seconds } else { Unit::SecondsPerGib }
    }

    /// Text of a value with its unit.
    pub fn text(self, value: f64) -> String {
        match self {
            Unit::SecondsPerGib => format!("{} s/GiB", number::significant(value)),
            Unit::Seconds => number::time(value),
            Unit::BytesPerSecond => number::bit_rate(value),
            Unit::Share => number::percent(value),
        }
    }
}

impl Quantity {
    /// Runs in one unit that suits the first run.
    pub(crate) fn every_run(&self) -> (&'static str, Vec<String>) {
        let first = self.runs.first().copied().unwrap_or_default();
        let (unit, scale) = match self.unit {
            Unit::SecondsPerGib => ("s/GiB", 1.0),
            Unit::Seconds => number::time_unit(first),
            Unit::BytesPerSecond => ("Gb/s", 8e-9),
            Unit::Share => ("%", 100.0),
        };
        (unit, self.runs.iter().map(|run| number::significant(run * scale)).collect())
    }
}

impl Name {
    /// Name of a path's cost.
    pub fn of(cost: &Cost<'_>) -> Name {
        let Measurement { experiment, transport, mtu, size, .. } = cost.measurement;
        Name {
            topic: Topic::Paths(*experiment),
            transport: Some(*transport),
            mtu: Some(*mtu),
            what: cost.name.clone(),
            size: *size,
            whole: size.is_none(),
        }
    }

    /// Name of a figure of the page loan.
    pub fn of_loan(point: &LoanPoint, what: &str) -> Name {
        Name {
            topic: Topic::Paths(Experiment::Loan),
            transport: Some(point.transport),
            mtu: Some(point.mtu),
            what: format!("{what}{}", if point.aligned { "" } else { ", unaligned" }),
            size: Some(point.size),
            whole: false,
        }
    }

    /// Name of the figure's group: experiment, transport and MTU.
    pub fn place(&self) -> String {
        let transport = self.transport.map_or_else(String::new, |transport| format!(" over {transport}"));
        let mtu = self.mtu.map_or_else(String::new, |mtu| format!(", MTU {}", number::count(mtu.into())));
        format!("{}{transport}{mtu}", self.topic)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place(), self.what)?;
        match self.size.is_some() || self.whole {
            true => write!(formatter, ", {}", number::size(self.size)),
            false => Ok(()),
        }
    }
}

/// All figures of a result, in the order of the report.
pub(crate) fn quantities(assessment: &Assessment) -> Vec<Quantity> {
    let mut figures = measured(assessment);
    figures.extend(lent(assessment));
    figures.extend(relayed(assessment));
    figures.extend(costs(assessment));
    figures.extend(shares(assessment));
    figures
}

fn measured(assessment: &Assessment) -> Vec<Quantity> {
    let groups = path_costs::groups(assessment);
    let figure = |cost: &Cost<'_>| Quantity {
        name: Name::of(cost),
        unit: Unit::SecondsPerGib,
        runs: cost
            .measurement
            .runs
            .iter()
            .map(|run| run.cpu_s_per_gib())
            .filter(|run| run.is_finite())
            .collect(),
    };
    groups.iter().flat_map(|group| group.costs.iter().map(figure)).collect()
}

/// The two kinds of sends that the page loan compares.
pub(crate) const COPIED_SEND: &str = "send that copies";
/// See [`COPIED_SEND`].
pub(crate) const LENT_SEND: &str = "send that lends";

fn lent(assessment: &Assessment) -> Vec<Quantity> {
    let mut figures = Vec::new();
    for point in assessment.loan.iter().flat_map(|loan| &loan.points) {
        let mut add = |what: &str, unit: Unit, runs: &[f64]| {
            figures.push(Quantity { name: Name::of_loan(point, what), unit, runs: runs.to_vec() });
        };
        add("copy alone", Unit::Seconds, &point.copy_s);
        add(COPIED_SEND, Unit::Seconds, &point.copied_send_s);
        add(LENT_SEND, Unit::Seconds, &point.lent_send_s);
        for (what, runs) in [
            ("fragmented send that copies", &point.fragments_send_s),
            ("fragmented send by sendfile", &point.spliced_send_s),
        ] {
            if !runs.is_empty() {
                add(what, Unit::Seconds, runs);
            }
        }
        let (copied, lent) = assessment.sustained(point);
        add("sustained with copies", Unit::BytesPerSecond, &copied);
        add("sustained with loans", Unit::BytesPerSecond, &lent);
    }
    figures
}

fn relayed(assessment: &Assessment) -> Vec<Quantity> {
    let mut figures = Vec::new();
    for cost in &assessment.relay {
        let mut add = |what: String, unit: Unit, runs: Vec<f64>| {
            let name = Name {
                topic: Topic::Relay(cost.case.part),
                transport: Some(cost.case.transport()),
                mtu: Some(cost.mtu),
                what,
                size: cost.case.block,
                whole: false,
            };
            figures.push(Quantity { name, unit, runs });
        };
        add(cost.case.what(), Unit::of_relay(cost), cost.costs());
        add(format!("{}: rate", cost.case.what()), Unit::BytesPerSecond, cost.rates());
    }
    figures
}

fn costs(assessment: &Assessment) -> Vec<Quantity> {
    let mut figures = Vec::new();
    let mut add = |what: String, size: Option<u64>, ns: &[f64]| {
        let name = Name { topic: Topic::Costs, transport: None, mtu: None, what, size, whole: false };
        figures.push(Quantity { name, unit: Unit::Seconds, runs: ns.iter().map(|ns| ns * 1e-9).collect() });
    };
    if let Some(costs) = &assessment.costs {
        add("getpid".to_owned(), None, &costs.kernel_entry_ns);
        for copy in &costs.copies {
            let aligned = if copy.aligned { "aligned" } else { "unaligned" };
            let cached = if copy.cached { "cached" } else { "uncached" };
            add(format!("memcpy {aligned} {cached}"), Some(copy.size), &copy.ns);
        }
    }
    figures
}

fn shares(assessment: &Assessment) -> Vec<Quantity> {
    let mut figures = Vec::new();
    for profile in &assessment.profiles {
        let parts = [
            ("copying", profile.shares.copying),
            ("entering", profile.shares.entering),
            ("network", profile.shares.network),
            ("user", profile.shares.user),
        ];
        for (part, share) in parts {
            let name = Name {
                topic: Topic::Profile(profile.experiment),
                transport: Some(profile.transport),
                mtu: None,
                what: format!("{}: {part}", profile.path),
                size: profile.size,
                whole: profile.size.is_none(),
            };
            figures.push(Quantity { name, unit: Unit::Share, runs: vec![share] });
        }
    }
    figures
}
