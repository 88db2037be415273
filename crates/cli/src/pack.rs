//! `wirepath pack`.

mod find;
mod outcome;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use tokio::task::spawn_blocking;
use tracing_subscriber::EnvFilter;
use wirepath_engine::{BlockingPool, Priority};
use wirepath_media::container::is_movie;
use wirepath_media::ts::{self, DETECTION_BYTES};
use wirepath_net::raise_descriptor_limit;
use wirepath_server::images::{self, Image, ImageFolder, ImagePolicy, Store, StoreOptions};

use crate::exit;
use crate::image_options::ImageOptions;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::serve_options::{FileOptions, ServeOptions};
use crate::{format, terminal};
use find::{Found, Verdict, find};
use outcome::{Outcome, PackResult, Packed};

/// Interval of drawing the progress bar and checking for a signal.
const TICK: Duration = Duration::from_millis(100);

/// Arguments of `wirepath pack`.
#[derive(Args)]
#[command(after_help = "\
Example:   wirepath pack --cache /var/cache/wirepath /srv/media

A server with the same --cache finds the images. Files that are already packed are left as they are; changed files \
are packed again. In folders, files that are neither transport streams nor movies, and symlinks that leave the folder, are \
skipped with a message on standard error.

Exit code: 0 if all files were packed, 1 if some were not (the others were). SIGINT, SIGTERM and SIGHUP stop the command \
and leave no unfinished image.")]
pub(crate) struct Pack {
    /// Files to pack, and folders to search for transport streams and movies
    #[arg(value_name = "PATH", required = true)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    images: ImageOptions,

    /// Take --cache and --cache-size from a server's configuration file; flags take precedence
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Make only the index, with which a server plays directly from the file; its size is 0.3 % of a file of
    /// 4 Mb/s. Files whose transport packets are not 188 bytes long get an image
    #[arg(long)]
    index: bool,

    /// Print one JSON object per file
    #[arg(long)]
    json: bool,
}

impl Pack {
    pub(crate) fn run(self) -> Result<ExitCode> {
        // This program prints its own messages. The log of the store is shown only with RUST_LOG.
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("off"));
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
        let options = match &self.config {
            Some(file) => self.images.or(FileOptions::read::<ServeOptions>(file, [])?.options.images),
            None => self.images,
        };
        raise_descriptor_limit(); // every image stays open, see `Work::kept`
        let folder = ImageFolder::open(&options.cache_folder()?, options.cache_bytes())?;
        let readers = BlockingPool::start("reader", 1, Priority::Normal)?;
        let images = if self.index { ImagePolicy::None } else { ImagePolicy::AtOnce };
        // The popularity file belongs to the server that plays from this folder.
        let keeps_popularity = false;
        let options = StoreOptions { images, keeps_popularity, ..StoreOptions::new(readers, 1) };
        let store = Store::start(folder, options)?;
        let interrupt = Interrupt::watch()?;
        let work = Work { store, interrupt, json: self.json, kept: Vec::new(), tally: Tally::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(work.run(self.files))
    }
}

struct Work {
    store: Arc<Store>,
    interrupt: Interrupt,
    json: bool,
    /// Images stay in use until the end. A cache that is too small for all of them is then an error, and
    /// packed images are not evicted.
    kept: Vec<Arc<Image>>,
    tally: Tally,
}

#[derive(Default)]
struct Tally {
    packed: u64,
    already: u64,
    failed: u64,
    skipped: u64,
}

impl Work {
    async fn run(mut self, files: Vec<PathBuf>) -> Result<ExitCode> {
        let found = spawn_blocking(move || find(&files)).await?;
        let (all, mut finished) = (found.len(), 0);
        for found in found {
            if self.interrupt.signal().is_some() {
                break;
            }
            let outcome = self.pack(found).await;
            // A file whose packing the signal interrupted has not failed.
            if self.interrupt.signal().is_none() || !matches!(outcome.result, PackResult::Failed { .. }) {
                self.report(&outcome)?;
                finished += 1;
            }
        }
        if all > 1 {
            eprint!("{}", self.tally.line());
        }
        if let Some(signal) = self.interrupt.signal() {
            let left = format::counted(all as u64 - finished, "file", "files");
            eprintln!("wirepath: stopped; {left} not packed, no unfinished image left");
            return Ok(exit::by_signal(signal));
        }
        Ok(if self.tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn pack(&mut self, found: Found) -> Outcome {
        let Found { path, verdict } = found;
        let result = match verdict {
            Verdict::Skipped(reason) => Err(PackResult::Skipped { reason: reason.to_owned() }),
            Verdict::Failed(reason) => Err(PackResult::Failed { reason }),
            Verdict::Named => self.pack_file(&path, false).await,
            Verdict::InFolder => self.pack_file(&path, true).await,
        };
        Outcome { file: path, result: result.unwrap_or_else(|result| result) }
    }

    async fn pack_file(&mut self, path: &Path, look_first: bool) -> Result<PackResult, PackResult> {
        let start = Instant::now();
        let packed_before = self.packed();
        let (store, file) = (Arc::clone(&self.store), path.to_owned());
        let image = spawn_blocking(move || open(&store, &file, look_first)).await.map_err(failed)??;
        self.complete(&image, path).await?;
        let contents = image.contents().map_err(failed)?;
        let summary = image.summary();
        let packed = Packed {
            image: self.store.path_of(&image),
            is_index: image.is_sent_from_asset(),
            duration_us: summary.duration_us.unwrap_or_default(),
            packets: contents.packets,
            trains: contents.trains,
            image_bytes: contents.stored_bytes,
            seconds: start.elapsed().as_secs_f64(),
            warnings: summary.description.warnings().clone(),
        };
        self.kept.push(image);
        let is_new = self.packed() > packed_before;
        Ok(if is_new { PackResult::Packed(packed) } else { PackResult::AlreadyPacked(packed) })
    }

    /// Waits until an image is complete, and shows its progress.
    async fn complete(&self, image: &Image, path: &Path) -> Result<(), PackResult> {
        let bar = Progress::new(path, image.plan().identity.size, !self.json);
        let mut progress = image.progress();
        let mut ticks = tokio::time::interval(TICK);
        loop {
            match &*progress.borrow_and_update() {
                images::Progress::Complete => return Ok(()),
                images::Progress::Failed(failure) => {
                    return Err(failed(&failure.reason));
                }
                images::Progress::Growing { .. } => {}
            }
            tokio::select! {
                changed = progress.changed() => changed.map_err(failed)?,
                _ = ticks.tick() => {
                    bar.done(image.asset_bytes_packed());
                    if self.interrupt.signal().is_some() {
                        self.store.stop_packing();
                    }
                }
            }
        }
    }

    fn packed(&self) -> u64 {
        let counts = self.store.counts();
        counts.packed + counts.indexed
    }

    fn report(&mut self, outcome: &Outcome) -> Result<()> {
        self.tally.add(outcome);
        eprint!("{}", outcome.remarks());
        match self.json {
            true => terminal::print(&(serde_json::to_string(outcome)? + "\n")),
            false => outcome.line().map_or(Ok(()), |line| terminal::print(&line)),
        }
    }
}

impl Tally {
    fn add(&mut self, outcome: &Outcome) {
        *match &outcome.result {
            PackResult::AlreadyPacked(_) => &mut self.already,
            PackResult::Packed(_) => &mut self.packed,
            PackResult::Skipped { .. } => &mut self.skipped,
            PackResult::Failed { .. } => &mut self.failed,
        } += 1;
    }

    fn line(&self) -> String {
        let parts = [
            (self.packed, "packed"),
            (self.already, "already packed"),
            (self.skipped, "skipped"),
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

/// Opens the image of an asset, or starts to pack it. May wait for storage.
fn open(store: &Store, path: &Path, look_first: bool) -> Result<Arc<Image>, PackResult> {
    let asset = File::open(path).map_err(|error| failed(format!("cannot open: {error}")))?;
    if look_first {
        check_head(&asset)?;
    }
    store.image(Arc::new(asset), &path.to_string_lossy(), store.usual_limits()).map_err(failed)
}

/// Skips files that are neither transport streams nor movies.
fn check_head(asset: &File) -> Result<(), PackResult> {
    // More bytes than the search for the first packet needs: the bytes after a packet prove that it is one.
    let mut head = vec![0; 2 * DETECTION_BYTES as usize];
    let length = asset.read_at(&mut head, 0);
    let length = length.map_err(|error| failed(format!("byte 0: cannot read: {error}")))?;
    if is_movie(&head[..length]) {
        return Ok(());
    }
    ts::check_head(&head[..length], length < head.len())
        .map_err(|reason| PackResult::Skipped { reason: reason.to_string() })
}

fn failed(error: impl std::fmt::Display) -> PackResult {
    PackResult::Failed { reason: error.to_string() }
}
