//! SRTP of a session: the keys of its tracks, and the encryption of their RTCP.

use wirepath_media::rtsp::Profile;
use wirepath_media::srtp::{MasterKey, RtcpProtector, RtcpUnprotector, UnprotectError};

/// Keys of a presentation's tracks.
pub(super) struct TrackKeys {
    pub(super) keys: Vec<MasterKey>,
    /// Clients that do not ask for RTP/SAVP were told them, too.
    pub(super) by_sdes: bool,
}

/// Keys that the last DESCRIBE told.
pub(super) struct OfferedKeys {
    pub(super) path: Vec<u8>,
    pub(super) keys: TrackKeys,
}

impl TrackKeys {
    /// Key of a track.
    pub(super) fn get(&self, index: u8) -> Option<&MasterKey> {
        self.keys.get(usize::from(index))
    }

    /// Returns whether they are for a client that asks for this profile.
    pub(super) fn are_for(&self, profile: Profile) -> bool {
        profile == Profile::Secure || self.by_sdes
    }
}

/// Encryption of a track's RTCP.
pub(super) struct Srtcp {
    protector: RtcpProtector,
    /// None for a client that told no key: what it sends cannot be authenticated.
    unprotector: Option<RtcpUnprotector>,
}

impl Srtcp {
    /// Encryption by our key, and decryption by the client's if it told one.
    pub(super) fn new(ours: &MasterKey, client: Option<&MasterKey>) -> Srtcp {
        Srtcp { protector: RtcpProtector::new(ours), unprotector: client.map(RtcpUnprotector::new) }
    }

    /// A packet encrypted; none if it cannot be any more.
    pub(super) fn protect(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        self.protector.protect(packet)
    }

    /// A packet of the client's in the clear.
    pub(super) fn unprotect(&mut self, packet: &[u8]) -> Result<Vec<u8>, UnprotectError> {
        self.unprotector.as_mut().ok_or(UnprotectError::Forged)?.unprotect(packet)
    }
}
