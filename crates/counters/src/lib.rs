//! Counters, declared once.
//!
//! [`counters!`] declares a set: each line has a name, a kind and, as its doc comment, the help text. From
//! that come the struct that counts, a snapshot that adds up over threads, and a table of [`Metric`]s from
//! which `/metrics`, JSON and tables for people are made.
//!
//! ```
//! use wirepath_counters::{Gauge, LocalCounter, Value, counters};
//!
//! counters! {
//!     /// Counters of one thread.
//!     pub struct ThreadCounters;
//!     /// Sum of the counters of all threads.
//!     #[derive(PartialEq)]
//!     pub struct Counters;
//!
//!     /// Packets sent.
//!     packets: LocalCounter,
//!     /// Payload bytes sent.
//!     payload_bytes: LocalCounter,
//!     /// Sessions that are open.
//!     sessions: Gauge,
//! }
//!
//! let threads = [ThreadCounters::default(), ThreadCounters::default()];
//! threads[0].packets.increment();
//! threads[1].packets.add(2);
//! threads[1].sessions.increment();
//! let sum: Counters = threads.iter().map(ThreadCounters::snapshot).sum();
//! assert_eq!(sum, Counters { packets: 3, payload_bytes: 0, sessions: 1 });
//!
//! let packets = &Counters::METRICS[0];
//! assert_eq!((packets.name, packets.help), ("packets", "Packets sent."));
//! assert_eq!((packets.read)(&sum), Value::Counter(3));
//! assert_eq!(Counters::METRICS[1].unit(), Some("bytes"));
//! ```
//!
//! Names follow the conventions of Prometheus: lower case, a unit as the last word (`_bytes`, `_seconds`), no
//! `_total`, which the text format adds.

mod family;
mod instrument;
mod metric;
#[cfg(test)]
mod tests;

pub use family::{Family, FamilyCounts, Label};
pub use instrument::{Counter, Gauge, Instrument, LocalCounter, LocalTime};
pub use metric::{Histogram, Metric, Value};

/// Declares a set of counters.
///
/// The first struct counts; it is `Debug` and `Default`. The second is its snapshot; it is also `Clone`, and
/// adds up by `+=` and `sum`. Further attributes are those written before each. The doc comment of a line is
/// the metric's help, its type an [`Instrument`]; a `#[serde]` attribute is the snapshot's. The table is the
/// associated constant `METRICS` of the snapshot.
#[macro_export]
macro_rules! counters {
    (
        $(#[$attribute:meta])* $visibility:vis struct $Counters:ident;
        $(#[$snapshot_attribute:meta])* $snapshot_visibility:vis struct $Snapshot:ident;
        $($(#[doc = $help:literal])+ $(#[serde($($serde:tt)+)])? $name:ident: $Instrument:ty,)+
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Default)]
        $visibility struct $Counters {
            $($(#[doc = $help])+ $visibility $name: $Instrument,)+
        }

        $(#[$snapshot_attribute])*
        #[derive(Clone, Debug, Default)]
        $snapshot_visibility struct $Snapshot {
            $(
                $(#[doc = $help])+
                $(#[serde($($serde)+)])?
                $snapshot_visibility $name: <$Instrument as $crate::Instrument>::Reading,
            )+
        }

        impl $Counters {
            /// Reads all counters, in the order of their declaration.
            $visibility fn snapshot(&self) -> $Snapshot {
                $Snapshot { $($name: $crate::Instrument::read(&self.$name),)+ }
            }
        }

        impl $Snapshot {
            /// The metrics of this set, in the order of their declaration.
            $snapshot_visibility const METRICS: &'static [$crate::Metric<$Snapshot>] = &[$($crate::Metric {
                name: stringify!($name),
                help: concat!($($help),+).trim_ascii(),
                read: |snapshot| <$Instrument as $crate::Instrument>::value(&snapshot.$name),
            },)+];
        }

        impl ::std::ops::AddAssign for $Snapshot {
            fn add_assign(&mut self, more: $Snapshot) {
                $(<$Instrument as $crate::Instrument>::add(&mut self.$name, more.$name);)+
            }
        }

        impl ::std::iter::Sum for $Snapshot {
            fn sum<I: Iterator<Item = $Snapshot>>(snapshots: I) -> $Snapshot {
                snapshots.fold($Snapshot::default(), |mut sum, more| {
                    sum += more;
                    sum
                })
            }
        }
    };
}

/// Declares a [`Label`]: an enum whose variants are the label's values.
///
/// ```
/// use wirepath_counters::{Family, Label, label};
///
/// label! {
///     /// Limit that a client exceeded.
///     pub enum Refusal: "reason" {
///         /// Connections in all.
///         Total = "total_limit",
///         /// Connections from one address.
///         Address = "address_limit",
///     }
/// }
///
/// let refused = Family::<Refusal>::default();
/// refused.increment(Refusal::Address);
/// assert_eq!(refused.value(Refusal::Address), 1);
/// assert_eq!(Refusal::Total.name(), "total_limit");
/// ```
#[macro_export]
macro_rules! label {
    (
        $(#[$attribute:meta])* $visibility:vis enum $Label:ident: $name:literal {
            $($(#[$variant_attribute:meta])* $Variant:ident = $value:literal,)+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility enum $Label {
            $($(#[$variant_attribute])* $Variant,)+
        }

        impl $crate::Label for $Label {
            const NAME: &'static str = $name;
            const VALUES: &'static [&'static str] = &[$($value),+];

            fn index(self) -> usize {
                self as usize
            }
        }
    };
}
