//! Sessions on different files that are together larger than the memory of the server. No network is
//! involved, but only root can limit memory.
//!
//! ```text
//!   30 files of 10 MB, 30 sessions of 4 Mb/s          wirepath serve in a control group of 96 MiB
//! ```

use std::path::Path;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::Value;
use wirepath_tests::hot::counted;
use wirepath_tests::memory_group::MemoryGroup;
use wirepath_tests::server::{self, Server};
use wirepath_tests::{clips, process, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![cold_assets_hold_nobody_up, cold_images_hold_nobody_up]
}

const FILES: usize = 30;
const SECONDS: u32 = 20;
const MEMORY: u64 = 96 << 20;

/// Promise: If the files together are larger than the memory, no engine thread waits for storage.
fn cold_assets_hold_nobody_up() -> Result<()> {
    run(false)
}

/// Promise: If the files together are larger than the memory, no engine thread waits for storage.
fn cold_images_hold_nobody_up() -> Result<()> {
    run(true)
}

/// Plays all files at once, most of the way. What storage read while an engine thread waited is counted:
/// lateness is a property of the machine, too.
fn run(is_packed: bool) -> Result<()> {
    let group = MemoryGroup::new(MEMORY);
    require!(group.is_ok(), "memory cannot be limited here: {:#}", group.err().context("an error")?);
    let group = group?;
    let (clip, folder) = (clips::constant(SECONDS)?, process::open_folder()?);
    let files: Vec<_> = (0..FILES).map(|number| format!("{number}.ts")).collect();
    for file in &files {
        std::fs::copy(&clip, folder.path().join(file)).context("copying a clip")?;
    }
    let server = Server::of(folder.path()).under(group.command()).with(["--images", "none"]);
    let server = if is_packed { server.packed() } else { server }.start()?;
    for path in [folder.path(), &server.cache] {
        leave_page_cache(path)?;
    }
    let urls: Vec<_> = files.iter().map(|file| server.rtsp_url(file)).collect();
    let sessions = format!("--sessions={FILES}");
    let load = ["load", &sessions, "--ramp=30", "--for=15s", "--require=timely:0%"];
    let command = server::binary()?;
    let arguments = load.into_iter().chain(urls.iter().map(String::as_str));
    process::run(command.to_str().context("a path")?, arguments, 60.0)?;
    judge(&server.status()?)
}

fn judge(status: &Value) -> Result<()> {
    let [sent, cold] = ["payload_bytes", "cold_bytes"].map(|name| counted(status, name));
    let (sent, cold) = (sent?, cold?);
    let pages = &status["counters"]["pages"];
    println!("{sent} bytes sent, {cold} of them read while a thread waited; {pages}");
    println!("lateness: p99 {} us, max {} us", status["lateness_us"]["p99"], status["lateness_us"]["max"]);
    ensure!(sent > MEMORY, "{sent} bytes fit into the memory");
    ensure!(cold < sent / 100, "{cold} of {sent} bytes were read while an engine thread waited");
    ensure!(pages["released_bytes"].as_u64() > Some(0), "nothing left the page cache: {pages}");
    ensure!(counted(status, "packets_lost")? == 0, "{}", status["counters"]["playback"]);
    Ok(())
}

/// Has the kernel forget files that were just written.
fn leave_page_cache(folder: &Path) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_file() {
            let file = std::fs::File::open(&path)?;
            file.sync_all()?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
    }
    Ok(())
}
