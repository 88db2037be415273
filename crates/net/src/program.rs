//! Frame of a program that serves until a signal: log, runtime, signals, draining, and options of HTTP
//! servers.

mod log;
mod options;
mod signals;
mod unknown_key;

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
pub use unknown_key::{unknown_field, unknown_key};

/// Time limit of draining, after which connections are cut.
const DRAIN: Duration = Duration::from_secs(10);

/// Exit code after a failure.
const FAILURE: u8 = 1;

/// Exit code if connections were cut.
const INCOMPLETE: u8 = 3;

/// Runs a server until a signal; the server has to drain when the value of its argument becomes true. Then
/// ends the process: with code 0, with 3 if connections were cut after 10 s or by a second signal, with 1 and
/// a message after an error.
///
/// Nothing is dropped at the end, since that would wait for threads that wait for storage, possibly for
/// minutes.
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
            // If standard error is closed, the exit code is the only report.
            drop(writeln!(io::stderr(), "{name}: {error:#}"));
            FAILURE
        }
    };
    log.end();
    std::process::exit(code.into())
}

/// Runs a server; returns whether it ended within the time limit of draining.
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

/// Serves until `stopped` completes, and drains; returns whether draining ended within `limit`.
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

/// Ends the process with code 1: the [`on_panic`](wirepath_engine::EngineOptions::on_panic) of servers. Without one of
/// its engine threads a server would serve some of its clients only; its service manager restarts a process that
/// fails.
pub fn end_after_panic(message: &str) {
    // Not by the log: the process does not wait for the log's thread. If standard error is closed, the exit code is the
    // only report.
    drop(writeln!(
        io::stderr(),
        "an engine thread panicked: {message}; its clients are lost, so the process ends: this is a bug, report it"
    ));
    std::process::exit(FAILURE.into())
}

/// Announces readiness by `ready` and these addresses: the only line on standard output.
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
    use std::process::Command;

    use wirepath_engine::{BlockingPool, Context, Engine, EngineOptions, Placement, Task};

    use super::*;

    /// Panics at its start.
    struct Panicking;

    impl Task for Panicking {
        fn start(&mut self, _context: &mut Context<'_>) {
            panic!("on purpose");
        }

        fn end(self: Box<Self>, _pool: &BlockingPool) {}
    }

    /// Promise: A panic on an engine thread of a server ends the process with exit code 1 and a message.
    #[test]
    fn a_panic_of_an_engine_thread_ends_the_process() {
        const IS_SERVER: &str = "WIREPATH_TEST_PANICS";
        if std::env::var_os(IS_SERVER).is_some() {
            let options = EngineOptions { on_panic: Some(end_after_panic), ..EngineOptions::default() };
            let engine = Engine::start(options).unwrap();
            engine.spawn(Box::new(Panicking), Placement::default());
            drop(engine); // waits for the thread, which ends the process
            return;
        }
        let test = "program::tests::a_panic_of_an_engine_thread_ends_the_process";
        let mut server = Command::new(std::env::current_exe().unwrap());
        let output = server.args([test, "--exact", "--nocapture"]).env(IS_SERVER, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(FAILURE.into()), "{said}");
        assert!(said.contains("an engine thread panicked: on purpose"), "{said}");
    }

    /// Runs a server that ends with `end` when it drains.
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
