//! Servers that root starts and that run as an ordinary user (`--user`).

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use tempfile::TempDir;
use wirepath_tests::playback::{Playback, ensure_bytes};
use wirepath_tests::process::{self, Process, is_root};
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::{self, Builder, Server};
use wirepath_tests::tls::Certificate;
use wirepath_tests::{Deadline, clips, http, require, trials};

use crate::auth::{self, get_as};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        every_thread_is_of_the_user,
        what_the_user_may_not_read_is_refused,
        privileged_ports_are_served,
        files_are_read_again_as_the_user,
        passwords_are_read_again_as_the_user,
        a_server_of_a_user_hands_over,
        users_and_folders_that_cannot_be_used_are_refused,
        only_root_changes_to_another_user,
    ]
}

/// User and group that most systems have.
const USER: &str = "nobody:daemon";

/// Number in the third field of the line of a name in a file such as `/etc/passwd`.
fn id(file: &str, name: &str) -> Result<u32> {
    let text = fs::read_to_string(file)?;
    let line = text.lines().find(|line| line.split(':').next() == Some(name));
    let id = line.and_then(|line| line.split(':').nth(2)?.parse().ok());
    id.with_context(|| format!("{file} has no {name}"))
}

/// A folder with a clip and with a file that only root may read, and a folder of the user.
struct TestBed {
    media: TempDir,
    home: TempDir,
}

impl TestBed {
    fn new() -> Result<TestBed> {
        require!(is_root(), "only root changes its user");
        let (user, group) = (id("/etc/passwd", "nobody"), id("/etc/group", "daemon"));
        require!(user.is_ok() && group.is_ok(), "there is no user `nobody` or no group `daemon`");
        let status = fs::read_to_string("/proc/self/status")?;
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let effective = u64::from_str_radix(effective.context("no CapEff")?.trim(), 16)?;
        for (capability, number) in [("CAP_SETGID", 6), ("CAP_SETUID", 7), ("CAP_NET_BIND_SERVICE", 10)] {
            require!(effective >> number & 1 == 1, "root has no {capability} here");
        }
        let (media, home) = (process::open_folder()?, process::open_folder()?);
        for (name, mode) in [("clip.ts", 0o644), ("secret.ts", 0o600)] {
            let file = media.path().join(name);
            fs::copy(clips::constant(2)?, &file)?;
            fs::set_permissions(file, PermissionsExt::from_mode(mode))?;
        }
        let paths = ["wire_sendfile", "gso_writev", "sendmmsg", "read_writev"];
        fs::write(home.path().join("calibration.json"), server::calibration(&paths)?)?;
        Ok(TestBed { media, home })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Stores a file that the user may read.
    fn store(&self, name: &str, text: &str) -> Result<String> {
        let file = self.path(name);
        fs::write(&file, text)?;
        fs::set_permissions(&file, PermissionsExt::from_mode(0o644))?;
        Ok(file.to_str().context("a file's name")?.to_owned())
    }

    /// A server as the user, with a cache folder that the user makes.
    fn builder(&self) -> Builder<'_> {
        let calibration = self.path("calibration.json");
        Server::of(self.media.path()).cache(self.path("cache")).with([
            "--calibration",
            &calibration.to_string_lossy(),
            "--user",
            USER,
        ])
    }

    /// Output of a server that does not start, with exit code 1.
    fn refused(&self, command: &mut Command, arguments: &[&str]) -> Result<String> {
        command.arg("serve").arg(self.media.path()).args(arguments);
        command.args(["--rtsp", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
        let (code, error) = ended(command)?;
        ensure!(code == Some(1), "{code:?}: {error}");
        Ok(error)
    }
}

/// Exit code and output of a command that ends soon.
fn ended(command: &Command) -> Result<(Option<i32>, String)> {
    let mut process = Process::start(command, true)?;
    let status = process.wait(Deadline::seconds(15.0))?;
    Ok((status.code(), process.log()))
}

/// Groups of a process of [`USER`], as the kernel prints them.
fn groups() -> Result<String> {
    let text = fs::read_to_string("/etc/group")?;
    let fields = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let member =
        fields.filter(|fields| fields.last().is_some_and(|all| all.split(',').any(|name| name == "nobody")));
    let mut groups = member.filter_map(|fields| fields.get(2)?.parse().ok()).collect::<Vec<u32>>();
    groups.push(id("/etc/group", "daemon")?);
    groups.sort_unstable();
    groups.dedup();
    Ok(groups.iter().map(u32::to_string).collect::<Vec<_>>().join(" "))
}

/// Sends a server SIGHUP, and waits until its log has these words once more.
fn hang_up(server: &Server, words: &str) -> Result<()> {
    let count = || server.process.log().matches(words).count();
    let before = count();
    server.process.signal(Signal::HUP)?;
    Deadline::seconds(10.0).wait_for(words, || Ok((count() > before).then_some(())))
}

/// Promise: With `--user`, every thread has the user's IDs and groups and no capabilities.
fn every_thread_is_of_the_user() -> Result<()> {
    let bed = TestBed::new()?;
    let (user, group) = (id("/etc/passwd", "nobody")?, id("/etc/group", "daemon")?);
    let of_all = |id: u32| [id; 4].map(|id| id.to_string()).join("\t");
    let none = "0000000000000000".to_owned();
    for arguments in [&["--confine", "off"][..], &[]] {
        let server = bed.builder().with(arguments).start()?;
        let threads = process::of_threads(server.process.pid(), "status")?;
        ensure!(threads.len() > 4, "{} threads", threads.len());
        for status in threads {
            for (field, expected) in [
                ("Uid", of_all(user)),
                ("Gid", of_all(group)),
                ("Groups", groups()?),
                ("CapInh", none.clone()),
                ("CapPrm", none.clone()),
                ("CapEff", none.clone()),
                ("CapAmb", none.clone()),
                ("NoNewPrivs", "1".to_owned()),
            ] {
                let line = status
                    .lines()
                    .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
                    .map(str::trim);
                ensure!(line == Some(&expected), "{field} is {line:?}, not {expected}:\n{status}");
            }
        }
        ensure!(fs::metadata(bed.path("cache"))?.uid() == user, "the cache folder is not the user's");
        let said = format!("the server runs as user {USER} (user ID {user}, group ID {group})");
        let logged = || Ok(server.process.log().contains(&said).then_some(()));
        Deadline::seconds(10.0).wait_for("a line in the log", logged)?;
    }
    Ok(())
}

/// Promise: A server with `--user` plays what the user may read, and refuses other files.
fn what_the_user_may_not_read_is_refused() -> Result<()> {
    let bed = TestBed::new()?;
    let server = bed.builder().start()?;
    ensure_bytes(&Playback::whole(server.rtsp, "clip.ts", 15.0)?, &fs::read(clips::constant(2)?)?)?;
    let status = |path: &str| Ok::<_, anyhow::Error>(http::get(server.http, path)?.status);
    ensure!(status("/clip.ts")? == 200 && status("/secret.ts")? == 403, "{}", status("/secret.ts")?);
    let answer = Client::connect(server.rtsp)?.request("DESCRIBE", &server.rtsp_url("secret.ts"), &[])?;
    ensure!(answer.status == 403, "{answer:?}");
    Ok(())
}

/// Promise: A server with `--user` listens on ports below 1024.
fn privileged_ports_are_served() -> Result<()> {
    let bed = TestBed::new()?;
    let certificates = Certificate::new()?;
    // The user has to read the key. The folder of the certificates is that of root.
    let certificate = bed.store("certificate.pem", &fs::read_to_string(certificates.file())?)?;
    let key = bed.store("key.pem", &fs::read_to_string(certificates.key())?)?;
    // The other listeners have any port.
    let first = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start")?.trim().parse::<u16>()?;
    require!(first > 600, "every user may listen on ports below 1024 here");
    let port = (600..first.min(1024)).rev().find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok());
    let address = format!("127.0.0.1:{}", port.context("no port below 1024 is free")?);
    let arguments = ["--tls-certificate", &certificate, "--tls-key", &key];
    let server = bed.builder().with(arguments).with(["--https", &address]).start()?;
    ensure!(server.https.map(|https| https.to_string()) == Some(address), "{:?}", server.https);
    let url = format!("https://{}/clip.ts", server.https.context("no https")?);
    let authority = certificates.file();
    let curl = ["--silent", "--show-error", "--fail", "--output", "/dev/null", "--cacert"];
    process::run("curl", curl.into_iter().chain([authority.to_str().context("a name")?, &url]), 10.0)?;
    // Unlike the listeners, keys are read as the user.
    fs::set_permissions(&key, PermissionsExt::from_mode(0o600))?;
    let refused = bed.builder().with(arguments).with(["--https", "127.0.0.1:0"]).start().err();
    let error = format!("{:#}", refused.context("it read the key of root")?);
    ensure!(error.contains("key.pem") && error.contains("Permission denied"), "{error}");
    Ok(())
}

/// Promise: SIGHUP reads the configuration as the user of `--user`.
fn files_are_read_again_as_the_user() -> Result<()> {
    let bed = TestBed::new()?;
    let cache = bed.path("cache");
    let configuration = |more: &str| format!("user = \"{USER}\"\ncache = \"{}\"\n{more}", cache.display());
    let file = bed.store("wirepath.toml", &configuration(""))?;
    let calibration = bed.path("calibration.json");
    let server = Server::of(bed.media.path()).cache(&cache);
    let server = server.with(["--config", &file, "--calibration", &calibration.to_string_lossy()]).start()?;
    let uid = process::status_number(server.process.pid(), "Uid")?;
    ensure!(uid == u64::from(id("/etc/passwd", "nobody")?), "user {uid}");
    let header = || {
        let answer = http::request(server.http, "GET", "/clip.ts", &[("Origin", "https://a.example")])?;
        Ok::<_, anyhow::Error>(answer.header("access-control-allow-origin").map(str::to_owned))
    };
    ensure!(header()?.is_none());
    bed.store("wirepath.toml", &configuration("cors = [\"https://a.example\"]\n"))?;
    hang_up(&server, "the configuration is read again")?;
    ensure!(header()?.as_deref() == Some("https://a.example"), "{:?}", header()?);
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600))?;
    hang_up(&server, "the configuration is unchanged: cannot read the configuration file")?;
    ensure!(header()?.is_some(), "it serves on");
    let error = bed.refused(&mut Command::new(server::binary()?), &["--config", &file])?;
    ensure!(error.contains("user nobody cannot read the configuration file"), "{error}");
    Ok(())
}

/// Promise: SIGHUP reads the users file as the user of `--user`; if that user cannot read it, its users stay.
fn passwords_are_read_again_as_the_user() -> Result<()> {
    let bed = TestBed::new()?;
    let users = bed.path("users");
    let set_password = |password: &str, mode: u32| -> Result<()> {
        auth::set_password(&users, "anna", password)?;
        Ok(fs::set_permissions(&users, PermissionsExt::from_mode(mode))?)
    };
    set_password("first", 0o644)?;
    let server = bed.builder().with(["--users", &users.to_string_lossy()]).start()?;
    let status =
        |password: &str| Ok::<_, anyhow::Error>(get_as(server.http, "/clip.ts", ("anna", password))?.status);
    ensure!(status("first")? == 200);
    set_password("second", 0o644)?;
    hang_up(&server, "users are read again")?;
    ensure!(status("second")? == 200 && status("first")? == 401);
    set_password("third", 0o600)?;
    hang_up(&server, "the users are unchanged")?;
    ensure!(status("second")? == 200 && status("third")? == 401);
    ensure!(server.process.log().contains("Permission denied"), "{}", server.process.log());
    Ok(())
}

/// Promise: A server with `--user` hands its sockets over to a server that root starts.
fn a_server_of_a_user_hands_over() -> Result<()> {
    let bed = TestBed::new()?;
    let socket = bed.path("handover");
    let builder = || bed.builder().with(["--handover", &socket.to_string_lossy()]);
    let mut before = builder().start()?;
    ensure!(fs::metadata(&socket)?.uid() == 0, "the socket is not of root");
    let server = builder().with(["--takeover"]).start()?;
    ensure!(server.http == before.http && http::get(server.http, "/clip.ts")?.status == 200);
    ensure!(before.process.wait(Deadline::seconds(10.0))?.success(), "{}", before.process.log());
    let uid = process::status_number(server.process.pid(), "Uid")?;
    ensure!(uid == u64::from(id("/etc/passwd", "nobody")?), "user {uid}");
    Ok(())
}

/// Promise: `--user` refuses unknown users, root, and a cache folder that the user cannot use.
fn users_and_folders_that_cannot_be_used_are_refused() -> Result<()> {
    let bed = TestBed::new()?;
    let private = tempfile::tempdir()?;
    let (theirs, missing) = (private.path().to_owned(), private.path().join("cache"));
    fs::set_permissions(&theirs, PermissionsExt::from_mode(0o755))?;
    let other = bed.path("other");
    fs::create_dir(&other)?;
    chown(&other, Some(1), None)?;
    let all = bed.path("cache");
    for (user, cache, words) in [
        ("no-such-user", &all, "--user: user `no-such-user` not found"),
        ("nobody:no-such-group", &all, "--user: group `no-such-group` not found"),
        ("root", &all, "--user: user `root` has all privileges of root"),
        ("nobody", &missing, "user nobody cannot make the cache folder"),
        ("nobody", &theirs, "user nobody cannot write to the cache folder"),
        ("nobody", &other, "give it to the user (chown -R nobody: "),
    ] {
        let folder = cache.to_str().context("a name")?;
        let mut command = Command::new(server::binary()?);
        let error = bed.refused(&mut command, &["--user", user, "--cache", folder])?;
        ensure!(error.contains(words), "{user}: {error}");
    }
    let (code, error) = ended(Command::new(server::binary()?).args(["serve", "--user", "nobody:"]))?;
    ensure!(code == Some(2), "{code:?}: {error}");
    Ok(())
}

/// Promise: A server that root did not start runs only as the user who starts it.
fn only_root_changes_to_another_user() -> Result<()> {
    let bed = TestBed::new()?;
    let program = bed.path("wirepath");
    // By another process: a child of this one may have a descriptor for writing for a moment, and then the
    // copy cannot run.
    process::run("cp", [server::binary()?, program.clone()], 20.0)?;
    let ordinary = || process::as_ordinary_user(&program.to_string_lossy(), bed.home.path());
    let error = bed.refused(&mut ordinary(), &["--user", "daemon"])?;
    let words = "cannot change to user daemon: this process runs as user ID 65534";
    ensure!(error.contains(words) && error.contains("start it as root, or as that user"), "{error}");
    require!(id("/etc/passwd", "nobody")? == 65534, "`nobody` has another ID here");
    ensure_serves(ordinary(), &bed)
}

/// Ensures that a server as `nobody` gets ready.
fn ensure_serves(mut command: Command, bed: &TestBed) -> Result<()> {
    command.arg("serve").arg(bed.media.path()).args(["--rtsp", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    command.args(["--user", "nobody", "--cache"]).arg(bed.path("cache"));
    let mut process = Process::start(&command, true)?;
    Deadline::seconds(15.0).wait_for("a line that it is ready", || {
        let log = process.log();
        ensure!(process.is_running()?, "{log}");
        Ok(log.lines().any(|line| line.starts_with("ready ")).then_some(()))
    })
}
