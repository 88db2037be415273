//! `wirepath completions` and `wirepath manual`: files generated from the flags.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

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
        let mut command = Arguments::command().disable_help_subcommand(true);
        command.build();
        write_pages(&command, &self.folder).with_context(|| format!("cannot write man pages to {name}"))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes the pages of a command and of its subcommands.
fn write_pages(command: &Command, folder: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        write_pages(subcommand, folder)?;
    }
    let page = Man::new(command.clone());
    fs::write(folder.join(page.get_filename()), text_of(command, &page)?)
}

/// Text of a page. The sections are those of [`Man::render`], which would show the help text behind the
/// options as one section `EXTRA` with all of its lines joined.
fn text_of(command: &Command, page: &Man) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.get_subcommands().any(|subcommand| !subcommand.is_hide_set()) {
        page.render_subcommands_section(&mut text)?;
    }
    if let Some(help) = command.get_after_help() {
        text.extend(further_sections(&help.to_string()).into_bytes());
    }
    if command.get_version().is_some() {
        page.render_version_section(&mut text)?;
    }
    Ok(text)
}

/// Sections of the help text behind the options. A paragraph about exit codes or an example gets a section
/// of its own; indented lines stay lines.
fn further_sections(help: &str) -> String {
    let (mut text, mut section) = (String::new(), "");
    for paragraph in help.split("\n\n") {
        let heading = match paragraph {
            paragraph if paragraph.starts_with("Exit code") => "EXIT STATUS",
            paragraph if paragraph.starts_with("Example") => "EXAMPLES",
            _ => "NOTES",
        };
        text += &if section == heading { ".PP\n".to_owned() } else { format!(".SH {heading}\n") };
        section = heading;
        let mut is_verbatim = false;
        // The heading of the section says the same.
        for line in paragraph.lines().filter(|line| *line != "Examples:") {
            if line.starts_with(' ') != is_verbatim {
                is_verbatim = !is_verbatim;
                text += if is_verbatim { ".nf\n" } else { ".fi\n" };
            }
            text += &escaped(line);
            text.push('\n');
        }
        if is_verbatim {
            text += ".fi\n";
        }
    }
    text
}

/// Line as roff text: no character of it is a request or an escape.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if line.starts_with('.') { format!("\\&{line}") } else { line }
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
            assert!(text.contains(".SH SYNOPSIS") && !text.contains("EXTRA"), "{page}: {text}");
        }
        let main = fs::read_to_string(folder.path().join("man1/wirepath.1")).unwrap();
        let codes = ".SH EXIT STATUS\nExit codes of all commands:\n.nf\n  0      success\n  1      failure;";
        assert!(main.contains(codes), "{main}");
        let serve = fs::read_to_string(folder.path().join("man1/wirepath-serve.1")).unwrap();
        assert!(serve.contains("\\-\\-burst\\-max"), "{serve}");
    }

    #[test]
    fn help_behind_the_options_becomes_sections() {
        let help = "Examples:\n  a --in 'b' \\\n     c\n\nFirst.\n.dot\n\nSecond.\n\nExit code: 0";
        let expected = ".SH EXAMPLES\n.nf\n  a \\-\\-in \\(aqb\\(aq \\e\n     c\n.fi\n.SH NOTES\nFirst.\n\\&.dot\n\
                        .PP\nSecond.\n.SH EXIT STATUS\nExit code: 0\n";
        assert_eq!(further_sections(help), expected);
    }
}
