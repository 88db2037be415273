//! Options of a run.

use std::net::IpAddr;
use std::time::Duration;

use crate::mix::Mix;
use crate::storm::Storm;
use crate::target::{Scheme, Target};

/// Most sessions that vanished by silence whose sockets are kept at a time.
const MOST_SILENT: usize = 1_000;

/// Longest ramp.
const LONGEST_RAMP: Duration = Duration::from_secs(u32::MAX as u64);

/// Lower transport of media over RTSP (RFC 2326 section 12.39).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// RTP and RTCP over UDP, on a pair of ports for each track.
    Udp,
    /// Interleaved with RTSP on its connection (RFC 2326 section 10.12).
    Tcp,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Assets, the most popular first. At least one.
    pub targets: Vec<Target>,
    /// Distribution of sessions over them.
    pub mix: Mix,
    /// Sessions at a time.
    pub sessions: usize,
    /// Sessions started a second.
    pub ramp: f64,
    /// Time from the start of the last session to the end.
    pub duration: Duration,
    /// Time from the start of the last session until lateness, bursts and underruns count. Loss and failures
    /// always count.
    pub settle: Duration,
    /// Transport of media over RTSP.
    pub transport: Transport,
    /// Bits a second at which assets that are not playlists are played over HTTP; without, they are
    /// downloaded at full speed.
    pub rate: Option<u64>,
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
    /// Local addresses of judged sessions; those of `from` without any.
    pub sample_from: Vec<IpAddr>,
    /// Set-ups beside the sessions.
    pub storm: Option<Storm>,
    /// Threads.
    pub threads: usize,
    /// Time for each answer, and for the first packet.
    pub timeout: Duration,
}

impl Options {
    /// Scheme of the first asset; all have the same.
    pub(crate) fn scheme(&self) -> Scheme {
        self.targets.first().map_or(Scheme::Rtsp, |target| target.scheme)
    }

    /// Returns whether there are sessions with a media clock, by which they can be late: all but downloads.
    pub fn has_clock(&self) -> bool {
        self.rate.is_some() || self.targets.iter().any(|target| !target.is_download())
    }

    /// Descriptors that sessions with one track take, those included that vanished by silence.
    pub fn descriptors(&self) -> u64 {
        let sessions = self.sessions.saturating_add(self.most_silent()) as u64;
        if self.transport == Transport::Tcp || self.scheme() == Scheme::Http {
            return sessions;
        }
        let judged = ((sessions as f64 * self.sample).ceil() as u64).clamp(1, sessions.max(1));
        let pairs = if self.shares_sockets() {
            judged + (sessions - judged).div_ceil(self.from.len() as u64)
        } else {
            sessions
        };
        sessions.saturating_add(pairs.saturating_mul(2))
    }

    /// Most sessions that vanished by silence whose sockets are kept at a time.
    pub(crate) fn most_silent(&self) -> usize {
        if self.vanish > 0.0 && self.churn.is_some() { self.sessions.min(MOST_SILENT) } else { 0 }
    }

    /// Time from the first session's start until lateness counts.
    pub(crate) fn judged_after(&self) -> Duration {
        match self.settle {
            Duration::ZERO => Duration::ZERO,
            settle => self.ramp_time() + settle,
        }
    }

    /// Time from the first session's start to the last's.
    pub(crate) fn ramp_time(&self) -> Duration {
        let seconds = self.sessions.saturating_sub(1) as f64 / self.ramp;
        Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_RAMP).min(LONGEST_RAMP)
    }

    /// Returns whether sessions outside the sample share sockets: they have several addresses.
    pub(crate) fn shares_sockets(&self) -> bool {
        self.from.len() > 1 && self.from.iter().all(IpAddr::is_ipv4)
    }
}

#[cfg(test)]
impl Options {
    /// One session for one second, over UDP and judged, for tests.
    pub(crate) fn one_second_of(url: &str) -> Options {
        Options {
            targets: vec![Target::parse(url).unwrap()],
            mix: Mix::Even,
            sessions: 1,
            ramp: 1.0,
            duration: Duration::from_secs(1),
            settle: Duration::ZERO,
            transport: Transport::Udp,
            rate: None,
            sample: 1.0,
            seek_every: None,
            churn: None,
            vanish: 0.0,
            buffer: Duration::from_millis(200),
            from: Vec::new(),
            sample_from: Vec::new(),
            storm: None,
            threads: 1,
            timeout: Duration::from_secs(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_with_addresses_of_their_own_take_few_descriptors() {
        let one = Options::one_second_of("rtsp://127.0.0.1/a");
        let alone = Options { sessions: 10_000, sample: 0.01, ..one };
        assert_eq!(alone.descriptors(), 30_000);
        let from = (0..100).map(|last| IpAddr::from([127, 1, 0, last])).collect();
        assert_eq!(Options { from, ..alone.clone() }.descriptors(), 10_000 + 2 * (100 + 99));
        assert_eq!(Options { transport: Transport::Tcp, ..alone.clone() }.descriptors(), 10_000);
        let vanishing = Options { vanish: 0.1, churn: Some(Duration::from_secs(9)), ..alone.clone() };
        assert_eq!(vanishing.descriptors(), 33_000, "a thousand are silent");
        let http = vec![Target::parse("http://127.0.0.1/a").unwrap()];
        assert_eq!(Options { targets: http, ..alone.clone() }.descriptors(), 10_000);
        let endless = Options { ramp: 1e-300, ..alone.clone() };
        assert_eq!(endless.ramp_time(), LONGEST_RAMP);
        assert_eq!(alone.judged_after(), Duration::ZERO);
        let settling = Options { settle: Duration::from_secs(2), ramp: 1_000.0, ..alone };
        assert_eq!(settling.judged_after(), Duration::from_millis(11_999));
    }
}
