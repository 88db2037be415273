//! SRTP of a session: the keys of its tracks, and the encryption of their RTCP.

use wirepath_media::rtsp::Profile;
use wirepath_media::srtp::{MasterKey, RtcpProtector, RtcpUnprotector, UnprotectError};

/// Keys of a presentation's tracks.
pub(super) struct TrackKeys {
    pub(super) keys: Vec<MasterKey>,
    /// True if clients that do not request RTP/SAVP also got the keys.
    pub(super) by_sdes: bool,
}

/// Keys of the last DESCRIBE.
pub(super) struct OfferedKeys {
    pub(super) path: Vec<u8>,
    pub(super) keys: TrackKeys,
}

impl TrackKeys {
    /// Key of a track.
    pub(super) fn get(&self, index: u8) -> Option<&MasterKey> {
        self.keys.get(usize::from(index))
    }

    /// Returns whether the keys are for a client that requests this profile.
    pub(super) fn are_for(&self, profile: Profile) -> bool {
        profile == Profile::Secure || self.by_sdes
    }
}

/// Encryption of a track's RTCP.
pub(super) struct Srtcp {
    protector: RtcpProtector,
    /// None for a client that sent no key: its RTCP cannot be authenticated.
    unprotector: Option<RtcpUnprotector>,
}

impl Srtcp {
    /// Encryption with our key, and decryption with the client's if it sent one.
    pub(super) fn new(ours: &MasterKey, client: Option<&MasterKey>) -> Srtcp {
        Srtcp { protector: RtcpProtector::new(ours), unprotector: client.map(RtcpUnprotector::new) }
    }

    /// An encrypted packet; none if the key can encrypt no more packets.
    pub(super) fn protect(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        self.protector.protect(packet)
    }

    /// The plaintext of a packet of the client.
    pub(super) fn unprotect(&mut self, packet: &[u8]) -> Result<Vec<u8>, UnprotectError> {
        self.unprotector.as_mut().ok_or(UnprotectError::Forged)?.unprotect(packet)
    }
}
