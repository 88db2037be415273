//! Requests through an HTTP tunnel: no text makes the decoder panic or hold more than a group, and how it is cut makes no
//! difference. What it decodes goes to the RTSP reader.

use wirepath_media::rtsp::{NotBase64, TunnelDecoder};

use crate::rtsp;

/// Feeds `data` whole, and cut into pieces of a size that its first byte gives.
pub fn fuzz(data: &[u8]) {
    let Some((&piece, text)) = data.split_first() else { return };
    let whole = decode(text, text.len().max(1));
    assert_eq!(decode(text, usize::from(piece) + 1), whole, "how the text is cut makes a difference");
    let (decoded, _) = whole;
    assert!(decoded.len() <= text.len() / 4 * 3, "{} bytes out of {}", decoded.len(), text.len());
    rtsp::fuzz(&[&[piece][..], &decoded].concat());
}

/// Decodes a text in pieces, up to its first error.
fn decode(text: &[u8], piece: usize) -> (Vec<u8>, Result<(), NotBase64>) {
    let (mut decoder, mut decoded) = (TunnelDecoder::default(), Vec::new());
    let result = text.chunks(piece).try_for_each(|piece| decoder.decode(piece, &mut decoded));
    (decoded, result)
}
