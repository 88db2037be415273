//! Instruments: counters of one thread, counters of several, gauges.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::Value;

/// A counter or gauge: written where something happens, read by any thread at any time.
pub trait Instrument: Default + fmt::Debug {
    /// A value of it at one time.
    type Reading: Clone + Default + fmt::Debug;

    /// Reads it.
    fn read(&self) -> Self::Reading;

    /// Adds another thread's reading.
    fn add(sum: &mut Self::Reading, more: Self::Reading);

    /// Shows a reading.
    fn value(reading: &Self::Reading) -> Value;
}

/// Counter that a single thread writes: without an atomic addition it costs as much as a plain number.
#[derive(Debug, Default)]
pub struct LocalCounter(AtomicU64);

/// Time that a single thread adds up.
#[derive(Debug, Default)]
pub struct LocalTime(AtomicU64);

/// Counter that several threads write.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

/// Number that goes up and down; several threads write it.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl LocalCounter {
    /// Adds. Of two threads that do so at once, one's addition is lost.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(amount), Relaxed);
    }
}

impl LocalTime {
    /// Adds microseconds. Of two threads that do so at once, one's addition is lost.
    #[inline]
    pub fn add_us(&self, us: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(us), Relaxed);
    }
}

impl Instrument for LocalTime {
    type Reading = Duration;

    fn read(&self) -> Duration {
        Duration::from_micros(self.0.load(Relaxed))
    }

    fn add(sum: &mut Duration, more: Duration) {
        *sum = sum.saturating_add(more);
    }

    fn value(reading: &Duration) -> Value {
        Value::Sum(reading.as_secs_f64())
    }
}

impl Counter {
    /// Adds.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Relaxed);
    }
}

impl Gauge {
    /// Adds.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Relaxed);
    }

    /// Subtracts one; never more than was added.
    pub fn decrement(&self) {
        self.0.fetch_sub(1, Relaxed);
    }

    /// Subtracts; never more than was added.
    pub fn subtract(&self, amount: u64) {
        self.0.fetch_sub(amount, Relaxed);
    }

    /// Replaces the value.
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }
}

macro_rules! instruments {
    ($($Instrument:ident is $Value:ident,)+) => {
        $(impl $Instrument {
            /// Adds one.
            #[inline]
            pub fn increment(&self) {
                self.add(1);
            }

            /// Reads the value.
            #[inline]
            pub fn value(&self) -> u64 {
                self.0.load(Relaxed)
            }
        }

        impl Instrument for $Instrument {
            type Reading = u64;

            fn read(&self) -> u64 {
                self.value()
            }

            fn add(sum: &mut u64, more: u64) {
                *sum += more;
            }

            fn value(reading: &u64) -> Value {
                Value::$Value(*reading)
            }
        })+
    };
}

instruments! {
    LocalCounter is Counter,
    Counter is Counter,
    Gauge is Gauge,
}
