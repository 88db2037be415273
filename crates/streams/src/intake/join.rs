//! Joining: one record from portions of several inputs (KStreams, section 3.1: "a single record is
//! constructed from portions arriving on multiple links in arbitrary order and/or at different rates").
//!
//! Each input has a place, in the order of inputs, and a record has its portions in the order of places. By
//! position, the n-th record consists of the n-th portion of each input; by key, a record consists of
//! portions with the same key. A record with a missing portion is given up as soon as no remaining input can
//! bring more of the record; by key also when another record begins and the window is full, the oldest record
//! first.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;

use bytes::BytesMut;

use super::Tag;
use crate::port::Port;

/// Counts of a join.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinCounts {
    /// Records given up because a portion did not come.
    pub incomplete: u64,
    /// Portions dropped: of a record for which their input has brought a portion already, or that began
    /// before their input was added; by position also portions of a record that was given up. By key such a
    /// portion begins a new record.
    pub spare: u64,
    /// Portions without a key; they are dropped.
    pub unkeyed: u64,
    /// Records dropped because they were too long.
    pub too_long: u64,
}

/// Memory that a waiting portion takes beside its bytes. It counts against the bound, which many small
/// portions would exceed otherwise.
const PORTION_MEMORY: usize = 256;

pub(crate) struct Join {
    /// Reads the key of a portion; None to join by position.
    key: Option<Box<Tag>>,
    /// Most records that wait for portions.
    window: usize,
    /// Most bytes of memory of waiting portions, except for the portion that exceeds it.
    max_bytes: usize,
    /// Members in the order of places.
    members: Vec<Member>,
    /// Records that wait for portions, by their number, which counts records in the order of their beginning.
    open: BTreeMap<u64, Open>,
    /// Numbers of records that wait, by key.
    numbers: HashMap<u64, u64>,
    next_number: u64,
    /// Complete records that were not taken yet.
    complete: VecDeque<BytesMut>,
    /// Bytes of waiting portions.
    pub(crate) bytes: usize,
    /// Number of waiting portions.
    portions: usize,
    pub(crate) counts: JoinCounts,
    /// Bytes of dropped portions.
    pub(crate) lost_bytes: u64,
}

/// A place for portions, and the input that occupies it.
#[derive(Debug)]
struct Member {
    /// The first input at this place; the port identifies the place.
    place: Port,
    /// None after the input has ended.
    input: Option<Port>,
    /// By position: record number of the next portion. By key: the input takes part in records from this
    /// number on.
    next: u64,
}

/// A record that waits for portions.
#[derive(Debug, Default)]
struct Open {
    key: u64,
    /// The portions in the order of arrival.
    bytes: BytesMut,
    portions: Vec<(Port, Range<usize>)>,
    /// Number of inputs that may still bring a portion.
    awaited: usize,
    /// A missing portion cannot come any more.
    is_hopeless: bool,
    /// The record was too long, and its portions were dropped.
    is_too_long: bool,
}

impl Join {
    /// A join with at most `window` waiting records (at least 1) of about `max_bytes` (at least 1) in total.
    /// By position if `key` is None.
    pub(crate) fn new(key: Option<Box<Tag>>, window: usize, max_bytes: usize) -> Join {
        Join {
            key,
            window: window.max(1),
            max_bytes: max_bytes.max(1),
            members: Vec::new(),
            open: BTreeMap::new(),
            numbers: HashMap::new(),
            next_number: 0,
            complete: VecDeque::new(),
            bytes: 0,
            portions: 0,
            counts: JoinCounts::default(),
            lost_bytes: 0,
        }
    }

    /// Adds an input, which takes part in records that begin from now on: at the place of the first ended
    /// input, or at a new place.
    pub(crate) fn add(&mut self, input: Port) {
        let next = self.next_number;
        match self.members.iter_mut().find(|member| member.input.is_none()) {
            Some(vacant) => (vacant.input, vacant.next) = (Some(input), next),
            None => {
                let at = self.members.partition_point(|member| member.place < input);
                self.members.insert(at, Member { place: input, input: Some(input), next });
            }
        }
    }

    /// Handles the removal of an input. The place of an ended input stays, and no record is complete without
    /// it until another input takes it; a `detached` input is not waited for.
    pub(crate) fn remove(&mut self, input: Port, detached: bool) {
        let Some(at) = self.member(input) else { return };
        let (place, next) = (self.members[at].place, self.members[at].next);
        let by_key = self.key.is_some();
        if detached {
            self.members.remove(at);
        } else {
            self.members[at].input = None;
        }
        let mut over = Vec::new();
        for (number, open) in &mut self.open {
            let lacks = if by_key { *number >= next && !open.has(place) } else { *number >= next };
            if lacks {
                open.awaited -= 1;
                open.is_hopeless |= !detached;
                over.extend((open.awaited == 0).then_some(*number));
            }
        }
        over.into_iter().for_each(|number| self.conclude(number));
    }

    /// Returns whether another portion of an input may wait, or is one that waiting records need.
    pub(crate) fn wants(&self, input: Port, is_datagrams: bool) -> bool {
        let has_room = self.has_room();
        let Some((first, open)) = self.open.first_key_value().filter(|_| !has_room) else { return true };
        let Some(member) = self.member(input).map(|at| &self.members[at]) else { return false };
        match &self.key {
            None => member.next <= *first,
            Some(_) => is_datagrams || member.next <= *first && !open.has(member.place),
        }
    }

    /// Adds a portion of an input. Records have at most `longest` bytes. By key, the oldest records are given
    /// up while the bounds are exceeded.
    pub(crate) fn offer(&mut self, input: Port, portion: &[u8], longest: usize) {
        let Some(at) = self.member(input) else { return self.drop_portion(portion) };
        let Some(number) = self.number(at, portion) else { return };
        let place = self.members[at].place;
        let Some(open) = self.open.get_mut(&number) else {
            self.counts.spare += 1;
            return self.drop_portion(portion);
        };
        if open.has(place) {
            self.counts.spare += 1;
            return self.drop_portion(portion);
        }
        open.is_too_long |= open.bytes.len() + portion.len() > longest;
        let (bytes, portions) = (open.bytes.len(), open.portions.len());
        open.add(place, portion);
        self.bytes = self.bytes + open.bytes.len() - bytes;
        self.portions = self.portions + open.portions.len() - portions;
        self.lost_bytes += (bytes + portion.len() - open.bytes.len()) as u64;
        open.awaited -= 1;
        if open.awaited == 0 {
            self.conclude(number);
        }
        while self.key.is_some() && self.open.len() > 1 && self.memory() > self.max_bytes {
            self.give_up_oldest();
        }
    }

    /// Takes the next complete record.
    pub(crate) fn take(&mut self) -> Option<BytesMut> {
        let record = self.complete.pop_front()?;
        self.bytes -= record.len();
        Some(record)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.complete.is_empty()
    }

    /// Number of the record of a portion, which begins if it is new; None if the portion was dropped.
    fn number(&mut self, at: usize, portion: &[u8]) -> Option<u64> {
        let Some(key) = &mut self.key else {
            let number = self.members[at].next;
            self.members[at].next += 1;
            if number == self.next_number {
                self.begin(0);
            }
            return Some(number);
        };
        let Some(key) = key(portion) else {
            self.counts.unkeyed += 1;
            self.drop_portion(portion);
            return None;
        };
        let number = self.numbers.get(&key).copied();
        if number.is_some_and(|number| number < self.members[at].next) {
            self.counts.spare += 1;
            self.drop_portion(portion);
            return None;
        }
        Some(number.unwrap_or_else(|| self.begin(key)))
    }

    /// Begins a record that waits for a portion of each input. By key, the oldest records are given up until
    /// there is room; by position there is room, because inputs that are ahead are not read.
    fn begin(&mut self, key: u64) -> u64 {
        while self.key.is_some() && !self.has_room() && !self.open.is_empty() {
            self.give_up_oldest();
        }
        let number = self.next_number;
        self.next_number += 1;
        let awaited = self.members.iter().filter(|member| member.input.is_some()).count();
        let is_hopeless = awaited < self.members.len();
        self.open.insert(number, Open { key, awaited, is_hopeless, ..Open::default() });
        if self.key.is_some() {
            self.numbers.insert(key, number);
        }
        number
    }

    /// Ends the wait of a record: the record is complete or given up.
    fn conclude(&mut self, number: u64) {
        let Some(open) = self.open.remove(&number) else { return };
        if self.key.is_some() {
            self.numbers.remove(&open.key);
        }
        self.portions -= open.portions.len();
        let is_complete = open.awaited == 0 && !open.is_hopeless;
        if is_complete && !open.is_too_long {
            self.complete.push_back(open.into_record());
            return;
        }
        self.bytes -= open.bytes.len();
        self.lost_bytes += open.bytes.len() as u64;
        if is_complete {
            self.counts.too_long += 1;
        } else {
            self.counts.incomplete += 1;
        }
    }

    fn give_up_oldest(&mut self) {
        if let Some((number, _)) = self.open.first_key_value() {
            self.conclude(*number);
        }
    }

    fn drop_portion(&mut self, portion: &[u8]) {
        self.lost_bytes += portion.len() as u64;
    }

    fn has_room(&self) -> bool {
        self.open.len() < self.window && self.memory() < self.max_bytes
    }

    /// Memory of waiting portions.
    fn memory(&self) -> usize {
        self.bytes + self.portions * PORTION_MEMORY
    }

    fn member(&self, input: Port) -> Option<usize> {
        self.members.iter().position(|member| member.input == Some(input))
    }
}

impl Open {
    fn has(&self, place: Port) -> bool {
        self.portions.iter().any(|(of, _)| *of == place)
    }

    /// Adds a portion. If the record is too long, the bytes are dropped.
    fn add(&mut self, place: Port, portion: &[u8]) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(portion); // a slice would keep the whole block alive
        self.portions.push((place, begin..self.bytes.len()));
        if self.is_too_long {
            self.bytes = BytesMut::new();
        }
    }

    /// Concatenates the portions in the order of places.
    fn into_record(mut self) -> BytesMut {
        if self.portions.is_sorted_by_key(|(place, _)| *place) {
            return self.bytes;
        }
        self.portions.sort_unstable_by_key(|(place, _)| *place);
        let mut record = BytesMut::with_capacity(self.bytes.len());
        self.portions.iter().for_each(|(_, range)| record.extend_from_slice(&self.bytes[range.clone()]));
        record
    }
}

#[cfg(test)]
mod tests;
