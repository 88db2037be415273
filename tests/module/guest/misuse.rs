//! SEND with one thing wrong: the answer, and that nothing was sent or changed.

use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use wirepath_module_tests::call::{Call, Header};
use wirepath_module_tests::content::Content;
use wirepath_module_tests::model::Outcome;
use wirepath_module_tests::rtp::{Rtp, Timestamps};
use wirepath_sys::module::arena::CommandRing;
use wirepath_sys::module::{Module, OpenError, layout};
use wirepath_tests::{require, trials};

use crate::bench::{ADDRESS, Bench, From, HEADERS, RTP, RUN, TABLE};
use crate::descriptors::Others;
use crate::files::Folder;
use crate::settings::count;
use crate::wire::{IPV4, IPV6, Wire, sockaddr};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        each_field_wrong,
        each_descriptor_wrong,
        where_nobody_listens,
        where_there_is_no_way,
        requests_that_are_none,
        commands_that_are_none,
        users_that_may_not_open,
        descriptors_of_other_users,
    ]
}

/// A request that is right, and where its parts lie.
struct Right {
    run: layout::Run,
    rtp: layout::Rtp,
    time: layout::RtpTime,
    nowhere: u64,
    somewhere: u64,
}

type Change = fn(&mut Right);

/// The fault, the change that makes it, and the expected answer.
#[rustfmt::skip]
const FIELDS: &[(&str, Change, Errno)] = &[
    ("no size", |right| right.run.size = 0, Errno::INVAL),
    ("a size below the first", |right| right.run.size = 103, Errno::INVAL),
    ("an endless size", |right| right.run.size = u32::MAX, Errno::TOOBIG),
    ("an unknown flag", |right| right.run.flags = 1 << 2, Errno::INVAL),
    ("the last flag", |right| right.run.flags = 1 << 31, Errno::INVAL),
    ("no socket", |right| right.run.socket = -1, Errno::BADF),
    ("a socket that is not open", |right| right.run.socket = 99_999, Errno::BADF),
    ("a negative file", |right| right.run.file = -2, Errno::BADF),
    ("the least file", |right| right.run.file = i32::MIN, Errno::BADF),
    ("a file that is not open", |right| right.run.file = 99_999, Errno::BADF),
    ("a position beyond files", |right| right.run.offset = 1 << 63, Errno::INVAL),
    ("an end beyond files", |right| (right.run.offset, right.run.packet_bytes) = (i64::MAX as u64, 8), Errno::INVAL),
    ("an end beyond numbers", |right| (right.run.offset, right.run.packet_bytes) = (u64::MAX, 8), Errno::INVAL),
    ("one packet to the end", |right| (right.run.length, right.run.packet_bytes) = (u64::MAX, 0), Errno::INVAL),
    ("a packet too long", |right| right.run.packet_bytes = 65_496, Errno::MSGSIZE),
    ("a packet far too long", |right| right.run.packet_bytes = u32::MAX, Errno::MSGSIZE),
    ("a train too long", |right| right.run.train_packets = 65, Errno::INVAL),
    ("an unknown header", |right| right.run.header_kind = 3, Errno::INVAL),
    ("more to pass over than a header has", |right| right.run.skip_bytes = 257, Errno::INVAL),
    ("the most to pass over", |right| right.run.skip_bytes = u32::MAX, Errno::INVAL),
    ("memory to the end", |right| (right.run.file, right.run.offset, right.run.length) = (-1, right.somewhere, u64::MAX), Errno::INVAL),
    ("memory that is not there", |right| (right.run.file, right.run.offset) = (-1, right.nowhere), Errno::FAULT),
    ("memory at 0", |right| (right.run.file, right.run.offset) = (-1, 0), Errno::FAULT),
    ("memory of the kernel", |right| (right.run.file, right.run.offset) = (-1, 0xffff_8880_0000_0000), Errno::FAULT),
    ("memory beyond numbers", |right| (right.run.file, right.run.offset) = (-1, u64::MAX - 3), Errno::INVAL),
    ("a header that is none", |right| right.run.header_kind = layout::HEADER_NONE, Errno::INVAL),
    ("a given header without size", |right| (right.run.header_kind, right.run.header_bytes) = (1, 0), Errno::INVAL),
    ("a given header too long", |right| (right.run.header_kind, right.run.header_bytes) = (1, 257), Errno::INVAL),
    ("a given header that is not there", |right| (right.run.header_kind, right.run.header) = (1, right.nowhere), Errno::FAULT),
    ("a given header at 0", |right| (right.run.header_kind, right.run.header) = (1, 0), Errno::FAULT),
    ("a given header of the kernel", |right| (right.run.header_kind, right.run.header) = (1, 0xffff_8880_0000_0000), Errno::FAULT),
    ("an engine that is not there", |right| right.run.header = right.nowhere, Errno::FAULT),
    ("an engine at 0", |right| right.run.header = 0, Errno::FAULT),
    ("an engine of the kernel", |right| right.run.header = 0xffff_8880_0000_0000, Errno::FAULT),
    ("an engine of another size", |right| right.run.header_bytes = 71, Errno::INVAL),
    ("an engine too small", |right| (right.rtp.size, right.run.header_bytes) = (71, 71), Errno::INVAL),
    ("an endless engine", |right| right.rtp.size = u32::MAX, Errno::TOOBIG),
    ("a flag of the engine", |right| right.rtp.flags = 1, Errno::INVAL),
    ("a payload type of 8 bits", |right| right.rtp.payload_type = 128, Errno::INVAL),
    ("an unknown marker", |right| right.rtp.marker = 4, Errno::INVAL),
    ("a count of no table", |right| right.rtp.table_count = 1, Errno::INVAL),
    ("a position beyond its step", |right| right.rtp.position = 1, Errno::INVAL),
    ("a table of nothing", |right| right.rtp.table = right.somewhere, Errno::NODATA),
    ("a table that is not there", |right| (right.rtp.table, right.rtp.table_count) = (right.nowhere, 1), Errno::FAULT),
    ("a table of the kernel", |right| (right.rtp.table, right.rtp.table_count) = (0xffff_8880_0000_0000, 1), Errno::FAULT),
    ("a group of nothing", |right| (right.rtp.table, right.rtp.table_count, right.time.packets) = (right.somewhere, 1, 0), Errno::INVAL),
    ("a position beyond its group", |right| (right.rtp.table, right.rtp.table_count, right.rtp.position) = (right.somewhere, 1, 9), Errno::INVAL),
    ("a reserved field of a group", |right| (right.rtp.table, right.rtp.table_count, right.time.reserved) = (right.somewhere, 1, 1), Errno::INVAL),
    ("more bytes than packets", |right| (right.rtp.table, right.rtp.table_count, right.time.bytes) = (right.somewhere, 1, 9001), Errno::INVAL),
    ("fewer bytes than packets", |right| (right.rtp.table, right.rtp.table_count, right.time.bytes) = (right.somewhere, 1, 8000), Errno::INVAL),
    ("an address without size", |right| right.run.address = right.somewhere, Errno::INVAL),
    ("a size without address", |right| right.run.address_bytes = 16, Errno::INVAL),
    ("an address too long", |right| (right.run.address, right.run.address_bytes) = (right.somewhere, 129), Errno::INVAL),
    ("an address that is not there", |right| (right.run.address, right.run.address_bytes) = (right.nowhere, 16), Errno::FAULT),
    ("an address too short", |right| (right.run.address, right.run.address_bytes) = (right.somewhere, 8), Errno::INVAL),
];

/// Promise: A wrong request is refused with the documented error and sends nothing.
fn each_field_wrong() -> Result<()> {
    let mut bed = TestBed::new()?;
    for (name, change, expected) in FIELDS {
        bed.refuses(*expected, change).with_context(|| (*name).to_owned())?;
    }
    bed.works()?;
    count(format!("misuse::each_field_wrong: {} requests refused", FIELDS.len()));
    Ok(())
}

/// Promise: A wrong request is refused with the documented error and sends nothing.
fn each_descriptor_wrong() -> Result<()> {
    let mut bed = TestBed::new()?;
    let others = Others::new(bed.folder.path())?;
    let (files, mut sockets) = (others.files(), others.sockets());
    sockets.push(others.unconnected());
    for (name, descriptor, expected) in &files {
        bed.refuses(*expected, |right| right.run.file = *descriptor).context(*name)?;
    }
    for (name, descriptor, expected) in &sockets {
        bed.refuses(*expected, |right| right.run.socket = *descriptor).context(*name)?;
    }
    bed.works()?;
    count(format!("misuse::each_descriptor_wrong: {} descriptors refused", files.len() + sockets.len()));
    Ok(())
}

/// Promise: A wrong request is refused with the documented error and sends nothing.
///
/// The network says so at the next send, and the one after that works.
fn where_nobody_listens() -> Result<()> {
    let mut bed = TestBed::new()?;
    for address in [IPV4, IPV6] {
        let gone = UdpSocket::bind((address, 0))?.local_addr()?;
        let sender = UdpSocket::bind((address, 0))?;
        sender.connect(gone)?;
        let descriptor = sender.as_raw_fd();
        for expected in [Ok(()), Err(Errno::CONNREFUSED), Ok(()), Err(Errno::CONNREFUSED)] {
            let answer = bed.asks(|right| (right.run.socket, right.run.packet_bytes) = (descriptor, 0))?;
            ensure!(answer == expected, "over {address} it answered {answer:?} and not {expected:?}");
        }
    }
    Ok(())
}

/// Promise: A wrong request is refused with the documented error and sends nothing.
fn where_there_is_no_way() -> Result<()> {
    let mut bed = TestBed::new()?;
    let ipv4 = UdpSocket::bind("0.0.0.0:0")?;
    let ipv6 = UdpSocket::bind("[::]:0")?;
    for (socket, to, expected) in [
        (&ipv4, sockaddr("192.0.2.1:9".parse()?), Errno::NETUNREACH),
        (&ipv4, sockaddr("255.255.255.255:9".parse()?), Errno::NETUNREACH),
        (&ipv4, sockaddr("127.255.255.255:9".parse()?), Errno::ACCESS),
        (&ipv4, sockaddr("127.0.0.1:0".parse()?), Errno::INVAL),
        (&ipv4, sockaddr("[::1]:9".parse()?), Errno::AFNOSUPPORT),
        (&ipv4, vec![1, 0, b'/', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], Errno::AFNOSUPPORT),
        (&ipv6, sockaddr("[2001:db8::1]:9".parse()?), Errno::NETUNREACH),
        (&ipv6, sockaddr("[::1]:0".parse()?), Errno::INVAL),
    ] {
        bed.bench.arena.write(ADDRESS, &to);
        let address = bed.bench.arena.address(ADDRESS);
        bed.refuses(expected, |right| {
            right.run.socket = socket.as_raw_fd();
            (right.run.address, right.run.address_bytes) = (address, to.len() as u32);
        })
        .with_context(|| format!("to {to:?}"))?;
    }
    let wire = Wire::new(IPV4, true)?;
    rustix::net::shutdown(&wire.sender, rustix::net::Shutdown::Write).context("shutting down")?;
    bed.refuses(Errno::PIPE, |right| right.run.socket = wire.sender.as_raw_fd()).context("a socket shut down")
}

/// Promise: A wrong request is refused with the documented error and sends nothing.
fn requests_that_are_none() -> Result<()> {
    let mut bench = Bench::new()?;
    let argument = bench.arena.address(RUN);
    for request in
        [layout::STATUS, layout::STOP, layout::WAIT, 0xbc07, 0xbcff, layout::SEND ^ 1 << 30, 0x5413, u32::MAX]
    {
        let answer = bench.module.ask(request, &mut bench.arena, argument);
        let error = answer.err().and_then(|error| Errno::from_io_error(&error));
        ensure!(error == Some(Errno::NOTTY), "request {request:#x} answered {error:?}");
    }
    Ok(())
}

/// Promise: A wrong request is refused with the documented error and sends nothing.
///
/// The same by a ring, whose commands have bytes that must be zero, besides.
fn commands_that_are_none() -> Result<()> {
    let mut bench = Bench::new()?;
    require!(bench.has(layout::FEATURE_URING), "this module takes no commands of io_uring");
    let mut ring = CommandRing::new()?;
    let argument = bench.arena.address(RUN);
    let commands = [
        (layout::QUERY, [argument, 1], Errno::INVAL),
        (layout::SEND, [argument, 1 << 63], Errno::INVAL),
        (layout::STATUS, [argument, 0], Errno::NOTTY),
        (layout::STOP, [0, 0], Errno::NOTTY),
        (layout::WAIT, [argument, 0], Errno::NOTTY),
        (0, [argument, 0], Errno::NOTTY),
        (u32::MAX, [argument, 0], Errno::NOTTY),
        (layout::QUERY, [bench.arena.address(bench.arena.length()), 0], Errno::FAULT),
    ];
    for (request, command, expected) in commands {
        let answer = ring.ask(&bench.module, request, &mut bench.arena, command);
        let error = answer.err().and_then(|error| Errno::from_io_error(&error));
        ensure!(error == Some(expected), "command {request:#x} answered {error:?} and not {expected:?}");
    }
    Ok(())
}

/// Promise: Opening the device needs permission; any process with its descriptor may use it.
///
/// A user without the right to open the device is told so.
fn users_that_may_not_open() -> Result<()> {
    let opened = as_nobody(Module::open)?;
    ensure!(matches!(opened, Err(OpenError::Forbidden)), "{opened:?}");
    Ok(())
}

/// Promise: Opening the device needs permission; any process with its descriptor may use it.
///
/// An open descriptor may be used whoever opened it, as with `read()` and `send()`: also of a file that this
/// user may not open. A number that is not open in this process is invalid, though another has it open.
fn descriptors_of_other_users() -> Result<()> {
    let mut bed = TestBed::new()?;
    let path = bed.folder.path().join("plain");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    let (opened, answer) = as_nobody(|| (File::open(&path), bed.asks(|_| ())))?;
    let error = opened.err().map(|error| error.kind());
    ensure!(error == Some(std::io::ErrorKind::PermissionDenied), "nobody may open the file: {error:?}");
    let answer = answer?;
    ensure!(answer == Ok(()), "{answer:?}");
    bed.wire.arrived()?;

    let others = OtherProcess::new(&path)?;
    for (what, number) in [("file", others.file), ("socket", others.socket)] {
        let change = |right: &mut Right| match what {
            "file" => right.run.file = number,
            _ => right.run.socket = number,
        };
        bed.refuses(Errno::BADF, change).with_context(|| format!("another process's {what}"))?;
    }
    Ok(())
}

/// A process that has a file and a socket open under numbers that are free here.
struct OtherProcess {
    child: Child,
    file: i32,
    socket: i32,
}

impl OtherProcess {
    fn new(path: &Path) -> Result<OtherProcess> {
        let (file, socket) = (700, 701);
        let taken = fcntl_dupfd_cloexec(File::open(path)?, file)?;
        ensure!(taken.as_raw_fd() == file, "number {file} is not free");
        let other = fcntl_dupfd_cloexec(UdpSocket::bind((IPV4, 0))?, socket)?;
        ensure!(other.as_raw_fd() == socket, "number {socket} is not free");
        for descriptor in [&taken, &other] {
            // The child has them, too.
            rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::empty())?;
        }
        let child = Command::new("cat").stdin(Stdio::piped()).spawn().context("starting another process")?;
        for number in [file, socket] {
            let link = format!("/proc/{}/fd/{number}", child.id());
            std::fs::read_link(&link).with_context(|| format!("the other process has no {number}"))?;
        }
        Ok(OtherProcess { child, file, socket })
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        // It ends by itself when nobody writes to it.
        drop(self.child.stdin.take());
        self.child.wait().ok();
    }
}

/// Calls it on a thread that is nobody's.
fn as_nobody<T: Send>(call: impl FnOnce() -> T + Send) -> Result<T> {
    let nobody = rustix::process::Uid::from_raw(65_534);
    let no_group = rustix::process::Gid::from_raw(65_534);
    let thread = || -> Result<T> {
        rustix::thread::set_thread_groups(&[]).context("leaving groups")?;
        rustix::thread::set_thread_res_gid(no_group, no_group, no_group).context("leaving the group")?;
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).context("becoming nobody")?;
        Ok(call())
    };
    std::thread::scope(|scope| scope.spawn(thread).join())
        .map_err(|_| anyhow::anyhow!("a thread panicked"))?
}

/// A file, a wire, and a request that works.
struct TestBed {
    bench: Bench,
    wire: Wire,
    content: Content,
    file: File,
    folder: Folder,
}

impl TestBed {
    fn new() -> Result<TestBed> {
        let folder = Folder::tmpfs()?;
        let content = Content::new(1, 100_000);
        let file = folder.file("plain", &content)?;
        Ok(TestBed { bench: Bench::new()?, wire: Wire::new(IPV4, true)?, content, file, folder })
    }

    /// Three packets with headers of the engine.
    fn call() -> Call {
        let timestamps = Timestamps::Step(1000, 90, 1);
        let rtp = Rtp {
            ssrc: 7,
            sequence: 8,
            payload_type: 33,
            marker: 0,
            position: 0,
            packets: 0,
            octets: 0,
            timestamps,
        };
        Call { packet_bytes: 1000, header: Header::Rtp(rtp), ..Call::packet(4000, 3000) }
    }

    /// The answer to the request with a change.
    fn asks(&mut self, change: impl Fn(&mut Right)) -> Result<Result<(), Errno>> {
        let from = From::File(self.file.as_raw_fd(), &self.content);
        self.bench.request(&TestBed::call(), &from, &self.wire)?;
        let arena = &mut self.bench.arena;
        let mut right = Right {
            run: arena.take(RUN),
            rtp: arena.take(RTP),
            time: layout::RtpTime { timestamp: 1, packets: 9, ..layout::RtpTime::default() },
            nowhere: arena.address(arena.length()),
            somewhere: arena.address(TABLE),
        };
        // Headers that could be sent.
        arena.write(HEADERS, &[0; 1024]);
        change(&mut right);
        arena.put(RUN, &right.run);
        arena.put(RTP, &right.rtp);
        arena.put(TABLE, &right.time);
        let before = arena.bytes()[..HEADERS].to_vec();
        let answer = self.bench.send();
        if answer.is_err() {
            crate::wire::compare(&self.bench.arena.bytes()[..HEADERS], &before)
                .context("memory has changed")?;
        }
        Ok(answer)
    }

    fn refuses(&mut self, expected: Errno, change: impl Fn(&mut Right)) -> Result<()> {
        let answer = self.asks(change)?;
        ensure!(answer == Err(expected), "it answered {answer:?} and not {expected:?}");
        self.wire.compare(std::iter::empty())
    }

    /// The request without a change still does what it should.
    fn works(&mut self) -> Result<()> {
        let from = From::File(self.file.as_raw_fd(), &self.content);
        let outcome = Outcome::of(&TestBed::call(), wirepath_module_tests::model::Source::File(100_000));
        ensure!(outcome.packets.len() == 3, "three packets");
        self.bench.check(&TestBed::call(), &from, &mut self.wire).context("unchanged")
    }
}
