//! Values of the header: framing, status, events.

use std::ffi::{c_char, c_int};

use wirepath_streams::{Framing, InputOrder, OutputPattern, Port, StreamEvent, StreamStatus};

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
        let text = &text[..text.floor_char_boundary(TEXT - 1)];
        for (to, from) in event.text.iter_mut().zip(text.bytes().take_while(|byte| *byte != 0)) {
            *to = from as c_char;
        }
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

/// A port as the header has it.
pub(crate) fn port_number(port: Port) -> i64 {
    i64::try_from(port.number()).unwrap_or(i64::MAX)
}
