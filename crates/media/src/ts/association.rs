//! Programme association table with one programme (ISO/IEC 13818-1 section 2.4.4.3).

use super::crc::crc32_mpeg;
use super::packet::{PACKET_LENGTH, SYNC_BYTE};

/// transport_stream_id of transport streams that are extracted from another.
const TRANSPORT_STREAM: u16 = 1;

/// Bytes of a section after its length field: identifier, version, section numbers, one programme, checksum.
const SECTION: u8 = 13;

/// Makes a packet with a table of one programme and its map's PID. `version`, 0 to 31, has to change with the
/// table; `continuity`, 0 to 15, has to increase by one with each packet.
pub fn association(programme: u16, map_pid: u16, version: u8, continuity: u8) -> [u8; PACKET_LENGTH] {
    let mut packet = [0xff; PACKET_LENGTH];
    let [programme_high, programme_low] = programme.to_be_bytes();
    let [map_high, map_low] = map_pid.to_be_bytes();
    let [stream_high, stream_low] = TRANSPORT_STREAM.to_be_bytes();
    packet[..5].copy_from_slice(&[SYNC_BYTE, 0x40, 0, 0x10 | continuity & 0x0f, 0]);
    let section = [
        0, // table id of the association table
        0xb0,
        SECTION,
        stream_high,
        stream_low,
        0xc1 | (version & 0x1f) << 1, // version; currently applicable
        0,
        0,
        programme_high,
        programme_low,
        0xe0 | map_high & 0x1f,
        map_low,
    ];
    packet[5..17].copy_from_slice(&section);
    packet[17..21].copy_from_slice(&crc32_mpeg(&section).to_be_bytes());
    packet
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ts::{Packet, Psi};

    #[test]
    fn it_is_read_as_what_it_says() {
        let mut tables = Psi::new();
        let packet = association(0x1234, 0x1abc, 31, 15);
        let packet = Packet::new(&packet).unwrap();
        assert_eq!((packet.pid(), packet.payload_unit_start(), packet.continuity()), (0, true, 15));
        assert!(tables.push(packet), "not read as a table");
        assert_eq!(tables.map_pid(0x1234), Some(0x1abc));
        assert_eq!(tables.current_programmes().count(), 1);
        let other = association(0x1234, 0x0abc, 0, 0);
        assert!(tables.push(Packet::new(&other).unwrap()), "another version is another table");
        assert_eq!(tables.map_pid(0x1234), Some(0x0abc));
    }
}
