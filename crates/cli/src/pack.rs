//! `wirepath pack`.

mod find;
mod outcome;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_blocking;
use tracing_subscriber::EnvFilter;
use wirepath_media::ts::{DETECTION_BYTES, Deframer};
use wirepath_net::raise_descriptor_limit;
use wirepath_server::images::{self, Cache, Image, Store};
use wirepath_streams::{BlockingPool, Importance};

use crate::image_options::ImageOptions;
use crate::progress::Progress;
use crate::serve_options::ServeOptions;
use crate::{format, terminal};
use find::{Found, Verdict, find};
use outcome::{NotPacked, Outcome, Packed};

/// How often the bar is drawn.
const TICK: Duration = Duration::from_millis(100);

/// Arguments of `wirepath pack`.
#[derive(Args)]
#[command(after_help = "\
Example:   wirepath pack --cache /var/cache/wirepath /srv/media

The server finds the images that were made with the same --cache and the same --burst. Files that were packed \
before are left as they are; files that changed are packed again. In folders, what does not look like a transport \
stream is passed over, and standard error says so.

Exit code: 0 if all was packed, 1 if something was not (the rest is). SIGINT and SIGTERM stop it; what is finished \
stays, and nothing unfinished does.")]
pub(crate) struct Pack {
    /// Files to pack, and folders to look for transport streams in
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    images: ImageOptions,

    /// Take --cache, --cache-size and --burst from a server's configuration file; flags win over it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print one JSON object for each file
    #[arg(long)]
    json: bool,
}

impl Pack {
    pub(crate) fn run(self) -> Result<ExitCode> {
        // What packing has to say is said below; the store's own log is for whoever asks for it.
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("off"));
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
        let file = self.config.as_deref().map(ServeOptions::from_file).transpose()?.unwrap_or_default();
        let options = self.images.clone().or(file.images);
        raise_descriptor_limit(); // every image stays open: see `Work::kept`
        let cache = Cache::open(&options.cache_folder()?, options.cache_bytes())?;
        let readers = BlockingPool::start("reader", 1, Importance::Equal)?;
        let store = Store::new(cache, options.burst().as_micros() as u32, readers, 1)?;
        let work = Work { store, json: self.json, kept: Vec::new(), tally: Tally::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(work.run(self.files))
    }
}

struct Work {
    store: Arc<Store>,
    json: bool,
    /// What was packed is in use until the end: a cache that is too small for all of it is an error, and not a reason
    /// to remove what was packed a minute ago.
    kept: Vec<Arc<Image>>,
    tally: Tally,
}

#[derive(Default)]
struct Tally {
    packed: u64,
    already: u64,
    failed: u64,
    passed_over: u64,
}

impl Work {
    async fn run(mut self, files: Vec<PathBuf>) -> Result<ExitCode> {
        let signalled = stop_on_signal(Arc::clone(&self.store))?;
        let found = spawn_blocking(move || find(&files)).await?;
        let (all, mut finished) = (found.len(), 0);
        for found in found {
            if signalled.get().is_some() {
                break;
            }
            let outcome = self.pack(found).await;
            // A file that was cut short is not one of those that failed.
            if signalled.get().is_none() || outcome.result.is_ok() {
                self.say(&outcome)?;
                finished += 1;
            }
        }
        if all > 1 {
            eprint!("{}", self.tally.line());
        }
        if let Some(signal) = signalled.get() {
            let left = format::counted(all as u64 - finished, "file is", "files are");
            eprintln!("wirepath: stopped; {left} not packed, and nothing unfinished is left");
            return Ok(ExitCode::from(128 + signal));
        }
        Ok(if self.tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn pack(&mut self, found: Found) -> Outcome {
        let Found { path, verdict } = found;
        let result = match verdict {
            Verdict::PassedOver(reason) => Err(NotPacked::PassedOver(reason.to_owned())),
            Verdict::Failed(reason) => Err(NotPacked::Failed(reason)),
            Verdict::Named => self.pack_file(&path, false).await,
            Verdict::InFolder => self.pack_file(&path, true).await,
        };
        Outcome { file: path, result }
    }

    async fn pack_file(&mut self, path: &Path, look_first: bool) -> Result<Packed, NotPacked> {
        let start = Instant::now();
        let packed_before = self.packed();
        let (store, file) = (Arc::clone(&self.store), path.to_owned());
        let image = spawn_blocking(move || open(&store, &file, look_first)).await.map_err(failed)??;
        self.complete(&image, path).await?;
        let contents = image.contents().map_err(failed)?;
        let summary = image.summary();
        let packed = Packed {
            already: self.packed() == packed_before,
            image: self.store.path_of(image.plan()),
            duration_us: summary.duration_us.unwrap_or_default(),
            packets: contents.packets,
            trains: contents.trains,
            image_bytes: contents.stored_bytes,
            seconds: start.elapsed().as_secs_f64(),
            warnings: summary.description.warnings,
        };
        self.kept.push(image);
        Ok(packed)
    }

    /// Waits until an image is complete, and says how far it is.
    async fn complete(&self, image: &Image, path: &Path) -> Result<(), NotPacked> {
        let bar = Progress::new(path, image.plan().identity.size, !self.json);
        let mut progress = image.progress();
        let mut ticks = tokio::time::interval(TICK);
        loop {
            match &*progress.borrow_and_update() {
                images::Progress::Complete => return Ok(()),
                images::Progress::Failed(failure) => {
                    return Err(NotPacked::Failed(failure.reason.to_string()));
                }
                images::Progress::Growing { .. } => {}
            }
            tokio::select! {
                changed = progress.changed() => changed.map_err(failed)?,
                _ = ticks.tick() => bar.done(image.asset_bytes_packed()),
            }
        }
    }

    /// Images that were packed, not found.
    fn packed(&self) -> u64 {
        self.store.counts().packed
    }

    fn say(&mut self, outcome: &Outcome) -> Result<()> {
        self.tally.add(outcome);
        eprint!("{}", outcome.remarks());
        match self.json {
            true => terminal::print(&outcome.json()),
            false => outcome.line().map_or(Ok(()), |line| terminal::print(&line)),
        }
    }
}

impl Tally {
    fn add(&mut self, outcome: &Outcome) {
        *match &outcome.result {
            Ok(packed) if packed.already => &mut self.already,
            Ok(_) => &mut self.packed,
            Err(NotPacked::PassedOver(_)) => &mut self.passed_over,
            Err(NotPacked::Failed(_)) => &mut self.failed,
        } += 1;
    }

    fn line(&self) -> String {
        let parts = [
            (self.packed, "packed"),
            (self.already, "already packed"),
            (self.passed_over, "passed over"),
            (self.failed, "failed"),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, what)| format!("{} {what}", format::count(number)))
            .collect();
        format!("{}\n", parts.join(", "))
    }
}

/// Stops packing on the first SIGINT or SIGTERM, whose number it answers with from then on. The second ends the process
/// at once; then what is unfinished is removed when the cache is next opened.
fn stop_on_signal(store: Arc<Store>) -> io::Result<Arc<OnceLock<u8>>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let signalled = Arc::new(OnceLock::new());
    let first = Arc::clone(&signalled);
    tokio::spawn(async move {
        loop {
            let number = tokio::select! {
                _ = interrupt.recv() => SignalKind::interrupt().as_raw_value() as u8,
                _ = terminate.recv() => SignalKind::terminate().as_raw_value() as u8,
            };
            store.stop_packing();
            if first.set(number).is_err() {
                std::process::exit(128 + i32::from(number));
            }
        }
    });
    Ok(signalled)
}

/// Opens an asset's image, or begins it. May wait for storage.
fn open(store: &Store, path: &Path, look_first: bool) -> Result<Arc<Image>, NotPacked> {
    let asset = File::open(path).map_err(|error| NotPacked::Failed(format!("cannot be opened: {error}")))?;
    if look_first {
        look(&asset)?;
    }
    store.image(Arc::new(asset), &path.to_string_lossy(), store.usual_recipe()).map_err(failed)
}

/// Passes over what does not look like a transport stream.
fn look(asset: &File) -> Result<(), NotPacked> {
    let mut head = vec![0; 2 * DETECTION_BYTES as usize];
    let length = asset
        .read_at(&mut head, 0)
        .map_err(|error| NotPacked::Failed(format!("byte 0: cannot be read: {error}")))?;
    let mut deframer = Deframer::new();
    let mut input = &head[..length];
    let framed = deframer.next(&mut input).map(|event| event.is_some());
    match framed
        .and_then(|framed| if framed { Ok(true) } else { deframer.finish().map(|event| event.is_some()) })
    {
        Ok(_) => Ok(()),
        Err(reason) => Err(NotPacked::PassedOver(reason.to_string())),
    }
}

fn failed(error: impl std::fmt::Display) -> NotPacked {
    NotPacked::Failed(error.to_string())
}
