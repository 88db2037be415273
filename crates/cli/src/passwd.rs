//! `wirepath passwd`: passwords in a users file.

use std::fs::{self, Permissions};
use std::io::{self, BufRead, ErrorKind, IsTerminal, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tempfile::NamedTempFile;
use wirepath_auth::{Users, with_password};

/// Default realm of a new file.
const REALM: &str = "Wirepath";

/// Maximum length of a password, in bytes.
const MOST_BYTES: usize = 1024;

/// Character that Ctrl-C sends.
const INTERRUPT: u8 = 3;

/// Arguments of `wirepath passwd`.
#[derive(Args)]
#[command(after_help = "\
The password is read twice from the terminal, without echo, or once as a line of standard input:
    printf %s \"$PASSWORD\" | wirepath passwd users anna

FILE is created readable for its owner only, and is replaced atomically. It gets two lines for the
user, user:realm:HA1 with SHA-256 and with MD5, and keeps the lines of other users, such as those
written by Apache's htdigest. A running server reads it again on SIGHUP. To remove a user, delete
both lines.")]
pub(crate) struct Passwd {
    /// Users file; created if it does not exist
    file: PathBuf,

    /// Name of the user
    user: String,

    /// Realm of a new file, which players show when they ask for a password
    #[arg(long, value_name = "NAME", default_value = REALM)]
    realm: String,
}

impl Passwd {
    pub(crate) fn run(self) -> Result<ExitCode> {
        self.set(password)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Sets the password that `ask` returns.
    fn set(&self, ask: impl FnOnce(&str) -> Result<String>) -> Result<()> {
        // The name is checked before the user types a password.
        self.text_with("")?;
        let password = ask(&self.user)?;
        // The file is read again, since it may have changed while the password was typed.
        let text = self.text_with(&password)?;
        replace(&self.file, &text).with_context(|| format!("cannot write {}", self.file.display()))
    }

    /// Text of the file after the user was given this password.
    fn text_with(&self, password: &str) -> Result<String> {
        let text = match fs::read_to_string(&self.file) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            read => read.with_context(|| format!("cannot read {}", self.file.display()))?,
        };
        let in_file = || format!("in the file of users {}", self.file.display());
        let is_new = text.lines().all(|line| line.trim().is_empty() || line.starts_with('#'));
        let realm = match is_new {
            true => self.realm.clone(),
            false => Users::parse(&text).with_context(in_file)?.realm().to_owned(),
        };
        ensure!(
            realm == self.realm || self.realm == REALM,
            "the realm of {} is {realm:?}: leave --realm out, or begin a new file",
            self.file.display()
        );
        with_password(&text, &realm, &self.user, password).with_context(in_file)
    }
}

/// Replaces a file atomically. The new file keeps the permissions and the owner of the old one.
fn replace(file: &Path, text: &str) -> Result<()> {
    let file = match fs::canonicalize(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => file.to_owned(),
        found => found?, // keeps a symlink
    };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut new = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    new.write_all(text.as_bytes())?;
    match fs::metadata(&file) {
        Ok(old) => {
            let made = new.as_file().metadata()?;
            if (made.uid(), made.gid()) != (old.uid(), old.gid()) {
                fchown(new.as_file(), Some(old.uid()), Some(old.gid()))?;
            }
            new.as_file().set_permissions(Permissions::from_mode(old.mode() & 0o777))?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {} // a new file is readable only for its owner
        Err(error) => return Err(error.into()),
    }
    new.as_file().sync_all()?;
    new.persist(&file)?;
    Ok(())
}

/// Reads the password: twice from a terminal, or one line of standard input.
fn password(user: &str) -> Result<String> {
    let input = io::stdin();
    let password = if input.is_terminal() {
        let hidden = Hidden::start()?;
        let first = hidden.ask(&format!("Password of {user}: "))?;
        let second = hidden.ask("Again: ")?;
        ensure!(first == second, "the two passwords differ; nothing was changed");
        first
    } else {
        let mut line = Vec::new();
        input.lock().take(MOST_BYTES as u64 + 2).read_until(b'\n', &mut line)?;
        line
    };
    let password = String::from_utf8(password).context("the password is not UTF-8")?;
    let password = password.trim_end_matches(['\r', '\n']);
    ensure!(!password.is_empty(), "the password is empty; nothing was changed");
    // With canonical mode off, a terminal also passes on Ctrl-U and arrow keys, which cannot be typed in a
    // player.
    let is_text = !password.contains(char::is_control);
    ensure!(is_text, "the password has a control character; nothing was changed");
    ensure!(password.len() <= MOST_BYTES, "the password is longer than {MOST_BYTES} bytes");
    Ok(password.to_owned())
}

/// Terminal on standard input with echo turned off, until this is dropped. Ctrl-C is read as a byte, so that
/// it cannot end the program and leave echo off.
struct Hidden {
    before: Termios,
}

impl Hidden {
    fn start() -> Result<Hidden> {
        let before = tcgetattr(io::stdin()).context("tcgetattr failed")?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden).context("tcsetattr failed")?;
        Ok(Hidden { before })
    }

    fn ask(&self, prompt: &str) -> Result<Vec<u8>> {
        let mut output = io::stderr();
        output.write_all(prompt.as_bytes())?;
        let mut password = Vec::new();
        for byte in io::stdin().lock().bytes() {
            match byte? {
                INTERRUPT => {
                    output.write_all(b"\n")?;
                    bail!("interrupted; nothing was changed");
                }
                b'\n' | b'\r' => break,
                8 | 127 => {
                    // A UTF-8 character has a first byte and continuation bytes.
                    while password.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
                }
                byte if password.len() <= MOST_BYTES => password.push(byte),
                _ => {}
            }
        }
        output.write_all(b"\n")?;
        Ok(password)
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // An error cannot be handled here.
        _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_with_its_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("users"), folder.path().join("link"));
        replace(&file, "one").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        replace(&link, "two").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "two");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    /// Promise: A change to the users file while `wirepath passwd` asks for a password is kept.
    #[test]
    fn what_another_changes_meanwhile_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let passwd = |user: &str| Passwd {
            file: folder.path().join("users"),
            user: user.to_owned(),
            realm: REALM.to_owned(),
        };
        let (anna, bob) = (passwd("anna"), passwd("bob"));
        let set = anna.set(|_| {
            bob.set(|_| Ok("one".to_owned()))?;
            Ok("two".to_owned())
        });
        set.unwrap();
        let users = Users::parse(&fs::read_to_string(&anna.file).unwrap()).unwrap();
        assert!(users.has("anna") && users.has("bob"));
    }
}
