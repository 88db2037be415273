//! Reasons for differences between counts and the papers.

use wirepath_datapath::{BlockPath, DataPath};

use super::lines::{Amount, line_of};
use crate::result::{Counted, PathKind};

/// Reasons for a difference from the papers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reasons {
    /// Reasons; empty if nothing differs.
    pub reasons: Vec<&'static str>,
    /// True if the reasons account for the whole difference, to the last call and copy.
    pub are_all: bool,
}

const CORK: &str = "MSG_MORE corks and the payload's call uncorks: no calls for that";
const FULL: &str = "the socket had no room for all of it at once";
const TRAINS: &str = "one call takes many packets";
const PAGES: &str = "a read copies page by page: a packet that crosses a page is two copies";
const JOINED: &str = "one copy takes header and payload, which the papers count as two";
const REFERENCES: &str = "this kernel copies pages that are sent by reference over UDP";

/// Kernel functions that copy into packets.
const INTO_PACKETS: [&str; 4] =
    ["_copy_from_iter", "_copy_from_iter_nocache", "csum_and_copy_from_iter", "csum_and_copy_from_iter_full"];

/// Compares counts with the papers' line for them.
pub fn reasons(counted: &Counted) -> Reasons {
    let Some(line) = line_of(counted) else { return Reasons { reasons: Vec::new(), are_all: false } };
    let mut reasons = Reasons { reasons: Vec::new(), are_all: true };
    if let Some(papers) = line.calls {
        reasons.add(papers, counted.packets, counted.calls, &calls(papers, counted));
    } else {
        reasons.reasons.extend((counted.calls < counted.packets).then_some(TRAINS));
    }
    if let Some(papers) = line.copies {
        reasons.add(papers, counted.packets, counted.copies(), &copies(line.path, counted));
    }
    reasons
}

impl Reasons {
    /// Adds the differences that are not zero, and checks that they account for the whole difference.
    fn add(&mut self, papers: Amount, packets: u64, counted: u64, differences: &[(&'static str, i64)]) {
        let there: Vec<_> = differences.iter().filter(|(_, difference)| *difference != 0).collect();
        let sum: i64 = there.iter().map(|(_, difference)| difference).sum();
        self.are_all &= papers.of(packets).checked_add_signed(sum) == Some(counted);
        self.reasons.extend(there.into_iter().map(|(reason, _)| *reason));
    }
}

/// Possible differences of call counts from the papers', and their reasons.
fn calls(papers: Amount, counted: &Counted) -> Vec<(&'static str, i64)> {
    let packets = counted.packets as i64;
    match papers {
        // Cork, header, payload, uncork.
        Amount::Each(4) => vec![(CORK, -2 * packets)],
        Amount::InAll(1) => vec![(FULL, (counted.calls as i64 - 1).max(0))],
        _ => Vec::new(),
    }
}

/// Possible differences of copy counts, and their reasons.
fn copies(path: PathKind, counted: &Counted) -> Vec<(&'static str, i64)> {
    let packets = counted.packets as i64;
    let by = |function| counted.copies_by(function) as i64;
    let reads = matches!(
        path,
        PathKind::Block(BlockPath::ReadWrite)
            | PathKind::Stream(DataPath::ReadSendRtp | DataPath::ReadWritev)
    );
    let joins = matches!(path, PathKind::Stream(DataPath::ReadWritev | DataPath::MmapWritev));
    let refers = path.needs_module()
        || matches!(path, PathKind::Block(BlockPath::Sendfile) | PathKind::Stream(DataPath::RtpSendfile));
    // Paths that send the header by itself: a copy that the papers count too.
    let headers = if matches!(path, PathKind::Stream(DataPath::RtpSendfile | DataPath::MmapSendMsend)) {
        packets
    } else {
        0
    };
    vec![
        (PAGES, if reads { by("_copy_to_iter") - packets } else { 0 }),
        (JOINED, if joins { -packets } else { 0 }),
        (REFERENCES, if refers { INTO_PACKETS.into_iter().map(by).sum::<i64>() - headers } else { 0 }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Copies, Transport};

    fn counted(path: &str, calls: u64, copies: &[(&str, u64)]) -> Counted {
        let copies = copies.iter().map(|(function, calls)| Copies {
            function: (*function).to_owned(),
            calls: *calls,
            bytes: 1000 * calls,
        });
        Counted {
            path: path.parse().unwrap(),
            transport: Transport::Udp,
            size: Some(1460),
            packets: 100,
            payload_bytes: 146_000,
            header_bytes: 1200,
            calls,
            copies: copies.collect(),
        }
    }

    fn of(path: &str, calls: u64, copies: &[(&str, u64)]) -> (Vec<&'static str>, bool) {
        let Reasons { reasons, are_all } = reasons(&counted(path, calls, copies));
        (reasons, are_all)
    }

    #[test]
    fn what_does_not_differ_needs_no_reason() {
        assert_eq!(of("krtpsendfile", 1, &[]), (vec![], true));
        assert_eq!(of("rtpsendfile", 100, &[("_copy_from_user", 100)]), (vec![], true));
        assert!(!of("mmap_send_rtp", 400, &[("_copy_from_iter", 200)]).1, "it corks without calls");
    }

    /// Promise: `wirepath assess count` counts the calls and copies in the papers' tables and explains
    /// differences.
    #[test]
    fn what_differs_is_explained_to_the_last_copy() {
        assert_eq!(of("rtp_sendfile", 200, &[("_copy_from_iter", 100)]), (vec![CORK], true));
        let pieces = [("_copy_to_iter", 136), ("_copy_from_iter", 100)];
        assert_eq!(of("read_writev", 200, &pieces), (vec![PAGES, JOINED], true));
        let copied = [("_copy_from_user", 100), ("_copy_from_iter", 100)];
        assert_eq!(of("rtpsendfile", 100, &copied), (vec![REFERENCES], true));
        // Linux 6.1 computes checksums during some of the copies.
        let copied = [("_copy_from_iter", 66), ("csum_and_copy_from_iter", 68)];
        assert_eq!(of("sendfile", 100, &copied), (vec![REFERENCES], true));
        assert_eq!(of("kmsend", 3, &[]), (vec![FULL], true));
    }

    /// Promise: `wirepath assess count` counts the calls and copies in the papers' tables and explains
    /// differences.
    #[test]
    fn what_is_not_explained_is_not_called_so() {
        assert!(!of("mmap_writev", 101, &[("_copy_from_iter", 100)]).1);
        assert!(!of("mmap_writev", 100, &[("_copy_from_iter", 100), ("skb_copy_bits", 1)]).1);
        assert!(!of("krtpsendfile", 1, &[("_copy_from_user", 1)]).1);
        assert!(!of("wire_sendfile", 1, &[]).1, "it is in no table");
    }
}
