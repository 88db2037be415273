//! Configurations and users that change under the server: each SIGHUP is followed by proof that it was loaded.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use tempfile::TempDir;
use wirepath_auth::{Algorithm, user_hash};
use wirepath_tests::{Deadline, http};

use super::Bed;
use crate::auth;

/// A file that rules are about, and one for users alone.
const OPEN: &str = "notice.txt";
const CLOSED: &str = "closed/notice.txt";

/// Users whom the closed folder is for, in turn.
const USERS: [&str; 2] = ["anna", "bob"];

/// One configuration of so many is broken.
const BROKEN_ONE_IN: u64 = 8;

/// Words of the log for a configuration that was taken over, and for one that was refused.
pub(super) const TAKEN_OVER: &str = "the configuration is read again";
pub(super) const REFUSED: &str = "the configuration is unchanged";

/// Time for a signal to show, with as much to spare as a busy machine takes.
const SHOWN_S: f64 = 30.0;

/// Files of a server that is told to read them again.
pub(super) struct Files {
    folder: TempDir,
    users: PathBuf,
    configuration: PathBuf,
}

impl Files {
    /// Files of the first configuration, and what they are about in the folder that is served.
    pub(super) fn new(served: &Path) -> Result<Files> {
        std::fs::create_dir(served.join("closed"))?;
        for notice in [OPEN, CLOSED] {
            std::fs::write(served.join(notice), "a notice\n")?;
        }
        let folder = tempfile::tempdir()?;
        let (users, configuration) = (folder.path().join("users"), folder.path().join("wirepath.toml"));
        let files = Files { folder, users, configuration };
        files.write(0)?;
        Ok(files)
    }

    /// The option that names the configuration.
    pub(super) fn option(&self) -> String {
        format!("--config={}", self.configuration.display())
    }

    /// Writes configuration and users of this number: another user, another password, other rules and fields.
    fn write(&self, number: u64) -> Result<()> {
        let (user, password) = (user_of(number), password_of(number));
        let lines = USERS.map(|name| format!("{name}:Wirepath:{}\n", hash_of(name, &password))).concat();
        self.replace(&self.users, &lines)?;
        let burst_ms = 10 + number % 2 * 40;
        let configuration = format!(
            "users = {:?}\nstatus-users = \"-\"\nfolder-users = [\"/=-\", \"closed={user}\"]\n\
             folder-cache-control = [\"{OPEN}=max-age={number}\"]\nfolder-burst-max = [\"film0.ts={burst_ms}ms\"]\n",
            self.users
        );
        self.replace(&self.configuration, &configuration)
    }

    /// Writes a configuration that no server can use.
    fn break_configuration(&self) -> Result<()> {
        self.replace(&self.configuration, "threads = 0\n")
    }

    /// Replaces a file at once: the server must not read half of it.
    fn replace(&self, file: &Path, text: &str) -> Result<()> {
        let new = self.folder.path().join("new");
        std::fs::write(&new, text).with_context(|| new.display().to_string())?;
        std::fs::rename(&new, file).with_context(|| file.display().to_string())
    }
}

/// Changes the configuration and sends SIGHUP, time and again. Each must be loaded before the next, a broken one
/// refused.
pub(super) fn change_configuration(bed: &Bed, until: Deadline) -> Result<()> {
    let mut loaded = 0;
    ensure_shown(bed, loaded).context("the configuration of the start")?;
    for number in 1.. {
        if until.has_passed() {
            break;
        }
        let is_broken = number % BROKEN_ONE_IN == BROKEN_ONE_IN / 2;
        if is_broken {
            let refused = bed.count_in_log(REFUSED);
            bed.files.break_configuration()?;
            signal(bed)?;
            Deadline::seconds(SHOWN_S)
                .wait_for(REFUSED, || Ok((bed.count_in_log(REFUSED) > refused).then_some(())))?;
            ensure!(shown(bed)? == field(loaded), "a broken configuration changed something");
            bed.done.refused_reloads.fetch_add(1, Relaxed);
        } else {
            loaded = number;
            bed.files.write(number)?;
            signal(bed)?;
            ensure_shown(bed, loaded).with_context(|| format!("configuration {number}"))?;
            bed.done.reloads.fetch_add(1, Relaxed);
        }
        std::thread::sleep(Duration::from_secs(1).min(until.left()));
    }
    Ok(())
}

fn signal(bed: &Bed) -> Result<()> {
    bed.done.signals.fetch_add(1, Relaxed);
    bed.server.process.signal(Signal::HUP)
}

/// Waits until the fields of this configuration are sent, whose rules hold then, and its passwords, which are read
/// after it.
fn ensure_shown(bed: &Bed, number: u64) -> Result<()> {
    let deadline = Deadline::seconds(SHOWN_S);
    deadline.wait_for(&field(number), || Ok((shown(bed)? == field(number)).then_some(())))?;
    let path = format!("/{CLOSED}");
    let address = bed.server.http;
    let password = password_of(number);
    deadline.wait_for("the new password", || {
        Ok((auth::get_as(address, &path, (user_of(number), &password))?.status == 200).then_some(()))
    })?;
    let response = http::get(address, &path)?;
    ensure!(response.status == 401, "{CLOSED} is open to everyone: {}", response.status);
    Ok(())
}

/// The field by which answers tell which configuration holds.
fn shown(bed: &Bed) -> Result<String> {
    let response = http::get(bed.server.http, &format!("/{OPEN}"))?;
    ensure!(response.status == 200, "{OPEN} answered {}", response.status);
    Ok(response.header("cache-control").unwrap_or_default().to_owned())
}

fn field(number: u64) -> String {
    format!("max-age={number}")
}

fn user_of(number: u64) -> &'static str {
    USERS[(number % USERS.len() as u64) as usize]
}

fn password_of(number: u64) -> String {
    format!("secret{number}")
}

fn hash_of(user: &str, password: &str) -> String {
    user_hash(Algorithm::Md5, user, "Wirepath", password)
}
