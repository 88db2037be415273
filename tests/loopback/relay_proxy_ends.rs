//! Ends of connections through `wirepath relay --listen`: as on a direct connection, and beside HAProxy and
//! nginx.
//!
//! ```text
//! client ── route ── server        route: nothing, wirepath, HAProxy, nginx
//! ```
//!
//! Each scenario is played on each route, and what both ends observe is compared.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::Trial;
use rustix::net::sockopt::set_socket_linger;
use wirepath_tests::proxy::{Proxy, accept, connect};
use wirepath_tests::{Deadline, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![ends_are_as_without_a_proxy, ends_are_as_with_haproxy, ends_in_order_are_as_with_nginx,]
}

/// Observations at both ends of a connection, in order.
type Observed = Vec<String>;

/// Plays with the client's and the server's end.
type Scenario = fn(TcpStream, TcpStream) -> Result<Observed>;

/// Connections that end in order.
const IN_ORDER: &[(&str, Scenario)] = &[
    ("the client finishes first and is answered", |mut client, mut server| {
        client.write_all(b"question")?;
        client.shutdown(Shutdown::Write)?;
        let asked = until_the_end(&mut server)?;
        server.write_all(b"answer")?;
        drop(server);
        Ok(vec![asked, until_the_end(&mut client)?])
    }),
    ("the server finishes first and is answered", |mut client, mut server| {
        server.write_all(b"greeting")?;
        server.shutdown(Shutdown::Write)?;
        let greeted = until_the_end(&mut client)?;
        client.write_all(&[7; 100_000])?;
        drop(client);
        Ok(vec![greeted, until_the_end(&mut server)?])
    }),
    ("the client is gone and the server goes on", |client, mut server| {
        drop(client);
        Ok(vec![until_the_end(&mut server)?, until_it_cannot_write(server)?])
    }),
    ("the server is gone and the client goes on", |mut client, server| {
        drop(server);
        Ok(vec![until_the_end(&mut client)?, until_it_cannot_write(client)?])
    }),
    ("the client finishes and is reset when it is written to", |client, mut server| {
        client.shutdown(Shutdown::Write)?;
        let end = until_the_end(&mut server)?;
        reset(client)?;
        Ok(vec![end, until_it_cannot_write(server)?])
    }),
    ("the server finishes and is reset when it is written to", |mut client, server| {
        server.shutdown(Shutdown::Write)?;
        let end = until_the_end(&mut client)?;
        reset(server)?;
        Ok(vec![end, until_it_cannot_write(client)?])
    }),
];

/// Connections that the client resets.
const RESET_BY_CLIENTS: &[(&str, Scenario)] = &[
    ("the client resets", |client, mut server| {
        reset(client)?;
        Ok(vec![until_the_end(&mut server)?])
    }),
    ("the client resets what it has sent", |mut client, mut server| {
        client.write_all(&[7; 1000])?;
        server.read_exact(&mut [0; 1000])?;
        reset(client)?;
        Ok(vec![until_the_end(&mut server)?])
    }),
    ("the client leaves something unread", |mut client, mut server| {
        server.write_all(b"unread")?;
        client.peek(&mut [0])?;
        client.write_all(&[7; 5000])?;
        server.read_exact(&mut [0; 5000])?;
        drop(client);
        Ok(vec![until_the_end(&mut server)?])
    }),
];

/// Connections of which HAProxy passes a reset on as an end in order, or only later, and wirepath as what it
/// is.
const RESET_BY_SERVERS_OR_LATE: &[(&str, Scenario)] = &[
    ("the server resets", |mut client, server| {
        reset(server)?;
        Ok(vec![until_the_end(&mut client)?])
    }),
    ("the client finishes and the server resets", |mut client, mut server| {
        client.shutdown(Shutdown::Write)?;
        let end = until_the_end(&mut server)?;
        reset(server)?;
        Ok(vec![end, until_the_end(&mut client)?])
    }),
    ("the server finishes and the client resets", |mut client, mut server| {
        server.shutdown(Shutdown::Write)?;
        let end = until_the_end(&mut client)?;
        reset(client)?;
        Ok(vec![end, until_the_end(&mut server)?])
    }),
    ("the server answers and leaves something unread", |mut client, mut server| {
        client.write_all(b"unread")?;
        server.peek(&mut [0])?;
        server.write_all(&[7; 5000])?;
        client.read_exact(&mut [0; 5000])?;
        drop(server);
        Ok(vec![until_the_end(&mut client)?])
    }),
];

/// Resets that come while there is no room for what came before. HAProxy tells of them when there is room
/// again.
const RESET_WHILE_FULL: &[(&str, Scenario)] = &[
    ("the client resets while the server takes nothing", |client, server| {
        fill(&client)?;
        reset(client)?;
        Ok(vec![until_it_cannot_write(server)?])
    }),
    ("the server resets while the client takes nothing", |client, server| {
        fill(&server)?;
        reset(server)?;
        Ok(vec![until_it_cannot_write(client)?])
    }),
];

/// Promise: Both sides see ends and resets as they would without a proxy.
fn ends_are_as_without_a_proxy() -> Result<()> {
    let server = TcpListener::bind("127.0.0.1:0")?;
    let proxy = Proxy::before(&[server.local_addr()?], &["--threads", "2"])?;
    let address = proxy.address.context("no address")?;
    for (name, scenario) in [IN_ORDER, RESET_BY_CLIENTS, RESET_BY_SERVERS_OR_LATE, RESET_WHILE_FULL].concat()
    {
        let expected = play(name, scenario, server.local_addr()?, &server)?;
        let observed = play(name, scenario, address, &server)?;
        ensure!(observed == expected, "{name}: {observed:?}, without a proxy {expected:?}");
    }
    let (code, status) = proxy.end()?;
    let counted = |what: &str| status["connections"][what].as_u64().unwrap_or_default();
    let reset = RESET_BY_CLIENTS.len() + RESET_BY_SERVERS_OR_LATE.len() + RESET_WHILE_FULL.len();
    ensure!(code == 0 && counted("open") == 0 && counted("cut") == 0, "{code}: {status}");
    ensure!(counted("finished") >= 2 && counted("aborted") >= reset as u64, "{status}");
    Ok(())
}

/// Promise: Orderly ends are passed on as HAProxy and nginx do.
///
/// HAProxy turns a reset into an orderly end; wirepath keeps the reset.
fn ends_are_as_with_haproxy() -> Result<()> {
    let server = TcpListener::bind("127.0.0.1:0")?;
    let haproxy = Proxy::haproxy(server.local_addr()?)?;
    compare(&haproxy, &server, IN_ORDER)?;
    compare(&haproxy, &server, RESET_BY_CLIENTS)
}

/// Promise: Orderly ends are passed on as HAProxy and nginx do.
fn ends_in_order_are_as_with_nginx() -> Result<()> {
    let server = TcpListener::bind("127.0.0.1:0")?;
    compare(&Proxy::nginx(server.local_addr()?)?, &server, IN_ORDER)
}

/// Both ends observe the same through `other` and through wirepath.
fn compare(other: &Proxy, server: &TcpListener, scenarios: &[(&str, Scenario)]) -> Result<()> {
    let ours = Proxy::before(&[server.local_addr()?], &[])?;
    let [address, other_address] = [ours.address, other.address].map(|address| address.context("no address"));
    let (address, other_address) = (address?, other_address?);
    for (name, scenario) in scenarios {
        let expected = play(name, *scenario, other_address, server)?;
        let observed = play(name, *scenario, address, server)?;
        ensure!(observed == expected, "{name}: {observed:?}, and {expected:?} through the other");
    }
    Ok(())
}

/// Plays a scenario over a connection that has come about: both ends have heard from each other.
fn play(name: &str, scenario: Scenario, address: SocketAddr, server: &TcpListener) -> Result<Observed> {
    let played = || {
        let mut client = connect(address)?;
        client.write_all(b"a")?;
        let mut server = accept(server)?;
        server.read_exact(&mut [0])?;
        server.write_all(b"b")?;
        client.read_exact(&mut [0])?;
        scenario(client, server)
    };
    played().with_context(|| format!("{name}, at {address}"))
}

/// Has the connection reset.
fn reset(connection: TcpStream) -> Result<()> {
    set_socket_linger(&connection, Some(Duration::ZERO)).context("SO_LINGER")
}

/// Number of bytes received, and the kind of end.
fn until_the_end(connection: &mut TcpStream) -> Result<String> {
    let mut bytes = Vec::new();
    let how = match connection.read_to_end(&mut bytes) {
        Ok(_) => "in order",
        Err(error) if error.kind() == ErrorKind::ConnectionReset => "reset",
        Err(error) => bail!("after {} bytes: {error}", bytes.len()),
    };
    Ok(format!("{} bytes, {how}", bytes.len()))
}

/// Writes until that is not possible any more: by then everybody knows.
fn until_it_cannot_write(mut connection: TcpStream) -> Result<String> {
    Deadline::seconds(20.0).wait_for("a write that fails", || match connection.write(b"x") {
        Ok(_) => Ok(None),
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
            Ok(Some("cannot write".to_owned()))
        }
        Err(error) => Err(error.into()),
    })
}

/// Writes until nothing is taken for half a second.
fn fill(mut connection: &TcpStream) -> Result<()> {
    connection.set_write_timeout(Some(Duration::from_millis(500)))?;
    let block = [7; 65_536];
    loop {
        match connection.write(&block) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
