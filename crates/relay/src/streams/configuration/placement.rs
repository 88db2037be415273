//! Placement of streams on engine threads.
//!
//! A stream stays on its thread, and a policy applies to each thread separately. Streams are placed by
//! weight: under a fair share, the weight is an equal part of the share of the stream's class; otherwise it
//! is 1. The heaviest streams are placed first, each on the least loaded thread.
//!
//! The rate of a class limits all its streams together, so these share a thread.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use wirepath_engine::Policy;

use super::Configuration;

/// Streams that must run on the same thread.
struct Group {
    weight: f64,
    priority: u8,
    /// Indices of the streams.
    streams: Vec<usize>,
}

impl Configuration {
    /// Thread of each stream, for `threads` threads, at least one.
    pub fn placement(&self, threads: usize) -> Vec<usize> {
        let mut groups = self.groups();
        groups.sort_by(|one, other| {
            other.weight.total_cmp(&one.weight).then(Reverse(one.priority).cmp(&Reverse(other.priority)))
        });
        let mut loads = vec![0.0; threads.max(1)];
        let mut placement = vec![0; self.streams.len()];
        for group in groups {
            let lightest = loads.iter().enumerate().min_by(|(_, one), (_, other)| f64::total_cmp(one, other));
            let thread = lightest.map_or(0, |(thread, _)| thread);
            loads[thread] += group.weight;
            group.streams.into_iter().for_each(|place| placement[place] = thread);
        }
        placement
    }

    /// Streams of a class with a rate form one group, every other stream its own.
    fn groups(&self) -> Vec<Group> {
        let mut members = BTreeMap::<usize, Vec<usize>>::new();
        for (place, stream) in self.streams.iter().enumerate() {
            members.entry(stream.class).or_default().push(place);
        }
        let mut groups = Vec::new();
        for (class, streams) in members {
            let class = self.sharing.classes.get(class);
            let weight = match (&self.sharing.policy, class) {
                (Policy::FairShare { .. }, Some(class)) => f64::from(class.share) / streams.len() as f64,
                _ => 1.0,
            };
            let priority = class.map_or(0, |class| class.priority);
            if class.is_some_and(|class| class.rate.is_some()) {
                groups.push(Group { weight: weight * streams.len() as f64, priority, streams });
            } else {
                groups.extend(streams.into_iter().map(|place| Group {
                    weight,
                    priority,
                    streams: vec![place],
                }));
            }
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wirepath_engine::{Class, Rate, Round, Sharing};

    use super::super::StreamPlan;
    use super::*;
    use crate::streams::stream_config::StreamConfig;

    const RATE: Rate = Rate { per_second: 1000, burst: 100 };
    const FAIR: Policy = Policy::FairShare { round: Round::Volume(1 << 20), carry_percent: 50 };

    /// Configuration of classes, each given by its share and by whether it has a rate, and of streams, each
    /// given by its class.
    fn configuration(policy: Policy, classes: &[(u32, bool)], streams: &[usize]) -> Configuration {
        let class = |(number, (share, has_rate)): (usize, &(u32, bool))| Class {
            name: number.to_string(),
            priority: number as u8,
            share: *share,
            rate: has_rate.then_some(RATE),
        };
        let stream = |(number, class): (usize, &usize)| StreamPlan {
            name: number.to_string(),
            class: *class,
            rate: None,
            deadline: None,
            config: StreamConfig::default(),
        };
        Configuration {
            sharing: Sharing { policy, classes: classes.iter().enumerate().map(class).collect() },
            streams: streams.iter().enumerate().map(stream).collect(),
            ..Configuration::default()
        }
    }

    #[test]
    fn the_streams_of_each_class_are_spread() {
        let classes = [(3, false), (1, false)];
        let placement = configuration(FAIR, &classes, &[0, 0, 1, 1, 1, 1]).placement(2);
        assert_eq!(placement, [0, 1, 0, 1, 0, 1]);
        let placement = configuration(Policy::BestEffort, &[], &[0; 5]).placement(3);
        assert_eq!(placement, [0, 1, 2, 0, 1]);
        // The streams with the higher priority come first.
        let placement = configuration(Policy::Priority, &classes, &[0, 0, 0, 1, 1]).placement(3);
        assert_eq!(placement, [2, 0, 1, 0, 1]);
    }

    /// Promise: Streams are spread over threads by their shares; shares hold on each thread.
    #[test]
    fn the_only_stream_of_a_class_that_may_have_most_has_a_thread_of_its_own() {
        let placement = configuration(FAIR, &[(3, false), (1, false)], &[1, 0, 1, 1, 1]).placement(2);
        assert_eq!(placement, [1, 0, 1, 1, 1]);
    }

    proptest! {
        /// Promise: All streams of a class with a rate run on one thread, and the class keeps its rate.
        ///
        /// Holds for any classes: every stream has a thread, streams of a class with a rate have the same
        /// thread, and if all weights are equal, no thread has two streams more than another.
        #[test]
        fn every_stream_has_a_thread_and_a_class_with_a_rate_has_one(
            classes in proptest::collection::vec((1u32..100, any::<bool>()), 1..8),
            of in proptest::collection::vec(0usize..8, 0..60),
            threads in 1usize..9,
            policy in prop_oneof![Just(Policy::BestEffort), Just(Policy::Deadline), Just(FAIR)],
        ) {
            let of: Vec<usize> = of.into_iter().map(|class| class % classes.len()).collect();
            let placement = configuration(policy.clone(), &classes, &of).placement(threads);
            prop_assert_eq!(placement.len(), of.len());
            prop_assert!(placement.iter().all(|thread| *thread < threads));
            for (class, _) in classes.iter().enumerate().filter(|(_, (_, has_rate))| *has_rate) {
                let mut on = of.iter().zip(&placement).filter(|(of, _)| **of == class).map(|(_, thread)| thread);
                let first = on.next();
                prop_assert!(on.all(|thread| Some(thread) == first));
            }
            if policy != FAIR && classes.iter().all(|(_, has_rate)| !has_rate) {
                let on = |thread| placement.iter().filter(|placed| **placed == thread).count();
                let (least, most) = ((0..threads).map(on).min(), (0..threads).map(on).max());
                prop_assert!(most <= least.map(|least| least + 1), "{placement:?}");
            }
        }
    }
}
