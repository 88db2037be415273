//! `wirepath assess relay`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use wirepath_assess::result::Part;

use super::experiment::RELAY;
use super::measuring::{Measuring, without_paths};
use super::perform;

/// Arguments of `wirepath assess relay`.
#[derive(Args)]
#[command(mut_args(without_paths))]
#[command(after_help = "\
Parts: file-to-socket, socket-to-file, socket-to-socket, merge, stripe, random, mirror, udp-mirror, crowd; and only if \
named: files and file-proxy (clients that request one file after another), orders (of inputs), kernel-tcp, kernel-udp \
and kernel-mirror (an eBPF handler in the kernel beside the same in user space: a sockmap for TCP, early drops by XDP \
for UDP, and a mirror of UDP to 4 and 16 receivers).

Sources send the volume in each run; in `mirror` a quarter of it, in `udp-mirror` a sixteenth, since every byte leaves \
many times. Both ends are on this machine, over a veth pair or over loopback. Programs that are not installed are omitted.

In the parts `kernel-...` 40,000 records come in a second, an eighth of the volume. There the processor time of \
source, sinks and kernel threads counts, too, as the kernel charges its work in soft interrupts to them. The time in \
which the machine was not idle is a check, for which nothing else may run.

Examples:
  sudo wirepath assess relay --quick
  sudo wirepath assess relay --only socket-to-socket --only udp-mirror --json relay.json
  sudo wirepath assess relay --only file-to-socket --handlers --volume 256MiB
  make bpf
  sudo wirepath assess relay --only kernel-tcp --only kernel-mirror --kernel-handler target/bpf/sockmap.bpf.o")]
pub(crate) struct Relay {
    #[command(flatten)]
    measuring: Measuring,

    /// Measure only this part; may be repeated
    #[arg(long, value_name = "PART")]
    only: Vec<Part>,

    /// Also measure handlers of all kinds (read, peek, select, growing rewrite, whole records in slices and copied
    /// together), and compare them with a careful loop and a plain program that do the same
    #[arg(long)]
    handlers: bool,

    /// Object of the eBPF handler that the parts kernel-... measure, built from tests/netns/sockmap.bpf.c
    #[arg(long, value_name = "FILE.bpf.o")]
    kernel_handler: Option<PathBuf>,
}

impl Relay {
    pub(crate) fn run(mut self) -> Result<ExitCode> {
        self.measuring.parts = self.only;
        self.measuring.handlers = self.handlers;
        let canonical = self
            .kernel_handler
            .map(|file| file.canonicalize().with_context(|| format!("--kernel-handler {}", file.display())));
        self.measuring.kernel_handler = canonical.transpose()?;
        perform::perform(&self.measuring, &[RELAY])
    }
}
