//! The packets of a file, sent round and round until the volume is full.

/// Division of a file into packets, and the volume of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packetization {
    /// Bytes of payload in the file.
    file: u64,
    /// Payload of each packet but the file's last, which may be shorter.
    packet: u64,
    /// Payload of the run: the last packet may go beyond it.
    volume: u64,
}

/// Consecutive packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketRange {
    /// The first, counted from the beginning of the file.
    pub(crate) first: u64,
    /// Offset of its payload in the file's.
    pub(crate) start: u64,
    /// Number of packets.
    pub(crate) packets: u64,
    /// Payload of all of them in bytes.
    pub(crate) bytes: u64,
}

impl Packetization {
    /// Over the `file` bytes of payload in packets of `packet` bytes, neither of them 0, until `volume` bytes
    /// are sent.
    pub(crate) fn new(file: u64, packet: u64, volume: u64) -> Packetization {
        Packetization { file, packet: packet.min(file), volume }
    }

    /// Limits the volume; the last packet may go beyond it.
    pub(crate) fn up_to(self, volume: u64) -> Packetization {
        Packetization { volume: self.volume.min(volume), ..self }
    }

    /// Packets of one time round.
    pub(crate) fn packets_in_file(&self) -> u64 {
        self.file.div_ceil(self.packet)
    }

    /// The run in stretches of at most `most` packets.
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
