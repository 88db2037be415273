//! The log of a server: lines on standard error, written by a thread of their own. Who reads them may stop reading, and neither
//! the thread that answers everybody nor one that sends may wait for that.

use std::fmt;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use tracing::{Event, Subscriber};
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;
use wirepath_net::http::JSON_TARGET;

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
        let asked = std::env::var_os(EnvFilter::DEFAULT_ENV);
        let asked = asked.map(|asked| asked.to_string_lossy().into_owned());
        let asked_filter = asked.as_deref().map_or_else(|| Ok(usual()), filter);
        let wrong = asked_filter.as_ref().err().cloned();
        tracing_subscriber::fmt()
            .with_env_filter(asked_filter.unwrap_or_else(|_| usual()))
            .with_writer(writer)
            .with_ansi(std::io::stderr().is_terminal())
            .event_format(Lines)
            .init();
        if let Some(wrong) = wrong {
            tracing::warn!("RUST_LOG is not heeded: {wrong}");
        }
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

/// What is in the log unless somebody says otherwise.
fn usual() -> EnvFilter {
    EnvFilter::new("info")
}

/// What is asked to be in the log.
///
/// # Errors
/// What is wrong with it. A word that is no level is the name of a module to the filter, which then has that alone: of a level that is
/// misspelled nothing would be left.
fn filter(asked: &str) -> Result<EnvFilter, String> {
    let directives = asked.split(',').map(str::trim).filter(|directive| !directive.is_empty());
    let is_meant = |word: &str| {
        word.contains(['=', '[', ':']) || word.starts_with("wirepath") || word.parse::<LevelFilter>().is_ok()
    };
    for word in directives {
        if !is_meant(word) {
            return Err(format!("{word} is no level; there are error, warn, info, debug, trace and off"));
        }
    }
    EnvFilter::try_new(asked).map_err(|error| format!("{asked}: {error}"))
}

/// Lines with time, level and target, but for those of the access log that are JSON.
struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if event.metadata().target() != JSON_TARGET {
            return Format::default().format_event(context, writer, event);
        }
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: An invalid `RUST_LOG` is reported once, and the level is the default.
    #[test]
    fn a_level_that_is_misspelled_is_told_from_a_module() {
        for right in
            ["debug", "WARN", "off", "", "wirepath_server", "info,hyper=off", "[span{field=1}]=debug", "a::b"]
        {
            assert!(filter(right).is_ok(), "{right}");
        }
        for (wrong, word) in [
            ("debgu", "debgu is no level"),
            ("info, verbose", "verbose is no level"),
            ("wirepath=debgu", "wirepath=debgu: "),
        ] {
            let said = filter(wrong).unwrap_err();
            assert!(said.starts_with(word), "{said}");
        }
    }
}
