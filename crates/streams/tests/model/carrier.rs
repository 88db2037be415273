//! A stream and its runner: an engine, a thread of its own, or none at the moment.

use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use wirepath_streams::{RunningStream, Stream, StreamEnd, StreamStatus};

use crate::PATIENCE;
use crate::dice::{Dice, Tally};
use crate::engines::{Engines, any_rate};

pub(crate) enum Carrier {
    /// The asynchronous engine.
    Engine {
        running: RunningStream,
        /// The engine's classes share processor time.
        shares: bool,
    },
    /// The synchronous engine; the stream cannot be stopped.
    Thread(JoinHandle<StreamEnd>),
    /// The stream was stopped and is to be started again.
    Held(Box<Stream>),
    /// The stream ended before it could be stopped.
    Over(Box<StreamEnd>),
    /// Transitional state.
    Nowhere,
}

impl Carrier {
    /// Stops the stream, if possible, or starts it: on an engine, or if `may_leave`, on a thread of its own.
    pub(crate) fn stop_or_start(
        &mut self,
        engines: &Engines,
        may_leave: bool,
        dice: &mut Dice,
        tally: &mut Tally,
    ) {
        if !self.is_held() {
            tally.add("operation: stop", u64::from(self.stop()));
        } else if may_leave && dice.one_in(8) {
            tally.note("operation: start on a thread");
            self.start_on_thread();
        } else {
            self.start(engines, dice, tally);
        }
    }

    /// Stops the stream; returns false if it cannot be stopped.
    fn stop(&mut self) -> bool {
        match std::mem::replace(self, Carrier::Nowhere) {
            Carrier::Engine { running, .. } => {
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

    /// Starts a stopped stream on an engine, without a rate.
    pub(crate) fn start(&mut self, engines: &Engines, dice: &mut Dice, tally: &mut Tally) {
        if let Carrier::Engine { running, .. } = self {
            running.set_rate(None);
        }
        self.replace_held(|stream| {
            let (running, shares) = engines.run(*stream, dice, tally);
            Carrier::Engine { running, shares }
        });
    }

    fn start_on_thread(&mut self) {
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

    fn is_held(&self) -> bool {
        matches!(self, Carrier::Held(_))
    }

    /// Changes the rate of the stream, or removes it.
    pub(crate) fn change_rate(&self, dice: &mut Dice, tally: &mut Tally) {
        if let Carrier::Engine { running, .. } = self {
            let rate = dice.one_in(2).then(|| any_rate(dice));
            running.set_rate(rate);
            tally.note(if rate.is_some() { "operation: set a rate" } else { "operation: take a rate away" });
        }
    }

    /// Returns whether the stream can be queried and changed.
    pub(crate) fn listens(&self) -> bool {
        matches!(self, Carrier::Held(_) | Carrier::Engine { .. })
    }

    /// Calls a function with the stream between two turns; None if the stream has ended.
    pub(crate) fn ask<T: Send + 'static>(
        &mut self,
        act: impl FnOnce(&mut Stream) -> T + Send + 'static,
    ) -> Option<T> {
        match self {
            Carrier::Held(stream) => Some(act(stream)),
            Carrier::Engine { running, .. } => {
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

    /// Stops the stream in its current state; it must run on an engine.
    pub(crate) fn abandon(&self) {
        if let Carrier::Engine { running, .. } = self {
            running.stop();
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        match self {
            Carrier::Engine { running, .. } => running.has_ended(),
            Carrier::Thread(thread) => thread.is_finished(),
            Carrier::Over(_) => true,
            Carrier::Held(_) | Carrier::Nowhere => false,
        }
    }

    /// End of the stream, which must have ended.
    pub(crate) fn end(self) -> StreamEnd {
        match self {
            Carrier::Engine { running, shares } => {
                let end = running.wait();
                let is_measured = end.status.processor_time.is_some();
                assert!(!shares || is_measured || end.result.is_err(), "its turns were not measured");
                end
            }
            Carrier::Thread(thread) => thread.join().unwrap(),
            Carrier::Over(end) => *end,
            Carrier::Held(_) | Carrier::Nowhere => panic!("it has not been started"),
        }
    }
}
