//! Options of a run.

use std::net::IpAddr;
use std::time::Duration;

use crate::mix::Mix;
use crate::target::Target;
use crate::transport::Transport;

/// A run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Assets, the most popular first. At least one.
    pub targets: Vec<Target>,
    /// How sessions are spread over them.
    pub mix: Mix,
    /// Sessions at a time.
    pub sessions: usize,
    /// Sessions started a second.
    pub ramp: f64,
    /// Time from the start of the last session to the end.
    pub duration: Duration,
    /// Transport of media.
    pub transport: Transport,
    /// Share of the sessions that are received and judged, chosen at random. The first one always is.
    pub sample: f64,
    /// Mean time between seeks of a session.
    pub seek_every: Option<Duration>,
    /// Mean time after which a session ends and another begins.
    pub churn: Option<Duration>,
    /// Share of those that end without a word.
    pub vanish: f64,
    /// Media that a player holds back.
    pub buffer: Duration,
    /// Local addresses, which sessions use in turn; the system's choice without any.
    pub from: Vec<IpAddr>,
    /// Threads.
    pub threads: usize,
    /// Time for each answer, and for the first packet.
    pub timeout: Duration,
}
