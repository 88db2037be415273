//! Interruption by signals: the first signal asks for a stop, a later signal ends the process at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use wirepath_net::program::Signals;

/// Time within which further signals count as the first one: `timeout`, shells and scripts signal their
/// child, and then also the process group.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// The first signal that was received, if any.
#[derive(Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicU8>);

impl Interrupt {
    /// Watches for signals from now on, on a separate thread.
    pub(crate) fn watch() -> io::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let number = Arc::clone(&interrupt.0);
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let mut signals = {
            let _inside = runtime.enter();
            Signals::watch()?
        };
        let watch = async move {
            let mut first = None;
            loop {
                let signal = signals.next().await.as_raw_value() as u8;
                let first = *first.get_or_insert_with(Instant::now);
                if first.elapsed() > SAME_SIGNAL {
                    // Namespaces, devices and child processes end together with the process.
                    std::process::exit(128 + i32::from(signal));
                }
                if number.load(Ordering::Relaxed) == 0 {
                    number.store(signal, Ordering::Relaxed);
                }
            }
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || runtime.block_on(watch))?;
        Ok(interrupt)
    }

    pub(crate) fn signal(&self) -> Option<u8> {
        Some(self.0.load(Ordering::Relaxed)).filter(|number| *number != 0)
    }
}
