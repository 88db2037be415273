//! An io_uring that sends from registered memory, from mappings of files, and from pages that are lent to it:
//! many sends per call, without copies. A ring of [blocks](Ring::with_blocks) sends one block to many sockets.
//!
//! A zero-copy send has two completions: first the number of bytes sent, and later a notification that the
//! network is done with the memory. In between, the memory must not change if Rust code has references to it. A
//! [`Region`] never changes, nor do [`SharedPages`]; the ring holds those that it sends from, and releases one only
//! when the notifications of all sends from it have arrived. It never waits for them.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};
use rustix::io::Errno;

use crate::errno_of;
use crate::mapping::Mapping;
use crate::pages::SharedPages;
use crate::region::Region;

mod buffers;
mod copying;
mod loans;
mod opening;
mod shared_blocks;
use buffers::Buffers;
pub use copying::Copying;
pub use loans::Ledger;
use loans::Table;
use opening::{COMPLETIONS, REPORT_USAGE, USAGE_COPIED, open, reports_copies};
use shared_blocks::SharedBlocks;

/// Socket that stays open until its queued sends have been submitted.
pub type Socket = Arc<dyn AsFd + Send + Sync>;

/// Maximum number of buffers of a ring.
pub const MOST_BUFFERS: u32 = 1 << 14; // IORING_MAX_REG_BUFFERS

/// Maximum number of outstanding loans of a ring.
pub const MOST_LOANS: u16 = 256;

/// Completion index of the first loan; the completions of sends from a buffer have the buffer's index.
const LOANS_FROM: u16 = MOST_BUFFERS as u16;

/// Completion index of the first shared block.
const BLOCKS_FROM: u16 = LOANS_FROM + MOST_LOANS;

/// Maximum number of blocks of a ring.
const MOST_BLOCKS: u16 = 1 << 10;

/// Completion index of sends from mappings.
const MAPPED: u16 = BLOCKS_FROM + MOST_BLOCKS;

/// Ring for the thread that created it: on other threads its calls fail with `EEXIST`.
pub struct Ring {
    // Declared first: the ring is closed before regions and loans are released.
    ring: IoUring,
    buffers: Buffers,
    loans: Table,
    blocks: Option<SharedBlocks>,
    /// Sends queued since all were last answered, in order.
    queued: Vec<Queued>,
    unanswered: usize,
    /// Sends of all buffers that wait for their notification.
    in_flight: usize,
    /// True if notifications report whether the kernel copied.
    reports: bool,
    notices: Notices,
    failure: Option<Errno>,
}

/// Notifications that the kernel did not send by reference.
struct Notices {
    copied: u64,
    /// Tokens of failed sends, whose notifications report a copy, too.
    failed: Vec<u32>,
    /// Tokens of copied sends until they are taken, as far as there is room.
    tokens: Vec<u32>,
}

struct Queued {
    token: u64,
    /// Held until the kernel has accepted the send, which then has its own references to the socket and to the
    /// pages.
    socket: Option<Socket>,
    mapping: Option<Arc<Mapping>>,
    answered: bool,
}

/// Index of a buffer in a ring's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferIndex(u16);

/// Error of queueing a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The queue is full; submit first.
    Full,
    /// The bytes are not in that buffer, or the buffer is not registered.
    Outside,
    /// The ring has failed before with this error.
    Broken(Errno),
}

impl Ring {
    /// Ring for at most `entries` sends at a time and `buffers` buffers.
    ///
    /// # Errors
    /// `ENOSYS` if the kernel has no io_uring, `EPERM` if it is not allowed (`kernel.io_uring_disabled`, a
    /// container's filter), `EOPNOTSUPP` if it does not support zero-copy sends (before Linux 6.0), `ENOMEM`
    /// if the limit of locked memory is too low for the ring itself, else errors of the calls.
    pub fn new(entries: u32, buffers: u32) -> io::Result<Ring> {
        let mut ring = open(entries)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::SendZc::CODE) {
            return Err(Errno::OPNOTSUPP.into());
        }
        let reports = reports_copies(&mut ring)?;
        let buffers = buffers.min(MOST_BUFFERS);
        ring.submitter().register_buffers_sparse(buffers)?;
        let entries = ring.params().sq_entries() as usize;
        Ok(Ring {
            ring,
            buffers: Buffers::new(buffers as u16),
            loans: Table::new(MOST_LOANS),
            blocks: None,
            queued: Vec::with_capacity(entries),
            unanswered: 0,
            in_flight: 0,
            reports,
            notices: Notices::with_room(entries * COMPLETIONS as usize),
            failure: None,
        })
    }

    /// Ring for at most `entries` sends at a time, only from `blocks` blocks of its own.
    ///
    /// # Errors
    /// See [`Ring::new`]; `ENOMEM` also if the limit of locked memory is too low for the blocks, `EINVAL` for
    /// more than 1,024, or none.
    pub fn with_blocks(entries: u32, blocks: u16, block_bytes: usize) -> io::Result<Ring> {
        if blocks > MOST_BLOCKS {
            return Err(Errno::INVAL.into());
        }
        let mut ring = Ring::new(entries, 1)?;
        ring.buffers = Buffers::new(0); // the blocks use the only slot of the table
        ring.blocks = Some(SharedBlocks::register(&ring.ring, blocks, block_bytes)?);
        Ok(ring)
    }

    /// Copies `bytes` into a block once, and sends the block to each socket, without further copies if the
    /// kernel needs none; passes the token of each send and the number of bytes sent to `answer`. Returns
    /// false, and sends nothing, if all blocks are in flight, or blocks are too short. Never waits.
    ///
    /// Sockets that were not submitted, because the ring [failed](Ring::failure), get no answer.
    pub fn send_to_each<'a>(
        &mut self,
        bytes: &[u8],
        sockets: impl Iterator<Item = (BorrowedFd<'a>, u64)>,
        mut answer: impl FnMut(u64, Result<u32, Errno>),
    ) -> bool {
        let is_usable = self.queued.is_empty() && self.failure.is_none() && !bytes.is_empty();
        let Some(blocks) = self.blocks.as_mut().filter(|_| is_usable) else { return false };
        let Some(block) = blocks.fill(bytes) else { return false };
        let bytes = blocks.bytes(block, bytes.len());
        for (socket, token) in sockets {
            if self.room() == 0 {
                self.submit(&mut answer);
            }
            let index = BLOCKS_FROM + block;
            let socket = socket.as_raw_fd();
            // SAFETY: the block is not filled again while a send from it is in flight, which is counted below,
            // and its memory is there until the ring is closed; the socket is borrowed until this is over,
            // and by then all is submitted or never will be.
            let queued =
                unsafe { self.queue(bytes, Some(shared_blocks::BUFFER), index, socket, None, token) };
            if queued.is_err() {
                break; // the ring has failed
            }
            self.blocks.iter_mut().for_each(|blocks| blocks.sent_from(block));
        }
        self.submit(answer);
        true
    }

    /// Registers a range of a region as a buffer: pins its pages, which takes time in proportion to their
    /// number.
    ///
    /// # Errors
    /// `EINVAL` for an empty range, a range outside the region or above 1 GiB; `ENOBUFS` if the table is
    /// full; `ENOMEM` if the limit of locked memory is too low; else errors of the call.
    pub fn register(&mut self, region: &Arc<Region>, range: Range<usize>) -> io::Result<BufferIndex> {
        self.buffers.register(&self.ring, region, range).map(BufferIndex)
    }

    /// Unregisters a buffer: its region is dropped when it has no sends in flight. Never waits.
    pub fn unregister(&mut self, index: BufferIndex) {
        self.buffers.unregister(&self.ring, index.0);
    }

    /// Queues a send of `range` of the region of buffer `index`, to be answered with `token`. Never waits for
    /// room in the socket; sending begins with [`Ring::submit`].
    pub fn send(
        &mut self,
        socket: Socket,
        index: BufferIndex,
        range: Range<usize>,
        token: u64,
    ) -> Result<(), Refused> {
        self.ensure_usable()?;
        let bytes: *const [u8] = self.buffers.bytes(index.0, range).ok_or(Refused::Outside)?;
        let descriptor = socket.as_fd().as_raw_fd();
        // SAFETY: the bytes lie in a registered buffer, whose region is held until no send from it is in
        // flight; the socket is held with what is queued.
        unsafe { self.queue(bytes, Some(index.0), index.0, descriptor, Some(socket), token)? };
        self.buffers.sent_from(index.0);
        Ok(())
    }

    /// Like [`Ring::send`], but from a mapping, whose pages are not registered: the kernel takes references to them
    /// when it accepts the send, which count as locked memory until the network is done with them. A page that is
    /// not in the page table takes a page fault, and one that is not in memory a read.
    ///
    /// The answer is `EFAULT` if the mapped file has become shorter, and `EOPNOTSUPP` beyond the limit of locked
    /// memory, since a later send may fail, too (the kernel's error is `ENOMEM`).
    /// If the file is written to, the network may send the new bytes, as after `sendfile`.
    ///
    /// # Errors
    /// [`Refused`]; `Outside` for an empty range or one outside the mapping.
    pub fn send_mapped(
        &mut self,
        socket: Socket,
        mapping: &Arc<Mapping>,
        range: Range<usize>,
        token: u64,
    ) -> Result<(), Refused> {
        self.ensure_usable()?;
        let vector =
            mapping.vector(range).ok().filter(|vector| vector.iov_len > 0).ok_or(Refused::Outside)?;
        let bytes = std::ptr::slice_from_raw_parts(vector.iov_base.cast_const().cast(), vector.iov_len);
        let descriptor = socket.as_fd().as_raw_fd();
        // SAFETY: the mapping is held with what is queued until the kernel has accepted the send; from then on the
        // kernel has references to the pages themselves. No Rust code has a reference to their bytes, which may
        // change. The socket is held, too.
        unsafe { self.queue(bytes, None, MAPPED, descriptor, Some(socket), token)? };
        if let Some(queued) = self.queued.last_mut() {
            queued.mapping = Some(Arc::clone(mapping));
        }
        Ok(())
    }

    /// Like [`Ring::send`], but from pages that are not registered: they are lent until the network is done
    /// with them, which is recorded in `ledger`. If the ring is closed earlier, the loans are given up.
    ///
    /// # Errors
    /// [`Refused`]; `Full` also if [`MOST_LOANS`] are outstanding, and `Outside` for an empty range.
    pub fn lend(
        &mut self,
        socket: Socket,
        pages: &SharedPages,
        range: Range<usize>,
        ledger: &Arc<Ledger>,
        token: u64,
    ) -> Result<(), Refused> {
        self.ensure_usable()?;
        let bytes = pages.get(range).filter(|bytes| !bytes.is_empty()).ok_or(Refused::Outside)?;
        let place = self.loans.next().ok_or(Refused::Full)?;
        let descriptor = socket.as_fd().as_raw_fd();
        // SAFETY: a share of the pages is kept below, until the network is done with the send or the ring is
        // closed; the socket is held with what is queued.
        unsafe {
            self.queue(&raw const *bytes, None, LOANS_FROM + place, descriptor, Some(socket), token)?;
        }
        self.loans.keep(pages.promise(), Arc::clone(ledger));
        Ok(())
    }

    /// Returns whether another loan is possible now.
    pub fn has_room_to_lend(&self) -> bool {
        self.loans.has_room()
    }

    fn ensure_usable(&self) -> Result<(), Refused> {
        match self.failure {
            Some(errno) => Err(Refused::Broken(errno)),
            None if self.queued.len() == self.queued.capacity() => Err(Refused::Full),
            None => Ok(()),
        }
    }

    /// Queues a send whose completions have this `index`, from a registered buffer or not.
    ///
    /// # Safety
    /// The bytes must be there until the network is done with the send or the ring is closed, and must not change
    /// if Rust code has references to them; those of a file's mapping, only until the kernel has accepted the
    /// send. The descriptor must stay open until it is submitted, or be that of `socket`.
    unsafe fn queue(
        &mut self,
        bytes: *const [u8],
        buffer: Option<u16>,
        index: u16,
        descriptor: RawFd,
        socket: Option<Socket>,
        token: u64,
    ) -> Result<(), Refused> {
        self.ensure_usable()?;
        let place = self.queued.len() as u64;
        let entry = opcode::SendZc::new(
            types::Fd(descriptor),
            bytes.cast(),
            u32::try_from(bytes.len()).map_err(|_| Refused::Outside)?,
        )
        .buf_index(buffer)
        .zc_flags(if self.reports { REPORT_USAGE } else { 0 })
        .flags(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
        .build()
        .user_data(token << 32 | place << 16 | u64::from(index));
        // SAFETY: of the bytes the caller sees to it, and of the descriptor; a socket is held in `queued` until
        // the kernel has taken the entry.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_: squeue::PushError| Refused::Full)?;
        self.in_flight += 1;
        self.queued.push(Queued { token, socket, mapping: None, answered: false });
        self.unanswered += 1;
        Ok(())
    }

    /// Number of queued sends.
    pub fn queued(&self) -> usize {
        self.queued.len()
    }

    /// Number of sends that can be queued before the next [`Ring::submit`].
    pub fn room(&self) -> usize {
        self.queued.capacity() - self.queued.len()
    }

    /// Sends in flight, by the notifications received so far.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Bytes of [blocks](Ring::with_blocks) with sends in flight, by the notifications received so far.
    pub fn block_bytes_in_flight(&self) -> usize {
        self.blocks.as_ref().map_or(0, SharedBlocks::bytes_in_flight)
    }

    /// Unregistered buffers with sends in flight, dropped later by [`Ring::reap_completions`].
    pub fn unregistering(&self) -> usize {
        self.buffers.unregistering()
    }

    /// Completed sends that the kernel copied; `None` before Linux 6.2. It copies for receivers on the host,
    /// and for devices without scatter-gather or checksum offload.
    pub fn copied(&self) -> Option<u64> {
        self.reports.then_some(self.notices.copied)
    }

    /// Takes the tokens, cut to 32 bits, of sends that the kernel copied, once for each. Tokens are dropped
    /// if they are not taken for long, and always before Linux 6.2.
    pub fn take_copied(&mut self) -> impl Iterator<Item = u32> {
        self.notices.tokens.drain(..)
    }

    /// Error that made the ring unusable, if there is one.
    pub fn failure(&self) -> Option<Errno> {
        self.failure
    }

    /// Submits all queued sends in one call; passes the token of each send and the number of bytes sent to
    /// `answer`.
    ///
    /// Sends never wait, so all of them have completed when the call returns; otherwise this method would
    /// wait for them. If the call itself fails, the ring becomes unusable, and [`Ring::failure`] returns the
    /// reason: unsent data is answered with `EAGAIN`, as by a full socket.
    ///
    /// The call waits for as many completions as there are sends, because the kernel takes that number as its
    /// limit for notifications. Since Linux 6.13, a submission that waits for fewer than 20 handles 20 of them in
    /// each of two places. The others pile up, and each time the kernel reverses their list, the thread stops
    /// (measured: for 200 ms at 140 Gb/s).
    pub fn submit(&mut self, mut answer: impl FnMut(u64, Result<u32, Errno>)) {
        let mut attempts = 0;
        while self.unanswered > 0 {
            let in_queue = self.ring.submission().len() as u32;
            match self.enter(in_queue, in_queue.max(1)) {
                Ok(()) | Err(Errno::INTR) => {}
                // The kernel temporarily lacks memory, or requires completions to be reaped first.
                Err(Errno::AGAIN | Errno::BUSY) if attempts < ATTEMPTS => attempts += 1,
                Err(errno) => return self.give_up(errno, answer),
            }
            self.reap(&mut answer);
        }
        self.queued.clear();
    }

    /// Takes completions from the kernel, if there are sends in flight: in one call for each 20 (since Linux
    /// 6.13).
    pub fn reap_completions(&mut self) {
        if self.unanswered > 0 {
            return; // `submit` reaps completions
        }
        loop {
            let before = self.in_flight;
            if before == 0 || self.enter(0, 0).is_err() {
                return;
            }
            self.reap(|_, _| ());
            if before - self.in_flight < COMPLETIONS_PER_CALL.min(self.queued.capacity()) {
                return;
            }
        }
    }

    /// Waits until the network is done with all sends, at most for `limit`; returns whether it is done.
    /// Submits nothing: with queued sends, or a failed ring, it does not wait.
    pub fn drain(&mut self, limit: Duration) -> bool {
        let end = Instant::now().checked_add(limit); // no time at all is beyond it
        loop {
            self.reap_completions();
            let left = end.map_or(LONGEST_WAIT, |end| end.saturating_duration_since(Instant::now()));
            let is_idle = self.queued.is_empty() && self.failure.is_none();
            if self.in_flight() == 0 || left.is_zero() || !is_idle {
                return self.in_flight() == 0;
            }
            let timeout = types::Timespec::from(left.min(LONGEST_WAIT));
            let arguments = types::SubmitArgs::new().timespec(&timeout);
            // The queue is empty, so this call only waits.
            match self.ring.submitter().submit_with_args(1, &arguments) {
                Ok(_) => {}
                Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => {}
                Err(_) => return false,
            }
        }
    }

    fn enter(&mut self, submit: u32, wait_for: u32) -> Result<(), Errno> {
        const GET_EVENTS: u32 = 1; // IORING_ENTER_GETEVENTS: with DEFER_TASKRUN, makes the kernel post completions
        // SAFETY: the numbers are within what the queue holds, and there is no argument.
        let entered =
            unsafe { self.ring.submitter().enter::<libc::sigset_t>(submit, wait_for, GET_EVENTS, None) };
        entered.map(|_| ()).map_err(|error| errno_of(&error))
    }

    /// Processes completions.
    fn reap(&mut self, mut answer: impl FnMut(u64, Result<u32, Errno>)) {
        let Ring { ring, buffers, loans, blocks, queued, unanswered, in_flight, notices, .. } = self;
        for entry in ring.completion() {
            let data = entry.user_data();
            let (token, place, index) = ((data >> 32) as u32, (data >> 16) as u16, data as u16);
            let is_answer = !cqueue::notif(entry.flags());
            if is_answer && let Some(queued) = queued.get_mut(usize::from(place)) {
                queued.answered = true;
                (queued.socket, queued.mapping) = (None, None);
                *unanswered -= 1;
                let result = entry.result();
                let errno = |_| match Errno::from_raw_os_error(result.wrapping_neg()) {
                    Errno::NOMEM if index == MAPPED => Errno::OPNOTSUPP,
                    errno => errno,
                };
                answer(queued.token, u32::try_from(result).map_err(errno));
                if result < 0 && cqueue::more(entry.flags()) {
                    notices.note_failed(token);
                }
            }
            let copied = !is_answer && entry.result() as u32 & USAGE_COPIED != 0;
            if copied {
                notices.note_copied(token);
            }
            let block =
                index.checked_sub(BLOCKS_FROM).filter(|block| *block < MOST_BLOCKS).zip(blocks.as_mut());
            let lent = index.checked_sub(LOANS_FROM).filter(|place| *place < MOST_LOANS);
            if let Some(place) = lent.filter(|_| is_answer && entry.result() >= 0) {
                loans.sent(place);
            }
            if is_answer && cqueue::more(entry.flags()) {
                continue;
            }
            *in_flight -= 1;
            if let Some((block, blocks)) = block {
                blocks.over(block);
            } else if let Some(place) = lent {
                loans.over(place, copied);
            } else {
                buffers.over(index);
            }
        }
        buffers.release_idle(ring);
    }

    /// Answers all unanswered sends; sends that the kernel has not accepted are never submitted.
    fn give_up(&mut self, errno: Errno, mut answer: impl FnMut(u64, Result<u32, Errno>)) {
        self.failure = Some(errno);
        for queued in self.queued.drain(..).filter(|queued| !queued.answered) {
            answer(queued.token, Err(Errno::AGAIN));
        }
        self.unanswered = 0;
    }
}

impl Notices {
    /// Lists with this capacity. Nothing is allocated later.
    fn with_room(room: usize) -> Notices {
        Notices { copied: 0, failed: Vec::with_capacity(room), tokens: Vec::with_capacity(room) }
    }

    /// Records a failed send whose notification is still to come.
    fn note_failed(&mut self, token: u32) {
        if self.failed.len() < self.failed.capacity() {
            self.failed.push(token);
        }
    }

    /// Records a notification that the kernel copied, or sent nothing.
    fn note_copied(&mut self, token: u32) {
        if let Some(index) = self.failed.iter().position(|failed| *failed == token) {
            self.failed.swap_remove(index);
            return;
        }
        self.copied += 1;
        if self.tokens.len() < self.tokens.capacity() {
            self.tokens.push(token);
        }
    }
}

/// Deferred completions that the kernel handles in a call that waits for none (IO_LOCAL_TW_DEFAULT_MAX, since
/// Linux 6.13; before, all).
pub(crate) const COMPLETIONS_PER_CALL: usize = 20;

/// Longest single wait: the kernel refuses times beyond its clock.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// Number of retries while the kernel lacks resources.
const ATTEMPTS: u32 = 16;
