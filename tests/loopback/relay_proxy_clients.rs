//! `wirepath relay --listen` between real clients and a real server: what comes through is what comes
//! without.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::ports::free_port;
use wirepath_tests::process::{self, Process, find};
use wirepath_tests::proxy::{self, Proxy};
use wirepath_tests::{Deadline, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![curl_sees_no_difference, wrk_meets_no_error]
}

/// nginx, and where it serves `film`, of 5 MB, and `page`, of 5 kB.
fn site(folder: &Path) -> Result<(Process, SocketAddr)> {
    require!(find("nginx").is_some(), "nginx is not installed");
    let address = free_port()?;
    std::fs::create_dir(folder.join("site"))?;
    let mut dice = wirepath_tests::mutation::Dice::new(3);
    let film: Vec<u8> = (0..5_000_000).map(|_| dice.any() as u8).collect();
    std::fs::write(folder.join("site/page"), &film[..5000])?;
    std::fs::write(folder.join("site/film"), film)?;
    let text = format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr;\nevents {{}}\nhttp {{ access_log off; \
         client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; \
         scgi_temp_path scgi; server {{ listen {address}; root site; }} }}\n"
    );
    std::fs::write(folder.join("configuration"), text)?;
    let mut nginx = Process::start(&proxy::nginx(&folder.join("configuration")), true)?;
    let listens = || {
        ensure!(nginx.is_running()?, "it ended");
        Ok(proxy::is_listening(address)?.then_some(()))
    };
    Deadline::seconds(20.0).wait_for("nginx", listens).with_context(|| nginx.log())?;
    Ok((nginx, address))
}

/// Promise: Through the proxy, curl sees no difference and wrk no error.
fn curl_sees_no_difference() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let folder = tempfile::tempdir()?;
    let (_nginx, address) = site(folder.path())?;
    let proxy = Proxy::before(&[address], &[])?;
    let get = |proxied: SocketAddr, arguments: &[&str]| -> Result<Vec<u8>> {
        let mut command = Command::new("curl");
        command.args(["-sS", "--max-time", "60", "-w", "%{http_code}"]).args(arguments);
        // Two requests, on one connection unless it is to be closed.
        command.args([format!("http://{proxied}/film"), format!("http://{proxied}/nothing")]);
        let output = command.output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(output.stdout)
    };
    let proxied = proxy.address.context("no address")?;
    for arguments in [&[][..], &["-r", "1000000-1999999"], &["-H", "Connection: close"]] {
        let (without, with) = (get(address, arguments)?, get(proxied, arguments)?);
        let lengths = (without.len(), with.len());
        ensure!(without.len() > 900_000 && without == with, "{arguments:?}: {lengths:?} bytes");
    }
    let (code, status) = proxy.end()?;
    ensure!(code == 0 && status["connections"]["total"] == 4, "{code}: {status}");
    Ok(())
}

/// Promise: Through the proxy, curl sees no difference and wrk no error.
fn wrk_meets_no_error() -> Result<()> {
    require!(find("wrk").is_some(), "wrk is not installed");
    let folder = tempfile::tempdir()?;
    let (_nginx, address) = site(folder.path())?;
    for header in ["Connection: keep-alive", "Connection: close"] {
        let proxy = Proxy::before(&[address], &["--threads", "2"])?;
        let url = format!("http://{}/page", proxy.address.context("no address")?);
        let said = process::run("wrk", ["-t1", "-c8", "-d1s", "-H", header, &url], 60.0)?;
        // It says so only when there were some.
        let had_errors = said.contains("Socket errors") || said.contains("Non-2xx");
        let requests = said.lines().find_map(|line| line.trim().split_once(" requests in"));
        let requests: u64 = requests.and_then(|(count, _)| count.parse().ok()).context(said.clone())?;
        ensure!(requests > 0 && !had_errors, "{header}: {said}");
        let (code, status) = proxy.end()?;
        let bytes = status["bytes_to_clients"].as_u64().unwrap_or_default();
        ensure!(code == 0 && bytes >= requests * 5000, "{code}: {status}, {said}");
    }
    Ok(())
}
