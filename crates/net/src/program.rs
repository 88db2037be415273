//! Frame of a program that serves until a signal: log, runtime, signals, draining, and the options of servers over
//! HTTP.

mod log;
mod options;
mod signals;

use std::fmt::Display;
use std::future::Future;
use std::io::{self, Write};
use std::pin::pin;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

pub use log::{Log, Losses};
pub use options::{ListenAddress, Service, ServiceOptions, bind_option, listen_address, threads};
pub use signals::Signals;

/// Time limit of draining, after which connections are cut.
const DRAIN: Duration = Duration::from_secs(10);

/// Exit code after a failure.
const FAILURE: u8 = 1;

/// Exit code if connections were cut.
const INCOMPLETE: u8 = 3;

/// Runs a server, which is to drain when what it gets becomes true, until a signal; then ends the process: with code 0,
/// with 3 if connections were cut after 10 s or by a second signal, with 1 and a message after an error.
///
/// Nothing is dropped at the end: that would wait for threads that wait for storage, possibly for minutes.
pub fn run<F, E>(name: &str, serve: impl FnOnce(watch::Receiver<bool>) -> F) -> !
where
    F: Future<Output = Result<(), E>>,
    E: Display + From<io::Error>,
{
    let log = Log::start();
    let code = match run_until_drained(&log, serve) {
        Ok(true) => 0,
        Ok(false) => INCOMPLETE,
        Err(error) => {
            // If standard error is closed, the exit code has to do.
            drop(writeln!(io::stderr(), "{name}: {error:#}"));
            FAILURE
        }
    };
    log.end();
    std::process::exit(code.into())
}

/// Runs a server; answers whether it ended within the time for draining.
fn run_until_drained<F, E>(log: &Log, serve: impl FnOnce(watch::Receiver<bool>) -> F) -> Result<bool, E>
where
    F: Future<Output = Result<(), E>>,
    E: From<io::Error>,
{
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let mut signals = Signals::watch()?;
        tokio::spawn(log.losses().report());
        let run = |stopped| drain_when(stopped, DRAIN, serve);
        signals.run_until_drained(run, || tracing::info!("draining")).await.unwrap_or(Ok(false))
    });
    runtime.shutdown_background();
    served
}

/// Serves until `stopped` completes, and drains; answers whether it did so within `limit`.
async fn drain_when<F, E>(
    stopped: oneshot::Receiver<()>,
    limit: Duration,
    serve: impl FnOnce(watch::Receiver<bool>) -> F,
) -> Result<bool, E>
where
    F: Future<Output = Result<(), E>>,
{
    let (drain, draining) = watch::channel(false);
    let mut serving = pin!(serve(draining));
    tokio::select! {
        served = &mut serving => return served.map(|()| true),
        _ = stopped => {}
    }
    drain.send_replace(true);
    timeout(limit, serving).await.map_or(Ok(false), |served| served.map(|()| true))
}

/// Announces that the program serves, by `ready` and these addresses: the one line on standard output.
///
/// # Errors
/// Standard output cannot be written.
pub fn announce(addresses: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "ready {addresses}")
        .and_then(|()| output.flush())
        .map_err(|error| io::Error::new(error.kind(), format!("cannot write to standard output: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a server that ends by `end` once it drains.
    fn served(stop: bool, end: Result<(), &'static str>) -> Result<bool, &'static str> {
        let (stopping, stopped) = oneshot::channel();
        let _stopping = (!stop).then_some(stopping); // dropping it stops
        let serve = async |mut draining: watch::Receiver<bool>| {
            if stop {
                drop(draining.wait_for(|drain| *drain).await);
            }
            end
        };
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(drain_when(stopped, DRAIN, serve))
    }

    #[test]
    fn a_server_drains_when_it_is_stopped_and_may_end_before() {
        for stop in [false, true] {
            assert_eq!(served(stop, Ok(())), Ok(true), "{stop}");
            assert_eq!(served(stop, Err("no")), Err("no"), "{stop}");
        }
    }

    #[test]
    fn a_server_that_does_not_drain_is_left_after_the_limit() {
        let (_, stopped) = oneshot::channel();
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let drained: Result<bool, io::Error> =
            runtime.block_on(drain_when(stopped, Duration::ZERO, |_| std::future::pending()));
        assert!(!drained.unwrap());
    }
}
