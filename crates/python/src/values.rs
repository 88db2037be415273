//! Values: framing, status, events.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use wirepath_streams::{InputOrder, OutputPattern, StreamEvent, StreamOption, StreamStatus, Trust};

/// Division of an input into records.
#[pyclass(frozen, from_py_object, module = "wirepath")]
#[derive(Clone, Copy)]
pub(crate) struct Framing(Kind);

#[derive(Clone, Copy)]
enum Kind {
    Whole,
    Fixed(usize),
    Lines(usize),
    Length32(usize),
    Rtp,
    TransportStream,
}

#[pymethods]
impl Framing {
    #[staticmethod]
    pub(crate) fn whole() -> Framing {
        Framing(Kind::Whole)
    }

    #[staticmethod]
    fn fixed(size: usize) -> PyResult<Framing> {
        Ok(Framing(Kind::Fixed(at_least_one(size, "size")?)))
    }

    #[staticmethod]
    fn lines(limit: usize) -> PyResult<Framing> {
        Ok(Framing(Kind::Lines(at_least_one(limit, "limit")?)))
    }

    #[staticmethod]
    fn length32(limit: usize) -> PyResult<Framing> {
        Ok(Framing(Kind::Length32(at_least_one(limit, "limit")?)))
    }

    #[staticmethod]
    fn rtp() -> Framing {
        Framing(Kind::Rtp)
    }

    #[staticmethod]
    fn transport_stream() -> Framing {
        Framing(Kind::TransportStream)
    }
}

impl From<Framing> for wirepath_streams::Framing {
    fn from(framing: Framing) -> wirepath_streams::Framing {
        match framing.0 {
            Kind::Whole => Self::Whole,
            Kind::Fixed(size) => Self::Fixed(size),
            Kind::Lines(limit) => Self::lines(limit),
            Kind::Length32(limit) => Self::length32(limit),
            Kind::Rtp => Self::rtp(),
            Kind::TransportStream => Self::transport_stream(),
        }
    }
}

pub(crate) fn at_least_one(value: usize, name: &str) -> PyResult<usize> {
    if value > 0 {
        Ok(value)
    } else {
        Err(PyValueError::new_err(format!("invalid {name} 0: expected at least 1")))
    }
}

pub(crate) fn order(name: &str) -> PyResult<InputOrder> {
    match name {
        "round-robin" => Ok(InputOrder::RoundRobin),
        "arrival" => Ok(InputOrder::Arrival),
        other => {
            Err(PyValueError::new_err(format!("invalid order {other:?}: expected round-robin or arrival")))
        }
    }
}

pub(crate) fn pattern(name: &str) -> PyResult<OutputPattern> {
    match name {
        "stripe" => Ok(OutputPattern::Stripe),
        "mirror" => Ok(OutputPattern::Mirror),
        "capacity" => Ok(OutputPattern::Capacity),
        other => {
            let expected = "expected stripe, mirror or capacity";
            Err(PyValueError::new_err(format!("invalid pattern {other:?}: {expected}")))
        }
    }
}

pub(crate) fn trust(trust: u8) -> PyResult<Trust> {
    Trust::new(trust)
        .ok_or_else(|| PyValueError::new_err(format!("invalid trust {trust}: expected 0 to {}", Trust::FULL)))
}

pub(crate) fn trust_below(trust: u8) -> PyResult<Trust> {
    Trust::new(trust).filter(|trust| trust.value() > 0).ok_or_else(|| {
        PyValueError::new_err(format!("invalid trust_below {trust}: expected 1 to {}", Trust::FULL))
    })
}

/// Status of a stream.
#[pyclass(frozen, get_all, module = "wirepath")]
pub(crate) struct Status {
    bytes_in: u64,
    records_in: u64,
    zero_copy_bytes: u64,
    bytes_out: u64,
    bytes_pending: u64,
    bytes_dropped: u64,
    inputs: usize,
    outputs: usize,
}

#[pymethods]
impl Status {
    fn __repr__(&self) -> String {
        let Status { bytes_in, bytes_out, inputs, outputs, .. } = self;
        format!(
            "<Status: {bytes_in} bytes in, {bytes_out} bytes out, open inputs {inputs}, open outputs {outputs}>"
        )
    }
}

impl From<&StreamStatus> for Status {
    fn from(status: &StreamStatus) -> Status {
        Status {
            bytes_in: status.bytes_in,
            records_in: status.records_in,
            zero_copy_bytes: status.zero_copy_bytes,
            bytes_out: status.bytes_out,
            bytes_pending: status.bytes_pending,
            bytes_dropped: status.bytes_dropped,
            inputs: status.inputs.len(),
            outputs: status.outputs.len(),
        }
    }
}

/// Event of a stream.
#[pyclass(frozen, get_all, module = "wirepath")]
pub(crate) struct Event {
    kind: &'static str,
    port: Option<u64>,
    text: String,
}

#[pymethods]
impl Event {
    fn __repr__(&self) -> String {
        format!("<Event: {}: {}>", self.kind, self.text)
    }
}

impl From<StreamEvent> for Event {
    fn from(event: StreamEvent) -> Event {
        Event { kind: event.kind(), port: event.port().map(|port| port.number()), text: event.text() }
    }
}

/// Option of a stream or of an output.
#[pyclass(frozen, get_all, name = "Option", module = "wirepath")]
pub(crate) struct PythonOption {
    key: &'static str,
    value: String,
    unit: &'static str,
    may_change: bool,
}

#[pymethods]
impl PythonOption {
    fn __repr__(&self) -> String {
        format!("<Option: {} = {}>", self.key, self.value)
    }
}

impl From<StreamOption> for PythonOption {
    fn from(option: StreamOption) -> PythonOption {
        let StreamOption { key, value, unit, may_change } = option;
        PythonOption { key, value, unit, may_change }
    }
}
