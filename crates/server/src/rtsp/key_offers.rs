//! SRTP keys that DESCRIBE sends over TLS, for the session that is set up next.
//!
//! Keys are random for each DESCRIBE, and are removed from the connection's offer when a session is set up
//! with them: no two sessions have the same key, though they may send the same packets under the same SSRC.

use super::handler::{RequestHandler, refuse};
use super::shared::SrtpKeys;
use super::srtp::{OfferedKeys, TrackKeys};
use std::time::SystemTime;
use wirepath_media::rtp::PAYLOAD_TYPE_MP2T;
use wirepath_media::rtsp::{Headers, Refusal, StatusCode};
use wirepath_media::sdp::{Description, Track};
use wirepath_media::srtp::{MASTER_KEY_LENGTH, MasterKey, key_attributes, read_key_mgmt};

use crate::sender_report::ntp;

impl RequestHandler {
    /// A description for this client, with new keys if media are encrypted for it.
    pub(super) fn described_for_client(
        &mut self,
        path: &[u8],
        description: &Description,
    ) -> Result<Vec<u8>, Refusal> {
        let rule = self.shared.options.srtp;
        if !self.is_secure || rule == SrtpKeys::None {
            return Ok(description.to_bytes(self.local.ip()));
        }
        let is_transport_stream = |track: &Track| track.description.payload_type == PAYLOAD_TYPE_MP2T;
        let by_sdes = rule == SrtpKeys::MikeyAndSdes && !description.tracks.iter().any(is_transport_stream);
        let now = ntp(SystemTime::now());
        let (mut keys, mut attributes) = (Vec::new(), Vec::new());
        for _ in &description.tracks {
            let key = MasterKey::from(random::<MASTER_KEY_LENGTH>()?);
            attributes.push(key_attributes(&key, by_sdes, &random()?, now));
            keys.push(key);
        }
        self.offered_keys =
            Some(Box::new(OfferedKeys { path: path.to_vec(), keys: TrackKeys { keys, by_sdes } }));
        Ok(description.to_bytes_with_keys(self.local.ip(), &attributes))
    }

    /// Keys of the last DESCRIBE, if it was for this presentation.
    pub(super) fn offered_keys(&self, path: &[u8]) -> Option<&TrackKeys> {
        self.offered_keys.as_ref().filter(|offered| offered.path == path).map(|offered| &offered.keys)
    }

    /// Takes these keys for a session, so that no other session gets them.
    pub(super) fn take_keys(&mut self, path: &[u8]) -> Option<TrackKeys> {
        self.offered_keys.take_if(|offered| offered.path == path).map(|offered| offered.keys)
    }
}

/// The key of the client from its SETUP (RFC 4567 section 3.2), if there is one.
pub(super) fn client_key(headers: &Headers) -> Result<Option<MasterKey>, Refusal> {
    let Some(value) = headers.first("KeyMgmt") else { return Ok(None) };
    match read_key_mgmt(value) {
        Ok(key) => Ok(Some(key)),
        Err(error) => Err(refuse(StatusCode::BadRequest, format!("KeyMgmt: {error}"))),
    }
}

fn random<const LENGTH: usize>() -> Result<[u8; LENGTH], Refusal> {
    let mut bytes = [0; LENGTH];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) => Err(refuse(StatusCode::InternalServerError, format!("no randomness: {error}"))),
    }
}
