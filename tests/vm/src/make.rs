//! The kernel's own build, called on a folder of sources with its objects elsewhere.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::command::{Command, output};

/// One build.
pub(crate) struct Make {
    sources: PathBuf,
    objects: PathBuf,
}

/// Lines of a long build between two that say how far it is.
const LINES_A_MESSAGE: usize = 250;

/// Lines of a build that failed that are shown.
const LINES_SHOWN: usize = 30;

impl Make {
    /// The build of `sources` whose objects are in `objects`, which goes on where it was interrupted.
    ///
    /// # Errors
    /// If there is no such place.
    pub(crate) fn new(sources: &Path, objects: &Path) -> Result<Self> {
        std::fs::create_dir_all(objects).with_context(|| objects.display().to_string())?;
        let sources = sources.canonicalize().with_context(|| sources.display().to_string())?;
        let objects = objects.canonicalize().with_context(|| objects.display().to_string())?;
        Ok(Self { sources, objects })
    }

    /// Folder of its objects.
    pub(crate) fn objects(&self) -> &Path {
        &self.objects
    }

    /// Makes something that takes no time to speak of; answers what was printed.
    ///
    /// # Errors
    /// With everything that was printed, if it fails.
    pub(crate) fn run(&self, goals: &[&str]) -> Result<String> {
        output(self.command().args(goals))
    }

    /// Makes something that takes long, on all processors, after everything else that wants them; says on
    /// standard error how far it is.
    ///
    /// # Errors
    /// With the last of what was printed, if it fails.
    pub(crate) fn run_long(&self, goals: &[&str]) -> Result<()> {
        let processors = std::thread::available_parallelism().context("counting processors")?;
        let start = Instant::now();
        let log_path = self.objects.join("build.log");
        let mut log = std::fs::File::create(&log_path).with_context(|| log_path.display().to_string())?;
        eprintln!("building {} on {processors} processors", goals.join(" and "));
        let mut command = self.command();
        command.arg(format!("-j{processors}")).args(goals).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(log.try_clone().context("the build's log")?);
        let mut child = command.spawn().context("cannot run nice and make")?;
        let lines = BufReader::new(child.stdout.take().context("no standard output")?).split(b'\n');
        for (number, line) in lines.enumerate() {
            log.write_all(&[&line.context("reading what make says")?[..], b"\n"].concat())
                .context("writing the build's log")?;
            if number % LINES_A_MESSAGE == LINES_A_MESSAGE - 1 {
                eprintln!("  {} steps after {} s", number + 1, start.elapsed().as_secs());
            }
        }
        let status = child.wait().context("waiting for make")?;
        eprintln!("  ended with {status} after {} s", start.elapsed().as_secs());
        let text =
            String::from_utf8_lossy(&std::fs::read(&log_path).context("the build's log")?).into_owned();
        ensure!(
            status.success(),
            "make ended with {status}, in {}:\n{}",
            log_path.display(),
            last_lines(&text)
        );
        Ok(())
    }

    fn command(&self) -> Command {
        let mut command = Command::new("nice");
        command.arg("make").arg("-C").arg(&self.sources).arg(format!("O={}", self.objects.display()));
        // An outer make's variables are not meant for this one; a kernel's version names no machine.
        command.env_remove("MAKEFLAGS").env_remove("MFLAGS").env_remove("MAKELEVEL").env("LC_ALL", "C");
        command.env("KBUILD_BUILD_USER", "wirepath").env("KBUILD_BUILD_HOST", "guest");
        command
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(makefile: &str) -> (tempfile::TempDir, Make) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("Makefile"), makefile).unwrap();
        let made = Make::new(folder.path(), &folder.path().join("objects")).unwrap();
        (folder, made)
    }

    #[test]
    fn what_is_made_lies_beside_the_sources() {
        let (folder, make) = make("all:\n\t@echo it is > $(O)/made\n\t@echo $(O)\n");
        make.run_long(&["all"]).unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("objects/made")).unwrap(), "it is\n");
        assert_eq!(make.run(&["-s", "all"]).unwrap().trim(), make.objects().display().to_string());
    }

    /// Promise: A debugging kernel is built completely or not at all, and a failed build says why.
    #[test]
    fn a_build_that_fails_says_why() {
        let (_folder, make) = make("all:\n\t@echo first; echo this is why >&2; exit 3\n");
        let error = format!("{:#}", make.run_long(&["all"]).unwrap_err());
        assert!(error.contains("first") && error.contains("this is why"), "{error}");
        assert!(make.run(&["all"]).is_err());
    }
}
