//! Packets of a file, sent repeatedly until the volume is reached.

/// Division of a file into packets, and the volume of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packetization {
    /// Bytes of payload in the file.
    file: u64,
    /// Payload of each packet except the file's last, which may be shorter.
    packet: u64,
    /// Payload of the run; the last packet may exceed it.
    volume: u64,
}

/// Consecutive packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketRange {
    /// First packet, counted from the beginning of the file.
    pub(crate) first: u64,
    /// Offset of the range in the file's payload.
    pub(crate) start: u64,
    /// Number of packets.
    pub(crate) packets: u64,
    /// Payload bytes of all packets.
    pub(crate) bytes: u64,
}

impl Packetization {
    /// Packetization of `file` bytes of payload in packets of `packet` bytes, neither of them 0, until
    /// `volume` bytes are sent.
    pub(crate) fn new(file: u64, packet: u64, volume: u64) -> Packetization {
        Packetization { file, packet: packet.min(file), volume }
    }

    /// Limits the volume; the last packet may exceed it.
    pub(crate) fn up_to(self, volume: u64) -> Packetization {
        Packetization { volume: self.volume.min(volume), ..self }
    }

    /// Number of packets in the file.
    pub(crate) fn packets_in_file(&self) -> u64 {
        self.file.div_ceil(self.packet)
    }

    /// Ranges of at most `most` packets that make up the run.
    #[inline]
    pub(crate) fn stretches(self, most: u64) -> impl Iterator<Item = PacketRange> + Clone {
        let (mut first, mut left) = (0, self.volume);
        std::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            if first == self.packets_in_file() {
                first = 0;
            }
            let packets = most.min(self.packets_in_file() - first).min(left.div_ceil(self.packet));
            let bytes = (packets * self.packet).min(self.file - first * self.packet);
            let stretch = PacketRange { first, start: first * self.packet, packets, bytes };
            first += packets;
            left = left.saturating_sub(bytes);
            Some(stretch)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(file: u64, packet: u64, volume: u64, most: u64) -> Vec<(u64, u64, u64)> {
        let stretches = Packetization::new(file, packet, volume).stretches(most);
        stretches.map(|PacketRange { first, packets, bytes, .. }| (first, packets, bytes)).collect()
    }

    #[test]
    fn a_volume_of_the_files_length_is_the_file() {
        assert_eq!(walk(1000, 100, 1000, 4), [(0, 4, 400), (4, 4, 400), (8, 2, 200)]);
        assert_eq!(walk(1050, 100, 1050, 100), [(0, 11, 1050)]);
    }

    #[test]
    fn a_file_goes_round_and_round() {
        assert_eq!(walk(250, 100, 600, 2), [(0, 2, 200), (2, 1, 50), (0, 2, 200), (2, 1, 50), (0, 1, 100)]);
    }

    #[test]
    fn packets_are_never_longer_than_the_file() {
        assert_eq!(walk(10, 100, 25, 1), [(0, 1, 10), (0, 1, 10), (0, 1, 10)]);
    }
}
