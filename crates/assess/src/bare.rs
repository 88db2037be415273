//! Bare C loops measured with the paths: the cost of sending alone, on the same test bed and in the same
//! rounds.
//!
//! The program (`bench/bare.c`) itself sends to the device that drops packets, on the processor of the thread
//! that starts it, and prints the processor time it used.

use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use wirepath_datapath::MappedFile;

use crate::case::Case;
use crate::error::Error;
use crate::options::Options;
use crate::result::{Cache, Run};
use crate::subject::{Experiment, Transport};
use crate::test_bed::{Target, TestBed};

/// Program, and the paths that it has loops for.
#[derive(Debug)]
pub(crate) struct Bare {
    program: PathBuf,
    paths: Vec<String>,
}

impl Bare {
    /// Program from the options, if there is one.
    pub(crate) fn wanted(options: &Options, test_bed: &TestBed) -> Result<Option<Bare>, Error> {
        let Some(program) = &options.bare else { return Ok(None) };
        if options.cache == Cache::Cold {
            return Err(Error::Input(
                "--bare needs a warm cache, since its loops map the whole file before they send: use --cache warm"
                    .to_owned(),
            ));
        }
        if !matches!(test_bed.udp, Target::Drops(_)) {
            return Err(Error::Input(format!(
                "--bare is not supported with the sink {}: use --sink drop or drop-nooffload",
                options.sink
            )));
        }
        let mut bare = Bare { program: program.clone(), paths: Vec::new() };
        bare.paths = bare.call(&["paths".to_owned()])?.lines().map(str::to_owned).collect();
        Ok(Some(bare))
    }

    /// Returns whether the program has a loop for this case, and the case sends no fragments, which the loops
    /// do not request.
    pub(crate) fn supports(&self, case: &Case, udp_payload_limit: u32) -> bool {
        let named = self.paths.iter().any(|path| path == case.path.name());
        let is_of_datagrams =
            (case.path.experiment(), case.transport) == (Experiment::Stream, Transport::Udp);
        is_of_datagrams && named && !case.is_fragmented(udp_payload_limit)
    }

    pub(crate) fn run(&self, case: &Case, medium: &MappedFile, volume: u64) -> Result<Run, Error> {
        let size = u64::from(case.size.unwrap_or_default());
        let file = format!("/proc/{}/fd/{}", std::process::id(), medium.file().as_raw_fd());
        let sockets = 1;
        let printed = self.call(&[
            case.path.name().to_owned(),
            volume.to_string(),
            file,
            case.train_packets().to_string(),
            sockets.to_string(),
            size.to_string(),
        ])?;
        let numbers: Vec<f64> = printed.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [user_s, system_s, packets, wall_s] = numbers[..] else {
            return Err(self.unexpected_output(&printed));
        };
        let packets = packets as u64;
        Ok(Run {
            user_s,
            system_s,
            wall_s,
            bytes: packets * size,
            packets,
            errors: 0,
            copied: None,
            loans: None,
        })
    }

    fn call(&self, arguments: &[String]) -> Result<String, Error> {
        let mut command = Command::new(&self.program);
        command.args(arguments).env("LC_ALL", "C").stdin(Stdio::null());
        // Ctrl-C at the terminal is handled by this process: a run in progress is completed.
        command.process_group(0);
        let failed = |why: &str| Error::Unable(format!("{} failed: {why}", self.program.display()));
        let output = command.output().map_err(|error| {
            Error::Input(format!(
                "{} cannot be started: {error}; compile it: cc -O2 -o bare bench/bare.c",
                self.program.display()
            ))
        })?;
        match output.status.success() {
            true => String::from_utf8(output.stdout).map_err(|_| failed("its output is not UTF-8")),
            false => Err(failed(String::from_utf8_lossy(&output.stderr).trim())),
        }
    }

    fn unexpected_output(&self, printed: &str) -> Error {
        Error::Unable(format!("{} printed {:?}", self.program.display(), printed.trim()))
    }
}
