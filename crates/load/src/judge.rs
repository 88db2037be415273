//! Judgement of the packets of one source: a pure function of their headers and times of arrival.

mod clock;
mod pace;
mod sequence;

use wirepath_media::rtcp::Reception;
use wirepath_media::rtp::Header;

use crate::distribution::Distribution;
use crate::player::Player;
use clock::MediaClock;
pub use pace::LEAST_PACE;
use pace::Pace;
pub(crate) use pace::Reference;
use sequence::{Place, Sequence};

/// Packets that arrive closer to each other than this are of one burst.
const BURST_GAP_US: i64 = 1_000;

/// Quantile of transit times that counts as on time, and the bursts from which on it does.
const ON_TIME: f64 = 0.25;
const LEAST_BURSTS: u64 = 20;

/// Largest difference between the first packet announced (`RTP-Info`) and the first that came which is taken
/// for loss.
const MOST_MISSING: u16 = 3_000;

/// Packets held back until the answer to PLAY says which is the first.
const MOST_HELD: usize = 4_096;

/// Times to the first packet that are kept, of a session that seeks on and on.
const MOST_STARTS: usize = 1_000;

/// A packet that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) header: Header,
    /// Length with the header.
    pub(crate) bytes: usize,
    /// Time of arrival on the run's clock.
    pub(crate) arrival_us: i64,
    /// Clock reference of the transport stream that it carries.
    pub(crate) reference: Option<Reference>,
}

/// Counts of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Packets, without duplicates and strays.
    pub(crate) packets: u64,
    /// Bytes of those, RTP headers included.
    pub(crate) bytes: u64,
    /// Packets that never came, between others that did.
    pub(crate) lost: u64,
    /// Packets that the answer to PLAY announced before the first that came.
    pub(crate) missing_at_start: u64,
    /// Packets that came behind later ones.
    pub(crate) reordered: u64,
    /// Packets that came again.
    pub(crate) duplicates: u64,
    /// Packets that are not of the source: other payload type, far sequence number, no RTP.
    pub(crate) strays: u64,
    /// New starts: another SSRC, or a jump of the sequence numbers.
    pub(crate) restarts: u64,
}

/// Change by one packet, for those who watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// Packets lost more, or fewer.
    pub(crate) lost: i64,
    /// Lateness, if the packet begins a burst.
    pub(crate) lateness_us: Option<i64>,
    /// The player's buffer had run dry.
    pub(crate) underrun: bool,
}

/// Phase of a source.
#[derive(Debug)]
enum Phase {
    /// No packet is expected: those that come are left from before.
    Idle,
    /// PLAY was asked for and not answered.
    Asked(Vec<Packet>),
    Playing,
}

/// Burst that is arriving.
#[derive(Clone, Copy, Debug)]
struct Burst {
    begin_media_us: i64,
    last_arrival_us: i64,
}

/// Judge of one source.
#[derive(Debug)]
pub(crate) struct Judge {
    payload_type: Option<u8>,
    hz: u32,
    /// Time from which lateness, bursts and underruns count.
    from_us: i64,
    phase: Phase,
    /// First packet announced.
    announced: Option<u16>,
    /// Time at which PLAY was sent, until the first packet came.
    requested_us: Option<i64>,
    /// Times from PLAY to the first packet.
    pub(crate) starts: Vec<i64>,
    ssrc: Option<u32>,
    sequence: Sequence,
    clock: MediaClock,
    pub(crate) pace: Pace,
    pub(crate) player: Player,
    burst: Option<Burst>,
    /// Arrival of the first packet since PLAY, from which transits are told: a distribution tells small times
    /// apart better than great ones.
    origin_us: Option<i64>,
    /// Arrival less media time of the first packets of bursts, since PLAY; and of those of them that count.
    transits: Distribution,
    counted_transits: Distribution,
    /// Least time that was on time since PLAY, from [`LEAST_BURSTS`] on.
    on_time_us: Option<i64>,
    last_arrival_us: Option<i64>,
    last_transit_us: Option<i64>,
    jitter_us: f64,
    /// Lateness of all bursts but those since the last PLAY.
    lateness: Distribution,
    /// Media time of bursts.
    pub(crate) bursts: Distribution,
    pub(crate) counts: Counts,
    pub(crate) clock_jumps: u64,
    pub(crate) longest_gap_us: i64,
    /// Packets expected and lost at the last report.
    reported: (u64, u64),
}

impl Judge {
    /// A judge of packets of this payload type (any, without one) and clock rate, for a player with a buffer.
    pub(crate) fn new(payload_type: Option<u8>, hz: u32, buffer_us: i64) -> Judge {
        Judge {
            payload_type,
            hz,
            from_us: i64::MIN,
            phase: Phase::Idle,
            announced: None,
            requested_us: None,
            starts: Vec::new(),
            ssrc: None,
            sequence: Sequence::default(),
            clock: MediaClock::new(hz),
            pace: Pace::default(),
            player: Player::new(buffer_us),
            burst: None,
            origin_us: None,
            transits: Distribution::default(),
            counted_transits: Distribution::default(),
            on_time_us: None,
            last_arrival_us: None,
            last_transit_us: None,
            jitter_us: 0.0,
            lateness: Distribution::default(),
            bursts: Distribution::default(),
            counts: Counts::default(),
            clock_jumps: 0,
            longest_gap_us: 0,
            reported: (0, 0),
        }
    }

    /// The same judge, for whom lateness, bursts and underruns count from this time on.
    pub(crate) fn judging_from(self, from_us: i64) -> Judge {
        Judge { from_us, ..self }
    }

    /// PLAY is sent: packets are held until its answer.
    pub(crate) fn ask(&mut self, now_us: i64) {
        (self.phase, self.requested_us) = (Phase::Asked(Vec::new()), Some(now_us));
    }

    /// PLAY is answered, with the first sequence number or without. Answers the changes by packets that came
    /// before the answer.
    pub(crate) fn play(&mut self, announced: Option<u16>) -> Vec<Change> {
        let Phase::Asked(held) = std::mem::replace(&mut self.phase, Phase::Playing) else {
            return Vec::new();
        };
        self.announced = announced;
        held.iter().map(|packet| self.packet(packet)).collect()
    }

    /// The playing ends at this time: by the client, or by the source at the end of the media (`whole`).
    pub(crate) fn stop(&mut self, now_us: i64, whole: bool) {
        if !matches!(std::mem::replace(&mut self.phase, Phase::Idle), Phase::Playing) {
            return;
        }
        if !whole {
            self.player.cut(now_us);
            if let Some(last) = self.last_arrival_us {
                self.longest_gap_us = self.longest_gap_us.max(now_us - last);
            }
        }
        self.counts.missing_at_start += self.missing_at_start();
        self.clock_jumps += self.clock.jumps;
        if let Some(on_time) = self.on_time_us() {
            self.lateness.add_later_than(&std::mem::take(&mut self.counted_transits), on_time);
        }
        (self.transits, self.on_time_us, self.origin_us) = (Distribution::default(), None, None);
        self.player.rewind();
        self.pace.rewind();
        (self.sequence, self.clock) = (Sequence::default(), MediaClock::new(self.hz));
        (self.burst, self.last_arrival_us, self.last_transit_us) = (None, None, None);
        self.announced = None;
    }

    /// Judges a packet.
    pub(crate) fn packet(&mut self, packet: &Packet) -> Change {
        match &mut self.phase {
            Phase::Idle => return Change::default(),
            Phase::Asked(held) => {
                if held.len() < MOST_HELD {
                    held.push(*packet);
                }
                return Change::default();
            }
            Phase::Playing => {}
        }
        if self.payload_type.is_some_and(|expected| expected != packet.header.payload_type) {
            self.counts.strays += 1;
            return Change::default();
        }
        if self.is_from_before(packet.header.sequence) {
            return Change::default();
        }
        self.follow_source(packet.header.ssrc);
        let place = self.sequence.place(packet.header.sequence);
        self.count(place, packet)
    }

    /// Arrival less media time of a burst that is on time: a quarter of the bursts until some time since PLAY were
    /// as early. It never rises, so that a session that gets late for good is late.
    ///
    /// It is not that of the earliest one: after a pause inside a burst the rest of it looks like an early burst,
    /// and all others would look late for as long as the session plays.
    fn on_time_us(&self) -> Option<i64> {
        self.on_time_us.or_else(|| self.transits.quantile(ON_TIME))
    }

    /// Lateness of all bursts: how much later than those on time since their PLAY.
    pub(crate) fn lateness(&self) -> &Distribution {
        &self.lateness
    }

    /// Arrival of the last packet since PLAY.
    pub(crate) fn last_arrival_us(&self) -> Option<i64> {
        self.last_arrival_us
    }

    /// Contents of a report block about this source; `None` before its first packet.
    pub(crate) fn reception(&mut self) -> Option<(u32, Reception)> {
        let (ssrc, highest_sequence) = (self.ssrc?, self.sequence.highest()?);
        let expected = self.counts.packets + self.counts.lost;
        let (expected_before, lost_before) =
            std::mem::replace(&mut self.reported, (expected, self.counts.lost));
        let interval = expected.saturating_sub(expected_before).max(1);
        let fraction = 256 * self.counts.lost.saturating_sub(lost_before) / interval;
        let lost = self.counts.lost as i64 - self.counts.duplicates as i64;
        let reception = Reception {
            fraction_lost: fraction.min(255) as u8,
            cumulative_lost: lost.clamp(i32::MIN.into(), i32::MAX.into()) as i32,
            highest_sequence,
            jitter: (self.jitter_us * f64::from(self.hz) / 1e6) as u32,
            last_report: 0,
            delay_since: 0,
        };
        Some((ssrc, reception))
    }

    /// Returns whether a packet was sent before the PLAY that announced its first.
    fn is_from_before(&self, sequence: u16) -> bool {
        let behind = self.announced.map_or(0, |first| first.wrapping_sub(sequence));
        self.sequence.first().is_none() && (1..=MOST_MISSING).contains(&behind)
    }

    fn missing_at_start(&self) -> u64 {
        let missing = self.announced.zip(self.sequence.first()).map(|(first, came)| came.wrapping_sub(first));
        missing.filter(|missing| *missing <= MOST_MISSING).map_or(0, u64::from)
    }

    fn follow_source(&mut self, ssrc: u32) {
        if self.ssrc.replace(ssrc).is_some_and(|before| before != ssrc) {
            self.counts.restarts += 1;
            self.sequence = Sequence::default();
        }
    }

    fn count(&mut self, place: Place, packet: &Packet) -> Change {
        let lost = match place {
            Place::Ahead(gap) => gap as i64,
            Place::Before(gap) => {
                self.counts.reordered += 1;
                gap as i64
            }
            Place::Late => {
                self.counts.reordered += 1;
                -1
            }
            Place::Restart => {
                self.counts.restarts += 1;
                0
            }
            Place::Duplicate => {
                self.counts.duplicates += 1;
                return Change::default();
            }
            Place::Stray => {
                self.counts.strays += 1;
                return Change::default();
            }
        };
        self.counts.packets += 1;
        self.counts.bytes += packet.bytes as u64;
        self.counts.lost = self.counts.lost.saturating_add_signed(lost);
        let in_order = matches!(place, Place::Ahead(_) | Place::Restart);
        let (lateness_us, underrun) = self.time(packet, in_order);
        Change { lost, lateness_us, underrun }
    }

    /// Judges the time of a packet that was counted.
    fn time(&mut self, packet: &Packet, in_order: bool) -> (Option<i64>, bool) {
        let Packet { header, arrival_us, .. } = *packet;
        if let Some(asked) = self.requested_us.take()
            && self.starts.len() < MOST_STARTS
        {
            self.starts.push(arrival_us - asked);
        }
        let media_us = self.clock.time_us(header.timestamp, header.marker, arrival_us);
        let counts = arrival_us >= self.from_us;
        let underrun = self.player.packet(media_us, arrival_us) && counts;
        if !counts {
            self.player.forgive();
        }
        if let Some(reference) = packet.reference.filter(|_| in_order) {
            self.pace.observe(reference, arrival_us, counts);
        }
        let transit_us = arrival_us - *self.origin_us.get_or_insert(arrival_us) - media_us;
        if let Some(last) = self.last_transit_us.replace(transit_us) {
            // RFC 3550 section 6.4.1.
            self.jitter_us += ((transit_us - last).abs() as f64 - self.jitter_us) / 16.0;
        }
        if let Some(last) = self.last_arrival_us.replace(arrival_us)
            && counts
        {
            self.longest_gap_us = self.longest_gap_us.max(arrival_us - last);
        }
        if !in_order || self.continues_burst(arrival_us) {
            return (None, underrun);
        }
        if let Some(before) =
            self.burst.replace(Burst { begin_media_us: media_us, last_arrival_us: arrival_us })
            && counts
        {
            self.bursts.add((media_us - before.begin_media_us).max(0));
        }
        self.transits.add(transit_us);
        if self.transits.count() >= LEAST_BURSTS {
            let quantile = self.transits.quantile(ON_TIME);
            self.on_time_us = self.on_time_us.map_or(quantile, |least| quantile.min(Some(least)));
        }
        if counts {
            self.counted_transits.add(transit_us);
        }
        let lateness_us = self.on_time_us().map(|on_time| (transit_us - on_time).max(0));
        (lateness_us, underrun)
    }

    fn continues_burst(&mut self, arrival_us: i64) -> bool {
        let Some(burst) = &mut self.burst else { return false };
        let continues = arrival_us - burst.last_arrival_us < BURST_GAP_US;
        if continues {
            burst.last_arrival_us = arrival_us;
        }
        continues
    }
}

#[cfg(test)]
mod tests;
