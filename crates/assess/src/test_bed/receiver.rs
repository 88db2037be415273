//! Process of the receiver.

use std::io::{BufRead, BufReader, Read};
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::error::{Doing, Error};
use crate::sink::Remote;

/// Process of this program as `assess sink`, in the namespace of the thread that starts it. The process exits
/// when its standard input is closed: when this value is dropped, and when this process is killed.
#[derive(Debug)]
pub(super) struct Receiver {
    child: Child,
    remote: Remote,
}

/// First line of a receiver on standard output, up to the address.
pub const LISTENING: &str = "listening on ";

impl Receiver {
    /// Starts the process on a free port at this address, and waits until it listens.
    pub(super) fn start(address: IpAddr) -> Result<Receiver, Error> {
        // The link itself is executed, not its target: the file may have been replaced since this program
        // started.
        let mut command = Command::new("/proc/self/exe");
        command.args(["assess", "sink", "--while-stdin", "--listen", &format!("{address}:0")]);
        // Ctrl-C at the terminal is handled by this process: a run in progress is completed.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().doing("starting the receiver")?;
        let line = child.stdout.take().map(first_line).transpose().doing("hearing of the receiver")?;
        let said = line.as_deref().and_then(|line| line.trim_end().strip_prefix(LISTENING)?.parse().ok());
        let receiver = |address| Receiver { remote: Remote { address }, child };
        said.map(receiver).ok_or_else(|| Error::SinkStopped {
            sink: address.to_string(),
            why: format!("unexpected output {line:?} at its start"),
        })
    }

    pub(super) fn remote(&self) -> Remote {
        self.remote.clone()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // The receiver has no state to save, and may have exited already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn first_line(output: impl Read) -> std::io::Result<String> {
    let mut line = String::new();
    BufReader::new(output.take(200)).read_line(&mut line)?;
    Ok(line)
}
