//! Kernel functions by address.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use super::ProfileError;
use crate::host::read;

/// Name of an address outside of all functions.
const UNKNOWN: &str = "[unknown]";

/// Maximum number of bytes read from /proc/kallsyms; a kernel with all its modules has some 20 MiB.
const LIMIT: u64 = 256 << 20;

/// Address and name of each kernel function, in order.
pub(super) struct KernelSymbols(Vec<(u64, Box<str>)>);

impl KernelSymbols {
    /// Reads /proc/kallsyms.
    pub(super) fn read() -> Result<KernelSymbols, ProfileError> {
        let file = File::open("/proc/kallsyms").map_err(ProfileError::NoSymbols)?;
        let symbols = parse(BufReader::new(file.take(LIMIT))).map_err(ProfileError::NoSymbols)?;
        match symbols.0.last() {
            None => Err(ProfileError::NoSymbols(io::Error::other("it names no function"))),
            Some((0, _)) => {
                let restrict = read::line("/proc/sys/kernel/kptr_restrict");
                Err(ProfileError::Hidden { restrict: restrict.unwrap_or_else(|| "not readable".to_owned()) })
            }
            Some(_) => Ok(symbols),
        }
    }

    /// Function that contains this address.
    pub(super) fn name(&self, address: u64) -> &str {
        let after = self.0.partition_point(|(begin, _)| *begin <= address);
        after.checked_sub(1).map_or(UNKNOWN, |index| &self.0[index].1)
    }
}

/// Parses lines of `address type name [module]`; other lines are skipped. If an address has several names,
/// the name with the fewest leading underscores is kept: `memcpy` and not `__memcpy`.
fn parse(text: impl BufRead) -> io::Result<KernelSymbols> {
    let mut symbols = Vec::new();
    for line in text.split(b'\n') {
        if let Some(symbol) = std::str::from_utf8(&line?).ok().and_then(function) {
            symbols.push(symbol);
        }
    }
    let underscores = |name: &str| name.bytes().take_while(|byte| *byte == b'_').count();
    symbols.sort_by(|(one, one_name), (other, other_name)| {
        (one, underscores(one_name), one_name).cmp(&(other, underscores(other_name), other_name))
    });
    symbols.dedup_by_key(|(address, _)| *address);
    Ok(KernelSymbols(symbols))
}

/// Function in a line, if there is one.
fn function(line: &str) -> Option<(u64, Box<str>)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
    let name = words.next()?;
    is_code.then(|| (address, read::printable(name).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols(text: &str) -> KernelSymbols {
        parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn addresses_belong_to_the_function_that_begins_before() {
        let symbols = symbols(
            "ffffffff81000200 T udp_sendmsg\nffffffff81000100 t memcpy_orig\nffffffff81000280 d some_data\n\
             ffffffffc0000000 t veth_xmit\t[veth]\n",
        );
        let names = [0x50, 0x100, 0x1ff, 0x200, 0x290].map(|at| symbols.name(0xffff_ffff_8100_0000 + at));
        assert_eq!(names, [UNKNOWN, "memcpy_orig", "memcpy_orig", "udp_sendmsg", "udp_sendmsg"]);
        assert_eq!(symbols.name(u64::MAX), "veth_xmit");
    }

    #[test]
    fn of_several_names_the_plainest_is_kept() {
        let symbols =
            symbols("10 T __memcpy\n10 W memcpy\n10 T _text\n20 T _stext\n20 T srso_alias_untrain_ret\n");
        assert_eq!((symbols.name(0x15), symbols.name(0x25)), ("memcpy", "srso_alias_untrain_ret"));
    }

    #[test]
    fn odd_lines_are_passed_over() {
        let text = b"\n10\n10 T\nxyz T a\n10 T \xff\n20 T b\n99999999999999999999 T c\n10 T \x1b[2J\n";
        let symbols = parse(&text[..]).unwrap();
        assert_eq!((symbols.0.len(), symbols.name(0x10), symbols.name(0x30)), (2, "[2J", "b"));
    }
}
