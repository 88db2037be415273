//! Finds the packets in a file's bytes, which may be split anywhere; returns them in runs, without copying.

use super::framing::{self, DETECTION_BYTES, Found, Framing, NotTransportStream};
use super::packet::{PACKET_LENGTH, SYNC_BYTE};
use super::warning::{Warning, WarningKind};

/// Bytes kept from one input to the next: more than the longest run that proves a framing.
const CARRY_BYTES: usize = 2048;

/// Bytes beyond [`DETECTION_BYTES`] that are needed to prove a run of packets that starts just before.
const DETECTION_MARGIN: usize = 1024;

/// Finds the packets in a stream of bytes.
///
/// Call [`Deframer::next`] with each input until it returns `None`, then [`Deframer::finish`] until it
/// returns `None`. The output does not depend on how the input is split.
/// ```
/// use wirepath_media::ts::synthetic::Sample;
/// use wirepath_media::ts::{Deframer, Event, Framing};
///
/// # fn main() -> Result<(), wirepath_media::ts::NotTransportStream> {
/// let file = Sample { packets: 1000, ..Sample::default() }.stream().bytes;
/// let (mut deframer, mut packets) = (Deframer::new(), 0);
/// for mut piece in file.chunks(4096) {
///     while let Some(event) = deframer.next(&mut piece)? {
///         if let Event::Packets(run) = event {
///             packets += run.count();
///         }
///     }
/// }
/// while let Some(Event::Packets(run)) = deframer.finish()? {
///     packets += run.count();
/// }
/// assert_eq!((packets, deframer.framing()), (1000, Some(Framing::Bare)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Deframer {
    phase: Phase,
    /// Bytes of earlier inputs that are not processed yet.
    carry: Vec<u8>,
    /// Bytes of `carry` that the last call returned.
    spent: usize,
    /// Bytes to skip before the next packet.
    gap: usize,
    /// File offset of the next byte to process, which is in `carry` after `spent` or in the input.
    offset: u64,
    /// File offset at which the search for the first packet began.
    begin: u64,
}

#[derive(Clone, Copy, Debug, Default)]
enum Phase {
    /// No packet has been found yet.
    #[default]
    Detecting,
    /// The next byte should be a sync byte.
    Synced(Framing),
    /// No sync byte was found at this offset.
    Lost(Framing, u64),
}

/// Event of a deframer.
#[derive(Debug)]
pub enum Event<'a> {
    /// Consecutive packets.
    Packets(Packets<'a>),
    /// Warning about bytes that are not a packet.
    Warning(Warning),
}

/// Run of packets as it is stored in a file. Each packet starts with the sync byte.
#[derive(Clone, Copy, Debug)]
pub struct Packets<'a> {
    bytes: &'a [u8],
    framing: Framing,
    offset: u64,
}

impl<'a> Packets<'a> {
    /// Number of packets.
    pub fn count(&self) -> usize {
        self.bytes.len().div_ceil(self.framing.stride())
    }

    /// File offset of the sync byte of packet `index`.
    pub fn offset(&self, index: usize) -> u64 {
        self.offset + (index * self.framing.stride()) as u64
    }

    /// Framing of the file.
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// Packets in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8; PACKET_LENGTH]> + use<'a> {
        self.bytes.chunks(self.framing.stride()).filter_map(|unit| unit.first_chunk())
    }

    /// All packets as one slice, if the framing has no bytes between packets.
    #[inline]
    pub fn contiguous(&self) -> Option<&'a [u8]> {
        (self.framing == Framing::Bare).then_some(self.bytes)
    }
}

impl Deframer {
    /// Deframer at the start of a file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Deframer that starts at `offset` in the middle of a file, not necessarily at the beginning of a
    /// packet.
    pub fn starting_at(offset: u64) -> Self {
        Self { offset, begin: offset, ..Self::default() }
    }

    /// Framing of the file, once it is known.
    pub fn framing(&self) -> Option<Framing> {
        match self.phase {
            Phase::Detecting => None,
            Phase::Synced(framing) | Phase::Lost(framing, _) => Some(framing),
        }
    }

    /// Returns the next event of `input` and advances `input` past it; `None` when all input is consumed.
    ///
    /// # Errors
    /// [`NotTransportStream`] if there are no packets in the first [`DETECTION_BYTES`] bytes.
    pub fn next<'a, 'b: 'a>(
        &'a mut self,
        input: &mut &'b [u8],
    ) -> Result<Option<Event<'a>>, NotTransportStream> {
        loop {
            self.pass(input);
            if input.is_empty() {
                return Ok(None);
            }
            let (offset, here, from_carry) = (self.offset, *input, !self.carry.is_empty());
            let step = if from_carry { self.step_in_carry(input)? } else { self.step_in_input(input)? };
            match step {
                Step::Packets { length, framing } => {
                    let bytes = if from_carry { &self.carry[..length] } else { &here[..length] };
                    return Ok(Some(Event::Packets(Packets { bytes, framing, offset })));
                }
                Step::Warning(_, warning) => return Ok(Some(Event::Warning(warning))),
                Step::Pass(_) | Step::NeedsMore(_) => {}
            }
        }
    }

    /// Returns the next event after the last input; `None` at the end.
    pub fn finish(&mut self) -> Result<Option<Event<'_>>, NotTransportStream> {
        loop {
            self.pass(&mut &[][..]);
            if self.carry.is_empty() && matches!(self.phase, Phase::Synced(_)) {
                return Ok(None);
            }
            let carry = std::mem::take(&mut self.carry);
            let judged = self.judge(&carry, true);
            self.carry = carry;
            let (step, offset) = (judged?, self.offset);
            self.spent = self.advance(&step);
            match step {
                Step::Packets { length, framing } => {
                    let bytes = &self.carry[..length];
                    return Ok(Some(Event::Packets(Packets { bytes, framing, offset })));
                }
                Step::Warning(_, warning) => return Ok(Some(Event::Warning(warning))),
                Step::Pass(_) => {}
                Step::NeedsMore(_) => return Ok(None),
            }
        }
    }

    /// Drops the bytes that the last call returned, and the bytes between packets.
    fn pass(&mut self, input: &mut &[u8]) {
        self.carry.drain(..self.spent);
        self.spent = 0;
        let kept = self.gap.min(self.carry.len());
        self.carry.drain(..kept);
        let fresh = (self.gap - kept).min(input.len());
        *input = &input[fresh..];
        self.gap -= kept + fresh;
        self.offset += (kept + fresh) as u64;
    }

    fn step_in_input(&mut self, input: &mut &[u8]) -> Result<Step, NotTransportStream> {
        let step = self.judge(input, false)?;
        *input = &input[self.advance(&step)..];
        if matches!(step, Step::NeedsMore(_)) {
            self.carry.extend_from_slice(std::mem::take(input));
        }
        Ok(step)
    }

    /// Processes carried bytes together with the first bytes of the input. Unprocessed bytes stay in the
    /// input if the carried bytes are used up; otherwise they are carried, too.
    fn step_in_carry(&mut self, input: &mut &[u8]) -> Result<Step, NotTransportStream> {
        let carried = self.carry.len();
        let added = CARRY_BYTES.saturating_sub(carried).min(input.len());
        self.carry.extend_from_slice(&input[..added]);
        let carry = std::mem::take(&mut self.carry);
        let judged = self.judge(&carry, false);
        self.carry = carry;
        let step = judged?;
        let consumed = self.advance(&step);
        let used_up = consumed >= carried;
        self.spent = if used_up { self.carry.len() } else { consumed };
        *input = &input[if used_up { consumed - carried } else { added }..];
        Ok(step)
    }

    fn advance(&mut self, step: &Step) -> usize {
        let consumed = match *step {
            Step::Packets { length, framing } => {
                self.gap = framing.stride() - PACKET_LENGTH;
                length
            }
            Step::Warning(consumed, _) | Step::Pass(consumed) | Step::NeedsMore(consumed) => consumed,
        };
        self.offset += consumed as u64;
        consumed
    }

    /// Processes the first of `bytes`, which are at `self.offset` of the file; `complete` at the end of the
    /// file.
    fn judge(&mut self, bytes: &[u8], complete: bool) -> Result<Step, NotTransportStream> {
        match self.phase {
            Phase::Detecting => self.judge_head(bytes, complete),
            Phase::Synced(framing) => Ok(self.judge_packets(bytes, framing, complete)),
            Phase::Lost(framing, since) => Ok(self.judge_damage(bytes, framing, since, complete)),
        }
    }

    fn judge_head(&mut self, bytes: &[u8], complete: bool) -> Result<Step, NotTransportStream> {
        let passed = self.offset - self.begin;
        let window = (DETECTION_BYTES.saturating_sub(passed)) as usize + DETECTION_MARGIN;
        let clipped = &bytes[..bytes.len().min(window)];
        let found = framing::detect(clipped, complete && clipped.len() == bytes.len());
        match found {
            Found::At { position, framing } if passed + (position as u64) < DETECTION_BYTES => {
                self.phase = Phase::Synced(framing);
                let lead = passed + position as u64;
                let expected = self.begin > 0 || lead == 0 || lead == framing.prefix() as u64;
                let warning = Warning { offset: 0, kind: WarningKind::Skipped { bytes: lead } };
                Ok(if expected { Step::Pass(position) } else { Step::Warning(position, warning) })
            }
            Found::NotBefore { position } if !complete && passed + (position as u64) < DETECTION_BYTES => {
                Ok(Step::NeedsMore(position))
            }
            _ => Err(NotTransportStream { searched: DETECTION_BYTES.min(passed + bytes.len() as u64) }),
        }
    }

    fn judge_packets(&mut self, bytes: &[u8], framing: Framing, complete: bool) -> Step {
        let stride = framing.stride();
        let whole = (bytes.len() + stride - PACKET_LENGTH) / stride;
        let syncs = bytes.iter().step_by(stride).take(whole).take_while(|&&byte| byte == SYNC_BYTE).count();
        let present = bytes.len() as u64;
        if syncs > 0 {
            Step::Packets { length: (syncs - 1) * stride + PACKET_LENGTH, framing }
        } else if bytes.first().is_some_and(|&byte| byte != SYNC_BYTE) {
            self.phase = Phase::Lost(framing, self.offset);
            Step::Pass(0)
        } else if complete && !bytes.is_empty() {
            let kind = WarningKind::Truncated { bytes: present };
            Step::Warning(bytes.len(), Warning { offset: self.offset, kind })
        } else {
            Step::NeedsMore(0)
        }
    }

    fn judge_damage(&mut self, bytes: &[u8], framing: Framing, since: u64, complete: bool) -> Step {
        let position = match framing::recover(bytes, framing, complete) {
            Found::At { position, .. } => position,
            Found::NotBefore { .. } if complete => bytes.len(),
            Found::NotBefore { position } => return Step::NeedsMore(position),
        };
        self.phase = Phase::Synced(framing);
        let kind = WarningKind::Skipped { bytes: self.offset + position as u64 - since };
        Step::Warning(position, Warning { offset: since, kind })
    }
}

/// Kind of the next bytes. Numbers are lengths in bytes.
enum Step {
    Packets { length: usize, framing: Framing },
    Warning(usize, Warning),
    Pass(usize),
    NeedsMore(usize),
}

#[cfg(test)]
#[path = "deframe_tests.rs"]
mod tests;
