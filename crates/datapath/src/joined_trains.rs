//! Trains that are stored one after another, joined so that one call sends them.

use wirepath_media::image::{MAX_TRAIN_BYTES, MAX_TRAIN_PACKETS};
use wirepath_media::rtp::{CLOCK_HZ, HEADER_LENGTH, Header, Run};

use crate::{Headers, Train};

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
    /// Bytes of all trains.
    length: u32,
    /// Largest difference by which timestamps of the last train are smaller than in the separate trains, in 1/65536
    /// of a tick.
    early: u64,
}

impl JoinedTrains {
    /// No trains, with room for as many as a call can send: later nothing is allocated.
    pub fn with_room() -> JoinedTrains {
        JoinedTrains { trains: Vec::with_capacity(MAX_TRAIN_PACKETS as usize), length: 0, early: 0 }
    }

    /// Begins with a train to which others may be joined.
    pub fn begin(&mut self, train: Train) {
        self.trains.clear();
        self.length = train.length;
        self.add(train);
    }

    /// The trains for one call.
    pub fn trains(&self) -> &[Train] {
        &self.trains
    }

    /// Removes all but the first train.
    pub fn keep_first(&mut self) {
        self.trains.truncate(1);
        self.length = length(&self.trains);
    }

    /// Removes the first packets, which were sent.
    pub fn pass(&mut self, packets: u32) {
        let (mut left, mut sent) = (packets, 0);
        for train in &mut self.trains {
            if let Some(rest) = train.after(left) {
                *train = rest;
                break;
            }
            left -= train.packets();
            sent += 1;
        }
        self.trains.drain(..sent);
        self.length = length(&self.trains);
    }

    /// Joins the next stored train. Returns false, without a change, if one call cannot send all of them.
    pub fn join(&mut self, behind: &Train, headers: Headers) -> bool {
        let Some(first) = self.trains.first() else { return false };
        let before = Train { length: self.length, ..*first };
        let all = Train { length: before.length + behind.length, ..before };
        let has_room = || all.packets() <= MAX_TRAIN_PACKETS && all.sent_length(headers) <= MAX_TRAIN_BYTES;
        if !before.is_before(behind) || !has_room() {
            return false;
        }
        self.length = all.length;
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
    trains.first().map(|first| Train { length: length(trains), ..*first })
}

/// Bytes of all trains.
fn length(trains: &[Train]) -> u32 {
    trains.iter().map(|train| train.length).sum()
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
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use wirepath_media::rtp::Marker;
    use wirepath_sys::gather::Datagram;

    use super::*;
    use crate::train::tests::{HEADERS, example};

    fn beginning(train: Train) -> JoinedTrains {
        let mut trains = JoinedTrains::with_room();
        trains.begin(train);
        trains
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
        let three = Train { offset: 224, ..two };
        for headers in &HEADERS[1..] {
            let mut joined = beginning(one);
            assert!(joined.join(&two, *headers));
            assert_eq!(joined.trains(), [one, two]);
            joined.pass(5);
            assert_eq!(joined.trains(), [two.after(1).unwrap()]);
            assert!(joined.join(&three, *headers), "it is stored after the rest");
            assert_eq!(joined.trains(), [two.after(1).unwrap(), three]);
            joined.keep_first();
            assert!(joined.join(&three, *headers), "it is stored after the first");
            joined.pass(7);
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
}
