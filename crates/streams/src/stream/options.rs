//! Options of a stream and of its outputs by key (`setstreamoption`), in one table each.

use wirepath_engine::Rate;

use super::Stream;
use crate::outbox::WhenFull;
use crate::port::Port;
use crate::trust::Trust;

/// Option of a stream or of an output, with its current value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamOption {
    /// Key of the option.
    pub key: &'static str,
    /// Value: a number, `none`, or a word.
    pub value: String,
    /// Unit of a number.
    pub unit: &'static str,
    /// True if the option can be changed now; false if it is fixed when the stream is built.
    pub may_change: bool,
}

/// Error of setting an option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// There is no such key.
    #[error("no option {key}: expected one of {}", keys.join(", "))]
    Unknown {
        /// The key.
        key: String,
        /// All keys.
        keys: Vec<&'static str>,
    },
    /// The option is fixed when the stream is built.
    #[error("option {0} is fixed when the stream is built; build another stream")]
    Fixed(&'static str),
    /// The value is invalid.
    #[error("invalid value {value} of option {key}: expected {expected}")]
    Invalid {
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// Valid values.
        expected: &'static str,
    },
    /// There is no such output.
    #[error("no output with port {0}: it is gone, or never was; the status of the stream has the ports")]
    NoOutput(Port),
}

/// Rate and deadline of a stream on an engine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    pub(crate) rate: Option<Rate>,
    pub(crate) deadline_us: Option<u64>,
}

/// Options of a connected or expected output.
struct OfOutput {
    waiting_bytes: usize,
    when_full: WhenFull,
    trust: Trust,
}

/// Row of a table of options of `T`.
struct Row<T> {
    key: &'static str,
    unit: &'static str,
    value: fn(&T) -> String,
    /// Description of valid values, and the function that changes the option; None if the option is fixed.
    change: Option<(&'static str, Change<T>)>,
}

/// Changes an option; None if the value is invalid.
type Change<T> = fn(&mut T, &str) -> Option<()>;

/// Bursts per second of a rate that replaces no earlier rate.
const BURSTS: u64 = 10;

const OPTIONS: [Row<Stream>; 7] = [
    Row {
        key: "rate",
        unit: "bytes/s",
        value: |stream| shown(stream.pace.rate.map(|rate| rate.per_second)),
        change: Some(("a number from 1, or none", |stream, value| {
            let before = stream.pace.rate;
            let rate = |per_second: u64| {
                let burst = before.map_or((per_second / BURSTS).max(1), |before| before.burst);
                Rate { per_second, burst }
            };
            stream.pace.rate = number_or_none(value)?.map(rate);
            Some(())
        })),
    },
    Row {
        key: "burst",
        unit: "bytes",
        value: |stream| shown(stream.pace.rate.map(|rate| rate.burst)),
        change: Some(("a number from 1, of a stream that has a rate", |stream, value| {
            stream.pace.rate.as_mut()?.burst = number(value)?;
            Some(())
        })),
    },
    Row {
        key: "deadline",
        unit: "us",
        value: |stream| shown(stream.pace.deadline_us),
        change: Some(("a number from 1, or none", |stream, value| {
            stream.pace.deadline_us = number_or_none(value)?;
            Some(())
        })),
    },
    Row {
        key: "stall",
        unit: "us",
        value: |stream| stream.shared.settings.stall_us.to_string(),
        change: Some(("a number from 1", |stream, value| {
            stream.shared.settings.stall_us = number(value)?;
            Some(())
        })),
    },
    Row {
        key: "finish-outputs",
        unit: "",
        value: |stream| stream.shared.settings.finishes_outputs.to_string(),
        change: None,
    },
    Row {
        key: "survive-inputs",
        unit: "",
        value: |stream| stream.shared.settings.survives_inputs.to_string(),
        change: None,
    },
    Row {
        key: "end-with-connections",
        unit: "",
        value: |stream| stream.shared.settings.ends_with_connections.to_string(),
        change: None,
    },
];

const OUTPUT_OPTIONS: [Row<OfOutput>; 3] = [
    Row {
        key: "waiting-bytes",
        unit: "bytes",
        value: |output| output.waiting_bytes.to_string(),
        change: Some(("a number from 1", |output, value| {
            output.waiting_bytes = usize::try_from(number(value)?).ok()?;
            Some(())
        })),
    },
    Row {
        key: "when-full",
        unit: "",
        value: |output| output.when_full.name().to_owned(),
        change: Some(("block, drop-newest, drop-oldest or disconnect", |output, value| {
            output.when_full = WhenFull::ALL.into_iter().find(|rule| rule.name() == value)?;
            Some(())
        })),
    },
    Row {
        key: "trust",
        unit: "",
        value: |output| output.trust.to_string(),
        change: Some(("a number from 0 to 100", |output, value| {
            output.trust = Trust::new(value.parse().ok()?)?;
            Some(())
        })),
    },
];

impl<T> Row<T> {
    fn option(&self, of: &T) -> StreamOption {
        let Row { key, unit, value, change } = *self;
        StreamOption { key, value: value(of), unit, may_change: change.is_some() }
    }
}

fn set<T>(rows: &[Row<T>], of: &mut T, key: &str, value: &str) -> Result<(), OptionError> {
    let Some(row) = rows.iter().find(|row| row.key == key) else {
        let keys = rows.iter().map(|row| row.key).collect();
        return Err(OptionError::Unknown { key: key.to_owned(), keys });
    };
    let (expected, change) = row.change.ok_or(OptionError::Fixed(row.key))?;
    let invalid = || OptionError::Invalid { key: row.key, value: value.to_owned(), expected };
    change(of, value).ok_or_else(invalid)
}

fn number(value: &str) -> Option<u64> {
    value.parse().ok().filter(|number| *number > 0)
}

fn number_or_none(value: &str) -> Option<Option<u64>> {
    if value == "none" { Some(None) } else { number(value).map(Some) }
}

fn shown(number: Option<u64>) -> String {
    number.map_or_else(|| "none".to_owned(), |number| number.to_string())
}

impl Stream {
    /// Options of the stream: keys, values and units. Rate and deadline are those on the engine that runs the
    /// stream.
    pub fn options(&self) -> Vec<StreamOption> {
        OPTIONS.iter().map(|row| row.option(self)).collect()
    }

    /// Sets an option (`setstreamoption`), effective at once.
    ///
    /// # Errors
    /// There is no such key (the error lists all keys), the option is fixed, or the value is invalid.
    pub fn set_option(&mut self, key: &str, value: &str) -> Result<(), OptionError> {
        set(&OPTIONS, self, key, value)
    }

    /// Options of an output; None if there is no such output.
    pub fn output_options(&mut self, port: Port) -> Option<Vec<StreamOption>> {
        let of_output = self.of_output(port)?;
        Some(OUTPUT_OPTIONS.iter().map(|row| row.option(&of_output)).collect())
    }

    /// Sets an option of an output, effective from the next record on, as [`Stream::set_output_options`] and
    /// [`Stream::set_trust`] do.
    ///
    /// # Errors
    /// Those of [`Stream::set_option`], or there is no such output.
    pub fn set_output_option(&mut self, port: Port, key: &str, value: &str) -> Result<(), OptionError> {
        let mut of_output = self.of_output(port).ok_or(OptionError::NoOutput(port))?;
        set(&OUTPUT_OPTIONS, &mut of_output, key, value)?;
        let OfOutput { waiting_bytes, when_full, trust } = of_output;
        if key == "trust" {
            self.set_trust(port, trust);
        } else {
            self.set_output_options(port, when_full, waiting_bytes);
        }
        Ok(())
    }

    fn of_output(&mut self, port: Port) -> Option<OfOutput> {
        if let Some((options, chain)) = self.listening.output(port) {
            let (waiting_bytes, when_full) = (options.waiting_bytes, options.when_full);
            return Some(OfOutput { waiting_bytes, when_full, trust: chain.trust });
        }
        let output = self.outputs.get_mut(port)?;
        let (waiting_bytes, when_full) = output.outbox.limits();
        Some(OfOutput { waiting_bytes, when_full, trust: output.chain.trust })
    }
}
