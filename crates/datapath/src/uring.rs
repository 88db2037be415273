//! A thread's ring: the regions from which it can send, and the queued sends.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use rustix::io::Errno;
use wirepath_media::image::{MAX_TRAIN_BYTES, MAX_TRAIN_PACKETS};
use wirepath_sys::errno_of;
use wirepath_sys::mapping::Mapping;
use wirepath_sys::pages::SharedPages;
use wirepath_sys::region::Region;
use wirepath_sys::ring::{BufferIndex, Ledger, MOST_BUFFERS, Refused, Ring, Socket};

use crate::framing::FRAMING_LENGTH;
use crate::{CopyLayout, Extent, MappedFile, SendError, Train};

/// The name that errors carry.
pub(crate) const CALL: &str = "io_uring send_zc";

/// Sends in one call: more than a thread's sessions that are due together, by `playback::slots`.
const ENTRIES: u32 = 256;

/// Regions are registered in pieces of 8 MiB, since pinning pages takes time (about 0.15 ms for a piece of
/// small pages, Linux 6.18), which engine threads do not have. All pieces of a ring are 128 GiB.
const PIECE: usize = 8 << 20;

/// Overlap of pieces. No train is longer, even with framing, so each is completely in the piece in which it
/// begins.
const OVERLAP: usize = (1 << 16) + (1 << 12);
const _: () = assert!((MAX_TRAIN_BYTES + MAX_TRAIN_PACKETS * FRAMING_LENGTH as u32) as usize <= OVERLAP);

/// The extent is not registered with the ring.
pub(crate) const NOT_REGISTERED: SendError = SendError::Unsupported { call: CALL, errno: Errno::OPNOTSUPP };

/// The token of what is sent alone.
const ALONE: u64 = u64::MAX;

/// A ring and what it holds.
pub(crate) struct Uring {
    pub(crate) ring: Ring,
    /// By identity.
    regions: Vec<Held>,
    /// True if regions are waiting to be registered or unregistered.
    busy: bool,
    /// Results of queued sends that came while something was sent alone.
    parked: Vec<(u64, Result<u32, Errno>)>,
}

/// A region, and its registered pieces, from its start on.
struct Held {
    region: Arc<Region>,
    pieces: Vec<BufferIndex>,
    wanted: bool,
}

/// Position of a file's extent in the ring.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    piece: BufferIndex,
    range: Range<usize>,
}

/// Remaining work for regions that are being registered or unregistered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistrationProgress {
    /// Nothing.
    Done,
    /// More, at once.
    More,
    /// None while sends are in flight: try again later.
    Later,
}

/// A region could not be registered.
#[derive(Debug, thiserror::Error)]
#[error("io_uring cannot register memory: {error}{}", hint(.error))]
pub struct RegisterError {
    /// The region.
    pub region_id: u64,
    /// Its cause.
    pub error: io::Error,
}

fn hint(error: &io::Error) -> &'static str {
    match errno_of(error) {
        Errno::NOMEM => {
            "; the limit of locked memory is too low (ulimit -l, LimitMEMLOCK= in a systemd unit): each engine thread needs as \
             much as is held, or CAP_IPC_LOCK"
        }
        _ => "",
    }
}

impl Uring {
    pub(crate) fn open() -> io::Result<Uring> {
        let ring = Ring::new(ENTRIES, MOST_BUFFERS).map_err(explain)?;
        Ok(Uring { parked: Vec::with_capacity(ring.room()), ring, regions: Vec::new(), busy: false })
    }

    pub(crate) fn register(&mut self, region: Arc<Region>) {
        let pieces = Vec::with_capacity(region.length().div_ceil(PIECE));
        self.busy = true;
        match self.position(region.id()) {
            Ok(place) => self.regions[place].wanted = true,
            Err(place) => self.regions.insert(place, Held { region, pieces, wanted: true }),
        }
    }

    pub(crate) fn unregister(&mut self, region_id: u64) {
        if let Ok(place) = self.position(region_id) {
            self.regions[place].wanted = false;
            self.busy = true;
        }
    }

    /// Registers or unregisters one piece.
    pub(crate) fn poll_registrations(&mut self) -> Result<RegistrationProgress, RegisterError> {
        if !self.busy {
            return Ok(RegistrationProgress::Done);
        }
        if let Some(place) = self.regions.iter().position(|held| !held.wanted) {
            match self.regions[place].pieces.pop() {
                Some(piece) => self.ring.unregister(piece),
                None => drop(self.regions.remove(place)),
            }
            return Ok(RegistrationProgress::More);
        }
        if let Some(held) = self.regions.iter_mut().find(|held| !held.is_complete()) {
            return match self.ring.register(&held.region, held.next_piece()) {
                Ok(piece) => {
                    held.pieces.push(piece);
                    Ok(RegistrationProgress::More)
                }
                Err(error) => {
                    held.wanted = false;
                    Err(RegisterError { region_id: held.region.id(), error })
                }
            };
        }
        if self.ring.unregistering() > 0 {
            self.ring.reap_completions();
        }
        self.busy = self.ring.unregistering() > 0;
        Ok(if self.busy { RegistrationProgress::Later } else { RegistrationProgress::Done })
    }

    /// Position of a file's extent, or of the part of it that is in one piece, if it is held. No train is longer than
    /// what pieces overlap by; the kernel refuses longer extents over UDP, shortened or not (`EMSGSIZE`).
    #[inline]
    pub(crate) fn find(&self, file: &MappedFile, extent: Extent) -> Option<Place> {
        self.find_in(file.hot(CopyLayout::Packets)?, extent)
    }

    /// Position of a train with its framing, if it is held.
    #[inline]
    pub(crate) fn find_framed(&self, file: &MappedFile, train: &Train) -> Option<Place> {
        self.find_in(file.hot(CopyLayout::Frames)?, train.framed_extent())
    }

    /// Bytes of a train with its framing, if it is held.
    pub(crate) fn framed_bytes(&self, file: &MappedFile, train: &Train) -> Option<&[u8]> {
        let held = &self.regions[self.position(file.hot(CopyLayout::Frames)?).ok()?];
        held.region.bytes().get(train.framed_extent().in_memory())
    }

    #[inline]
    fn find_in(&self, region_id: u64, extent: Extent) -> Option<Place> {
        let held = &self.regions[self.position(region_id).ok()?];
        let start = usize::try_from(extent.offset).ok()?;
        let piece = *held.pieces.get(start / PIECE).filter(|_| held.wanted)?;
        let end = start.checked_add(extent.length)?;
        (end <= held.region.length()).then_some(Place { piece, range: start..end.min(piece_end(start)) })
    }

    /// Queues a send.
    pub(crate) fn enqueue(&mut self, socket: Socket, place: Place, token: u64) -> Result<(), SendError> {
        self.ensure_room()?;
        self.ring.send(socket, place.piece, place.range, token).map_err(refused)
    }

    /// Queues a send from a mapping.
    pub(crate) fn enqueue_mapped(
        &mut self,
        socket: Socket,
        mapping: &Arc<Mapping>,
        range: Range<usize>,
        token: u64,
    ) -> Result<(), SendError> {
        self.ensure_room()?;
        self.ring.send_mapped(socket, mapping, range, token).map_err(refused)
    }

    /// Sends the queued sends, then this one from a mapping, at once; returns how many bytes the socket accepted.
    pub(crate) fn send_mapped(
        &mut self,
        socket: Socket,
        mapping: &Arc<Mapping>,
        range: Range<usize>,
    ) -> Result<Result<u32, Errno>, SendError> {
        self.enqueue_mapped(socket, mapping, range, ALONE)?;
        Ok(self.submit_alone())
    }

    /// Sends the queued sends, then this one, at once; returns how many bytes the socket accepted.
    pub(crate) fn send(&mut self, socket: Socket, place: Place) -> Result<Result<u32, Errno>, SendError> {
        self.enqueue(socket, place, ALONE)?;
        Ok(self.submit_alone())
    }

    /// Like `send`, but lends the caller's own pages; returns nothing if no more can be lent now.
    pub(crate) fn lend(
        &mut self,
        socket: Socket,
        pages: &SharedPages,
        range: Range<usize>,
        ledger: &Arc<Ledger>,
    ) -> Result<Option<Result<u32, Errno>>, SendError> {
        if !self.ring.has_room_to_lend() {
            self.ring.reap_completions();
        }
        if !self.ring.has_room_to_lend() {
            return Ok(None);
        }
        self.ensure_room()?;
        self.ring.lend(socket, pages, range, ledger, ALONE).map_err(refused)?;
        Ok(Some(self.submit_alone()))
    }

    fn ensure_room(&self) -> Result<(), SendError> {
        match self.queued() < self.parked.capacity() {
            true => Ok(()),
            false => Err(SendError::Full { call: CALL }),
        }
    }

    fn submit_alone(&mut self) -> Result<u32, Errno> {
        let mut sent = Err(Errno::IO);
        let parked = &mut self.parked;
        self.ring.submit(|token, result| match token {
            ALONE => sent = result,
            _ => parked.push((token, result)),
        });
        sent
    }

    pub(crate) fn flush(&mut self, mut answer: impl FnMut(u64, Result<u32, Errno>)) {
        self.parked.drain(..).for_each(|(token, result)| answer(token, result));
        self.ring.submit(answer);
    }

    /// Number of results of the next flush.
    #[inline]
    pub(crate) fn queued(&self) -> usize {
        self.ring.queued() + self.parked.len()
    }

    pub(crate) fn room(&self) -> usize {
        self.parked.capacity() - self.queued()
    }

    fn position(&self, region_id: u64) -> Result<usize, usize> {
        self.regions.binary_search_by_key(&region_id, |held| held.region.id())
    }
}

fn refused(why: Refused) -> SendError {
    match why {
        Refused::Full | Refused::Broken(_) => SendError::Full { call: CALL },
        Refused::Outside => SendError::Unsupported { call: CALL, errno: Errno::INVAL },
    }
}

impl Held {
    fn is_complete(&self) -> bool {
        self.pieces.len() * PIECE >= self.region.length()
    }

    fn next_piece(&self) -> Range<usize> {
        let start = self.pieces.len() * PIECE;
        start..piece_end(start).min(self.region.length())
    }
}

/// The end of the piece that contains a position, as if the region had no end.
fn piece_end(start: usize) -> usize {
    (start / PIECE + 1) * PIECE + OVERLAP
}

/// Explains why there is no ring, and what to do.
fn explain(error: io::Error) -> io::Error {
    let words = match errno_of(&error) {
        Errno::NOSYS => "this kernel was built without io_uring, or a container's filter hides it",
        Errno::PERM | Errno::ACCESS => {
            "io_uring is not allowed here (sysctl kernel.io_uring_disabled, or a container's filter)"
        }
        Errno::OPNOTSUPP | Errno::INVAL => "io_uring sends without a copy from Linux 6.0 on",
        Errno::NOMEM => "the limit of locked memory is too low for io_uring (ulimit -l)",
        _ => "io_uring cannot be used",
    };
    io::Error::new(error.kind(), format!("{words}: {error}"))
}
