//! Protocol between host and guest: the plan, and the events that the guest reports.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Path of the plan in the guest.
pub const FILE: &str = "/plan.json";

/// Programs of a guest between its start and its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The distribution's modules, in the order in which they load.
    pub drivers: Vec<PathBuf>,
    /// The module under test.
    pub module: Option<Module>,
    /// Environment variables of all programs, beside those of every guest.
    pub variables: Vec<(String, String)>,
    /// Programs that run first, with the module loaded and unloaded again: after the others the kernel must
    /// not keep more memory than after these.
    pub rehearsal: Vec<Program>,
    /// Programs, one after another.
    pub programs: Vec<Program>,
    /// Gives a shell on the kernel's console after that.
    pub shell: bool,
}

/// A module to load before programs, and to unload after them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Its file in the guest.
    pub file: PathBuf,
    /// As the kernel calls it.
    pub name: String,
    /// `name=value`, separated by spaces.
    pub parameters: String,
}

/// A program of the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// As the report calls it.
    pub name: String,
    /// Its file in the guest.
    pub file: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// Events that the guest reports, a line each, between the lines that its programs print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A program begins.
    Begin(String),
    /// A program has ended, with exit code 0 or in another way.
    End(Result<(), String>),
    /// The guest itself found something wrong.
    Fault(String),
    /// All was done, and the guest powers off.
    Done,
}

/// No program of ours begins a line like this.
const MARK: &str = "wirepath-vm: ";

impl fmt::Display for Event {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin(name) => write!(out, "{MARK}begin {name}"),
            Self::End(Ok(())) => write!(out, "{MARK}passed"),
            Self::End(Err(reason)) => write!(out, "{MARK}failed {reason}"),
            Self::Fault(problem) => write!(out, "{MARK}fault {problem}"),
            Self::Done => write!(out, "{MARK}done"),
        }
    }
}

impl Event {
    /// The event that a line reports, if it is not a program's own.
    pub fn read(line: &str) -> Option<Self> {
        // A program's last line may have had no end.
        let (_, text) = line.split_once(MARK)?;
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match word {
            "begin" => Some(Self::Begin(rest.to_owned())),
            "passed" => Some(Self::End(Ok(()))),
            "failed" => Some(Self::End(Err(rest.to_owned()))),
            "fault" => Some(Self::Fault(rest.to_owned())),
            "done" => Some(Self::Done),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_as_they_were_written() {
        let events = [
            Event::Begin("a b".into()),
            Event::End(Ok(())),
            Event::End(Err("exit status: 101".into())),
            Event::Fault("it is still in use".into()),
            Event::Done,
        ];
        for event in events {
            assert_eq!(Event::read(&event.to_string()), Some(event.clone()));
            assert_eq!(Event::read(&format!("half a line{event}")), Some(event));
        }
        assert_eq!(Event::read("test a ... ok"), None);
        assert_eq!(Event::read("wirepath-vm: cannot open x"), None);
    }
}
