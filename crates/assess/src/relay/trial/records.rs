//! Runs of records that an eBPF handler judges, measured by the time of all tasks that work for them, and of the
//! whole machine.

use std::net::SocketAddr;
use std::time::Instant;

use super::{Outcome, Trials, run};
use crate::error::{Doing, Error};
use crate::relay::datagrams::Receivers;
use crate::relay::measured_process::{MeasuredProcess, ProcessorTime};
use crate::relay::paced::{self, Paced, Room};
use crate::relay::records::{RECORD, Records};
use crate::relay::sinks::{Expected, Sinks};
use crate::relay::source::Volume;
use crate::relay::task::{Judged, Shape};
use crate::result::{Method, Part, RelayCase};

/// Datagrams that may be on their way to all receivers: fewer than the queue of received packets of a processor
/// (`net.core.netdev_max_backlog`) takes.
const BACKLOG: u64 = 900;

/// Divisor of the records that a mirror in the kernel may leave to user space: of some, the way to a receiver is learned
/// again.
const LEFT: u64 = 10;

/// Receiving end.
enum Receiving {
    Connection(Sinks),
    Datagrams(Receivers),
    /// Nothing arrives.
    Nothing,
}

/// Source, measured process and receiving end of a run.
struct Ends {
    source: Paced,
    side: MeasuredProcess,
    receiving: Receiving,
}

impl Trials<'_> {
    pub(super) fn records(&mut self, case: &RelayCase, volume: Volume, keep: bool) -> Result<Outcome, Error> {
        let number = volume.bytes_each / RECORD as u64;
        let records = Records::new(&self.pattern, case.passed.unwrap_or(100));
        let discards = case.method == Method::Discard;
        let each = if discards { 0 } else { records.passed(number) * RECORD as u64 };
        let delivered = each * u64::from(case.links);
        let Ends { source, mut side, receiving } = match case.part {
            Part::KernelTcp => self.ends_of_connections(case, records, number, each, keep)?,
            _ => self.ends_of_datagrams(case, records, number, each, keep)?,
        };
        side.wait_ready()?;
        source.wait_accepted()?;
        let (busy, tasks) = (self.test_bed.busy()?, of_tasks()?);
        let taken = side.datagrams_taken()?;
        let (before, start) = (side.spent()?, Instant::now());
        side.go()?;
        source.open();
        let (counts, contents, ended) = match receiving {
            Receiving::Connection(sinks) => {
                let arrived = sinks.finish()?;
                (arrived.counts, arrived.contents, arrived.ended)
            }
            Receiving::Datagrams(receivers) => {
                let received = receivers.finish()?;
                (received.counts, received.contents, received.ended)
            }
            Receiving::Nothing => (Vec::new(), Vec::new(), Instant::now()),
        };
        source.finish()?;
        if discards && case.part == Part::KernelTcp {
            side.wait_done()?;
        }
        let ended = if discards { Instant::now() } else { ended };
        let used = side.spent()?;
        let (tasks_after, busy_after) = (of_tasks()?, self.test_bed.busy()?);
        let came: u64 = counts.iter().sum();
        if came != delivered || counts.iter().any(|count| *count != each) {
            let sinks = counts.len();
            return Err(Error::Faulty(format!("received {came} of {delivered} bytes at {sinks} sinks")));
        }
        let taken = side.datagrams_taken()? - taken;
        check_taken(case, taken, number)?;
        let mut run = run(before, used, ended - start, volume.bytes_each, came);
        run.machine_s = Some(busy_after.saturating_sub(busy).as_secs_f64());
        let (user_s, system_s) = tasks_after.since(tasks);
        run.tasks_s = Some(run.cpu_s() + user_s + system_s);
        run.taken = case.is_of_datagrams().then_some(taken);
        Ok(Outcome { run, volume, contents })
    }

    fn ends_of_connections(
        &self,
        case: &RelayCase,
        records: Records,
        number: u64,
        each: u64,
        keep: bool,
    ) -> Result<Ends, Error> {
        let (source, address) = Paced::listen(self.test_bed, records, number)?;
        let side = self.side(case, Shape::SocketToSocket, Some(address))?;
        let to = SocketAddr::new(self.test_bed.near_address()?, side.port);
        // A sockmap does not pass the end of the connection on.
        let expected = Expected { first: 0, enough: Some(each) };
        let receiving = match case.method {
            Method::Discard => Receiving::Nothing,
            _ => Receiving::Connection(Sinks::connect(self.test_bed, to, 1, expected, keep)?),
        };
        Ok(Ends { source, side, receiving })
    }

    fn ends_of_datagrams(
        &self,
        case: &RelayCase,
        records: Records,
        number: u64,
        each: u64,
        keep: bool,
    ) -> Result<Ends, Error> {
        let discards = case.method == Method::Discard;
        let (receiving, addresses) = if discards {
            (Receiving::Nothing, Vec::new())
        } else {
            let receivers = Receivers::open(self.test_bed, case.links as usize, each, keep)?;
            let addresses = receivers.addresses.clone();
            (Receiving::Datagrams(receivers), addresses)
        };
        let side = self.side(case, Shape::Datagrams(addresses), None)?;
        let to = match discards {
            true => self.test_bed.unassigned_address()?,
            false => SocketAddr::new(self.test_bed.near_address()?, side.port),
        };
        let least = match &receiving {
            Receiving::Datagrams(receivers) => Some(receivers.least()),
            _ => None,
        };
        // The source sends a burst whenever less than the window is on its way.
        let records_before = (BACKLOG / u64::from(case.links)).saturating_sub(paced::BURST).max(1);
        let window = (records_before * RECORD as u64).min(paced::WINDOW);
        let room = least.map(|received| Room { received, window });
        Ok(Ends { source: Paced::connect(self.test_bed, to, records, number, room)?, side, receiving })
    }

    /// Handler of the case, if its part has one.
    pub(super) fn judged(&self, case: &RelayCase) -> Option<Judged> {
        let object = self.kernel_handler.clone().filter(|_| case.part.is_judged())?;
        let device = self.test_bed.near_device().map(str::to_owned);
        Some(Judged { object, device, mirrors: case.part == Part::KernelMirror })
    }
}

/// Checks that a mirror in the kernel has left few records to user space, so that the figure is that of the kernel.
fn check_taken(case: &RelayCase, taken: u64, number: u64) -> Result<(), Error> {
    let is_mirror = (case.method, case.part) == (Method::Kernel, Part::KernelMirror);
    if is_mirror && taken > number / LEFT {
        return Err(Error::Unable(format!("the kernel left {taken} of {number} records to user space")));
    }
    Ok(())
}

/// Processor time of the source and the sinks, which are threads of this process, and of kernel threads.
fn of_tasks() -> Result<ProcessorTime, Error> {
    let own = ProcessorTime::of(std::process::id()).doing("reading the processor time of this process")?;
    Ok(own.plus(ProcessorTime::of_kernel()))
}
