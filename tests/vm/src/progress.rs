//! Progress of a guest: lines about tests and programs that have ended, while it runs.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::plan::Event;

/// Reader of a guest's reports as they come.
pub(crate) struct Progress {
    guest: String,
    program: String,
    /// Start of the program, after the guest's.
    start: Duration,
    /// End of the last test.
    last: Duration,
}

impl Progress {
    /// A guest that starts now.
    pub(crate) fn new(guest: &str) -> Self {
        let (start, last) = (Duration::ZERO, Duration::ZERO);
        Self { guest: guest.to_owned(), program: String::new(), start, last }
    }

    /// Line to print after the guest reported `line`, so long after its start. Tests that run side by side
    /// have the time since the one before.
    pub(crate) fn read(&mut self, line: &str, now: Duration) -> Option<String> {
        let (what, since) = match Event::read(line) {
            Some(Event::Begin(program)) => {
                (self.program, self.start, self.last) = (program, now, now);
                return None;
            }
            Some(Event::End(Ok(()))) => ("passed".to_owned(), self.start),
            Some(Event::End(Err(reason))) => (reason, self.start),
            Some(Event::Fault(problem)) => (problem, now),
            Some(Event::Done) => return None,
            None if is_of_a_test(line) => (line.trim_end().to_owned(), self.last),
            None => return None,
        };
        self.last = now;
        Some(format!("{} {}: {what}, {} s", self.guest, self.program, (now - since).as_secs()))
    }

    /// Prints lines while the guest writes its reports to a file, until the other end of `end` is dropped.
    pub(crate) fn follow(mut self, report: &Path, end: &Receiver<()>) {
        const PAUSE: Duration = Duration::from_secs(1);
        let begun = Instant::now();
        let (mut file, mut text) = (None, Vec::new());
        loop {
            let is_last = end.recv_timeout(PAUSE) == Err(RecvTimeoutError::Disconnected);
            // QEMU makes the file; what cannot be read now is in the report at the end.
            file = file.or_else(|| File::open(report).ok());
            if let Some(file) = &mut file {
                file.read_to_end(&mut text).ok();
            }
            for line in lines(&mut text) {
                if let Some(line) = self.read(&line, begun.elapsed()) {
                    println!("{line}");
                }
            }
            if is_last {
                return;
            }
        }
    }
}

/// Takes the whole lines from what was read.
fn lines(text: &mut Vec<u8>) -> Vec<String> {
    let Some(end) = text.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
    let whole: Vec<u8> = text.drain(..=end).collect();
    String::from_utf8_lossy(&whole).lines().map(str::to_owned).collect()
}

/// Returns whether the line is about the end of a test of a runner, or of the smoke test.
fn is_of_a_test(line: &str) -> bool {
    let is_test = line.starts_with("test ") && line.contains(" ... ");
    is_test || line.starts_with("group ") || line.starts_with("FAIL ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: A run on a debugging kernel prints each test and its time when it ends.
    #[test]
    fn each_test_and_program_is_printed_when_it_ends() {
        let mut progress = Progress::new("debug smoke");
        let mut read = |line: &str, seconds| progress.read(line, Duration::from_secs(seconds));
        assert_eq!(read("wirepath-vm: begin smoke", 20), None);
        assert_eq!(read("version 1, features 0x1f, fragments 17", 20), None);
        let line = "group packets of /disk/data over IPv4: 70 checks, 0 failed, 321 ms";
        assert_eq!(read(line, 25), Some(format!("debug smoke smoke: {line}, 5 s")));
        assert_eq!(read("FAIL here", 26).unwrap(), "debug smoke smoke: FAIL here, 1 s");
        assert_eq!(read("test a::b ... ok", 30).unwrap(), "debug smoke smoke: test a::b ... ok, 4 s");
        assert_eq!(read("wirepath-vm: passed", 40).unwrap(), "debug smoke smoke: passed, 20 s");
        assert_eq!(read("wirepath-vm: begin module", 40), None);
        let failed = read("wirepath-vm: failed ended with 1", 41).unwrap();
        assert_eq!(failed, "debug smoke module: ended with 1, 1 s");
        assert_eq!(read("wirepath-vm: done", 42), None);
    }

    #[test]
    fn half_a_line_waits_for_its_rest() {
        let mut text = b"one\r\ntw".to_vec();
        assert_eq!(lines(&mut text), ["one"]);
        text.extend(b"o\nthree\n");
        assert_eq!(lines(&mut text), ["two", "three"]);
        assert_eq!((lines(&mut text), text.len()), (Vec::new(), 0));
    }
}
