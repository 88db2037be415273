//! One transport stream packet, checked (ISO/IEC 13818-1 section 2.4.3).

/// Length of a transport stream packet in bytes, without the prefix or suffix that a file may add.
pub const PACKET_LENGTH: usize = 188;

/// The first byte of every packet.
pub const SYNC_BYTE: u8 = 0x47;

/// The PID of packets that carry nothing and keep a constant bit rate.
pub const NULL_PID: u16 = 0x1fff;

/// Ticks of the system clock, and so of a PCR and of every departure here, in one second.
pub const TICKS_PER_SECOND: u64 = 27_000_000;

/// The longest adaptation field that leaves the packet 188 bytes long, without its length byte.
const MAX_ADAPTATION_LENGTH: usize = PACKET_LENGTH - 5;

/// A view of one packet. Every accessor stays inside the 188 bytes, whatever they claim.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    bytes: &'a [u8; PACKET_LENGTH],
}

impl<'a> Packet<'a> {
    /// A view of `bytes`, or `None` where they do not start with the sync byte.
    #[inline]
    pub fn new(bytes: &'a [u8; PACKET_LENGTH]) -> Option<Self> {
        (bytes[0] == SYNC_BYTE).then_some(Self { bytes })
    }

    /// The bytes of the packet.
    pub fn bytes(self) -> &'a [u8; PACKET_LENGTH] {
        self.bytes
    }

    /// PID: number of the elementary stream or table that the packet belongs to, 0 to 8,191.
    #[inline]
    pub fn pid(self) -> u16 {
        u16::from_be_bytes([self.bytes[1], self.bytes[2]]) & 0x1fff
    }

    /// Returns whether a receiver before us could not correct the packet; then nothing in it can be trusted.
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

    /// The continuity counter, 0 to 15; it goes up by one with each packet of the PID that has a payload.
    #[inline]
    pub fn continuity(self) -> u8 {
        self.bytes[3] & 0x0f
    }

    /// Returns whether the header says that a payload follows.
    #[inline]
    pub fn has_payload(self) -> bool {
        self.bytes[3] & 0x10 != 0
    }

    /// The adaptation field, or `None` where there is none, it is empty, or its length goes past the packet.
    #[inline]
    pub fn adaptation(self) -> Option<Adaptation<'a>> {
        let length = usize::from(self.bytes[4]);
        let present = self.bytes[3] & 0x20 != 0 && (1..=MAX_ADAPTATION_LENGTH).contains(&length);
        present.then(|| Adaptation { bytes: &self.bytes[5..5 + length] })
    }

    /// The payload; empty where the header announces none or the adaptation field leaves no room for one.
    #[inline]
    pub fn payload(self) -> &'a [u8] {
        let start = if self.bytes[3] & 0x20 != 0 { 5 + usize::from(self.bytes[4]) } else { 4 };
        if self.has_payload() { self.bytes.get(start..).unwrap_or_default() } else { &[] }
    }
}

/// An adaptation field of at least one byte (ISO/IEC 13818-1 section 2.4.3.4).
#[derive(Clone, Copy, Debug)]
pub struct Adaptation<'a> {
    bytes: &'a [u8],
}

impl Adaptation<'_> {
    /// Returns whether the time base or the continuity counter is broken on purpose at this packet.
    #[inline]
    pub fn discontinuity(self) -> bool {
        self.bytes[0] & 0x80 != 0
    }

    /// Returns whether a decoder can start with the elementary stream data here.
    #[inline]
    pub fn random_access(self) -> bool {
        self.bytes[0] & 0x40 != 0
    }

    /// The programme clock reference; `None` without one, or if the field is too short for it.
    #[inline]
    pub fn pcr(self) -> Option<Pcr> {
        let bytes = if self.bytes[0] & 0x10 != 0 { self.bytes.get(1..7)? } else { return None };
        let high = u64::from(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        let base = high << 1 | u64::from(bytes[4] >> 7);
        let extension = u64::from(bytes[4] & 1) << 8 | u64::from(bytes[5]);
        Some(Pcr::new(base * 300 + extension))
    }
}

/// A programme clock reference in ticks of 27 MHz. It wraps after 2^33 × 300 ticks, which is 26.5 hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pcr(u64);

impl Pcr {
    /// The number of ticks after which the value starts again at 0.
    pub const MODULUS: u64 = 300 << 33;

    /// The reference `ticks` after 0, modulo [`Pcr::MODULUS`].
    #[inline]
    pub fn new(ticks: u64) -> Self {
        Self(ticks % Self::MODULUS)
    }

    /// Ticks of 27 MHz, less than [`Pcr::MODULUS`].
    #[inline]
    pub fn ticks(self) -> u64 {
        self.0
    }

    /// Ticks from `earlier` to here when the shorter way round the wrap goes forward, else `None`.
    #[inline]
    pub fn since(self, earlier: Self) -> Option<u64> {
        let forward = self.cyclic_since(earlier);
        (forward < Self::MODULUS / 2).then_some(forward)
    }

    /// Ticks from `earlier` to here going forward, at most once round the wrap.
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
            bytes[3] |= 0x10; // the other reader refuses the reserved value 0
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
