//! Check of counted kernel calls against the call table of a path.

use std::ops::RangeInclusive;

use wirepath_datapath::{interleaved, most_readings};

use crate::case::Case;
use crate::error::Error;
use crate::packetization::PacketRange;
use crate::sent::Sent;
use crate::subject::PathKind;

/// Maximum number of calls explained by one wait: the send that found full buffers with the read before it,
/// `poll`, the read of returned loans, and the second half of a train or packet.
const FOR_A_WAIT: u64 = 8;

/// Calls explained by a report of the receiver, which may arrive in two pieces.
const FOR_A_REPORT: u64 = 2;

/// Maximum number of calls explained by sending a queue: one to send, one to reap completions.
const FOR_A_FLUSH: u64 = 2;

/// Maximum number of calls explained by a frame that a connection accepted in part: reading its rest, sending it,
/// and sending the rest of the train.
const FOR_A_CUT: u64 = 3;

/// Calls that occur once: the first and last reads of the error queue.
const ONCE: u64 = 2;

/// Checks that a path made as many calls as its table has, apart from calls explained by waits, reports of
/// the receiver and returned loans.
///
/// # Errors
/// [`Error::Faulty`] if the counts differ.
pub(crate) fn check(
    case: &Case,
    stretches: impl Iterator<Item = PacketRange>,
    sent: &Sent,
    reports: u64,
    counted: u64,
) -> Result<(), Error> {
    let table = expected(case, stretches, sent);
    let readings = if case.path.lends() { most_readings(*table.end()) + ONCE } else { 0 };
    let explained = FOR_A_WAIT * sent.waits + FOR_A_CUT * sent.cuts + FOR_A_REPORT * reports + readings;
    let most = table.end() + explained;
    if (*table.start()..=most).contains(&counted) {
        return Ok(());
    }
    Err(Error::Faulty(format!(
        "it made {counted} kernel calls for {} packets or blocks, and by its table they are {} to {most}, {explained} of them for \
         waits and for loans that are back",
        sent.packets,
        table.start()
    )))
}

/// Range of calls by the table alone.
fn expected(case: &Case, stretches: impl Iterator<Item = PacketRange>, sent: &Sent) -> RangeInclusive<u64> {
    let is_stream = case.transport == crate::result::Transport::Tcp;
    let headers = case.headers();
    let each = stretches.map(|stretch| match case.path {
        PathKind::Stream(path) => path.calls(&case.train(stretch, 0, headers), headers),
        PathKind::Block(path) => path.calls(false),
        PathKind::Interleaved => {
            let calls = interleaved::calls(stretch.packets as u32);
            Some(calls..=calls)
        }
    });
    let of_all = match case.path {
        PathKind::Block(path) if is_stream => {
            path.calls(true).map(|calls| calls.start() * sent.takes..=calls.end() * sent.takes)
        }
        _ => each
            .reduce(|sum, train| {
                let (sum, train) = sum.zip(train)?;
                Some(sum.start() + train.start()..=sum.end() + train.end())
            })
            .flatten(),
    };
    // Queued sends leave by one call per flush of the queue, whatever its length.
    of_all.unwrap_or(sent.flushes..=FOR_A_FLUSH * sent.flushes + ONCE)
}

#[cfg(test)]
mod tests {
    use wirepath_datapath::{BlockPath, DataPath};

    use super::*;
    use crate::result::Transport;

    const PACKETS: u64 = 480;

    /// Result of counting `calls` calls for 480 packets in trains of 48.
    fn counted(path: PathKind, calls: u64, sent: Sent) -> Result<(), Error> {
        let case = Case::new(path, Transport::Udp, Some(1000));
        let walk = case.walk(1000 * PACKETS, 1000 * PACKETS);
        let sent = Sent { packets: PACKETS, ..sent };
        check(&case, walk.stretches(case.train_packets().into()), &sent, 0, calls)
    }

    /// Promise: The assessment counts the system calls of each path and fails if they differ from the path's
    /// table.
    #[test]
    fn a_path_that_differs_from_its_table_is_faulty() {
        let faulty = |path, calls| matches!(counted(path, calls, Sent::default()), Err(Error::Faulty(_)));
        for (path, calls) in [
            (DataPath::WireSendfile, 10),
            (DataPath::GsoWritev, 10),
            (DataPath::Sendmmsg, 10),
            (DataPath::MmapWritev, 480),
            (DataPath::ReadWritev, 960),
            (DataPath::MmapSendRtp, 960),
            (DataPath::RtpSendfile, 960),
        ] {
            let path = PathKind::Stream(path);
            assert!(!faulty(path, calls), "{path}");
            assert!(faulty(path, calls - 1) && faulty(path, calls + 1), "{path}");
        }
        assert!(!faulty(PathKind::Block(BlockPath::ReadWrite), 960));
        assert!(faulty(PathKind::Block(BlockPath::ReadWrite), 480));
        assert!(faulty(PathKind::Block(BlockPath::Sendfile), 960));
        assert!(faulty(PathKind::Stream(DataPath::GsoZerocopy), 480));
    }

    /// Promise: The assessment counts the system calls of each path and fails if they differ from the path's
    /// table.
    #[test]
    fn waits_loans_and_queues_are_explained() {
        let full = Sent { waits: 3, ..Sent::default() };
        counted(PathKind::Stream(DataPath::MmapWritev), 480 + 3 * 3, full).unwrap();
        counted(PathKind::Stream(DataPath::GsoZerocopy), 70, Sent::default()).unwrap();
        let queued = Sent { flushes: 2, ..Sent::default() };
        counted(PathKind::Stream(DataPath::WireUring), 3, queued).unwrap();
        assert!(counted(PathKind::Stream(DataPath::WireUring), 10, queued).is_err());
        assert!(counted(PathKind::Stream(DataPath::WireUring), 0, queued).is_err());
    }

    /// Promise: The assessment counts the system calls of each path and fails if they differ from the path's
    /// table.
    #[test]
    fn frames_of_a_connection_take_the_calls_of_their_path() {
        let counted = |path, calls, sent| {
            let case = Case::new(path, Transport::Tcp, Some(1000));
            let walk = case.walk(1000 * PACKETS, 1000 * PACKETS);
            let sent = Sent { packets: PACKETS, ..sent };
            check(&case, walk.stretches(case.train_packets().into()), &sent, 0, calls)
        };
        let faulty = |path, calls| matches!(counted(path, calls, Sent::default()), Err(Error::Faulty(_)));
        for path in PathKind::framed() {
            let calls = match path {
                PathKind::Interleaved => 10,
                PathKind::Stream(DataPath::MmapWritev) => 480,
                _ => 960,
            };
            assert!(!faulty(path, calls), "{path}");
            assert!(faulty(path, calls - 1) && faulty(path, calls + 1), "{path}");
            let cut = Sent { cuts: 2, waits: 1, ..Sent::default() };
            counted(path, calls + 2 * 3 + 2, cut).unwrap();
        }
    }

    #[test]
    fn a_stream_is_judged_by_what_it_took() {
        let case = Case::new(PathKind::Block(BlockPath::ReadWrite), Transport::Tcp, None);
        let sent = Sent { packets: 1, takes: 100, waits: 20, ..Sent::default() };
        check(&case, std::iter::empty(), &sent, 0, 260).unwrap();
        assert!(check(&case, std::iter::empty(), &sent, 0, 199).is_err());
        assert!(check(&case, std::iter::empty(), &sent, 0, 400).is_err());
    }
}
