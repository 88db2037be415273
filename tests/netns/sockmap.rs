//! What the kernel does with handlers of records of TCP (`sockmap.bpf.c`): why there are none in streams
//! (docs/decisions/0022-handlers-in-the-kernel.md). In a namespace of its own, over its loopback device.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use aya::Ebpf;
use aya::maps::{Array, MapData, SockMap};
use aya::programs::SkSkb;
use libtest_mimic::Trial;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;
use wirepath_tests::namespace::Namespace;
use wirepath_tests::{Deadline, bpf, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_sockmap_takes_without_bound_what_nobody_reads,
        a_bound_in_the_verdict_holds_the_sender,
        a_sockmap_loses_the_beginning_of_a_record
    ]
}

/// Buffers of the sockets, small beside what a sockmap takes without bound.
const BUFFER: usize = 256 << 10;
const WITHOUT_BOUND: usize = 96 << 20;

/// Bytes that may wait for the output, and what may be under way with all buffers: a socket takes up to twice its
/// buffer, and there are four.
const BOUND: u64 = 1 << 20;
const UNDER_WAY: usize = (1 << 20) + 8 * BUFFER;

/// Only a hang takes so long; and how long a sender may find no room before nothing moves any more.
const PATIENCE: Duration = Duration::from_secs(20);
const STILL: Duration = Duration::from_secs(1);

/// Places in the map `numbers`, and of the sockets.
const BOUND_AT: u32 = 0;
const REDIRECTED: u32 = 1;
const PASSED: u32 = 2;
const DROPPED: u32 = 3;
const INPUT: u32 = 0;
const OUTPUT: u32 = 1;

/// A sender, a sockmap in place of a relay, and a receiver.
struct Sockmap {
    sender: TcpStream,
    input: TcpStream,
    _output: TcpStream,
    receiver: TcpStream,
    numbers: Array<MapData, u64>,
    _sockets: SockMap<MapData>,
    _programs: Ebpf,
    _namespace: Namespace,
}

impl Sockmap {
    fn start(bound: u64) -> Result<Sockmap> {
        let folder = tempfile::tempdir()?;
        let object = bpf::program("sockmap", folder.path())?;
        let mut programs = bpf::load(&object)?;
        let namespace = Namespace::new()?;
        let ((sender, input), (output, receiver)) = namespace.enter(|| Ok((connection()?, connection()?)))?;
        let mut sockets = SockMap::try_from(programs.take_map("sockets").context("sockets")?)?;
        let mut numbers: Array<_, u64> = Array::try_from(programs.take_map("numbers").context("numbers")?)?;
        numbers.set(BOUND_AT, bound, 0)?;
        for name in ["parser", "verdict"] {
            let program: &mut SkSkb = programs.program_mut(name).context(name)?.try_into()?;
            program.load()?;
            program.attach(sockets.fd())?;
        }
        sockets.set(OUTPUT, &output, 0)?;
        sockets.set(INPUT, &input, 0)?;
        Ok(Sockmap {
            sender,
            input,
            _output: output,
            receiver,
            numbers,
            _sockets: sockets,
            _programs: programs,
            _namespace: namespace,
        })
    }

    fn number(&self, place: u32) -> Result<usize> {
        Ok(self.numbers.get(&place, 0)? as usize)
    }

    /// Sends records until nothing moves for a time or so many bytes were taken; returns their number.
    fn send_until_still(&mut self, most: usize, time: Duration) -> Result<usize> {
        let records = records(0..RECORDS);
        let time: Timespec = time.try_into()?;
        let mut taken = 0;
        self.sender.set_nonblocking(true)?;
        while taken < most {
            match self.sender.write(&records[taken % records.len()..]) {
                Ok(bytes) => taken += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let mut room = [PollFd::new(&self.sender, PollFlags::OUT)];
                    if poll(&mut room, Some(&time))? == 0 {
                        break;
                    }
                }
                Err(error) => return Err(error).context("sending"),
            }
        }
        Ok(taken)
    }
}

/// A connection: the end that connects, and the one that accepts.
fn connection() -> Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    // Inherited by what is accepted.
    SockRef::from(&listener).set_recv_buffer_size(BUFFER)?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    let (other, _) = listener.accept()?;
    for socket in [&one, &other] {
        SockRef::from(socket).set_send_buffer_size(BUFFER)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
    }
    Ok((one, other))
}

/// Bytes of the longest record, its length included.
const LONGEST: usize = 2_004;

/// Records that are sent again and again, until there are enough.
const RECORDS: usize = 4_000;

/// Records of all lengths up to 2,000 behind their length, none of which is dropped.
fn records(numbers: std::ops::Range<usize>) -> Vec<u8> {
    let record = |number: usize| {
        let length = 1 + number * 37 % (LONGEST - 4);
        let mut record = (length as u32).to_be_bytes().to_vec();
        record.extend((0..length).map(|at| 1 + ((number + at) % 255) as u8));
        record
    };
    numbers.flat_map(record).collect()
}

/// A receiver that reads nothing does not slow the sender of a bare sockmap.
fn a_sockmap_takes_without_bound_what_nobody_reads() -> Result<()> {
    let mut sockmap = Sockmap::start(0)?;
    let taken = sockmap.send_until_still(WITHOUT_BOUND, PATIENCE)?;
    ensure!(taken >= WITHOUT_BOUND, "this kernel holds the sender at {taken} bytes: see decision 22");
    Ok(())
}

/// A verdict that leaves records to user space once so many bytes wait for the output holds the sender, and loses
/// nothing: what the kernel sent and what user space reads are what was sent, in order.
fn a_bound_in_the_verdict_holds_the_sender() -> Result<()> {
    let mut sockmap = Sockmap::start(BOUND)?;
    let taken = sockmap.send_until_still(WITHOUT_BOUND, STILL)?;
    ensure!(taken <= UNDER_WAY, "{taken} bytes were taken, more than {UNDER_WAY}");
    let redirected = sockmap.number(REDIRECTED)?;
    ensure!(redirected as u64 > BOUND && taken > redirected, "{redirected} of {taken} bytes were redirected");
    let sent = records(0..RECORDS);
    let expected: Vec<u8> = sent.iter().copied().cycle().take(taken).collect();
    let mut came = vec![0; redirected];
    sockmap.receiver.read_exact(&mut came).context("what was redirected")?;
    ensure!(came == expected[..redirected], "other bytes were redirected than were sent");
    // Whole records only: the last of them may be under way, or not be sent to its end.
    sockmap.sender.shutdown(Shutdown::Write)?;
    let mut left: Vec<u8> = Vec::new();
    let whole = taken - redirected - LONGEST;
    Deadline::seconds(PATIENCE.as_secs_f64()).wait_for("what was left to user space", || {
        let mut piece = [0; 1 << 16];
        match sockmap.input.read(&mut piece) {
            Ok(0) => bail!("the end came after {} of {whole} bytes", left.len()),
            Ok(length) => left.extend(&piece[..length]),
            // Also where the call is to wait (tcp_bpf_recvmsg_parser).
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        Ok((left.len() > whole).then_some(()))
    })?;
    ensure!(left == expected[redirected..redirected + left.len()], "other bytes were left than were sent");
    ensure!(left.len() <= sockmap.number(PASSED)?, "more was read than was left");
    Ok(())
}

/// What came of a record whose end does not come is neither redirected nor left to user space: a stream that the
/// kernel carries ends without it, and cannot say so.
fn a_sockmap_loses_the_beginning_of_a_record() -> Result<()> {
    let mut sockmap = Sockmap::start(0)?;
    let whole = records(5..6);
    let dropped = [&3_u32.to_be_bytes()[..], &[0, 7, 7]].concat();
    let cut = [&100_u32.to_be_bytes()[..], &[9; 50]].concat();
    sockmap.sender.write_all(&[&dropped[..], &whole, &cut].concat())?;
    sockmap.sender.shutdown(Shutdown::Write)?;
    let mut came = vec![0; whole.len()];
    sockmap.receiver.read_exact(&mut came)?;
    ensure!(came == whole, "another record was redirected");
    ensure!(sockmap.number(DROPPED)? == dropped.len(), "a record was not dropped");
    // The end has come, and all bytes before it.
    let mut ended = [PollFd::new(&sockmap.input, PollFlags::RDHUP)];
    ensure!(poll(&mut ended, Some(&PATIENCE.try_into()?))? == 1, "no end came");
    sockmap.input.set_nonblocking(true)?;
    match sockmap.input.read(&mut [0; 1_000]) {
        Ok(0) => {}
        // Not even the end is told (tcp_bpf_recvmsg_parser).
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        other => bail!("user space reads a record that was cut, {other:?}: see decision 22"),
    }
    ensure!(sockmap.number(REDIRECTED)? == whole.len(), "part of a record was redirected");
    Ok(())
}
