//! What a thread needs to send.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use wirepath_sys::gather::Gather;
use wirepath_sys::module::OpenError;
use wirepath_sys::region::Region;

use crate::buffer::Buffer;
use crate::module_device::ModuleDevice;
use crate::uring::{RegisterError, RegistrationProgress, Uring};
use crate::{Extent, MappedFile, SendError};

/// Room that sending needs, allocated once for each thread that sends, and the thread's ring and the kernel
/// module's device if it has them.
#[derive(Default)]
pub struct SendContext {
    pub(crate) gather: Gather,
    pub(crate) buffer: Buffer,
    pub(crate) device: ModuleDevice,
    ring: Option<Uring>,
}

/// What became of what was handed to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome<T> {
    /// So much of it was sent.
    Sent(T),
    /// It waits for [`SendContext::flush`], which answers for it.
    Queued,
}

impl SendContext {
    /// Opens a ring, which only the calling thread can use from then on. Without one nothing is ever queued.
    ///
    /// # Errors
    /// Why there is none, in words that say what to do.
    pub fn open_ring(&mut self) -> io::Result<()> {
        self.ring = Some(Uring::open()?);
        Ok(())
    }

    /// Opens the kernel module's device, if it is not open. Paths that need it do so by themselves; this says
    /// in words why not.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_module(&mut self) -> Result<(), OpenError> {
        self.device.open().map(drop)
    }

    /// Has the ring hold a region from now on, as far as [`SendContext::poll_registrations`] has come with
    /// it.
    pub fn register(&mut self, region: Arc<Region>) {
        if let Some(ring) = &mut self.ring {
            ring.register(region);
        }
    }

    /// As [`SendContext::register`], and does at once all that is to be done for it: for threads that may
    /// wait.
    ///
    /// # Errors
    /// `EOPNOTSUPP` without a ring, else what [`RegisterError`] says.
    pub fn register_now(&mut self, region: Arc<Region>) -> io::Result<()> {
        self.ring().map_err(|_| Errno::OPNOTSUPP)?.register(region);
        while self.poll_registrations().map_err(|failed| io::Error::other(failed.to_string()))?
            == RegistrationProgress::More
        {}
        Ok(())
    }

    /// Opens a ring if there is none, and has it hold a copy of a file: for threads that may wait.
    ///
    /// # Errors
    /// As `open_ring` and `register_now`, and `ENOMEM` if there is not so much memory.
    pub fn register_copy(&mut self, file: &MappedFile) -> io::Result<()> {
        if self.ring.is_none() {
            self.open_ring()?;
        }
        let length = file.file().metadata()?.len();
        let region = Arc::new(file.copy::<io::Error>(length, |_| Ok(()))?);
        file.set_hot(Some(&region));
        self.register_now(region)
    }

    /// Has the ring send nothing more from a region, and lets go of it as [`SendContext::poll_registrations`]
    /// comes to it and the network is done with what was sent.
    pub fn unregister(&mut self, region_id: u64) {
        if let Some(ring) = &mut self.ring {
            ring.unregister(region_id);
        }
    }

    /// Does one piece of what is to be done for regions that come or go: at most about 0.2 milliseconds'
    /// worth.
    ///
    /// # Errors
    /// [`RegisterError`]: the region is let go of.
    pub fn poll_registrations(&mut self) -> Result<RegistrationProgress, RegisterError> {
        self.ring.as_mut().map_or(Ok(RegistrationProgress::Done), Uring::poll_registrations)
    }

    /// Returns whether the ring can send an extent of a file.
    #[inline]
    pub fn has_registered(&self, file: &MappedFile, extent: Extent) -> bool {
        self.ring.as_ref().is_some_and(|ring| ring.find(file, extent).is_some())
    }

    /// How much is queued.
    #[inline]
    pub fn queued(&self) -> usize {
        self.ring.as_ref().map_or(0, Uring::queued)
    }

    /// How much can be queued before the next [`SendContext::flush`].
    pub fn room(&self) -> usize {
        self.ring.as_ref().map_or(0, Uring::room)
    }

    /// Sends all that is queued, in one call, and hands back for each its token and how many bytes were sent:
    /// all or an error.
    pub fn flush(&mut self, mut answer: impl FnMut(u64, Result<u32, SendError>)) {
        let Some(ring) = &mut self.ring else { return };
        ring.flush(|token, result| {
            answer(token, result.map_err(|errno| SendError::of_udp(crate::uring::CALL, errno)));
        });
        self.drop_failed_ring();
    }

    /// Things sent that the network is not done with, as far as the kernel has told.
    pub fn in_flight(&self) -> usize {
        self.ring.as_ref().map_or(0, Uring::in_flight)
    }

    /// Sends of the ring that the kernel copied after all, of those that the network is done with: an exact
    /// number when nothing is in flight. Nothing without a ring, and where the kernel does not say so (before
    /// Linux 6.2).
    pub fn copied_by_kernel(&self) -> Option<u64> {
        self.ring.as_ref().and_then(Uring::copied)
    }

    /// Waits until the network is done with all that was sent, but no longer than `limit`; answers whether it
    /// is. For whoever measures; nobody else has a reason to wait.
    pub fn drain(&mut self, limit: Duration) -> bool {
        self.ring.as_mut().is_none_or(|ring| ring.drain(limit))
    }

    /// Hears from the ring which loans are over. Never blocks; a call if anything is in flight.
    pub fn reclaim_loans(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.reap();
        }
    }

    /// Returns whether there is a ring that sends.
    pub(crate) fn has_ring(&self) -> bool {
        self.ring.as_ref().is_some_and(|ring| ring.failure().is_none())
    }

    /// The ring, for a path that has found it to hold what it sends.
    pub(crate) fn ring(&mut self) -> Result<&mut Uring, SendError> {
        let missing = SendError::Unsupported { call: crate::uring::CALL, errno: Errno::OPNOTSUPP };
        self.ring.as_mut().ok_or(missing)
    }

    /// Goes on without a ring that has failed, as soon as it has no answer left to give: paths that need it
    /// step down.
    pub(crate) fn drop_failed_ring(&mut self) {
        if let Some(errno) = self.ring.as_ref().filter(|ring| ring.queued() == 0).and_then(Uring::failure) {
            tracing::error!(%errno, "io_uring_enter failed; this thread goes on without a ring");
            self.ring = None;
        }
    }
}
