//! Findings of an experiment, and their soundness.

use wirepath_datapath::SendContext;

use crate::case::Case;
use crate::error::Error;
use crate::options::Options;
use crate::progress::Progress;
use crate::result::{Assessment, LeftOut, TcpPeer};
use crate::test_bed::{self, TestBed};

/// Soundness of an experiment: whether every case sent the right bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Soundness {
    /// All cases sent the right bytes.
    Sound,
    /// A case sent a wrong byte or lost a packet; recorded in [`Assessment::left_out`].
    Faulty,
}

/// Result of an experiment so far, and its observer.
pub(crate) struct Findings<'a> {
    pub(crate) result: &'a mut Assessment,
    progress: &'a mut dyn Progress,
    /// Share of the experiment done before its current part, and share of the current part.
    pub(crate) part: (f64, f64),
    /// Cases with a wrong or lost byte.
    pub(crate) faults: u32,
}

/// Runs an experiment on a test bed with the requested MTU.
///
/// # Errors
/// Errors of the test bed and of `act`. The result keeps all earlier findings.
pub(crate) fn experiment(
    options: &Options,
    result: &mut Assessment,
    progress: &mut dyn Progress,
    act: impl FnOnce(&TestBed, &mut Findings<'_>) -> Result<(), Error> + Send,
) -> Result<Soundness, Error> {
    let mut found = Findings::new(result, progress);
    found.on_test_bed(options, options.mtu, act)?;
    Ok(found.soundness())
}

impl<'a> Findings<'a> {
    pub(crate) fn new(result: &'a mut Assessment, progress: &'a mut dyn Progress) -> Findings<'a> {
        Findings { result, progress, part: (0.0, 1.0), faults: 0 }
    }

    /// Calls `act` on a test bed.
    pub(crate) fn on_test_bed(
        &mut self,
        options: &Options,
        mtu: u32,
        act: impl FnOnce(&TestBed, &mut Findings<'a>) -> Result<(), Error> + Send,
    ) -> Result<(), Error> {
        test_bed::with_test_bed(&options.sink, mtu, options.cpu, |test_bed| {
            self.result.settings.cpu = Some(test_bed.cpu);
            act(test_bed, self)
        })
    }

    /// Reports progress; fails with [`Error::Stopped`] on a request to stop.
    pub(crate) fn go_on(&mut self, share: f64, doing: &str) -> Result<(), Error> {
        self.at(share, doing);
        if self.stopped() { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Calls `act` for each case; all cases together take `share` of the part. Returns the results. A case
    /// that fails is left out.
    ///
    /// # Errors
    /// Errors that concern more than one case.
    pub(crate) fn each<C, T>(
        &mut self,
        (share, doing): (f64, &str),
        cases: &[C],
        label: impl Fn(&C) -> String,
        mut act: impl FnMut(&mut Self, &C) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut results = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            let label = label(case);
            self.go_on(share * index as f64 / cases.len() as f64, &format!("{doing} {label}"))?;
            match act(self, case) {
                Ok(result) => results.push(result),
                Err(error) => self.of_label(&label, error)?,
            }
        }
        Ok(results)
    }

    /// Records the error of one case.
    ///
    /// # Errors
    /// Errors that concern more than that case.
    pub(crate) fn of_label(&mut self, label: &str, error: Error) -> Result<(), Error> {
        match error {
            Error::Unable(_) => {}
            Error::Faulty(_) => self.faults += 1,
            other => return Err(other),
        }
        self.leave_out(label, &error);
        Ok(())
    }

    pub(crate) fn leave_out(&mut self, what: &str, why: &dyn std::fmt::Display) {
        self.result.left_out.push(LeftOut { what: what.to_owned(), why: why.to_string() });
    }

    /// Records the other end of the connections that are measured on a test bed, and the reason if it is not that of
    /// the sink.
    pub(crate) fn note_tcp_peer(&mut self, test_bed: &TestBed) {
        let peer = test_bed.tcp_peer();
        let noted = &mut self.result.settings.tcp_peer;
        *noted = Some(noted.map_or(peer, |before| if before == peer { peer } else { TcpPeer::Both }));
        if let Some(why) = test_bed.why_tcp_is_received() {
            let what = format!("TCP on the device that drops, MTU {}", test_bed.mtu);
            let why = format!(
                "{why}; TCP goes over a veth pair to a process that discards: the kernel copies lent pages for it, and a part of \
                 its cost is charged to the sender"
            );
            // Experiments of one assessment have test beds of their own.
            if self.result.left_out.iter().all(|left_out| left_out.what != what) {
                self.leave_out(&what, &why);
            }
        }
    }

    pub(crate) fn soundness(&self) -> Soundness {
        if self.faults == 0 { Soundness::Sound } else { Soundness::Faulty }
    }

    /// Leaves out cases whose path needs the kernel module, if the module is not loaded.
    pub(crate) fn without_missing_module(&mut self, cases: Vec<Case>) -> Vec<Case> {
        let Err(error) = SendContext::default().open_module() else { return cases };
        let (left_out, cases): (Vec<Case>, _) = cases.into_iter().partition(|case| case.path.needs_module());
        let mut paths: Vec<&str> = left_out.iter().map(|case| case.path.name()).collect();
        paths.dedup();
        if !paths.is_empty() {
            self.leave_out(&paths.join(", "), &error);
        }
        cases
    }
}

impl Progress for Findings<'_> {
    fn at(&mut self, share: f64, doing: &str) {
        let (before, part) = self.part;
        self.progress.at(before + share.clamp(0.0, 1.0) * part, doing);
    }

    fn note(&mut self, text: &str) {
        self.progress.note(text);
    }

    fn stopped(&self) -> bool {
        self.progress.stopped()
    }
}
