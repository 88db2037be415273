//! Other programs, with a deadline and no survivors.

use std::ffi::OsStr;
use std::io::{ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::Deadline;

/// A running program in a process group of its own; the group is killed when this is dropped.
pub struct Process {
    name: String,
    child: Child,
    log: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

impl Process {
    /// Starts `command`. What it prints on standard error is kept, and on standard output too unless that is
    /// piped.
    pub fn start(command: &Command, keep_stdout: bool) -> Result<Self> {
        Self::spawn(command, keep_stdout, Stdio::null())
    }

    /// Starts `command` with its standard input and output piped.
    pub fn start_with_input(command: &Command) -> Result<(Self, ChildStdin)> {
        let mut process = Self::spawn(command, false, Stdio::piped())?;
        let input = process.child.stdin.take().context("standard input is piped")?;
        Ok((process, input))
    }

    fn spawn(command: &Command, keep_stdout: bool, stdin: Stdio) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut command = dying_with_us(command);
        command.process_group(0).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let log = Arc::default();
        let mut readers = Vec::new();
        if let Some(stream) = child.stderr.take() {
            readers.push(collect(stream, Arc::clone(&log)));
        }
        if keep_stdout && let Some(stream) = child.stdout.take() {
            readers.push(collect(stream, Arc::clone(&log)));
        }
        Ok(Self { name, child, log, readers })
    }

    /// The program's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its standard output, if it was not kept.
    pub fn take_stdout(&mut self) -> Result<std::process::ChildStdout> {
        self.child.stdout.take().context("standard output is taken")
    }

    /// Output so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&self.log.lock().expect("readers do not panic")).into_owned()
    }

    /// Waits for its end.
    pub fn wait(&mut self, deadline: Deadline) -> Result<ExitStatus> {
        let pidfd = pidfd_open(self.process(), PidfdFlags::empty()).context("pidfd_open")?;
        let left = Timespec::try_from(deadline.left()).context("deadline too far")?;
        let ended = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&left)).context("poll")?;
        ensure!(ended == 1, "{} did not end in time; it printed:\n{}", self.name, self.log());
        let status = self.child.wait().context("wait")?;
        // A daemon that it left behind may hold its output open.
        kill_group(self.process());
        for reader in self.readers.drain(..) {
            reader.join().map_err(|_| anyhow::anyhow!("the reader of {} panicked", self.name))?;
        }
        Ok(status)
    }

    /// Waits for its end, which must be a good one.
    pub fn succeed(&mut self, deadline: Deadline) -> Result<String> {
        let status = self.wait(deadline)?;
        ensure!(status.success(), "{} ended with {status}; it printed:\n{}", self.name, self.log());
        Ok(self.log())
    }

    /// Returns whether it has not ended.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait().context("wait")?.is_none())
    }

    /// Sends it alone a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        rustix::process::kill_process(self.process(), signal).context("kill")
    }

    fn process(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        kill_group(self.process());
        // It was just killed: this only collects it. There is nobody left to tell of an error.
        self.child.wait().ok();
    }
}

/// The same command, killed by the kernel when the test that started it is: then nothing of ours is dropped. The
/// kernel forgets this for a process that changes its user: a server with `--user` runs on then.
fn dying_with_us(command: &Command) -> Command {
    let mut wrapped = Command::new("setpriv");
    wrapped.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        wrapped.current_dir(folder);
    }
    wrapped
}

fn kill_group(group: Pid) {
    // A group without processes is what we want.
    kill_process_group(group, Signal::KILL).ok();
}

fn collect(mut stream: impl Read + Send + 'static, log: Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            log.lock().expect("readers do not panic").extend_from_slice(&buffer[..length]);
        }
    })
}

/// Runs a program to its good end and answers what it printed.
pub fn run<S: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = S>,
    seconds: f64,
) -> Result<String> {
    Process::start(Command::new(program).args(arguments), true)?.succeed(Deadline::seconds(seconds))
}

/// The folder of this build, `target/PROFILE`: this program is in it, or, a test, in its `deps`.
pub fn profile_folder() -> Result<PathBuf> {
    let program = std::env::current_exe().context("finding this program's own binary")?;
    let folder = program.parent().context("this program is in no folder")?;
    let profile = if folder.ends_with("deps") { folder.parent() } else { Some(folder) };
    Ok(profile.context("this program is in no target folder")?.to_owned())
}

/// Path of `program` in PATH or the administrators' folders.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Returns whether this process may do what only root may.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Number of open descriptors of a process.
pub fn descriptors(pid: u32) -> Result<usize> {
    let folder = format!("/proc/{pid}/fd");
    Ok(std::fs::read_dir(&folder).with_context(|| folder.clone())?.count())
}

/// A number of `/proc/PID/status`, such as `VmRSS` (in kB) or `Threads`.
pub fn status_number(pid: u32, field: &str) -> Result<u64> {
    let file = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&file).with_context(|| file.clone())?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    number.with_context(|| format!("{file} has no {field}"))
}

/// Texts of a file of `/proc/PID/task/THREAD` of all threads. A thread that ends meanwhile has none.
pub fn of_threads(pid: u32, file: &str) -> Result<Vec<String>> {
    let folder = format!("/proc/{pid}/task");
    let mut texts = Vec::new();
    for thread in std::fs::read_dir(&folder).with_context(|| folder.clone())? {
        match std::fs::read_to_string(thread?.path().join(file)) {
            Ok(text) => texts.push(text),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => {}
            Err(error) => return Err(error).with_context(|| format!("{file} of a thread in {folder}")),
        }
    }
    Ok(texts)
}

/// A folder that any user may use, for programs that refuse to run as root.
pub fn open_folder() -> Result<tempfile::TempDir> {
    open_folder_in(&std::env::temp_dir())
}

/// The same in another folder than that of temporary files.
pub fn open_folder_in(parent: &Path) -> Result<tempfile::TempDir> {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir_in(parent).context("making a temporary folder")?;
    let everyone = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder.path(), everyone).context("opening it to everyone")?;
    Ok(folder)
}

/// `program` as an ordinary user, whoever runs the tests, at home in `home`.
pub fn as_ordinary_user(program: &str, home: &Path) -> Command {
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--", program]);
        command
    } else {
        Command::new(program)
    };
    command.current_dir(home).env("HOME", home).env("XDG_RUNTIME_DIR", home).env_remove("DISPLAY");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_end_are_seen() {
        assert_eq!(run("sh", ["-c", "echo out; echo err >&2"], 5.0).unwrap().len(), 8);
        assert!(run("sh", ["-c", "echo no; exit 3"], 5.0).unwrap_err().to_string().contains("no"));
    }

    #[test]
    fn what_does_not_end_is_an_error_and_is_killed() {
        let mut process = Process::start(Command::new("sleep").arg("60"), true).unwrap();
        let pid = process.pid();
        assert!(
            process.wait(Deadline::seconds(0.05)).unwrap_err().to_string().contains("did not end in time")
        );
        assert_eq!(status_number(pid, "Threads").unwrap(), 1);
        drop(process);
        assert!(descriptors(pid).is_err());
    }
}
