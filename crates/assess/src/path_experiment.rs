//! The experiments `download` and `stream`: every path, transport and size on one test bed.

use wirepath_datapath::{BlockPath, DataPath};

use crate::bare::Bare;
use crate::case::Case;
use crate::error::Error;
use crate::findings::{self, Findings, Soundness};
use crate::header_sizes;
use crate::lending::Lending;
use crate::options::{Options, Sink};
use crate::progress::Progress;
use crate::result::Assessment;
use crate::rounds::Runs;
use crate::subject::{PathKind, Transport, Variant};
use crate::test_bed::TestBed;
use crate::test_files::Media;

/// Experiment over data paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathExperiment {
    /// Bytes of a file, as UDP datagrams and over TCP (figures 3a and 3b).
    Download,
    /// RTP packets over UDP (figures 4a, 4b and 5), and in a TCP connection (table 2).
    Stream,
}

/// Payload sizes in addition to the size that fills the MTU, and the whole file.
const SIZES: [u16; 3] = [512, 1024, 2048];

impl PathExperiment {
    /// Runs the experiment, and adds its findings to `result`, also before an error.
    ///
    /// # Errors
    /// Errors that end the assessment; [`Error::Stopped`] on a request to stop.
    pub fn run(
        self,
        options: &Options,
        result: &mut Assessment,
        progress: &mut dyn Progress,
    ) -> Result<Soundness, Error> {
        findings::experiment(options, result, progress, |test_bed, found| self.on(test_bed, options, found))
    }

    fn on(self, test_bed: &TestBed, options: &Options, found: &mut Findings<'_>) -> Result<(), Error> {
        let lending = Lending::of(options, test_bed.mtu)?;
        if self == PathExperiment::Download {
            lending.explain(found);
        }
        let bare = if self == PathExperiment::Stream { Bare::wanted(options, test_bed)? } else { None };
        let room = test_bed.udp_payload_limit(test_bed.mtu);
        let cases = found.without_missing_module(self.cases(test_bed.udp_payload_limit(options.mtu)));
        let (cases, too_large): (Vec<Case>, Vec<Case>) =
            lending.applied(cases).into_iter().partition(|case| case.is_possible(room));
        self.explain(options, test_bed, &too_large, found);
        let mut media = Media::open_for(&cases, options, found)?;
        media.explain(options, found);
        Runs::new(options, test_bed, &mut media, found).measure(&cases, bare.as_ref(), found)
    }

    /// All cases of the experiment, those that the route does not support included.
    fn cases(self, udp_payload_limit: u32) -> Vec<Case> {
        let mut cases = self.cases_of_every_size(udp_payload_limit);
        // Cases of single packets, for paths that take runs, with the size that fills the MTU: they show the
        // gain of trains.
        let takes_runs = |case: &&Case| case.path.takes_runs() && Self::fills(case, udp_payload_limit);
        let single: Vec<Case> =
            cases.iter().filter(takes_runs).map(|case| Case { variant: Variant::Single, ..*case }).collect();
        cases.extend(single);
        cases
    }

    fn cases_of_every_size(self, udp_payload_limit: u32) -> Vec<Case> {
        let udp = move |path: PathKind| {
            let sizes = sizes(full_size(path, udp_payload_limit)).into_iter();
            sizes.map(move |size| Case::new(path, Transport::Udp, Some(size)))
        };
        let tcp = move |path: PathKind| {
            // A file of packets is not sent in one call.
            let whole = (!path.has_headers()).then_some(None);
            let sizes = sizes(full_size(path, udp_payload_limit)).into_iter().map(Some).chain(whole);
            sizes.map(move |size| Case::new(path, Transport::Tcp, size))
        };
        match self {
            PathExperiment::Stream => {
                let over_udp = DataPath::ALL.into_iter().map(PathKind::Stream).flat_map(udp);
                over_udp.chain(PathKind::framed().flat_map(tcp)).collect()
            }
            PathExperiment::Download => {
                let paths = || BlockPath::ALL.into_iter().map(PathKind::Block);
                let over_tcp = paths().filter(|path| !path.needs_module());
                paths().flat_map(udp).chain(over_tcp.flat_map(tcp)).collect()
            }
        }
    }

    /// Cases of every path with the size that fills the MTU and, over TCP, the whole file.
    pub(crate) fn cases_that_fill(self, udp_payload_limit: u32) -> Vec<Case> {
        self.cases_of_every_size(udp_payload_limit)
            .into_iter()
            .filter(|case| Self::fills(case, udp_payload_limit))
            .collect()
    }

    fn fills(case: &Case, udp_payload_limit: u32) -> bool {
        case.size.is_none_or(|size| full_size(case.path, udp_payload_limit) == Some(size))
    }

    /// Records limitations that the figures do not show.
    fn explain(self, options: &Options, test_bed: &TestBed, too_large: &[Case], found: &mut Findings<'_>) {
        if let Some(size) = too_large.iter().filter_map(|case| case.size).min() {
            let mut paths: Vec<&str> = too_large.iter().map(|case| case.path.name()).collect();
            paths.dedup();
            let what = format!("{}, UDP, from {size} bytes on", paths.join(", "));
            let why = format!(
                "the kernel fragments no segments, and with an MTU of {} it would have to",
                test_bed.mtu
            );
            found.leave_out(&what, &why);
        }
        if test_bed.mtu != options.mtu {
            let what = format!("an MTU of {} bytes", options.mtu);
            found.leave_out(&what, &test_bed.other_mtu());
        }
        found.note_tcp_peer(test_bed);
        if options.sink == Sink::DropNoOffload {
            let why = "the device that acknowledges computes checksums: TCP goes over a veth pair to a process that discards, \
                       and what the kernel does for that receiver in soft interrupts is partly charged to the sender";
            found.leave_out("TCP on the device that drops, without offloads", &why);
        }
        if let Some(why) = test_bed.why_no_veth() {
            let why =
                format!("without a veth pair what is verified goes over loopback, which has none: {why}");
            found.leave_out("checksums on the wire", &why);
        }
        if options.sink == Sink::Loopback && !rustix::process::geteuid().is_root() {
            found.leave_out(
                "sinks drop, drop-nooffload and veth",
                &"they need network namespaces, which take root",
            );
        }
    }
}

/// Payload that fills a packet with room for `udp_payload_limit` bytes of UDP payload.
pub(crate) fn full_size(path: PathKind, udp_payload_limit: u32) -> Option<u16> {
    let rtp = if path.has_headers() { header_sizes::RTP } else { 0 };
    u16::try_from(udp_payload_limit.saturating_sub(rtp)).ok()
}

fn sizes(full: Option<u16>) -> Vec<u16> {
    let mut sizes: Vec<u16> = SIZES.into_iter().chain(full).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_every_size() {
        let cases = PathExperiment::Stream.cases(1472);
        let runs = DataPath::ALL.into_iter().filter(|path| path.takes_runs()).count();
        let framed = DataPath::FRAMED.len() + 1;
        assert_eq!(cases.len(), 4 * (DataPath::ALL.len() + framed) + runs);
        let over_tcp: Vec<_> = cases.iter().filter(|case| case.transport == Transport::Tcp).collect();
        assert_eq!(over_tcp.len(), 4 * framed);
        assert!(over_tcp.iter().all(|case| case.size.is_some()), "a file of packets is not sent in one call");
        assert!(cases.iter().any(|case| case.size == Some(1460)));
        let mut files: Vec<_> =
            cases.iter().map(|case| (case.content(), case.path.needs_hot_memory())).collect();
        files.sort_unstable();
        files.dedup();
        assert_eq!(files.len() as u64, crate::test_files::MOST_FILES);
        let cases = PathExperiment::Download.cases(1472);
        let by_module = BlockPath::ALL.into_iter().filter(|path| path.needs_module()).count();
        let runs = BlockPath::ALL.into_iter().filter(|path| path.takes_runs()).count();
        assert_eq!(cases.len(), 9 * BlockPath::ALL.len() - 5 * by_module + runs);
        assert!(cases.iter().any(|case| case.size == Some(1472) && case.transport == Transport::Udp));
        assert!(cases.iter().any(|case| case.size.is_none() && case.transport == Transport::Tcp));
        let filling = |experiment: PathExperiment| experiment.cases_that_fill(1472);
        assert_eq!(filling(PathExperiment::Stream).len(), DataPath::ALL.len() + framed);
        assert!(filling(PathExperiment::Stream).iter().all(|case| case.size == Some(1460)));
        assert_eq!(filling(PathExperiment::Download).len(), 3 * BlockPath::ALL.len() - 2 * by_module);
    }
}
