//! Send context of a thread.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use wirepath_sys::frames::FrameGather;
use wirepath_sys::gather::Gather;
use wirepath_sys::module::{Module, OpenError};
use wirepath_sys::region::Region;

use crate::buffer::{Buffer, PacketBuffer};
use crate::uring::{RegisterError, RegistrationProgress, Uring};
use crate::{CopyLayout, Extent, MappedFile, SendError};

/// State for sending, one for each thread: buffers, ring and the kernel module's device.
#[derive(Default)]
pub struct SendContext {
    pub(crate) gather: Gather,
    pub(crate) frames: FrameGather,
    pub(crate) buffer: Buffer,
    pub(crate) made: PacketBuffer,
    module: Option<Module>,
    ring: Option<Uring>,
}

/// Outcome of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome<T> {
    /// Packets or bytes that were sent.
    Sent(T),
    /// Queued for [`SendContext::flush`], which returns the result.
    Queued,
}

impl SendContext {
    /// Opens a ring, which only the calling thread may use from then on. Without a ring nothing is ever
    /// queued.
    pub fn open_ring(&mut self) -> io::Result<()> {
        self.ring = Some(Uring::open()?);
        Ok(())
    }

    /// Opens a ring, as [`SendContext::open_ring`], if there is none.
    pub fn ensure_ring(&mut self) -> io::Result<()> {
        if self.ring.is_some() { Ok(()) } else { self.open_ring() }
    }

    /// Opens the kernel module's device, if it is not open. Paths that need it also open it.
    pub fn open_module(&mut self) -> Result<(), OpenError> {
        self.opened_module().map(drop)
    }

    fn opened_module(&mut self) -> Result<&Module, OpenError> {
        match &mut self.module {
            Some(module) => Ok(module),
            module => Ok(module.insert(Module::open()?)),
        }
    }

    /// The kernel module's device, opened if necessary, for a path that is about to send.
    #[inline]
    pub(crate) fn module(&mut self) -> Result<&Module, SendError> {
        self.opened_module()
            .map_err(|error| SendError::Unsupported { call: "open(/dev/wirepath)", errno: error.errno() })
    }

    /// Begins to register a region with the ring; [`SendContext::poll_registrations`] continues.
    pub fn register(&mut self, region: Arc<Region>) {
        if let Some(ring) = &mut self.ring {
            ring.register(region);
        }
    }

    /// Registers a region at once, for threads that may wait.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` without a ring, else those of [`RegisterError`].
    pub fn register_now(&mut self, region: Arc<Region>) -> io::Result<()> {
        self.ring().map_err(|_| Errno::OPNOTSUPP)?.register(region);
        while self.poll_registrations().map_err(|failed| io::Error::other(failed.to_string()))?
            == RegistrationProgress::More
        {}
        Ok(())
    }

    /// Registers a copy of a file, and opens a ring if there is none, for threads that may wait.
    pub fn register_copy(&mut self, file: &MappedFile) -> io::Result<()> {
        self.ensure_ring()?;
        let length = file.file().metadata()?.len();
        let region = Arc::new(file.copy::<io::Error>(length, |_| Ok(()))?);
        file.set_hot(CopyLayout::Packets, Some(&region));
        self.register_now(region)
    }

    /// Ends sending from a region, which is unregistered when none of its bytes is in flight.
    pub fn unregister(&mut self, region_id: u64) {
        if let Some(ring) = &mut self.ring {
            ring.unregister(region_id);
        }
    }

    /// Registers or unregisters one piece of a region: about 0.2 milliseconds of work, and the
    /// completions that there are.
    ///
    /// # Errors
    /// [`RegisterError`]: the region is dropped.
    pub fn poll_registrations(&mut self) -> Result<RegistrationProgress, RegisterError> {
        self.ring.as_mut().map_or(Ok(RegistrationProgress::Done), Uring::poll_registrations)
    }

    /// Returns whether the ring can send an extent of a file.
    #[inline]
    pub fn has_registered(&self, file: &MappedFile, extent: Extent) -> bool {
        self.ring.as_ref().is_some_and(|ring| ring.find(file, extent).is_some())
    }

    /// Number of sends that are queued.
    #[inline]
    pub fn queued(&self) -> usize {
        self.ring.as_ref().map_or(0, Uring::queued)
    }

    /// Number of sends that can be queued before the next [`SendContext::flush`].
    pub fn room(&self) -> usize {
        self.ring.as_ref().map_or(0, Uring::room)
    }

    /// Sends everything queued, in one call; returns for each token the number of bytes sent, or an
    /// error. Over UDP that is the whole train; a connection may accept less.
    pub fn flush(&mut self, mut answer: impl FnMut(u64, Result<u32, SendError>)) {
        let Some(ring) = &mut self.ring else { return };
        ring.flush(|token, result| {
            answer(token, result.map_err(|errno| SendError::of_udp(crate::uring::CALL, errno)));
        });
        self.drop_failed_ring();
    }

    /// Sends in flight, as far as the kernel has reported.
    pub fn in_flight(&self) -> usize {
        self.ring.as_ref().map_or(0, |uring| uring.ring.in_flight())
    }

    /// Sends of the ring that the kernel copied; `None` without a ring, and before Linux 6.2.
    pub fn copied_by_kernel(&self) -> Option<u64> {
        self.ring.as_ref().and_then(|uring| uring.ring.copied())
    }

    /// Takes the tokens, cut to 32 bits, of queued sends that the kernel copied. None without a ring, and before
    /// Linux 6.2.
    pub fn take_copied(&mut self) -> impl Iterator<Item = u32> {
        self.ring.iter_mut().flat_map(|uring| uring.ring.take_copied())
    }

    /// Waits until nothing is in flight, at most for `limit`; returns whether nothing is.
    pub fn drain(&mut self, limit: Duration) -> bool {
        self.ring.as_mut().is_none_or(|uring| uring.ring.drain(limit))
    }

    /// Processes completed loans of the ring. Never blocks; makes a call for each 20 if anything is in flight.
    pub fn reclaim_loans(&mut self) {
        if let Some(uring) = &mut self.ring {
            uring.ring.reap_completions();
        }
    }

    /// Returns whether there is a ring that sends.
    #[inline]
    pub(crate) fn has_ring(&self) -> bool {
        self.ring.as_ref().is_some_and(|uring| uring.ring.failure().is_none())
    }

    /// The ring, for a path that has checked that it holds the data.
    pub(crate) fn ring(&mut self) -> Result<&mut Uring, SendError> {
        let missing = SendError::Unsupported { call: crate::uring::CALL, errno: Errno::OPNOTSUPP };
        self.ring.as_mut().ok_or(missing)
    }

    /// Drops a failed ring after it has returned all results: paths that need it step down.
    pub(crate) fn drop_failed_ring(&mut self) {
        let idle = self.ring.as_ref().filter(|uring| uring.queued() == 0);
        if let Some(errno) = idle.and_then(|uring| uring.ring.failure()) {
            tracing::error!(%errno, "io_uring_enter failed; this thread continues without a ring");
            self.ring = None;
        }
    }
}
