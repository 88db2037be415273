//! RTSP tunnelled through HTTP: decodes the Base64 text of requests.
//!
//! "Tunnelling RTSP and RTP through HTTP" (QuickTime, 1999; ONVIF Streaming Specification, section 5.1.1.4):
//! the endless response to a GET carries the server's bytes, unchanged; the body of a POST carries the
//! client's bytes, in Base64. Clients encode each message separately, so there may be padding anywhere.

use base64::prelude::{BASE64_STANDARD, Engine};
use thiserror::Error;

/// Media type of both directions.
pub const MEDIA_TYPE: &str = "application/x-rtsp-tunnelled";

/// Base64 symbols of three bytes.
const GROUP: usize = 4;

/// Error: text of a tunnel that is not Base64.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the tunnelled requests are not in Base64 (RFC 4648 section 4)")]
pub struct NotBase64;

/// Decoder of a stream of consecutive Base64 texts, in pieces of any size.
#[derive(Clone, Debug, Default)]
pub struct TunnelDecoder {
    /// Symbols of an incomplete group.
    group: Vec<u8>,
}

impl TunnelDecoder {
    /// Appends the bytes of complete groups to `decoded`. White space, such as line ends, is ignored.
    ///
    /// # Errors
    /// [`NotBase64`]; `decoded` then contains the bytes before the error.
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

    /// Decodes pieces of text.
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
