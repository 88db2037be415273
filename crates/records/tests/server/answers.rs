//! Answers that need no other reader: stored files, conditions, schemas, refusals.

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::trials;

use crate::TestBed;

pub(crate) fn trials() -> Vec<Trial> {
    trials![requests_that_cannot_be_answered_are_refused]
}

/// Promise: A request for records that cannot be answered is refused with a status and the reason.
fn requests_that_cannot_be_answered_are_refused() -> Result<()> {
    let bed = TestBed::new()?;
    bed.store("text", b"some text")?;
    bed.store("empty", b"")?;
    bed.store("short.arrow", b"ARROW1\0\0and no footer")?;
    bed.store("short.arrows", &[0xff, 0xff, 0xff, 0xff, 200, 0, 0, 0, 1, 2])?;
    bed.store("old.arrows", &[200, 0, 0, 0, 1, 2, 3, 4])?;
    for (path, status, words) in [
        ("/nothing.arrow", 404, "no such file"),
        ("/../a.arrow", 400, "`..` segment"),
        ("/text", 415, "neither an Arrow IPC file nor a stream"),
        ("/empty", 415, "neither an Arrow IPC file nor a stream"),
        ("/old.arrows", 415, "neither an Arrow IPC file nor a stream"),
        ("/short.arrow?select=a", 415, "no footer: the file is cut off"),
        ("/short.arrows?select=a", 415, "a message that is cut off"),
        ("/text?select=a%20b", 400, "invalid expression"),
        ("/text?columns=a", 400, "unknown parameter columns"),
    ] {
        let answer = bed.get(path)?;
        let text = String::from_utf8_lossy(&answer.body);
        ensure!(answer.status == status && text.contains(words), "{path}: {} {text}", answer.status);
    }
    Ok(())
}
