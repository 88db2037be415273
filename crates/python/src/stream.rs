//! A stream: built, started, waited for.

use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyOSError, PyRuntimeError, PyTimeoutError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use wirepath_streams::engine::{Engine, EngineOptions};
use wirepath_streams::{
    Handler, Object, OutputOptions, RunningStream, StreamBuilder, StreamEnd, StreamEvents, StreamOptions,
    handler_name,
};

use crate::handler::{PythonHandler, Raised, refuse_in_handler};
use crate::record::bytes_of;
use crate::values::{self, Event, Framing, Status};

create_exception!(wirepath, StreamError, PyException, "A stream ended with an error.");
create_exception!(wirepath, StreamStopped, StreamError, "A stream was stopped.");

/// Time for which a change of a running stream waits for its thread.
const ANSWER: Duration = Duration::from_secs(10);

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
    /// For a moment, while the stream starts.
    Starts,
}

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
        let engine = self.0.take();
        // If there is no thread to be had, the closure is dropped here, and this waits.
        drop(thread::Builder::new().name("engine-end".to_owned()).spawn(move || drop(engine)));
    }
}

#[pymethods]
impl Stream {
    #[new]
    #[pyo3(signature = (*, order = "round-robin", pattern = "stripe"))]
    fn new(order: &str, pattern: &str) -> PyResult<Stream> {
        let builder =
            StreamBuilder::default().order(values::order(order)?).pattern(values::pattern(pattern)?);
        Ok(Stream { state: Mutex::new(State::Built(Box::new(builder.build()))), raised: Raised::default() })
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

    #[pyo3(signature = (function, *, name = None, whole = Some(WHOLE)))]
    fn handler(
        &self,
        function: Bound<'_, PyAny>,
        name: Option<String>,
        whole: Option<usize>,
    ) -> PyResult<()> {
        if !function.is_callable() {
            return Err(PyTypeError::new_err("a handler is a function of one argument, a record"));
        }
        let name = match name {
            Some(name) => name,
            None => {
                function.getattr("__name__").and_then(|name| name.extract()).unwrap_or("handler".to_owned())
            }
        };
        let name = handler_name(&name).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let (py, raised) = (function.py(), Arc::clone(&self.raised));
        let handler = PythonHandler { name, whole, function: function.unbind(), raised };
        self.change(py, move |stream| {
            stream.add_handler(Handler::Select(Box::new(handler)));
            Ok(())
        })
    }

    fn start(&self) -> PyResult<()> {
        let mut state = self.state.lock();
        let stream = match mem::replace(&mut *state, State::Starts) {
            State::Built(stream) => stream,
            other => {
                *state = other;
                return Err(PyRuntimeError::new_err("the stream was started already"));
            }
        };
        let options = EngineOptions { threads: 1, pool_threads: 1, ..EngineOptions::default() };
        let started = Engine::start(options).and_then(|engine| Ok((engine, stream.events()?)));
        match started {
            Ok((engine, events)) => {
                let stream = Arc::new(stream.start(&engine, StreamOptions::default()));
                let _engine = Arc::new(Thread(Some(engine)));
                *state = State::Runs(Running { stream, events, _engine });
                Ok(())
            }
            Err(error) => {
                *state = State::Built(stream);
                Err(error.into())
            }
        }
    }

    fn stop(&self) -> PyResult<()> {
        self.running()?.stream.stop();
        Ok(())
    }

    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Status> {
        refuse_in_handler()?;
        let limit = timeout.map(Duration::try_from_secs_f64).transpose();
        let limit = limit.map_err(|error| PyValueError::new_err(format!("invalid timeout: {error}")))?;
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
        let limit = Duration::try_from_secs_f64(timeout)
            .map_err(|error| PyValueError::new_err(format!("invalid timeout: {error}")))?;
        let running = match &*self.state.lock() {
            State::Built(stream) => return Ok(Status::from(&stream.status())),
            State::Runs(running) => running.clone(),
            State::Starts => return Err(PyRuntimeError::new_err("the stream is being started")),
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
        self.running().is_ok_and(|running| running.stream.has_ended())
    }
}

impl Stream {
    fn running(&self) -> PyResult<Running> {
        match &*self.state.lock() {
            State::Runs(running) => Ok(running.clone()),
            _ => Err(PyRuntimeError::new_err("the stream has not been started: call start()")),
        }
    }

    /// Changes the stream, on its thread if it runs.
    fn change<T: Send + 'static>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut wirepath_streams::Stream) -> PyResult<T> + Send + 'static,
    ) -> PyResult<T> {
        let running = match &mut *self.state.lock() {
            State::Built(stream) => return change(stream),
            State::Runs(running) => running.clone(),
            State::Starts => return Err(PyRuntimeError::new_err("the stream is being started")),
        };
        let answer = py.detach(|| ask(&running, ANSWER, change))?;
        answer.unwrap_or_else(|| Err(StreamError::new_err("the stream has ended")))
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

/// The descriptor that an object is or has; None if it has none.
fn descriptor_of(object: &Bound<'_, PyAny>) -> PyResult<Option<RawFd>> {
    if let Ok(descriptor) = object.extract() {
        return Ok(Some(descriptor));
    }
    if !object.hasattr("fileno")? {
        return Ok(None);
    }
    if object.hasattr("flush")? {
        object.call_method0("flush")?; // what a file of Python has buffered goes before what a stream writes
    }
    object.call_method0("fileno")?.extract().map(Some)
}

/// An object for a duplicate of a descriptor.
fn object(name: &str, descriptor: RawFd) -> PyResult<Object> {
    if descriptor < 0 {
        return Err(PyValueError::new_err(format!("{name}: invalid descriptor {descriptor}")));
    }
    // SAFETY: it is not -1. If nothing is open by this number, duplicating fails, and nothing else is done.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let object = descriptor.try_clone_to_owned().and_then(|descriptor| Object::from_fd(name, descriptor));
    object.map_err(|error| PyOSError::new_err((error.raw_os_error(), format!("{name}: {error}"))))
}
