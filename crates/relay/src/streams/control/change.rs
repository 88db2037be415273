//! Changes of streams, as calls made from requests.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use http::StatusCode;
use wirepath_streams::{Handler, HandlerError, HandlerId, Port, Stream, Trust};

use super::{Call, HandlerFolder, Outcome, Refusal, Reply};
use crate::streams::json::output_number;
use crate::streams::spec::handler::bpf_handler;
use crate::streams::spec::{HandlerSpec, OutputHandlerSpec};

fn bad_request(error: &dyn fmt::Display) -> Refusal {
    (StatusCode::BAD_REQUEST, error.to_string())
}

/// Text of a request body, without the line end.
pub(super) fn text_of(body: &[u8]) -> Result<&str, Refusal> {
    let text = std::str::from_utf8(body).map_err(|error| bad_request(&error))?;
    Ok(text.trim_end_matches(['\r', '\n']))
}

/// Parses a handler from a body, in the syntax of `--handler`. Object files are those of the folder.
pub(super) async fn parse(body: &[u8], folder: Option<&HandlerFolder>) -> Result<Handler, Refusal> {
    build(&HandlerSpec::from_str(text_of(body)?).map_err(|error| bad_request(&error))?, folder).await
}

async fn build(spec: &HandlerSpec, folder: Option<&HandlerFolder>) -> Result<Handler, Refusal> {
    if spec.key_file().is_some() {
        let words = "handlers with keys are not set by HTTP; start the relay with them";
        return Err((StatusCode::FORBIDDEN, words.to_owned()));
    }
    if let Some(file) = spec.object_file() {
        let (file, folder) = (file.clone(), folder.cloned().ok_or_else(no_folder)?);
        let read = tokio::task::spawn_blocking(move || folder.read(&file)).await;
        let failed = |error: tokio::task::JoinError| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
        return Ok(bpf_handler(&read.map_err(failed)??, Arc::default()));
    }
    spec.handler().map_err(|error| bad_request(&error))
}

fn no_folder() -> Refusal {
    let words = "handlers of files are set by HTTP only from a folder; start the relay with --handler-folder";
    (StatusCode::FORBIDDEN, words.to_owned())
}

pub(super) fn parse_trust(body: &[u8]) -> Result<Trust, Refusal> {
    let text = text_of(body)?;
    let words = || format!("invalid trust {text}: expected 0 to {}", Trust::FULL);
    text.parse().ok().and_then(Trust::new).ok_or_else(|| bad_request(&words()))
}

pub(super) fn control(id: HandlerId, message: Vec<u8>, reply: Reply) -> Call {
    Box::new(move |running| {
        running.with(move |stream| {
            let on_answer = reply.clone();
            reply.check(stream.control_handler(id, message, move |answer| {
                on_answer.give(match answer {
                    Ok(bytes) => Outcome::Answered(bytes),
                    Err(HandlerError::Refused(words)) => {
                        Outcome::Refused(StatusCode::UNPROCESSABLE_ENTITY, words)
                    }
                    Err(HandlerError::Failed(words)) => {
                        Outcome::Refused(StatusCode::INTERNAL_SERVER_ERROR, words)
                    }
                });
            }));
        });
    })
}

pub(super) fn replace(id: HandlerId, handler: Handler, reply: Reply) -> Call {
    Box::new(move |running| {
        running.with(move |stream| {
            let removed = reply.clone();
            let on_removed = move |handler| removed.give(Outcome::Removed(handler));
            reply.check(stream.replace_handler(id, handler, on_removed));
        });
    })
}

pub(super) fn remove(id: HandlerId, reply: Reply) -> Call {
    Box::new(move |running| {
        running.with(move |stream| {
            let removed = reply.clone();
            reply.check(stream.remove_handler(id, move |handler| removed.give(Outcome::Removed(handler))));
        });
    })
}

pub(super) fn add(handler: Handler, reply: Reply) -> Call {
    Box::new(move |running| {
        running.with(move |stream| reply.give(Outcome::Added(stream.add_handler(handler))));
    })
}

/// Adds the handler that a body describes in the syntax of `--output-handler`, without the output number.
pub(super) async fn add_to_output(
    output: u64,
    body: &[u8],
    folder: Option<&HandlerFolder>,
    reply: Reply,
) -> Result<Call, Refusal> {
    let spec = OutputHandlerSpec::from_str(&format!("{output}:{}", text_of(body)?));
    let OutputHandlerSpec { below, handler, .. } = spec.map_err(|error| bad_request(&error))?;
    let handler = build(&handler, folder).await?;
    Ok(Box::new(move |running| {
        running.with(move |stream| {
            let added = port_of(stream, output).and_then(|port| match below {
                Some(below) => stream.add_output_handler_below(port, below, handler),
                None => stream.add_output_handler(port, handler),
            });
            reply.give(added.map_or_else(|| no_output(output), Outcome::Added));
        });
    }))
}

pub(super) fn set_trust(output: u64, trust: Trust, reply: Reply) -> Call {
    Box::new(move |running| {
        running.with(move |stream| {
            let is_set = port_of(stream, output).is_some_and(|port| stream.set_trust(port, trust));
            reply.give(if is_set { Outcome::Set } else { no_output(output) });
        });
    })
}

pub(super) fn port_of(stream: &Stream, output: u64) -> Option<Port> {
    let outputs = stream.status().outputs;
    outputs.iter().map(|status| status.port).find(|port| output_number(*port) == output)
}

pub(super) fn no_output(output: u64) -> Outcome {
    let words =
        format!("no output {output}: it has ended or never existed; /api/status lists the outputs' numbers");
    Outcome::Refused(StatusCode::NOT_FOUND, words)
}
