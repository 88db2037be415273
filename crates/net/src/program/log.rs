//! Log on standard error, written by a separate thread: a reader that stops reading must not block serving
//! threads.

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

use crate::http::JSON_TARGET;

/// Maximum number of lines that wait to be written, some 200 bytes each. Further lines are dropped and
/// counted.
const MAX_LINES: usize = 4096;

/// Interval of checks for lost lines.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Log of the process, until drop.
pub struct Log {
    losses: Losses,
    _writing: WorkerGuard,
}

/// Counter of dropped lines.
#[derive(Clone)]
pub struct Losses {
    lost: ErrorCounter,
    reported: usize,
}

impl Log {
    /// Starts the log of the process; `RUST_LOG` sets its level.
    pub fn start() -> Log {
        let (writer, writing) = NonBlockingBuilder::default()
            .buffered_lines_limit(MAX_LINES)
            .lossy(true)
            .thread_name("log")
            .finish(std::io::stderr());
        let losses = Losses { lost: writer.error_counter(), reported: 0 };
        let variable = std::env::var_os(EnvFilter::DEFAULT_ENV);
        let variable = variable.map(|variable| variable.to_string_lossy().into_owned());
        let chosen = variable.as_deref().map_or_else(|| Ok(default_filter()), filter);
        let invalid = chosen.as_ref().err().cloned();
        tracing_subscriber::fmt()
            .with_env_filter(chosen.unwrap_or_else(|_| default_filter()))
            .with_writer(writer)
            .with_ansi(std::io::stderr().is_terminal())
            .event_format(Lines)
            .init();
        if let Some(invalid) = invalid {
            tracing::warn!("invalid RUST_LOG; using info: {invalid}");
        }
        Log { losses, _writing: writing }
    }

    /// Counter of lines dropped from now on.
    pub fn losses(&self) -> Losses {
        self.losses.clone()
    }

    /// Writes waiting lines, for about a second at most: the reader may never read again. Closes standard
    /// output.
    pub fn end(self) {
        // A closed standard output does not delay the end.
        _ = std::io::stdout().flush();
        // If the queue stays full, the guard prints a message on standard output, which may block and is
        // reserved for the `ready` line. Without /dev/null the message is printed after all.
        _ = File::open("/dev/null").map(rustix::stdio::dup2_stdout);
    }
}

fn default_filter() -> EnvFilter {
    EnvFilter::new("info")
}

/// Parses the filter of `RUST_LOG`. The library would take a misspelled level for the name of a module.
fn filter(variable: &str) -> Result<EnvFilter, String> {
    let directives = variable.split(',').map(str::trim).filter(|directive| !directive.is_empty());
    let is_valid = |word: &str| {
        word.contains(['=', '[', ':']) || word.starts_with("wirepath") || word.parse::<LevelFilter>().is_ok()
    };
    for word in directives {
        if !is_valid(word) {
            return Err(format!("unknown level {word}: expected error, warn, info, debug, trace or off"));
        }
    }
    EnvFilter::try_new(variable).map_err(|error| format!("{variable}: {error}"))
}

/// Lines with time, level and target, except JSON lines of the access log.
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
    /// Logs dropped lines while it is polled.
    pub async fn report(mut self) {
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            let lost = self.lost.dropped_lines();
            if lost > self.reported {
                tracing::warn!(
                    lines = lost - self.reported,
                    "log lines were lost: the reader of the log is too slow"
                );
            }
            // If that line was dropped as well, it is logged again.
            if self.lost.dropped_lines() == lost {
                self.reported = lost;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: An invalid `RUST_LOG` is reported once, and the log level is the default.
    #[test]
    fn a_misspelled_level_is_told_from_a_module() {
        for right in
            ["debug", "WARN", "off", "", "wirepath_server", "info,hyper=off", "[span{field=1}]=debug", "a::b"]
        {
            assert!(filter(right).is_ok(), "{right}");
        }
        for (wrong, word) in [
            ("debgu", "unknown level debgu"),
            ("info, verbose", "unknown level verbose"),
            ("wirepath=debgu", "wirepath=debgu: "),
        ] {
            let said = filter(wrong).unwrap_err();
            assert!(said.starts_with(word), "{said}");
        }
    }
}
