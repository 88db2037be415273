//! `wirepath`: serves stored media and relays streams with zero-copy data paths.

#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "doc comments of options are help texts, where brackets mark what may be left out"
)]

mod advice;
mod assess;
mod confine;
mod cpus;
mod exit;
mod format;
mod generate;
mod image_options;
mod inspect;
mod interrupt;
mod load;
mod output;
mod pack;
mod passwd;
mod plot;
mod progress;
mod relay;
mod send;
mod serve;
mod serve_options;
mod serve_reload;
mod serve_sockets;
mod server_options;
mod sign;
mod terminal;
mod values;
mod warnings;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Version and commit, from `build.rs`.
const VERSION: &str = env!("WIREPATH_VERSION");

/// Serves stored media and relays streams with zero-copy data paths
#[derive(Parser)]
#[command(name = "wirepath", version = VERSION, about, max_term_width = 100, after_help = exit::HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve folders of transport streams and movies over RTSP/RTP, and any files over HTTP
    Serve(Box<serve::Serve>),
    /// Send files and playlists to multicast groups and other receivers, as RTP or plain UDP
    Send(send::Send),
    /// Set the password of a user in a file for `wirepath serve --users`
    Passwd(passwd::Passwd),
    /// Sign a URL for `wirepath serve --url-key`, which opens a file or folder for some time without a user
    Sign(sign::Sign),
    /// Pack transport streams and movies into wire images ahead of time
    Pack(pack::Pack),
    /// Show the contents of a transport stream, an MP4 or Matroska file or a wire image
    Inspect(inspect::Inspect),
    /// Relay streams of bytes and datagrams, proxy TCP connections, or cache HTTP
    Relay(Box<relay::Relay>),
    /// Play from an RTSP or HTTP server in many sessions, and judge how well they are served
    Load(load::Load),
    /// Measure the cost of every data path on this machine, and how many clients it carries
    Assess(assess::Assess),
    /// Write completions for a shell to standard output
    Completions(generate::Completions),
    /// Write man pages of all commands to a folder
    Manual(generate::Manual),
}

fn main() -> ExitCode {
    let arguments = Arguments::try_parse().unwrap_or_else(|error| advice::on(error).exit());
    let result = match arguments.command {
        Command::Serve(serve) => serve.run(),
        Command::Send(send) => send.run(),
        Command::Passwd(passwd) => passwd.run(),
        Command::Sign(sign) => sign.run(),
        Command::Pack(pack) => pack.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Relay(relay) => relay.run(),
        Command::Load(load) => load.run(),
        Command::Assess(assess) => assess.run(),
        Command::Completions(completions) => completions.run(),
        Command::Manual(manual) => manual.run(),
    };
    match result {
        Ok(code) => code,
        // The reader of our output has closed it, as `head` does.
        Err(error) if is_broken_pipe(&error) => ExitCode::from(exit::BROKEN_PIPE),
        Err(error) => {
            // If standard error is closed, only the exit code reports the failure.
            drop(writeln!(io::stderr(), "wirepath: {}", message(&error)));
            ExitCode::FAILURE
        }
    }
}

/// Message of an error and its causes. A cause that a previous message contains is omitted.
fn message(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |message, cause| match &message[..] {
        "" => cause,
        message if message.contains(&cause) => message.to_owned(),
        message => format!("{message}: {cause}"),
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
    #[error("cannot listen: {0}")]
    struct Listen(#[source] io::Error);

    #[test]
    fn causes_are_not_repeated() {
        let result: Result<(), _> = Err(Listen(io::Error::other("in use")));
        let error = result.context("starting").unwrap_err();
        assert_eq!(message(&error), "starting: cannot listen: in use");
    }
}
