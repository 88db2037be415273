//! `wirepath`: serves stored media by the shortest path the machine offers.

mod address;
mod advice;
mod assess;
mod ending;
mod format;
mod image_options;
mod inspect;
mod interrupt;
mod log;
mod number;
mod output;
mod pack;
mod plot;
mod progress;
mod relay;
mod serve;
mod serve_options;
mod table;
mod terminal;
mod warnings;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Version and commit; `build.rs` finds the latter.
const VERSION: &str = env!("WIREPATH_VERSION");

/// Takes stored media to the network by the shortest path the machine offers.
#[derive(Parser)]
#[command(name = "wirepath", version = VERSION, about, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve folders of transport streams over RTSP/RTP, and any files over HTTP
    Serve(serve::Serve),
    /// Pack transport streams into wire images ahead of time
    Pack(pack::Pack),
    /// Show what is in a transport stream or a wire image
    Inspect(inspect::Inspect),
    /// Pipe, merge, spread and mirror streams of bytes and datagrams, proxy TCP connections, and cache HTTP
    Relay(relay::Relay),
    /// Measure what every data path costs on this machine
    Assess(assess::Assess),
}

/// Exit code where nobody reads our output any more: that of programs which SIGPIPE ends, as shells show it.
const BROKEN_PIPE: u8 = 128 + 13;

fn main() -> ExitCode {
    let arguments = Arguments::try_parse().unwrap_or_else(|error| advice::on(error).exit());
    let result = match arguments.command {
        Command::Serve(serve) => serve.run(),
        Command::Pack(pack) => pack.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Relay(relay) => relay.run(),
        Command::Assess(assess) => assess.run(),
    };
    match result {
        Ok(code) => code,
        // Whoever read our output has seen enough, as `head` has.
        Err(error) if is_broken_pipe(&error) => ExitCode::from(BROKEN_PIPE),
        Err(error) => {
            // Where standard error takes nothing, the exit code is all that there is to say.
            drop(writeln!(io::stderr(), "wirepath: {}", in_words(&error)));
            ExitCode::FAILURE
        }
    }
}

/// An error and its causes, but for those whose words an error above them has said already.
fn in_words(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |said, cause| match &said[..] {
        "" => cause,
        said if said.contains(&cause) => said.to_owned(),
        said => format!("{said}: {cause}"),
    })
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open the door: {0}")]
    struct Door(#[source] io::Error);

    #[test]
    fn nothing_is_said_twice() {
        let result: Result<(), _> = Err(Door(io::Error::other("in use")));
        let error = result.context("starting").unwrap_err();
        assert_eq!(in_words(&error), "starting: cannot open the door: in use");
    }
}
