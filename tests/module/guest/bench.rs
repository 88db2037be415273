//! Has the module do a call, and compares what arrives and what comes back with the model.

use std::os::fd::AsRawFd;

use anyhow::{Context, Result, ensure};
use rustix::io::Errno;
use wirepath_module_tests::call::{Call, Header, given_headers};
use wirepath_module_tests::content::Content;
use wirepath_module_tests::model::{Outcome, RtpAfter, Source};
use wirepath_module_tests::rtp::{Rtp, Timestamps};
use wirepath_sys::module::arena::{Arena, CommandRing};
use wirepath_sys::module::{Module, Started, layout};

use crate::wire::{Wire, sockaddr};

/// Offsets in the arena. Memory to send lies at its end, so that there is nothing behind.
pub(crate) const RUN: usize = 0;
pub(crate) const RTP: usize = 1 << 10;
pub(crate) const ADDRESS: usize = 2 << 10;
pub(crate) const TABLE: usize = 4 << 10;
pub(crate) const HEADERS: usize = 64 << 10;

/// The module, and memory for requests.
pub(crate) struct Bench {
    pub(crate) module: Module,
    pub(crate) arena: Arena,
    pub(crate) query: layout::Query,
    ring: Option<CommandRing>,
    /// True if requests go by a ring, and not by ioctl.
    pub(crate) by_ring: bool,
    /// Calls, packets and bytes of payload that were compared.
    pub(crate) counts: [u64; 3],
}

/// Source of payload.
pub(crate) enum From<'a> {
    /// A file, by its descriptor.
    File(i32, &'a Content),
    /// Memory of this process, which the arena has and behind which there is none.
    Memory(&'a Content),
}

impl Bench {
    pub(crate) fn new() -> Result<Bench> {
        let module = Module::open().context("opening the device")?;
        let query = module.query()?;
        let has_ring = query.features & layout::FEATURE_URING != 0;
        let ring = if has_ring { Some(CommandRing::new().context("making a ring")?) } else { None };
        Ok(Bench { module, arena: Arena::new(2 << 20)?, query, ring, by_ring: false, counts: [0; 3] })
    }

    pub(crate) fn has(&self, features: u64) -> bool {
        self.query.features & features == features
    }

    /// Puts content at the arena's end.
    pub(crate) fn fill_memory(&mut self, content: &Content) {
        let start = self.memory_start(content);
        self.arena.write(start, content.bytes(0..content.length()));
    }

    fn memory_start(&self, content: &Content) -> usize {
        self.arena.length() - content.length() as usize
    }

    /// Does a call, and fails if anything is not as the model says.
    pub(crate) fn check(&mut self, call: &Call, from: &From<'_>, wire: &mut Wire) -> Result<()> {
        let outcome = Outcome::of(call, from.end());
        let before = self.request(call, from, wire)?;
        let answer = self.send();
        wire.compare(packets(&outcome, from.content()))?;
        ensure!(answer == outcome.answer, "it answered {answer:?} and not {:?}", outcome.answer);
        self.check_run(call, &outcome, &before)?;
        let done = [1, outcome.packets.len() as u64, outcome.payload()];
        self.counts.iter_mut().zip(done).for_each(|(count, more)| *count += more);
        Ok(())
    }

    /// Has the module do the request that lies in the arena.
    pub(crate) fn send(&mut self) -> Result<(), Errno> {
        self.ask(layout::SEND, RUN).map(drop)
    }

    /// Has the module do a request whose structure lies somewhere in the arena.
    pub(crate) fn ask(&mut self, request: u32, at: usize) -> Result<Option<Started>, Errno> {
        let argument = self.arena.address(at);
        let answer = match &mut self.ring {
            Some(ring) if self.by_ring => ring.ask(&self.module, request, &mut self.arena, [argument, 0]),
            _ => self.module.ask(request, &mut self.arena, argument),
        };
        // A number that is not an errno is no answer of the module's.
        answer.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOSYS))
    }

    /// Lays the request down, with counts that are not zero, since they are added to.
    pub(crate) fn request(&mut self, call: &Call, from: &From<'_>, wire: &Wire) -> Result<layout::Run> {
        let (file, start) = match from {
            From::File(file, _) => (*file, 0),
            From::Memory(content) => (-1, self.arena.address(self.memory_start(content))),
        };
        let to = wire.to()?.map(sockaddr).unwrap_or_default();
        self.arena.write(ADDRESS, &to);
        let (header_kind, header, header_bytes) = self.header(call, from);
        let run = layout::Run {
            size: size_of::<layout::Run>() as u32,
            flags: if call.copy { layout::COPY } else { 0 },
            socket: wire.sender.as_raw_fd(),
            file,
            offset: start + call.offset,
            length: call.length.unwrap_or(layout::TO_END),
            packet_bytes: call.packet_bytes,
            skip_bytes: call.skip_bytes,
            train_packets: call.train_packets,
            header_kind,
            header,
            header_bytes,
            address: if to.is_empty() { 0 } else { self.arena.address(ADDRESS) },
            address_bytes: to.len() as u32,
            packets: 1,
            trains: 2,
            bytes: 3,
            copied_bytes: 4,
        };
        self.arena.put(RUN, &run);
        Ok(run)
    }

    fn header(&mut self, call: &Call, from: &From<'_>) -> (u32, u64, u32) {
        match &call.header {
            Header::None => (layout::HEADER_NONE, 0, 0),
            Header::Given(each) => {
                let headers = given_headers(*each, call.packets_max(from.content().length()));
                self.arena.write(HEADERS, &headers);
                (layout::HEADER_GIVEN, self.arena.address(HEADERS), *each)
            }
            Header::Rtp(rtp) => {
                for (index, time) in rtp.table().iter().enumerate() {
                    self.arena.put(TABLE + index * size_of::<layout::RtpTime>(), time);
                }
                self.arena.put(RTP, &rtp.structure(self.arena.address(TABLE)));
                (layout::HEADER_RTP, self.arena.address(RTP), size_of::<layout::Rtp>() as u32)
            }
        }
    }

    /// Returns whether the state came back as it should, in however many trains and calls.
    pub(crate) fn check_state(&self, call: &Call, outcome: &Outcome, before: &layout::Run) -> Result<()> {
        let after: layout::Run = self.arena.take(RUN);
        let (packets, payload) = (outcome.packets.len() as u64, outcome.payload());
        let passed = outcome.passed(call);
        let headers = if let Header::Given(each) = call.header { packets * u64::from(each) } else { 0 };
        let expected = layout::Run {
            offset: before.offset + passed,
            length: call.length.map_or(layout::TO_END, |length| length - passed),
            header: before.header + headers,
            packets: before.packets + packets,
            bytes: before.bytes + payload,
            trains: after.trains,
            copied_bytes: after.copied_bytes,
            ..*before
        };
        ensure!(after == expected, "the run came back as\n{after:?} and not\n{expected:?}");
        if let Header::Rtp(rtp) = &call.header {
            self.check_rtp(rtp, outcome.rtp(call, rtp))?;
        }
        Ok(())
    }

    fn check_run(&self, call: &Call, outcome: &Outcome, before: &layout::Run) -> Result<()> {
        self.check_state(call, outcome, before)?;
        let (after, payload): (layout::Run, u64) = (self.arena.take(RUN), outcome.payload());
        let (trains, copied) = (after.trains - before.trains, after.copied_bytes - before.copied_bytes);
        let least = outcome.trains(if self.has(layout::FEATURE_TRAINS) { call.train_packets } else { 1 });
        let start = before.offset - call.offset;
        let most = outcome.trains_at_most(call.train_packets, self.query.fragments_max, start);
        ensure!((least..=most).contains(&trains), "{trains} trains and not {least} to {most}");
        let is_copied = call.copy || !self.has(layout::FEATURE_REFERENCES);
        ensure!(
            copied == payload || (!is_copied && copied < payload),
            "{copied} of {payload} bytes are copied"
        );
        Ok(())
    }

    fn check_rtp(&self, before: &Rtp, expected: RtpAfter) -> Result<()> {
        let after: layout::Rtp = self.arena.take(RTP);
        let table = self.arena.address(TABLE);
        let groups = if let Timestamps::Table(groups) = &before.timestamps { groups.len() } else { 0 };
        let is_stepped = matches!(before.timestamps, Timestamps::Step(..));
        let structure = before.structure(table);
        let wanted = layout::Rtp {
            sequence: expected.sequence,
            timestamp: expected.timestamp,
            position: expected.position,
            table: if is_stepped {
                0
            } else {
                table + (expected.groups * size_of::<layout::RtpTime>()) as u64
            },
            table_count: if is_stepped { 0 } else { (groups - expected.groups) as u32 },
            last_timestamp: expected.last_timestamp.unwrap_or_default(),
            last_ns: after.last_ns,
            packets: expected.packets,
            octets: expected.octets,
            ..structure
        };
        ensure!(after == wanted, "the engine's state came back as\n{after:?} and not\n{wanted:?}");
        let has_sent = expected.packets > before.packets;
        ensure!((after.last_ns != 0) == has_sent, "last_ns is {} after {has_sent}", after.last_ns);
        ensure!(after.last_ns <= now_ns(), "last_ns is in the future");
        Ok(())
    }
}

/// Bytes of the packets that arrive, one by one.
pub(crate) fn packets<'a>(outcome: &'a Outcome, content: &'a Content) -> impl Iterator<Item = Vec<u8>> + 'a {
    outcome.packets.iter().map(|packet| {
        let mut bytes = packet.header.clone();
        bytes.extend_from_slice(content.bytes(packet.payload.clone()));
        bytes
    })
}

impl From<'_> {
    pub(crate) fn content(&self) -> &Content {
        match self {
            From::File(_, content) | From::Memory(content) => content,
        }
    }

    pub(crate) fn end(&self) -> Source {
        match self {
            From::File(_, content) => Source::File(content.length()),
            From::Memory(content) => Source::Memory(content.length()),
        }
    }
}

/// One of the module's counters, of everything that it has sent.
pub(crate) fn counter(name: &str) -> Result<u64> {
    let path = format!("/sys/class/misc/wirepath/counters/{name}");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    text.trim().parse().with_context(|| format!("{path} has {text:?}"))
}

/// CLOCK_MONOTONIC.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
