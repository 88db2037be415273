//! The experiments `download` and `stream`: every path, transport and size on one stage.

use wirepath_datapath::{BlockPath, DataPath, SendContext};

use crate::bare::Bare;
use crate::error::Error;
use crate::headers;
use crate::lending::Lending;
use crate::media::Media;
use crate::options::{Options, Sink};
use crate::progress::Progress;
use crate::result::{Assessment, Transport};
use crate::rounds::{Found, Rounds};
use crate::stage::{self, Stage};
use crate::way::{Cell, Way};

/// An experiment of the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// Bytes of a file, as UDP datagrams and over TCP (figures 3a and 3b).
    Download,
    /// RTP packets over UDP (figures 4a, 4b and 5).
    Stream,
}

/// Whether all that was measured sent what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Soundness {
    /// It did.
    Sound,
    /// A path sent a wrong byte or lost a packet; what was left out says which.
    Faulty,
}

/// Payload sizes beside the one that fills the MTU, and the whole file.
const SIZES: [u16; 3] = [512, 1024, 2048];

impl Experiment {
    /// Name of its sub-command.
    pub const fn name(self) -> &'static str {
        match self {
            Experiment::Download => "download",
            Experiment::Stream => "stream",
        }
    }

    /// Makes it, and adds what it finds to `result`, also what it found before an error.
    ///
    /// # Errors
    /// What ends the assessment; [`Error::Stopped`] if whoever watches says so.
    pub fn run(
        self,
        options: &Options,
        result: &mut Assessment,
        progress: &mut dyn Progress,
    ) -> Result<Soundness, Error> {
        let mut found = Found::default();
        let outcome = stage::within(&options.sink, options.mtu, options.cpu, |stage| {
            result.settings.cpu = Some(stage.cpu);
            self.on(stage, options, &mut found, progress)
        });
        result.measurements.append(&mut found.measurements);
        result.left_out.append(&mut found.left_out);
        outcome?;
        Ok(if found.faults == 0 { Soundness::Sound } else { Soundness::Faulty })
    }

    fn on(
        self,
        stage: &Stage,
        options: &Options,
        found: &mut Found,
        progress: &mut dyn Progress,
    ) -> Result<(), Error> {
        let lending = Lending::of(options, stage.mtu)?;
        if self == Experiment::Download {
            lending.explain(progress);
        }
        let bare = if self == Experiment::Stream { Bare::wanted(options, stage)? } else { None };
        let room = stage.udp_room(stage.mtu);
        let cells = lending.applied(with_what_is_there(self.cells(stage.udp_room(options.mtu)), found));
        let (cells, too_large): (Vec<Cell>, Vec<Cell>) =
            cells.into_iter().partition(|cell| cell.is_possible(room));
        self.explain(options, stage, &too_large, found);
        let mut media = Media::open_for(&cells, options, progress)?;
        media.explain(options, found);
        Rounds::new(self.name(), options, stage, &mut media, progress, found).run(
            &cells,
            bare.as_ref(),
            found,
        )
    }

    /// Everything that it measures; what the route cannot do included.
    fn cells(self, udp_room: u32) -> Vec<Cell> {
        let mut cells = self.cells_of_every_size(udp_room);
        // What trains save those that take runs, where packets fill the MTU.
        let takes_runs = |cell: &&Cell| cell.way.takes_runs() && Self::fills(cell, udp_room);
        let single: Vec<Cell> =
            cells.iter().filter(takes_runs).map(|cell| Cell { single: true, ..*cell }).collect();
        cells.extend(single);
        cells
    }

    fn cells_of_every_size(self, udp_room: u32) -> Vec<Cell> {
        let udp = move |way: Way| {
            let sizes = sizes(full_size(way, udp_room)).into_iter();
            sizes.map(move |size| Cell::new(way, Transport::Udp, Some(size)))
        };
        let tcp = move |way: Way| {
            let sizes = sizes(full_size(way, udp_room)).into_iter().map(Some).chain([None]);
            sizes.map(move |size| Cell::new(way, Transport::Tcp, size))
        };
        match self {
            Experiment::Stream => DataPath::ALL.into_iter().map(Way::Stream).flat_map(udp).collect(),
            Experiment::Download => {
                let ways = || BlockPath::ALL.into_iter().map(Way::Block);
                let over_tcp = ways().filter(|way| !way.needs_module());
                ways().flat_map(udp).chain(over_tcp.flat_map(tcp)).collect()
            }
        }
    }

    /// Every path with the size that fills the MTU and, over TCP, the whole file.
    pub(crate) fn cells_that_fill(self, udp_room: u32) -> Vec<Cell> {
        self.cells_of_every_size(udp_room).into_iter().filter(|cell| Self::fills(cell, udp_room)).collect()
    }

    fn fills(cell: &Cell, udp_room: u32) -> bool {
        cell.size.is_none_or(|size| full_size(cell.way, udp_room) == Some(size))
    }

    /// Says what figures do not contain.
    fn explain(self, options: &Options, stage: &Stage, too_large: &[Cell], found: &mut Found) {
        if let Some(size) = too_large.iter().filter_map(|cell| cell.size).min() {
            let mut paths: Vec<&str> = too_large.iter().map(|cell| cell.way.name()).collect();
            paths.dedup();
            let what = format!("{}, UDP, from {size} bytes on", paths.join(", "));
            let why = format!(
                "the kernel fragments no segments, and with an MTU of {} it would have to",
                stage.mtu
            );
            found.leave_out(&what, &why);
        }
        if stage.mtu != options.mtu {
            let what = format!("an MTU of {} bytes", options.mtu);
            let why = format!(
                "the way to the sink has {}; only a stage of our own, which takes root, can have another",
                stage.mtu
            );
            found.leave_out(&what, &why);
        }
        if self == Experiment::Download && options.sink.drops() {
            let why = "a connection needs a receiver: TCP goes over a veth pair to a process that discards, and what the kernel \
                       does for that receiver in soft interrupts is partly charged to the sender; congestion control is reno";
            found.leave_out("TCP on the device that drops", &why);
        }
        if let Some(why) = stage.no_wire() {
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

/// The cells without those whose path needs the kernel module, if that is not loaded.
pub(crate) fn with_what_is_there(cells: Vec<Cell>, found: &mut Found) -> Vec<Cell> {
    let Err(error) = SendContext::default().open_module() else { return cells };
    let (left_out, cells): (Vec<Cell>, _) = cells.into_iter().partition(|cell| cell.way.needs_module());
    let mut paths: Vec<&str> = left_out.iter().map(|cell| cell.way.name()).collect();
    paths.dedup();
    if !paths.is_empty() {
        found.leave_out(&paths.join(", "), &error);
    }
    cells
}

/// The payload that fills a packet that has room for so much of UDP's.
pub(crate) fn full_size(way: Way, udp_room: u32) -> Option<u16> {
    let rtp = if matches!(way, Way::Stream(_)) { headers::RTP } else { 0 };
    u16::try_from(udp_room.saturating_sub(rtp)).ok()
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
        let cells = Experiment::Stream.cells(1472);
        let runs = DataPath::ALL.into_iter().filter(|path| path.takes_runs()).count();
        assert_eq!(cells.len(), 4 * DataPath::ALL.len() + runs);
        assert!(cells.iter().any(|cell| cell.size == Some(1460)));
        let mut files: Vec<_> = cells.iter().map(|cell| (cell.kind(), cell.way.needs_hot_memory())).collect();
        files.sort_unstable();
        files.dedup();
        assert_eq!(files.len() as u64, crate::media::MOST_FILES);
        let cells = Experiment::Download.cells(1472);
        let by_module = BlockPath::ALL.into_iter().filter(|path| path.needs_module()).count();
        let runs = BlockPath::ALL.into_iter().filter(|path| path.takes_runs()).count();
        assert_eq!(cells.len(), 9 * BlockPath::ALL.len() - 5 * by_module + runs);
        assert!(cells.iter().any(|cell| cell.size == Some(1472) && cell.transport == Transport::Udp));
        assert!(cells.iter().any(|cell| cell.size.is_none() && cell.transport == Transport::Tcp));
        let filling = |experiment: Experiment| experiment.cells_that_fill(1472);
        assert_eq!(filling(Experiment::Stream).len(), DataPath::ALL.len());
        assert!(filling(Experiment::Stream).iter().all(|cell| cell.size == Some(1460)));
        assert_eq!(filling(Experiment::Download).len(), 3 * BlockPath::ALL.len() - 2 * by_module);
    }
}
