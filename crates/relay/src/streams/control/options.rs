//! Options of a stream or of an output, as calls made from requests.

use bytesize::ByteSize;
use http::StatusCode;
use wirepath_streams::{OptionError, Stream, StreamOption};

use super::change::{no_output, port_of, text_of};
use super::{Call, Outcome, Refusal, Reply};
use crate::streams::rate::RateSpec;

pub(super) fn options(output: Option<u64>, reply: Reply) -> Call {
    Box::new(move |running| {
        running.with(move |stream| {
            let options = options_of(stream, output);
            reply.give(options.map_or_else(|| no_output(output.unwrap_or(0)), Outcome::Options));
        });
    })
}

/// Options of the stream or of an output; None if there is no such output.
fn options_of(stream: &mut Stream, output: Option<u64>) -> Option<Vec<StreamOption>> {
    match output {
        None => Some(stream.options()),
        Some(output) => port_of(stream, output).and_then(|port| stream.output_options(port)),
    }
}

/// Sets the option to the value in the body.
pub(super) fn set_option(
    output: Option<u64>,
    key: String,
    body: &[u8],
    reply: Reply,
) -> Result<Call, Refusal> {
    let value = text_of(body)?.to_owned();
    Ok(Box::new(move |running| {
        running.with(move |stream| reply.give(set(stream, output, &key, &value)));
    }))
}

fn set(stream: &mut Stream, output: Option<u64>, key: &str, value: &str) -> Outcome {
    let options = options_of(stream, output).unwrap_or_default();
    let unit = options.iter().find(|option| option.key == key).map(|option| option.unit);
    let number = unit.and_then(|unit| in_unit(unit, value));
    let value = number.as_deref().unwrap_or(value);
    let set = match output {
        None => stream.set_option(key, value),
        Some(output) => match port_of(stream, output) {
            Some(port) => stream.set_output_option(port, key, value),
            None => return no_output(output),
        },
    };
    let status = match &set {
        Ok(()) => return Outcome::Set,
        Err(OptionError::Unknown { .. } | OptionError::NoOutput(_)) => StatusCode::NOT_FOUND,
        Err(OptionError::Fixed(_)) => StatusCode::CONFLICT,
        Err(OptionError::Invalid { .. }) => StatusCode::BAD_REQUEST,
    };
    let example = match &set {
        Err(OptionError::Invalid { .. }) => unit.and_then(with_unit).unwrap_or_default(),
        _ => "",
    };
    set.map_or_else(|error| Outcome::Refused(status, format!("{error}{example}")), |()| Outcome::Set)
}

/// Converts a value with a unit, in the syntax of flags, to a number in the unit of the option; None if the
/// value is not in that syntax.
fn in_unit(unit: &str, value: &str) -> Option<String> {
    let number = match unit {
        "bytes/s" => value.parse::<RateSpec>().ok()?.rate(None).per_second,
        "bytes" => value.parse::<ByteSize>().ok()?.as_u64(),
        "us" => u64::try_from(humantime::parse_duration(value).ok()?.as_micros()).ok()?,
        _ => return None,
    };
    Some(number.to_string())
}

/// Addition to an error message: values with units are also valid.
fn with_unit(unit: &str) -> Option<&'static str> {
    match unit {
        "bytes/s" => Some("; or with a unit, such as 100Mbit/s or 12.5MB/s"),
        "bytes" => Some("; or with a unit, such as 256KiB"),
        "us" => Some("; or with a unit, such as 500ms or 5s"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use wirepath_streams::{Framing, Object, StreamBuilder};

    use super::*;

    /// Promise: Options of streams take numbers, or the same values as the flags: rates, sizes and times with
    /// units.
    #[test]
    fn values_may_have_units() {
        let input = Object::memory("input", "".into());
        let mut stream = StreamBuilder::default().input(input, Framing::Whole).build();
        let value = |stream: &Stream, key| {
            stream.options().into_iter().find(|option| option.key == key).map(|option| option.value)
        };
        for (key, set_to, number) in [
            ("rate", "8Mbit/s", "1000000"),
            ("rate", "1MiB/s", "1048576"),
            ("rate", "1000", "1000"),
            ("burst", "4KiB", "4096"),
            ("rate", "none", "none"),
            ("deadline", "20ms", "20000"),
            ("stall", "1500", "1500"),
            ("stall", "2s", "2000000"),
        ] {
            assert!(matches!(set(&mut stream, None, key, set_to), Outcome::Set), "{key} {set_to}");
            assert_eq!(value(&stream, key).as_deref(), Some(number), "{key} {set_to}");
        }
        for (key, wrong, example) in [
            ("rate", "fast", "such as 100Mbit/s"),
            ("stall", "0s", "such as 500ms"),
            ("burst", "5s", "such as 256KiB"),
        ] {
            let Outcome::Refused(status, why) = set(&mut stream, None, key, wrong) else { panic!("{key}") };
            assert!(status == StatusCode::BAD_REQUEST && why.contains(example), "{why}");
        }
    }
}
