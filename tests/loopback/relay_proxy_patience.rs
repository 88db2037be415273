//! For whom and how long `wirepath relay --listen` waits.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
use wirepath_tests::ports::free_port;
use wirepath_tests::proxy::{PATIENCE, Proxy, accept, silence_left};
use wirepath_tests::{Deadline, slow, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        silence_ends_a_connection,
        a_slow_reader_is_not_silent,
        peers_that_say_nothing_are_asked_for,
        a_unix_socket_whose_queue_is_full_is_waited_for,
    ]
}

/// Promise: A connection without progress is reset on both sides; a connection with a slow reader is not.
fn silence_ends_a_connection() -> Result<()> {
    let backend = TcpListener::bind("127.0.0.1:0")?;
    let proxy = Proxy::before(&[backend.local_addr()?], &["--idle-timeout", "300ms"])?;
    let client = proxy.connect()?;
    for mut end in [client, accept(&backend)?] {
        let read = end.read(&mut [0]);
        ensure!(read.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionReset), "{read:?}");
    }
    let (code, status) = proxy.end()?;
    ensure!(code == 0 && status["connections"]["timed_out"] == 1, "{code}: {status}");
    Ok(())
}

/// Promise: A connection without progress is reset on both sides; a connection with a slow reader is not.
///
/// Longer than the silence that is allowed, while all that is still to come is in the kernel, and no stream
/// moves anything.
fn a_slow_reader_is_not_silent() -> Result<()> {
    const BYTES: usize = 2_000_000;
    let backend = TcpListener::bind("127.0.0.1:0")?;
    let proxy = Proxy::before(&[backend.local_addr()?], &["--idle-timeout", "1500ms"])?;
    let mut client = proxy.connect()?;
    let mut server = accept(&backend)?;
    let writing = std::thread::spawn(move || server.write_all(&vec![7; BYTES]).map(|()| server));
    slow::read(&mut client, BYTES)?;
    // Both are silent from now on.
    let _server = writing.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
    let read = client.read(&mut [0]);
    ensure!(read.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionReset), "{read:?}");
    let (code, status) = proxy.end()?;
    ensure!(code == 0 && status["connections"]["timed_out"] == 1, "{code}: {status}");
    Ok(())
}

/// Promise: A connection without progress is reset on both sides; a connection with a slow reader is not.
///
/// Clients and backends, also where no silence is too long.
fn peers_that_say_nothing_are_asked_for() -> Result<()> {
    let backend = TcpListener::bind("127.0.0.1:0")?;
    let proxy = Proxy::before(&[backend.local_addr()?], &["--idle-timeout", "0s"])?;
    let client = proxy.connect()?;
    let server = accept(&backend)?;
    let to_client = (client.peer_addr()?, client.local_addr()?);
    let to_backend = (server.peer_addr()?, server.local_addr()?);
    for (local, peer) in [to_client, to_backend] {
        let left = Deadline::seconds(20.0)
            .wait_for("a connection that asks for its peer", || silence_left(local, peer))?;
        ensure!(left <= 6000, "it asks after {left} hundredths of a second");
    }
    Ok(())
}

/// Promise: If the queue of a backend's Unix socket is full, the proxy waits up to the connect timeout.
///
/// Linux has nobody wait for room in the queue who does not block.
fn a_unix_socket_whose_queue_is_full_is_waited_for() -> Result<()> {
    const CLIENTS: u8 = 40;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("backend");
    let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    bind(&listener, &SocketAddrUnix::new(&path)?)?;
    listen(&listener, 2)?;
    let listen = free_port()?;
    let to = format!("unix:{}", path.display());
    let proxy = Proxy::start(["--listen", &listen.to_string(), "--to", &to, "--connect-timeout", "20s"])?;
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let mut client = proxy.connect()?;
        client.write_all(&[number])?;
        clients.push(client);
    }
    let listener = UnixListener::from(listener);
    let serving = std::thread::spawn(move || {
        for _ in 0..CLIENTS {
            listener.accept().and_then(|(connection, _)| answer(connection))?;
        }
        std::io::Result::Ok(())
    });
    for (number, client) in clients.iter_mut().enumerate() {
        let mut word = [0];
        client.read_exact(&mut word).with_context(|| format!("client {number}"))?;
        ensure!(usize::from(word[0]) == number, "client {number} got {word:?}");
    }
    serving.join().map_err(|_| anyhow::anyhow!("the backend panicked"))??;
    drop(clients);
    let (code, status) = proxy.end()?;
    let connections = &status["connections"];
    ensure!(
        code == 0 && connections["refused"] == 0 && connections["finished"] == CLIENTS,
        "{code}: {status}"
    );
    Ok(())
}

fn answer(mut connection: UnixStream) -> std::io::Result<()> {
    connection.set_read_timeout(Some(PATIENCE))?;
    let mut word = [0];
    connection.read_exact(&mut word)?;
    connection.write_all(&word)
}
