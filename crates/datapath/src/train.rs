//! Trains: consecutive packets of one size, stored back to back.

use wirepath_media::image::{MAX_TRAIN_BYTES, MAX_TRAIN_PACKETS};
use wirepath_media::rtp::{CLOCK_HZ, HEADER_LENGTH, Header, Run};
use wirepath_sys::gather::Datagram;

use crate::{Extent, MappedFile};

/// Consecutive packets of one size (the last may be shorter), stored back to back in a [`crate::MappedFile`]:
/// each an RTP header and its payload, or ([`Headers::Generated`]) payload only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train {
    /// Start of the first packet, in bytes from the start of the file.
    pub offset: u64,
    /// Length of all packets together in bytes.
    pub length: u32,
    /// Length in the file of every packet except the last, in bytes, including a stored header.
    pub packet_size: u16,
    /// Payload bytes of the first packet that are not sent, for a start inside a packet; the train then has
    /// only this packet.
    pub skip: u16,
    /// Index of the first packet in `run`.
    pub first: u32,
    /// Number of packets in the file before the first one, of all streams: its place in a [copy with
    /// framing](crate::MappedFile::copy_framed). 0 for a file of which there is none.
    pub packets_before: u32,
    /// The headers as they are stored.
    pub run: Run,
}

/// Source of a train's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headers {
    /// Packets are sent as they are stored.
    Stored,
    /// Headers are per-session: stored numbers plus an offset.
    Own {
        /// Added to each stored sequence number, modulo 2^16.
        sequence_offset: u16,
        /// Added to each stored timestamp, modulo 2^32.
        timestamp_offset: u32,
        /// True if the first packet of this train carries the marker, whatever its stored header says.
        marker: bool,
        /// True if the file contains headers, which are skipped; false if it has payload only.
        stored: bool,
    },
    /// The file has payload only, as an asset does: a packet's bytes in it are its payload, and the train's
    /// headers are generated.
    Generated,
    /// Packets are sent without RTP headers: a plain transport stream in UDP.
    Omitted {
        /// True if the file contains headers, which are skipped; false if it has payload only.
        stored: bool,
    },
}

impl Headers {
    /// Bytes in front of each payload in the file.
    pub(crate) fn stored_length(self) -> usize {
        match self {
            Headers::Stored | Headers::Own { stored: true, .. } | Headers::Omitted { stored: true } => {
                HEADER_LENGTH
            }
            Headers::Generated | Headers::Own { stored: false, .. } | Headers::Omitted { stored: false } => 0,
        }
    }

    /// Returns whether packets have headers.
    #[inline]
    pub(crate) fn are_sent(self) -> bool {
        !matches!(self, Headers::Omitted { .. })
    }

    /// The same headers for trains behind the first one: only a first packet carries an added marker.
    pub(crate) fn behind(self) -> Headers {
        match self {
            Headers::Own { sequence_offset, timestamp_offset, stored, .. } => {
                Headers::Own { sequence_offset, timestamp_offset, marker: false, stored }
            }
            Headers::Stored | Headers::Generated | Headers::Omitted { .. } => self,
        }
    }

    /// The same headers for packets of this file, which may have payload only.
    #[inline]
    pub fn in_file(self, file: &MappedFile) -> Headers {
        if file.has_payload_only() { self.of_payload() } else { self }
    }

    /// The same headers for packets of a file with payload only.
    #[inline]
    fn of_payload(self) -> Headers {
        match self {
            Headers::Stored | Headers::Generated => Headers::Generated,
            Headers::Own { sequence_offset, timestamp_offset, marker, .. } => {
                Headers::Own { sequence_offset, timestamp_offset, marker, stored: false }
            }
            Headers::Omitted { .. } => Headers::Omitted { stored: false },
        }
    }
}

impl Train {
    /// Number of packets.
    pub fn packets(&self) -> u32 {
        self.length.div_ceil(u32::from(self.packet_size))
    }

    /// Place of all of it in the file.
    pub(crate) fn extent(&self) -> Extent {
        Extent { offset: self.offset, length: self.length as usize }
    }

    /// Payload bytes that will be sent.
    pub fn payload_length(&self, headers: Headers) -> u32 {
        self.length - self.packets() * headers.stored_length() as u32 - u32::from(self.skip)
    }

    /// The train without its first `packets`; nothing if none are left.
    pub fn after(&self, packets: u32) -> Option<Train> {
        if packets == 0 {
            return Some(*self);
        }
        let cut = packets.checked_mul(self.packet_size.into()).filter(|cut| *cut < self.length)?;
        Some(Train {
            offset: self.offset + u64::from(cut),
            length: self.length - cut,
            first: self.first + packets,
            packets_before: self.packets_before.wrapping_add(packets),
            skip: 0,
            ..*self
        })
    }

    /// The train's first `packets` only (all if it has fewer).
    pub fn up_to(&self, packets: u32) -> Train {
        Train { length: self.length.min(packets.saturating_mul(self.packet_size.into())), ..*self }
    }

    /// Returns whether `behind` is stored after this train and belongs to the same stream, so that one call
    /// can send both: all packets have one size, but for a shorter last one.
    fn is_before(&self, behind: &Train) -> bool {
        let is_shorter = || behind.packets() == 1 && behind.length < self.packet_size.into();
        behind.offset == self.offset + u64::from(self.length)
            && (behind.packet_size == self.packet_size || is_shorter())
            && self.length.is_multiple_of(self.packet_size.into())
            && (self.skip, behind.skip) == (0, 0)
            && self.run.stream == behind.run.stream
    }

    /// Bytes of padding in the packets. Of a part of a train, it is the part's share.
    pub fn padding(&self) -> u32 {
        let packets = u32::from(self.run.last) + 1;
        (u32::from(self.run.padding) * self.packets().min(packets)).div_ceil(packets)
    }

    /// Size of packets except the last as they are sent, with headers.
    #[inline]
    pub(crate) fn sent_packet_size(&self, headers: Headers) -> u16 {
        let header = if headers.are_sent() { HEADER_LENGTH as u16 } else { 0 };
        self.packet_size.saturating_sub(headers.stored_length() as u16).saturating_add(header)
    }

    /// Returns whether packet `index` is sent with the header that is stored in front of it.
    #[inline]
    pub(crate) fn is_as_stored(&self, index: u32, headers: Headers) -> bool {
        headers == Headers::Stored && (self.skip == 0 || index > 0)
    }

    /// Extent of packet `index` with its stored header.
    #[inline]
    pub(crate) fn stored_packet(&self, index: u32) -> Extent {
        let start = index * u32::from(self.packet_size);
        let length = (self.length - start).min(self.packet_size.into());
        Extent { offset: self.offset + u64::from(start), length: length as usize }
    }

    /// Bytes that are sent, including RTP headers.
    fn sent_length(&self, headers: Headers) -> u32 {
        let header = if headers.are_sent() { HEADER_LENGTH as u32 } else { 0 };
        self.payload_length(headers) + self.packets() * header
    }

    /// Delay of the packet `packets` after the first, in microseconds.
    pub fn delay_us(&self, packets: u32) -> u64 {
        if self.run.together {
            return 0;
        }
        let ticks = (u64::from(packets) * u64::from(self.run.step)) >> 16;
        ticks * 1_000_000 / u64::from(CLOCK_HZ)
    }

    /// Number of packets that leave within `us` of the first one, including the first.
    pub fn packets_within(&self, us: u64) -> u32 {
        if self.run.together {
            return self.packets();
        }
        // No train is a minute long; the bound keeps the product below 2^64.
        let ticks = us.min(60_000_000) * u64::from(CLOCK_HZ) / 1_000_000;
        let packets = (ticks << 16).checked_div(u64::from(self.run.step)).unwrap_or(u64::MAX);
        u32::try_from(packets.saturating_add(1)).unwrap_or(u32::MAX).min(self.packets())
    }

    /// Each packet as a generated header, unless it is stored or omitted, and its payload in a mapping.
    #[inline]
    pub(crate) fn datagrams(self, headers: Headers) -> impl Iterator<Item = Datagram> {
        (0..self.packets()).map(move |index| self.datagram(index, headers))
    }

    /// Packet `index` as a generated header, unless it is stored or omitted, and its payload in a mapping.
    #[inline]
    pub(crate) fn datagram(&self, index: u32, headers: Headers) -> Datagram {
        if self.is_as_stored(index, headers) {
            return Datagram { header: None, payload: self.stored_packet(index).in_memory() };
        }
        let payload = self.payload(index, headers).in_memory();
        Datagram { header: headers.are_sent().then(|| self.header(index, headers)), payload }
    }

    /// Generated header of packet `index` of this train under `headers`. Of joined trains, only the stored
    /// headers are right for [`Headers::Stored`].
    #[inline]
    pub(crate) fn header(&self, index: u32, headers: Headers) -> [u8; HEADER_LENGTH] {
        self.header_fields(index, headers).to_bytes()
    }

    /// The same, as its fields.
    #[inline]
    pub(crate) fn header_fields(&self, index: u32, headers: Headers) -> Header {
        let mut header = self.run.header(self.first + index);
        if let Headers::Own { sequence_offset, timestamp_offset, marker, .. } = headers {
            header.sequence = header.sequence.wrapping_add(sequence_offset);
            header.timestamp = header.timestamp.wrapping_add(timestamp_offset);
            header.marker |= marker && index == 0;
        }
        header
    }

    /// Offset of packet `index`'s payload, without the skip.
    #[inline]
    pub(crate) fn payload(&self, index: u32, headers: Headers) -> Extent {
        let start = index * u32::from(self.packet_size);
        let packet = (self.length - start).min(self.packet_size.into()) as usize;
        let skip = if index == 0 { usize::from(self.skip) } else { 0 };
        let before = headers.stored_length() + skip;
        Extent {
            offset: self.offset + u64::from(start) + before as u64,
            length: packet.saturating_sub(before),
        }
    }
}

/// Most ticks by which a timestamp may be smaller in joined trains than in separate ones: a millisecond.
const MOST_TICKS: u32 = CLOCK_HZ / 1000;

/// Trains that are stored one after another, joined so that one call sends them.
///
/// Stored headers are sent as they are: then all are one train. If headers are made, trains whose headers fit one run
/// are one train: no timestamp is then greater than in the separate trains, so that the next train never goes back in
/// time, and none is smaller by more than a millisecond. Other trains, such as those of several pictures, remain separate:
/// a path may send them in one call nevertheless.
#[derive(Debug, Default)]
pub struct JoinedTrains {
    trains: Vec<Train>,
    /// Largest difference by which timestamps of the last train are smaller than in the separate trains, in 1/65536
    /// of a tick.
    early: u64,
}

impl JoinedTrains {
    /// No trains, with room for as many as a call can send: later nothing is allocated.
    pub fn with_room() -> JoinedTrains {
        JoinedTrains { trains: Vec::with_capacity(MAX_TRAIN_PACKETS as usize), early: 0 }
    }

    /// Begins with a train to which others may be joined.
    pub fn begin(&mut self, train: Train) {
        self.trains.clear();
        self.add(train);
    }

    /// The trains for one call.
    pub fn trains(&self) -> &[Train] {
        &self.trains
    }

    /// Removes all but the first train.
    pub fn keep_first(&mut self) {
        self.trains.truncate(1);
    }

    /// Removes the first packets, which were sent.
    pub fn pass(&mut self, packets: u32) {
        let mut left = packets;
        while let Some(first) = self.trains.first_mut() {
            match first.after(left) {
                Some(rest) => return *first = rest,
                None => left -= self.trains.remove(0).packets(),
            }
        }
    }

    /// Joins the next stored train. Returns false, without a change, if one call cannot send all of them.
    pub fn join(&mut self, behind: &Train, headers: Headers) -> bool {
        let Some(before) = whole(&self.trains) else { return false };
        let all = Train { length: before.length + behind.length, ..before };
        let has_room = || all.packets() <= MAX_TRAIN_PACKETS && all.sent_length(headers) <= MAX_TRAIN_BYTES;
        if !before.is_before(behind) || !has_room() {
            return false;
        }
        if headers == Headers::Stored {
            let (padding, last) = joined_padding(&all.run, &behind.run);
            // No header is made of this run.
            self.trains[0] = Train { run: Run { padding, last, ..all.run }, ..all };
            return true;
        }
        match self.trains.last_mut().and_then(|last| Some((run_with(last, self.early, behind)?, last))) {
            Some(((run, early), last)) => {
                *last = Train { run, first: 0, length: last.length + behind.length, ..*last };
                self.early = early;
            }
            None => self.add(*behind),
        }
        true
    }

    fn add(&mut self, train: Train) {
        // The fraction of the first packet's timestamp, if it is not the first packet of the run.
        self.early = u64::from(train.first > 0) << 16;
        self.trains.push(train);
    }
}

/// The first of trains that are stored one after another, with the packets of all, but not with their headers.
pub(crate) fn whole(trains: &[Train]) -> Option<Train> {
    let length = trains.iter().map(|train| train.length).sum();
    trains.first().map(|first| Train { length, ..*first })
}

/// Generated headers of all packets of trains.
#[inline]
pub(crate) fn made_headers(trains: &[Train], headers: Headers) -> impl Iterator<Item = [u8; HEADER_LENGTH]> {
    let of = move |(number, train): (usize, &Train)| {
        let (train, headers) = (*train, if number == 0 { headers } else { headers.behind() });
        (0..train.packets()).map(move |index| train.header(index, headers))
    };
    trains.iter().enumerate().flat_map(of)
}

/// The run for a train and the one behind it, and the difference by which its timestamps are too small: it was `early`
/// for the first train.
fn run_with(train: &Train, early: u64, behind: &Train) -> Option<(Run, u64)> {
    let Train { run, first, .. } = *train;
    let start = run.header(first);
    let packets = u64::from(train.packets());
    let (head, tail) =
        (behind.run.header(behind.first), behind.run.header(behind.first + behind.packets() - 1));
    let since_start = |header: Header| u64::from(header.timestamp.wrapping_sub(start.timestamp)) << 16;
    // Numbers of the first and the last packet of the next train, and their times from the start.
    let ends = [(packets, since_start(head)), (packets + u64::from(behind.packets()) - 1, since_start(tail))];
    // A single packet has no step of its own.
    let own = if packets == 1 { u64::MAX } else { u64::from(run.step) };
    let step = ends.iter().map(|(number, time)| time / number).fold(own, u64::min);
    let lowered = if packets == 1 { 0 } else { (own - step) * (packets - 1) };
    let early = ends.iter().map(|(number, time)| time - number * step).fold(early + lowered, u64::max);
    // In a joined run, only the first packet can carry the marker.
    let marked = (packets > 1 && run.is_marked(first + packets as u32 - 1)) || head.marker || tail.marker;
    // Packets that depart together have exact timestamps, and other clocks than 90 kHz.
    let most_ticks = if run.together { 0 } else { MOST_TICKS };
    let fits = early <= u64::from(most_ticks) << 16 && !marked && start.padding == head.padding;
    let step = u32::try_from(step).ok().filter(|_| fits)?;
    let Run { stream, together, .. } = run;
    let (padding, last) = joined_padding(&run, &behind.run);
    Some((Run { stream, together, padding, last, ..Run::new(start, step) }, early))
}

/// Bytes of padding of two runs, and the index of the last packet in both, from which
/// [`Train::padding`] follows.
fn joined_padding(first: &Run, second: &Run) -> (u16, u8) {
    (first.padding.saturating_add(second.padding), first.last.saturating_add(second.last).saturating_add(1))
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use wirepath_media::rtp::Marker;

    use super::*;

    /// Stored, moved and made headers.
    pub(crate) const HEADERS: [Headers; 3] = [
        Headers::Stored,
        Headers::Own { sequence_offset: 3, timestamp_offset: 5, marker: true, stored: true },
        Headers::Generated,
    ];

    pub(crate) fn example(length: u32) -> Train {
        let first = Header {
            padding: false,
            marker: false,
            payload_type: 33,
            sequence: 65_534,
            timestamp: 1000,
            ssrc: 0x1234_5678,
        };
        let run = Run::new(first, 90 << 16);
        Train { offset: 0, length, packet_size: 28, skip: 0, first: 0, packets_before: 0, run }
    }

    fn beginning(train: Train) -> JoinedTrains {
        let mut trains = JoinedTrains::with_room();
        trains.begin(train);
        trains
    }

    #[test]
    fn what_is_left_keeps_its_headers() {
        let train = example(3 * 28 + 14);
        assert_eq!(train.packets(), 4);
        let rest = train.after(2).unwrap();
        assert_eq!((rest.offset, rest.packets()), (56, 2));
        assert_eq!(rest.header(0, Headers::Stored), train.header(2, Headers::Stored));
        assert_eq!(rest.payload(1, Headers::Stored), Extent { offset: 56 + 28 + 12, length: 2 });
        assert_eq!(train.after(4), None);
        assert_eq!(train.after(u32::MAX), None);
        assert_eq!(train.up_to(1).packets(), 1);
        assert_eq!(train.up_to(u32::MAX), train);
    }

    #[test]
    fn own_headers_are_the_stored_ones_moved() {
        let train = example(56);
        let own = Headers::Own { sequence_offset: 3, timestamp_offset: 5, marker: true, stored: true };
        let (first, second) = (train.header(0, own), train.header(1, own));
        assert_eq!(first[1], 0x80 | 33);
        assert_eq!(second[1], 33);
        assert_eq!(first[2..4], 1u16.to_be_bytes());
        assert_eq!(second[4..8], 1095u32.to_be_bytes());
    }

    #[test]
    fn packets_without_headers_are_payload_alone() {
        let (train, omitted) = (example(56), Headers::Omitted { stored: true });
        let datagram = train.datagram(1, omitted);
        assert_eq!((datagram.header, datagram.payload), (None, 28 + 12..56));
        assert_eq!((train.payload_length(omitted), train.sent_length(omitted)), (32, 32));
        let of_payload = train.datagram(1, omitted.of_payload());
        assert_eq!((of_payload.header, of_payload.payload), (None, 28..56));
    }

    #[test]
    fn packets_have_times() {
        let train = example(4 * 28); // a packet each millisecond
        assert_eq!(train.delay_us(3), 3000);
        let within = [0, 999, 1000, 2999, 3000, u64::MAX].map(|us| train.packets_within(us));
        assert_eq!(within, [1, 1, 2, 3, 4, 4]);
        let together = Train { run: Run { step: 0, ..train.run }, ..train };
        assert_eq!(together.packets_within(0), 4);
    }

    #[test]
    fn neighbours_join_while_a_call_can_send_them() {
        let first = example(4 * 28);
        let header = first.run.header(4);
        let behind = Train { offset: 112, run: Run { first: header, ..first.run }, ..first };
        // As one train.
        let join = |behind: &Train, headers| {
            let mut joined = beginning(first);
            joined.join(behind, headers);
            if let [train] = joined.trains() { Some(*train).filter(|train| *train != first) } else { None }
        };
        let joined = join(&behind, Headers::Stored).unwrap();
        assert_eq!((joined.packets(), joined.length, joined.packets_before), (8, 224, 0));
        assert_eq!(joined.after(5).unwrap().packets_before, 5);
        assert_eq!(joined.header(5, Headers::Generated), behind.header(1, Headers::Generated));
        let generated = |behind: &Train| join(behind, Headers::Generated);
        assert!(generated(&behind).is_some());

        let moved = |ticks: u32| {
            let timestamp = header.timestamp + ticks;
            Train { run: Run { first: Header { timestamp, ..header }, ..behind.run }, ..behind }
        };
        assert!(generated(&moved(90)).is_some() && generated(&moved(91)).is_none());
        assert!(join(&moved(91), Headers::Stored).is_some(), "it has its timestamps");
        let marked = Header { padding: false, marker: true, ..header };
        assert_eq!(generated(&Train { run: Run::new(marked, behind.run.step), ..behind }), None);

        let stored = |behind: Train| join(&behind, Headers::Stored);
        assert_eq!(stored(Train { offset: 113, ..behind }), None, "a gap");
        assert_eq!(stored(Train { packet_size: 27, ..behind }), None, "another size");
        let alone = stored(Train { packet_size: 20, length: 20, ..behind }).unwrap();
        assert_eq!((alone.packets(), alone.length), (5, 132), "a shorter packet may be the last");
        assert_eq!(stored(Train { packet_size: 30, length: 30, ..behind }), None, "a longer packet");
        assert_eq!(stored(Train { skip: 1, ..behind }), None, "a start in a packet");
        let run = behind.run;
        assert_eq!(stored(Train { run: Run { stream: 1, ..run }, ..behind }), None, "another stream");
        assert!(stored(Train { length: 44 * 28, ..behind }).is_some());
        assert_eq!(stored(Train { length: 45 * 28, ..behind }), None, "more than 48 packets");
        let short = Train { length: 4 * 28 - 1, ..first };
        let behind = Train { offset: 111, ..behind };
        assert!(
            HEADERS.iter().all(|headers| !beginning(short).join(&behind, *headers)),
            "a short last packet"
        );
    }

    /// Trains whose packets are so many ticks apart, with timestamps as the packer makes them: that of a
    /// train's last packet is exact.
    fn trains(ticks: &[Vec<u32>]) -> Vec<Train> {
        let (mut trains, mut packets, mut now) = (Vec::new(), 0, 5_000_000);
        for gaps in ticks {
            let begun = now + gaps[0];
            now = begun + gaps[1..].iter().sum::<u32>();
            let count = gaps.len() as u32;
            let step = (u64::from(now - begun) << 16).div_ceil(u64::from(count - 1).max(1)) as u32;
            let example = example(count * 28);
            let first = Header { sequence: packets as u16, timestamp: begun, ..example.run.first };
            trains.push(Train { offset: u64::from(packets) * 28, run: Run::new(first, step), ..example });
            packets += count;
        }
        trains
    }

    proptest! {
        /// Promise: Generated timestamps never decrease, and are at most a millisecond before the stored
        /// timestamps.
        #[test]
        fn joined_trains_have_the_headers_of_the_separate_ones(
            ticks in vec(vec(prop_oneof![80..100_u32, 0..3_u32, 0..200_u32], 1..8), 2..16),
            sent in 0_u32..3,
        ) {
            let trains = trains(&ticks);
            let mut headers: Vec<Header> = trains
                .iter()
                .flat_map(|train| (0..train.packets()).map(|index| train.run.header(index)))
                .collect();
            let mut trains = trains.into_iter().peekable();
            // Part of the first train may have been sent before.
            let mut joined_headers: Vec<Header> = Vec::new();
            let mut rest = trains.next().and_then(|train| {
                headers.drain(..sent.min(train.packets()) as usize);
                train.after(sent)
            });
            while let Some(train) = rest.take().or_else(|| trains.next()) {
                let mut joined = beginning(train);
                while trains.peek().is_some_and(|behind| joined.join(behind, Headers::Generated)) {
                    trains.next();
                }
                let packets: u32 = joined.trains().iter().map(Train::packets).sum();
                prop_assert!(packets == MAX_TRAIN_PACKETS || trains.peek().is_none_or(|next| packets + next.packets() > MAX_TRAIN_PACKETS));
                for train in joined.trains() {
                    joined_headers
                        .extend((0..train.packets()).map(|index| train.header_fields(index, Headers::Generated)));
                }
            }
            prop_assert_eq!(headers.len(), joined_headers.len());
            for (stored, joined) in headers.iter().zip(&joined_headers) {
                let early = stored.timestamp.checked_sub(joined.timestamp);
                prop_assert!(early.is_some_and(|early| early <= MOST_TICKS), "{:?} {:?}", stored, joined);
                prop_assert_eq!(*stored, Header { timestamp: stored.timestamp, ..*joined });
            }
            prop_assert!(joined_headers.is_sorted_by_key(|header| header.timestamp));
        }
    }

    /// Trains of a constant rate with rounded timestamps are joined as far as one call can send them.
    #[test]
    fn trains_of_a_constant_rate_are_joined() {
        // A packet each 23.7 ticks, seven in a train.
        let time = |packet: u32| packet * 237 / 10;
        let gaps = |train: u32| (7 * train..7 * train + 7).map(|packet| time(packet + 1) - time(packet));
        let trains = trains(&(0..6).map(|train| gaps(train).collect()).collect::<Vec<_>>());
        for (index, first) in trains.iter().enumerate() {
            let mut joined = beginning(*first);
            for behind in &trains[index + 1..] {
                assert!(joined.join(behind, Headers::Generated) && joined.trains().len() == 1);
            }
            assert!(joined.early < 10 << 16, "{} ticks", joined.early >> 16);
        }
    }

    /// Pictures have timestamps and markers of their own.
    #[test]
    fn pictures_are_one_train_if_their_headers_are_stored_and_one_call_if_not() {
        let first = example(4 * 28);
        let picture = |train: &Train, padding| {
            let run = Run { padding, marker: Marker::Last, last: 3, together: true, ..train.run };
            Train { run: Run { step: 0, ..run }, ..*train }
        };
        let header = Header { timestamp: 4600, ..first.run.header(4) };
        let behind = Train { offset: 112, run: Run { first: header, ..first.run }, ..first };
        let (one, two) = (picture(&first, 40), picture(&behind, 13));
        for headers in &HEADERS[1..] {
            let mut joined = beginning(one);
            assert!(joined.join(&two, *headers));
            assert_eq!(joined.trains(), [one, two]);
            joined.pass(5);
            assert_eq!(joined.trains(), [two.after(1).unwrap()]);
            joined.pass(3);
            assert_eq!(joined.trains(), []);
        }
        let mut joined = beginning(one);
        assert!(joined.join(&two, Headers::Stored));
        let [train] = *joined.trains() else { panic!("they are one train") };
        assert_eq!((train.packets(), train.padding(), train.up_to(4).padding()), (8, 53, 27));
        assert_eq!((one.padding(), one.up_to(1).padding(), one.after(3).unwrap().padding()), (40, 10, 10));
        assert!((0..8).all(|index| train.is_as_stored(index, Headers::Stored)));
        assert_eq!(train.datagram(5, Headers::Stored), Datagram { header: None, payload: 140..168 });
        assert_eq!(one.header(0, HEADERS[1])[0], 0xa0, "generated headers have the padding bit");
    }

    #[test]
    fn trains_that_depart_together_are_one_with_exact_timestamps_only() {
        let together = |length, offset: u32, timestamp, step| {
            let train = example(length);
            let first = Header {
                sequence: train.run.first.sequence.wrapping_add((offset / 28) as u16),
                timestamp,
                ..train.run.first
            };
            Train { offset: offset.into(), run: Run { together: true, ..Run::new(first, step) }, ..train }
        };
        let headers = HEADERS[1];
        let join = |second| {
            let mut joined = beginning(together(3 * 28, 0, 1000, 160 << 16));
            assert!(joined.join(&second, headers));
            joined.trains().len()
        };
        assert_eq!(join(together(2 * 28, 3 * 28, 1480, 160 << 16)), 1);
        assert_eq!(join(together(2 * 28, 3 * 28, 1490, 160 << 16)), 2, "10 ticks later");
    }

    #[test]
    fn packets_of_a_movie_depart_together() {
        let mut train = example(4 * 28);
        train.run.together = true;
        assert_eq!((train.delay_us(3), train.packets_within(0)), (0, 4));
        assert_eq!(train.run.header(1).timestamp, 1090);
    }

    #[test]
    fn a_skip_shortens_the_first_payload() {
        let train = Train { skip: 10, ..example(28) };
        assert_eq!(train.payload(0, Headers::Stored), Extent { offset: 22, length: 6 });
        assert_eq!(train.payload_length(Headers::Stored), 6);
    }

    #[test]
    fn a_file_without_headers_is_all_payload() {
        let train = example(28 + 14);
        assert_eq!(train.payload(1, Headers::Generated), Extent { offset: 28, length: 14 });
        assert_eq!(train.payload_length(Headers::Generated), 42);
        assert_eq!(train.header(1, Headers::Generated), train.header(1, Headers::Stored));
        let own = Headers::Own { sequence_offset: 3, timestamp_offset: 5, marker: true, stored: true };
        assert_eq!(own.of_payload().stored_length(), 0);
        assert_eq!(train.header(0, own.of_payload()), train.header(0, own));
    }
}
