//! Names for addresses in user space: of the program or library, without functions. That suffices, since
//! paths are loops around calls.

use std::io;

use crate::host::read;

/// Name of an address outside mapped files.
const UNKNOWN: &str = "[user]";

/// Address ranges and the file mapped at each, in order.
pub(super) struct UserSymbols(Vec<(u64, u64, Box<str>)>);

impl UserSymbols {
    /// Reads the mappings of this process.
    pub(super) fn read() -> io::Result<UserSymbols> {
        Ok(UserSymbols(std::fs::read_to_string("/proc/self/maps")?.lines().filter_map(range).collect()))
    }

    /// Program or library that contains this address.
    pub(super) fn name(&self, address: u64) -> &str {
        let after = self.0.partition_point(|(begin, ..)| *begin <= address);
        let found = after.checked_sub(1).map(|index| &self.0[index]).filter(|(_, end, _)| address < *end);
        found.map_or(UNKNOWN, |(.., name)| name)
    }
}

/// Parses a line of `begin-end permissions offset device inode path`; `None` without a path or name.
fn range(line: &str) -> Option<(u64, u64, Box<str>)> {
    let (range, rest) = line.split_once(' ')?;
    let (begin, end) = range.split_once('-')?;
    let path = rest.split_whitespace().nth(4)?;
    let name = path.rsplit('/').next().filter(|name| !name.is_empty())?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    Some((address(begin)?, address(end)?, read::printable(name).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_named_by_their_files() {
        let lines = [
            "1000-2000 r-xp 00001000 fe:00 123 /usr/local/bin/wirepath",
            "3000-4000 rw-p 00000000 00:00 0 ",
            "5000-6000 r-xp 00000000 00:00 0                          [vdso]",
            "nonsense",
            "x-y r-xp 0 0 0 /a",
        ];
        let symbols = UserSymbols(lines.into_iter().filter_map(range).collect());
        let names = [0xfff, 0x1000, 0x1fff, 0x2000, 0x3000, 0x5000].map(|at| symbols.name(at));
        assert_eq!(names, [UNKNOWN, "wirepath", "wirepath", UNKNOWN, UNKNOWN, "[vdso]"]);
    }

    #[test]
    fn this_function_is_in_this_program() {
        let here = range as fn(&str) -> _ as usize as u64;
        let program = std::env::current_exe().unwrap();
        assert_eq!(UserSymbols::read().unwrap().name(here), program.file_name().unwrap().to_str().unwrap());
    }
}
