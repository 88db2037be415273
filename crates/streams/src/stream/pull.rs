//! Taking records from inputs, in their order, and through the handlers.

use std::fmt;

use bytes::{Buf, Bytes};

use super::{Input, Job, OnDetached, Order, Port, Storage, Stream, StreamError, StreamEvent};
use crate::object::Fill;
use crate::record::Run;

/// Bytes that are asked for at a time: a few calls a megabyte, and still within the processor's caches.
const READ: usize = 128 * 1024;

/// What an input has.
enum Pulled {
    Run(Run),
    /// Nothing now.
    Nothing,
    /// Nothing any more.
    Gone,
}

impl Stream {
    /// Takes from inputs, unless what was taken before still waits for room. Answers whether anything was done.
    pub(super) fn pull(&mut self) -> Result<bool, StreamError> {
        if !self.pending.is_empty() || self.outputs.is_empty() {
            return Ok(self.let_inputs_leave());
        }
        let pulled = match &self.order {
            Order::Turns(_) => self.pull_in_turn(),
            Order::Arrival { .. } => self.pull_as_it_comes(),
            Order::Tags { .. } => self.pull_by_tag(),
            Order::Shares(_) => self.pull_shares(),
        }?;
        Ok(pulled | self.let_inputs_leave())
    }

    fn pull_in_turn(&mut self) -> Result<bool, StreamError> {
        let Order::Turns(turns) = &mut self.order else { return Ok(false) };
        if self.inputs.is_empty() {
            return Ok(false);
        }
        let place = turns.current(self.inputs.len());
        let is_alone = self.inputs.len() == 1;
        match self.next_run(place)? {
            Pulled::Run(mut run) => {
                let first = if is_alone { run } else { self.take_first(place, &mut run) };
                if let (true, Order::Turns(turns)) = (first.ends, &mut self.order) {
                    turns.taken();
                }
                self.handle(first)?;
                Ok(true)
            }
            Pulled::Nothing => Ok(false),
            Pulled::Gone => {
                self.remove_input(place);
                Ok(true)
            }
        }
    }

    fn pull_as_it_comes(&mut self) -> Result<bool, StreamError> {
        let Order::Arrival { first, within } = self.order else { return Ok(false) };
        let count = self.inputs.len();
        for step in 0..count {
            let place = (first + step) % count;
            if within.is_some_and(|port| port != self.inputs[place].port) {
                continue;
            }
            match self.next_run(place)? {
                Pulled::Run(run) => {
                    let within = (!run.ends).then(|| self.inputs[place].port);
                    self.order = Order::Arrival { first: (place + 1) % count, within };
                    self.handle(run)?;
                    return Ok(true);
                }
                Pulled::Nothing => {}
                Pulled::Gone => {
                    self.order = Order::Arrival { first: 0, within: None };
                    self.remove_input(place);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn pull_by_tag(&mut self) -> Result<bool, StreamError> {
        let mut progressed = false;
        for place in 0..self.inputs.len() {
            while self.merge_wants(place) {
                match self.next_run(place)? {
                    Pulled::Run(mut run) => {
                        let record = self.take_first(place, &mut run);
                        if let Order::Tags { tag, merge } = &mut self.order {
                            merge.offer(place, tag(&record.bytes), record);
                        }
                        progressed = true;
                    }
                    Pulled::Nothing => break,
                    Pulled::Gone => {
                        self.inputs[place].at_end = true;
                        if let Order::Tags { merge, .. } = &mut self.order {
                            merge.end_input(place);
                        }
                        break;
                    }
                }
            }
        }
        while let Order::Tags { merge, .. } = &mut self.order
            && let Some(record) = merge.take(|late| self.counts.bytes_dropped += late.bytes.len() as u64)
        {
            progressed = true;
            self.handle(record)?;
        }
        Ok(progressed | self.remove_merged())
    }

    /// Whether the merge takes more from the input at `place`: one record that waits is enough while others have none.
    fn merge_wants(&self, place: usize) -> bool {
        let Order::Tags { merge, .. } = &self.order else { return false };
        !merge.has_ended(place) && (merge.is_empty(place) || merge.has_room())
    }

    /// Removes inputs that have ended and of which nothing waits.
    fn remove_merged(&mut self) -> bool {
        let done = |stream: &Stream| {
            let Order::Tags { merge, .. } = &stream.order else { return None };
            (0..stream.inputs.len()).find(|place| merge.has_ended(*place) && merge.is_empty(*place))
        };
        let mut removed = false;
        while let Some(place) = done(self) {
            self.remove_input(place);
            removed = true;
        }
        removed
    }

    fn pull_shares(&mut self) -> Result<bool, StreamError> {
        let mut progressed = false;
        let mut place = 0;
        while place < self.inputs.len() {
            match self.next_run(place)? {
                Pulled::Run(run) => {
                    self.collect_shares(place, &run)?;
                    progressed = true;
                    place += 1;
                }
                Pulled::Nothing => place += 1,
                Pulled::Gone => {
                    self.remove_input(place);
                    progressed = true;
                }
            }
        }
        let is_end = self.inputs.is_empty();
        while let Order::Shares(collector) = &mut self.order
            && let Some(record) = collector.take(is_end)
        {
            progressed = true;
            self.handle(Run::single(record, true, true))?;
        }
        Ok(progressed)
    }

    /// Puts the shares of a run to the others. One that is none ends the stream, or is dropped if it came as a datagram.
    fn collect_shares(&mut self, place: usize, run: &Run) -> Result<(), StreamError> {
        let Order::Shares(collector) = &mut self.order else { return Ok(()) };
        for index in 0..run.records() {
            let (range, piece) = run.piece(index);
            match collector.offer(run.bytes.slice(range)) {
                Err(error) if self.inputs[place].object.has_records() => {
                    self.inputs[place].note_malformed(piece.bytes.len(), &error);
                }
                offered => offered?,
            }
        }
        self.tell_misfit(place);
        Ok(())
    }

    /// Tells of the first datagram that an input dropped; of others the number is enough.
    fn tell_misfit(&mut self, place: usize) {
        let input = &mut self.inputs[place];
        if let Some(error) = input.misfit.take() {
            let by = input.object.name.clone();
            self.tell(StreamEvent::RecordRefused { by, error });
        }
    }

    /// Takes the first record of a run, and keeps the others for later.
    fn take_first(&mut self, place: usize, run: &mut Run) -> Run {
        let first = run.take_records(1);
        if !run.is_used_up() {
            self.inputs[place].ready.push_front(run.clone());
        }
        first
    }

    /// Has handlers see a run; what they make waits for room.
    fn handle(&mut self, run: Run) -> Result<(), StreamError> {
        self.counts.records_in += run.records() as u64;
        if self.chain.is_empty() {
            self.pending.push_back(run);
            return Ok(());
        }
        self.chain.apply(run, &mut self.made)?;
        self.pending.extend(self.made.drain(..));
        let refusal = self.chain.take_refusal();
        self.tell_refusal(refusal);
        Ok(())
    }

    /// The next run of an input.
    fn next_run(&mut self, place: usize) -> Result<Pulled, StreamError> {
        let before = self.inputs[place].bytes;
        let pulled = self.inputs[place].next_run(&mut self.storage);
        self.counts.bytes_in += self.inputs[place].bytes - before;
        self.tell_misfit(place);
        match pulled {
            Err(error) if self.settings.survives_inputs => {
                let input = &mut self.inputs[place];
                self.counts.bytes_dropped += input.kept() as u64;
                input.buffer.clear();
                input.ready.clear();
                let port = input.port;
                self.tell(StreamEvent::InputFailed { port, error: error.to_string() });
                Ok(Pulled::Gone)
            }
            pulled => pulled,
        }
    }

    /// The input at `place` is done with: whoever detached it gets it back, else it is closed.
    fn remove_input(&mut self, place: usize) {
        let mut input = self.inputs.remove(place);
        self.counts.bytes_dropped += input.malformed.bytes;
        match &mut self.order {
            Order::Turns(turns) => turns.removed(place),
            Order::Tags { merge, .. } => merge.remove_input(place),
            Order::Arrival { .. } | Order::Shares(_) => {}
        }
        Stream::release(self.watch.as_ref(), &input.object);
        self.tell(StreamEvent::InputGone { port: input.port, name: input.object.name.clone() });
        if let Some(on_detached) = input.detach.take() {
            self.counts.bytes_returned += input.buffer.len() as u64;
            input.object.put_back(input.buffer);
            on_detached(input.object);
        }
    }

    /// Detaches inputs that are to be and are between two records.
    fn let_inputs_leave(&mut self) -> bool {
        let can_leave = |input: &Input| input.detach.is_some() && input.is_between_records();
        let mut removed = false;
        while let Some(place) = self.inputs.iter().position(can_leave) {
            if let Order::Tags { merge, .. } = &mut self.order {
                merge.end_input(place);
                if !merge.is_empty(place) {
                    return removed;
                }
            }
            self.remove_input(place);
            removed = true;
        }
        removed
    }

    /// Detaches an input when it is between two records, and gives the object back, with what was read from it and is not used, also if
    /// the stream ends before. A stream of bytes without framing has no records to keep whole: there that is at once. False if there
    /// is no such input.
    pub fn detach_input(
        &mut self,
        port: Port,
        on_detached: impl FnOnce(crate::Object) + Send + 'static,
    ) -> bool {
        let input = self.inputs.iter_mut().find(|input| input.port == port && input.detach.is_none());
        let Some(input) = input else { return false };
        input.cut();
        input.detach = Some(Box::new(on_detached) as OnDetached);
        true
    }

    /// Whether a stream of bytes without framing goes by, which has no place between two records.
    pub(super) fn is_within_endless(&self) -> bool {
        self.inputs.iter().any(|input| input.is_endless() && !input.splitter.at_boundary())
    }
}

impl Input {
    /// Whether it is a stream of bytes without framing: one record without end.
    fn is_endless(&self) -> bool {
        self.splitter.is_whole() && !self.object.has_records()
    }

    /// Ends the record without end, if that is what goes by.
    pub(super) fn cut(&mut self) {
        if self.is_endless() {
            self.ready.extend(self.splitter.cut());
        }
    }

    /// Bytes that were read and not handed on.
    pub(super) fn kept(&self) -> usize {
        self.buffer.len() + self.ready.iter().map(|run| run.bytes.len()).sum::<usize>()
    }

    /// Whether nothing of a record was handed on that is not whole, and nothing whole waits.
    fn is_between_records(&self) -> bool {
        self.ready.is_empty() && self.splitter.at_boundary() && !self.busy
    }

    fn next_run(&mut self, storage: &mut Vec<Storage>) -> Result<Pulled, StreamError> {
        loop {
            if let Some(run) = self.ready.pop_front() {
                return Ok(Pulled::Run(run));
            }
            if self.detach.is_some() && self.splitter.at_boundary() || self.busy {
                return Ok(Pulled::Nothing);
            }
            let next = self.splitter.next(&mut self.buffer, self.at_end);
            let name = &self.object.name;
            if let Some(run) = next.map_err(|error| StreamError::Framing { name: name.clone(), error })? {
                self.records += run.records() as u64;
                self.ready.push_back(run);
                continue;
            }
            if self.at_end {
                return Ok(Pulled::Gone);
            }
            if !self.readable {
                return Ok(Pulled::Nothing);
            }
            self.fill(storage)?;
        }
    }

    fn fill(&mut self, storage: &mut Vec<Storage>) -> Result<(), StreamError> {
        match self.object.fill(&mut self.buffer, READ)? {
            Fill::Bytes(bytes) => self.bytes += bytes as u64,
            Fill::Datagrams { bytes, datagram_bytes } => {
                self.bytes += bytes as u64;
                self.divide(datagram_bytes);
            }
            Fill::Unusable { bytes, why } => {
                self.bytes += bytes as u64;
                self.note_malformed(bytes, &why);
            }
            Fill::Nothing => self.readable = false,
            Fill::End => self.at_end = true,
            Fill::Cold(file, range) => {
                self.busy = true;
                storage.push(Storage { port: self.port, job: Job::Warm(file, range) });
            }
        }
        Ok(())
    }

    /// Makes records of the datagrams in the buffer: each is one, or is divided into some.
    fn divide(&mut self, datagram_bytes: usize) {
        let mut datagrams = self.buffer.split().freeze();
        if self.splitter.is_whole() {
            let run = Run { bytes: datagrams, record_bytes: datagram_bytes, begins: true, ends: true };
            self.records += run.records() as u64;
            return self.ready.push_back(run);
        }
        while datagrams.has_remaining() {
            self.divide_one(datagrams.split_to(datagram_bytes.min(datagrams.len())));
        }
    }

    /// Makes records of one datagram: all of it, or, if it does not fit the framing, nothing. Anybody may send one.
    fn divide_one(&mut self, mut datagram: Bytes) {
        let (bytes, before, mut records) = (datagram.len(), self.ready.len(), 0);
        loop {
            match self.splitter.next(&mut datagram, true) {
                Ok(Some(run)) => {
                    records += run.records() as u64;
                    self.ready.push_back(run);
                }
                Ok(None) => {
                    self.records += records;
                    return;
                }
                Err(error) => {
                    self.ready.truncate(before);
                    return self.note_malformed(bytes, &error);
                }
            }
        }
    }

    /// A datagram is dropped, for a reason that is told if it is the first.
    pub(super) fn note_malformed(&mut self, bytes: usize, why: &dyn fmt::Display) {
        if self.malformed.records == 0 {
            self.misfit = Some(why.to_string());
        }
        self.malformed.records += 1;
        self.malformed.bytes += bytes as u64;
    }
}
