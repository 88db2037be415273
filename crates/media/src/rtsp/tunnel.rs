//! RTSP tunnelled through HTTP: the Base64 text in which requests come.
//!
//! "Tunnelling RTSP and RTP through HTTP" (QuickTime, 1999; ONVIF Streaming Specification, section 5.1.1.4): a GET
//! whose response has no end carries what the server says, as it is; the body of a POST carries what the client
//! says, in Base64. A client encodes each of its messages by itself, so padding may stand anywhere.

use base64::prelude::{BASE64_STANDARD, Engine};
use thiserror::Error;

/// Media type of both halves.
pub const MEDIA_TYPE: &str = "application/x-rtsp-tunnelled";

/// Symbols that stand for three bytes.
const GROUP: usize = 4;

/// Text of a tunnel that is not Base64.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the tunnelled requests are not in Base64 (RFC 4648 section 4)")]
pub struct NotBase64;

/// Decoder of a stream of Base64 texts one behind the other, however it is cut into pieces.
#[derive(Clone, Debug, Default)]
pub struct TunnelDecoder {
    /// Beginning of a group whose rest has not come.
    group: Vec<u8>,
}

impl TunnelDecoder {
    /// Appends to `decoded` what `text` completes. Line ends and other white space mean nothing.
    ///
    /// # Errors
    /// [`NotBase64`]; `decoded` then has what came before.
    pub fn decode(&mut self, text: &[u8], decoded: &mut Vec<u8>) -> Result<(), NotBase64> {
        for &symbol in text.iter().filter(|byte| !byte.is_ascii_whitespace()) {
            self.group.push(symbol);
            if self.group.len() == GROUP {
                BASE64_STANDARD.decode_vec(&self.group, decoded).map_err(|_| NotBase64)?;
                self.group.clear();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What pieces of text decode to.
    fn decoded<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<u8>, NotBase64> {
        let (mut decoder, mut bytes) = (TunnelDecoder::default(), Vec::new());
        pieces.into_iter().try_for_each(|piece| decoder.decode(piece, &mut bytes)).map(|()| bytes)
    }

    proptest! {
        /// Promise: Requests through a tunnel are decoded however they are split, padded and broken into
        /// lines.
        #[test]
        fn messages_come_out_however_their_text_is_cut(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
            piece in 1_usize..20,
        ) {
            let text: String = messages.iter().map(|message| BASE64_STANDARD.encode(message) + "\r\n").collect();
            prop_assert_eq!(decoded(text.as_bytes().chunks(piece)), Ok(messages.concat()));
        }

        #[test]
        fn no_text_makes_more_bytes_than_it_has(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let (mut decoder, mut bytes) = (TunnelDecoder::default(), Vec::new());
            _ = decoder.decode(&text, &mut bytes);
            prop_assert!(bytes.len() <= text.len() && decoder.group.len() <= GROUP);
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["OPTIONS rtsp://h/a RTSP/1.0\r\n", "====", "QQ=Q", "Q===", "AB\u{7f}C"] {
            assert_eq!(decoded([text.as_bytes()]), Err(NotBase64), "{text}");
        }
    }
}
