//! Confinement of the server. All other tests of it run confined, too: with every data path, passwords and TLS.

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::http;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, process, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![every_thread_is_confined, a_link_to_a_file_is_served, confinement_can_be_turned_off]
}

/// Values of a field of the status of each thread of a server.
fn of_threads(server: &Server, field: &str) -> Result<Vec<String>> {
    let value = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        Ok(line.with_context(|| format!("no {field}"))?.trim().to_owned())
    };
    process::of_threads(server.process.pid(), "status")?.into_iter().map(value).collect()
}

/// Waits for words of the log, which leaves on a thread of its own.
fn wait_for_log(server: &Server, words: &str) -> Result<()> {
    Deadline::seconds(10.0).wait_for(words, || Ok(server.process.log().contains(words).then_some(())))
}

/// Promise: All threads of the server are confined, also those started before, and the log describes the
/// confinement.
fn every_thread_is_confined() -> Result<()> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(2)?)])?;
    let server = Server::of(folder.path()).start()?;
    for (field, expected) in [("Seccomp", "2"), ("NoNewPrivs", "1")] {
        let values = of_threads(&server, field)?;
        ensure!(values.len() > 2 && values.iter().all(|value| value == expected), "{field}: {values:?}");
    }
    wait_for_log(&server, "the server is confined to its")
}

/// Promise: A symbolic link to a file in another place is served like the file.
fn a_link_to_a_file_is_served() -> Result<()> {
    let (folder, links) = (clips::folder(&[("clip.ts", &clips::constant(2)?)])?, tempfile::tempdir()?);
    let link = links.path().join("link.ts");
    std::os::unix::fs::symlink(folder.path().join("clip.ts"), &link)?;
    let server = Server::of(&link).start()?;
    let response = http::request(server.http, "GET", "/link.ts", &[])?;
    ensure!(response.status == 200, "{}", response.status);
    Ok(())
}

/// Promise: `--confine off` starts the server without confinement.
fn confinement_can_be_turned_off() -> Result<()> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(2)?)])?;
    let server = Server::of(folder.path()).with(["--confine", "off"]).start()?;
    let expected = std::fs::read_to_string("/proc/self/status")?.contains("Seccomp:\t0");
    let values = of_threads(&server, "Seccomp")?;
    ensure!(!expected || values.iter().all(|value| value == "0"), "{values:?}");
    wait_for_log(&server, "the server is not confined: --confine off")
}
