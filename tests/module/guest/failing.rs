//! Allocations that fail, in kernels that have it (Documentation/fault-injection/fault-injection.rst): only
//! those that the code of modules asks for, itself or by what it calls.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use wirepath_tests::require;

/// Fault injectors of slabs and pages.
const KINDS: [&str; 2] = ["failslab", "fail_page_alloc"];

/// Address range of modules' code, and nothing else (Documentation/arch/x86/x86_64/mm.rst).
const MODULES: [&str; 2] = ["0xffffffffa0000000", "0xffffffffff000000"];

/// Allocations that one attempt makes at most; more is an attempt that never ends.
const MOST: u64 = 5000;

/// Fault injector for allocations of this thread.
pub(crate) struct Failing {
    nth: File,
}

impl Failing {
    /// Has nothing fail yet.
    pub(crate) fn new() -> Result<Failing> {
        for kind in KINDS {
            require!(Path::new("/sys/kernel/debug").join(kind).exists(), "this kernel fails no allocations");
            // Those that may wait fail, too; each failure of itself is no news for the kernel's log.
            for (name, value) in [
                ("probability", "0"),
                ("ignore-gfp-wait", "N"),
                ("verbose", "0"),
                ("times", "-1"),
                ("stacktrace-depth", "32"),
                ("require-start", MODULES[0]),
                ("require-end", MODULES[1]),
                ("reject-start", "0"),
                ("reject-end", "0"),
            ] {
                set(kind, name, value)?;
            }
        }
        set("fail_page_alloc", "min-order", "0")?;
        let path = "/proc/thread-self/fail-nth";
        Ok(Failing { nth: OpenOptions::new().read(true).write(true).open(path).context(path)? })
    }

    /// Has nothing fail in a function of the kernel, nor in what it calls.
    pub(crate) fn spare(&self, function: &str) -> Result<()> {
        let symbols = std::fs::read_to_string("/proc/kallsyms").context("/proc/kallsyms")?;
        let mut addresses = symbols.lines().map(|line| line.split_whitespace());
        let start = addresses.find_map(|mut words| {
            let start = words.next()?;
            (words.nth(1) == Some(function)).then_some(start)
        });
        let start = start.with_context(|| format!("the kernel has no {function}"))?;
        let end = addresses.find_map(|mut words| words.next().filter(|end| *end != start));
        for kind in KINDS {
            set(kind, "reject-start", &format!("0x{start}"))?;
            set(kind, "reject-end", &format!("0x{}", end.context("no symbol is behind it")?))?;
        }
        Ok(())
    }

    /// Makes the attempt again and again, the first time with the first of its allocations failing, then with
    /// the second, until there are no more; answers how many failed. The attempt is what it is given calls:
    /// all else it does fails nowhere.
    pub(crate) fn each(&self, mut attempt: impl FnMut(&Armed<'_>) -> Result<()>) -> Result<u64> {
        for number in 1..=MOST {
            let armed = Armed { nth: &self.nth, number, has_failed: false.into() };
            attempt(&armed).with_context(|| format!("where allocation {number} fails"))?;
            if !armed.has_failed.get() {
                return Ok(number - 1);
            }
        }
        bail!("an attempt makes more than {MOST} allocations")
    }

    /// Has one in so many allocations fail, of whatever thread, until what is answered is dropped.
    pub(crate) fn one_in(&self, times: u32) -> Result<Anywhere> {
        let anywhere = Anywhere;
        for kind in KINDS {
            set(kind, "probability", &(100 / times).to_string())?;
        }
        Ok(anywhere)
    }
}

/// Has one allocation of a call fail.
pub(crate) struct Armed<'a> {
    nth: &'a File,
    number: u64,
    has_failed: std::cell::Cell<bool>,
}

impl Armed<'_> {
    /// Calls it, once in each attempt.
    pub(crate) fn call<T>(&self, call: impl FnOnce() -> T) -> Result<T> {
        self.nth.write_all_at(format!("{}\n", self.number).as_bytes(), 0).context("arming")?;
        let answer = call();
        let mut text = [0; 24];
        let length = self.nth.read_at(&mut text, 0).context("asking how many are left")?;
        self.nth.write_all_at(b"0\n", 0).context("disarming")?;
        let left: u64 = std::str::from_utf8(&text[..length])?.trim().parse().context("how many are left")?;
        self.has_failed.set(left == 0);
        Ok(answer)
    }
}

/// Allocations of any thread fail as long as there is one.
pub(crate) struct Anywhere;

impl Drop for Anywhere {
    fn drop(&mut self) {
        for kind in KINDS {
            set(kind, "probability", "0").expect("what was set can be set again");
        }
    }
}

fn set(kind: &str, name: &str, value: &str) -> Result<()> {
    let path = Path::new("/sys/kernel/debug").join(kind).join(name);
    std::fs::write(&path, value).with_context(|| format!("writing {value} to {}", path.display()))
}
