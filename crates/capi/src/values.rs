//! Values of the header: framing, status, events.

use std::ffi::{c_char, c_int};

use wirepath_streams::{
    Framing, HandlerId, InputOrder, Late, OutputPattern, Port, StreamEvent, StreamOption, StreamStatus, Trust,
};

use crate::call::Failure;

/// `wp_framing`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawFraming {
    kind: c_int,
    bytes: usize,
}

impl RawFraming {
    pub(crate) fn framing(self) -> Result<Framing, Failure> {
        let RawFraming { kind, bytes } = self;
        if bytes == 0 && matches!(kind, 1..=3) {
            return Err(Failure::invalid("invalid framing: bytes is 0; expected at least 1"));
        }
        match kind {
            0 => Ok(Framing::Whole),
            1 => Ok(Framing::Fixed(bytes)),
            2 => Ok(Framing::lines(bytes)),
            3 => Ok(Framing::length32(bytes)),
            4 => Ok(Framing::rtp()),
            5 => Ok(Framing::transport_stream()),
            other => Err(Failure::invalid(format!("invalid kind of framing {other}: expected 0 to 5"))),
        }
    }
}

pub(crate) fn order(order: c_int) -> Result<InputOrder, Failure> {
    match order {
        0 => Ok(InputOrder::RoundRobin),
        1 => Ok(InputOrder::Arrival),
        other => Err(Failure::invalid(format!("invalid order {other}: expected 0 or 1"))),
    }
}

pub(crate) fn pattern(pattern: c_int) -> Result<OutputPattern, Failure> {
    match pattern {
        0 => Ok(OutputPattern::Stripe),
        1 => Ok(OutputPattern::Mirror),
        2 => Ok(OutputPattern::Capacity),
        other => Err(Failure::invalid(format!("invalid pattern {other}: expected 0 to 2"))),
    }
}

/// `wp_status`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawStatus {
    bytes_in: u64,
    records_in: u64,
    zero_copy_bytes: u64,
    bytes_out: u64,
    bytes_pending: u64,
    bytes_dropped: u64,
    inputs: u64,
    outputs: u64,
}

impl From<&StreamStatus> for RawStatus {
    fn from(status: &StreamStatus) -> RawStatus {
        RawStatus {
            bytes_in: status.bytes_in,
            records_in: status.records_in,
            zero_copy_bytes: status.zero_copy_bytes,
            bytes_out: status.bytes_out,
            bytes_pending: status.bytes_pending,
            bytes_dropped: status.bytes_dropped,
            inputs: status.inputs.len() as u64,
            outputs: status.outputs.len() as u64,
        }
    }
}

/// Bytes of the text of an event, with the zero byte.
const TEXT: usize = 256;

/// `wp_event`.
#[repr(C)]
pub struct RawEvent {
    kind: c_int,
    port: i64,
    text: [c_char; TEXT],
}

impl RawEvent {
    fn new(kind: c_int, port: Option<Port>, text: &str) -> RawEvent {
        let mut event = RawEvent { kind, port: port.map_or(-1, port_number), text: [0; TEXT] };
        fill(&mut event.text, text);
        event
    }

    /// None waits: the stream goes on, or has ended.
    pub(crate) fn none(has_ended: bool) -> RawEvent {
        RawEvent::new(has_ended.into(), None, "")
    }
}

impl From<StreamEvent> for RawEvent {
    fn from(event: StreamEvent) -> RawEvent {
        let kind = match event {
            StreamEvent::InputGone { .. } => 2,
            StreamEvent::InputFailed { .. } => 3,
            StreamEvent::OutputGone { .. } => 4,
            StreamEvent::OutputFailed { .. } => 5,
            StreamEvent::OutputDisconnected { .. } => 6,
            StreamEvent::RecordRefused { .. } => 7,
            _ => 8,
        };
        RawEvent::new(kind, event.port(), &event.text())
    }
}

/// `wp_option`.
#[repr(C)]
pub struct RawOption {
    key: [c_char; KEY],
    value: [c_char; KEY],
    unit: [c_char; UNIT],
    may_change: c_int,
}

/// Bytes of the key and of the value of an option, and of its unit, with the zero byte.
const KEY: usize = 32;
const UNIT: usize = 16;

impl From<&StreamOption> for RawOption {
    fn from(option: &StreamOption) -> RawOption {
        let StreamOption { key, value, unit, may_change } = option;
        let mut raw =
            RawOption { key: [0; KEY], value: [0; KEY], unit: [0; UNIT], may_change: (*may_change).into() };
        fill(&mut raw.key, key);
        fill(&mut raw.value, value);
        fill(&mut raw.unit, unit);
        raw
    }
}

/// Writes text, cut to the room for it, to the front of `to`, which has only zeros.
fn fill(to: &mut [c_char], text: &str) {
    let text = &text[..text.floor_char_boundary(to.len() - 1)];
    for (to, from) in to.iter_mut().zip(text.bytes().take_while(|byte| *byte != 0)) {
        *to = from as c_char;
    }
}

pub(crate) fn late(late: c_int) -> Result<Late, Failure> {
    match late {
        0 => Ok(Late::Drop),
        1 => Ok(Late::Pass),
        other => Err(Failure::invalid(format!("invalid late {other}: expected 0 or 1"))),
    }
}

pub(crate) fn trust(trust: c_int) -> Result<Trust, Failure> {
    let valid = u8::try_from(trust).ok().and_then(Trust::new);
    valid.ok_or_else(|| Failure::invalid(format!("invalid trust {trust}: expected 0 to {}", Trust::FULL)))
}

/// A port as the header has it.
pub(crate) fn port_number(port: Port) -> i64 {
    i64::try_from(port.number()).unwrap_or(i64::MAX)
}

pub(crate) fn port(number: i64) -> Result<Port, Failure> {
    u64::try_from(number).map(Port::from_number).map_err(|_| no_port(number))
}

pub(crate) fn no_port(number: i64) -> Failure {
    Failure::invalid(format!(
        "no input or output with port {number}: it is gone or being detached, or never was; \
         wp_stream_input and wp_stream_output answer the port"
    ))
}

pub(crate) fn no_output(number: i64) -> Failure {
    Failure::invalid(format!(
        "no output with port {number}: it has been removed or never existed; wp_stream_output returns the port"
    ))
}

/// A number of a handler as the header has it.
pub(crate) fn handler_number(id: HandlerId) -> i64 {
    i64::try_from(id.0).unwrap_or(i64::MAX)
}

pub(crate) fn handler_id(number: i64) -> Result<HandlerId, Failure> {
    u64::try_from(number).map(HandlerId).map_err(|_| no_handler(number))
}

pub(crate) fn no_handler(number: i64) -> Failure {
    Failure::invalid(format!(
        "no handler {number}: it has been removed or never existed; wp_stream_handler returns the number"
    ))
}
