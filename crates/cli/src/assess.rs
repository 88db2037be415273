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
Without a command, all experiments except `clients`, `count` and `relay` run. Options of an experiment follow its name.

Exit code: 0 if all measured data was right, also if the result lists omissions with their reasons; 1 if a path sent wrong \
data, if an experiment measured nothing, or if it ended early; 2 for invalid arguments; 130, 143 and 129 after SIGINT, \
SIGTERM or SIGHUP, with the measurements until then marked partial. A profile needs a permission (perf events): without it \
`wirepath assess profile` fails, and other runs omit the profile.")]
pub(crate) struct Assess {
    #[command(subcommand)]
    action: Option<Action>,

    #[command(flatten)]
    measuring: Measuring,
}

// A new experiment needs a variant here, an arm below, and a line in `experiment.rs`.
#[derive(Subcommand)]
enum Action {
    /// Show what this machine has, what it lacks for each data path and how to get it, and the cost of kernel
    /// entry and copies
    #[command(mut_args(measuring::without_sending))]
    Host(Measuring),
    /// Compare two results: two kernels, two machines, or before and after a change
    Compare(compare::Compare),
    /// Render a result as an HTML page, Markdown or CSV
    Report(report::Report),
    /// Send bytes of a file as UDP datagrams and over TCP, by every path and size
    Download(Measuring),
    /// Send RTP packets over UDP and in a TCP connection, by every path and size
    Stream(Measuring),
    /// Sample where each path spends its time: copying, entering the kernel, network, user space
    Profile(Measuring),
    /// Count kernel calls and copies of every path of the papers' tables 3 and 4, with probes in the kernel
    #[command(mut_args(measuring::without_timing))]
    Count(Measuring),
    /// Compare sends that copy with sends that lend their pages, by size, and store the size from which lending
    /// is cheaper
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
