//! Wrong certificates, clients that are no TLS clients, and limits.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::binary;
use wirepath_tests::tls::Certificate;
use wirepath_tests::{Deadline, http, trials};

use crate::tls::TestBed;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        wrong_certificates_are_refused_at_start,
        what_is_not_tls_is_refused_and_counted,
        a_slow_handshake_ends_and_disturbs_nobody,
        limits_of_an_address_hold_over_tls,
    ]
}

/// Promise: A server does not start with a TLS certificate or key that is missing, invalid, expired or
/// mismatched.
/// Promise: A TLS key in a served folder is refused if its name would be served.
fn wrong_certificates_are_refused_at_start() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (own, other) = (Certificate::new()?, Certificate::new()?);
    std::fs::create_dir(folder.path().join("media"))?;
    for (name, from) in [("c", own.file()), ("k", own.key()), ("other", other.key()), ("media/k", own.key())]
    {
        std::fs::copy(from, folder.path().join(name))?;
    }
    std::fs::write(folder.path().join("old"), include_str!("../../crates/net/src/tls/expired.pem"))?;
    std::fs::write(folder.path().join("text"), "no certificate")?;
    let rtsps = "--rtsps=127.0.0.1:0";
    for (certificate, key, listen, words) in [
        ("none", "k", rtsps, "cannot read none: No such file"),
        ("text", "k", rtsps, "no certificate in text: expected PEM"),
        ("c", "none", rtsps, "cannot read none: No such file"),
        ("c", "c", rtsps, "no private key in c: expected PEM"),
        ("c", "other", rtsps, "the key other does not belong to the first certificate in c"),
        ("old", "k", rtsps, "the certificate in old expired"),
        ("c", "media/k", rtsps, "the TLS key media/k lies in media, which is served"),
        ("c", "k", "--session-timeout=9s", "nothing listens for TLS: add --rtsps"),
    ] {
        let files = [format!("--tls-certificate={certificate}"), format!("--tls-key={key}")];
        let log = refused(folder.path(), &[&files[0], &files[1], listen])?;
        ensure!(log.contains(words), "{certificate} {key}: {log}");
    }
    let log = refused(folder.path(), &[rtsps, "--tls-key=k"])?;
    ensure!(log.contains("TLS needs both --tls-certificate FILE and --tls-key FILE"), "{log}");
    Ok(())
}

/// Standard error of a server that does not start with these arguments.
fn refused(folder: &std::path::Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(binary()?);
    command.args(["serve", "media", "--cache", "cache", "--rtsp=127.0.0.1:0", "--http=127.0.0.1:0"]);
    let output = command.args(arguments).current_dir(folder).output()?;
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(1), "{arguments:?}: {log}");
    Ok(log)
}

/// Promise: Connections without TLS are refused at once and counted, and get no answer in clear text.
fn what_is_not_tls_is_refused_and_counted() -> Result<()> {
    let bed = TestBed::new(2, &[])?;
    for (address, plain) in [
        (bed.server.https, "GET /clip.ts HTTP/1.1\r\nHost: a\r\n\r\n"),
        (bed.server.rtsps, "OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n"),
    ] {
        let mut stream = http::connect(address.context("no address")?)?;
        stream.write_all(plain.as_bytes())?;
        let mut answer = Vec::new();
        // A reset is an answer, too.
        _ = stream.read_to_end(&mut answer);
        // At most an alert record (RFC 8446 section 5.1).
        ensure!(answer.is_empty() || answer[0] == 21, "{answer:?}");
    }
    drop(TcpStream::connect(bed.server.https.context("no https")?)?);
    let reason = |reason: &str| bed.count(&format!("handshakes_failed_total{{reason=\"{reason}\"}}"));
    Deadline::seconds(5.0).wait_for("failures by reason", || {
        Ok((reason("malformed")? == 2 && reason("closed")? == 1).then_some(()))
    })
}

/// Promise: A TLS handshake that is not complete after 10 s is ended, and disturbs no other client.
fn a_slow_handshake_ends_and_disturbs_nobody() -> Result<()> {
    let bed = TestBed::new(2, &[])?;
    let rtsps = bed.server.rtsps.context("no rtsps")?;
    let began = Instant::now();
    let slow: Vec<TcpStream> = (0..50)
        .map(|_| {
            let mut stream = TcpStream::connect(rtsps)?;
            stream.write_all(&[22, 3, 1, 1, 0, 1])?; // the beginning of a ClientHello
            Ok(stream)
        })
        .collect::<Result<_>>()?;
    let (stream, _tunnel) = bed.connect_from("127.0.0.1")?;
    ensure!(Client::over(stream).request("OPTIONS", "*", &[])?.status == 200);
    ensure!(began.elapsed().as_secs() < 8, "it waited for others");
    for mut stream in slow {
        stream.set_read_timeout(Some(Deadline::seconds(13.0).left()))?;
        // The end may be an alert, an end, or a reset.
        let mut answer = Vec::new();
        if let Err(error) = stream.read_to_end(&mut answer) {
            ensure!(error.kind() == std::io::ErrorKind::ConnectionReset, "{error}");
        }
    }
    let took = began.elapsed().as_secs_f64();
    ensure!((9.5..13.0).contains(&took), "{took:.1} s");
    Deadline::seconds(2.0).wait_for("50 timeouts", || {
        Ok((bed.count("handshakes_failed_total{reason=\"timeout\"}")? == 50).then_some(()))
    })?;
    ensure!(bed.count("handshakes_pending")? == 0);
    Ok(())
}

/// Promise: Limits per address count clients over TLS by their own address, before the handshake.
fn limits_of_an_address_hold_over_tls() -> Result<()> {
    let bed = TestBed::new(2, &["--max-connections-per-address=1"])?;
    let (first, _tunnel) = bed.connect_from("127.0.0.2")?;
    let mut first = Client::over(first);
    ensure!(first.request("OPTIONS", "*", &[])?.status == 200);
    let (second, _second) = bed.connect_from("127.0.0.2")?;
    ensure!(Client::over(second).request("OPTIONS", "*", &[]).is_err(), "a second connection");
    let (other, _other) = bed.connect_from("127.0.0.3")?;
    ensure!(Client::over(other).request("OPTIONS", "*", &[])?.status == 200);
    ensure!(first.request("OPTIONS", "*", &[])?.status == 200);
    ensure!(bed.count("handshakes_total")? == 2);
    Ok(())
}
