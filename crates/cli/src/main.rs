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
mod image_options;
mod inspect;
mod interrupt;
mod load;
mod output;
mod pack;
mod passwd;
mod plot;
mod privileges;
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

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
use wirepath_manual::Generate;

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
    #[command(flatten)]
    Generate(Generate),
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
        Command::Generate(generate) => write(generate),
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

/// Writes completions or man pages.
fn write(generate: Generate) -> Result<ExitCode> {
    generate.write(Arguments::command())?;
    Ok(ExitCode::SUCCESS)
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

    /// Promise: Man pages and shell completions are made from the flags of all commands.
    #[test]
    fn every_command_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("man1");
        let arguments = ["wirepath", "manual", folder.to_str().unwrap()];
        let Command::Generate(generate) = Arguments::try_parse_from(arguments).ok().unwrap().command else {
            panic!("`manual` is another command");
        };
        write(generate).unwrap();
        let page = |name: &str| std::fs::read_to_string(folder.join(name)).expect(name);
        for command in Arguments::command().get_subcommands() {
            let text = page(&format!("wirepath-{}.1", command.get_name()));
            assert!(text.contains(".SH SYNOPSIS") && !text.contains("EXTRA"), "{text}");
        }
        let main = page("wirepath.1");
        let codes = ".SH EXIT STATUS\nExit codes of all commands:\n.nf\n  0      success\n  1      failure;";
        assert!(main.contains(codes), "{main}");
        let serve = page("wirepath-serve.1");
        assert!(serve.contains("\\-\\-burst\\-max") && serve.contains("\\-\\-user"), "{serve}");
    }

    #[test]
    fn causes_are_not_repeated() {
        let result: Result<(), _> = Err(Listen(io::Error::other("in use")));
        let error = result.context("starting").unwrap_err();
        assert_eq!(message(&error), "starting: cannot listen: in use");
    }
}
