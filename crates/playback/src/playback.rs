//! A playback: one source's trains to one UDP sink, each when it is due.

mod numbering;
mod progress;
mod task;

use std::net::UdpSocket;
use std::sync::Arc;

use wirepath_datapath::SendError;

use crate::engine::Mailbox;
use crate::source::{Cursor, TrainSource};
use crate::worker::Command;

pub use progress::Progress;
pub(crate) use task::{Outcome, PlaybackTask, RETRY_US, TRAINS_PER_TURN};

/// What a playback needs.
pub struct PlaybackOptions {
    /// Where trains come from.
    pub source: Arc<dyn TrainSource>,
    /// A UDP socket connected to the receiver.
    pub socket: UdpSocket,
    /// Size of the source's packets in bytes, headers counted.
    pub packet_size: u16,
    /// How much of the source leaves in one go, in microseconds: time is divided into bursts, counted from the start of the
    /// source, and what departs in one leaves when it begins.
    pub burst_us: u64,
    /// Told what happens; called on an engine thread, so it must not block.
    pub on_event: Box<dyn Fn(Event) + Send>,
}

/// What a playback tells on its own.
#[derive(Clone, Debug)]
pub enum Event {
    /// The asked range, or the source, has been sent to its end. The playback rests there.
    Finished,
    /// It cannot go on and is over.
    Failed(PlayError),
}

/// Why a playback cannot do what was asked, or cannot go on.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PlayError {
    /// A packet could not be sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The source has nothing there; the words say why.
    #[error("{0}")]
    Source(Arc<str>),
    /// The asked place is behind the end of the source.
    #[error("there is nothing at or after the asked place")]
    BeyondEnd,
    /// Another request took the place of this one before it was done.
    #[error("another request came before this one was done")]
    Superseded,
    /// The playback or its engine is over.
    #[error("the playback is over")]
    Over,
}

/// The first packet that a request to play leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Its RTP sequence number.
    pub sequence: u16,
    /// Its RTP timestamp.
    pub timestamp: u32,
    /// When it leaves, in microseconds from the start of the source.
    pub at_us: u64,
}

/// How this playback's RTP timestamps relate to time while it plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpClock {
    /// A time, in microseconds of CLOCK_MONOTONIC.
    pub at_us: u64,
    /// The RTP timestamp of a packet that leaves then.
    pub timestamp: u32,
}

/// Answer to a request, given on an engine thread; it must not block.
pub(crate) type Reply<T> = Box<dyn FnOnce(Result<T, PlayError>) + Send>;

/// A playback on an engine thread. It ends when this is dropped.
pub struct Playback {
    pub(crate) id: u64,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) reason: String,
}

impl Playback {
    /// Plays from a place (or from where it rests) up to the packet that leaves at `until_us` after the start of the source.
    /// The first request uses the headers stored in the source; after a request that names a place, later packets carry
    /// headers that go on where the last ones ended (RFC 2326 appendix B). The reply names the first packet.
    pub fn play(
        &self,
        from: Option<Cursor>,
        until_us: Option<u64>,
        reply: impl FnOnce(Result<Position, PlayError>) + Send + 'static,
    ) {
        let until_us = until_us.unwrap_or(u64::MAX);
        self.mailbox.send(Command::Play { id: self.id, from, until_us, reply: Box::new(reply) });
    }

    /// Rests after the train that is being sent. The reply gives the place of the next packet, as time from the start of the
    /// source in microseconds.
    pub fn pause(&self, reply: impl FnOnce(Result<u64, PlayError>) + Send + 'static) {
        self.mailbox.send(Command::Pause { id: self.id, reply: Box::new(reply) });
    }

    /// Why its first train was to leave by the data path that it began with, in words. What a route then could not do is among the
    /// [step-downs](wirepath_datapath::Support::step_downs).
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// What it did so far.
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }
}

impl Drop for Playback {
    fn drop(&mut self) {
        self.mailbox.send(Command::Stop { id: self.id });
    }
}
