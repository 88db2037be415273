//! Copy on write for lent pages: a thread that writes to a page from which the kernel still sends continues
//! immediately, in a new page, and the packet keeps the old bytes.
//!
//! While a range is lent, its pages are write-protected by userfaultfd. A write to a page wakes a thread of
//! this module, which copies the page, removes it from the page table (the network's reference keeps it), and
//! maps the copy in its place. When the loan ends, the pages are unprotected. Kernel writes (`read` into a
//! lent buffer) wait in the same way, so no call fails.
//!
//! Only private anonymous memory can be guarded: a page of a file or of shared memory cannot be replaced for
//! one process. This module does not use the heap, whose pages may be lent themselves.

mod memory_map;
mod moves;
mod replacing;
mod serving;
mod table;
mod thread_lock;
mod userfault;

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::errno_of;
use crate::memory::Memory;
use memory_map::ProcessMemory;
use moves::Moves;
use replacing::BOUNCE;
use table::Table;
use thread_lock::ThreadLock;
use userfault::Userfault;

/// Guard of this process.
#[derive(Debug)]
pub struct WriteGuard {
    userfault: Userfault,
    memory: ProcessMemory,
    table: Table,
    lock: ThreadLock,
    moves: Moves,
    page: usize,
    /// Number of page replacements, from which a lender sees that its protection may have been undone.
    replacements: AtomicU64,
    write_faults: AtomicU64,
    /// Buffers for bytes of replaced pages: of the serving thread, and of lock holders.
    bounce: [Memory; 2],
}

/// Guarded range. [`WriteGuard::over`] ends it; if the value is dropped otherwise, its pages stay protected.
#[derive(Debug)]
#[must_use = "a guarded range stays protected until it is over"]
pub struct Guarded(u16);

/// Guard, its process, and the reason for its absence.
static GUARD: AtomicPtr<WriteGuard> = AtomicPtr::new(std::ptr::null_mut());
static PROCESS: AtomicU32 = AtomicU32::new(0);
static FAILURE: AtomicI32 = AtomicI32::new(0);
static STARTING: ThreadLock = ThreadLock::new();

impl WriteGuard {
    /// Guard of this process, started by the first call, with a thread that serves write faults.
    ///
    /// # Errors
    /// `EPERM` without `CAP_SYS_PTRACE` (unless `vm.unprivileged_userfaultfd` is 1), `ENOTTY` before Linux
    /// 6.11, `EAGAIN` while another thread starts it, `ECHILD` in a process made by `fork` that did not call
    /// [`WriteGuard::leave_to_parent`].
    pub fn of_process() -> io::Result<&'static WriteGuard> {
        // SAFETY: what was once published is never freed, and is shared.
        if let Some(guard) = unsafe { GUARD.load(Acquire).as_ref() } {
            let is_ours = PROCESS.load(Relaxed) == process();
            return if is_ours { Ok(guard) } else { Err(Errno::CHILD.into()) };
        }
        match FAILURE.load(Relaxed) {
            0 => {}
            failure => return Err(io::Error::from_raw_os_error(failure)),
        }
        if !STARTING.try_lock(thread()) {
            return Err(Errno::AGAIN.into());
        }
        let guard = WriteGuard::start();
        STARTING.unlock();
        guard
    }

    /// Guard of this process, if [`WriteGuard::of_process`] has started one; starts none.
    pub fn started() -> Option<&'static WriteGuard> {
        // SAFETY: what was once published is never freed, and is shared.
        let guard = unsafe { GUARD.load(Acquire).as_ref() };
        guard.filter(|_| PROCESS.load(Relaxed) == process())
    }

    fn start() -> io::Result<&'static WriteGuard> {
        // SAFETY: what was once published is never freed, and is shared.
        if let Some(guard) = unsafe { GUARD.load(Acquire).as_ref() } {
            return Ok(guard); // another thread was faster
        }
        let started = WriteGuard::new().and_then(|guard| {
            serving::start(guard)?;
            Ok(guard)
        });
        match started {
            Ok(guard) => {
                PROCESS.store(process(), Relaxed);
                GUARD.store(std::ptr::from_ref(guard).cast_mut(), Release);
            }
            Err(ref error) => FAILURE.store(errno_of(error).raw_os_error(), Relaxed),
        }
        started
    }

    fn new() -> io::Result<&'static WriteGuard> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::POPULATE);
        let anonymous = |length| Memory::anonymous(length, access, flags);
        let guard = WriteGuard {
            userfault: Userfault::open()?,
            memory: ProcessMemory::open()?,
            table: Table::default(),
            lock: ThreadLock::new(),
            moves: Moves::new(),
            page: rustix::param::page_size(),
            replacements: AtomicU64::new(0),
            write_faults: AtomicU64::new(0),
            bounce: [anonymous(BOUNCE)?, anonymous(BOUNCE)?],
        };
        let memory = anonymous(size_of::<WriteGuard>())?;
        let place: *mut WriteGuard = memory.start().cast();
        std::mem::forget(memory);
        // SAFETY: the memory is new, long enough, begins where a page does, and is never unmapped.
        unsafe {
            place.write(guard);
            Ok(&*place)
        }
    }

    /// Blocks changes of pages until [`WriteGuard::after_fork`], so that the new process has all pages.
    /// Returns false if there is no guard, or this thread is already changing pages.
    pub fn before_fork() -> bool {
        // SAFETY: what was once published is never freed, and is shared.
        let guard = unsafe { GUARD.load(Acquire).as_ref() };
        let guard =
            guard.filter(|guard| PROCESS.load(Relaxed) == process() && guard.lock.holder() != thread());
        guard.inspect(|guard| guard.lock.lock(thread())).is_some()
    }

    /// Ends the block by [`WriteGuard::before_fork`], if that returned true.
    pub fn after_fork() {
        // SAFETY: as above.
        if let Some(guard) = unsafe { GUARD.load(Acquire).as_ref() } {
            guard.lock.unlock();
        }
    }

    /// Leaves the guard to the parent, in a process that `fork` has just created: its descriptors refer to
    /// the parent's memory. The next [`WriteGuard::of_process`] starts a new guard for this process.
    ///
    /// # Safety
    /// This process has a single thread, which does not use the guard at the moment, and uses none of the
    /// lenders that it had as the parent: [`crate::lender::Lender::leave_to_parent`] takes them.
    pub unsafe fn leave_to_parent() {
        let guard = GUARD.swap(std::ptr::null_mut(), AcqRel);
        // SAFETY: what was published stays readable.
        if let Some(guard) = unsafe { guard.as_ref() } {
            let [areas, pages] = guard.memory.as_fds();
            for descriptor in [guard.userfault.as_fd().as_raw_fd(), areas, pages] {
                // SAFETY: the caller has made sure that nobody uses it; the guard is never dropped.
                unsafe { libc::close(descriptor) };
            }
        }
        FAILURE.store(0, Relaxed);
        STARTING.unlock();
    }

    /// Guards the pages of these bytes, until [`WriteGuard::over`]; must be called before the bytes are lent,
    /// and followed by [`WriteGuard::confirm`].
    ///
    /// # Errors
    /// `EOPNOTSUPP` for memory that is not private and anonymous, or is the stack of this thread; `EAGAIN` if
    /// another thread is changing protections; `ENOBUFS` if 1,024 ranges are guarded; `ECHILD` in another
    /// process than the guard's.
    pub fn enter(&self, bytes: &[u8]) -> Result<Guarded, Errno> {
        if PROCESS.load(Relaxed) != process() {
            return Err(Errno::CHILD);
        }
        let range = self.pages_of(bytes);
        self.locked(|| {
            self.sweep();
            let place = self.table.enter(&range).ok_or(Errno::NOBUFS)?;
            self.protect(&range).inspect_err(|_| self.table.mark_over(place)).map(|()| Guarded(place))
        })?
    }

    /// Number of replacements so far, to be read before [`WriteGuard::enter`].
    pub fn replacements(&self) -> u64 {
        self.replacements.load(Acquire)
    }

    /// Protects a range again after it was lent: a page that was replaced between the two calls is not
    /// protected. `before` is the earlier result of [`WriteGuard::replacements`].
    pub fn confirm(&self, guarded: &Guarded, before: u64) {
        if self.replacements() == before {
            return;
        }
        let range = self.table.range(usize::from(guarded.0));
        // Under the lock: pages are not registered while they are being replaced, and until this call returns
        // another processor may still write to pages that look protected.
        self.lock.lock(thread());
        // Other errors mean that the range was unmapped, so no thread can write to the pages.
        while matches!(self.userfault.protect(range.start, range.len()), Err(error) if is_moving(&error)) {
            pause();
        }
        self.lock.unlock();
    }

    /// Unprotects a range whose loan has ended, immediately or together with a later range.
    pub fn over(&self, guarded: Guarded) {
        self.table.mark_over(guarded.0);
        let _later = self.locked(|| self.sweep());
    }

    /// Gives up a range whose loan's end will not be known: its pages are replaced by copies.
    pub fn abandon(&self, guarded: Guarded) {
        let range = self.table.range(usize::from(guarded.0));
        self.lock.lock(thread());
        self.replace(range, &self.bounce[1]);
        self.table.free(guarded.0);
        self.lock.unlock();
    }

    /// Bytes of protected pages.
    pub fn bytes_out(&self) -> usize {
        self.table.bytes()
    }

    /// Number of writes that waited for a copy of their page.
    pub fn write_faults(&self) -> u64 {
        self.write_faults.load(Relaxed)
    }

    fn locked<T>(&self, change: impl FnOnce() -> T) -> Result<T, Errno> {
        if !self.lock.try_lock(thread()) {
            return Err(Errno::AGAIN);
        }
        let changed = change();
        self.lock.unlock();
        Ok(changed)
    }

    fn sweep(&self) {
        // Unmapped or newly mapped memory is not protected.
        self.table.sweep(|part| drop(self.userfault.unprotect(part.start, part.len())));
    }

    /// Protects whole pages; registers their areas if necessary.
    fn protect(&self, range: &Range<usize>) -> Result<(), Errno> {
        match self.userfault.protect(range.start, range.len()) {
            Err(error) if errno_of(&error) == Errno::NOENT => {}
            result => return result.map_err(|error| errno_of(&error)),
        }
        let here = 0_u8;
        let mut at = range.start;
        while at < range.end {
            let area = self.memory.area(at).map_err(|_| Errno::OPNOTSUPP)?;
            let is_own_stack = (area.start..area.end).contains(&(&raw const here).addr());
            if !area.is_private || is_own_stack || area.start > at {
                return Err(Errno::OPNOTSUPP);
            }
            let result = self.userfault.register(area.start, area.end - area.start);
            result.map_err(|_| Errno::OPNOTSUPP)?;
            at = area.end;
        }
        self.userfault.protect(range.start, range.len()).map_err(|error| errno_of(&error))
    }

    fn pages_of(&self, bytes: &[u8]) -> Range<usize> {
        let start = bytes.as_ptr().addr();
        let end = start + bytes.len();
        start / self.page * self.page..end.next_multiple_of(self.page)
    }
}

/// Returns whether a call failed because memory is being moved: it succeeds after the event was read.
fn is_moving(error: &io::Error) -> bool {
    errno_of(error) == Errno::AGAIN
}

/// Yields the processor to the thread that moves memory, also on a busy machine.
fn pause() {
    std::thread::sleep(std::time::Duration::from_micros(20));
}

fn process() -> u32 {
    std::process::id()
}

/// Id of this thread, as in events.
fn thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}
