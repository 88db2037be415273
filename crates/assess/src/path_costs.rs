//! Costs of the measurements of a result: medians, and ratios to the plain path and to bare C.

use std::collections::{HashMap, HashSet};

use crate::header_sizes;
use crate::result::{Assessment, Experiment, Measurement, PathVariant, Transport};
use crate::statistics::Summary;

/// Comparable measurements: of the same experiment, transport and MTU.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// `stream`, `download` or `loan`.
    pub experiment: Experiment,
    /// UDP or TCP.
    pub transport: Transport,
    /// MTU of the sink's device.
    pub mtu: u32,
    /// Costs, in the order of the result.
    pub costs: Vec<Cost<'a>>,
    /// First index in `costs` by path and size, without and with the length of trains.
    places: HashMap<(PathVariant, Option<u64>, Option<u32>), usize>,
}

/// Measurement and the summary of its runs.
#[derive(Clone, Debug)]
pub struct Cost<'a> {
    /// Name of the path, with the length of trains if several lengths were measured.
    pub name: String,
    /// The measurement.
    pub measurement: &'a Measurement,
    /// Processor seconds per GiB; `None` without valid runs.
    pub summary: Option<Summary>,
}

/// Groups of the result's measurements: streaming first, then download.
pub fn groups(assessment: &Assessment) -> Vec<Group<'_>> {
    let mut groups: HashMap<_, Vec<&Measurement>> = HashMap::new();
    for measurement in &assessment.measurements {
        let key = (measurement.experiment, measurement.transport, measurement.mtu);
        groups.entry(key).or_default().push(measurement);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(key, _)| *key);
    groups.into_iter().map(|(key, measurements)| Group::new(key, &measurements)).collect()
}

impl Cost<'_> {
    /// Returns whether the measurement is of a bare C loop.
    pub fn is_bare(&self) -> bool {
        self.measurement.path.is_bare()
    }

    /// Median, if there is one.
    pub fn median(&self) -> Option<f64> {
        self.summary.map(|summary| summary.median)
    }

    /// Returns whether the spread of the runs is too wide.
    pub fn is_noisy(&self) -> bool {
        self.summary.is_some_and(|summary| summary.is_noisy())
    }
}

impl<'a> Group<'a> {
    fn new(
        (experiment, transport, mtu): (Experiment, Transport, u32),
        measurements: &[&'a Measurement],
    ) -> Self {
        let mut places = HashMap::new();
        for (place, measurement) in measurements.iter().enumerate() {
            let (path, size) = (measurement.path, measurement.size);
            places.entry((path, size, None)).or_insert(place);
            places.entry((path, size, Some(measurement.packets_per_train))).or_insert(place);
        }
        // Paths that were measured with several train lengths.
        let several: HashSet<PathVariant> = measurements
            .iter()
            .filter(|measurement| {
                let first = measurements[places[&(measurement.path, measurement.size, None)]];
                first.packets_per_train != measurement.packets_per_train
            })
            .map(|measurement| measurement.path)
            .collect();
        let cost = |measurement: &&'a Measurement| Cost {
            name: match several.contains(&measurement.path) {
                true => format!("{} ×{}", measurement.path, measurement.packets_per_train),
                false => measurement.path.to_string(),
            },
            measurement,
            summary: measurement.cost(),
        };
        Group { experiment, transport, mtu, costs: measurements.iter().map(cost).collect(), places }
    }

    /// Sizes, ascending; the whole file last.
    pub fn sizes(&self) -> Vec<Option<u64>> {
        let mut sizes: Vec<_> = self.costs.iter().map(|cost| cost.measurement.size).collect();
        sizes.sort_by_key(|size| size.unwrap_or(u64::MAX));
        sizes.dedup();
        sizes
    }

    /// Largest size whose packets are not fragmented, or else the smallest size; `None` (the whole file) if
    /// there are no other sizes.
    pub fn full_size(&self) -> Option<u64> {
        // Over TCP, sizes are block sizes, independent of packets. Over IPv6 a full packet has less payload
        // than this limit, and is still the largest size within it.
        let rtp = if self.experiment == Experiment::Stream { header_sizes::RTP } else { 0 };
        let room = u64::from(self.mtu.saturating_sub(header_sizes::UDP_OVER_IPV4 + rtp));
        let sizes: Vec<u64> = self.sizes().into_iter().flatten().collect();
        sizes.iter().rev().find(|size| **size <= room).or(sizes.first()).copied()
    }

    /// Paths by [`Cost::name`], each with its costs by size, cheapest in full packets first. Bare loops are
    /// left out.
    pub fn paths(&self) -> Vec<(&str, Vec<&Cost<'a>>)> {
        let mut paths: Vec<(&str, Vec<&Cost<'a>>)> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        for cost in self.costs.iter().filter(|cost| !cost.is_bare()) {
            let place = *places.entry(&cost.name).or_insert_with(|| {
                paths.push((&cost.name, Vec::new()));
                paths.len() - 1
            });
            paths[place].1.push(cost);
        }
        let full = self.full_size();
        let in_full_packets = |costs: &[&Cost<'a>]| {
            let with_full = costs.iter().find(|cost| cost.measurement.size == full);
            with_full.or(costs.first()).and_then(|cost| cost.median()).unwrap_or(f64::INFINITY)
        };
        paths.sort_by(|(_, one), (_, other)| in_full_packets(one).total_cmp(&in_full_packets(other)));
        paths
    }

    /// Cost as a share of the plain path's cost with the same size; `None` for the plain path itself.
    pub fn relative(&self, cost: &Cost<'_>) -> Option<f64> {
        let plain = self.experiment.baseline().map(PathVariant::plain);
        let plain = plain.filter(|plain| *plain != cost.measurement.path)?;
        ratio(cost, self.like(cost.measurement, plain)?)
    }

    /// Cost as a multiple of the cost of the same path as a bare C loop.
    pub fn over_bare(&self, cost: &Cost<'_>) -> Option<f64> {
        ratio(cost, self.bare(cost)?)
    }

    /// Measurement of the same path as a bare C loop.
    pub fn bare(&self, cost: &Cost<'_>) -> Option<&Cost<'a>> {
        self.like(cost.measurement, cost.measurement.path.bare())
    }

    /// Cost of a path with a size.
    pub fn find(&self, path: PathVariant, size: Option<u64>) -> Option<&Cost<'a>> {
        self.places.get(&(path, size, None)).map(|place| &self.costs[*place])
    }

    /// Cost of another path with the same size, and with the same train length if it was measured.
    fn like(&self, measurement: &Measurement, path: PathVariant) -> Option<&Cost<'a>> {
        let same_trains = (path, measurement.size, Some(measurement.packets_per_train));
        let place = self.places.get(&same_trains).map(|place| &self.costs[*place]);
        place.or_else(|| self.find(path, measurement.size))
    }
}

/// Ratio of the medians.
fn ratio(cost: &Cost<'_>, other: &Cost<'_>) -> Option<f64> {
    Some(cost.median()? / other.median()?).filter(|ratio| ratio.is_finite())
}
