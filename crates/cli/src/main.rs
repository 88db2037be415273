//! `wirepath`: serves stored media by the shortest path the machine offers.

mod image_options;
mod serve;
mod serve_options;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Takes stored media to the network by the shortest path the machine offers.
#[derive(Parser)]
#[command(name = "wirepath", version, about, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve folders of transport streams over RTSP/RTP, and any files over HTTP
    Serve(serve::Serve),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.command {
        Command::Serve(serve) => serve.run(),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("wirepath: {error:#}");
            ExitCode::FAILURE
        }
    }
}
