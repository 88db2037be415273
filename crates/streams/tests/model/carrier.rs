//! A stream, and who runs it: an engine, a thread of its own, or nobody for the moment.

use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use wirepath_streams::{Engine, RunningStream, Stream, StreamEnd, StreamOptions, StreamStatus};

use crate::PATIENCE;

pub(crate) enum Carrier {
    /// The asynchronous engine.
    Engine(RunningStream),
    /// The synchronous one: it cannot be stopped.
    Thread(JoinHandle<StreamEnd>),
    /// Stopped, and to be started again.
    Held(Box<Stream>),
    /// It ended when it was to be stopped.
    Over(Box<StreamEnd>),
    /// Between two of these.
    Nowhere,
}

impl Carrier {
    /// Stops it, so that it can be started again. False if nobody can.
    pub(crate) fn stop(&mut self) -> bool {
        match std::mem::replace(self, Carrier::Nowhere) {
            Carrier::Engine(running) => {
                *self = match running.take_back() {
                    Ok(stream) => Carrier::Held(Box::new(stream)),
                    Err(end) => Carrier::Over(end),
                };
                true
            }
            other => {
                *self = other;
                false
            }
        }
    }

    /// Starts it on an engine, if it is stopped.
    pub(crate) fn start(&mut self, engine: &Engine) {
        self.replace_held(|stream| Carrier::Engine(engine.start_stream(*stream, StreamOptions::default())));
    }

    /// Starts it on a thread of its own, if it is stopped.
    pub(crate) fn start_on_thread(&mut self) {
        self.replace_held(|mut stream| {
            Carrier::Thread(std::thread::spawn(move || StreamEnd {
                result: stream.run(),
                status: stream.status(),
            }))
        });
    }

    fn replace_held(&mut self, into: impl FnOnce(Box<Stream>) -> Carrier) {
        *self = match std::mem::replace(self, Carrier::Nowhere) {
            Carrier::Held(stream) => into(stream),
            other => other,
        };
    }

    pub(crate) fn is_held(&self) -> bool {
        matches!(self, Carrier::Held(_))
    }

    /// Whether it can be asked, and changed.
    pub(crate) fn listens(&self) -> bool {
        matches!(self, Carrier::Held(_) | Carrier::Engine(_))
    }

    /// Does something with the stream between two turns; None if it is over.
    pub(crate) fn ask<T: Send + 'static>(
        &mut self,
        act: impl FnOnce(&mut Stream) -> T + Send + 'static,
    ) -> Option<T> {
        match self {
            Carrier::Held(stream) => Some(act(stream)),
            Carrier::Engine(running) => {
                let (tell, told) = channel();
                running.with(move |stream| tell.send(act(stream)).unwrap());
                match told.recv_timeout(PATIENCE) {
                    Ok(answer) => Some(answer),
                    Err(_) => {
                        assert!(running.wait_for(PATIENCE).is_some(), "the engine does not answer");
                        None
                    }
                }
            }
            Carrier::Thread(_) | Carrier::Over(_) | Carrier::Nowhere => None,
        }
    }

    pub(crate) fn status(&mut self) -> Option<StreamStatus> {
        self.ask(|stream| stream.status())
    }

    /// Ends it where it is, with what it has; it must run on an engine.
    pub(crate) fn abandon(&self) {
        if let Carrier::Engine(running) = self {
            running.stop();
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        match self {
            Carrier::Engine(running) => running.has_ended(),
            Carrier::Thread(thread) => thread.is_finished(),
            Carrier::Over(_) => true,
            Carrier::Held(_) | Carrier::Nowhere => false,
        }
    }

    /// How it ended; it must have.
    pub(crate) fn end(self) -> StreamEnd {
        match self {
            Carrier::Engine(running) => running.wait(),
            Carrier::Thread(thread) => thread.join().unwrap(),
            Carrier::Over(end) => *end,
            Carrier::Held(_) | Carrier::Nowhere => panic!("it has not been started"),
        }
    }
}
