//! Signals that end the program: SIGINT, SIGTERM, and SIGHUP of a closed terminal. SIGHUP may be set to
//! reload files instead.

use std::io::IsTerminal;
use std::pin::pin;
use std::{fs, io};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// Receiver of these signals.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` if SIGHUP is ignored, as under `nohup`, and once it was received.
    hang_up: Option<Signal>,
    reload: Option<Reload>,
}

/// Action on SIGHUP instead of ending the program, unless the terminal was closed.
struct Reload {
    run: Box<dyn FnMut() + Send>,
    had_terminal: bool,
}

impl Signals {
    /// Watches signals from now on; must be called on a tokio runtime.
    ///
    /// # Errors
    /// Error of `sigaction`, or no runtime.
    pub fn watch() -> io::Result<Signals> {
        let hang_up = hears_hang_up().then(|| signal(SignalKind::hangup())).transpose()?;
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up,
            reload: None,
        })
    }

    /// Runs an action on SIGHUP from now on, except for SIGHUP from a closed terminal.
    pub fn reload_on_hang_up(&mut self, run: impl FnMut() + Send + 'static) {
        self.reload = Some(Reload { run: Box::new(run), had_terminal: io::stdin().is_terminal() });
    }

    /// Receives the next signal. SIGHUP counts once: both the shell and the kernel may send it for a closed
    /// terminal.
    pub async fn next(&mut self) -> SignalKind {
        let Signals { interrupt, terminate, hang_up, reload } = self;
        loop {
            tokio::select! {
                _ = interrupt.recv() => return SignalKind::interrupt(),
                _ = terminate.recv() => return SignalKind::terminate(),
                () = hung_up(hang_up) => {}
            }
            match reload {
                // A closed terminal is no longer a terminal.
                Some(reload) if !reload.had_terminal || io::stdin().is_terminal() => (reload.run)(),
                _ => {
                    *hang_up = None;
                    return SignalKind::hangup();
                }
            }
        }
    }

    /// Runs a future that drains once its argument completes, which the first signal does after `on_signal`;
    /// a second signal ends it immediately. Returns its result; `None` after a second signal.
    pub async fn run_until_drained<T, F: Future<Output = T>>(
        &mut self,
        run: impl FnOnce(oneshot::Receiver<()>) -> F,
        on_signal: impl FnOnce(),
    ) -> Option<T> {
        let (stop, stopped) = oneshot::channel();
        let mut drained = pin!(run(stopped));
        tokio::select! {
            ended = &mut drained => return Some(ended),
            _ = self.next() => on_signal(),
        }
        drop(stop);
        tokio::select! {
            ended = drained => Some(ended),
            _ = self.next() => None,
        }
    }
}

async fn hung_up(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Returns whether SIGHUP is not ignored; if the status cannot be read, SIGHUP counts as ignored.
fn hears_hang_up() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| is_heard(&status, SignalKind::hangup()))
}

/// Returns whether a process with this status (proc_pid_status(5)) does not ignore a signal.
fn is_heard(status: &str, signal: SignalKind) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 << (signal.as_raw_value() - 1) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: SIGHUP ends relays, proxies, caches and servers as SIGTERM does, except under `nohup`.
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
