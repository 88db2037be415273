//! Everything in a result that is a figure, by name: what is compared, listed and looked through for noise.

use std::fmt;

use serde::Serialize;

use crate::cost::{self, Cost};
use crate::report::number;
use crate::result::{Assessment, Measurement, Transport};

/// A figure and its runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it is a figure of.
    pub name: Name,
    /// What its runs are in.
    pub unit: Unit,
    /// Its runs, in the order they were made.
    pub runs: Vec<f64>,
}

/// The name of a figure: two results that have it measured the same thing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Name {
    /// `stream`, `download`, `loan`, `relay` and its part, `costs` or `profile`.
    pub experiment: String,
    /// UDP or TCP, where it is of one of them.
    pub transport: Option<Transport>,
    /// MTU, where it depends on one.
    pub mtu: Option<u32>,
    /// The path, the call, or what of a path.
    pub what: String,
    /// Bytes of a packet, a send or a copy; null for the whole file, or where there is none.
    pub size: Option<u64>,
    /// Whether it is of a file in one call.
    pub whole: bool,
}

/// What a figure is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Processor seconds for each GiB.
    SecondsPerGib,
    /// Seconds.
    Seconds,
    /// Bytes per second: the only one of which more is better.
    BytesPerSecond,
    /// A share of samples.
    Share,
}

impl Unit {
    /// Such a figure, with its unit.
    pub fn text(self, value: f64) -> String {
        match self {
            Unit::SecondsPerGib => format!("{} s/GiB", number::significant(value)),
            Unit::Seconds => number::time(value),
            Unit::BytesPerSecond => number::bit_rate(value),
            Unit::Share => number::percent(value),
        }
    }
}

impl Figure {
    /// Its runs in one unit, the one that suits the first of them.
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
    /// The name of a path's cost.
    pub fn of(cost: &Cost<'_>) -> Name {
        let Measurement { experiment, transport, mtu, size, .. } = cost.measurement;
        Name {
            experiment: experiment.clone(),
            transport: Some(*transport),
            mtu: Some(*mtu),
            what: cost.name.clone(),
            size: *size,
            whole: size.is_none(),
        }
    }

    /// What it shares with its neighbours: experiment, transport and MTU.
    pub fn place(&self) -> String {
        let transport = self.transport.map_or_else(String::new, |transport| format!(" over {transport}"));
        let mtu = self.mtu.map_or_else(String::new, |mtu| format!(", MTU {}", number::count(mtu.into())));
        format!("{}{transport}{mtu}", self.experiment)
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

/// All figures of a result, in the order in which a report shows them.
pub fn figures(assessment: &Assessment) -> Vec<Figure> {
    let mut figures = measured(assessment);
    figures.extend(lent(assessment));
    figures.extend(relayed(assessment));
    figures.extend(costs(assessment));
    figures.extend(shares(assessment));
    figures
}

fn measured(assessment: &Assessment) -> Vec<Figure> {
    let groups = cost::groups(assessment);
    let figure = |cost: &Cost<'_>| Figure {
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

fn lent(assessment: &Assessment) -> Vec<Figure> {
    let mut figures = Vec::new();
    for point in assessment.loan.iter().flat_map(|loan| &loan.points) {
        let mut add = |what: &str, unit: Unit, runs: &[f64]| {
            let name = Name {
                experiment: "loan".to_owned(),
                transport: Some(point.transport),
                mtu: Some(point.mtu),
                what: format!("{what}{}", if point.aligned { "" } else { ", unaligned" }),
                size: Some(point.size),
                whole: false,
            };
            figures.push(Figure { name, unit, runs: runs.to_vec() });
        };
        add("copy alone", Unit::Seconds, &point.copy_s);
        add("send that copies", Unit::Seconds, &point.copied_send_s);
        add("send that lends", Unit::Seconds, &point.lent_send_s);
        let (copied, lent) = assessment.sustained(point);
        add("sustained with copies", Unit::BytesPerSecond, &copied);
        add("sustained with loans", Unit::BytesPerSecond, &lent);
    }
    figures
}

fn relayed(assessment: &Assessment) -> Vec<Figure> {
    let mut figures = Vec::new();
    for cost in &assessment.relay {
        let (transport, unit) = match cost.is_of_datagrams() {
            true => (Transport::Udp, Unit::Seconds),
            false => (Transport::Tcp, Unit::SecondsPerGib),
        };
        let mut add = |what: String, unit: Unit, runs: Vec<f64>| {
            let name = Name {
                experiment: format!("relay: {}", cost.part),
                transport: Some(transport),
                mtu: Some(cost.mtu),
                what,
                size: cost.block,
                whole: false,
            };
            figures.push(Figure { name, unit, runs });
        };
        add(cost.what(), unit, cost.costs());
        add(format!("{}: rate", cost.what()), Unit::BytesPerSecond, cost.rates());
    }
    figures
}

fn costs(assessment: &Assessment) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut add = |what: String, size: Option<u64>, ns: &[f64]| {
        let name =
            Name { experiment: "costs".to_owned(), transport: None, mtu: None, what, size, whole: false };
        figures.push(Figure { name, unit: Unit::Seconds, runs: ns.iter().map(|ns| ns * 1e-9).collect() });
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

fn shares(assessment: &Assessment) -> Vec<Figure> {
    let mut figures = Vec::new();
    for profile in &assessment.profiles {
        let parts = [
            ("copying", profile.copying),
            ("entering", profile.entering),
            ("network", profile.network),
            ("user", profile.user),
        ];
        for (part, share) in parts {
            let name = Name {
                experiment: format!("profile of {}", profile.experiment),
                transport: Some(profile.transport),
                mtu: None,
                what: format!("{}: {part}", profile.path),
                size: profile.size,
                whole: profile.size.is_none(),
            };
            figures.push(Figure { name, unit: Unit::Share, runs: vec![share] });
        }
    }
    figures
}
