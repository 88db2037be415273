//! `wirepath relay --cache` beside nginx, which caches the same files.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::caching::Cache;
use wirepath_tests::process::{Process, find, is_root, run};
use wirepath_tests::{Deadline, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![nginx_as_the_origin_and_as_a_cache_gives_the_same_bytes]
}

/// nginx that serves a folder, and a second server of it that caches the first.
fn nginx(folder: &std::path::Path, [files, cache]: [u16; 2]) -> Result<Process> {
    let configuration = folder.join("nginx.conf");
    let place = folder.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {place}/{kind};\n"))
        .concat();
    let text = format!(
        "daemon off; pid {place}/pid; error_log {place}/error.log; worker_processes 1; user root;\n\
         events {{}}\nhttp {{ access_log off; {temporary}\n\
         proxy_cache_path {place}/nginx-cache keys_zone=one:1m;\n\
         server {{ listen 127.0.0.1:{files}; root {place}/files; expires 10m; }}\n\
         server {{ listen 127.0.0.1:{cache}; location / {{ proxy_cache one; proxy_pass http://127.0.0.1:{files}; }} }} }}\n"
    );
    std::fs::write(&configuration, text)?;
    let name = configuration.to_str().context("a name")?;
    let mut process = Process::start(Command::new("nginx").args(["-e", "stderr", "-c", name]), true)?;
    Deadline::seconds(10.0).wait_for("nginx", || {
        ensure!(process.is_running()?, "nginx ended: {}", process.log());
        Ok(std::net::TcpStream::connect(("127.0.0.1", cache)).is_ok().then_some(()))
    })?;
    Ok(process)
}

/// Promise: With nginx as the origin, responses equal those of nginx's own cache byte for byte.
fn nginx_as_the_origin_and_as_a_cache_gives_the_same_bytes() -> Result<()> {
    require!(find("nginx").is_some() && find("curl").is_some(), "nginx or curl is not installed");
    require!(is_root(), "nginx is started as root here");
    let folder = tempfile::tempdir()?;
    std::fs::create_dir_all(folder.path().join("files/sub"))?;
    let large: Vec<u8> = (0..3_000_000u32).map(|at| (at / 91) as u8).collect();
    for (name, body) in
        [("large", &large[..]), ("small.txt", b"small"), ("empty", b""), ("sub/index.html", b"<p>")]
    {
        std::fs::write(folder.path().join("files").join(name), body)?;
    }
    let ports =
        [(); 2].map(|()| TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr()));
    let [files, caching] = ports;
    let ports = [files?.port(), caching?.port()];
    let _nginx = nginx(folder.path(), ports)?;
    let kept = folder.path().join("cache");
    let ours = Cache::of(&format!("http://127.0.0.1:{}", ports[0]), &kept, &[])?;
    let fetch = |base: &str, arguments: &[&str], path: &str| -> Result<(String, Vec<u8>)> {
        let (file, url) = (folder.path().join("got"), format!("{base}{path}"));
        std::fs::write(&file, "")?;
        let file_name = file.to_str().context("a name")?;
        let shown = "%{http_code} %header{content-range}|%{content_type} %header{etag}";
        let said = run("curl", [&["-sS", "-o", file_name, "-w", shown], arguments, &[&url]].concat(), 30.0)?;
        Ok((said, std::fs::read(&file)?))
    };
    let theirs = format!("http://127.0.0.1:{}", ports[1]);
    let mut answers = BTreeMap::<String, usize>::new();
    for round in 0..2 {
        for path in
            ["/large", "/small.txt", "/empty", "/sub/", "/missing", "/small.txt?query=1", "/%73mall.txt"]
        {
            for arguments in [
                &[][..],
                &["-r", "1-3"],
                &["-r", "-2"],
                &["-I"],
                &["-H", "If-None-Match: \"x\""],
                &["-X", "POST"],
            ] {
                if path == "/empty" && arguments == ["-r", "-2"] {
                    continue; // the last two bytes of none: nginx sends none of them, we say that there are none
                }
                let (mut mine, mut other) =
                    (fetch(&ours.url(""), arguments, path)?, fetch(&theirs, arguments, path)?);
                // With -I curl writes the head, which has another date; and how an error is worded is
                // everybody's own business.
                if arguments == ["-I"] || mine.0.starts_with("416") {
                    (mine.1, other.1) = (Vec::new(), Vec::new());
                }
                if mine.0.starts_with("416") {
                    for said in [&mut mine.0, &mut other.0] {
                        said.truncate(said.find('|').unwrap_or(0));
                    }
                }
                ensure!(
                    mine == other,
                    "{path} {arguments:?} in round {round}: {:?} and {:?}",
                    mine.0,
                    other.0
                );
                *answers.entry(mine.0.split(' ').next().unwrap_or_default().to_owned()).or_default() += 1;
            }
        }
    }
    ensure!(["200", "206", "404", "405"].iter().all(|status| answers.contains_key(*status)), "{answers:?}");
    Ok(())
}
