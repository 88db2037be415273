//! The experiment `relay`: the stream service compared with loops of `read` and `write`, and with common
//! relay programs (section 5.1 of the KStreams paper).
//!
//! ```text
//!   sources --------> the measured side --------> sinks
//!   threads of this   a process of its own,       threads of this process, on other processors and,
//!   process           on its processor            with root, at the other end of a veth pair
//! ```
//!
//! The measured process only moves data, so its whole processor time is the cost of moving. Before a method
//! is timed, it moves a small amount of data, which is compared byte for byte.

mod cases;
mod check;
mod datagrams;
mod forwarder;
mod measured_process;
mod paced;
mod pattern;
mod programs;
mod records;
mod requests;
mod rounds;
mod sinks;
mod source;
mod tagged;
mod targets;
mod task;
mod trial;

use crate::error::Error;
use crate::findings::{self, Findings, Soundness};
use crate::options::{Options, Sink};
use crate::progress::Progress;
use crate::result::{Assessment, Cache, Part, RelayCase};

pub(crate) use forwarder::allow_descriptors;
pub use forwarder::serve;
pub(crate) use measured_process::{MeasuredProcess, ProcessorTime, own_program};
pub use targets::{Goal, targets};

/// Runs the experiment and adds its findings to `result`, also before an error.
///
/// # Errors
/// Errors that end the assessment; [`Error::Stopped`] on a request to stop.
pub fn run(
    options: &Options,
    result: &mut Assessment,
    progress: &mut dyn Progress,
) -> Result<Soundness, Error> {
    if let Sink::Host(address) = &options.sink {
        return Err(Error::Input(format!(
            "the sink {address} is not supported by relay, whose ends are both on this machine: use veth or loopback"
        )));
    }
    let descriptors = forwarder::allow_descriptors(forwarder::DESCRIPTORS);
    findings::experiment(options, result, progress, |test_bed, found| {
        explain(options, found);
        let is_possible = |part: Part| !part.is_judged() || options.kernel_handler.is_some();
        let all = |part| {
            let handlers = if options.handlers { cases::handler_cases(part) } else { Vec::new() };
            let cases = if is_possible(part) { cases::cases(part) } else { Vec::new() };
            cases.into_iter().chain(handlers)
        };
        let cases: Vec<RelayCase> = wanted(options).into_iter().flat_map(all).collect();
        rounds::measure(options, test_bed, &cases, descriptors, found)
    })
}

/// Records limitations that users may not expect.
fn explain(options: &Options, found: &mut Findings<'_>) {
    if options.cache == Cache::Cold {
        found.leave_out("relay from storage", &"the file that is sent is in the page cache");
    }
    if options.file.is_some() {
        let why = "sources send a known pattern, which is compared at the sinks";
        found.leave_out("relay of --file", &why);
    }
    let parts = wanted(options);
    if options.kernel_handler.is_none() {
        let why =
            "no handler: build tests/netns/sockmap.bpf.c by `make bpf`, and name it by --kernel-handler FILE";
        for part in parts.iter().filter(|part| part.is_judged()) {
            found.leave_out(part.name(), &why);
        }
    }
    if parts.contains(&Part::UdpMirror) {
        found.leave_out("udp-mirror by socat", &"it sends what it receives to one receiver, not to 64");
    }
}

/// Requested parts.
fn wanted(options: &Options) -> Vec<Part> {
    let is_wanted = |part: &Part| match options.parts.is_empty() {
        true => !part.is_extra(),
        false => options.parts.contains(part),
    };
    Part::ALL.into_iter().filter(is_wanted).collect()
}
