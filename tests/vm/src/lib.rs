//! The machine that tests kernel work: it boots kernels in QEMU, runs programs in them, and judges what the
//! programs report and what the kernels say. `docs/vm.md` explains it.

pub mod assess;
pub mod command;
mod configuration;
mod cpio;
pub mod debug_kernel;
mod drivers;
pub mod guest;
pub mod init;
mod judge;
pub mod kernels;
mod libraries;
mod make;
pub mod module;
pub mod package;
mod packages;
pub mod plan;
mod progress;
pub mod qemu;
pub mod record;
pub mod report;
pub mod suite;
pub mod workspace;

use std::path::PathBuf;

/// The folder that keeps kernels, logs and built modules: `WIREPATH_VM`, else `target/vm`.
pub fn cache() -> PathBuf {
    std::env::var_os("WIREPATH_VM").map_or_else(|| workspace::folder().join("target/vm"), PathBuf::from)
}
