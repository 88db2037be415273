//! The receiver's process.

use std::io::{BufRead, BufReader, Read};
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::error::{Doing, Error};
use crate::sink::Remote;

/// Process of this program as `assess sink`, in the namespace of the thread that starts it. It ends when its
/// standard input does: when this is dropped, and when this process is killed.
#[derive(Debug)]
pub(super) struct Receiver {
    child: Child,
    remote: Remote,
}

/// First line of a receiver on standard output, without the address behind it.
pub const LISTENING: &str = "listening on ";

impl Receiver {
    /// Starts it on a port of its choice at this address, and waits until it listens.
    pub(super) fn start(address: IpAddr) -> Result<Receiver, Error> {
        // Of the link's name and not of what it points to: the file may have been replaced since this program
        // started.
        let mut command = Command::new("/proc/self/exe");
        command.args(["assess", "sink", "--while-stdin", "--listen", &format!("{address}:0")]);
        // Ctrl-C at the terminal is for us: a run that is under way goes on to its end.
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
        // It keeps nothing that a gentle end would save. It may have ended by itself, which is as good.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn first_line(output: impl Read) -> std::io::Result<String> {
    let mut line = String::new();
    BufReader::new(output.take(200)).read_line(&mut line)?;
    Ok(line)
}
