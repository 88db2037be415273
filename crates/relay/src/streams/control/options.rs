//! Options of a stream or of an output, as calls to the stream.

use http::StatusCode;
use wirepath_streams::{OptionError, Stream};

use super::change::{no_output, port_of, text_of};
use super::{Call, Outcome, Refusal, Reply};

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
    set.map_or_else(|error| Outcome::Refused(status, error.to_string()), |()| Outcome::Set)
}
