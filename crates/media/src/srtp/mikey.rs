//! MIKEY messages (RFC 3830) as RTSP carries them over TLS (RFC 7826 appendix C.1.4.1): with a master key for
//! SRTP, which is not encrypted within the message.
//!
//! The format is that of GStreamer: the key data are key and salt together, of type TEK.

use super::keys::{MASTER_KEY_LENGTH, MasterKey};
use crate::rtcp::NtpTime;

/// Payload types (RFC 3830 section 6.1).
mod payload {
    pub(super) const LAST: u8 = 0;
    pub(super) const KEMAC: u8 = 1;
    pub(super) const T: u8 = 5;
    pub(super) const SP: u8 = 10;
    pub(super) const RAND: u8 = 11;
}

/// Security policy of AES_CM_128_HMAC_SHA1_80 (section 6.10.1): type, length and value of each parameter.
const POLICY: [u8; 21] = [
    0, 1, 1, // encryption: AES-CM
    1, 1, 16, // length of the encryption key
    2, 1, 1, // authentication: HMAC-SHA1
    3, 1, 20, // length of the authentication key
    4, 1, 14, // length of the salt
    11, 1, 10, // length of the tag
    7, 1, 1, // RTP is encrypted
];

/// Parameters of the policy for RTCP, in the same format.
const POLICY_OF_RTCP: [u8; 6] = [
    8, 1, 1, // RTCP is encrypted
    10, 1, 1, // RTP is authenticated
];

/// Error of a MIKEY message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MikeyError {
    /// Message that ends early.
    #[error("MIKEY: the message ends inside a payload")]
    Short,
    /// Message with an option that is not supported.
    #[error("MIKEY: unsupported {0}")]
    Unsupported(&'static str),
    /// Message without a key of 30 bytes.
    #[error("MIKEY: expected a key of 16 bytes with a salt of 14")]
    NoKey,
}

/// Writes a message with a key for the packets of a new source. `random`: 20 random bytes, for an identifier
/// and RAND.
pub fn write_mikey(key: &MasterKey, random: &[u8; 20], now: NtpTime) -> Vec<u8> {
    let (identifier, random) = random.split_at(4);
    let mut message = vec![1, 0, payload::T, 0]; // version 1, pre-shared key, no verification, PRF MIKEY-1
    message.extend_from_slice(identifier);
    message.extend([1, 0, 0]); // one crypto session, of SRTP, policy 0
    message.extend([0; 8]); // SSRC: any; rollover counter: 0
    message.extend([payload::RAND, 0]); // time as NTP, UTC
    message.extend(now.to_bits().to_be_bytes());
    message.extend([payload::SP, random.len() as u8]);
    message.extend_from_slice(random);
    message.extend([payload::KEMAC, 0, 0]); // policy 0, of SRTP
    message.extend(((POLICY.len() + POLICY_OF_RTCP.len()) as u16).to_be_bytes());
    message.extend(POLICY);
    message.extend(POLICY_OF_RTCP);
    message.extend([payload::LAST, 0]); // not encrypted
    message.extend((4 + MASTER_KEY_LENGTH as u16).to_be_bytes());
    message.extend([payload::LAST, 2 << 4]); // TEK, valid without limits
    message.extend((MASTER_KEY_LENGTH as u16).to_be_bytes());
    message.extend(key.as_bytes());
    message.push(0); // no MAC
    message
}

/// Reads the key of a client's message.
///
/// # Errors
/// [`MikeyError`] if the message is malformed or encrypted, or has another cipher.
pub fn read_mikey(message: &[u8]) -> Result<MasterKey, MikeyError> {
    let mut rest = Bytes(message);
    let [version, kind, mut next, _verification] = rest.array()?;
    if (version, kind) != (1, 0) {
        return Err(MikeyError::Unsupported("version or type: expected version 1 with a pre-shared key"));
    }
    let [.., sessions, map] = rest.array::<6>()?;
    if map != 0 {
        return Err(MikeyError::Unsupported("map of crypto sessions"));
    }
    rest.take(9 * usize::from(sessions))?;
    let mut key = None;
    while next != payload::LAST {
        let current = next;
        [next] = rest.array()?;
        match current {
            payload::T => {
                let [kind] = rest.array()?;
                rest.take(if kind == 2 { 4 } else { 8 })?;
            }
            payload::RAND => {
                let [length] = rest.array()?;
                rest.take(length.into())?;
            }
            payload::SP => {
                let [_policy, protocol] = rest.array()?;
                let parameters = rest.counted()?;
                if protocol != 0 {
                    return Err(MikeyError::Unsupported("protocol: expected SRTP"));
                }
                check_policy(parameters)?;
            }
            payload::KEMAC => {
                let [encryption] = rest.array()?;
                let data = rest.counted()?;
                let [authentication] = rest.array()?;
                if (encryption, authentication) != (0, 0) {
                    return Err(MikeyError::Unsupported("encryption of keys"));
                }
                key = Some(read_key_data(data)?);
            }
            _ => return Err(MikeyError::Unsupported("payload")),
        }
    }
    key.ok_or(MikeyError::NoKey)
}

/// Checks that the parameters of a policy do not differ from [`POLICY`].
fn check_policy(parameters: &[u8]) -> Result<(), MikeyError> {
    let mut rest = Bytes(parameters);
    while !rest.0.is_empty() {
        let [kind, length] = rest.array()?;
        let value = rest.take(length.into())?;
        let is_ours = match (kind, value) {
            (0 | 2 | 7 | 8 | 10, [value]) => *value == 1,
            (1, [length]) => *length == 16,
            (11, [length]) => *length == 10,
            // GStreamer sends the length of the tag as that of the key.
            (3, [length]) => matches!(length, 10 | 20),
            (4, [salt_length]) => *salt_length == 14,
            (5 | 12, [function_or_prefix]) => *function_or_prefix == 0,
            (6, derivation_rate) => derivation_rate.iter().all(|byte| *byte == 0),
            (9, _) => true, // order of forward error correction, which is not used
            (0..=12, _) => false,
            _ => true,
        };
        if !is_ours {
            return Err(MikeyError::Unsupported("cipher: expected AES_CM_128_HMAC_SHA1_80"));
        }
    }
    Ok(())
}

/// Reads key and salt, which are together or follow each other.
fn read_key_data(data: &[u8]) -> Result<MasterKey, MikeyError> {
    let mut rest = Bytes(data);
    let [_next, kind] = rest.array()?;
    let mut bytes = rest.counted()?.to_vec();
    match kind >> 4 {
        2 => {}
        3 => bytes.extend_from_slice(rest.counted()?),
        _ => return Err(MikeyError::Unsupported("key to generate others from: expected a TEK")),
    }
    // A client that announces an MKI would add it to its packets.
    if kind & 0xf == 1 {
        let [length] = rest.array()?;
        if length > 0 {
            return Err(MikeyError::Unsupported("MKI: expected none"));
        }
    }
    <[u8; MASTER_KEY_LENGTH]>::try_from(bytes).map(MasterKey::from).map_err(|_| MikeyError::NoKey)
}

/// Remaining bytes of a message.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], MikeyError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(MikeyError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], MikeyError> {
        self.take(LENGTH)?.try_into().map_err(|_| MikeyError::Short)
    }

    /// Reads bytes after their length in 16 bits.
    fn counted(&mut self) -> Result<&'a [u8], MikeyError> {
        let length = u16::from_be_bytes(self.array()?);
        self.take(length.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message() -> Vec<u8> {
        let key: [u8; 30] = std::array::from_fn(|byte| byte as u8);
        write_mikey(&MasterKey::from(key), &[3; 20], NtpTime::from_unix(std::time::Duration::ZERO))
    }

    #[test]
    fn a_message_is_read_back() {
        let key: [u8; 30] = std::array::from_fn(|byte| byte as u8);
        assert_eq!(read_mikey(&message()), Ok(MasterKey::from(key)));
    }

    /// Promise: MIKEY messages that end early, or ask for another cipher or an MKI, are refused with the reason.
    #[test]
    fn what_is_not_understood_is_refused() {
        let message = message();
        for length in 0..message.len() {
            assert_eq!(read_mikey(&message[..length]), Err(MikeyError::Short), "{length}");
        }
        let policy = message.windows(POLICY.len()).position(|part| part == POLICY).unwrap();
        let changed = |at: usize, value: u8| {
            let mut message = message.clone();
            message[at] = value;
            read_mikey(&message)
        };
        assert!(
            matches!(changed(policy + 5, 32), Err(MikeyError::Unsupported(why)) if why.starts_with("cipher"))
        );
        assert!(matches!(changed(0, 2), Err(MikeyError::Unsupported(_))));
        let kind = message.len() - 34;
        assert_eq!(message[kind], 2 << 4);
        assert_eq!(changed(kind, 2 << 4 | 1), Err(MikeyError::Short), "an SPI is missing");
        let with_mki = {
            let mut message = message.clone();
            let tag = message.len() - 1;
            message.splice(tag..tag, [4, 0, 0, 0, 1]);
            message[kind] |= 1;
            message[kind - 2] += 5; // length of the key data
            read_mikey(&message)
        };
        assert_eq!(with_mki, Err(MikeyError::Unsupported("MKI: expected none")));
        assert!(
            matches!(changed(kind, 0), Err(MikeyError::Unsupported(why)) if why.ends_with("expected a TEK"))
        );
        assert_eq!(changed(2, 20), Err(MikeyError::Unsupported("payload")));
    }

    proptest! {
        #[test]
        fn no_message_panics(at in 0..120_usize, bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut message = message();
            let at = at.min(message.len());
            message.splice(at.., bytes);
            _ = read_mikey(&message);
        }
    }
}
