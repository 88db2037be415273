//! Judge of the packets from a source: a pure function of their headers and arrival times.

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

/// Maximum interval between packets of the same burst.
const BURST_GAP_US: i64 = 1_000;

/// Quantile of transit times that counts as on time, and the number of bursts from which the quantile is
/// used.
const ON_TIME: f64 = 0.25;
const LEAST_BURSTS: u64 = 20;

/// Maximum difference between the first announced packet (`RTP-Info`) and the first received packet that
/// counts as loss.
const MOST_MISSING: u16 = 3_000;

/// Maximum number of packets held until the response to PLAY announces the first one.
const MOST_HELD: usize = 4_096;

/// Maximum number of recorded times to the first packet, for sessions that seek often.
const MOST_STARTS: usize = 1_000;

/// Received packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) header: Header,
    /// Length including the header.
    pub(crate) bytes: usize,
    /// Arrival time on the clock of the run.
    pub(crate) arrival_us: i64,
    /// Clock reference of the transport stream in the packet.
    pub(crate) reference: Option<Reference>,
}

/// Packet counts of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Packets without duplicates and strays.
    pub(crate) packets: u64,
    /// Bytes of these packets, including RTP headers.
    pub(crate) bytes: u64,
    /// Packets that were lost between received packets.
    pub(crate) lost: u64,
    /// Packets that the response to PLAY announced, before the first received packet.
    pub(crate) missing_at_start: u64,
    /// Packets received after a later packet.
    pub(crate) reordered: u64,
    /// Packets received again.
    pub(crate) duplicates: u64,
    /// Packets that do not belong to the source: other payload type, distant sequence number, or not RTP.
    pub(crate) strays: u64,
    /// Restarts of the source: another SSRC, or a jump of the sequence numbers.
    pub(crate) restarts: u64,
}

/// Changes that a packet makes, for live figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// Change of the number of lost packets; negative if the packet fills a gap.
    pub(crate) lost: i64,
    /// Lateness of the packet, if it begins a burst.
    pub(crate) lateness_us: Option<i64>,
    /// True if the player's buffer had run dry before the packet.
    pub(crate) underrun: bool,
}

/// Phase of a source.
#[derive(Debug)]
enum Phase {
    /// No packet is expected. Received packets are left over from before.
    Idle,
    /// PLAY was sent and is not answered yet; the packets are held.
    Asked(Vec<Packet>),
    Playing,
}

/// Burst that is being received.
#[derive(Clone, Copy, Debug)]
struct Burst {
    begin_media_us: i64,
    last_arrival_us: i64,
}

/// Judge of a source.
#[derive(Debug)]
pub(crate) struct Judge {
    payload_type: Option<u8>,
    hz: u32,
    /// Time from which lateness, bursts and underruns count.
    from_us: i64,
    phase: Phase,
    /// Sequence number of the first announced packet.
    announced: Option<u16>,
    /// Time at which PLAY was sent, until the first packet is received.
    requested_us: Option<i64>,
    /// Times from PLAY to the first packet.
    pub(crate) starts: Vec<i64>,
    ssrc: Option<u32>,
    sequence: Sequence,
    clock: MediaClock,
    pub(crate) pace: Pace,
    pub(crate) player: Player,
    burst: Option<Burst>,
    /// Arrival time of the first packet since PLAY. Transit times are relative to it, since a distribution
    /// resolves small times more finely.
    origin_us: Option<i64>,
    /// Arrival time minus media time of the first packet of each burst since PLAY: of all bursts, and of the
    /// bursts that count.
    transits: Distribution,
    counted_transits: Distribution,
    /// Smallest transit time that counted as on time since PLAY, known after [`LEAST_BURSTS`] bursts.
    on_time_us: Option<i64>,
    last_arrival_us: Option<i64>,
    last_transit_us: Option<i64>,
    jitter_us: f64,
    /// Lateness of all bursts except the bursts since the last PLAY.
    lateness: Distribution,
    /// Media time of each burst.
    pub(crate) bursts: Distribution,
    pub(crate) counts: Counts,
    pub(crate) clock_jumps: u64,
    pub(crate) longest_gap_us: i64,
    /// Numbers of expected and lost packets in the last report.
    reported: (u64, u64),
}

impl Judge {
    /// Judge of packets with this payload type (`None`: any) and clock rate, for a player with a buffer.
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

    /// The same judge, but lateness, bursts and underruns count only from this time on.
    pub(crate) fn judging_from(self, from_us: i64) -> Judge {
        Judge { from_us, ..self }
    }

    /// Notes that PLAY is sent. Packets are held until the response.
    pub(crate) fn ask(&mut self, now_us: i64) {
        (self.phase, self.requested_us) = (Phase::Asked(Vec::new()), Some(now_us));
    }

    /// Notes the response to PLAY, with the first sequence number if it was announced. Returns the changes by
    /// packets that arrived before the response.
    pub(crate) fn play(&mut self, announced: Option<u16>) -> Vec<Change> {
        let Phase::Asked(held) = std::mem::replace(&mut self.phase, Phase::Playing) else {
            return Vec::new();
        };
        self.announced = announced;
        held.iter().map(|packet| self.packet(packet)).collect()
    }

    /// Notes the end of playing: ended by the client, or by the source at the end of the media (`whole`).
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

    /// Transit time (arrival time minus media time) of a burst that is on time: at some time since PLAY, a
    /// quarter of the bursts were as early. The value never rises, so that a session that becomes permanently
    /// late counts as late.
    ///
    /// The earliest burst is not the reference: after a pause inside a burst, the rest of the burst looks
    /// like an early burst, and all other bursts would look late as long as the session plays.
    fn on_time_us(&self) -> Option<i64> {
        self.on_time_us.or_else(|| self.transits.quantile(ON_TIME))
    }

    /// Lateness of all bursts, relative to the bursts that were on time since the same PLAY.
    pub(crate) fn lateness(&self) -> &Distribution {
        &self.lateness
    }

    /// Arrival time of the last packet since PLAY.
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

    /// Returns whether a packet was sent before the PLAY that announced a later first packet.
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

    /// Judges the arrival time of a packet that was counted.
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
