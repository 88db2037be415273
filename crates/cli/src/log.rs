//! The log of a server: lines on standard error, written by a thread of their own. Who reads them may stop reading, and neither
//! the thread that answers everybody nor one that sends may wait for that.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

/// Lines that may wait to be written, some 200 bytes each. What comes when so many wait is lost, and counted.
const LINES: usize = 4096;

/// How often it is looked whether lines were lost.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// Has what the process logs written, until it is dropped.
pub(crate) struct Log {
    losses: Losses,
    _writing: WorkerGuard,
}

/// Lines that were lost, and how many of them the log has told of.
#[derive(Clone)]
pub(crate) struct Losses {
    lost: ErrorCounter,
    told: usize,
}

impl Log {
    /// Takes the log of the whole process; `RUST_LOG` says what is in it.
    pub(crate) fn start() -> Log {
        let (writer, writing) = NonBlockingBuilder::default()
            .buffered_lines_limit(LINES)
            .lossy(true)
            .thread_name("log")
            .finish(std::io::stderr());
        let losses = Losses { lost: writer.error_counter(), told: 0 };
        tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info")))
            .with_writer(writer)
            .with_ansi(std::io::stderr().is_terminal())
            .init();
        Log { losses, _writing: writing }
    }

    /// The lines that are lost from now on.
    pub(crate) fn losses(&self) -> Losses {
        self.losses.clone()
    }

    /// Writes what waits, for about a second at most: who has stopped reading may never begin again. Standard output is closed.
    pub(crate) fn end(self) {
        // That nobody reads what was printed is no reason to stay.
        _ = std::io::stdout().flush();
        // Where the queue stays full, the guard prints that. It is not for those who wait for the line that says `ready`, and may
        // block. Without /dev/null it is printed after all.
        _ = File::open("/dev/null").map(rustix::stdio::dup2_stdout);
    }
}

impl Losses {
    /// Tells of losses as long as it is polled.
    pub(crate) async fn tell(mut self) {
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let lost = self.lost.dropped_lines();
            if lost > self.told {
                tracing::warn!(
                    lines = lost - self.told,
                    "the log was not read in time; lines of it are missing"
                );
            }
            // If that line was lost as well, it is told again.
            if self.lost.dropped_lines() == lost {
                self.told = lost;
            }
        }
    }
}
