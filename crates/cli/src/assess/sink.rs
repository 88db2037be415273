//! `wirepath assess sink`.

use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use wirepath_assess::sink::serve;
use wirepath_assess::test_bed::LISTENING;

use crate::terminal;
use crate::values::listen_address;

/// Arguments of `wirepath assess sink`.
#[derive(Args)]
#[command(after_help = "\
Example, on the other host:   wirepath assess sink --listen 192.0.2.2:9000
         and here:            wirepath assess --sink 192.0.2.2:9000

The sink counts the received data and discards it. Data arrives at ports that the kernel chooses: open the firewall for them. \
Any host that reaches the port can use the sink; stop it (Ctrl-C) after the assessment.")]
pub(crate) struct Sink {
    /// Address and port for control connections
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_address)]
    listen: SocketAddr,

    /// End with standard input: how an assessment keeps one of its own
    #[arg(long, hide = true)]
    while_stdin: bool,
}

impl Sink {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let listener =
            TcpListener::bind(self.listen).with_context(|| format!("cannot listen on {}", self.listen))?;
        let address = listener.local_addr().context("asking for the address")?;
        if self.while_stdin {
            std::thread::spawn(|| {
                // The sink ends with standard input, also after a read error.
                std::io::stdin().read_to_end(&mut Vec::new()).ok();
                std::process::exit(0);
            });
        }
        terminal::print(&format!("{LISTENING}{address}\n"))?;
        serve(&listener, |text| eprintln!("wirepath: {text}")).context("accepting connections")?;
        Ok(ExitCode::SUCCESS)
    }
}
