//! Options that are set by key and read back. An error is a text for the test: a panic of a function that
//! runs between two turns would only end the stream.

use wirepath_streams::{OptionError, Port, Stream, StreamOption, WhenFull};

use crate::carrier::Carrier;
use crate::dice::{Dice, Tally};
use crate::engines::any_rate;

/// Shortest stall time that is set, in microseconds: that of the builder.
const STALL_US: usize = 60_000_000;

/// Values that must be refused: wrong ones, of options that are fixed, and of no option.
const REFUSED: [(&str, &str); 6] = [
    ("rate", "0"),
    ("burst", "none"),
    ("deadline", "soon"),
    ("stall", "-1"),
    ("survive-inputs", "true"),
    ("colour", "red"),
];

/// Changes an option of a stream by its key, or tries what must be refused.
pub(crate) fn change(carrier: &mut Carrier, dice: &mut Dice, tally: &mut Tally) {
    let values: Vec<(&'static str, String)> = match dice.below(6) {
        0 => vec![("stall", (STALL_US + dice.below(STALL_US)).to_string())],
        1 => vec![("deadline", (1 + dice.below(1_000_000)).to_string())],
        2 => vec![("deadline", "none".to_owned())],
        3 => {
            let rate = any_rate(dice);
            vec![("rate", rate.per_second.to_string()), ("burst", rate.burst.to_string())]
        }
        4 => vec![("rate", "none".to_owned())],
        _ => return refuse(carrier, dice, tally),
    };
    let set = carrier.ask(move |stream| values.iter().try_for_each(|(key, value)| set(stream, key, value)));
    note(set, "operation: set an option by its key", tally);
}

/// Sets the rule and the limit of an output, by key or at once. False if there is no such output.
pub(crate) fn set_limits(
    stream: &mut Stream,
    port: Port,
    limits: (WhenFull, usize),
    by_key: bool,
) -> Result<bool, String> {
    let (when_full, waiting_bytes) = limits;
    if !by_key {
        return Ok(stream.set_output_options(port, when_full, waiting_bytes));
    }
    let is_there = set_of_output(stream, port, "when-full", when_full.name())?;
    Ok(is_there && set_of_output(stream, port, "waiting-bytes", &waiting_bytes.to_string())?)
}

/// Sets an option of an output by its key. False if there is no such output.
pub(crate) fn set_of_output(
    stream: &mut Stream,
    port: Port,
    key: &'static str,
    value: &str,
) -> Result<bool, String> {
    match stream.set_output_option(port, key, value) {
        Ok(()) => has(&stream.output_options(port).unwrap_or_default(), key, value).map(|()| true),
        Err(OptionError::NoOutput(_)) => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}

/// The result of a change between two turns. A text is an error of the library.
pub(crate) fn checked<T>(changed: Option<Result<T, String>>) -> Option<T> {
    changed.map(|changed| changed.unwrap_or_else(|error| panic!("{error}")))
}

fn refuse(carrier: &mut Carrier, dice: &mut Dice, tally: &mut Tally) {
    let (key, value) = REFUSED[dice.below(REFUSED.len())];
    let refused = carrier.ask(move |stream| {
        let before = stream.options();
        let is_refused = stream.set_option(key, value).is_err() && stream.options() == before;
        is_refused.then_some(()).ok_or(format!("option {key} was set to {value}"))
    });
    note(refused, "fault: an option that must be refused", tally);
}

fn set(stream: &mut Stream, key: &str, value: &str) -> Result<(), String> {
    stream.set_option(key, value).map_err(|error| error.to_string())?;
    has(&stream.options(), key, value)
}

fn has(options: &[StreamOption], key: &str, value: &str) -> Result<(), String> {
    let found = options.iter().find(|option| option.key == key).map(|option| &option.value[..]);
    if found == Some(value) {
        Ok(())
    } else {
        Err(format!("option {key} was set to {value} and is {found:?}"))
    }
}

fn note(done: Option<Result<(), String>>, what: &'static str, tally: &mut Tally) {
    if checked(done).is_some() {
        tally.note(what);
    }
}
