//! Counters by label.

use std::fmt;
use std::marker::PhantomData;

use crate::{Counter, Instrument, Value};

/// Label with a fixed set of values. [`label!`](crate::label) declares one.
pub trait Label: Copy + fmt::Debug + 'static {
    /// Name of the label.
    const NAME: &'static str;
    /// Names of its values.
    const VALUES: &'static [&'static str];

    /// Place of this value among [`VALUES`](Label::VALUES).
    fn index(self) -> usize;

    /// Name of this value.
    fn name(self) -> &'static str {
        Self::VALUES[self.index()]
    }
}

/// One [`Counter`] for each value of a label.
#[derive(Debug)]
pub struct Family<L> {
    counters: Box<[Counter]>,
    label: PhantomData<fn(L)>,
}

/// A reading of a [`Family`].
#[derive(Clone, Debug)]
pub struct FamilyCounts<L> {
    counts: Box<[u64]>,
    label: PhantomData<fn(L)>,
}

impl<L: Label> Family<L> {
    /// Adds to the counter of this label's value.
    pub fn add(&self, label: L, amount: u64) {
        self.counters[label.index()].add(amount);
    }

    /// Adds one to the counter of this label's value.
    pub fn increment(&self, label: L) {
        self.add(label, 1);
    }

    /// Reads the counter of this label's value.
    pub fn value(&self, label: L) -> u64 {
        self.counters[label.index()].value()
    }
}

impl<L: Label> FamilyCounts<L> {
    /// The count of this label's value.
    pub fn of(&self, label: L) -> u64 {
        self.counts[label.index()]
    }

    /// Adds to the count of this label's value.
    pub fn add(&mut self, label: L, amount: u64) {
        self.counts[label.index()] += amount;
    }

    /// Pairs of a value's name and its count.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        L::VALUES.iter().copied().zip(self.counts.iter().copied())
    }

    /// The counts of all values together.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl<L: Label> Default for Family<L> {
    fn default() -> Family<L> {
        let counters = L::VALUES.iter().map(|_| Counter::default()).collect();
        Family { counters, label: PhantomData }
    }
}

impl<L: Label> Default for FamilyCounts<L> {
    fn default() -> FamilyCounts<L> {
        FamilyCounts { counts: L::VALUES.iter().map(|_| 0).collect(), label: PhantomData }
    }
}

impl<L: Label> Instrument for Family<L> {
    type Reading = FamilyCounts<L>;

    fn read(&self) -> FamilyCounts<L> {
        FamilyCounts { counts: self.counters.iter().map(Counter::value).collect(), label: PhantomData }
    }

    fn add(sum: &mut FamilyCounts<L>, more: FamilyCounts<L>) {
        sum.counts.iter_mut().zip(more.counts).for_each(|(sum, more)| *sum += more);
    }

    fn value(reading: &FamilyCounts<L>) -> Value {
        Value::Counters(L::NAME, reading.named().collect())
    }
}
