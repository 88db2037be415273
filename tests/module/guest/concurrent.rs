//! Many callers at once, and files that change under them.

use std::fs::{File, OpenOptions};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};
use rustix::io::Errno;
use wirepath_module_tests::content::Content;
use wirepath_module_tests::random::Random;
use wirepath_sys::module::{Marker, Module, Rtp, Run, State, Timestamps};
use wirepath_tests::trials;

use crate::files::Folder;
use crate::settings::{count, settings};
use crate::wire::{IPV4, IPV6, Wire, compare};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        threads_on_one_socket_and_file,
        a_file_of_ext4_that_changes,
        a_file_of_tmpfs_that_changes,
        a_file_of_xfs_that_changes,
        a_file_of_overlay_that_changes,
    ]
}

const PACKET: u32 = 1316;
const THREADS: u32 = 6;
const RUNS: u32 = 6;

/// Promise: Threads can share a socket and a file; a file that changes during a send yields its bytes or
/// zeros.
///
/// Each thread's packets arrive whole, and each once.
fn threads_on_one_socket_and_file() -> Result<()> {
    let folder = Folder::ext4()?;
    let content = Content::new(settings().seed, 200_003);
    let file = folder.file("plain", &content)?;
    let expected = content.bytes(0..content.length());
    for (address, train) in [(IPV4, 7), (IPV6, 1)] {
        let module = Module::open()?;
        let mut wire = Wire::new(address, true)?;
        let send_all = |thread: u32| -> Result<()> {
            for number in 0..RUNS {
                send(&module, &wire.sender, &file, thread * RUNS + number, train)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || send_all(thread))).collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?)
        })?;
        let each = expected.chunks(PACKET as usize);
        let mut seen = vec![false; (THREADS * RUNS) as usize * each.len()];
        let packets = wire.arrived()?;
        for packet in &packets {
            let (run, index) = place(packet)?;
            let payload = each.clone().nth(index).context("a packet too many")?;
            compare(&packet[12..], payload).with_context(|| format!("packet {index} of run {run}"))?;
            let seen = seen.get_mut(run * each.len() + index).context("a run too many")?;
            ensure!(!std::mem::replace(seen, true), "packet {index} of run {run} came twice");
        }
        ensure!(packets.len() == seen.len(), "{} packets and not {}", packets.len(), seen.len());
        count(format!("concurrent: {THREADS} threads over {address}: {} packets", packets.len()));
    }
    Ok(())
}

/// Promise: Threads can share a socket and a file; a file that changes during a send yields its bytes or
/// zeros.
fn a_file_of_ext4_that_changes() -> Result<()> {
    a_file_that_changes("ext4", &Folder::ext4()?)
}

/// Promise: Threads can share a socket and a file; a file that changes during a send yields its bytes or
/// zeros.
fn a_file_of_tmpfs_that_changes() -> Result<()> {
    a_file_that_changes("tmpfs", &Folder::tmpfs()?)
}

/// Promise: Threads can share a socket and a file; a file that changes during a send yields its bytes or
/// zeros.
fn a_file_of_xfs_that_changes() -> Result<()> {
    a_file_that_changes("xfs", &Folder::xfs()?)
}

/// Promise: Threads can share a socket and a file; a file that changes during a send yields its bytes or
/// zeros.
fn a_file_of_overlay_that_changes() -> Result<()> {
    a_file_that_changes("overlay", &Folder::overlay()?)
}

/// A file is cut, punched, written and removed while it is sent, by calls and by runs at a rate: each byte
/// that arrives was the file's at some time.
fn a_file_that_changes(name: &str, folder: &Folder) -> Result<()> {
    let content = Content::new(settings().seed, 150_000);
    let expected = content.bytes(0..content.length());
    let file = folder.file("changing", &content)?;
    let path = folder.path().join("changing");
    let module = Module::open()?;
    let mut wire = Wire::new(IPV4, true)?;
    let done = AtomicBool::new(false);
    let runs = 60;
    let changes = std::thread::scope(|scope| -> Result<u64> {
        let changer = scope.spawn(|| change(&path, expected, &done));
        let sent = (0..runs).try_for_each(|run| match run % 3 {
            0 => send_at_a_rate(&module, &wire.sender, &file, run),
            _ => send(&module, &wire.sender, &file, run, 1 + run % 9),
        });
        done.store(true, Ordering::Relaxed);
        let changes = changer.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?;
        sent.and(changes)
    })?;
    let packets = wire.arrived()?;
    for packet in &packets {
        let (run, index) = place(packet)?;
        let payload = expected.chunks(PACKET as usize).nth(index).context("a packet too many")?;
        let is_of_file = |(got, byte): (&u8, &u8)| got == byte || *got == 0;
        let is_right = packet.len() - 12 <= payload.len() && packet[12..].iter().zip(payload).all(is_of_file);
        ensure!(is_right, "packet {index} of run {run} has bytes that the file never had");
    }
    ensure!(changes > 0 && !packets.is_empty(), "{changes} changes and {} packets", packets.len());
    count(format!(
        "concurrent: a file of {name}, {changes} changes while {} packets of {runs} runs were sent",
        packets.len()
    ));
    Ok(())
}

/// One run, with its number as SSRC; a file that is short at the moment ends it early.
fn send(module: &Module, sender: &UdpSocket, file: &File, number: u32, train: u32) -> Result<()> {
    match module.send(sender.as_fd(), &mut run(file, number, train)) {
        Err(error) if Errno::from_io_error(&error) != Some(Errno::NODATA) => Err(error).context("sending"),
        _ => Ok(()),
    }
}

/// The same, in so many milliseconds as the file has parts of 20 kB.
fn send_at_a_rate(module: &Module, sender: &UdpSocket, file: &File, number: u32) -> Result<()> {
    let started = module.start(sender.as_fd(), &mut run(file, number, 4), 20_000_000);
    let status = started.context("starting")?.wait().context("waiting")?;
    let is_fine = matches!(status.state, State::Ended(Ok(()) | Err(Errno::NODATA)));
    ensure!(is_fine, "a run of a file that changes has ended with {status:?}");
    Ok(())
}

fn run(file: &File, number: u32, train: u32) -> Run<'_> {
    let timestamps = Timestamps::Step { first: 0, ticks: 1, packets: 1 };
    let rtp = Rtp { ssrc: number, payload_type: 33, sequence: 0, marker: Marker::Never, timestamps };
    Run::of_file(file.as_fd(), 0, None).in_packets(PACKET).in_trains(train).with_rtp(rtp)
}

/// The run and the number in it that a packet has.
fn place(packet: &[u8]) -> Result<(usize, usize)> {
    let (header, _) = packet.split_first_chunk::<12>().context("a packet without a header")?;
    let ssrc = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    Ok((ssrc as usize, u16::from_be_bytes([header[2], header[3]]).into()))
}

/// Changes the file, and gives it its content again, until it is `done`; answers how often.
fn change(path: &std::path::Path, content: &[u8], done: &AtomicBool) -> Result<u64> {
    let mut random = Random::new(settings().seed);
    let mut changes = 0;
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    while !done.load(Ordering::Relaxed) {
        let (from, length) = (random.below(content.len() as u64), 1 + random.below(20_000));
        match random.below(6) {
            0 => file.set_len(from).context("cutting")?,
            1 => fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, from, length)
                .context("punching")?,
            2 => fadvise(&file, 0, None, Advice::DontNeed).context("dropping")?,
            3 => file.sync_data().context("writing back")?,
            4 if path.exists() => std::fs::remove_file(path).context("removing")?,
            _ => file.write_all_at(content, 0).context("writing")?,
        }
        changes += 1;
        std::thread::yield_now();
    }
    Ok(changes)
}
