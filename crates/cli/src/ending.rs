//! Signals that ask a program to end: SIGINT, SIGTERM, and SIGHUP of a terminal that is closed.

use std::{fs, io};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for them.
pub(crate) struct Ending {
    interrupt: Signal,
    terminate: Signal,
    /// None where it is ignored, as behind `nohup`, and once it has come.
    hang_up: Option<Signal>,
}

impl Ending {
    /// Watches for signals from now on; within a runtime.
    pub(crate) fn watch() -> io::Result<Ending> {
        let hang_up = may_hang_up().then(|| signal(SignalKind::hangup())).transpose()?;
        Ok(Ending {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up,
        })
    }

    /// The next one. A hang-up counts once: a shell and the kernel may both tell of a terminal that is closed.
    pub(crate) async fn signal(&mut self) -> SignalKind {
        let Ending { interrupt, terminate, hang_up } = self;
        tokio::select! {
            _ = interrupt.recv() => SignalKind::interrupt(),
            _ = terminate.recv() => SignalKind::terminate(),
            () = hung_up(hang_up) => {
                *hang_up = None;
                SignalKind::hangup()
            }
        }
    }
}

async fn hung_up(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Whether a hang-up is for us: not if whoever started us has it ignored. Where the system does not say, it stays as it is.
fn may_hang_up() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| is_heard(&status, SignalKind::hangup()))
}

/// Whether a process with this status (proc_pid_status(5)) does not ignore a signal.
fn is_heard(status: &str, signal: SignalKind) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 << (signal.as_raw_value() - 1) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: SIGHUP ends relays, proxies, caches and servers as SIGTERM does; `nohup` keeps it away.
    #[test]
    fn what_is_ignored_is_not_heard() {
        let heard = |status, signal| is_heard(status, signal);
        let nohup = "Name:\twirepath\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        assert!(!heard(nohup, SignalKind::hangup()));
        assert!(heard(nohup, SignalKind::interrupt()));
        assert!(heard("SigIgn:\t0000000000001000\n", SignalKind::hangup()));
        assert!(!heard("Name:\twirepath\n", SignalKind::hangup()), "nobody knows");
    }
}
