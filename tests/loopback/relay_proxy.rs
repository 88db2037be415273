//! `wirepath relay --listen … --to …`: a TCP proxy as people use it.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use wirepath_tests::ports::free_port;
use wirepath_tests::process::{as_ordinary_user, open_folder, status_number};
use wirepath_tests::proxy::{self, ClosedPort, PATIENCE, Proxy, accept, echo, echo_on};
use wirepath_tests::{Deadline, http, require, server, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        megabytes_go_both_ways_at_once,
        unix_sockets_are_relayed_as_well,
        connections_have_no_threads_of_their_own,
        a_backend_that_refuses_is_left_out,
        a_backend_that_dies_is_noticed_and_so_is_its_return,
        a_check_whose_header_is_not_taken_has_failed,
        the_fewest_connections_get_the_next,
        connections_above_the_limit_wait,
        an_idle_listener_keeps_no_client_out,
        open_connections_end_before_a_proxy_that_drains,
        a_proxy_does_not_drain_for_ever,
        backends_are_told_who_the_client_is,
        clients_say_who_they_are,
        no_series_of_metrics_is_there_twice,
        wrong_arguments_are_named,
        a_port_that_takes_a_right_says_so,
    ]
}

fn random_bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut dice = wirepath_tests::mutation::Dice::new(seed);
    (0..length).map(|_| dice.any() as u8).collect()
}

/// Sends and receives at the same time; answers what came until the end.
fn exchange<S: Read + Write + Send>(
    mut reader: S,
    mut writer: S,
    bytes: &[u8],
    finish: impl FnOnce(&S),
) -> Result<Vec<u8>> {
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let mut received = Vec::new();
            reader.read_to_end(&mut received).map(|_| received)
        });
        writer.write_all(bytes)?;
        finish(&writer);
        Ok(sending.join().map_err(|_| anyhow::anyhow!("the reader panicked"))??)
    })
}

fn both_ways(client: TcpStream, server: TcpStream) -> Result<()> {
    let (to_server, to_client) = (random_bytes(6_000_000, 1), random_bytes(7_000_000, 2));
    let finish = |stream: &TcpStream| stream.shutdown(Shutdown::Write).unwrap_or_default();
    let (at_server, at_client) = std::thread::scope(|scope| {
        let serving = scope.spawn(|| exchange(server.try_clone()?, server.try_clone()?, &to_client, finish));
        let at_client = exchange(client.try_clone()?, client.try_clone()?, &to_server, finish)?;
        let at_server = serving.join().map_err(|_| anyhow::anyhow!("the server panicked"))??;
        anyhow::Ok((at_server, at_client))
    })?;
    ensure!(at_server == to_server && at_client == to_client, "other bytes came");
    Ok(())
}

/// Promise: The proxy forwards bytes in both directions at once, over TCP and Unix sockets, and reports them.
fn megabytes_go_both_ways_at_once() -> Result<()> {
    let backend = TcpListener::bind("127.0.0.1:0")?;
    let proxy = Proxy::before(&[backend.local_addr()?], &[])?;
    let client = proxy.connect()?;
    both_ways(client, accept(&backend)?)?;
    let (code, status) = proxy.end()?;
    ensure!(code == 0 && status["schema"] == "wirepath-relay-proxy/1", "{code}: {status}");
    ensure!(status["connections"]["total"] == 1 && status["connections"]["finished"] == 1, "{status}");
    ensure!(status["bytes_to_backends"] == 6_000_000 && status["bytes_to_clients"] == 7_000_000, "{status}");
    let backend = &status["backends"][0];
    ensure!(
        backend["total"] == 1 && backend["open"] == 0 && backend["bytes_to_client"] == 7_000_000,
        "{status}"
    );
    Ok(())
}

/// Promise: The proxy forwards bytes in both directions at once, over TCP and Unix sockets, and reports them.
fn unix_sockets_are_relayed_as_well() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let [front, back] = ["front", "back"].map(|name| folder.path().join(name));
    let [front_name, back_name] = [&front, &back].map(|path| format!("unix:{}", path.display()));
    let backend = UnixListener::bind(&back)?;
    let proxy = Proxy::start(["--listen", &front_name, "--to", &back_name])?;
    let mut client = UnixStream::connect(&front)?;
    client.set_read_timeout(Some(PATIENCE))?;
    client.write_all(b"question")?;
    client.shutdown(Shutdown::Write)?;
    let (mut server, _) = backend.accept()?;
    server.set_read_timeout(Some(PATIENCE))?;
    let mut text = String::new();
    server.read_to_string(&mut text)?;
    server.write_all(b" answer")?;
    drop(server);
    client.read_to_string(&mut text)?;
    ensure!(text == "question answer", "{text}");
    let (code, status) = proxy.end()?;
    ensure!(code == 0 && status["connections"]["finished"] == 1, "{code}: {status}");
    ensure!(!front.exists(), "the socket's name is left");
    Ok(())
}

/// A connection, and the number of the backend that it is to.
fn numbered(proxy: &Proxy) -> Result<(u8, TcpStream)> {
    let mut client = proxy.connect()?;
    let mut number = [0];
    client.read_exact(&mut number)?;
    Ok((number[0], client))
}

/// Promise: Connections have no threads of their own.
fn connections_have_no_threads_of_their_own() -> Result<()> {
    let proxy = Proxy::before(&[echo(0)?], &["--threads", "2"])?;
    let first = numbered(&proxy)?;
    let threads = status_number(proxy.process.pid(), "Threads")?;
    let mut clients = vec![first];
    for _ in 0..200 {
        clients.push(numbered(&proxy)?);
    }
    let with_many = status_number(proxy.process.pid(), "Threads")?;
    ensure!(with_many == threads, "{threads} threads became {with_many}");
    for (index, (_, client)) in clients.iter_mut().enumerate() {
        let word = (index as u32).to_be_bytes();
        client.write_all(&word)?;
        let mut echoed = [0; 4];
        client.read_exact(&mut echoed)?;
        ensure!(echoed == word, "connection {index} got {echoed:?}");
    }
    Ok(())
}

/// Promise: If a backend refuses, the next is tried; a client that no backend accepts is reset.
fn a_backend_that_refuses_is_left_out() -> Result<()> {
    let closed = ClosedPort::new()?;
    let nobody = closed.address();
    let proxy = Proxy::before(&[nobody, echo(7)?], &["--health-interval", "1h", "--fall", "1000"])?;
    for _ in 0..4 {
        ensure!(numbered(&proxy)?.0 == 7);
    }
    let (_, status) = proxy.end()?;
    let failures = status["backends"][0]["failures"].as_u64().context("no failures")?;
    ensure!(failures > 0 && status["connections"]["refused"] == 0, "{status}");

    let proxy = Proxy::before(&[nobody], &[])?;
    let read = match proxy.connect() {
        Ok(mut connection) => connection.read(&mut [0]),
        // It may be refused before whoever connects has noticed that it was connected.
        Err(error) => Err(error.downcast()?),
    };
    ensure!(
        read.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset),
        "{read:?}"
    );
    // It is not checked, being alone, and who runs the proxy has to hear of it all the same.
    let says_so = || Ok(proxy.process.log().contains("backend refuses connections").then_some(()));
    Deadline::seconds(20.0).wait_for("a line", says_so).with_context(|| proxy.process.log())?;
    let (code, status) = proxy.end()?;
    ensure!(code == 0 && status["connections"]["refused"] == 1, "{code}: {status}");
    Ok(())
}

/// Promise: The failure of a backend is detected, logged once and avoided, and its recovery is detected and
/// logged once.
fn a_backend_that_dies_is_noticed_and_so_is_its_return() -> Result<()> {
    let dying = free_port()?;
    let backends = [dying, echo(1)?];
    let proxy = Proxy::before(&backends, &["--health-interval", "20ms", "--fall", "2", "--rise", "2"])?;
    let says = |what: &str| {
        let said = || Ok(proxy.process.log().contains(what).then_some(()));
        Deadline::seconds(20.0).wait_for(what, said).with_context(|| proxy.process.log())
    };
    says("backend is down")?;
    for _ in 0..4 {
        ensure!(numbered(&proxy)?.0 == 1);
    }
    echo_on(TcpListener::bind(dying)?, 0);
    says("backend is up")?;
    let both: std::collections::BTreeSet<u8> =
        (0..2).map(|_| Ok(numbered(&proxy)?.0)).collect::<Result<_>>()?;
    ensure!(both.len() == 2, "connections go to {both:?} only");
    let log = proxy.process.log();
    for what in ["backend is down", "backend is up"] {
        ensure!(log.matches(what).count() == 1, "{log}");
    }
    let (_, status) = proxy.end()?;
    let backend = &status["backends"][0];
    let counted = |what: &str| backend[what].as_u64().unwrap_or_default();
    ensure!(
        backend["up"] == true && counted("checks_failed") >= 2 && counted("checks_passed") >= 2,
        "{status}"
    );
    ensure!(backend["failures"] == 0, "clients met a backend that was known to be down: {status}");
    Ok(())
}

/// Promise: A health check fails if the backend does not accept its PROXY protocol header.
///
/// A Unix socket takes the connection in any case, and the header if that leaves before whoever was there
/// hangs up.
fn a_check_whose_header_is_not_taken_has_failed() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let backend = UnixListener::bind(folder.path().join("backend"))?;
    std::thread::spawn(move || backend.incoming().map_while(Result::ok).for_each(drop));
    let to = format!("unix:{}", folder.path().join("backend").display());
    let words =
        ["--listen", "127.0.0.1:0", "--to", &to, "--send-proxy", "--health-interval", "1ms", "--fall", "1"];
    let proxy = Proxy::start(words)?;
    let is_down = || Ok(proxy.process.log().contains("backend is down").then_some(()));
    Deadline::seconds(20.0).wait_for("a check that failed", is_down)?;
    let (_, status) = proxy.end()?;
    ensure!(status["backends"][0]["checks_failed"].as_u64() > Some(0), "{status}");
    Ok(())
}

/// Promise: Connections are balanced in turn, by fewest connections or at random; failed backends are tried
/// last.
fn the_fewest_connections_get_the_next() -> Result<()> {
    let backends = [echo(0)?, echo(1)?, echo(2)?];
    let proxy = Proxy::before(&backends, &["--balance", "leastconn"])?;
    let mut clients = (0..9).map(|_| numbered(&proxy)).collect::<Result<Vec<_>>>()?;
    for number in 0..3 {
        let has = clients.iter().filter(|(backend, _)| *backend == number).count();
        ensure!(has == 3, "backend {number} has {has} of 9");
    }
    clients.retain(|(backend, _)| *backend != 1);
    // When the proxy has seen that they are gone, that backend has none and the others three each.
    Deadline::seconds(20.0).wait_for("three in a row for the one that has none", || {
        let next = (0..3).map(|_| numbered(&proxy)).collect::<Result<Vec<_>>>()?;
        Ok(next.iter().all(|(backend, _)| *backend == 1).then_some(()))
    })
}

/// Promise: Connections above the limit wait; a limit above the available descriptors is refused.
fn connections_above_the_limit_wait() -> Result<()> {
    const CLIENTS: usize = 50;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let backend = listener.local_addr()?;
    let (open, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let (opened, highest) = (Arc::clone(&open), Arc::clone(&most));
    std::thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            highest.fetch_max(opened.fetch_add(1, Ordering::AcqRel) + 1, Ordering::AcqRel);
            let opened = Arc::clone(&opened);
            std::thread::spawn(move || {
                let mut word = [0; 4];
                // The client sees a failure here.
                if connection.read_exact(&mut word).and_then(|()| connection.write_all(&word)).is_ok() {
                    drop(connection.read(&mut word));
                }
                // The proxy waits for this end before it takes the next client.
                opened.fetch_sub(1, Ordering::AcqRel);
            });
        }
    });
    let proxy = Proxy::before(&[backend], &["--max-connections", "1"])?;
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS as u32)
            .map(|number| {
                let proxy = &proxy;
                scope.spawn(move || -> Result<()> {
                    let (mut client, mut echoed) = (proxy.connect()?, [0; 4]);
                    client.write_all(&number.to_be_bytes())?;
                    client.read_exact(&mut echoed).context("it never had its turn")?;
                    ensure!(echoed == number.to_be_bytes(), "{number} got {echoed:?}");
                    client.shutdown(Shutdown::Write)?;
                    ensure!(client.read(&mut echoed)? == 0, "{number} got more");
                    Ok(())
                })
            })
            .collect();
        clients
            .into_iter()
            .try_for_each(|client| client.join().map_err(|_| anyhow::anyhow!("a client panicked"))?)
    })?;
    let most = most.load(Ordering::Acquire);
    ensure!(most == 1, "{most} connections were open at a time");
    Ok(())
}

/// Promise: Connections above the limit wait; a limit above the available descriptors is refused.
///
/// Listeners share the limit of connections; an idle one reserves none.
fn an_idle_listener_keeps_no_client_out() -> Result<()> {
    let second = free_port()?;
    let words = ["--listen", &second.to_string(), "--max-connections", "1"];
    let proxy = Proxy::before(&[echo(7)?], &words)?;
    for address in [second, second, proxy.address.context("a TCP listener")?, second] {
        let (mut client, mut number) = (proxy::connect(address)?, [0]);
        client.read_exact(&mut number).with_context(|| format!("nobody was let in at {address}"))?;
        ensure!(number == [7], "{number:?}");
    }
    Ok(())
}

/// Promise: A draining proxy accepts nothing, lets connections end for a bounded time, and ends on a second
/// signal.
fn open_connections_end_before_a_proxy_that_drains() -> Result<()> {
    let mut proxy = Proxy::before(&[echo(0)?], &[])?;
    let (_, mut client) = numbered(&proxy)?;
    proxy.process.signal(Signal::TERM)?;
    let address = proxy.address.context("no address")?;
    Deadline::seconds(20.0)
        .wait_for("a closed listener", || Ok((!proxy::is_listening(address)?).then_some(())))?;
    client.write_all(b"still")?;
    let mut echoed = [0; 5];
    client.read_exact(&mut echoed)?;
    ensure!(&echoed == b"still" && proxy.process.is_running()?, "it did not wait");
    client.shutdown(Shutdown::Write)?;
    ensure!(client.read(&mut [0])? == 0);
    let (code, status) = proxy.wait()?;
    ensure!(
        code == 0 && status["draining"] == true && status["connections"]["finished"] == 1,
        "{code}: {status}"
    );
    ensure!(proxy.process.log().contains("draining"), "{}", proxy.process.log());
    Ok(())
}

/// Promise: A draining proxy accepts nothing, lets connections end for a bounded time, and ends on a second
/// signal.
fn a_proxy_does_not_drain_for_ever() -> Result<()> {
    let mut proxy = Proxy::before(&[echo(0)?], &["--drain", "50ms"])?;
    let (_, mut client) = numbered(&proxy)?;
    proxy.process.signal(Signal::INT)?;
    let (code, status) = proxy.wait()?;
    ensure!(code == 3 && status["connections"]["cut"] == 1, "{code}: {status}");
    let read = client.read(&mut [0]);
    ensure!(
        read.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset),
        "{read:?}"
    );

    let mut proxy = Proxy::before(&[echo(0)?], &["--drain", "1h"])?;
    let (_, _client) = numbered(&proxy)?;
    let address = proxy.address.context("no address")?;
    proxy.process.signal(Signal::TERM)?;
    Deadline::seconds(20.0)
        .wait_for("a closed listener", || Ok((!proxy::is_listening(address)?).then_some(())))?;
    proxy.process.signal(Signal::TERM)?;
    let (code, status) = proxy.wait()?;
    ensure!(code == 3, "a second signal ended it with {code}");
    let (connections, backend) = (&status["connections"], &status["backends"][0]);
    ensure!(connections["cut"] == 1 && connections["open"] == 0 && backend["open"] == 0, "{status}");
    ensure!(proxy.process.log().contains(", 1 reset at the end"), "{}", proxy.process.log());
    Ok(())
}

/// The addresses of a header of version 2, by the specification: section 2.2.
fn addresses(header: &[u8]) -> Result<(SocketAddr, SocketAddr)> {
    ensure!(header[..16] == *b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c", "{header:?}");
    let address = |at: usize, port: usize| -> SocketAddr {
        let ip: [u8; 4] = [header[at], header[at + 1], header[at + 2], header[at + 3]];
        (ip, u16::from_be_bytes([header[port], header[port + 1]])).into()
    };
    Ok((address(16, 24), address(20, 26)))
}

/// Promise: PROXY protocol headers are sent and read as specified; malformed ones are refused.
fn backends_are_told_who_the_client_is() -> Result<()> {
    let backend = TcpListener::bind("127.0.0.1:0")?;
    let proxy = Proxy::before(&[backend.local_addr()?], &["--send-proxy"])?;
    let mut client = proxy.connect()?;
    client.write_all(b"hello")?;
    let mut received = [0; 28 + 5];
    accept(&backend)?.read_exact(&mut received)?;
    ensure!(addresses(&received)? == (client.local_addr()?, client.peer_addr()?), "{received:?}");
    ensure!(received[28..] == *b"hello", "{received:?}");
    Ok(())
}

/// Promise: PROXY protocol headers are sent and read as specified; malformed ones are refused.
fn clients_say_who_they_are() -> Result<()> {
    let backend = TcpListener::bind("127.0.0.1:0")?;
    let proxy = Proxy::before(&[backend.local_addr()?], &["--accept-proxy", "--send-proxy"])?;
    let text = b"PROXY TCP4 192.0.2.1 198.51.100.2 5000 80\r\nhello";
    let mut binary = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    binary.extend([192, 0, 2, 1, 198, 51, 100, 2, 0x13, 0x88, 0, 80]);
    binary.extend(b"hello");
    for header in [&text[..], &binary] {
        let mut client = proxy.connect()?;
        let (first, rest) = header.split_at(20);
        client.write_all(first)?;
        client.write_all(rest)?;
        let mut received = [0; 28 + 5];
        let mut server = accept(&backend)?;
        server.read_exact(&mut received)?;
        let expected = ("192.0.2.1:5000".parse()?, "198.51.100.2:80".parse()?);
        ensure!(addresses(&received)? == expected && received[28..] == *b"hello", "{received:?}");
        client.write_all(b" and more")?;
        client.shutdown(Shutdown::Write)?;
        let mut more = String::new();
        server.read_to_string(&mut more)?;
        ensure!(more == " and more", "{more}");
    }
    let mut stranger = proxy.connect()?;
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n")?;
    let read = stranger.read(&mut [0]);
    ensure!(
        read.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset),
        "{read:?}"
    );
    let (_, status) = proxy.end()?;
    ensure!(status["connections"]["malformed"] == 1 && status["backends"][0]["total"] == 2, "{status}");
    Ok(())
}

/// Promise: `/metrics` has each series once, also with many backends.
///
/// A series is a name with its labels: two of one make a scrape that Prometheus refuses.
fn no_series_of_metrics_is_there_twice() -> Result<()> {
    let backends = [echo(0)?, echo(1)?];
    let mut proxy = Proxy::before(&backends, &["--metrics", "127.0.0.1:0"])?;
    let text = String::from_utf8(http::get(proxy.metrics()?, "/metrics")?.body)?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut series = HashSet::new();
    for line in lines {
        let (name, _) = line.rsplit_once(' ').with_context(|| format!("no value: {line}"))?;
        ensure!(series.insert(name), "{name} is there twice:\n{text}");
    }
    for backend in backends {
        for of_backend in ["up", "connected_total", "checks_passed_total", "checks_failed_total"] {
            let wanted = format!("wirepath_backend_{of_backend}{{backend=\"tcp://{backend}\"}}");
            ensure!(series.contains(&*wanted), "{wanted} is missing:\n{text}");
        }
    }
    Ok(())
}

/// Promise: Errors of system calls say what to do.
///
/// An error names the missing capability.
fn a_port_that_takes_a_right_says_so() -> Result<()> {
    let home = open_folder()?;
    let program = server::binary()?;
    let said = |arguments: &[&str]| -> Result<String> {
        let mut command = as_ordinary_user(&program.display().to_string(), home.path());
        let output = command.arg("relay").args(arguments).output()?;
        let error = String::from_utf8(output.stderr)?;
        ensure!(output.status.code() == Some(1), "{}: {error}", output.status);
        Ok(error)
    };
    let first = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start")?;
    require!(first.trim() == "1024", "low ports take no right here");
    for arguments in [
        ["--listen", ":81", "--to", "127.0.0.1:9"],
        ["--in", "tcp://:81?listen", "--out", "-"],
        ["--in", "udp://@:81", "--out", "-"],
    ] {
        let error = said(&arguments)?;
        ensure!(error.contains("ports below 1024 need root or CAP_NET_BIND_SERVICE"), "{error}");
    }
    Ok(())
}

/// Promise: A proxy or cache that would connect to itself is refused; own addresses of a backend's name are
/// skipped.
/// Promise: An option that the chosen mode would ignore is refused by name.
/// Promise: An error about a wrong argument names the argument and the remedy.
fn wrong_arguments_are_named() -> Result<()> {
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let taken_address = taken.local_addr()?.to_string();
    let own = free_port()?;
    let (any, own) = (format!(":{}", own.port()), own.to_string());
    for (arguments, code, said) in [
        (&["--listen", ":0"][..], 2, "--to <BACKEND>"),
        (&["--to", "a:1"], 2, "--listen <ADDRESS>"),
        (&["--listen", ":0", "--to", ":80"], 2, "missing host: expected HOST:PORT"),
        (&["--listen", ":80x", "--to", "a:1"], 2, "'--listen <ADDRESS>': invalid port 80x"),
        (
            &["--listen", "udp://:8600", "--to", "a:1"],
            2,
            "'--listen <ADDRESS>': invalid endpoint: expected HOST:PORT",
        ),
        (&["--listen", ":0", "--to", "a:1", "--in", "-", "--out", "-"], 2, "cannot be used with"),
        // Bytes that were to be sealed would go out as they are.
        (&["--listen", ":0", "--to", "a:1", "--handler", "seal:key"], 2, "'--handler <HANDLER>'"),
        (&["--listen", ":0", "--to", "a:1", "--origin", "http://storage"], 2, "'--origin <URL>'"),
        (
            &["--listen", ":0", "--to", "a:1", "--balance", "best"],
            2,
            "expected roundrobin, leastconn or random",
        ),
        (
            &["--listen", ":0", "--to", "a:1", "--to", "b:1", "--to", "tcp://a:1"],
            2,
            "duplicate backend tcp://a:1",
        ),
        (
            &["--listen", ":0", "--to", "nobody.invalid:1"],
            1,
            "cannot resolve the backend tcp://nobody.invalid:1",
        ),
        (&["--listen", &any, "--to", &own], 1, "is a listener of this proxy; name the server behind it"),
        (&["--listen", &any, "--listen", &any, "--to", "127.0.0.1:1"], 1, "name each address once"),
        (
            &["--listen", ":0", "--to", "127.0.0.1:1", "--balance", "random"],
            2,
            "--balance needs several backends",
        ),
        (
            &["--listen", ":0", "--to", "127.0.0.1:1", "--rise", "2"],
            2,
            "--rise and --fall need health checks; with a single backend, add --health-interval",
        ),
        (
            &["--listen", ":0", "--to", "127.0.0.1:1", "--fall", "1"],
            2,
            "--rise and --fall need health checks",
        ),
        (&["--listen", ":0", "--to", "a:1", "--health-interval", "0s"], 2, "expected a time above 0"),
        (&["--listen", ":0", "--to", "a:1", "--connect-timeout", "0s"], 2, "expected a time above 0"),
        (
            &["--listen", ":0", "--cache", "kept", "--origin", "http://a", "--origin-timeout", "0s"],
            2,
            "expected a time above 0",
        ),
        (&["--listen", "9933", "--to", "a:1"], 2, "missing colon: expected HOST:9933 or :9933"),
        (&["--listen", ":0", "--to", "a:1", "--threads", "0"], 2, "expected a whole number from 1 to 1024"),
        (
            &["--listen", ":0", "--cache", "kept", "--origin", "http://a", "--cache-size", "10"],
            2,
            "10 B is too small",
        ),
        (&["--listen", &taken_address, "--to", "127.0.0.1:1"], 1, "cannot listen on tcp://"),
        (
            &["--listen", ":0", "--to", "127.0.0.1:1", "--max-connections", "99999999999"],
            1,
            "raise it (ulimit -n",
        ),
    ] {
        let output = Command::new(server::binary()?).arg("relay").args(arguments).output()?;
        let error = String::from_utf8(output.stderr)?;
        ensure!(output.status.code() == Some(code) && error.contains(said), "{arguments:?}: {error}");
        ensure!(error.matches(":80x").count() <= 1, "said twice: {error}");
    }
    Ok(())
}
