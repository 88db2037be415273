use crate::{
    Counter, Family, FamilyCounts, Gauge, Histogram, Instrument, LocalCounter, Metric, Value, counters, label,
};

label! {
    /// Colour of a packet.
    enum Colour: "colour" {
        Red = "red",
        Blue = "blue",
    }
}

counters! {
    /// Counters of one thread.
    #[repr(align(128))]
    struct ThreadCounters;
    /// Sum over all threads.
    struct Counters;

    /// Packets sent,
    /// whatever their length.
    packets: LocalCounter,
    /// Packets by colour.
    painted: Family<Colour>,
    /// Bytes received.
    received_bytes: Counter,
    /// Sessions that are open.
    sessions: Gauge,
    /// Longest wait.
    longest_seconds: Longest,
}

/// An instrument of a user's own: readings of several threads need not be added.
#[derive(Debug, Default)]
struct Longest(LocalCounter);

impl Instrument for Longest {
    type Reading = u64;

    fn read(&self) -> u64 {
        self.0.value()
    }

    fn add(sum: &mut u64, more: u64) {
        *sum = (*sum).max(more);
    }

    fn value(reading: &u64) -> Value {
        Value::Gauge(*reading)
    }
}

#[test]
fn snapshots_of_threads_add_up() {
    let threads = [ThreadCounters::default(), ThreadCounters::default()];
    for (thread, amount) in threads.iter().zip([3, 4]) {
        thread.packets.add(amount);
        thread.painted.increment(Colour::Blue);
        thread.painted.add(Colour::Red, 5);
        thread.received_bytes.add(10 * amount);
        thread.sessions.add(2);
        thread.sessions.decrement();
        thread.longest_seconds.0.add(amount);
    }
    let sum: Counters = threads.iter().map(ThreadCounters::snapshot).sum();
    let values: Vec<_> = Counters::METRICS.iter().map(|metric| (metric.read)(&sum)).collect();
    let expected = [
        Value::Counter(7),
        Value::Counters("colour", vec![("red", 10), ("blue", 2)]),
        Value::Counter(70),
        Value::Gauge(2),
        Value::Gauge(4),
    ];
    assert_eq!(values, expected);
    assert_eq!((sum.painted.of(Colour::Blue), sum.painted.total()), (2, 12));
    assert_eq!(std::mem::align_of::<ThreadCounters>(), 128, "attributes are kept");
}

#[test]
fn the_declaration_is_the_name_the_help_and_the_unit() {
    let described: Vec<_> =
        Counters::METRICS.iter().map(|metric| (metric.name, metric.help, metric.unit())).collect();
    let expected = [
        ("packets", "Packets sent, whatever their length.", None),
        ("painted", "Packets by colour.", None),
        ("received_bytes", "Bytes received.", Some("bytes")),
        ("sessions", "Sessions that are open.", None),
        ("longest_seconds", "Longest wait.", Some("seconds")),
    ];
    assert_eq!(described, expected);
}

#[test]
fn a_metric_may_be_read_in_a_way_of_its_own() {
    let lateness: Metric<Vec<f64>> = Metric::new("lateness_seconds", "Lateness.", |values| {
        Value::Histogram(Histogram {
            count: values.len() as u64,
            sum: values.iter().sum(),
            at_most: Vec::new(),
        })
    });
    let expected = Histogram { count: 2, sum: 2.0, at_most: Vec::new() };
    assert_eq!((lateness.read)(&vec![0.5, 1.5]), Value::Histogram(expected));
    assert_eq!(FamilyCounts::<Colour>::default().total(), 0);
}
