//! Options of a stream or of an output, as calls to the stream.

use bytesize::ByteSize;
use http::StatusCode;
use wirepath_streams::{OptionError, Stream, StreamOption};

use super::change::{no_output, port_of, text_of};
use super::{Call, Outcome, Refusal, Reply};
use crate::streams::rate::RateSpec;

pub(super) fn options(output: Option<u64>, reply: Reply) -> Call {
    Box::new(move |running| {
        running.with(move |stream| {
            let options = match output {
                None => Some(stream.options()),
                Some(output) => port_of(stream, output).and_then(|port| stream.output_options(port)),
            };
            reply.give(options.map_or_else(|| no_output(output.unwrap_or(0)), Outcome::Options));
        });
    })
}

/// Sets the option to the value that a body has.
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
    let set = match output {
        None => {
            let number = in_its_unit(&stream.options(), key, value);
            stream.set_option(key, number.as_deref().unwrap_or(value))
        }
        Some(output) => match port_of(stream, output) {
            Some(port) => {
                let options = stream.output_options(port).unwrap_or_default();
                let number = in_its_unit(&options, key, value);
                stream.set_output_option(port, key, number.as_deref().unwrap_or(value))
            }
            None => return no_output(output),
        },
    };
    let status = match &set {
        Ok(()) => return Outcome::Set,
        Err(OptionError::Unknown { .. } | OptionError::NoOutput(_)) => StatusCode::NOT_FOUND,
        Err(OptionError::Fixed(_)) => StatusCode::CONFLICT,
        Err(OptionError::Invalid { .. }) => StatusCode::BAD_REQUEST,
    };
    let unit = match &set {
        Err(OptionError::Invalid { key, .. }) => unit_of(stream, output, key).and_then(with_unit),
        _ => None,
    };
    let refused =
        |error: OptionError| Outcome::Refused(status, format!("{error}{}", unit.unwrap_or_default()));
    set.map_or_else(refused, |()| Outcome::Set)
}

/// A value with a unit, as flags have it, as the number that the option with this key takes; None if it has none.
fn in_its_unit(options: &[StreamOption], key: &str, value: &str) -> Option<String> {
    let number = match options.iter().find(|option| option.key == key)?.unit {
        "bytes/s" => value.parse::<RateSpec>().ok()?.rate(None).per_second,
        "bytes" => value.parse::<ByteSize>().ok()?.as_u64(),
        "us" => u64::try_from(humantime::parse_duration(value).ok()?.as_micros()).ok()?,
        _ => return None,
    };
    Some(number.to_string())
}

fn unit_of(stream: &mut Stream, output: Option<u64>, key: &str) -> Option<&'static str> {
    let options = match output {
        None => stream.options(),
        Some(output) => port_of(stream, output).and_then(|port| stream.output_options(port))?,
    };
    options.iter().find(|option| option.key == key).map(|option| option.unit)
}

/// Addition to an error: values with units are valid, too.
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

    /// Promise: Options of streams take numbers, or what the flags take: rates, sizes and times with units.
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
