//! A caller that calls anything with anything: nothing of it may harm the kernel. The guest looks at what the
//! kernel says.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::Trial;
use rustix::fs::{Advice, fadvise};
use rustix::io::Errno;
use rustix::process::Signal;
use wirepath_module_tests::call::{Call, Header};
use wirepath_module_tests::content::Content;
use wirepath_module_tests::random::Random;
use wirepath_sys::module::layout;
use wirepath_sys::module::{Module, Started};
use wirepath_tests::process::find;
use wirepath_tests::{Deadline, require, trials};

use crate::bench::{ADDRESS, Bench, From, HEADERS, RTP, RUN, TABLE};
use crate::files::Folder;
use crate::settings::{Settings, count, settings};
use crate::wire::{IPV4, IPV6, Wire};

pub(crate) fn trials() -> Vec<Trial> {
    trials![anything_goes, callers_are_killed]
}

/// Offsets of the structures of START and SENDFILEW.
const START: usize = 3 << 9;
const PARTS: usize = 32 << 10;

const CALLERS: u64 = 3;
const FILE_LENGTH: u64 = 60_000;

/// Promise: Random calls for minutes cause no fault; killed callers leave nothing behind.
fn anything_goes() -> Result<()> {
    let Settings { seed, time, announces, .. } = settings();
    let things = Things::new()?;
    if announces {
        println!("{BEGINS}");
    }
    let end = Instant::now() + time;
    let done = AtomicBool::new(false);
    let answers = std::thread::scope(|scope| -> Result<Vec<Answers>> {
        let disturbers = [scope.spawn(|| things.change(&done)), scope.spawn(|| things.receive(&done))];
        let callers: Vec<_> = (0..CALLERS)
            .map(|number| {
                scope.spawn({
                    let things = &things;
                    move || Caller::new(number, things)?.call_until(end)
                })
            })
            .collect();
        let joined = callers
            .into_iter()
            .map(|caller| caller.join().map_err(|_| anyhow::anyhow!("a caller panicked"))?);
        let answers: Result<Vec<Answers>> = joined.collect();
        done.store(true, Ordering::Relaxed);
        for disturber in disturbers {
            disturber.join().map_err(|_| anyhow::anyhow!("a disturber panicked"))??;
        }
        answers
    })?;
    let mut sum = Answers::new();
    answers.into_iter().flatten().for_each(|(answer, times)| *sum.entry(answer).or_default() += times);
    let calls: u64 = sum.values().sum();
    let successes = sum.get(&0).copied().unwrap_or_default();
    count(format!(
        "caller: seed {seed}: {calls} calls in {} s of this clock by {CALLERS} threads, {successes} of them answered 0, \
         {} errors",
        time.as_secs(),
        sum.len() - 1
    ));
    ensure!(successes * 20 > calls, "only {successes} of {calls} calls answered 0: {sum:?}");
    ensure!(sum.len() > 8, "too few errors were met: {sum:?}");
    let pinned = Module::open()?.query()?.pinned_bytes;
    ensure!(pinned == 0, "{pinned} bytes stay pinned when all runs are closed");
    Ok(())
}

/// Promise: Random calls for minutes cause no fault; killed callers leave nothing behind.
///
/// Callers are killed in the middle of anything; what they had is given back, all of it, and the module goes
/// on.
fn callers_are_killed() -> Result<()> {
    require!(find("unshare").is_some(), "unshare is not installed");
    let Settings { seed, time, .. } = settings();
    let users =
        || -> Result<u64> { Ok(std::fs::read_to_string("/sys/module/wirepath/refcnt")?.trim().parse()?) };
    let before = users()?;
    let mut random = Random::new(seed);
    let end = Instant::now() + time / 4;
    let mut killed = 0;
    while killed < 3 || Instant::now() < end {
        let seed = random.number().to_string();
        // Its mounts go with it.
        let mut caller = Command::new("unshare")
            .arg("--mount")
            .arg(std::env::current_exe()?)
            .args(["--seconds", "3600", "--seed", &seed, "--announce", "--exact", "caller::anything_goes"])
            .stdout(Stdio::piped())
            .spawn()
            .context("starting a caller")?;
        let begun = wait_for_line(&mut caller, BEGINS);
        std::thread::sleep(Duration::from_micros(random.below(300_000)));
        caller.kill().context("killing a caller")?;
        let ended = caller.wait()?;
        begun?;
        ensure!(
            ended.signal() == Some(Signal::KILL.as_raw()),
            "a caller ended before it was killed: {ended}"
        );
        killed += 1;
    }
    // Runs may outlast their descriptors by a moment.
    Deadline::seconds(60.0).wait_for("the end of the runs of killed callers", || {
        let is_done = users()? == before && Module::open()?.query()?.pinned_bytes == 0;
        Ok(is_done.then_some(()))
    })?;
    count(format!("caller: {killed} processes killed while they called anything"));
    Ok(())
}

/// Line printed before the first call.
const BEGINS: &str = "caller: begins";

/// Reads what a process prints up to a line with this in it.
fn wait_for_line(process: &mut Child, text: &str) -> Result<()> {
    let output = BufReader::new(process.stdout.take().context("no standard output")?);
    for line in output.lines() {
        if line?.contains(text) {
            return Ok(());
        }
    }
    bail!("a caller has ended without a line of {text:?}")
}

/// Number of answers with each errno.
type Answers = BTreeMap<i32, u64>;

/// Objects that callers share.
struct Things {
    content: Content,
    files: Vec<(File, File)>,
    wires: Vec<Wire>,
    others: Vec<OwnedFd>,
    tcp: (TcpStream, TcpStream),
    _folders: [Folder; 2],
}

impl Things {
    fn new() -> Result<Things> {
        let folders = [Folder::ext4()?, Folder::tmpfs()?];
        let content = Content::new(settings().seed, FILE_LENGTH).with_hole(9000..30_001);
        let mut files = Vec::new();
        for folder in &folders {
            let file = folder.file("changing", &content)?;
            let path = folder.path().join("changing");
            files.push((file, OpenOptions::new().write(true).open(path)?));
        }
        let mut wires = Vec::new();
        for (address, is_connected) in [(IPV4, true), (IPV4, false), (IPV6, true), (IPV6, false)] {
            let wire = Wire::new(address, is_connected)?;
            wire.receiver.set_nonblocking(true)?;
            wires.push(wire);
        }
        let listener = TcpListener::bind((IPV4, 0))?;
        let tcp = (TcpStream::connect(listener.local_addr()?)?, listener.accept()?.0);
        tcp.1.set_nonblocking(true)?;
        let silent = UdpSocket::bind((IPV4, 0))?;
        silent.set_nonblocking(true)?;
        let (pipe, other_end) = rustix::pipe::pipe()?;
        let others = vec![
            File::open(folders[0].path())?.into(),
            File::open("/dev/zero")?.into(),
            File::open("/proc/self/status")?.into(),
            File::open("/proc/kallsyms")?.into(),
            File::open("/sys/kernel/mm/transparent_hugepage/enabled")?.into(),
            silent.into(),
            pipe,
            other_end,
            listener.into(),
        ];
        Ok(Things { content, files, wires, others, tcp, _folders: folders })
    }

    /// Changes files under the callers.
    fn change(&self, done: &AtomicBool) -> Result<()> {
        let mut random = Random::new(settings().seed);
        let content = self.content.bytes(0..FILE_LENGTH);
        while !done.load(Ordering::Relaxed) {
            let (reader, writer) = &self.files[random.below(self.files.len() as u64) as usize];
            match random.below(4) {
                0 => writer.set_len(random.below(FILE_LENGTH))?,
                1 => fadvise(reader, 0, None, Advice::DontNeed)?,
                _ => writer.write_all_at(content, 0)?,
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Receives what there is, so that there is room for more.
    fn receive(&self, done: &AtomicBool) -> Result<()> {
        let mut buffer = vec![0; 1 << 16];
        while !done.load(Ordering::Relaxed) {
            for wire in &self.wires {
                while wire.receiver.recv(&mut buffer).is_ok() {}
            }
            let mut tcp = &self.tcp.1;
            while std::io::Read::read(&mut tcp, &mut buffer).is_ok_and(|length| length > 0) {}
            std::thread::yield_now();
        }
        Ok(())
    }

    fn sockets(&self) -> Vec<i32> {
        let mut sockets: Vec<i32> = self.wires.iter().map(|wire| wire.sender.as_raw_fd()).collect();
        sockets.extend([self.tcp.0.as_raw_fd(), self.others[5].as_raw_fd()]);
        sockets
    }

    fn descriptor(&self, random: &mut Random) -> i32 {
        let others: Vec<i32> = self.others.iter().map(AsRawFd::as_raw_fd).collect();
        match random.below(4) {
            0 => random.one(&self.sockets()),
            1 => random.one(&[-1, -2, 0, 1, 2, 9999, i32::MIN, i32::MAX]),
            2 => self.files[random.below(2) as usize].1.as_raw_fd(),
            _ => random.one(&others),
        }
    }
}

/// One thread that calls.
struct Caller<'a> {
    bench: Bench,
    random: Random,
    things: &'a Things,
    runs: Vec<Started>,
    answers: Answers,
}

impl Caller<'_> {
    fn new(number: u64, things: &Things) -> Result<Caller<'_>> {
        let random = Random::of_case(settings().seed, number);
        Ok(Caller { bench: Bench::new()?, random, things, runs: Vec::new(), answers: Answers::new() })
    }

    fn call_until(mut self, end: Instant) -> Result<Answers> {
        while Instant::now() < end {
            self.call()?;
        }
        Ok(self.answers)
    }

    fn call(&mut self) -> Result<()> {
        self.lay_down()?;
        if self.random.once_in(3) {
            self.spoil();
        }
        let (request, at) = match self.random.below(20) {
            0..=8 => (layout::SEND, RUN),
            9..=12 => (layout::SENDFILEW, self.lay_down_vector()),
            13..=15 => (layout::START, self.lay_down_start()),
            16 => (layout::QUERY, RUN),
            17 => (0xbc00 | self.random.below(256) as u32, RUN),
            _ => return self.ask_a_run(),
        };
        let at = if self.random.once_in(50) { self.displaced(at) } else { at };
        self.bench.by_ring = self.random.once_in(4);
        let answer = self.bench.ask(request, at).map(|run| self.runs.extend(run)).map_err(Into::into);
        if self.runs.len() > 16 {
            self.runs.swap_remove(self.random.below(16) as usize);
        }
        self.note(request, answer)
    }

    /// Address for a request that is not aligned, partly mapped, or not mapped.
    fn displaced(&mut self, at: usize) -> usize {
        let arena = &mut self.bench.arena;
        let run: layout::Run = arena.take(at);
        let odd = at + 5;
        arena.put(odd, &run);
        self.random.one(&[odd, arena.length() - 50, arena.length()])
    }

    /// A request as it should be.
    fn lay_down(&mut self) -> Result<()> {
        let things = self.things;
        let mut call = Call::random(&mut self.random, FILE_LENGTH);
        call.train_packets = self.random.below(20) as u32;
        let which = self.random.below(3) as usize;
        let from = match things.files.get(which) {
            Some((file, _)) => From::File(file.as_raw_fd(), &things.content),
            None => From::Memory(&things.content),
        };
        // Smaller packets would take all the time.
        if call.packet_bytes != 0 && !matches!(call.header, Header::Rtp(_)) {
            call.packet_bytes = call.packet_bytes.max(500);
        }
        let wire = &things.wires[self.random.below(things.wires.len() as u64) as usize];
        self.bench.request(&call, &from, wire)?;
        Ok(())
    }

    /// Some fields of the request as they should not be.
    fn spoil(&mut self) {
        let mut run: layout::Run = self.bench.arena.take(RUN);
        for _ in 0..=self.random.below(3) {
            let number = self.number();
            match self.random.below(15) {
                0 => run.size = number as u32,
                1 => run.flags = self.random.below(8) as u32,
                2 => run.socket = self.things.descriptor(&mut self.random),
                3 => run.file = self.things.descriptor(&mut self.random),
                4 => run.offset = number,
                5 => run.length = number,
                6 => run.packet_bytes = (number as u32).max(500),
                7 => run.train_packets = self.random.below(70) as u32,
                8 => run.header_kind = self.random.below(4) as u32,
                9 => run.header_bytes = number as u32,
                10 => run.header = self.address(),
                11 => run.address = self.address(),
                12 => run.address_bytes = self.random.below(140) as u32,
                13 => run.skip_bytes = number as u32,
                _ => self.spoil_rtp(),
            }
        }
        self.bench.arena.put(RUN, &run);
    }

    fn spoil_rtp(&mut self) {
        let at = RTP + self.random.below(size_of::<layout::Rtp>() as u64) as usize;
        let byte = self.number() as u8;
        let mut rtp: layout::Rtp = self.bench.arena.take(RTP);
        if self.random.once_in(3) {
            rtp.table = self.address();
            self.bench.arena.put(RTP, &rtp);
        } else {
            self.bench.arena.write(at, &[byte]);
        }
    }

    fn lay_down_vector(&mut self) -> usize {
        let is_train = self.random.once_in(2);
        let train_bytes = 1 + self.random.below(1500);
        let count = 1 + self.random.below(if is_train { 100 } else { 12 });
        for index in 0..count {
            let length = if is_train { train_bytes } else { 1 + self.random.below(6000) };
            let offset = self.random.below(FILE_LENGTH);
            let (file, offset) = match self.random.below(3) {
                0 => (-1, self.bench.arena.address(self.bench.arena.length() - 1 - offset as usize)),
                1 => (self.things.files[0].0.as_raw_fd(), offset),
                _ => (self.things.files[1].0.as_raw_fd(), offset),
            };
            let copy = if file == -1 && self.random.once_in(2) { layout::PART_COPY } else { 0 };
            let end = if is_train || self.random.once_in(3) { layout::PART_END } else { 0 };
            let mut part = layout::Part { file, flags: copy | end, offset, length };
            if self.random.once_in(if is_train { 200 } else { 40 }) {
                let number = self.number();
                match self.random.below(4) {
                    0 => part.file = self.things.descriptor(&mut self.random),
                    1 => part.flags = number as u32,
                    2 => part.offset = number,
                    _ => part.length = number,
                }
            }
            self.bench.arena.put(PARTS + index as usize * size_of::<layout::Part>(), &part);
        }
        let mut vector = layout::Vector {
            size: size_of::<layout::Vector>() as u32,
            socket: self.random.one(&self.things.sockets()),
            part_count: count as u32,
            part_bytes: size_of::<layout::Part>() as u32,
            parts: self.bench.arena.address(PARTS),
            ..layout::Vector::default()
        };
        if self.random.once_in(5) {
            let number = self.number();
            match self.random.below(7) {
                0 => vector.size = number as u32,
                1 => vector.flags = self.random.below(8) as u32,
                2 => vector.socket = self.things.descriptor(&mut self.random),
                3 => vector.part_count = number as u32,
                4 => vector.parts = self.address(),
                5 => vector.bytes = self.random.below(8000),
                _ => vector.part_bytes = self.random.below(64) as u32,
            }
        }
        // In the place of the run, so that what the kernel writes stays in the arena.
        self.bench.arena.put(RUN, &vector);
        RUN
    }

    fn lay_down_start(&mut self) -> usize {
        let mut start = layout::Start {
            size: size_of::<layout::Start>() as u32,
            send: self.bench.arena.address(RUN),
            rate_bytes_per_second: random_rate(&mut self.random),
            ..layout::Start::default()
        };
        if self.random.once_in(3) {
            let count = 1 + self.random.below(20);
            let mut time_ns = 0;
            for index in 0..count {
                time_ns += self.random.below(2_000_000);
                let departure =
                    layout::Departure { time_ns, packets: 1 + self.random.below(20) as u32, reserved: 0 };
                self.bench.arena.put(PARTS + index as usize * size_of::<layout::Departure>(), &departure);
            }
            start.rate_bytes_per_second = 0;
            (start.departures, start.departure_count) = (self.bench.arena.address(PARTS), count as u32);
        }
        if self.random.once_in(5) {
            let number = self.number();
            match self.random.below(6) {
                0 => start.size = number as u32,
                1 => start.flags = 1,
                2 => start.send = self.address(),
                3 => start.start_ns = number,
                4 => start.departures = self.address(),
                _ => start.departure_count = number as u32,
            }
        }
        self.bench.arena.put(START, &start);
        START
    }

    /// A request of a run that was started.
    fn ask_a_run(&mut self) -> Result<()> {
        let Some(run) = self.runs.last() else { return Ok(()) };
        let request =
            self.random.one(&[layout::STATUS, layout::STATUS, layout::STOP, layout::SEND, layout::WAIT]);
        if request == layout::WAIT {
            // It may be slow.
            run.stop().context("stopping")?;
        }
        let status = layout::Status { size: size_of::<layout::Status>() as u32, ..layout::Status::default() };
        self.bench.arena.put(RUN, &status);
        let argument = if request == layout::STOP { 0 } else { self.bench.arena.address(RUN) };
        let answer = run.ask_with(request, &mut self.bench.arena, argument);
        self.note(request, answer)
    }

    fn note(&mut self, request: u32, answer: std::io::Result<()>) -> Result<()> {
        let errno = match &answer {
            Ok(()) => 0,
            Err(error) => Errno::from_io_error(error)
                .with_context(|| format!("request {request:#x}: {error}"))?
                .raw_os_error(),
        };
        // Above are numbers that the kernel uses for itself.
        ensure!((0..=133).contains(&errno), "request {request:#x} answered errno {errno}");
        *self.answers.entry(errno).or_default() += 1;
        Ok(())
    }

    /// A number at some boundary.
    fn number(&mut self) -> u64 {
        let any = self.random.number();
        self.random.one(&[
            0,
            1,
            2,
            12,
            71,
            72,
            104,
            105,
            4095,
            4096,
            65_507,
            65_508,
            1 << 31,
            u64::MAX >> 32,
            i64::MAX as u64,
            1 << 63,
            u64::MAX,
            any,
        ])
    }

    /// An address in the arena, behind it, or where nothing can be.
    fn address(&mut self) -> u64 {
        let arena = &self.bench.arena;
        let length = arena.length();
        let inside = self.random.below(length as u64) as usize;
        let places = [RUN, RTP, ADDRESS, TABLE, HEADERS, inside, length - 1, length - 16, length];
        let addresses = places.map(|place| arena.address(place));
        let none = self.random.one(&[0, 1, 4095, 0xffff_8880_0000_0000, u64::MAX, u64::MAX - 15]);
        if self.random.once_in(3) { none } else { self.random.one(&addresses) }
    }
}

fn random_rate(random: &mut Random) -> u64 {
    random.one(&[0, 1, 1000, 1_000_000, 100_000_000, 10_000_000_000, u64::MAX])
}
