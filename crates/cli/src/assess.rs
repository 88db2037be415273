//! `wirepath assess`.

mod bar;
mod clients;
mod compare;
mod experiment;
mod forwarder;
mod measuring;
mod perform;
mod read;
mod relay;
mod report;
mod sink;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

use experiment::{COUNT, DOWNLOAD, EXPERIMENTS, HOST, LOAN, PROFILE, STREAM};
use measuring::Measuring;

/// Arguments of `wirepath assess`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Without an experiment, all of them but `clients`, `count` and `relay` are run. Options of an experiment go after its name.

Exit code: 0 if what was measured is right, also if something was left out (the result says what and why); 1 if a path sent \
something wrong, if an experiment measured nothing, or if it ended early; 2 for invalid arguments; 130, 143 and 129 if \
SIGINT, SIGTERM or SIGHUP stopped it: what was measured until then is marked partial. A profile takes a permission of its own: \
only `wirepath assess profile` fails without it.")]
pub(crate) struct Assess {
    #[command(subcommand)]
    action: Option<Action>,

    #[command(flatten)]
    measuring: Measuring,
}

// An experiment that lands adds its variant here, its arm below, and its line in `experiment.rs`.
#[derive(Subcommand)]
enum Action {
    /// Say what this machine has, what it lacks for which data path and how to get it; cost of kernel entry
    /// and of copying
    #[command(mut_args(measuring::without_sending))]
    Host(Measuring),
    /// Compare two results: kernel against kernel, machine against machine, before against after
    Compare(compare::Compare),
    /// Render a result as a page, as Markdown or as CSV
    Report(report::Report),
    /// Send bytes of a file as UDP datagrams and over TCP, by every path and size
    Download(Measuring),
    /// Send RTP packets over UDP, by every path and size
    Stream(Measuring),
    /// Sample where each path spends its time: copying, entering the kernel, network, user space
    Profile(Measuring),
    /// Count kernel calls and copies of every path of the papers' tables 3 and 4, with probes in the kernel
    #[command(mut_args(measuring::without_timing))]
    Count(Measuring),
    /// Compare sends that copy with sends that lend their pages, by size, and keep the size from which on
    /// lending is cheaper
    Loan(Measuring),
    /// Compare the stream service with loops of read and write, and with HAProxy, nginx and socat
    Relay(relay::Relay),
    /// Find the largest number of timely clients of `wirepath serve` on this machine, and of other servers
    Clients(Box<clients::Clients>),
    /// Receive for an assessment on another host
    Sink(sink::Sink),
    /// Forward data for `relay`, or start a program for it that does
    #[command(hide = true)]
    Forwarder(forwarder::Forwarder),
}

impl Assess {
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self.action {
            None => perform::perform(&self.measuring, EXPERIMENTS),
            Some(Action::Host(measuring)) => perform::perform(&measuring, &[HOST]),
            Some(Action::Compare(compare)) => compare.run(),
            Some(Action::Report(report)) => report.run(),
            Some(Action::Download(measuring)) => perform::perform(&measuring, &[DOWNLOAD]),
            Some(Action::Stream(measuring)) => perform::perform(&measuring, &[STREAM]),
            Some(Action::Profile(measuring)) => perform::perform(&measuring, &[PROFILE]),
            Some(Action::Count(measuring)) => perform::perform(&measuring, &[COUNT]),
            Some(Action::Loan(measuring)) => perform::perform(&measuring, &[LOAN]),
            Some(Action::Relay(relay)) => relay.run(),
            Some(Action::Clients(clients)) => clients.run(),
            Some(Action::Sink(sink)) => sink.run(),
            Some(Action::Forwarder(forwarder)) => forwarder.run(),
        }
    }
}
