//! `wirepath assess forwarder`: the process that `wirepath assess relay` measures.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Args;

/// Arguments of `wirepath assess forwarder`.
#[derive(Args)]
pub(crate) struct Forwarder {
    /// A program to become, with its arguments, instead of forwarding what standard input says
    #[arg(last = true)]
    program: Vec<OsString>,
}

impl Forwarder {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let mut program = self.program.split_first().map(|(program, arguments)| {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        });
        wirepath_assess::relay::serve(program.as_mut()).context("forwarding for an assessment")?;
        Ok(ExitCode::SUCCESS)
    }
}
