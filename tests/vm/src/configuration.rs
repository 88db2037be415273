//! Required options of a kernel's configuration, checked: Kconfig silently drops an option if another one
//! that it depends on is missing.

use anyhow::{Result, ensure};

/// Fails unless each line of `asked` is so in `made`, the configuration that Kconfig made of it.
///
/// # Errors
/// Naming each line that is not.
pub(crate) fn check(asked: &str, made: &str) -> Result<()> {
    let dropped: Vec<String> = asked.lines().filter_map(|line| difference(line.trim(), made)).collect();
    ensure!(
        dropped.is_empty(),
        "the kernel's configuration is not as asked for: {}; look for what these options depend on, in the kernel's Kconfig files",
        dropped.join(", ")
    );
    Ok(())
}

/// The actual setting, where it differs from the one that `line` asks for.
fn difference(line: &str, made: &str) -> Option<String> {
    let name = match line.strip_prefix("# ") {
        Some(comment) => comment.strip_suffix(" is not set").filter(|name| name.starts_with("CONFIG_"))?,
        None => line.split_once('=')?.0,
    };
    let is_set = |made: &&str| made.split_once('=').is_some_and(|(made, _)| made == name);
    let there = made.lines().map(str::trim).find(is_set);
    match there {
        Some(there) if there == line => None,
        Some(there) => Some(format!("{line} is {there}")),
        None if line.starts_with('#') => None,
        None => Some(format!("{line} is not set")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MADE: &str = "\
# Automatically generated file; DO NOT EDIT.
CONFIG_NET=y
CONFIG_NR_CPUS=64
CONFIG_CMDLINE=\"page_poison=1\"
# CONFIG_SLUB_TINY is not set
CONFIG_KASAN_INLINE=y
";

    #[test]
    fn what_is_as_asked_for_passes() {
        check("# A reason: for NET.\n\nCONFIG_NET=y\nCONFIG_CMDLINE=\"page_poison=1\"\n", MADE).unwrap();
        check("# CONFIG_SLUB_TINY is not set\n# CONFIG_ABSENT is not set\n", MADE).unwrap();
    }

    /// Promise: A debugging kernel has all requested options, or the build names the missing ones.
    #[test]
    fn each_option_that_was_dropped_is_named() {
        let asked = "CONFIG_NET=y\nCONFIG_KASAN=y\nCONFIG_NR_CPUS=8\n# CONFIG_KASAN_INLINE is not set\n";
        let error = check(asked, MADE).unwrap_err().to_string();
        for named in [
            "CONFIG_KASAN=y is not set",
            "CONFIG_NR_CPUS=8 is CONFIG_NR_CPUS=64",
            "# CONFIG_KASAN_INLINE is not set is CONFIG_KASAN_INLINE=y",
        ] {
            assert!(error.contains(named), "{error}");
        }
        assert!(!error.contains("CONFIG_NET"), "{error}");
    }

    /// Promise: A debugging kernel has all requested options, or the build names the missing ones.
    #[test]
    fn the_kernel_that_checks_itself_asks_for_each_detector() {
        let asked = crate::debug_kernel::ASKED;
        let detectors = [
            "KASAN_GENERIC",
            "KASAN_VMALLOC",
            "PROVE_LOCKING",
            "DEBUG_ATOMIC_SLEEP",
            "DEBUG_KMEMLEAK",
            "UBSAN_SHIFT",
            "DEBUG_LIST",
            "PAGE_POISONING",
            "FAILSLAB",
            "FAIL_PAGE_ALLOC",
            "DETECT_HUNG_TASK",
        ];
        for name in detectors {
            assert!(asked.lines().any(|line| line == format!("CONFIG_{name}=y")), "{name}");
        }
    }
}
