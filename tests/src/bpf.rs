//! Objects of eBPF handlers, built from `kernel/bpf`.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::process::{self, find};
use crate::require;

/// Builds the handler `NAME.bpf.c` of `kernel/bpf` as Makefile does. Skips where that cannot be.
pub fn handler(name: &str, folder: &Path) -> Result<PathBuf> {
    require_clang()?;
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernel/bpf");
    let object = folder.join(format!("{name}.bpf.o"));
    process::run(
        "make",
        [Path::new("-C"), &sources, Path::new(&format!("OUT={}", folder.display())), &object],
        60.0,
    )?;
    Ok(object)
}

/// Builds the program of another file. Skips where that cannot be.
pub fn object(source: &Path, folder: &Path) -> Result<PathBuf> {
    require_clang()?;
    let object = folder.join("program.bpf.o");
    let headers = format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let flags = ["-O2", "-g", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3", "-c", &headers];
    let (flags, to) = (flags.map(Path::new), Path::new("-o"));
    process::run("clang", flags.into_iter().chain([source, to, &object]), 60.0)?;
    Ok(object)
}

fn require_clang() -> Result<()> {
    require!(find("clang").is_some(), "clang is not installed");
    require!(Path::new("/usr/include/bpf/bpf_helpers.h").exists(), "libbpf-dev is not installed");
    Ok(())
}
