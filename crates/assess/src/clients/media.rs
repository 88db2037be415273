//! Media of the experiment: transport streams of a constant bit rate, made once and kept.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};
use wirepath_media::ts::synthetic::{Sample, SampleStream};

use crate::error::{Doing, Error};

/// Version of the generated content; part of the file names.
const VERSION: u32 = 1;

/// Length of an asset: longer than any step, so that each session plays a single asset to the end of the
/// step.
const SECONDS: u64 = 90;

/// Length of the repeated part; its clock continues across repetitions.
const PART_SECONDS: f64 = 2.0;

/// Clock rate of a transport stream in Hz.
const HZ: f64 = 27e6;

/// Size of a transport packet in bytes and in bits.
const PACKET: usize = 188;
const PACKET_BITS: f64 = 188.0 * 8.0;

/// Folder of assets.
#[derive(Clone, Debug)]
pub(crate) struct Media {
    pub(crate) folder: PathBuf,
    /// Names of the assets in the folder.
    pub(crate) names: Vec<String>,
    /// Playing time of the shortest asset.
    pub(crate) seconds: f64,
    /// Folder of the wire images and indexes, and the files in it at the beginning of each step: files that a
    /// server adds are removed after its step.
    pub(crate) images: PathBuf,
    pub(crate) packed: Vec<PathBuf>,
}

/// Folder of the images of all media.
const IMAGES: &str = "clients-images";

impl Media {
    /// Folder of `assets` assets of this rate; generates missing assets.
    pub(crate) fn prepare(scratch: &Path, bits_per_second: f64, assets: usize) -> Result<Media, Error> {
        let kilobits = (bits_per_second / 1000.0).round();
        let name = format!("clients-{VERSION}-{kilobits}kbps-{assets}");
        let (folder, images) = (scratch.join(&name), scratch.join(IMAGES).join(&name));
        std::fs::create_dir_all(&folder)
            .map_err(|error| Error::of_file("make the folder", &folder, error))?;
        let names: Vec<String> = (0..assets).map(|number| format!("clip{number:03}.ts")).collect();
        let mut part = None;
        for name in &names {
            let file = folder.join(name);
            if !file.exists() {
                let part = part.get_or_insert_with(|| Part::new(bits_per_second));
                make(&file, part)?;
            }
        }
        Ok(Media { folder, names, seconds: SECONDS as f64, images, packed: Vec::new() })
    }

    /// Asset of the user, in its own folder.
    pub(crate) fn of_file(scratch: &Path, file: &Path) -> Result<Media, Error> {
        let wrong = |why: &str| Error::Input(format!("{} cannot be played: {why}", file.display()));
        let file = file.canonicalize().map_err(|error| wrong(&error.to_string()))?;
        let (folder, name) = file.parent().zip(file.file_name()).ok_or_else(|| wrong("it is a folder"))?;
        let name = name.to_str().ok_or_else(|| wrong("its name is not UTF-8"))?;
        Ok(Media {
            folder: folder.to_owned(),
            names: vec![name.to_owned()],
            seconds: 0.0,
            images: scratch.join(IMAGES).join("file"),
            packed: Vec::new(),
        })
    }

    /// Files of the assets.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.names.iter().map(|name| self.folder.join(name))
    }

    /// Mean bit rate of the single asset.
    pub(crate) fn bits_per_second(&self) -> Result<f64, Error> {
        let sizes = self.files().map(|file| {
            let size = file.metadata().map(|metadata| metadata.len());
            size.map_err(|error| Error::of_file("look at", &file, error))
        });
        let bytes = sizes.sum::<Result<u64, Error>>()?;
        Ok(if self.seconds > 0.0 { bytes as f64 * 8.0 / self.seconds } else { 0.0 })
    }

    /// Removes files of a previous server: its own images and indexes, and play counts.
    pub(crate) fn remove_leftovers(&self) -> Result<(), Error> {
        let leftovers = files_below(&self.images).into_iter().filter(|file| !self.packed.contains(file));
        leftovers.into_iter().try_for_each(|file| {
            std::fs::remove_file(&file).map_err(|error| Error::of_file("remove", &file, error))
        })
    }

    /// Reads all assets and packed files into the page cache, or drops them from it.
    pub(crate) fn set_cached(&self, cached: bool) -> Result<(), Error> {
        let set = |file: &PathBuf| if cached { load(file) } else { evict(file) };
        self.files().chain(self.packed.iter().cloned()).try_for_each(|file| set(&file))
    }
}

fn make(file: &Path, part: &Part) -> Result<(), Error> {
    let unfinished = file.with_extension(format!("unfinished-{}", std::process::id()));
    let written =
        File::create(&unfinished).and_then(|mut out| part.write(&mut out).and_then(|()| out.sync_data()));
    let named = written.and_then(|()| std::fs::rename(&unfinished, file));
    named.map_err(|error| {
        std::fs::remove_file(&unfinished).ok(); // the first error is reported
        Error::of_file("make", file, error)
    })
}

fn load(file: &Path) -> Result<(), Error> {
    let copied = File::open(file).and_then(|mut file| io::copy(&mut file, &mut io::sink()));
    copied.map(drop).map_err(|error| Error::of_file("read", file, error))
}

fn evict(file: &Path) -> Result<(), Error> {
    let open = File::open(file).map_err(|error| Error::of_file("open", file, error))?;
    open.sync_data().doing("writing a file")?; // dirty pages are not dropped
    fadvise(&open, 0, None, Advice::DontNeed).doing("dropping a file from the page cache")
}

/// Files of a folder and its subfolders. Files that vanish during the scan are left out.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => files_below(&entry.path()),
            Ok(kind) if kind.is_file() => vec![entry.path()],
            _ => Vec::new(),
        })
        .collect()
}

/// Part of a transport stream that is repeated.
struct Part {
    stream: SampleStream,
    /// Clock ticks per packet.
    ticks: u64,
    repetitions: u64,
}

impl Part {
    fn new(bits_per_second: f64) -> Part {
        let ticks = (HZ * PACKET_BITS / bits_per_second).round().max(1.0) as u64;
        let packets_in = |seconds: f64| ((seconds * HZ / ticks as f64) as u64).max(1);
        let packets = packets_in(PART_SECONDS);
        let sample = Sample {
            packets,
            tables_every: packets_in(0.5).max(4),
            pcr_every: packets_in(0.04),
            rates: vec![(0, ticks)],
            first_pcr: 0,
            ..Sample::default()
        };
        Part { stream: sample.stream(), ticks, repetitions: SECONDS / PART_SECONDS as u64 }
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut bytes = self.stream.bytes.clone();
        let packets = (bytes.len() / PACKET) as u64;
        let mut continuity = [0_u8; 8192];
        for repetition in 0..self.repetitions {
            for packet in bytes.chunks_exact_mut(PACKET) {
                let pid = usize::from(u16::from_be_bytes([packet[1], packet[2]]) & 0x1fff);
                let counter = &mut continuity[pid];
                *counter = (*counter + u8::from(packet[3] & 0x10 != 0)) & 0x0f;
                packet[3] = packet[3] & 0xf0 | *counter;
            }
            for reference in &self.stream.references {
                let pcr = (repetition * packets + reference) * self.ticks;
                set_reference(&mut bytes[*reference as usize * PACKET..], pcr);
            }
            out.write_all(&bytes)?;
        }
        Ok(())
    }
}

/// Writes a clock reference into a packet that has one (ISO/IEC 13818-1, 2.4.3.4).
fn set_reference(packet: &mut [u8], ticks: u64) {
    let (base, extension) = (ticks / 300 % (1 << 33), ticks % 300);
    packet[6..10].copy_from_slice(&((base >> 1) as u32).to_be_bytes());
    packet[10] = (base as u8 & 1) << 7 | 0x7e | (extension >> 8) as u8;
    packet[11] = extension as u8;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_and_counters_go_on_from_part_to_part() {
        let part = Part { repetitions: 3, ..Part::new(4e6) };
        let mut repeated = Vec::new();
        part.write(&mut repeated).unwrap();
        let packets = part.stream.bytes.len() / PACKET;
        assert_eq!(repeated.len(), 3 * packets * PACKET);
        let bits = packets as f64 * PACKET_BITS / (packets as f64 * part.ticks as f64 / HZ);
        assert!((bits / 4e6 - 1.0).abs() < 0.001, "{bits}");
        // The first repetition is the sample itself, with the clock of the library's own writer.
        assert_eq!(repeated[..packets * PACKET], part.stream.bytes[..]);
        let counters: Vec<u8> = repeated
            .chunks_exact(PACKET)
            .filter(|packet| packet[1] & 0x1f == 0 && packet[2] == 0)
            .map(|packet| packet[3] & 0x0f)
            .collect();
        assert!(counters.windows(2).all(|pair| pair[1] == (pair[0] + 1) & 0x0f), "{counters:?}");
    }

    /// Promise: Each step of `assess clients` begins with the same images and indexes.
    #[test]
    fn what_a_server_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let images = folder.path().join("images");
        std::fs::create_dir_all(images.join("deep")).unwrap();
        let (packed, left) = (images.join("a.wpi"), images.join("deep/b"));
        std::fs::write(&packed, b"image").unwrap();
        std::fs::write(&left, b"left").unwrap();
        std::fs::write(folder.path().join("clip"), [0; 1000]).unwrap();
        let media = Media {
            folder: folder.path().to_owned(),
            names: vec!["clip".to_owned()],
            seconds: 2.0,
            images,
            packed: vec![packed.clone()],
        };
        media.remove_leftovers().unwrap();
        assert!(packed.exists() && !left.exists());
        media.set_cached(true).unwrap();
        assert_eq!(media.bits_per_second().unwrap(), 4_000.0);
    }

    #[test]
    fn a_reference_is_written_as_the_generator_does() {
        let sample = Sample { first_pcr: 1_234_567_890_123, ..Sample::default() }.stream();
        let first = sample.references[0] as usize;
        let mut packet = sample.bytes[first * PACKET..][..PACKET].to_vec();
        let expected = packet.clone();
        packet[6..12].fill(0);
        set_reference(&mut packet, 1_234_567_890_123 + sample.departures[first]);
        assert_eq!(packet, expected);
    }
}
