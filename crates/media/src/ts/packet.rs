//! Transport stream packet, checked (ISO/IEC 13818-1 section 2.4.3).

/// Length of a transport stream packet in bytes, without a prefix or suffix that a file may add.
pub const PACKET_LENGTH: usize = 188;

/// First byte of every packet.
pub const SYNC_BYTE: u8 = 0x47;

/// PID of null packets, which only keep the bit rate constant.
pub const NULL_PID: u16 = 0x1fff;

/// Ticks of the system clock in a second. PCRs and departures are in these ticks.
pub const TICKS_PER_SECOND: u64 = 27_000_000;

/// Longest adaptation field in a packet of 188 bytes, without its length byte.
const MAX_ADAPTATION_LENGTH: usize = PACKET_LENGTH - 5;

/// View of one packet. No accessor reads outside the 188 bytes, whatever their length fields claim.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    bytes: &'a [u8; PACKET_LENGTH],
}

impl<'a> Packet<'a> {
    /// View of `bytes`; `None` if they do not start with the sync byte.
    #[inline]
    pub fn new(bytes: &'a [u8; PACKET_LENGTH]) -> Option<Self> {
        (bytes[0] == SYNC_BYTE).then_some(Self { bytes })
    }

    /// Bytes of the packet.
    pub fn bytes(self) -> &'a [u8; PACKET_LENGTH] {
        self.bytes
    }

    /// PID: number of the elementary stream or table that the packet belongs to, 0 to 8,191.
    #[inline]
    pub fn pid(self) -> u16 {
        u16::from_be_bytes([self.bytes[1], self.bytes[2]]) & 0x1fff
    }

    /// Returns the transport error indicator: an earlier receiver could not correct the packet, so that no
    /// field of it can be trusted.
    #[inline]
    pub fn transport_error(self) -> bool {
        self.bytes[1] & 0x80 != 0
    }

    /// Returns whether a PES packet or a section starts in the payload.
    #[inline]
    pub fn payload_unit_start(self) -> bool {
        self.bytes[1] & 0x40 != 0
    }

    /// Returns whether the payload is encrypted.
    pub fn scrambled(self) -> bool {
        self.bytes[3] & 0xc0 != 0
    }

    /// Continuity counter, 0 to 15: increases by one with each packet of the PID that has a payload.
    #[inline]
    pub fn continuity(self) -> u8 {
        self.bytes[3] & 0x0f
    }

    /// Returns whether the header says that a payload follows.
    #[inline]
    pub fn has_payload(self) -> bool {
        self.bytes[3] & 0x10 != 0
    }

    /// Adaptation field; `None` if it is missing, is empty, or exceeds the packet.
    #[inline]
    pub fn adaptation(self) -> Option<Adaptation<'a>> {
        let length = usize::from(self.bytes[4]);
        let present = self.bytes[3] & 0x20 != 0 && (1..=MAX_ADAPTATION_LENGTH).contains(&length);
        present.then(|| Adaptation { bytes: &self.bytes[5..5 + length] })
    }

    /// Payload; empty if the header announces none or the adaptation field leaves no room for it.
    #[inline]
    pub fn payload(self) -> &'a [u8] {
        let start = if self.bytes[3] & 0x20 != 0 { 5 + usize::from(self.bytes[4]) } else { 4 };
        if self.has_payload() { self.bytes.get(start..).unwrap_or_default() } else { &[] }
    }
}

/// Adaptation field of at least one byte (ISO/IEC 13818-1 section 2.4.3.4).
#[derive(Clone, Copy, Debug)]
pub struct Adaptation<'a> {
    bytes: &'a [u8],
}

impl Adaptation<'_> {
    /// Returns the discontinuity indicator: the time base or the continuity counter is discontinuous at this
    /// packet.
    #[inline]
    pub fn discontinuity(self) -> bool {
        self.bytes[0] & 0x80 != 0
    }

    /// Returns the random access indicator: a decoder can start with the elementary stream data of this
    /// packet.
    #[inline]
    pub fn random_access(self) -> bool {
        self.bytes[0] & 0x40 != 0
    }

    /// Programme clock reference; `None` if it is missing, or if the field is too short for it.
    #[inline]
    pub fn pcr(self) -> Option<Pcr> {
        let bytes = if self.bytes[0] & 0x10 != 0 { self.bytes.get(1..7)? } else { return None };
        let high = u64::from(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        let base = high << 1 | u64::from(bytes[4] >> 7);
        let extension = u64::from(bytes[4] & 1) << 8 | u64::from(bytes[5]);
        Some(Pcr::new(base * 300 + extension))
    }
}

/// Programme clock reference in ticks of 27 MHz. It wraps after 2^33 × 300 ticks, which is 26.5 hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pcr(u64);

impl Pcr {
    /// Number of ticks after which the value wraps to 0.
    pub const MODULUS: u64 = 300 << 33;

    /// Reference of `ticks`, modulo [`Pcr::MODULUS`].
    #[inline]
    pub fn new(ticks: u64) -> Self {
        Self(ticks % Self::MODULUS)
    }

    /// Ticks of 27 MHz, less than [`Pcr::MODULUS`].
    #[inline]
    pub fn ticks(self) -> u64 {
        self.0
    }

    /// Ticks since `earlier`, across a wrap if necessary; `None` if that is half of the range or more.
    #[inline]
    pub fn since(self, earlier: Self) -> Option<u64> {
        let forward = self.cyclic_since(earlier);
        (forward < Self::MODULUS / 2).then_some(forward)
    }

    /// Ticks since `earlier`, across a wrap if necessary; less than [`Pcr::MODULUS`].
    pub fn cyclic_since(self, earlier: Self) -> u64 {
        (self.0 + Self::MODULUS - earlier.0) % Self::MODULUS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(head: &[u8]) -> [u8; PACKET_LENGTH] {
        let mut bytes = [0xff; PACKET_LENGTH];
        bytes[..head.len()].copy_from_slice(head);
        bytes
    }

    #[test]
    fn reads_a_packet_with_a_clock_reference() {
        let bytes = packet(&[0x47, 0x41, 0x00, 0x35, 7, 0xd0, 0, 0, 0, 1, 0x80 | 0x7e | 1, 44, 9]);
        let packet = Packet::new(&bytes).expect("it starts with the sync byte");
        assert_eq!((packet.pid(), packet.continuity()), (0x100, 5));
        assert!(packet.payload_unit_start() && !packet.transport_error());
        let adaptation = packet.adaptation().expect("seven bytes of it");
        assert!(adaptation.discontinuity() && adaptation.random_access());
        assert_eq!(adaptation.pcr(), Some(Pcr::new(3 * 300 + 256 + 44)));
        assert_eq!((packet.payload().len(), packet.payload()[0]), (176, 9));
    }

    #[test]
    fn an_adaptation_field_longer_than_the_packet_is_none() {
        for length in [184, 200, 255] {
            let bytes = packet(&[0x47, 0x01, 0x00, 0x30, length, 0x10]);
            let packet = Packet::new(&bytes).expect("it starts with the sync byte");
            assert!(packet.adaptation().is_none() && packet.payload().is_empty(), "length {length}");
        }
    }

    #[test]
    fn a_clock_reference_in_too_short_a_field_is_none() {
        let bytes = packet(&[0x47, 0x01, 0x00, 0x30, 6, 0x10, 0, 0, 0, 1, 0, 0]);
        let adaptation = Packet::new(&bytes).and_then(Packet::adaptation).expect("six bytes of it");
        assert_eq!(adaptation.pcr(), None);
    }

    #[test]
    fn the_clock_reference_wraps() {
        let before = Pcr::new(Pcr::MODULUS - 10);
        assert_eq!(Pcr::new(5).since(before), Some(15));
        assert_eq!(before.since(Pcr::new(5)), None);
    }

    proptest! {
        #[test]
        fn an_independent_reader_agrees(mut bytes in proptest::collection::vec(any::<u8>(), PACKET_LENGTH)) {
            bytes[0] = SYNC_BYTE;
            bytes[3] |= 0x10; // the other parser refuses the reserved value 0
            bytes[4] %= 183;
            let array: &[u8; PACKET_LENGTH] = bytes.as_slice().try_into().expect("188 bytes");
            let ours = Packet::new(array).expect("it starts with the sync byte");
            let theirs = mpeg2ts_reader::packet::Packet::new(&bytes);
            prop_assert_eq!(ours.pid(), u16::from(theirs.pid()));
            prop_assert_eq!(ours.continuity(), theirs.continuity_counter().count());
            prop_assert_eq!(ours.payload_unit_start(), theirs.payload_unit_start_indicator());
            prop_assert_eq!(ours.payload(), theirs.payload().unwrap_or_default());
            let pcr = theirs.adaptation_field().and_then(|field| field.pcr().ok()).map(u64::from);
            prop_assert_eq!(ours.adaptation().and_then(|field| field.pcr()), pcr.map(Pcr::new));
        }
    }
}
