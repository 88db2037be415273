//! Comparison of two results: kernel against kernel, machine against machine, before against after (table 2
//! of the papers).

mod agreement;
mod text;

use std::collections::HashMap;

use serde::Serialize;

pub use agreement::{AGREEMENT, Agreement};

use crate::quantities::{Name, Quantity, Unit, quantities};
use crate::result::{Assessment, Cache};
use crate::statistics::Summary;

/// Comparison of two results.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Differences other than figures: machine, kernel, settings.
    pub differences: Vec<Difference>,
    /// Figures that both results have.
    pub figures: Vec<Compared>,
    /// Relative figures that both results have: a path relative to the plain path of the same result, lending
    /// relative to copying.
    pub relative: Vec<Agreement>,
    /// Figures that only the first result has.
    pub only_in_first: Vec<Name>,
    /// Figures that only the second result has.
    pub only_in_second: Vec<Name>,
}

/// Difference other than a figure; a value is empty if its result does not have the fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Name of the fact.
    pub what: String,
    /// First result.
    pub first: String,
    /// Second result.
    pub second: String,
}

/// Figure that both results have.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// Name of the figure.
    #[serde(flatten)]
    pub name: Name,
    /// Unit of the medians.
    pub unit: Unit,
    /// Median in the first result.
    pub first: f64,
    /// Median in the second result.
    pub second: f64,
    /// Improvement of the second result, as a share of the first; negative if the second is worse.
    pub improvement: f64,
    /// Larger of the two spreads, as a share of the first median. Smaller differences are not significant.
    /// `None` if a result has too few runs for a spread.
    pub spread: Option<f64>,
    /// Verdict on the difference.
    pub verdict: Verdict,
}

/// Verdict on a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The second result is better.
    Better,
    /// The second result is worse.
    Worse,
    /// Difference within the spread of the runs.
    NoDifference,
    /// Different, but too few runs for a spread.
    TooFewRuns,
    /// Different, but neither is better: shares of time.
    Other,
}

/// Compares two results.
pub fn compare(first: &Assessment, second: &Assessment) -> Comparison {
    let (of_first, of_second) = (joined(quantities(first)), joined(quantities(second)));
    let (places, others) = (places(&of_first), places(&of_second));
    let both = of_first.iter().filter_map(|figure| Some((figure, &of_second[*others.get(&figure.name)?])));
    let alone = |figures: &[Quantity], other: &HashMap<&Name, usize>| {
        figures.iter().map(|figure| figure.name.clone()).filter(|name| !other.contains_key(name)).collect()
    };
    Comparison {
        differences: differences(first, second),
        figures: both.filter_map(|(first, second)| compared(first, second)).collect(),
        relative: agreement::agreements(first, second),
        only_in_first: alone(&of_first, &others),
        only_in_second: alone(&of_second, &places),
    }
}

/// Joins the runs of figures with the same name; figures without runs are dropped.
fn joined(figures: Vec<Quantity>) -> Vec<Quantity> {
    let mut joined: Vec<Quantity> = Vec::with_capacity(figures.len());
    let mut places: HashMap<Name, usize> = HashMap::new();
    for figure in figures.into_iter().filter(|figure| !figure.runs.is_empty()) {
        match places.get(&figure.name) {
            Some(place) => joined[*place].runs.extend(figure.runs),
            None => {
                places.insert(figure.name.clone(), joined.len());
                joined.push(figure);
            }
        }
    }
    joined
}

fn places(figures: &[Quantity]) -> HashMap<&Name, usize> {
    figures.iter().enumerate().map(|(place, figure)| (&figure.name, place)).collect()
}

fn compared(first: &Quantity, second: &Quantity) -> Option<Compared> {
    let one = Summary::of(first.runs.iter().copied())?;
    let other = Summary::of(second.runs.iter().copied())?;
    let gain = match first.unit {
        Unit::BytesPerSecond => other.median - one.median,
        _ => one.median - other.median,
    };
    let widest = one.distance().zip(other.distance()).map(|(one, other)| one.max(other));
    let verdict = match first.unit {
        _ if gain.abs() <= widest.unwrap_or(0.0) => Verdict::NoDifference,
        Unit::Share => Verdict::Other,
        _ if widest.is_none() => Verdict::TooFewRuns,
        _ if gain > 0.0 => Verdict::Better,
        _ => Verdict::Worse,
    };
    Some(Compared {
        name: first.name.clone(),
        unit: first.unit,
        first: one.median,
        second: other.median,
        improvement: gain / one.median,
        spread: widest.map(|widest| widest / one.median),
        verdict,
    })
}

/// Differences of two results other than figures.
fn differences(first: &Assessment, second: &Assessment) -> Vec<Difference> {
    let (of_first, of_second) = (facts(first), facts(second));
    let find = |facts: &HashMap<String, String>, what: &str| facts.get(what).cloned().unwrap_or_default();
    let (in_first, in_second): (HashMap<_, _>, HashMap<_, _>) =
        (of_first.iter().cloned().collect(), of_second.iter().cloned().collect());
    let names = of_first.iter().chain(of_second.iter().filter(|(what, _)| !in_first.contains_key(what)));
    let difference = |(what, _): &(String, String)| {
        let (first, second) = (find(&in_first, what), find(&in_second, what));
        (first != second).then(|| Difference { what: what.clone(), first, second })
    };
    names.filter_map(difference).collect()
}

/// Facts about machine and settings, by name.
fn facts(assessment: &Assessment) -> Vec<(String, String)> {
    let Assessment { host, settings, .. } = assessment;
    let mut facts = vec![
        ("kernel".to_owned(), host.kernel.clone()),
        ("processor".to_owned(), host.processor.clone()),
        ("processors".to_owned(), host.processors.to_string()),
        ("memory".to_owned(), wirepath_report::number::about_bytes(host.memory)),
        ("program".to_owned(), assessment.program.clone()),
        ("sink".to_owned(), settings.sink.clone()),
        ("peer of TCP".to_owned(), assessment.tcp_peer().map_or_else(String::new, |peer| peer.to_string())),
        ("MTU of the sink".to_owned(), settings.mtu.to_string()),
        ("payload".to_owned(), if settings.cache == Cache::Warm { "warm" } else { "cold" }.to_owned()),
        ("volume of a run".to_owned(), wirepath_report::number::about_bytes(settings.volume)),
        ("runs".to_owned(), settings.runs.to_string()),
        ("form".to_owned(), if settings.quick { "quick" } else { "full" }.to_owned()),
        ("ended".to_owned(), if assessment.partial { "before its end" } else { "complete" }.to_owned()),
        ("processor pinned to".to_owned(), settings.cpu.map_or("none".to_owned(), |cpu| cpu.to_string())),
    ];
    facts.extend(host.limits.iter().map(|limit| (limit.name.clone(), limit.value.clone())));
    for path in &host.paths {
        let runs = if path.runs { "runs" } else { "does not run" };
        facts.push((format!("{} over {}", path.path, path.transport), runs.to_owned()));
    }
    for device in &host.devices {
        facts.push((format!("{}: MTU", device.name), device.mtu.to_string()));
        let on = |on: bool| if on { "on" } else { "off" }.to_owned();
        let features = device.features.iter();
        facts.extend(features.map(|feature| (format!("{}: {}", device.name, feature.name), on(feature.on))));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use crate::result::TcpPeer;

    fn find<'a>(comparison: &'a Comparison, what: &str) -> &'a Compared {
        comparison.figures.iter().find(|figure| figure.name.what == what).unwrap()
    }

    #[test]
    fn a_result_does_not_differ_from_itself() {
        let comparison = compare(&example::full(), &example::full());
        assert!(comparison.differences.is_empty() && comparison.only_in_first.is_empty());
        assert!(comparison.figures.iter().all(|figure| figure.verdict == Verdict::NoDifference));
        assert!(comparison.relative.iter().all(|relative| relative.agree) && !comparison.relative.is_empty());
    }

    /// Promise: `wirepath assess compare` shows improvements as in table 2 of the papers, and noise as no
    /// difference.
    #[test]
    fn improvements_are_those_of_table_2_and_noise_is_none() {
        let (first, mut second) = (example::full(), example::full());
        let mut change = |path: &str, factor: f64| {
            for measurement in
                second.measurements.iter_mut().filter(|measurement| measurement.path.to_string() == path)
            {
                measurement.runs.iter_mut().for_each(|run| {
                    run.user_s *= factor;
                    run.system_s *= factor;
                });
            }
        };
        change("rtp_sendfile", 8.714675 / 11.5372);
        change("mmap_writev", 1.481);
        change("sendmmsg", 1.001);
        let comparison = compare(&first, &second);
        let faster = find(&comparison, "rtp_sendfile");
        assert_eq!(
            (faster.verdict, format!("{:.4}", faster.improvement).as_str()),
            (Verdict::Better, "0.2446")
        );
        assert_eq!(find(&comparison, "mmap_writev").verdict, Verdict::Worse);
        assert_eq!(find(&comparison, "sendmmsg").verdict, Verdict::NoDifference);
        let disagree: Vec<_> = comparison.relative.iter().filter(|relative| !relative.agree).collect();
        assert!(!disagree.is_empty());
        assert!(
            disagree
                .iter()
                .all(|relative| ["rtp_sendfile", "mmap_writev"].contains(&relative.name.what.as_str()))
        );
    }

    /// Promise: `compare` names the other differences, and relative figures that differ by more than 10 %.
    #[test]
    fn what_only_one_has_and_what_differs_besides_is_named() {
        let (first, mut second) = (example::full(), example::full());
        second.measurements.retain(|measurement| measurement.path.to_string() != "sendmmsg");
        second.host.kernel = "7.0".to_owned();
        second.host.devices[0].features[0].on ^= true;
        second.settings.mtu = 9000;
        let comparison = compare(&first, &second);
        assert!(comparison.only_in_first.iter().all(|name| name.what == "sendmmsg"));
        assert!(!comparison.only_in_first.is_empty() && comparison.only_in_second.is_empty());
        let what: Vec<&str> =
            comparison.differences.iter().map(|difference| difference.what.as_str()).collect();
        assert_eq!(what.len(), 3, "{what:?}");
        assert_eq!(what[..2], ["kernel", "MTU of the sink"]);
    }

    /// Promise: `compare` names different peers of TCP; an older result, which names none, had a receiver.
    #[test]
    fn different_peers_of_tcp_are_named() {
        let (mut first, mut second) = (example::full(), example::full());
        first.settings.tcp_peer = None;
        assert!(compare(&first, &second).differences.is_empty());
        second.settings.tcp_peer = Some(TcpPeer::Device);
        let differences = compare(&first, &second).differences;
        let [peer] = &differences[..] else { panic!("{differences:?}") };
        assert_eq!(
            (peer.what.as_str(), peer.first.as_str(), peer.second.as_str()),
            ("peer of TCP", "a receiver", "a device that drops and acknowledges")
        );
    }

    #[test]
    fn two_runs_are_too_few() {
        let (mut first, second) = (example::full(), example::nothing());
        first.measurements.iter_mut().for_each(|measurement| measurement.runs.truncate(2));
        let mut slower = first.clone();
        slower
            .measurements
            .iter_mut()
            .flat_map(|measurement| &mut measurement.runs)
            .for_each(|run| run.user_s += 9.0);
        let few = compare(&first, &slower);
        assert_eq!(find(&few, "sendmmsg").verdict, Verdict::TooFewRuns);
        assert!(compare(&second, &second).figures.is_empty());
    }
}
