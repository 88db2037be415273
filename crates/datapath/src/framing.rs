//! Framing of packets in RTSP connections (RFC 2326 section 10.12).

/// Bytes in front of each packet: `$`, its channel, its length.
pub const FRAMING_LENGTH: usize = 4;

/// Framing of a packet of `length` bytes.
pub fn framing(channel: u8, length: u16) -> [u8; FRAMING_LENGTH] {
    let [high, low] = length.to_be_bytes();
    [b'$', channel, high, low]
}

/// Channel of a stream's packets in copies with framing: two channels for each stream, the first one for RTP,
/// as players request them when they set up all tracks in order.
#[inline]
pub fn channel_of(stream: u8) -> u8 {
    stream.wrapping_mul(2)
}
