//! A relay, a proxy and a cache that have no descriptors left (`EMFILE`): they wait without using the
//! processor, and go on when there are some.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use wirepath_tests::caching::{Cache, wait_for_entries};
use wirepath_tests::origin::{Origin, answer};
use wirepath_tests::process::{Process, descriptors};
use wirepath_tests::proxy::{self, Proxy};
use wirepath_tests::{Deadline, http, trials};

use crate::relay::relay;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_relay_without_descriptors_says_so_and_goes_on,
        a_proxy_without_descriptors_waits_and_goes_on,
        want_of_descriptors_is_no_fault_of_a_backend,
        a_cache_without_descriptors_waits_and_goes_on,
        a_cache_without_descriptors_for_a_body_says_so,
    ]
}

/// Log text of an `accept` without descriptors.
const SAID: &str = "Too many open files";

/// Takes a process its descriptors away, but for those that it has: none can be opened.
fn take_descriptors(process: &Process) -> Result<Rlimit> {
    limit_descriptors(process, 0)
}

/// Descriptors below this number can be opened.
fn limit_descriptors(process: &Process, limit: u64) -> Result<Rlimit> {
    // It has raised its own limit as far as this one, which it got from here, allows.
    let limit = Rlimit { current: Some(limit), maximum: getrlimit(Resource::Nofile).maximum };
    Ok(prlimit(Pid::from_raw(process.pid() as i32), Resource::Nofile, limit)?)
}

fn give_descriptors(process: &Process, all: Rlimit) -> Result<()> {
    prlimit(Pid::from_raw(process.pid() as i32), Resource::Nofile, all)?;
    Ok(())
}

/// Waits for some complaints. There is one in a tenth of a second; an accept loop that does not pause makes
/// thousands. A machine that is slow leaves more time for as many.
fn ensure_calm(process: &Process, since: Instant) -> Result<()> {
    let complaints = || process.log().matches(SAID).count();
    let seen = Deadline::seconds(30.0)
        .wait_for("complaints", || Ok(Some(complaints()).filter(|seen| *seen >= 5)))?;
    let most = 2 + since.elapsed().as_millis() / 50;
    ensure!(seen as u128 <= most, "{seen} tries, where {most} are many");
    Ok(())
}

/// Promise: Without free descriptors a relay, proxy or cache waits without a busy loop and continues later.
fn a_relay_without_descriptors_says_so_and_goes_on() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (inlet, target) = (folder.path().join("inlet"), folder.path().join("target"));
    let (from, to) = (format!("unix:{}?listen", inlet.display()), format!("file:{}", target.display()));
    let mut relaying = Process::start(&relay(&["--in", &from, "--out", &to])?, true)?;
    let says = |words: &str| {
        Deadline::seconds(20.0).wait_for(words, || Ok(relaying.log().contains(words).then_some(())))
    };
    says("waiting for a connection")?;
    let all = take_descriptors(&relaying)?;
    let mut client = UnixStream::connect(&inlet)?;
    client.write_all(b"late")?;
    drop(client);
    says(&format!("cannot accept a connection: {from}: accept4: {SAID}"))?;
    give_descriptors(&relaying, all)?;
    relaying.succeed(Deadline::seconds(20.0))?;
    ensure!(std::fs::read(target)? == b"late", "other bytes came");
    Ok(())
}

/// Promise: Without free descriptors a relay, proxy or cache waits without a busy loop and continues later.
fn a_proxy_without_descriptors_waits_and_goes_on() -> Result<()> {
    let proxy = Proxy::before(&[proxy::echo(1)?], &[])?;
    let mut word = [0; 2];
    let mut early = proxy.connect()?;
    early.write_all(b"a")?;
    early.read_exact(&mut word)?;
    let since = Instant::now();
    let all = take_descriptors(&proxy.process)?;
    // The kernel takes it, and nobody takes it from there.
    let mut late = proxy.connect()?;
    late.write_all(b"b")?;
    ensure_calm(&proxy.process, since)?;
    early.write_all(b"c")?;
    early.read_exact(&mut word[..1])?;
    ensure!(&word[..1] == b"c", "who was there before got {word:?}");
    give_descriptors(&proxy.process, all)?;
    late.read_exact(&mut word)?;
    ensure!(word[1] == b'b', "who waited got {word:?}");
    drop((early, late));
    let (code, status) = proxy.end()?;
    ensure!(code == 0 && status["connections"]["total"] == 2, "{code}: {status}");
    Ok(())
}

/// Promise: A lack of descriptors does not count as a failure of a backend.
///
/// Nor does a check that could not be made count.
fn want_of_descriptors_is_no_fault_of_a_backend() -> Result<()> {
    let words = ["--health-interval", "20ms", "--rise", "1", "--fall", "1"];
    let proxy = Proxy::before(&[proxy::echo(1)?], &words)?;
    let since = Instant::now();
    let all = take_descriptors(&proxy.process)?;
    let mut late = proxy.connect()?;
    // Many checks are tried meanwhile.
    ensure_calm(&proxy.process, since)?;
    give_descriptors(&proxy.process, all)?;
    late.read_exact(&mut [0])?;
    drop(late);
    let log = proxy.process.log();
    let (code, status) = proxy.end()?;
    let backend = &status["backends"][0];
    ensure!(code == 0 && backend["checks_failed"] == 0 && backend["failures"] == 0, "{code}: {status}");
    ensure!(!log.contains("the backend is"), "{log}");
    Ok(())
}

/// Promise: Without free descriptors a relay, proxy or cache waits without a busy loop and continues later.
fn a_cache_without_descriptors_waits_and_goes_on() -> Result<()> {
    let origin = Origin::start(|_, connection| {
        answer(connection, "200 OK", "Cache-Control: max-age=600\r\n", b"kept")
    })?;
    let folder = tempfile::tempdir()?;
    let cache = Cache::start(&origin, folder.path(), &[])?;
    ensure!(cache.get("/a")?.body == b"kept");
    wait_for_entries(folder.path(), 1)?;
    let idle = descriptors(cache.process.pid())?;
    let since = Instant::now();
    let all = take_descriptors(&cache.process)?;
    let mut late = TcpStream::connect(cache.address)?;
    late.set_read_timeout(Some(Duration::from_secs(20)))?;
    late.write_all(b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
    ensure_calm(&cache.process, since)?;
    give_descriptors(&cache.process, all)?;
    let response = http::read_response(&mut late, &mut Vec::new(), false)?;
    ensure!(response.status == 200 && response.body == b"kept", "{response:?}");
    drop(late);
    ensure!(cache.get("/a")?.body == b"kept" && origin.count("/a") == 1, "it was fetched again");
    Deadline::seconds(20.0).wait_for("descriptors that are closed again", || {
        Ok((descriptors(cache.process.pid())? <= idle + 2).then_some(()))
    })?;
    cache.end()?;
    Ok(())
}

/// Promise: A cache without a descriptor for a request's body answers 503.
///
/// Of the descriptors that it takes, the first is that of the connection to the origin; one or another of
/// those for the body is missing.
fn a_cache_without_descriptors_for_a_body_says_so() -> Result<()> {
    let origin = Origin::start(|asked, connection| answer(connection, "200 OK", "", &asked.body))?;
    let folder = tempfile::tempdir()?;
    let cache = Cache::start(&origin, folder.path(), &[])?;
    let folder_of_all = PathBuf::from(format!("/proc/{}/fd", cache.process.pid()));
    let idle = sockets(&folder_of_all)?;
    for left in 1..=3 {
        let mut client = http::connect(cache.address)?;
        let mut ask = || {
            client.write_all(b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody")?;
            http::read_response(&mut client, &mut Vec::new(), false)
        };
        ensure!(ask()?.body == b"body", "{left}: it passes");
        // Lent descriptors are closed.
        Deadline::seconds(10.0)
            .wait_for("one client", || Ok((sockets(&folder_of_all)? == idle + 1).then_some(())))?;
        let mut free = (0..).filter(|number: &u64| {
            std::fs::symlink_metadata(folder_of_all.join(number.to_string())).is_err()
        });
        let all = limit_descriptors(&cache.process, free.nth(left).context("a number that is free")?)?;
        let refused = ask().with_context(|| format!("with {left} descriptors"))?;
        give_descriptors(&cache.process, all)?;
        ensure!(refused.status == 503, "{left}: {refused:?}");
    }
    ensure!(origin.asked().len() == 3, "nobody heard of what was refused");
    Ok(())
}

/// Number of a process's descriptors that are sockets.
fn sockets(folder_of_all: &Path) -> Result<usize> {
    let all = std::fs::read_dir(folder_of_all)?.filter_map(Result::ok);
    // One may be closed meanwhile.
    let targets = all.filter_map(|one| std::fs::read_link(one.path()).ok());
    Ok(targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count())
}
