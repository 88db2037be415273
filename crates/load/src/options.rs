//! Options of a run.

use std::net::IpAddr;
use std::time::Duration;

use crate::mix::Mix;
use crate::storm::Storm;
use crate::target::{Scheme, Target};

/// Maximum number of silently vanished sessions whose sockets are kept at the same time.
const MOST_SILENT: usize = 1_000;

/// Maximum duration of a ramp.
const LONGEST_RAMP: Duration = Duration::from_secs(u32::MAX as u64);

/// Lower transport of media over RTSP (RFC 2326 section 12.39).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// RTP and RTCP over UDP, with a pair of ports for each track.
    Udp,
    /// Interleaved with RTSP on the same connection (RFC 2326 section 10.12).
    Tcp,
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Assets, at least one, with the most popular first.
    pub targets: Vec<Target>,
    /// Distribution of sessions over the assets.
    pub mix: Mix,
    /// Number of concurrent sessions.
    pub sessions: usize,
    /// Number of sessions started per second.
    pub ramp: f64,
    /// Time from the start of the last session to the end of the run.
    pub duration: Duration,
    /// Time from the start of the last session until lateness, bursts and underruns count. Loss and failures
    /// always count.
    pub settle: Duration,
    /// Transport of media over RTSP.
    pub transport: Transport,
    /// Rate in bits per second at which assets that are not playlists are played over HTTP; `None` downloads
    /// them at full speed.
    pub rate: Option<u64>,
    /// Share of the sessions that are received and judged, chosen at random. The first session is always
    /// judged.
    pub sample: f64,
    /// Mean time between seeks of a session.
    pub seek_every: Option<Duration>,
    /// Mean time after which a session ends and another one starts.
    pub churn: Option<Duration>,
    /// Share of these sessions that end without closing the session.
    pub vanish: f64,
    /// Duration of media that a player buffers.
    pub buffer: Duration,
    /// Local addresses, used by the sessions in turn. If empty, the system chooses the address.
    pub from: Vec<IpAddr>,
    /// Local addresses of judged sessions. If empty, `from` is used.
    pub sample_from: Vec<IpAddr>,
    /// Storm of set-ups beside the sessions.
    pub storm: Option<Storm>,
    /// Number of threads.
    pub threads: usize,
    /// Time limit for each response, and for the first packet.
    pub timeout: Duration,
}

impl Options {
    /// Scheme of all assets.
    pub(crate) fn scheme(&self) -> Scheme {
        self.targets.first().map_or(Scheme::Rtsp, |target| target.scheme)
    }

    /// Returns whether there are sessions with a media clock. Only such sessions can be late; downloads have
    /// no media clock.
    pub fn has_clock(&self) -> bool {
        self.rate.is_some() || self.targets.iter().any(|target| !target.is_download())
    }

    /// Number of descriptors that sessions with a single track need, including silently vanished sessions.
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

    /// Maximum number of silently vanished sessions whose sockets are kept at the same time.
    pub(crate) fn most_silent(&self) -> usize {
        if self.vanish > 0.0 && self.churn.is_some() { self.sessions.min(MOST_SILENT) } else { 0 }
    }

    /// Time from the start of the first session until lateness counts.
    pub(crate) fn judged_after(&self) -> Duration {
        match self.settle {
            Duration::ZERO => Duration::ZERO,
            settle => self.ramp_time() + settle,
        }
    }

    /// Time from the start of the first session to the start of the last session.
    pub(crate) fn ramp_time(&self) -> Duration {
        let seconds = self.sessions.saturating_sub(1) as f64 / self.ramp;
        Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_RAMP).min(LONGEST_RAMP)
    }

    /// Returns whether sessions outside the sample share sockets, which needs several local addresses.
    pub(crate) fn shares_sockets(&self) -> bool {
        self.from.len() > 1 && self.from.iter().all(IpAddr::is_ipv4)
    }
}

#[cfg(test)]
impl Options {
    /// Options of a test: one session for one second, over UDP and judged.
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
