//! `wirepath relay --cache`: requests that would come back.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::caching::Cache;
use wirepath_tests::http::{self, Response};
use wirepath_tests::origin::{Origin, answer};
use wirepath_tests::ports::free_port;
use wirepath_tests::{require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![a_cache_before_itself_by_name_says_so_at_once, a_circle_of_caches_is_ended]
}

fn words(response: &Response) -> String {
    String::from_utf8_lossy(&response.body).into_owned()
}

/// Promise: A cache in front of itself, or a loop of caches, answers 508 at once.
fn a_cache_before_itself_by_name_says_so_at_once() -> Result<()> {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let found = (name.as_str(), 0).to_socket_addrs().map(Vec::from_iter);
    require!(found.as_ref().is_ok_and(|found| !found.is_empty()), "this machine's name has no address");
    // All of its addresses, so that none is of somebody else.
    let port = free_port()?.port();
    let mut addresses = found?;
    addresses.iter_mut().for_each(|address| address.set_port(port));
    addresses.sort();
    addresses.dedup();
    let listen: Vec<String> =
        addresses.iter().flat_map(|address| ["--listen".to_owned(), address.to_string()]).collect();
    let folder = tempfile::tempdir()?;
    let arguments: Vec<&str> = listen.iter().map(String::as_str).collect();
    let mut cache = Cache::of(&format!("http://{name}:{port}"), folder.path(), &arguments)?;
    for method in ["GET", "POST"] {
        let response = http::request(cache.address, method, "/a", &[])?;
        ensure!(response.status == 508 && words(&response).contains("is this cache itself"), "{response:?}");
    }
    cache.process.signal(rustix::process::Signal::TERM)?;
    cache.process.wait(wirepath_tests::Deadline::seconds(20.0))?;
    let log = cache.process.log();
    ensure!(log.contains("name the server behind it"), "{log}");
    Ok(())
}

/// Promise: A cache in front of itself, or a loop of caches, answers 508 at once.
///
/// A cache between a cache and itself belongs to somebody else.
fn a_circle_of_caches_is_ended() -> Result<()> {
    let cache_address = Arc::<OnceLock<SocketAddr>>::default();
    let back = Arc::clone(&cache_address);
    let origin = Origin::start(move |asked, connection| {
        let address = *back.get().context("the cache has begun")?;
        let came_by = asked.headers.iter().filter(|(name, _)| name == "via");
        let mut headers: Vec<_> = came_by.map(|(_, value)| ("Via", value.as_str())).collect();
        headers.push(("Content-Length", "0"));
        let response = http::request(address, "POST", "/a", &headers)?;
        answer(connection, &format!("{} -", response.status), "", &response.body)
    })?;
    let folder = tempfile::tempdir()?;
    let cache = Cache::start(&origin, folder.path(), &[])?;
    cache_address.get_or_init(|| cache.address);
    let response = http::request(cache.address, "POST", "/a", &[("Content-Length", "0")])?;
    ensure!(response.status == 508 && words(&response).contains("form a loop"), "{response:?}");
    ensure!(origin.asked().len() == 8, "it went round {} times", origin.asked().len());
    Ok(())
}
