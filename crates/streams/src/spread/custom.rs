//! Custom patterns of outputs: their answers, and the outputs that get records by these answers.

use std::collections::VecDeque;
use std::ops::Range;

use super::Spread;
use super::pushing::{OutputChoice, OutputState, Push, PushingOrder};
use crate::error::StreamError;
use crate::intake::GoingBy;
use crate::outputs::{Output, Outputs};
use crate::port::Port;
use crate::record::Run;
use crate::shared::Shared;

/// A custom pattern and its answer for the current record.
pub(super) struct Custom {
    order: Box<dyn PushingOrder>,
    head_bytes: usize,
    answer: Option<Push>,
    /// Outputs of [`Push::Chosen`].
    chosen: Vec<Port>,
    /// The outputs have the beginning of the current record.
    is_within: bool,
    /// The last answer does not allow the zero-copy route.
    must_copy: bool,
    /// Beginning of a record that is in parts.
    head: Vec<u8>,
}

impl Custom {
    pub(super) fn new(order: Box<dyn PushingOrder>) -> Custom {
        let head_bytes = order.head_bytes();
        let (chosen, head) = (Vec::new(), Vec::new());
        Custom { order, head_bytes, answer: None, chosen, is_within: false, must_copy: false, head }
    }

    /// Asks the pattern for the outputs of a record, unless they are known. Returns whether they are known
    /// now.
    fn ask(&mut self, head: Option<&[u8]>, outputs: &Outputs, now_us: u64) -> Result<bool, StreamError> {
        if self.answer.is_some() {
            return Ok(true);
        }
        self.chosen.clear();
        let mut choice = OutputChoice { outputs: &outputs.current, chosen: &mut self.chosen, now_us };
        let push = self.order.next(head.unwrap_or(&self.head), &mut choice);
        let missing = |port: &Port| outputs.place_of(*port).is_none();
        let error = match push {
            Push::To(port) if missing(&port) => format!("it chose output {port}, which does not exist"),
            Push::Chosen if self.chosen.is_empty() => "it chose no output".to_owned(),
            Push::Chosen => match self.chosen.iter().find(|port| missing(port)) {
                Some(port) => format!("it chose output {port}, which does not exist"),
                None => return Ok(self.note(push, outputs)),
            },
            Push::Wait if choice_has_room(outputs, now_us) => {
                "it waits, and all outputs have room".to_owned()
            }
            Push::Wait => return Ok(false),
            Push::To(_) | Push::All | Push::Drop => return Ok(self.note(push, outputs)),
        };
        Err(StreamError::Pattern(error))
    }

    fn note(&mut self, push: Push, outputs: &Outputs) -> bool {
        self.answer = Some(push);
        self.must_copy = self.range(outputs).is_none();
        true
    }

    /// Places of the outputs of the current record, if they are contiguous.
    fn range(&self, outputs: &Outputs) -> Option<Range<usize>> {
        match self.answer? {
            Push::To(port) => outputs.place_of(port).map(super::one),
            Push::All => Some(0..outputs.len()),
            Push::Chosen => {
                let is_chosen = |output: &Output| self.chosen.contains(&output.port);
                let first = outputs.current.iter().position(is_chosen)?;
                let last = outputs.current.iter().rposition(is_chosen)?;
                let are_all = outputs.current[first..=last].iter().all(is_chosen);
                are_all.then_some(first..last + 1)
            }
            Push::Drop | Push::Wait => None,
        }
    }

    /// Returns whether an output gets a part of the current record. An output that was added within the
    /// record waits for the next record.
    fn gives_to(&self, output: &Output, begins: bool) -> bool {
        match self.answer {
            Some(Push::To(port)) => port == output.port,
            Some(Push::All) => begins || output.within_record,
            Some(Push::Chosen) => (begins || output.within_record) && self.chosen.contains(&output.port),
            Some(Push::Drop | Push::Wait) | None => false,
        }
    }

    pub(super) fn advance(&mut self, record_ends: Option<bool>) {
        let Some(ends) = record_ends else { return };
        self.is_within = !ends;
        if ends {
            self.answer = None;
        }
    }

    /// Handles a removed output. Returns whether the current record was for this output alone.
    pub(super) fn removed(&mut self, port: Port) -> bool {
        self.chosen.retain(|chosen| *chosen != port);
        let was_alone = self.answer == Some(Push::To(port));
        if was_alone || !self.is_within && self.answer == Some(Push::Chosen) && self.chosen.is_empty() {
            (self.answer, self.is_within) = (None, false);
        }
        was_alone
    }

    /// Returns whether the next bytes may move without copies. Before a record, the last answer is used as a
    /// prediction.
    pub(super) fn can_zero_copy(&self, outputs: &Outputs, going_by: GoingBy) -> bool {
        let GoingBy { is_unframed, is_within } = going_by;
        let blind = self.head_bytes == 0 && (!is_unframed || outputs.len() == 1);
        let current = || match (self.answer, self.range(outputs)) {
            (None, _) => !self.must_copy && !is_within,
            (Some(_), Some(range)) => {
                is_unframed || outputs.current[range].iter().all(|output| output.within_record == is_within)
            }
            (Some(_), None) => false,
        };
        blind && current()
    }
}

fn choice_has_room(outputs: &Outputs, now_us: u64) -> bool {
    outputs.current.iter().all(|output| OutputState { output, now_us }.has_room())
}

impl Spread {
    /// The outputs of the next record on the zero-copy route; None if they are not known or the record has to
    /// be copied.
    pub(super) fn custom_recipients(&mut self, outputs: &Outputs, now_us: u64) -> Option<Range<usize>> {
        let super::State::Custom(custom) = &mut self.state else { return None };
        match custom.ask(Some(&[]), outputs, now_us) {
            Ok(true) => {
                let range = custom.range(outputs);
                custom.must_copy = range.is_none();
                range
            }
            Ok(false) => None,
            Err(error) => {
                self.failure = Some(error);
                None
            }
        }
    }

    /// Ends the stream with the error of a failed custom pattern: no record follows. Returns whether the next
    /// record has to be copied, or the stream fails.
    pub(crate) fn report_pattern(&mut self, shared: &mut Shared) -> bool {
        if let Some(error) = self.failure.take() {
            self.has_failed = true;
            shared.fail(error);
        }
        self.has_failed || matches!(&self.state, super::State::Custom(custom) if custom.must_copy)
    }

    /// Gives a run to the outputs of a custom pattern, record by record; returns the rest that has to wait.
    pub(super) fn distribute_by_choice(
        &mut self,
        mut run: Run,
        outputs: &mut Outputs,
        shared: &mut Shared,
        now_us: u64,
    ) -> Option<Run> {
        loop {
            self.follow(outputs);
            let super::State::Custom(custom) = &mut self.state else { return Some(run) };
            if outputs.is_empty() {
                return Some(run);
            }
            if !self.has_failed && !self.is_skipping {
                let head = custom.read_head(&run, &self.pending);
                match custom.ask(head, outputs, now_us) {
                    Ok(true) => {}
                    Ok(false) => return Some(run),
                    Err(error) => {
                        self.has_failed = true;
                        shared.fail(error);
                    }
                }
            }
            if self.has_failed || self.is_skipping {
                self.dropped_bytes += run.bytes.len() as u64;
                return None;
            }
            let blocks = |output: &Output| custom.gives_to(output, run.begins) && output.outbox.blocks();
            if outputs.current.iter().any(blocks) {
                return Some(run);
            }
            let part = run.take_records(1);
            self.dropped_bytes += custom.give(part, outputs, shared);
            if run.is_used_up() {
                return None;
            }
        }
    }
}

impl Custom {
    /// Reads the beginning of the record in front, if the pattern needs it. None if the record is in parts
    /// and its beginning was copied together.
    fn read_head<'a>(&mut self, run: &'a Run, behind: &VecDeque<Run>) -> Option<&'a [u8]> {
        let first = run.piece(0).1;
        let wanted = if self.answer.is_some() { 0 } else { self.head_bytes };
        if first.ends || first.bytes.len() >= wanted {
            return Some(&first.bytes[..wanted.min(first.bytes.len())]);
        }
        self.head.clear();
        self.head.extend_from_slice(first.bytes);
        for part in behind.iter().map(|run| run.piece(0).1).take_while(|part| !part.begins) {
            let missing = wanted - self.head.len();
            self.head.extend_from_slice(&part.bytes[..missing.min(part.bytes.len())]);
            if part.ends || self.head.len() == wanted {
                break;
            }
        }
        None
    }

    /// Gives a record, or a part of a record, to its outputs. Returns the number of bytes that no output
    /// gets.
    fn give(&mut self, part: Run, outputs: &mut Outputs, shared: &mut Shared) -> u64 {
        let (begins, ends, bytes) = (part.begins, part.ends, part.bytes.len() as u64);
        let mut dropped = bytes;
        let place_of_one = match self.answer {
            Some(Push::To(port)) => outputs.place_of(port),
            _ => None,
        };
        if let Some(place) = place_of_one {
            outputs.offer(place, part, shared);
            dropped = 0;
        } else {
            // Backwards: an output may be removed, and later outputs then move up.
            for place in (0..outputs.len()).rev() {
                if self.gives_to(&outputs.current[place], begins) {
                    outputs.offer(place, part.clone(), shared);
                    dropped = 0;
                }
            }
        }
        self.advance(Some(ends));
        dropped
    }
}
