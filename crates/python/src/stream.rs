//! A stream: built, started, waited for.

use std::mem;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pyo3::exceptions::{PyRuntimeError, PyTimeoutError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use wirepath_streams::engine::{Engine, EngineOptions, catch_panic};
use wirepath_streams::{
    HandlerId, Object, OutputOptions, Port, RunningStream, StreamBuilder, StreamEnd, StreamEvents,
    StreamOptions,
};

use crate::errors::{
    StreamError, StreamStopped, busy, change_error, failed, handler_error, no_port, option_error,
};
use crate::handler::{Raised, Settings, handler, refuse_in_handler};
use crate::object::{descriptor_of, object};
use crate::order::ordered;
use crate::record::bytes_of;
use crate::values::{self, Event, Framing, PythonOption, Status};

/// Time for which a change of a running stream waits for its thread, in seconds where it can be told.
const ANSWER: Duration = Duration::from_secs(10);
const SECONDS: f64 = 10.0;

/// Time between two looks for signals, such as that of Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

/// Most bytes of a record that a handler is given whole, by default.
const WHOLE: usize = 1 << 20;

/// Records on their way from inputs through handlers to outputs.
#[pyclass(frozen, module = "wirepath")]
pub(crate) struct Stream {
    state: Mutex<State>,
    raised: Raised,
}

enum State {
    Built(Box<wirepath_streams::Stream>),
    Runs(Running),
    /// For a moment, while the stream starts or is changed: what Python does meanwhile finds no lock held.
    Busy,
    /// A start or change panicked with this message, before the stream ran.
    Failed(String),
}

/// A stream that its caller may change, or that changes on its thread.
enum Taken {
    Built(Box<wirepath_streams::Stream>),
    Runs(Running),
}

/// Receiver of the result of a change.
type Answers<T> = Sender<PyResult<T>>;

#[derive(Clone)]
struct Running {
    stream: Arc<RunningStream>,
    events: StreamEvents,
    _engine: Arc<Thread>,
}

/// The thread of a stream. Its end is not waited for: it may be in a handler.
struct Thread(Option<Engine>);

impl Drop for Thread {
    fn drop(&mut self) {
        drop_elsewhere("engine-end", self.0.take());
    }
}

/// Drops what may block on a thread of its own.
fn drop_elsewhere<T: Send + 'static>(name: &str, value: T) {
    // If there is no thread to be had, the closure is dropped here, and this waits.
    drop(thread::Builder::new().name(name.to_owned()).spawn(move || drop(value)));
}

/// Gives a detached object to the caller, to close it there: closing may block, and this is the stream's
/// thread.
fn answer(caller: &Answers<Object>, object: Object) {
    if let Err(unheard) = caller.send(Ok(object)) {
        drop_elsewhere("detach-end", unheard);
    }
}

#[pymethods]
impl Stream {
    #[new]
    #[pyo3(signature = (*, order = None, pattern = "stripe"))]
    fn new(order: Option<&Bound<'_, PyAny>>, pattern: &str) -> PyResult<Stream> {
        let raised = Raised::default();
        let builder = StreamBuilder::default().pattern(values::pattern(pattern)?);
        let stream = Box::new(ordered(builder, order, &raised)?.build());
        Ok(Stream { state: Mutex::new(State::Built(stream)), raised })
    }

    #[pyo3(signature = (source, framing = Framing::whole(), *, name = None))]
    fn input(&self, source: &Bound<'_, PyAny>, framing: Framing, name: Option<String>) -> PyResult<u64> {
        let object = match descriptor_of(source)? {
            Some(descriptor) => object(&name.unwrap_or_else(|| format!("input {descriptor}")), descriptor)?,
            None => Object::memory(name.as_deref().unwrap_or("memory"), bytes_of(source)?),
        };
        self.change(source.py(), move |stream| {
            let attached = stream.attach_input(object, framing.into());
            attached.map(|port| port.number()).map_err(|error| StreamError::new_err(error.to_string()))
        })
    }

    #[pyo3(signature = (sink, *, name = None))]
    fn output(&self, sink: &Bound<'_, PyAny>, name: Option<String>) -> PyResult<u64> {
        let descriptor = descriptor_of(sink)?
            .ok_or_else(|| PyTypeError::new_err("an output is a descriptor or has fileno()"))?;
        let object = object(&name.unwrap_or_else(|| format!("output {descriptor}")), descriptor)?;
        self.change(sink.py(), move |stream| {
            Ok(stream.attach_output(object, OutputOptions::default()).number())
        })
    }

    #[pyo3(signature = (port, timeout = SECONDS))]
    fn detach(&self, py: Python<'_>, port: u64, timeout: f64) -> PyResult<()> {
        self.running()?; // only a stream that runs detaches
        let object = self.change_later(py, timeout, move |stream, answers| {
            let (of_input, port) = (answers.clone(), Port::from_number(port));
            let is_detached = stream.detach_output(port, move |object| answer(&answers, object))
                || stream.detach_input(port, move |object| answer(&of_input, object));
            if is_detached { Ok(()) } else { Err(no_port("input or output", port)) }
        })?;
        py.detach(move || drop(object)); // and with it the descriptor
        Ok(())
    }

    #[pyo3(signature = (
        function, *, name = None, whole = Some(WHOLE), peek = None, control = None, output = None,
        trust_below = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "named arguments of Python")]
    fn handler(
        &self,
        function: Bound<'_, PyAny>,
        name: Option<String>,
        whole: Option<usize>,
        peek: Option<usize>,
        control: Option<Bound<'_, PyAny>>,
        output: Option<u64>,
        trust_below: Option<u8>,
    ) -> PyResult<u64> {
        let below = trust_below.map(values::trust_below).transpose()?;
        if below.is_some() && output.is_none() {
            return Err(PyValueError::new_err("trust_below is for a handler of an output: name the output"));
        }
        let py = function.py();
        let settings = Settings { name, whole, peek, control };
        let handler = handler(function, settings, Arc::clone(&self.raised))?;
        self.change(py, move |stream| {
            let Some(port) = output.map(Port::from_number) else { return Ok(stream.add_handler(handler).0) };
            let added = match below {
                Some(below) => stream.add_output_handler_below(port, below, handler),
                None => stream.add_output_handler(port, handler),
            };
            added.map(|id| id.0).ok_or_else(|| no_port("output", port))
        })
    }

    #[pyo3(signature = (handler, timeout = SECONDS))]
    fn remove_handler(&self, py: Python<'_>, handler: u64, timeout: f64) -> PyResult<()> {
        let removed = self.change_later(py, timeout, move |stream, answers| {
            let removed = stream.remove_handler(HandlerId(handler), move |old| drop(answers.send(Ok(old))));
            removed.map_err(change_error)
        });
        removed.map(drop)
    }

    #[pyo3(signature = (
        handler, function, timeout = SECONDS, *, name = None, whole = Some(WHOLE), peek = None, control = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "named arguments of Python")]
    fn replace_handler(
        &self,
        handler: u64,
        function: Bound<'_, PyAny>,
        timeout: f64,
        name: Option<String>,
        whole: Option<usize>,
        peek: Option<usize>,
        control: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (py, id) = (function.py(), HandlerId(handler));
        let settings = Settings { name, whole, peek, control };
        let new = self::handler(function, settings, Arc::clone(&self.raised))?;
        let removed = self.change_later(py, timeout, move |stream, answers| {
            let replaced = stream.replace_handler(id, new, move |old| drop(answers.send(Ok(old))));
            replaced.map_err(change_error)
        });
        removed.map(drop)
    }

    #[pyo3(signature = (handler, message, timeout = SECONDS))]
    fn control<'py>(
        &self,
        handler: u64,
        message: &Bound<'py, PyAny>,
        timeout: f64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (py, message) = (message.py(), bytes_of(message)?);
        let answer = self.change_later(py, timeout, move |stream, answers| {
            let sent = stream.control_handler(HandlerId(handler), message, move |answer| {
                drop(answers.send(answer.map_err(handler_error)));
            });
            sent.map_err(change_error)
        })?;
        Ok(PyBytes::new(py, &answer))
    }

    fn options(&self, py: Python<'_>) -> PyResult<Vec<PythonOption>> {
        let options = self.change(py, |stream| Ok(stream.options()))?;
        Ok(options.into_iter().map(PythonOption::from).collect())
    }

    fn set_option(&self, py: Python<'_>, key: String, value: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        let value = option_value(value)?;
        self.change(py, move |stream| stream.set_option(&key, &value).map_err(option_error))
    }

    fn output_options(&self, py: Python<'_>, output: u64) -> PyResult<Vec<PythonOption>> {
        let port = Port::from_number(output);
        let options = self
            .change(py, move |stream| stream.output_options(port).ok_or_else(|| no_port("output", port)))?;
        Ok(options.into_iter().map(PythonOption::from).collect())
    }

    fn set_output_option(
        &self,
        py: Python<'_>,
        output: u64,
        key: String,
        value: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (port, value) = (Port::from_number(output), option_value(value)?);
        self.change(py, move |stream| stream.set_output_option(port, &key, &value).map_err(option_error))
    }

    fn set_trust(&self, py: Python<'_>, output: u64, trust: u8) -> PyResult<()> {
        let (port, trust) = (Port::from_number(output), values::trust(trust)?);
        self.change(
            py,
            move |stream| {
                if stream.set_trust(port, trust) { Ok(()) } else { Err(no_port("output", port)) }
            },
        )
    }

    fn start(&self) -> PyResult<()> {
        match self.taken()? {
            Taken::Runs(_) => Err(PyRuntimeError::new_err("the stream was started already")),
            Taken::Built(stream) => self.settle(|| start(stream)),
        }
    }

    fn stop(&self) -> PyResult<()> {
        self.running()?.stream.stop();
        Ok(())
    }

    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Status> {
        refuse_in_handler()?;
        let limit = timeout.map(limit_of).transpose()?;
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let running = self.running()?;
        loop {
            let left = until.map_or(LOOK, |until| until.saturating_duration_since(Instant::now()));
            if let Some(end) = py.detach(|| running.stream.wait_for(left.min(LOOK))) {
                return self.ended(&end);
            }
            py.check_signals()?;
            if left.is_zero() {
                return Err(PyTimeoutError::new_err("the stream goes on"));
            }
        }
    }

    #[pyo3(signature = (timeout = 10.0))]
    fn status(&self, py: Python<'_>, timeout: f64) -> PyResult<Status> {
        let limit = limit_of(timeout)?;
        let running = match &*self.state.lock() {
            State::Built(stream) => return Ok(Status::from(&stream.status())),
            State::Runs(running) => running.clone(),
            State::Busy => return Err(busy()),
            State::Failed(message) => return Err(failed(message)),
        };
        let status = py.detach(|| ask(&running, limit, |stream| Status::from(&stream.status())))?;
        Ok(status.unwrap_or_else(|| Status::from(&running.stream.wait().status)))
    }

    /// Descriptor for an event loop.
    fn fileno(&self) -> PyResult<RawFd> {
        Ok(self.running()?.events.as_raw_fd())
    }

    fn events(&self) -> PyResult<Vec<Event>> {
        let events = self.running()?.events;
        Ok(std::iter::from_fn(|| events.take()).map(Event::from).collect())
    }

    fn has_ended(&self) -> bool {
        match &*self.state.lock() {
            State::Built(_) | State::Busy => false,
            State::Runs(running) => running.stream.has_ended(),
            State::Failed(_) => true,
        }
    }
}

impl Stream {
    fn running(&self) -> PyResult<Running> {
        match &*self.state.lock() {
            State::Runs(running) => Ok(running.clone()),
            State::Busy => Err(busy()),
            State::Failed(message) => Err(failed(message)),
            State::Built(_) => Err(PyRuntimeError::new_err("the stream has not been started: call start()")),
        }
    }

    /// Changes the stream, on its thread if it runs.
    fn change<T: Send + 'static>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut wirepath_streams::Stream) -> PyResult<T> + Send + 'static,
    ) -> PyResult<T> {
        let running = match self.taken()? {
            Taken::Built(stream) => return self.change_built(stream, change),
            Taken::Runs(running) => running,
        };
        let answer = py.detach(|| ask(&running, ANSWER, change))?;
        answer.unwrap_or_else(|| Err(StreamError::new_err("the stream has ended")))
    }

    /// Makes a change that may wait for the end of a record, and returns what it sends.
    fn change_later<T: Send + 'static>(
        &self,
        py: Python<'_>,
        timeout: f64,
        change: impl FnOnce(&mut wirepath_streams::Stream, Answers<T>) -> PyResult<()> + Send + 'static,
    ) -> PyResult<T> {
        refuse_in_handler()?;
        let limit = limit_of(timeout)?;
        let (sender, mut receiver) = channel();
        let change = move |stream: &mut wirepath_streams::Stream| {
            let refused = sender.clone();
            // Nobody may wait for it any more.
            change(stream, sender).unwrap_or_else(|error| drop(refused.send(Err(error))));
        };
        match self.taken()? {
            Taken::Built(stream) => self.change_built(stream, |stream| {
                change(stream);
                Ok(())
            })?,
            Taken::Runs(running) => running.stream.with(change),
        }
        let end = Instant::now().checked_add(limit);
        loop {
            let left = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()));
            let waited = py.detach(|| {
                let receiver = &mut receiver; // a receiver may be lent to one thread, not shared
                receiver.recv_timeout(left.min(LOOK))
            });
            match waited {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Timeout) if left <= LOOK => {
                    return Err(PyTimeoutError::new_err(
                        "the change waits for the end of a record or for a handler; it is still made later",
                    ));
                }
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(StreamError::new_err(
                        "the stream has ended, or the handler was removed by another change",
                    ));
                }
            }
        }
    }

    /// The stream, for a change: one that has not been started is taken out until [`Stream::settle`].
    fn taken(&self) -> PyResult<Taken> {
        let mut state = self.state.lock();
        match &*state {
            State::Runs(running) => return Ok(Taken::Runs(running.clone())),
            State::Busy => return Err(busy()),
            State::Failed(message) => return Err(failed(message)),
            State::Built(_) => {}
        }
        match mem::replace(&mut *state, State::Busy) {
            State::Built(stream) => Ok(Taken::Built(stream)),
            _ => Err(busy()),
        }
    }

    /// Changes a stream that was [taken](Stream::taken).
    fn change_built<T>(
        &self,
        mut stream: Box<wirepath_streams::Stream>,
        change: impl FnOnce(&mut wirepath_streams::Stream) -> PyResult<T>,
    ) -> PyResult<T> {
        self.settle(|| {
            let answer = change(&mut stream);
            (State::Built(stream), answer)
        })
    }

    /// Does the work for which the stream was [taken](Stream::taken), and puts it back. A stream whose change
    /// panics may be anything: it has failed.
    fn settle<T>(&self, work: impl FnOnce() -> (State, PyResult<T>)) -> PyResult<T> {
        let (state, answer) = catch_panic(work).unwrap_or_else(|message| {
            let error = failed(&message);
            (State::Failed(message), Err(error))
        });
        *self.state.lock() = state;
        answer
    }

    /// The status of a stream that ended well; else the exception of a handler, or the stream's own error.
    fn ended(&self, end: &StreamEnd) -> PyResult<Status> {
        match &end.result {
            Ok(()) => Ok(Status::from(&end.status)),
            Err(wirepath_streams::StreamError::Stopped) => {
                Err(StreamStopped::new_err("the stream was stopped"))
            }
            Err(error) => {
                Err(self.raised.lock().take().unwrap_or_else(|| StreamError::new_err(error.to_string())))
            }
        }
    }
}

/// Starts a stream on a thread of its own. Returns it, or the stream as it was.
fn start(stream: Box<wirepath_streams::Stream>) -> (State, PyResult<()>) {
    let options = EngineOptions { threads: 1, pool_threads: 1, ..EngineOptions::default() };
    match Engine::start(options).and_then(|engine| Ok((engine, stream.events()?))) {
        Ok((engine, events)) => {
            let options = StreamOptions::with_pace_of(&stream);
            let stream = Arc::new(stream.start(&engine, options));
            (State::Runs(Running { stream, events, _engine: Arc::new(Thread(Some(engine))) }), Ok(()))
        }
        Err(error) => (State::Built(stream), Err(error.into())),
    }
}

/// Has the stream's thread answer; None if the stream has ended.
fn ask<T: Send + 'static>(
    running: &Running,
    limit: Duration,
    question: impl FnOnce(&mut wirepath_streams::Stream) -> T + Send + 'static,
) -> PyResult<Option<T>> {
    refuse_in_handler()?;
    let (sender, receiver) = channel();
    // Nobody may wait for it any more.
    running.stream.with(move |stream| drop(sender.send(question(stream))));
    match receiver.recv_timeout(limit) {
        Ok(answer) => Ok(Some(answer)),
        Err(RecvTimeoutError::Disconnected) => Ok(None),
        Err(RecvTimeoutError::Timeout) => {
            Err(PyTimeoutError::new_err("the stream's thread does not answer: a handler may hold it"))
        }
    }
}

fn limit_of(timeout: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(timeout)
        .map_err(|error| PyValueError::new_err(format!("invalid timeout: {error}")))
}

fn option_value(value: Option<Bound<'_, PyAny>>) -> PyResult<String> {
    value.map_or_else(|| Ok("none".to_owned()), |value| Ok(value.str()?.to_string()))
}
