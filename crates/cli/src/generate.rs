//! `wirepath completions` and `wirepath manual`: files generated from the flags.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::Arguments;

/// Arguments of `wirepath completions`.
#[derive(Args)]
#[command(after_help = "\
Bash reads completions from a file named `wirepath` in ~/.local/share/bash-completion/completions:
    wirepath completions bash >~/.local/share/bash-completion/completions/wirepath
zsh reads them from a file named `_wirepath` in a folder of $fpath, fish from
~/.config/fish/completions/wirepath.fish.")]
pub(crate) struct Completions {
    /// Shell to write completions for
    shell: Shell,
}

impl Completions {
    /// Writes the completions to standard output.
    pub(crate) fn run(self) -> Result<ExitCode> {
        // Collects the text first, since the generator panics on write errors.
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "wirepath", &mut text);
        io::stdout().write_all(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Arguments of `wirepath manual`.
#[derive(Args)]
#[command(after_help = "\
A page for each command, such as wirepath-serve.1. `man` finds them in PREFIX/share/man/man1:
    wirepath manual ~/.local/share/man/man1 && man wirepath-serve")]
pub(crate) struct Manual {
    /// Folder for the pages; created if it does not exist
    folder: PathBuf,
}

impl Manual {
    /// Writes the manual pages.
    pub(crate) fn run(self) -> Result<ExitCode> {
        let name = self.folder.display();
        fs::create_dir_all(&self.folder).with_context(|| format!("cannot make the folder {name}"))?;
        clap_mangen::generate_to(Arguments::command(), &self.folder)
            .with_context(|| format!("cannot write man pages to {name}"))?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: Man pages and shell completions are made from the flags of all commands.
    #[test]
    fn every_command_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        Manual { folder: folder.path().join("man1") }.run().unwrap();
        for command in Arguments::command().get_subcommands() {
            let page = format!("man1/wirepath-{}.1", command.get_name());
            let text = fs::read_to_string(folder.path().join(&page)).expect(&page);
            assert!(text.contains(".SH SYNOPSIS"), "{page}: {text}");
        }
        let serve = fs::read_to_string(folder.path().join("man1/wirepath-serve.1")).unwrap();
        assert!(serve.contains("\\-\\-burst\\-max"), "{serve}");
    }
}
