//! Signals that end the program: SIGINT, SIGTERM, and SIGHUP of a closed terminal.

use std::pin::pin;
use std::{fs, io};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// Receiver of these signals.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// None where it is ignored, as under `nohup`, and once it was received.
    hang_up: Option<Signal>,
}

impl Signals {
    /// Watches for signals from now on; must be called on a tokio runtime.
    pub(crate) fn watch() -> io::Result<Signals> {
        let hang_up = hears_hang_up().then(|| signal(SignalKind::hangup())).transpose()?;
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up,
        })
    }

    /// Receives the next signal. SIGHUP counts once: both the shell and the kernel may send it for a closed
    /// terminal.
    pub(crate) async fn next(&mut self) -> SignalKind {
        let Signals { interrupt, terminate, hang_up } = self;
        tokio::select! {
            _ = interrupt.recv() => SignalKind::interrupt(),
            _ = terminate.recv() => SignalKind::terminate(),
            () = hung_up(hang_up) => {
                *hang_up = None;
                SignalKind::hangup()
            }
        }
    }

    /// Runs what drains once its argument completes, which the first signal does after `on_signal`; a second
    /// signal ends it at once. Answers whether it drained in time.
    pub(crate) async fn run_until_drained<F: Future<Output = bool>>(
        &mut self,
        run: impl FnOnce(oneshot::Receiver<()>) -> F,
        on_signal: impl FnOnce(),
    ) -> bool {
        let (stop, stopped) = oneshot::channel();
        let mut drained = pin!(run(stopped));
        tokio::select! {
            in_time = &mut drained => return in_time,
            _ = self.next() => on_signal(),
        }
        drop(stop);
        tokio::select! {
            in_time = drained => in_time,
            _ = self.next() => false,
        }
    }
}

async fn hung_up(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Says whether SIGHUP is not ignored; without an answer of the system it counts as ignored.
fn hears_hang_up() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| is_heard(&status, SignalKind::hangup()))
}

/// Says whether a process with this status (proc_pid_status(5)) does not ignore a signal.
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
    fn ignored_signals_are_not_heard() {
        let heard = |status, signal| is_heard(status, signal);
        let nohup = "Name:\twirepath\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        assert!(!heard(nohup, SignalKind::hangup()));
        assert!(heard(nohup, SignalKind::interrupt()));
        assert!(heard("SigIgn:\t0000000000001000\n", SignalKind::hangup()));
        assert!(!heard("Name:\twirepath\n", SignalKind::hangup()), "unknown");
    }
}
