//! Signals to end: the first asks to stop at the end of the current run, one that comes later ends the process at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Builder;

use crate::ending::Ending;

/// Signals that come within this time of the first are the same wish: `timeout` signals its child and then the group of both, and a
/// shell the group beside a script that does so itself.
const ONE_WISH: Duration = Duration::from_millis(500);

/// Whether, and by which signal, it is asked to stop.
#[derive(Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicU8>);

impl Interrupt {
    /// Watches for signals from now on, on a thread that sleeps until there is one.
    pub(crate) fn watch() -> io::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let number = Arc::clone(&interrupt.0);
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let mut ending = {
            let _inside = runtime.enter();
            Ending::watch()?
        };
        let watch = async move {
            let mut first = None;
            loop {
                let signal = ending.signal().await.as_raw_value() as u8;
                let first = *first.get_or_insert_with(Instant::now);
                if first.elapsed() > ONE_WISH {
                    // Namespaces, devices and receivers end with the process.
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

    /// The signal that asked to stop.
    pub(crate) fn signal(&self) -> Option<u8> {
        Some(self.0.load(Ordering::Relaxed)).filter(|number| *number != 0)
    }
}
