//! Copies by the kernel for this thread: number of calls and bytes of each copy function.
//!
//! Probes on these functions need a kernel module, `kernel/copies`: the kernel's own probe events refuse
//! these functions. The module's source describes its output.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;

use crate::error::{Doing, Error};
use crate::result::Copies;

const DEVICE: &str = "/dev/wirepath_copies";

/// Function that also copies requests and structures; only its copies of the length of a header are counted,
/// as headers.
const OF_STRUCTURES: &str = "_copy_from_user";

/// Functions that must be probed, or copies would be missed.
const NEEDED: [&str; 3] = ["_copy_from_iter", "_copy_to_iter", OF_STRUCTURES];

/// Length of the sent headers; no structure that the calls copy has this length.
const HEADER: usize = wirepath_datapath::rtp::HEADER_LENGTH;

/// Probes for the calling thread.
pub(super) struct Probes(File);

impl Probes {
    /// Opens the probes, and checks that they count.
    pub(super) fn new() -> Result<Probes, Error> {
        let device = OpenOptions::new().read(true).write(true).open(DEVICE).map_err(|error| {
            Error::Unable(format!(
                "{DEVICE} cannot be opened ({error}): it takes root, and the module kernel/copies (make -C kernel/copies modules, \
                 insmod kernel/copies/wirepath_copies.ko)"
            ))
        })?;
        let probes = Probes(device);
        probes.check()?;
        Ok(probes)
    }

    /// Returns the result of `act` and the copies made during it, by function.
    pub(super) fn during<T>(
        &self,
        act: impl FnOnce() -> Result<T, Error>,
    ) -> Result<(T, Vec<Copies>), Error> {
        self.begin()?;
        let result = act()?;
        Ok((result, self.read()?.into_iter().filter(|copies| copies.calls > 0).collect()))
    }

    fn begin(&self) -> Result<(), Error> {
        (&self.0).write_all(HEADER.to_string().as_bytes()).doing("beginning to count copies")
    }

    fn read(&self) -> Result<Vec<Copies>, Error> {
        let mut text = [0; 4096];
        let length = self.0.read_at(&mut text, 0).doing("reading what was copied")?;
        let text = String::from_utf8_lossy(&text[..length]);
        text.lines().map(|line| counted(line).map_err(Error::Unable)).collect()
    }

    /// Checks that the probes count the two copies of a pipe, in and out; inlined copy functions would not be
    /// seen.
    fn check(&self) -> Result<(), Error> {
        const BYTES: usize = 100;
        let (mut reader, mut writer) = std::io::pipe().doing("making a pipe")?;
        self.begin()?;
        writer.write_all(&[0; BYTES]).doing("writing to a pipe")?;
        reader.read_exact(&mut [0; BYTES]).doing("reading from a pipe")?;
        let copies = self.read()?;
        let seen = |function: &str| {
            let found = copies.iter().find(|one| one.function == function);
            let once = (1, BYTES as u64);
            found.is_some_and(|one| function == OF_STRUCTURES || (one.calls, one.bytes) == once)
        };
        match NEEDED.into_iter().find(|function| !seen(function)) {
            None => Ok(()),
            Some(function) => {
                Err(Error::Unable(format!("the probe on {function} does not see what it copies")))
            }
        }
    }
}

/// Parses a line: function, calls, bytes, calls of a header's length, missed calls.
fn counted(line: &str) -> Result<Copies, String> {
    let fields: Vec<&str> = line.split(' ').collect();
    let [function, numbers @ ..] = &fields[..] else { return Err("an empty line of copies".to_owned()) };
    let numbers: Option<Vec<u64>> = numbers.iter().map(|number| number.parse().ok()).collect();
    let Some([calls, bytes, headers, missed]) = numbers.as_deref() else {
        return Err(format!("cannot parse `{line}` of {DEVICE}: another version; rebuild kernel/copies"));
    };
    if *missed != 0 {
        return Err(format!("{missed} calls of {function} were missed by its probe: count again"));
    }
    let (calls, bytes) = match *function {
        OF_STRUCTURES => (*headers, headers * HEADER as u64),
        _ => (*calls, *bytes),
    };
    Ok(Copies { function: (*function).to_owned(), calls, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let copies =
            |function: &str, calls, bytes| Ok(Copies { function: function.to_owned(), calls, bytes });
        assert_eq!(counted("_copy_from_iter 1024 1507328 0 0"), copies("_copy_from_iter", 1024, 1_507_328));
        assert_eq!(counted("_copy_from_user 3000 100000 1024 0"), copies("_copy_from_user", 1024, 12_288));
    }

    /// Promise: `wirepath assess count` counts the calls and copies in the papers' tables and explains
    /// differences.
    #[test]
    fn lines_that_say_too_little_are_refused() {
        assert!(counted("_copy_from_iter 1024 1507328 0 1").unwrap_err().contains("missed"));
        for line in ["", "_copy_from_iter", "_copy_from_iter 1 2 3", "_copy_from_iter 1 2 3 x", "a 1 2 3 4 5"]
        {
            assert!(counted(line).unwrap_err().contains("cannot parse"), "{line:?}");
        }
    }
}
