//! `wirepath assess relay`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use wirepath_assess::result::Part;

use super::experiment::RELAY;
use super::measuring::{Measuring, without_paths};
use super::perform;

/// Arguments of `wirepath assess relay`.
#[derive(Args)]
#[command(mut_args(without_paths))]
#[command(after_help = "\
Parts: file-to-socket, socket-to-file, socket-to-socket, merge, stripe, random, mirror, udp-mirror, crowd; and only if
named: files and file-proxy (clients that request one file after another), orders (of inputs).

Sources send the volume in each run; in `mirror` a quarter of it, in `udp-mirror` a sixteenth, since every byte leaves \
many times. Both ends are on this machine, over a veth pair or over loopback. Programs that are not installed are omitted.

Examples:
  sudo wirepath assess relay --quick
  sudo wirepath assess relay --only socket-to-socket --only udp-mirror --json relay.json
  sudo wirepath assess relay --only file-to-socket --handlers --volume 256MiB")]
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
}

impl Relay {
    pub(crate) fn run(mut self) -> Result<ExitCode> {
        self.measuring.parts = self.only;
        self.measuring.handlers = self.handlers;
        perform::perform(&self.measuring, &[RELAY])
    }
}
