//! Metrics of a set: names, help texts and values.

/// One metric of a set whose snapshot is `T`.
#[derive(Debug)]
pub struct Metric<T> {
    /// Name with its unit, in lower case with underscores, without `_total`.
    pub name: &'static str,
    /// One sentence for people.
    pub help: &'static str,
    /// Value in a snapshot; its kind is always the same.
    pub read: fn(&T) -> Value,
}

/// Kind and value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Number that only goes up.
    Counter(u64),
    /// Counters told apart by a label: its name, then pairs of a value of it and the count.
    Counters(&'static str, Vec<(&'static str, u64)>),
    /// Number that only goes up, in fractions of its unit.
    Sum(f64),
    /// Number that goes up and down.
    Gauge(u64),
    /// Distribution of values.
    Histogram(Histogram),
}

/// Distribution of values, in the metric's unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Number of all values.
    pub count: u64,
    /// Sum of all values.
    pub sum: f64,
    /// Pairs of a bound and the number of values that are not above it, both ascending.
    pub at_most: Vec<(f64, u64)>,
}

impl<T> Metric<T> {
    /// A metric that is read in a way of its own; [`counters!`](crate::counters) declares those that are
    /// counted.
    pub const fn new(name: &'static str, help: &'static str, read: fn(&T) -> Value) -> Metric<T> {
        Metric { name, help, read }
    }

    /// Unit of the metric: the last word of its name, if it is `bytes` or `seconds`.
    pub fn unit(&self) -> Option<&'static str> {
        let (_, last) = self.name.rsplit_once('_')?;
        ["bytes", "seconds"].contains(&last).then_some(last)
    }
}
