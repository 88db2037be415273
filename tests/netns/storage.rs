//! Disks that are full or broken. No network is involved, but only root can make them.
//!
//! ```text
//! cache: tmpfs of 4 MiB                       served: small.ts (1 MB)  large.ts (30 MB), or an origin's 2.5
//! MB and 8 MB
//!      or: ext2 of 4 MiB on a loop device
//!   medium: a loop device of 64 KiB, of which all but 8 KiB cannot be read
//! ```
//!
//! A tmpfs says that it is full when room is reserved. ext2 cannot reserve, so it says so while an image is
//! written.

use std::fs::File;
use std::io::Write;
use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_datapath::rtp::{HEADER_LENGTH, Header, Run};
use wirepath_datapath::{
    self as paths, BlockPath, BlockSink, Extent, Headers, MappedFile, SendContext, SendError, Train, UdpSink,
};
use wirepath_tests::caching::{Cache, names};
use wirepath_tests::origin::{Origin, answer};
use wirepath_tests::playback::{Playback, ensure_bytes};
use wirepath_tests::process::{self, is_root};
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_full_disk_while_packing_is_reported,
        a_disk_that_fills_while_packing_is_reported,
        a_cache_on_a_full_disk_makes_room_or_passes_through,
        a_cache_on_a_disk_that_cannot_reserve_makes_room_or_passes_through,
        a_disk_that_fails_inside_a_train_leaves_nothing_in_the_socket
    ]
}

/// Promise: A full disk during packing is reported, disturbs no session and leaves no partial image.
fn a_full_disk_while_packing_is_reported() -> Result<()> {
    full_disk(&SmallDisk::tmpfs()?)
}

/// Promise: A full disk during packing is reported, disturbs no session and leaves no partial image.
fn a_disk_that_fills_while_packing_is_reported() -> Result<()> {
    full_disk(&SmallDisk::ext2()?)
}

/// Promise: On a full disk entries are evicted, or responses pass through.
fn a_cache_on_a_full_disk_makes_room_or_passes_through() -> Result<()> {
    full_cache(&SmallDisk::tmpfs()?)
}

/// Promise: On a full disk entries are evicted, or responses pass through.
fn a_cache_on_a_disk_that_cannot_reserve_makes_room_or_passes_through() -> Result<()> {
    full_cache(&SmallDisk::ext2()?)
}

/// Two bodies that fit one at a time, and one that never does.
fn full_cache(disk: &SmallDisk) -> Result<()> {
    let origin = Origin::start(|asked, connection| {
        let length = if asked.target() == "/large" { 8_000_000 } else { 2_500_000 };
        let body: Vec<u8> = (0..length).map(|at| (at / 93) as u8).collect();
        answer(connection, "200 OK", "Cache-Control: max-age=600\r\n", &body)
    })?;
    let folder = disk.path().join("cache");
    let cache = Cache::start(&origin, &folder, &[])?;
    for (path, length, times) in [
        ("/a", 2_500_000, 1),
        ("/large", 8_000_000, 1),
        ("/a", 2_500_000, 1),
        ("/b", 2_500_000, 1),
        ("/a", 2_500_000, 2),
    ] {
        let response = cache.get(path)?;
        ensure!(
            response.status == 200 && response.body.len() == length,
            "{path}: {} bytes",
            response.body.len()
        );
        ensure!(
            response.body.iter().enumerate().all(|(at, byte)| *byte == (at / 93) as u8),
            "other bytes came"
        );
        ensure!(origin.count(path) == times, "{path} was asked for {} times", origin.count(path));
        if path != "/large" {
            wait_for_url(&folder, path)?;
        }
    }
    let report = cache.end()?;
    ensure!(report["evictions"] == 2 && report["passed"] == 1 && report["broken_fetches"] == 0, "{report}");
    Ok(())
}

/// Waits until this path, and nothing else, is in a cache.
fn wait_for_url(folder: &Path, path: &str) -> Result<()> {
    Deadline::seconds(10.0).wait_for("the entry in the cache", || {
        let [record] = &names(folder, ".json")?[..] else { return Ok(None) };
        let text = std::fs::read_to_string(folder.join(record))?;
        Ok(text.contains(&format!("{path}\"")).then_some(()))
    })
}

fn full_disk(cache: &SmallDisk) -> Result<()> {
    let (small, large) = (clips::constant(2)?, clips::constant(60)?);
    let folder = clips::folder(&[("small.ts", &small), ("large.ts", &large)])?;
    let server = Server::of(folder.path()).cache(cache.path()).with(["--images", "all"]).start()?;
    let mut witness = Playback::set_up(server.rtsp, "small.ts")?;
    witness.play(None)?;
    let mut large_session = Playback::set_up(server.rtsp, "large.ts")?;
    large_session.play(Some("npt=0-5"))?;
    ensure_bytes(&witness.receiver.to_the_end(Deadline::seconds(10.0))?, &std::fs::read(&small)?)
        .context("the other session was disturbed")?;
    Deadline::seconds(20.0).wait_for("the reason in the log", || {
        let log = server.process.log();
        ensure!(!log.contains("panicked"), "{log}");
        let said =
            |line: &str| line.contains("large.ts") && line.contains("space") && line.contains("make room");
        Ok(log.lines().any(said).then_some(()))
    })?;
    let received = large_session.receiver.to_the_end(Deadline::seconds(10.0))?;
    ensure_bytes(&received, &std::fs::read(&large)?[..received.payload.len()])
        .context("the asset was not played without an image")?;
    ensure_bytes(&Playback::whole(server.rtsp, "small.ts", 10.0)?, &std::fs::read(&small)?)?;
    let mut names = Vec::new();
    for entry in std::fs::read_dir(cache.path())? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    let unwanted =
        |name: &&String| name.ends_with(".part") || (name.ends_with(".wpi") && !name.ends_with(".index.wpi"));
    ensure!(names.iter().filter(unwanted).count() <= 1, "more than the image of small.ts is left: {names:?}");
    Ok(())
}

/// Promise: After any failure, no path leaves part of a packet in the socket.
///
/// `sendfile` gives up where it cannot read on, and what it had handed over waits in the socket for the rest.
fn a_disk_that_fails_inside_a_train_leaves_nothing_in_the_socket() -> Result<()> {
    const PACKET: u16 = 1000;
    let disk = BrokenDisk::attach()?;
    let whole = MappedFile::new(tempfile_of(&[7; PACKET as usize])?, PACKET.into())?;
    let first =
        Header { padding: false, marker: false, payload_type: 33, sequence: 1, timestamp: 2, ssrc: 3 };
    let run = Run::new(first, 0);
    let bare = Train {
        offset: 0,
        length: PACKET.into(),
        packet_size: PACKET,
        skip: 0,
        first: 0,
        packets_before: 0,
        run,
    };
    // The first packet crosses into what cannot be read, or begins there; the train goes far beyond.
    for offset in [8192 - 500, 8192] {
        let train = Train { offset, length: 10 * u32::from(PACKET), ..bare };
        // The kernel module sends from regular files only.
        for path in paths::DataPath::ALL.into_iter().filter(|path| !path.needs_module()) {
            let (sender, receiver) = connected()?;
            let sink = UdpSink::new(sender, PACKET, path)?;
            let mut scratch = SendContext::default();
            let medium = MappedFile::new(File::open(&disk.device)?, 65_536)?; // nothing of it is in a mapping yet
            let failed = path.send(&sink, &medium, &train, Headers::Stored, &mut scratch);
            ensure!(matches!(failed, Err(SendError::Storage { .. })), "{path} from {offset}: {failed:?}");
            path.send(&sink, &whole, &bare, Headers::Stored, &mut scratch)?;
            ensure!(receive(&receiver)?[HEADER_LENGTH..] == [7; PACKET as usize - HEADER_LENGTH], "{path}");
        }
        let blocks = BlockPath::ALL.into_iter();
        for path in blocks.filter(|path| !path.needs_hot_memory() && !path.needs_module()) {
            let (sender, receiver) = connected()?;
            let sink = BlockSink::udp(sender, PACKET, path)?;
            let mut scratch = SendContext::default();
            let medium = MappedFile::new(File::open(&disk.device)?, 65_536)?;
            let failed = path.send(&sink, &medium, Extent { offset, length: PACKET.into() }, &mut scratch);
            ensure!(matches!(failed, Err(SendError::Storage { .. })), "{path} from {offset}: {failed:?}");
            path.send(&sink, &whole, Extent { offset: 0, length: PACKET.into() }, &mut scratch)?;
            ensure!(receive(&receiver)? == [7; PACKET as usize], "{path}");
        }
    }
    Ok(())
}

fn connected() -> Result<(UdpSocket, UdpSocket)> {
    let (sender, receiver) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    receiver.set_read_timeout(Some(Duration::from_secs(5)))?;
    sender.connect(receiver.local_addr()?)?;
    Ok((sender, receiver))
}

fn receive(receiver: &UdpSocket) -> Result<Vec<u8>> {
    let mut buffer = vec![0; 65_536];
    let length = receiver.recv(&mut buffer)?;
    buffer.truncate(length);
    Ok(buffer)
}

fn tempfile_of(bytes: &[u8]) -> Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    Ok(file)
}

/// A disk whose first 8 KiB can be read: the file behind it became shorter.
struct BrokenDisk {
    device: String,
}

impl BrokenDisk {
    fn attach() -> Result<Self> {
        require!(is_root(), "a loop device needs root");
        let mut behind = tempfile::NamedTempFile::new()?;
        behind.write_all(&[1; 65_536])?;
        let name = behind.path().to_str().context("a file's name")?;
        let device = process::run("losetup", ["--find", "--show", "--read-only", name], 5.0);
        require!(device.is_ok(), "loop devices are not permitted here: {device:?}");
        let disk = Self { device: device?.trim().to_owned() };
        behind.as_file().set_len(8192)?;
        Ok(disk)
    }
}

impl Drop for BrokenDisk {
    fn drop(&mut self) {
        // One that somebody still uses goes with its last user.
        process::run("losetup", ["--detach", self.device.as_str()], 5.0).ok();
    }
}

struct SmallDisk {
    folder: tempfile::TempDir,
    /// Its backing file, if it has one.
    _stored: Option<tempfile::NamedTempFile>,
}

impl SmallDisk {
    fn tmpfs() -> Result<Self> {
        require!(is_root(), "mounting needs root");
        SmallDisk::mount(&["-t", "tmpfs", "-o", "size=4m", "tmpfs"], None)
    }

    fn ext2() -> Result<Self> {
        require!(is_root(), "mounting needs root");
        require!(process::find("mke2fs").is_some(), "mke2fs is not installed");
        let stored = tempfile::NamedTempFile::new()?;
        stored.as_file().set_len(4 << 20)?;
        let path = stored.path().to_str().context("a file's name")?.to_owned();
        process::run("mke2fs", ["-q", "-F", "-t", "ext2", &path], 10.0)?;
        SmallDisk::mount(&["-t", "ext2", "-o", "loop", &path], Some(stored))
    }

    fn mount(what: &[&str], stored: Option<tempfile::NamedTempFile>) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().to_str().context("a folder's name")?;
        let mounted = process::run("mount", what.iter().copied().chain([path]), 5.0);
        require!(mounted.is_ok(), "mounting is not permitted here");
        Ok(Self { folder, _stored: stored })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The server may still hold it; then it goes when that is killed.
        process::run("umount", [Path::new("-l"), self.path()], 5.0).ok();
    }
}
