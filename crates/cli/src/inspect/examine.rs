//! Reads and examines a file.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use wirepath_media::container::MovieReader;
use wirepath_media::image::{self, Header, Recipe, Table};
use wirepath_media::inspect::{AssetInspector, ImageInspector, MovieInspector, MovieReport, Report};
use wirepath_server::images::{USUAL_LIMITS, read_image};

use crate::format;
use crate::progress::Progress;

/// First bytes of an image. Packets of an asset begin with another byte.
const IMAGE_MAGIC: &[u8] = b"WIREPATH";

/// Number of bytes that distinguish the kinds of files.
const HEAD_LENGTH: usize = 16;

/// Number of bytes of an asset read at a time.
const READ_LENGTH: usize = 1 << 20;

/// Contents of a file.
pub(super) enum Found {
    /// Transport stream, or an image of a transport stream.
    Stream(Box<Inspection>),
    /// MP4 or Matroska file.
    Movie(Box<Movie>),
}

/// MP4 or Matroska file.
pub(super) struct Movie {
    pub(super) file: PathBuf,
    pub(super) size_bytes: u64,
    pub(super) report: MovieReport,
}

pub(super) struct Inspection {
    pub(super) file: PathBuf,
    pub(super) size_bytes: u64,
    /// Recipe of the image's trains; for an asset, the default recipe.
    pub(super) recipe: Recipe,
    pub(super) report: Report,
    /// Facts about an image; None for an asset.
    pub(super) image: Option<ImageFacts>,
}

/// Facts that only an image has.
pub(super) struct ImageFacts {
    pub(super) header: Header,
    pub(super) segments: usize,
    pub(super) damage: Vec<Damage>,
}

pub(super) struct Damage {
    pub(super) segment: usize,
    /// Offset of the segment in the file.
    pub(super) offset: u64,
    pub(super) reason: String,
}

impl Inspection {
    pub(super) fn damage(&self) -> &[Damage] {
        self.image.as_ref().map_or(&[], |image| &image.damage)
    }
}

/// Reads the file at `path`, with a progress bar if `shown`. Of MP4 and Matroska files, only the boxes or
/// elements are read; other files are read completely.
pub(super) fn examine(path: &Path, shown: bool) -> Result<Found> {
    examine_file(path, shown).with_context(|| format::name(path))
}

fn examine_file(path: &Path, shown: bool) -> Result<Found> {
    let facts = fs::metadata(path).context("cannot open")?;
    ensure!(!facts.is_dir(), "is a folder; name a file in it");
    ensure!(facts.is_file(), "not a regular file"); // opening a FIFO would block
    let file = File::open(path).context("cannot open")?;
    let size_bytes = facts.len();
    ensure!(size_bytes > 0, "the file is empty");
    let progress = Progress::new(path, size_bytes, shown);
    let mut head = [0; HEAD_LENGTH];
    let length = file.read_at(&mut head, 0).context("byte 0: cannot read")?;
    let head = &head[..length];
    let path = path.to_owned();
    if let Some(reader) = MovieReader::of(head, size_bytes) {
        let report = examine_movie(&file, reader, &progress)?;
        return Ok(Found::Movie(Box::new(Movie { file: path, size_bytes, report })));
    }
    if head.starts_with(IMAGE_MAGIC) {
        let (report, image) = examine_image(&file, &progress)?;
        let recipe = image.header.plan.recipe;
        let inspection = Inspection { file: path, size_bytes, recipe, report, image: Some(image) };
        return Ok(Found::Stream(Box::new(inspection)));
    }
    let recipe = USUAL_LIMITS.transport_stream();
    let report = examine_asset(&file, recipe, &progress)?;
    Ok(Found::Stream(Box::new(Inspection { file: path, size_bytes, recipe, report, image: None })))
}

fn examine_movie(file: &File, reader: MovieReader, progress: &Progress) -> Result<MovieReport> {
    let mut inspector = MovieInspector::new(reader);
    while let Some(wanted) = inspector.wanted() {
        // The reader limits the length, and requests no bytes beyond the end of the file.
        let mut bytes = vec![0; wanted.length as usize];
        let offset = wanted.offset;
        file.read_exact_at(&mut bytes, offset).with_context(|| format!("byte {offset}: cannot read"))?;
        inspector.take(bytes)?;
        progress.done(wanted.end());
    }
    inspector.finish()?.context("the inspection has ended")
}

fn examine_asset(file: &File, recipe: Recipe, progress: &Progress) -> Result<Report> {
    let mut inspector = AssetInspector::new(recipe)?;
    let mut buffer = vec![0; READ_LENGTH];
    let mut offset = 0;
    loop {
        let length =
            file.read_at(&mut buffer, offset).with_context(|| format!("byte {offset}: cannot read"))?;
        if length == 0 {
            return Ok(inspector.finish()?);
        }
        inspector.push(&buffer[..length])?;
        offset += length as u64;
        progress.done(offset);
    }
}

fn examine_image(file: &File, progress: &Progress) -> Result<(Report, ImageFacts)> {
    let (header, table) = read_image(file)?;
    let mut inspector = ImageInspector::new(&header, &table);
    let mut damage = Vec::new();
    for segment in 0..table.segments.len() {
        let (offset, bytes) = read_segment(file, &table, segment)?;
        if let Err(error) = inspector.push(segment, &bytes) {
            damage.push(Damage { segment, offset, reason: error.to_string() });
        }
        progress.done(offset + bytes.len() as u64);
    }
    let report = inspector.finish();
    let segments = table.segments.len();
    Ok((report, ImageFacts { header, segments, damage }))
}

fn read_segment(file: &File, table: &Table, segment: usize) -> Result<(u64, Vec<u8>)> {
    let entry = &table.segments[segment];
    let offset = entry.offset;
    // The table was checked: a segment has at most a megabyte of packets and lies within the file.
    let mut bytes = vec![0; entry.length() as usize];
    match file.read_exact_at(&mut bytes, offset) {
        Ok(()) => Ok((offset, bytes)),
        Err(error) => bail!("byte {offset}, segment {segment}: cannot read: {error}"),
    }
}

/// Version of the image format. Images with another version are not read.
pub(super) const IMAGE_VERSION: u32 = image::VERSION;
