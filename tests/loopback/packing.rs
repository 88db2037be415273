//! Memory that packings hold, and packings that one address may have.

use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use socket2::{Domain, Socket, Type};
use wirepath_tests::playback;
use wirepath_tests::process::{self, status_number};
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, http, trials};

/// Files whose clock references are useless, and the size of each: more than a packer looks ahead.
const FILES: usize = 8;
const FILE_BYTES: usize = 68 << 20;

/// Memory that the server may take beside what it had when nobody had asked for anything.
const MOST_KIB: u64 = 64 << 10;

/// Size of a file that takes minutes to be read. All but its head is a hole.
const HOLLOW_BYTES: u64 = 64 << 30;

pub(crate) fn trials() -> Vec<Trial> {
    trials![packings_of_one_address_are_limited]
}

/// This loads the machine and measures memory.
pub(crate) fn alone() -> Vec<Trial> {
    trials![files_without_usable_clocks_take_little_memory]
}

/// Promise: All packing shares one memory budget (`--packing-memory`), whatever the files contain, and does
/// not fail.
fn files_without_usable_clocks_take_little_memory() -> Result<()> {
    let folder = process::open_folder()?;
    let names: Vec<String> = (0..FILES).map(|number| format!("{number}.ts")).collect();
    names.iter().try_for_each(|name| write_discontinuous(&folder.path().join(name)))?;
    let server = Server::of(folder.path()).with(["--packing-memory=8MiB", "--threads=2"]).start()?;
    let peak = || status_number(server.process.pid(), "VmHWM");
    let before = peak()?;
    let mut clients = Vec::new();
    for name in &names {
        let mut client = Client::connect(server.rtsp)?;
        playback::describe(&mut client, &server.rtsp_url(name))?;
        clients.push(client);
    }
    Deadline::seconds(60.0).wait_for("indexes of all files", || {
        let indexed = metric(&server, "wirepath_images_indexed_total")?;
        Ok((indexed == FILES as u64).then_some(()))
    })?;
    let took = peak()? - before;
    println!("packing: {FILES} files took {took} KiB more memory at most");
    ensure!(took < MOST_KIB, "{took} KiB of memory more than before");
    let held = metric(&server, "wirepath_images_packing_memory_bytes")?;
    ensure!(held == 0 && metric(&server, "wirepath_images_failed_total")? == 0, "{held} bytes are held");
    Ok(())
}

/// Promise: `--max-packings-per-address` limits how many files one address has packed at a time; DESCRIBE
/// counts.
fn packings_of_one_address_are_limited() -> Result<()> {
    let folder = process::open_folder()?;
    let head = std::fs::read(clips::constant(2)?)?;
    for name in ["a.ts", "b.ts", "c.ts"] {
        let file = File::create(folder.path().join(name))?;
        file.set_len(HOLLOW_BYTES)?;
        file.write_all_at(&head, 0)?;
    }
    let limits = ["--max-packings-per-address=2", "--threads=1"];
    let server = Server::of(folder.path()).with(limits).start()?;
    let describe = |client: &mut Client, name: &str| -> Result<(u16, String)> {
        let response = client.request("DESCRIBE", &server.rtsp_url(name), &[])?;
        Ok((response.status, String::from_utf8_lossy(&response.body).into_owned()))
    };
    let mut client = from(2, server.rtsp)?;
    for name in ["a.ts", "b.ts"] {
        let (status, response) = describe(&mut client, name)?;
        ensure!(status == 200, "{name}: {response}");
    }
    let (status, response) = describe(&mut client, "c.ts")?;
    ensure!(status == 453 && response.contains("being prepared for your address"), "{response}");
    let (status, response) = describe(&mut client, "a.ts")?;
    ensure!(status == 200, "a file that is being packed: {response}");
    let (status, response) = describe(&mut from(3, server.rtsp)?, "c.ts")?;
    ensure!(status == 200, "another address: {response}");
    ensure!(metric(&server, "wirepath_images_packings_refused_total")? == 1, "refusals are not counted");
    let packings = metric(&server, "wirepath_images_packings")?;
    ensure!(packings == 3, "{packings} packings");
    Ok(())
}

/// A transport stream whose clock is discontinuous at every packet.
fn write_discontinuous(path: &Path) -> Result<()> {
    const TABLES: usize = 64 << 10;
    let mut head = std::fs::read(clips::constant(2)?)?;
    head.truncate(TABLES / 188 * 188);
    let mut file = std::io::BufWriter::new(File::create(path)?);
    let mut packet = [0xff; 188];
    // Video of the clip, a unit start; in its adaptation field a random access point and a new clock.
    packet[..12].copy_from_slice(&[0x47, 0x41, 0x00, 0x30, 7, 0xd0, 1, 2, 3, 4, 5, 6]);
    let has_reference = |unit: &&mut [u8]| unit[3] & 0x20 != 0 && unit[4] > 0 && unit[5] & 0x10 != 0;
    let references: Vec<_> = head.chunks_mut(188).filter(has_reference).collect();
    ensure!(!references.is_empty(), "the clip has no clock");
    // Without the clock of the clip nothing has a rate.
    references.into_iter().for_each(|unit| unit.copy_from_slice(&packet));
    file.write_all(&head)?;
    for _ in 0..(FILE_BYTES - head.len()) / 188 {
        file.write_all(&packet)?;
    }
    file.flush().context("writing a file")
}

/// A client at an address of the loopback network.
fn from(address: u8, to: SocketAddr) -> Result<Client> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(Ipv4Addr::new(127, 0, 0, address).into(), 0).into())?;
    socket.connect(&to.into()).context("connecting")?;
    Ok(Client::over(TcpStream::from(socket)))
}

/// A sample of `/metrics`.
pub(crate) fn metric(server: &Server, name: &str) -> Result<u64> {
    let text = String::from_utf8(http::get(server.http, "/metrics")?.body).context("/metrics is not text")?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value = value.with_context(|| format!("no {name} in {text}"))?;
    value.parse().with_context(|| format!("{name} is {value}"))
}
