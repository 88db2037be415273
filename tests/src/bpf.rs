//! Objects of eBPF handlers, built from `kernel/bpf`.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::process::{self, find};
use crate::require;

/// Builds the handler `NAME.bpf.c` of `kernel/bpf` as Makefile does. Skips where that cannot be.
pub fn handler(name: &str, folder: &Path) -> Result<PathBuf> {
    require!(find("clang").is_some(), "clang is not installed");
    require!(Path::new("/usr/include/bpf/bpf_helpers.h").exists(), "libbpf-dev is not installed");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernel/bpf");
    let object = folder.join(format!("{name}.bpf.o"));
    process::run(
        "make",
        [Path::new("-C"), &sources, Path::new(&format!("OUT={}", folder.display())), &object],
        60.0,
    )?;
    Ok(object)
}
