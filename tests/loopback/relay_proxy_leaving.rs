//! Clients of `wirepath relay --listen` that leave before they have a backend.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
use serde_json::Value;
use wirepath_tests::ports::free_port;
use wirepath_tests::proxy::{PATIENCE, Proxy, accept};
use wirepath_tests::{Deadline, http, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_client_reset_before_its_turn_is_no_connection_of_our_own,
        a_client_that_resets_while_a_backend_is_waited_for_is_dropped,
    ]
}

fn reset(connection: TcpStream) -> Result<()> {
    set_socket_linger(&connection, Some(Duration::ZERO)).context("SO_LINGER")
}

/// Promise: A client that resets before its turn is never announced as `LOCAL`.
///
/// A backend does for connections of a proxy's own (LOCAL) what it does for nobody else.
fn a_client_reset_before_its_turn_is_no_connection_of_our_own() -> Result<()> {
    let backend = TcpListener::bind("127.0.0.1:0")?;
    let proxy = Proxy::before(&[backend.local_addr()?], &["--send-proxy", "--max-connections", "1"])?;
    let first = proxy.connect()?;
    let mut header = [0; 28];
    accept(&backend)?.read_exact(&mut header)?;
    // One waits in the proxy, the others in the kernel.
    for _ in 0..4 {
        let mut gone = proxy.connect()?;
        gone.write_all(b"gone")?;
        reset(gone)?;
    }
    drop(first);
    let last = proxy.connect()?;
    loop {
        let mut connection = accept(&backend)?;
        // A client that was reset may be gone before it was counted.
        let (start, addresses) = header.split_at_mut(16);
        if connection.read_exact(start).is_err() {
            continue;
        }
        ensure!(start[12] == 0x21, "a client is called our own: {start:?}");
        let is_whole = connection.read_exact(addresses).is_ok();
        if is_whole && addresses[8..10] == last.local_addr()?.port().to_be_bytes() {
            return Ok(());
        }
    }
}

/// Promise: If a client resets while the proxy waits for a backend, the proxy drops it at once.
///
/// And who only sends nothing more waits for the answer.
fn a_client_that_resets_while_a_backend_is_waited_for_is_dropped() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("backend");
    let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    bind(&listener, &SocketAddrUnix::new(&path)?)?;
    listen(&listener, 0)?;
    let _fills_the_queue = UnixStream::connect(&path)?;
    let (listen, to) = (free_port()?.to_string(), format!("unix:{}", path.display()));
    let words = ["--listen", &listen, "--to", &to, "--connect-timeout", "1h", "--metrics", "127.0.0.1:0"];
    let mut proxy = Proxy::start(words)?;
    let metrics = proxy.metrics()?;
    let wait_for = |what: &str, count: u64| {
        Deadline::seconds(20.0).wait_for(what, || {
            let status: Value = serde_json::from_slice(&http::get(metrics, "/api/status")?.body)?;
            Ok((status["relay"]["connections"][what] == count).then_some(()))
        })
    };
    let mut patient = proxy.connect()?;
    patient.write_all(b"question")?;
    patient.shutdown(Shutdown::Write)?;
    let gone = proxy.connect()?;
    wait_for("open", 2)?;
    reset(gone)?;
    wait_for("aborted", 1)?;
    wait_for("open", 1)?;

    let listener = UnixListener::from(listener);
    listener.accept()?;
    let (mut server, _) = listener.accept()?;
    server.set_read_timeout(Some(PATIENCE))?;
    let mut text = String::new();
    server.read_to_string(&mut text)?;
    server.write_all(b" and answer")?;
    drop(server);
    patient.read_to_string(&mut text)?;
    ensure!(text == "question and answer", "{text}");
    let (code, status) = proxy.end()?;
    ensure!(code == 0 && status["connections"]["finished"] == 1, "{code}: {status}");
    Ok(())
}
