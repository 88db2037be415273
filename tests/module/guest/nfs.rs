//! Files of an NFS server in this guest: byte for byte, from the client's page cache, and new bytes after the
//! server's file changed. The module must not take cached pages of NFS by itself, since only its `splice_read`
//! asks the server whether they are still those of the file.
//!
//! The server is the kernel's, without a daemon: what `rpc.mountd` would answer is written to the caches of
//! exports before the server starts (nfsd(7), `fs/nfsd/export.c`).

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use tempfile::TempDir;
use wirepath_module_tests::call::{Call, Header};
use wirepath_module_tests::content::Content;
use wirepath_tests::{require, trials};

use crate::bench::{Bench, From};
use crate::bytes::{self, LENGTH};
use crate::files::{Folder, has_file_system};
use crate::settings::{count, settings};
use crate::wire::{IPV4, Wire};
use crate::{runs, vectors};

pub(crate) fn trials() -> Vec<Trial> {
    trials![bytes_of_calls, bytes_of_a_ring, bytes_of_runs, bytes_of_vectors, a_file_that_the_server_changes]
}

/// Promise: SEND sends every byte of files on all supported file systems and of memory, over IPv4 and IPv6.
fn bytes_of_calls() -> Result<()> {
    mounted(|folder, _| bytes::of_folder("nfs::bytes_of_calls", folder, Bench::new()?))
}

/// Promise: Every call also works through an io_uring.
fn bytes_of_a_ring() -> Result<()> {
    let mut bench = Bench::new()?;
    require!(
        bench.has(wirepath_sys::module::layout::FEATURE_URING),
        "this module takes no commands of io_uring"
    );
    bench.by_ring = true;
    mounted(|folder, _| bytes::of_folder("nfs::bytes_of_a_ring", folder, bench))
}

/// Promise: A started run sends the same bytes as a call.
fn bytes_of_runs() -> Result<()> {
    let bench = runs::bench()?;
    mounted(|folder, _| {
        let content = Content::new(settings().seed, LENGTH).with_hole(8191..70_001);
        let file = folder.file("holes", &content)?;
        runs::bytes_of("nfs::bytes_of_runs", &[From::File(file.as_raw_fd(), &content)], bench)
    })
}

/// Promise: SENDFILEW sends parts in any order over UDP and TCP, and continues where it stopped.
fn bytes_of_vectors() -> Result<()> {
    mounted(|folder, _| vectors::each_over_udp("nfs::bytes_of_vectors", [folder.borrowed(), Folder::ext4()?]))
}

/// How often the server's file changes.
const CHANGES: u64 = 8;

/// Promise: Cached pages of NFS are sent as they are until the server's file changes; then the new bytes are sent.
fn a_file_that_the_server_changes() -> Result<()> {
    mounted(|folder, server| {
        let mut bench = Bench::new()?;
        let mut wire = Wire::new(IPV4, true)?;
        let call = Call {
            packet_bytes: 1316,
            train_packets: 64,
            header: Header::Given(12),
            ..Call::packet(0, LENGTH)
        };
        let file = folder.file("changing", &Content::new(settings().seed, LENGTH))?;
        for change in 0..CHANGES {
            let content = Content::new(settings().seed + change, LENGTH);
            let from = From::File(file.as_raw_fd(), &content);
            if change > 0 {
                server.write("changing", &content)?;
            }
            let before = bytes_read()?;
            bench.check(&call, &from, &mut wire).with_context(|| format!("after change {change}"))?;
            let read = bytes_read()?;
            ensure!(read >= before + LENGTH, "{} bytes were read from the server", read - before);
            bench.check(&call, &from, &mut wire).with_context(|| format!("again after change {change}"))?;
            let again = bytes_read()?;
            ensure!(again == read, "{} cached bytes were read from the server again", again - read);
        }
        let [calls, packets, bytes] = bench.counts;
        count(format!(
            "nfs: {calls} calls, {packets} packets, {bytes} bytes of {CHANGES} versions of a file"
        ));
        Ok(())
    })
}

/// NFS server of this guest that exports a folder of ext4 as its root, over the loopback device.
struct Server {
    export: Folder,
    control: Folder,
    recovery: TempDir,
}

/// Calls `test` with a mounted folder and its server, and ends both. Nothing of them stays in the kernel, which
/// the guest's memory check would find.
fn mounted(test: impl FnOnce(&Folder, &Server) -> Result<()>) -> Result<()> {
    for name in ["nfsd", "nfs4"] {
        require!(has_file_system(name)?, "this kernel has no {name}, or has it not loaded");
    }
    let server = Server::start()?;
    let folder = Folder::mounted("127.0.0.1:/", "nfs4", MOUNT).context("mounting the export")?;
    let tested = test(&folder, &server);
    // A server that ends before its clients keeps them waiting: it stays if the folder is in use.
    let ended = folder.unmount().and_then(|()| server.end());
    tested.and(ended)
}

/// Without a cache of attributes, each read asks the server whether the file has changed.
const MOUNT: &str = "vers=4.2,proto=tcp,addr=127.0.0.1,clientaddr=127.0.0.1,actimeo=0";

/// Name of the client in the caches of exports.
const CLIENT: &str = "guest";

/// Time after which an entry of such a cache is no longer valid, in seconds since 1970.
const NEVER: u32 = i32::MAX as u32;

/// Export flags (`uapi/linux/nfsd/export.h`): no root squash and writable, which are no flags; writes do not
/// wait for the disk; names of files are not checked; `fsid=0`, which is the root of NFSv4.
const EXPORT_FLAGS: u32 = 0x0010 | 0x0400 | 0x2000;

/// Caches of exports, below `/proc/net/rpc`.
const CACHES: [&str; 4] = ["nfsd.fh", "nfsd.export", "auth.unix.gid", "auth.unix.ip"];

impl Server {
    fn start() -> Result<Server> {
        let (export, control) = (Folder::ext4()?, Folder::mounted("nfsd", "nfsd", "")?);
        let server = Server { export, control, recovery: tempfile::tempdir()? };
        let threads = std::fs::read_to_string(server.control.path().join("threads"))?;
        require!(threads.trim() == "0", "another NFS server runs here");
        // Version 3 would need rpcbind.
        server.control("versions", "-3 +4 +4.1 +4.2")?;
        // The shortest that the kernel permits, in seconds, for kernels without the next file.
        server.control("nfsv4gracetime", "10")?;
        let keeps_record = server.control.path().join("nfsv4recoverydir").exists();
        if keeps_record {
            server.control("nfsv4recoverydir", &server.recovery.path().display().to_string())?;
        }
        let export = server.export.path().display();
        channel("auth.unix.ip", &format!("nfsd 127.0.0.1 {NEVER} {CLIENT}"))?;
        channel("nfsd.export", &format!("{CLIENT} {export} {NEVER} {EXPORT_FLAGS} 65534 65534 0"))?;
        // A file handle of type 1 has four bytes of the export's fsid.
        channel("nfsd.fh", &format!("{CLIENT} 1 \\x00000000 {NEVER} {export}"))?;
        server.control("threads", "1")?;
        if keeps_record {
            // No client has files open from before, for which a server waits.
            server.control("v4_end_grace", "Y")?;
        }
        Ok(server)
    }

    /// Overwrites a file on the server, as a process of the server does.
    fn write(&self, name: &str, content: &Content) -> Result<()> {
        let file = OpenOptions::new().write(true).open(self.export.path().join(name)).context("opening")?;
        file.write_all_at(content.bytes(0..content.length()), 0).context("writing on the server")
    }

    fn control(&self, name: &str, value: &str) -> Result<()> {
        write(&self.control.path().join(name), value)
    }

    fn end(self) -> Result<()> {
        self.control("threads", "0")?;
        for cache in CACHES {
            // All of it, whatever the number.
            write(&Path::new("/proc/net/rpc").join(cache).join("flush"), "1")?;
        }
        self.control.unmount()
    }
}

fn channel(cache: &str, line: &str) -> Result<()> {
    write(&Path::new("/proc/net/rpc").join(cache).join("channel"), line)
}

/// One write is one command.
fn write(path: &Path, value: &str) -> Result<()> {
    let mut file = File::options().write(true).open(path).with_context(|| path.display().to_string())?;
    file.write_all(format!("{value}\n").as_bytes())
        .with_context(|| format!("writing {value} to {}", path.display()))
}

/// Bytes that the server has read for its clients.
fn bytes_read() -> Result<u64> {
    let path = "/proc/net/rpc/nfsd";
    let text = std::fs::read_to_string(path).context(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix("io ")).context("it counts no bytes")?;
    let word = line.split_whitespace().next().context("it counts no bytes that are read")?;
    word.parse().with_context(|| format!("{path}: {line}"))
}
