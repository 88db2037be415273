//! Man pages and shell completions of a program, generated from its flags by the program itself.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Command, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use clap_mangen::Man;

/// Exit code after a failure.
const FAILURE: i32 = 1;

/// Exit code if the reader of standard output has closed it, as of programs that SIGPIPE ends.
const BROKEN_PIPE: i32 = 128 + 13;

/// Parses the arguments of a program that has no other commands. If the arguments are a command of
/// [`Generate`], runs it and ends the process.
pub fn parse<A: Parser>() -> A {
    let program = with_commands(A::command());
    let matches = program.clone().get_matches();
    if matches.subcommand_name().is_none() {
        return A::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    }
    let generate = Generate::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let name = program.get_name().to_owned();
    match generate.write(program) {
        Ok(()) => std::process::exit(0),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(BROKEN_PIPE),
        Err(error) => {
            // If standard error is closed, only the exit code reports the failure.
            drop(writeln!(io::stderr(), "{name}: {error}"));
            std::process::exit(FAILURE)
        }
    }
}

/// Adds the commands to a program, instead of which it may be given its own arguments.
fn with_commands(program: Command) -> Command {
    let about = program.get_about().cloned().unwrap_or_default();
    // clap takes the documentation of the enum for that of the program.
    let program = Generate::augment_subcommands(program).about(about);
    program.args_conflicts_with_subcommands(true).subcommand_negates_reqs(true)
}

/// Commands of a program that write its documentation.
#[derive(Subcommand)]
pub enum Generate {
    /// Write completions for a shell to standard output
    Completions(Completions),
    /// Write man pages of all commands to a folder
    Manual(Manual),
}

impl Generate {
    /// Writes the completions or the pages of a program.
    ///
    /// # Errors
    /// Standard output or the folder cannot be written to.
    pub fn write(self, program: Command) -> io::Result<()> {
        match self {
            Generate::Completions(completions) => completions.write(program),
            Generate::Manual(manual) => manual.write(program),
        }
    }
}

/// Arguments of the command `completions`.
#[derive(Args)]
#[command(after_help = "\
PROGRAM is the name of this program. Bash reads completions from a file of that name:
    PROGRAM completions bash >~/.local/share/bash-completion/completions/PROGRAM
zsh reads them from a file named `_PROGRAM` in a folder of $fpath, fish from
~/.config/fish/completions/PROGRAM.fish.")]
pub struct Completions {
    /// Shell to write completions for
    shell: Shell,
}

impl Completions {
    /// Writes the completions to standard output.
    fn write(self, mut program: Command) -> io::Result<()> {
        // Collects the text first, since the generator panics on write errors.
        let (mut text, name) = (Vec::new(), program.get_name().to_owned());
        clap_complete::generate(self.shell, &mut program, name, &mut text);
        io::stdout().write_all(&text)
    }
}

/// Arguments of the command `manual`.
#[derive(Args)]
#[command(after_help = "\
One page for each command. `man` finds pages in PREFIX/share/man/man1, such as
~/.local/share/man/man1.")]
pub struct Manual {
    /// Folder for the pages; created if it does not exist
    folder: PathBuf,
}

impl Manual {
    /// Writes the pages.
    fn write(self, program: Command) -> io::Result<()> {
        let failed = |what: &'static str| {
            let folder = self.folder.display();
            move |error: io::Error| io::Error::new(error.kind(), format!("cannot {what} {folder}: {error}"))
        };
        fs::create_dir_all(&self.folder).map_err(failed("make the folder"))?;
        let mut program = program.disable_help_subcommand(true);
        program.build();
        write_pages(&program, &self.folder).map_err(failed("write man pages to"))
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
/// of its own; indented lines and all lines of a paragraph with a table stay lines.
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
        let (has_table, mut is_verbatim) = (paragraph.lines().any(is_row), false);
        // The heading of the section says the same.
        for line in paragraph.lines().filter(|line| *line != "Examples:") {
            if (has_table || line.starts_with(' ')) != is_verbatim {
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

/// Returns whether the line is a row of a table: a word with a colon, and spaces up to the next column.
fn is_row(line: &str) -> bool {
    line.split_once(':').is_some_and(|(word, rest)| !word.contains(' ') && rest.starts_with("  "))
}

/// Line as roff text: no character of it is a request or an escape.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if line.starts_with('.') { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program of options and commands, as `wirepath-images`.
    #[test]
    fn a_program_and_its_commands_have_pages() {
        let folder = tempfile::tempdir().unwrap();
        let program = || {
            let program =
                Command::new("serve-all").version("1.2 (abc)").arg(clap::Arg::new("burst").long("burst"));
            with_commands(program.about("Serves everything").after_help("Exit code: 0"))
        };
        Generate::Manual(Manual { folder: folder.path().join("man1") }).write(program()).unwrap();
        let page = |name: &str| fs::read_to_string(folder.path().join("man1").join(name)).expect(name);
        let main = page("serve-all.1");
        for part in
            [".SH SYNOPSIS", "Serves everything", "\\-\\-burst", ".SH EXIT STATUS\nExit code: 0", "1.2 (abc)"]
        {
            assert!(main.contains(part), "{part}: {main}");
        }
        assert!(page("serve-all-completions.1").contains("PROGRAM"));
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = Generate::Manual(Manual { folder: file }).write(program()).unwrap_err().to_string();
        assert!(error.starts_with("cannot make the folder "), "{error}");
    }

    #[test]
    fn help_behind_the_options_becomes_sections() {
        let help = "Examples:\n  a --in 'b' \\\n     c\n\nFirst.\n.dot\n\nSecond.\n\nA:  b\nLonger: c\nd\n\n\
                    Exit code: 0";
        let expected = ".SH EXAMPLES\n.nf\n  a \\-\\-in \\(aqb\\(aq \\e\n     c\n.fi\n.SH NOTES\nFirst.\n\\&.dot\n\
                        .PP\nSecond.\n.PP\n.nf\nA:  b\nLonger: c\nd\n.fi\n.SH EXIT STATUS\nExit code: 0\n";
        assert_eq!(further_sections(help), expected);
    }
}
