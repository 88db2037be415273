//! `wirepath relay --cache`: room, of its size and on its disk.

use std::io::Write;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use wirepath_testkit::SmallDisk;
use wirepath_tests::caching::{Cache, wait_for_entries};
use wirepath_tests::origin::{Origin, answer};
use wirepath_tests::{require, trials};

use super::relay_cache_rules::source;

pub(crate) fn trials() -> Vec<Trial> {
    trials![what_is_renewed_on_a_full_disk_stays, a_length_that_is_not_true_costs_no_entries]
}

/// Promise: On a full disk, entries are evicted for new records; a renewed head is kept in memory.
fn what_is_renewed_on_a_full_disk_stays() -> Result<()> {
    let disk = SmallDisk::new(1 << 20);
    require!(disk.is_ok(), "a small disk cannot be made: {:?}", disk.err());
    let (disk, body) = (disk?, [7; 100_000]);
    let origin = Origin::start(move |asked, connection| {
        let lines = "Cache-Control: no-cache\r\nETag: \"1\"\r\n";
        match asked.header("if-none-match") {
            Some(_) => Ok(write!(connection, "HTTP/1.1 304 Not Modified\r\n{lines}\r\n")?),
            None => answer(connection, "200 OK", lines, &body),
        }
    })?;
    let folder = disk.path().join("cache");
    let cache = Cache::start(&origin, &folder, &[])?;
    ensure!(cache.get("/a")?.body == body);
    wait_for_entries(&folder, 1)?;
    let mut file = disk.create("fill")?;
    while file.write_all(&[0; 4096]).is_ok() {}
    for _ in 0..2 {
        let response = cache.get("/a")?;
        ensure!(
            response.body == body && source(&response).contains("fwd-status=304"),
            "{:?}",
            response.headers
        );
    }
    let report = cache.end()?;
    ensure!(report["entries"] == 1 && report["evictions"] == 0 && report["misses"] == 1, "{report}");
    Ok(())
}

/// Promise: Entries are evicted as a body grows, not for the length that its head claims.
fn a_length_that_is_not_true_costs_no_entries() -> Result<()> {
    let origin = Origin::start(|asked, connection| {
        let lines = "Cache-Control: max-age=600\r\n";
        match asked.target() {
            "/liar" => Ok(write!(connection, "HTTP/1.1 200 OK\r\n{lines}Content-Length: 900000\r\n\r\nx")?),
            _ => answer(connection, "200 OK", lines, b"body"),
        }
    })?;
    let folder = tempfile::tempdir()?;
    let cache = Cache::start(&origin, folder.path(), &["--cache-size", "1MB"])?;
    let paths: Vec<String> = (0..40).map(|number| format!("/{number}")).collect();
    for path in &paths {
        ensure!(cache.get(path)?.body == b"body");
    }
    wait_for_entries(folder.path(), paths.len())?;
    ensure!(cache.get("/liar").is_err(), "an answer that is not whole came to a good end");
    for path in &paths {
        ensure!(cache.get(path)?.body == b"body" && origin.count(path) == 1, "{path} is gone");
    }
    let report = cache.end()?;
    ensure!(report["evictions"] == 0 && report["broken_fetches"] == 1, "{report}");
    Ok(())
}
