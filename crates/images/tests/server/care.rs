//! Care for the machine: memory, copies, clients that vanish or stop reading, the end.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};
use rustix::process::Signal;
use wirepath_tests::process::{descriptors, status_number};
use wirepath_tests::{Deadline, http, require, trials};

use crate::TestBed;
use crate::pictures::picture;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_part_is_sent_without_reading_it,
        huge_pictures_take_little_memory,
        clients_that_stop_reading_or_vanish_leave_nothing,
        a_request_under_way_ends_before_the_server,
    ]
}

/// Number of calls of each system call by the threads of a process.
struct Calls(Vec<(&'static str, Vec<Counter>)>);

impl Calls {
    fn of(pid: u32, names: &[&'static str]) -> Result<Calls> {
        let events = Path::new("/sys/kernel/tracing/events/syscalls");
        if !events.exists() {
            // Where that is not permitted, the tracepoints stay unreadable.
            Command::new("mount").args(["-t", "tracefs", "tracefs", "/sys/kernel/tracing"]).status()?;
        }
        let threads = std::fs::read_dir(format!("/proc/{pid}/task"))?;
        let threads = threads.map(|thread| Ok(thread?.file_name().to_string_lossy().parse()?));
        let threads = threads.collect::<Result<Vec<i32>>>()?;
        let mut calls = Vec::new();
        for name in names {
            let id = std::fs::read_to_string(events.join(format!("sys_enter_{name}/id")));
            require!(id.is_ok(), "the tracepoints of system calls are not readable (root, tracefs)");
            let id: u64 = id?.trim().parse().context("the number of a tracepoint")?;
            let mut counters = Vec::new();
            for thread in &threads {
                let counter =
                    Builder::new(Tracepoint::with_id(id)).include_kernel().observe_pid(*thread).build();
                require!(counter.is_ok(), "perf events are not permitted here");
                let mut counter = counter?;
                counter.enable()?;
                counters.push(counter);
            }
            calls.push((*name, counters));
        }
        Ok(Calls(calls))
    }

    fn count(&mut self, name: &str) -> Result<u64> {
        let of_name = self.0.iter_mut().find(|(known, _)| *known == name).context("it is counted")?;
        of_name.1.iter_mut().try_fold(0, |sum, counter| Ok(sum + counter.read()?))
    }
}

/// Promise: A crop is sent without reading the picture into the program.
///
/// Long rows leave by `sendfile`, short ones many in a call.
fn a_part_is_sent_without_reading_it() -> Result<()> {
    let bed = TestBed::with(&["--threads", "1"])?;
    bed.store("a.ppm", &picture(640, 480, 3, 255))?;
    bed.store("wide.ppm", &picture(12_000, 60, 3, 255))?;
    bed.get("/a.ppm?info")?;
    bed.get("/wide.ppm?info")?;
    let reads = ["read", "pread64", "preadv", "preadv2", "mmap", "process_vm_readv"];
    let names = [&reads[..], &["sendfile64", "sendmsg"]].concat();
    let mut calls = Calls::of(bed.process.pid(), &names)?;
    // 300 rows of 900 bytes.
    ensure!(bed.body("/a.ppm?crop=7,9,300,300")?.len() == 15 + 300 * 900);
    let (files, messages) = (calls.count("sendfile64")?, calls.count("sendmsg")?);
    ensure!(files == 0 && (1..=4).contains(&messages), "{files} sendfile, {messages} sendmsg");
    // 50 rows of 33,000 bytes.
    ensure!(bed.body("/wide.ppm?crop=7,9,11000,50")?.len() == 16 + 50 * 33_000);
    let files = calls.count("sendfile64")?;
    ensure!((50..=150).contains(&files), "{files} sendfile for 50 rows");
    // The header of the picture, and what wakes the threads.
    let header = calls.count("preadv2")?;
    ensure!(header == 2, "{header} preadv2");
    for name in ["pread64", "preadv", "process_vm_readv"] {
        let count = calls.count(name)?;
        ensure!(count == 0, "{count} {name}");
    }
    Ok(())
}

/// A picture of 30 GB, of which little takes room on the disk.
fn huge(bed: &TestBed) -> Result<()> {
    let header = b"P6\n100000 100000\n255\n";
    let path = bed.store("huge.ppm", header)?;
    let file = File::options().write(true).open(path)?;
    file.set_len(header.len() as u64 + 30_000_000_000)?;
    // A pixel near the end.
    file.write_all_at(b"\x01\x02\x03", header.len() as u64 + 3 * (99_998 * 100_000 + 99_997))?;
    Ok(())
}

/// Promise: A crop of a picture of many gigabytes begins at once, and its rows pass through bounded memory.
fn huge_pictures_take_little_memory() -> Result<()> {
    let bed = TestBed::new()?;
    huge(&bed)?;
    let made = bed.body("/huge.ppm?crop=99996,99998,3,1")?;
    ensure!(made == b"P6\n3 1\n255\n\0\0\0\x01\x02\x03\0\0\0", "{made:?}");
    let before = status_number(bed.process.pid(), "VmRSS")?;
    let made = bed.body("/huge.ppm?crop=0,99900,100000,100&gray&scale=1/10&method=linear")?;
    ensure!(made.len() == b"P5\n10000 10\n255\n".len() + 100_000, "{} bytes", made.len());
    let grown = status_number(bed.process.pid(), "VmRSS")?.saturating_sub(before);
    ensure!(grown < 64 << 10, "{grown} KiB more for 30 MB of rows");
    let answer = bed.get("/huge.ppm?crop=0,0,100000,4&scale=1/2&method=integral")?;
    ensure!(answer.status == 200, "{}", answer.status);
    Ok(())
}

/// Promise: A client that stops reading takes a bounded amount of memory, and a client that vanishes takes
/// none.
fn clients_that_stop_reading_or_vanish_leave_nothing() -> Result<()> {
    const CLIENTS: usize = 24;
    let bed = TestBed::new()?;
    huge(&bed)?;
    bed.get("/huge.ppm?info")?;
    let pid = bed.process.pid();
    // Not pages of the page cache, which are mapped.
    let (open, memory) = (descriptors(pid)?, status_number(pid, "RssAnon")?);
    let queries = ["gray", "scale=1/2&method=middle", "crop=1,0,90000,100000", "crop=1,0,1000,100000"];
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let mut connection = http::connect(bed.address)?;
        let query = queries[client % queries.len()];
        write!(connection, "GET /huge.ppm?{query} HTTP/1.1\r\nHost: x\r\n\r\n")?;
        let mut begun = vec![0; 1 << 20];
        connection.read_exact(&mut begun).with_context(|| query.to_owned())?;
        clients.push(connection);
    }
    let grown = status_number(pid, "RssAnon")?.saturating_sub(memory);
    ensure!(grown < 96 << 10, "{grown} KiB for {CLIENTS} clients that read no more");
    ensure!(bed.body("/huge.ppm?info")?.starts_with(b"{"), "others are answered");
    vanish(clients)?;
    Deadline::seconds(20.0).wait_for("the descriptors of clients that vanished", || {
        Ok((descriptors(pid)? <= open + 2).then_some(()))
    })
}

/// Closes connections by a reset.
fn vanish(clients: Vec<TcpStream>) -> Result<()> {
    for client in clients {
        rustix::net::sockopt::set_socket_linger(&client, Some(std::time::Duration::ZERO))?;
    }
    Ok(())
}

/// Promise: On SIGTERM `wirepath-images` completes running requests and ends with exit code 0.
fn a_request_under_way_ends_before_the_server() -> Result<()> {
    let mut bed = TestBed::new()?;
    let stored = picture(3000, 2000, 3, 255);
    bed.store("a.ppm", &stored)?;
    let mut connection = http::connect(bed.address)?;
    write!(connection, "GET /a.ppm?crop=0,0,3000,2000 HTTP/1.1\r\nHost: x\r\n\r\n")?;
    let mut begun = [0; 1000];
    connection.read_exact(&mut begun)?;
    bed.process.signal(Signal::TERM)?;
    let deadline = Deadline::seconds(20.0);
    deadline
        .wait_for("the listener to close", || Ok(TcpStream::connect(bed.address).is_err().then_some(())))?;
    let mut rest = Vec::new();
    connection.read_to_end(&mut rest)?;
    let pixels = &stored[stored.len() - 18_000_000..];
    ensure!(rest.ends_with(&pixels[1000..]), "the answer ended early");
    let status = bed.process.wait(deadline)?;
    ensure!(status.success(), "{status}: {}", bed.process.log());
    Ok(())
}
