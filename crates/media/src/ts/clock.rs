//! Departures of packets, interpolated between clock references (ISO/IEC 13818-1 section 2.4.2).
//!
//! Packets are numbered from 0 through the file. Time is in ticks of 27 MHz since the departure of the first
//! packet. Packets between two references are spread evenly. Packets before the first reference have the rate
//! of the first interval, packets after the last reference that of the last. Time never goes backwards: if
//! the references do, time continues at the previous rate.

use std::collections::VecDeque;

use super::packet::{PACKET_LENGTH, Pcr, TICKS_PER_SECOND};

/// Rate assumed without two usable references: 8 Mb/s.
pub const NOMINAL_TICKS_PER_PACKET: u64 = PACKET_LENGTH as u64 * 8 * TICKS_PER_SECOND / 8_000_000;

/// Interval between references that is always accepted, once a rate is known. The standard allows 0.1 s;
/// files with gaps or idle programmes have intervals of seconds.
const BELIEVED_STEP: u64 = 10 * TICKS_PER_SECOND;

/// Longest interval that is accepted if it fits the bytes between the references, or if no rate is known.
const LONGEST_STEP: u64 = 60 * TICKS_PER_SECOND;

/// Factor by which an interval may exceed the interval that the previous rate predicts.
const SLOWDOWN: u64 = 4;

/// Least ticks of a packet (10 Gb/s). A clock with fewer is taken for one that stands still.
const FEWEST_TICKS_PER_PACKET: u64 = 4;

/// Factor by which packets may be faster than the average of all before, and the bounds of the resulting
/// limit: 100 Mb/s is always accepted, more than 400 Mb/s never. A clock that makes packets faster than this
/// for longer than a burst stands still or nearly so.
const SPEEDUP: u64 = 8;
const ALWAYS_BELIEVED: u64 = ticks_per_packet(100_000_000);
const NEVER_BELIEVED: u64 = ticks_per_packet(400_000_000);

/// Packets in a row that may be faster than this limit (4 MiB): a large picture between two references.
const BURST_PACKETS: u64 = (4 << 20) / PACKET_LENGTH as u64;

const fn ticks_per_packet(bits_per_second: u64) -> u64 {
    PACKET_LENGTH as u64 * 8 * TICKS_PER_SECOND / bits_per_second
}

/// Consecutive packets that depart at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// First packet.
    pub first: u64,
    /// Packet after the last.
    pub end: u64,
    /// True if the clock was discontinuous at the first packet.
    pub discontinuity: bool,
    /// Origin of the rate: `first`, or a packet before it.
    origin: Instant,
    rate: Rate,
}

/// Rate: ticks for a number of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    ticks: u64,
    packets: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Instant {
    packet: u64,
    departure: u64,
}

impl Stretch {
    /// Departure of a packet of the stretch, or of its end, in ticks of 27 MHz.
    #[inline]
    pub fn departure(&self, packet: u64) -> u64 {
        self.origin.departure.saturating_add(self.rate.ticks_for(packet - self.origin.packet))
    }
}

impl Rate {
    const NOMINAL: Self = Self { ticks: NOMINAL_TICKS_PER_PACKET, packets: 1 };

    #[inline]
    fn ticks_for(self, packets: u64) -> u64 {
        match packets.checked_mul(self.ticks) {
            Some(product) => product / self.packets,
            None => (u128::from(packets) * u128::from(self.ticks) / u128::from(self.packets))
                .try_into()
                .unwrap_or(u64::MAX),
        }
    }
}

/// Turns clock references into stretches: in order and without gaps, from packet 0 on.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    state: State,
    stretches: VecDeque<Stretch>,
}

#[derive(Clone, Debug)]
enum State {
    /// Fewer than two usable references so far: nothing can be timed.
    Unrated {
        last: Option<(u64, Pcr)>,
        discontinuities: Vec<u64>,
    },
    Rated(Rated),
}

#[derive(Clone, Debug)]
struct Rated {
    rate: Rate,
    /// Packet of the last reference, and its departure.
    anchor: Instant,
    pcr: Pcr,
    /// End of the last stretch.
    end: Instant,
    /// True if the clock is discontinuous at `end`.
    discontinuity: bool,
    /// Remaining packets of a burst that may exceed the accepted rate.
    burst: u64,
    /// True while the clock is ignored because packets were too fast.
    too_fast: bool,
}

impl Default for State {
    fn default() -> Self {
        Self::Unrated { last: None, discontinuities: Vec::new() }
    }
}

/// Interval between a reference and the one before.
enum Step {
    Took(u64),
    /// The clock stands still.
    Stands,
    Broke,
}

impl Clock {
    /// Clock without references.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the reference in `packet`; `flagged` if the packet has the discontinuity indicator. Packets have
    /// to come in order. Returns whether the clock was discontinuous here.
    pub fn observe(&mut self, packet: u64, pcr: Pcr, flagged: bool) -> bool {
        match &mut self.state {
            State::Unrated { last: last @ None, .. } => {
                *last = Some((packet, pcr));
                false
            }
            State::Unrated { last: Some((since, before)), discontinuities } => {
                let packets = packet - *since;
                match judge(pcr, *before, flagged, packets, None) {
                    Step::Stands => false,
                    Step::Broke => {
                        discontinuities.push(packet);
                        (*since, *before) = (packet, pcr);
                        true
                    }
                    Step::Took(ticks) if packets > BURST_PACKETS + ticks / NEVER_BELIEVED => false,
                    Step::Took(ticks) => {
                        self.start(Rate { ticks, packets }, packet, pcr);
                        false
                    }
                }
            }
            State::Rated(rated) => {
                let (stretch, broke) = rated.observe(packet, pcr, flagged);
                self.stretches.extend(stretch);
                broke
            }
        }
    }

    /// Times all packets before `end` at the last known rate, without waiting for another reference. Returns
    /// whether a rate is known; otherwise [`NOMINAL_TICKS_PER_PACKET`] is assumed.
    pub fn extend(&mut self, end: u64) -> bool {
        let known = match self.state {
            State::Unrated { last, .. } => {
                let (_, pcr) = last.unwrap_or((0, Pcr::new(0)));
                self.start(Rate::NOMINAL, last.map_or(end, |(packet, _)| packet), pcr);
                false
            }
            State::Rated(_) => true,
        };
        if let State::Rated(rated) = &mut self.state {
            self.stretches.extend(rated.extend(end));
        }
        known
    }

    /// Removes and returns the next stretch, in the order of packets.
    pub fn next_stretch(&mut self) -> Option<Stretch> {
        self.stretches.pop_front()
    }

    /// Bytes of heap memory that the clock holds.
    pub fn held_bytes(&self) -> usize {
        let discontinuities = match &self.state {
            State::Unrated { discontinuities, .. } => discontinuities.capacity(),
            State::Rated(_) => 0,
        };
        self.stretches.capacity() * size_of::<Stretch>() + discontinuities * size_of::<u64>()
    }

    /// Shrinks the queue after a long look-ahead.
    pub fn shrink(&mut self) {
        crate::queue::shrink(&mut self.stretches);
    }

    /// First packet that cannot be timed yet.
    pub fn end(&self) -> u64 {
        match &self.state {
            State::Unrated { .. } => 0,
            State::Rated(rated) => rated.end.packet,
        }
    }

    /// Packet of the last reference that was used.
    pub fn last_reference(&self) -> Option<u64> {
        match &self.state {
            State::Unrated { last, .. } => last.map(|(packet, _)| packet),
            State::Rated(rated) => Some(rated.anchor.packet),
        }
    }

    /// Starts timing with the first known rate, which holds from packet 0 on, across all discontinuities so
    /// far.
    fn start(&mut self, rate: Rate, packet: u64, pcr: Pcr) {
        let State::Unrated { discontinuities, .. } = std::mem::take(&mut self.state) else { return };
        let discontinuity = discontinuities.last() == Some(&packet);
        let mut first = 0;
        for end in discontinuities.into_iter().filter(|&end| end < packet).chain([packet]) {
            if first < end {
                let origin = Instant::default();
                self.stretches.push_back(Stretch { first, end, discontinuity: first > 0, origin, rate });
            }
            first = end;
        }
        let end = Instant { packet, departure: rate.ticks_for(packet) };
        let (burst, too_fast) = (BURST_PACKETS, false);
        self.state = State::Rated(Rated { rate, anchor: end, pcr, end, discontinuity, burst, too_fast });
    }
}

impl Rated {
    fn observe(&mut self, packet: u64, pcr: Pcr, flagged: bool) -> (Option<Stretch>, bool) {
        let packets = packet - self.anchor.packet;
        let took = match judge(pcr, self.pcr, flagged, packets, Some(self.rate)) {
            Step::Stands => return (None, false),
            Step::Broke => None,
            Step::Took(ticks) => Some((self.anchor.departure.saturating_add(ticks), Rate { ticks, packets }))
                .filter(|&(departure, _)| departure >= self.end.departure),
        };
        let stretch = match took {
            Some((departure, rate)) if self.take_burst(Instant { packet, departure }) => {
                let stretch = self.stretch_to(Instant { packet, departure });
                self.rate = rate;
                self.too_fast = false;
                stretch
            }
            Some(_) => self.extend_slowly(packet),
            None => self.extend(packet),
        };
        self.anchor = self.end;
        self.pcr = pcr;
        self.discontinuity |= took.is_none();
        (stretch, took.is_none())
    }

    /// Times packets without the clock: at the previous rate, unless that is too fast.
    fn extend(&mut self, packet: u64) -> Option<Stretch> {
        let packets = packet.saturating_sub(self.end.packet);
        let departure = self.end.departure.saturating_add(self.rate.ticks_for(packets));
        match self.take_burst(Instant { packet, departure }) {
            true => self.stretch_to(Instant { packet, departure }),
            false => self.extend_slowly(packet),
        }
    }

    /// Times packets at the average rate of all before, or at the nominal rate if the average is too fast.
    fn extend_slowly(&mut self, packet: u64) -> Option<Stretch> {
        if !std::mem::replace(&mut self.too_fast, true) {
            let Instant { packet: packets, departure: ticks } = self.end;
            let is_slow = ticks >= packets.saturating_mul(ALWAYS_BELIEVED) && packets > 0;
            self.rate = if is_slow { Rate { ticks, packets } } else { Rate::NOMINAL };
        }
        let packets = packet.saturating_sub(self.end.packet);
        let departure = self.end.departure.saturating_add(self.rate.ticks_for(packets));
        self.stretch_to(Instant { packet, departure })
    }

    /// Takes the packets up to `end` from the allowance of a token bucket. Returns whether it sufficed: the
    /// packets are within the accepted rate or within a burst.
    fn take_burst(&mut self, end: Instant) -> bool {
        let packets = end.packet.saturating_sub(self.end.packet);
        let ticks = end.departure.saturating_sub(self.end.departure);
        let average = self.end.departure.checked_div(self.end.packet).unwrap_or(0);
        let fewest = (average / SPEEDUP).clamp(NEVER_BELIEVED, ALWAYS_BELIEVED);
        let possible = self.burst.saturating_add(ticks / fewest);
        self.burst = possible.saturating_sub(packets).min(BURST_PACKETS);
        packets <= possible
    }

    /// Returns the stretch from the end of the last to `end`; `None` if it has no packets.
    fn stretch_to(&mut self, end: Instant) -> Option<Stretch> {
        let packets = end.packet.checked_sub(self.end.packet).filter(|&packets| packets > 0)?;
        let origin = std::mem::replace(&mut self.end, end);
        let discontinuity = std::mem::take(&mut self.discontinuity);
        let rate = Rate { ticks: end.departure - origin.departure, packets };
        Some(Stretch { first: origin.packet, end: end.packet, discontinuity, origin, rate })
    }
}

fn judge(pcr: Pcr, before: Pcr, flagged: bool, packets: u64, rate: Option<Rate>) -> Step {
    let longest = match rate {
        None => LONGEST_STEP,
        Some(rate) => rate.ticks_for(packets).saturating_mul(SLOWDOWN).clamp(BELIEVED_STEP, LONGEST_STEP),
    };
    match pcr.since(before) {
        _ if flagged => Step::Broke,
        Some(ticks) if ticks < packets.saturating_mul(FEWEST_TICKS_PER_PACKET) => Step::Stands,
        Some(ticks) if ticks <= longest => Step::Took(ticks),
        _ => Step::Broke,
    }
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
