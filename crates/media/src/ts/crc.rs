//! CRC-32/MPEG-2 (ISO/IEC 13818-1 annex A): polynomial 0x04c11db7, not reflected, initial value 0xffffffff.

const POLYNOMIAL: u32 = 0x04c1_1db7;

const TABLE: [u32; 256] = table();

/// Checksum of `bytes`. The checksum of a section that ends with its checksum is 0.
pub(super) fn crc32_mpeg(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, &byte| (crc << 8) ^ TABLE[usize::from((crc >> 24) as u8 ^ byte)])
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = (index as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc << 1) ^ if crc & 0x8000_0000 != 0 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    #[test]
    fn agrees_with_the_published_check_value() {
        assert_eq!(super::crc32_mpeg(b"123456789"), 0x0376_e6e7);
    }
}
