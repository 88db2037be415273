//! Kernel calls of each path: the numbers of its page in `docs/paths`, and of the papers' tables 3 and 4.

use std::ops::RangeInclusive;

use crate::assessed::gso_zerocopy::FRAGMENTS;
use crate::assessed::sendfilew;
use crate::serving::kernel_module::packets_a_call;
use crate::{BlockPath, DataPath, Headers, Train};

impl DataPath {
    /// Calls for a train, if no call finds the socket full; `None` for a path that queues.
    pub fn calls(self, train: &Train, headers: Headers) -> Option<RangeInclusive<u64>> {
        let packets = u64::from(train.packets());
        let in_calls = |of: u32| packets.div_ceil(of.max(1).into())..=packets.div_ceil(of.max(1).into());
        match self {
            DataPath::WireUring | DataPath::WireMapping => None,
            DataPath::WireSendfile | DataPath::GsoWritev | DataPath::Sendmmsg => Some(1..=1),
            DataPath::GsoZerocopy if headers == Headers::Stored => Some(1..=1),
            // One call if no header block is free, since the train is then copied.
            DataPath::GsoZerocopy => Some(1..=packets.div_ceil(fewest_lent(train)).max(1)),
            DataPath::MmapWritev | DataPath::Rtpsendfile | DataPath::MmapRtpmsend => Some(packets..=packets),
            DataPath::ReadSendRtp
            | DataPath::ReadWritev
            | DataPath::MmapSendRtp
            | DataPath::RtpSendfile
            | DataPath::MmapSendMsend => Some(2 * packets..=2 * packets),
            DataPath::Krtpsendfile | DataPath::Krtpmsend => Some(in_calls(packets_a_call(train))),
            DataPath::Sendfilew => Some(in_calls(sendfilew::PACKETS)),
        }
    }

    /// Calls for a packet by table 4 of the papers, without `mmap`, which is called once for a file; nothing
    /// for paths that are not in the papers, and for those with one call for a whole file. Where the papers
    /// have more calls than we do, they cork and uncork; MSG_MORE needs no call for that.
    pub fn calls_in_papers(self) -> Option<u32> {
        match self {
            DataPath::ReadSendRtp | DataPath::ReadWritev => Some(2),
            DataPath::MmapWritev | DataPath::Rtpsendfile | DataPath::MmapRtpmsend => Some(1),
            DataPath::MmapSendRtp | DataPath::RtpSendfile | DataPath::MmapSendMsend => Some(4),
            _ => None,
        }
    }
}

impl BlockPath {
    /// Calls for a block, datagram or train that is sent whole, or for the part of a block that a stream
    /// accepts at once; nothing for a path that queues, whose calls are shared by trains.
    pub fn calls(self, is_stream: bool) -> Option<RangeInclusive<u64>> {
        match self {
            BlockPath::ReadWrite => Some(2..=2),
            // With a second call if the ring has to be waited for.
            BlockPath::UringSend => is_stream.then_some(1..=2),
            _ => Some(1..=1),
        }
    }

    /// Calls for a packet or block by table 3 of the papers, without `mmap`; nothing for paths that are not
    /// in the papers, and for those with one call for a whole file. Over TCP their `sendfile` is one call for
    /// a whole file, and the other paths have no figure.
    pub fn calls_in_papers(self, is_stream: bool, is_whole_file: bool) -> Option<u32> {
        match self {
            BlockPath::Sendfile => (is_stream == is_whole_file).then_some(1),
            BlockPath::MmapSend | BlockPath::MmapMsend => (!is_whole_file).then_some(1),
            BlockPath::ReadWrite => (!is_whole_file).then_some(2),
            _ => None,
        }
    }
}

/// Packets with generated headers that fit a packet buffer if each payload touches as many pages as it can;
/// the whole train if none fits, since it is then copied.
fn fewest_lent(train: &Train) -> u64 {
    let page = rustix::param::page_size();
    let pages = (usize::from(train.packet_size) + page - 2) / page + 1;
    match FRAGMENTS / (1 + pages) {
        0 => train.packets().max(1).into(),
        packets => packets as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::tests::example;

    #[test]
    fn a_train_that_is_lent_takes_a_call_for_five_packets_at_most() {
        if rustix::param::page_size() != 4096 {
            return; // larger pages are touched by more packets
        }
        let calls = |packet_size: u16, packets: u32| {
            let train = Train { packet_size, ..example(packets * u32::from(packet_size)) };
            DataPath::GsoZerocopy.calls(&train, Headers::Generated).unwrap()
        };
        assert_eq!(calls(1460, 48), 1..=10);
        assert_eq!(calls(8948, 7), 1..=3);
        assert_eq!(calls(60_000, 1), 1..=1);
    }

    /// Promise: The assessment counts the system calls of each path and fails if they differ from the path's
    /// table.
    #[test]
    fn paths_of_the_papers_never_make_more_calls_than_they() {
        let train = Train { packet_size: 1000, ..example(4000) };
        for path in DataPath::ALL {
            let Some((calls, papers)) = path.calls(&train, Headers::Generated).zip(path.calls_in_papers())
            else {
                continue;
            };
            assert!(*calls.end() <= u64::from(4 * papers), "{path}: {calls:?}, {papers} a packet");
        }
        for path in BlockPath::ALL {
            let papers = path.calls_in_papers(false, false);
            assert!(
                path.calls(false).zip(papers).is_none_or(|(calls, papers)| *calls.end() == u64::from(papers)),
                "{path}"
            );
        }
    }
}
