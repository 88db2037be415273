//! The sessions of a listener, within its limits.

use super::session_events::{EventKind, SessionEvent, SessionEvents};
use super::session_info::SessionInfo;
use parking_lot::Mutex;
use serde_json::Value as Json;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wirepath_net::{ClientLimits, DescriptorBudget, DescriptorPermit, Exceeded, Permit};

/// All sessions of a listener, with a limit for all and for each address.
pub(super) struct Registry {
    limits: Arc<ClientLimits>,
    descriptors: Arc<DescriptorBudget>,
    last_key: AtomicU64,
    sessions: Mutex<HashMap<u64, Entry>>,
}

/// Session that is visible.
struct Entry {
    info: Arc<SessionInfo>,
    /// Events of its connection, through which the connection is told to end it.
    events: Arc<SessionEvents>,
    /// True if an administrator requested its end.
    is_ending: bool,
}

/// Reservation of one session within the limits; released when it is dropped.
pub(super) struct SessionSlot {
    registry: Arc<Registry>,
    pub(super) key: u64,
    _permits: (Permit, DescriptorPermit),
}

/// Descriptors of a track: its RTP socket. The socket of the first track is counted with the session, also
/// over TCP.
pub(super) const PER_TRACK: usize = 1;

impl Registry {
    pub(super) fn new(most: usize, most_per_address: usize, descriptors: Arc<DescriptorBudget>) -> Arc<Self> {
        let limits = ClientLimits::new(most, most_per_address);
        Arc::new(Self { limits, descriptors, last_key: AtomicU64::default(), sessions: Mutex::default() })
    }

    /// Reserves one more session for a client at this address.
    pub(super) fn reserve(self: &Arc<Self>, address: IpAddr) -> Result<SessionSlot, Exceeded> {
        let permits = (self.limits.admit(address)?, self.descriptors.admit(address, PER_TRACK)?);
        let key = self.last_key.fetch_add(1, Relaxed);
        Ok(SessionSlot { registry: Arc::clone(self), key, _permits: permits })
    }

    /// Reserves a descriptor for the socket of another track of a client's session.
    pub(super) fn reserve_track(&self, address: IpAddr) -> Result<DescriptorPermit, Exceeded> {
        self.descriptors.admit(address, PER_TRACK)
    }

    /// Sessions for `/api/status`, in the order of their set-up.
    pub(super) fn json(&self) -> Vec<Json> {
        // The lock is released at the end of this statement: JSON of thousands of sessions takes a while, and set-up
        // and end of each session need the lock.
        let mut sessions: Vec<_> =
            self.sessions.lock().iter().map(|(key, entry)| (*key, Arc::clone(&entry.info))).collect();
        sessions.sort_unstable_by_key(|(key, _)| *key);
        sessions.iter().filter_map(|(_, session)| session.json()).collect()
    }

    /// Number of sessions.
    pub(super) fn len(&self) -> usize {
        self.sessions.lock().len()
    }

    /// Tells the connection of a session to end it, if there is a session with this number.
    pub(super) fn end(&self, key: u64) -> bool {
        let mut sessions = self.sessions.lock();
        let Some(entry) = sessions.get_mut(&key) else { return false };
        if !std::mem::replace(&mut entry.is_ending, true) {
            entry.events.add(SessionEvent { key, kind: EventKind::Ended });
        }
        true
    }
}

impl SessionSlot {
    /// Registers the session, with the events of its connection.
    pub(super) fn fill(&self, info: Arc<SessionInfo>, events: Arc<SessionEvents>) {
        let entry = Entry { info, events, is_ending: false };
        self.registry.sessions.lock().insert(self.key, entry);
    }
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        self.registry.sessions.lock().remove(&self.key);
    }
}
