//! Objects of eBPF programs: handlers of `kernel/bpf`, and programs of the tests themselves.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use aya::maps::Array;
use aya::programs::{Lsm, ProgramError};
use aya::{Btf, BtfError, Ebpf};

use crate::process::{self, find};
use crate::require;

/// Environment variable with a folder of objects that were built elsewhere: guests have no compiler.
pub const FOLDER: &str = "WIREPATH_BPF";

/// Ends of the names of sources and objects.
const SOURCE: &str = ".bpf.c";
const OBJECT: &str = ".bpf.o";

/// Builds the handler `NAME.bpf.c` of `kernel/bpf` as Makefile does, or copies it from elsewhere. Skips where
/// neither can be.
pub fn handler(name: &str, folder: &Path) -> Result<PathBuf> {
    let object = object(folder, name);
    if copy_from_elsewhere(name, &object)? {
        return Ok(object);
    }
    require_clang()?;
    let out = format!("OUT={}", folder.display());
    process::run("make", [Path::new("-C"), &handlers(), Path::new(&out), &object], 60.0)?;
    Ok(object)
}

/// Builds the program `NAME.bpf.c` of `tests/netns`, or copies it from elsewhere. Skips where neither can be.
pub fn program(name: &str, folder: &Path) -> Result<PathBuf> {
    let object = object(folder, name);
    if copy_from_elsewhere(name, &object)? {
        return Ok(object);
    }
    require_clang()?;
    let source = programs().join(format!("{name}{SOURCE}"));
    let of_system = format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let of_handlers = format!("-I{}", handlers().display());
    let flags =
        ["-O2", "-g", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3", "-c", &of_system, &of_handlers];
    let (flags, to) = (flags.map(Path::new), Path::new("-o"));
    process::run("clang", flags.into_iter().chain([source.as_path(), to, &object]), 60.0)?;
    Ok(object)
}

/// Builds all handlers and programs, unless they were built elsewhere. Skips where neither can be.
pub fn all(folder: &Path) -> Result<Vec<PathBuf>> {
    if let Some(elsewhere) = std::env::var_os(FOLDER) {
        let elsewhere = Path::new(&elsewhere);
        return Ok(names(elsewhere, OBJECT)?.iter().map(|name| object(elsewhere, name)).collect());
    }
    let handlers = names(&handlers(), SOURCE)?.into_iter().map(|name| handler(&name, folder));
    let programs = names(&programs(), SOURCE)?.into_iter().map(|name| program(&name, folder));
    handlers.chain(programs).collect()
}

/// Names of the files of a folder that end so, without this end.
fn names(folder: &Path, end: &str) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        names.extend(name.to_str().and_then(|name| name.strip_suffix(end)).map(str::to_owned));
    }
    Ok(names)
}

/// Has the kernel make the maps of an object. Skips where that is not permitted.
pub fn load(object: &Path) -> Result<Ebpf> {
    let bytes = std::fs::read(object).with_context(|| object.display().to_string())?;
    let loaded = Ebpf::load(&bytes);
    let refused = loaded.as_ref().is_err_and(|error| format!("{error:?}").contains("PermissionDenied"));
    require!(!refused, "loading eBPF programs is not permitted here");
    loaded.with_context(|| object.display().to_string())
}

/// The security module of `denial.bpf.c`, attached.
pub struct Denial(Ebpf);

/// Entries of its map: cookie of the socket that it denies, and number of denials.
const COOKIE: u32 = 0;
const DENIED: u32 = 1;

/// File with the names of the active security modules.
const ACTIVE: &str = "/sys/kernel/security/lsm";

impl Denial {
    /// Attaches the program of an object; it denies nobody. Skips where the kernel has no BPF LSM, or it is not active.
    pub fn attach(object: &Path) -> Result<Denial> {
        require!(Path::new("/sys/kernel/btf/vmlinux").exists(), "no kernel BTF");
        let mut object = load(object)?;
        let program: &mut Lsm = object.program_mut("deny").context("a program called deny")?.try_into()?;
        let types = Btf::from_sys_fs().context("the kernel's types")?;
        let loaded = program.load("socket_sendmsg", &types);
        let is_unknown = matches!(loaded, Err(ProgramError::Btf(BtfError::UnknownBtfTypeName { .. })));
        require!(!is_unknown, "no BPF LSM (CONFIG_BPF_LSM)");
        loaded.context("loading the program")?;
        // Unknown without securityfs: then the caller sees whether the program denies.
        let active = std::fs::read_to_string(ACTIVE);
        let is_inactive = active.is_ok_and(|names| names.trim().split(',').all(|name| name != "bpf"));
        require!(!is_inactive, "BPF LSM is not active (lsm= lacks bpf)");
        program.attach().context("attaching the program")?;
        Ok(Denial(object))
    }

    /// Denies the socket with this cookie, and no other.
    pub fn deny(&mut self, cookie: u64) -> Result<()> {
        let map = self.0.map_mut("denial").context("a map called denial")?;
        Array::<_, u64>::try_from(map)?.set(COOKIE, cookie, 0).context("setting the cookie")
    }

    /// Denials until now.
    pub fn denied(&self) -> Result<u64> {
        let map = self.0.map("denial").context("a map called denial")?;
        Array::<_, u64>::try_from(map)?.get(&DENIED, 0).context("reading the number of denials")
    }
}

fn handlers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernel/bpf")
}

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("netns")
}

fn object(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}{OBJECT}"))
}

/// Copies an object that was built elsewhere; false if none were.
fn copy_from_elsewhere(name: &str, to: &Path) -> Result<bool> {
    let Some(folder) = std::env::var_os(FOLDER) else { return Ok(false) };
    let from = object(Path::new(&folder), name);
    let copied = std::fs::copy(&from, to);
    copied.with_context(|| format!("copying {}: build it, or unset {FOLDER}", from.display()))?;
    Ok(true)
}

fn require_clang() -> Result<()> {
    require!(find("clang").is_some(), "clang is not installed");
    require!(Path::new("/usr/include/bpf/bpf_helpers.h").exists(), "libbpf-dev is not installed");
    Ok(())
}
