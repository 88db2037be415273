//! `/api/loans` of the server: the rule of lending is changed while it serves, and its effects are counted.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::Value;
use tempfile::TempDir;
use wirepath_tests::hot::wait_for_path;
use wirepath_tests::playback::{Playback, ensure_bytes};
use wirepath_tests::process::{find, run};
use wirepath_tests::server::{Server, binary};
use wirepath_tests::{Deadline, clips, http, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        an_administrator_changes_whether_files_are_copied,
        an_administrator_changes_whether_trains_are_copied,
        others_do_not_change_the_rule,
        a_server_starts_with_the_rule_of_its_options,
    ]
}

/// A server with an administrator, whose status everyone may see.
struct TestBed {
    server: Server,
    folder: TempDir,
    _secrets: TempDir,
}

impl TestBed {
    fn new(folder: TempDir) -> Result<TestBed> {
        let secrets = tempfile::tempdir()?;
        let users = secrets.path().join("users");
        for user in ["anna", "bob"] {
            set_password(&users, user)?;
        }
        let users = format!("--users={}", users.display());
        let rules = ["--folder-users=/=-", "--status-users=-", "--admin-users=anna", "--images=all"];
        let server = Server::of(folder.path()).with([users.as_str()]).with(rules).start()?;
        Ok(TestBed { server, folder, _secrets: secrets })
    }

    /// The answer to PUT of a user, with its status at the end.
    fn put(&self, user: &str, rule: &str, fields: &[&str]) -> Result<String> {
        let (url, user) = (self.server.http_url("api/loans"), format!("{user}:secret"));
        let mut arguments = vec!["-sS", "--digest", "-u", &user, "-X", "PUT", "--data-binary", rule];
        fields.iter().for_each(|field| arguments.extend(["-H", *field]));
        arguments.extend(["-w", "\n%{http_code}", &url]);
        run("curl", arguments, 20.0)
    }

    fn set(&self, rule: &str) -> Result<()> {
        let answer = self.put("anna", rule, &[])?;
        ensure!(answer.contains(&format!("\"lend\":\"{rule}\"")) && answer.ends_with("\n200"), "{answer}");
        Ok(())
    }

    fn loans(&self) -> Result<Value> {
        let answer = http::get(self.server.http, "/api/loans")?;
        ensure!(answer.status == 200, "{answer:?}");
        serde_json::from_slice(&answer.body).context("no JSON")
    }

    fn count(&self, name: &str) -> Result<u64> {
        let loans = self.loans()?;
        loans[name].as_u64().with_context(|| format!("no {name}: {loans}"))
    }
}

fn set_password(users: &Path, user: &str) -> Result<()> {
    let mut command = Command::new(binary()?);
    let mut child = command.arg("passwd").arg(users).arg(user).stdin(Stdio::piped()).spawn()?;
    std::io::Write::write_all(&mut child.stdin.take().context("piped")?, b"secret")?;
    ensure!(child.wait()?.success(), "wirepath passwd failed");
    Ok(())
}

/// Promise: An administrator changes at run time whether files leave without a copy over HTTP, which is counted.
///
/// A file that an HTTP thread sends, and one that the engine sends.
fn an_administrator_changes_whether_files_are_copied() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let folder = tempfile::tempdir()?;
    let contents = |length: usize| (0..length).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect();
    let files: [(&str, Vec<u8>); 2] = [("short", contents(200 << 10)), ("long", contents(5 << 20))];
    for (name, bytes) in &files {
        std::fs::write(folder.path().join(name), bytes)?;
    }
    let bed = TestBed::new(folder)?;
    for (rule, is_lent) in [("always", true), ("safe", false), ("never", false), ("always", true)] {
        bed.set(rule)?;
        for (name, bytes) in &files {
            let (lent, copied) = (bed.count("lent_bytes")?, bed.count("copied_bytes")?);
            let answer = http::get(bed.server.http, &format!("/{name}"))?;
            ensure!(answer.body == *bytes, "{rule}, {name}: other bytes came");
            // The counts of a response that the engine sends are complete when it has ended.
            Deadline::seconds(10.0).wait_for("the counts", || {
                let lent = bed.count("lent_bytes")? - lent;
                let copied = bed.count("copied_bytes")? - copied;
                let counted = if is_lent { lent } else { copied };
                ensure!(if is_lent { copied } else { lent } == 0, "{rule}, {name}: {lent}, {copied}");
                Ok((counted >= bytes.len() as u64).then_some(()))
            })?;
        }
    }
    let metrics = String::from_utf8(http::get(bed.server.http, "/metrics")?.body)?;
    for name in ["wirepath_loans_lent_bytes_total", "wirepath_loans_copied_bytes_total"] {
        ensure!(metrics.lines().any(|line| line.starts_with(name) && !line.ends_with(" 0")), "{metrics}");
    }
    let log = bed.server.process.log();
    ensure!(log.contains("sets the rule of lending") && log.contains("anna"), "{log}");
    Ok(())
}

/// Promise: An administrator changes at run time whether trains leave without a copy, and no packet is lost.
fn an_administrator_changes_whether_trains_are_copied() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let clip = clips::constant(6)?;
    let bed = TestBed::new(clips::folder(&[("clip.ts", &clip)])?)?;
    // The image is complete after the first playback.
    Playback::whole(bed.server.rtsp, "clip.ts", 15.0)?;
    let wait_for_path = |path: &str| wait_for_path(path, || bed.server.status());
    let mut playback = Playback::set_up(bed.server.rtsp, "clip.ts")?;
    playback.play(None)?;
    wait_for_path("wire_sendfile")?;
    bed.set("never")?;
    wait_for_path("gso_writev")?;
    bed.set("always")?;
    wait_for_path("wire_sendfile")?;
    let received = playback.receiver.to_the_end(Deadline::seconds(15.0))?;
    ensure!(received.gaps().is_empty(), "gaps {:?}", received.gaps());
    ensure_bytes(&received, &std::fs::read(bed.folder.path().join("clip.ts"))?)?;
    ensure!(bed.count("copied_trains")? > 0, "{}", bed.loans()?);
    Ok(())
}

/// Promise: Users that are not administrators, and pages of other origins, cannot change the rule of lending.
fn others_do_not_change_the_rule() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let bed = TestBed::new(tempfile::tempdir()?)?;
    for (user, rule, fields, status) in [
        ("bob", "never", &[][..], "403"),
        ("carl", "never", &[], "401"),
        ("anna", "never", &["Sec-Fetch-Site: cross-site"], "403"),
        ("anna", "never", &["Origin: http://other.example"], "403"),
        ("anna", "sometimes", &[], "400"),
        ("anna", &"never ".repeat(100), &[], "413"),
    ] {
        let answer = bed.put(user, rule, fields)?;
        ensure!(answer.ends_with(status), "{user}: {answer}");
        ensure!(bed.loans()?["lend"] == "always", "{user} changed it");
    }
    Ok(())
}

/// Promise: `--lend` is the rule of lending with which a server starts; a configuration file may have it, too.
fn a_server_starts_with_the_rule_of_its_options() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("long"), vec![7; 1 << 20])?;
    let settings = tempfile::tempdir()?;
    let file = settings.path().join("wirepath.toml");
    std::fs::write(&file, "lend = \"safe\"\n")?;
    let file = format!("--config={}", file.display());
    for (options, rule) in [(&[file.as_str()][..], "safe"), (&[file.as_str(), "--lend=never"], "never")] {
        let server = Server::of(folder.path()).with(options.iter().copied()).start()?;
        ensure!(http::get(server.http, "/long")?.body == vec![7; 1 << 20], "{rule}: other bytes came");
        Deadline::seconds(10.0).wait_for("the count of copied bytes", || {
            let loans: Value = serde_json::from_slice(&http::get(server.http, "/api/loans")?.body)?;
            ensure!(loans["lend"] == rule && loans["lent_bytes"] == 0, "{loans}");
            Ok((loans["copied_bytes"].as_u64() >= Some(1 << 20)).then_some(()))
        })?;
    }
    std::fs::write(settings.path().join("wirepath.toml"), "\nlend = \"sometimes\"\n")?;
    let refused = Command::new(binary()?).args(["serve", &file]).arg(folder.path()).output()?;
    let error = String::from_utf8_lossy(&refused.stderr);
    let words = ["line 2", "sometimes", "always, safe or never"];
    ensure!(!refused.status.success() && words.iter().all(|word| error.contains(word)), "{error}");
    Ok(())
}
