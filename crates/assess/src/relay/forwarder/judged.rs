//! Records that an eBPF handler judges: in the kernel, by the stream service in user space, and by careful loops
//! that judge them without eBPF.

use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{RecvFlags, recv, sockopt};
use wirepath_bpf::{BpfHandler, HandlerObject, InKernel, Mirror, Place, Receiver, Select, Sockmap};
use wirepath_engine::{Engine, EngineOptions};
use wirepath_streams::{
    Framing, Handler, Object, OutputPattern, RunningStream, Stream, StreamBuilder, StreamOptions,
};

use super::{Ends, Prepared, datagrams};
use crate::relay::records::{RECORD, is_passed};
use crate::relay::task::{Judged, Shape, Task};
use crate::subject::Method;

/// Buffer of the loops, as of other careful loops.
const BUFFER: usize = 64 << 10;

/// Receive buffer for datagrams: half a second of records.
const ROOM: usize = 32 << 20;

/// Interval at which the stream beside a mirror in the kernel is asked whether it has sent all that was left to it:
/// that of `wirepath relay`.
const HAND_OVER_INTERVAL: Duration = Duration::from_millis(10);

/// Bytes that may wait for the output of a sockmap.
pub(crate) const BOUND: u64 = 16 << 20;

pub(super) fn prepare(task: &Task, judged: &Judged, ends: Ends) -> io::Result<Prepared> {
    match &task.shape {
        Shape::Datagrams(receivers) => of_datagrams(task, judged, receivers, ends),
        _ => of_connections(task, judged, ends),
    }
}

fn of_connections(task: &Task, judged: &Judged, ends: Ends) -> io::Result<Prepared> {
    let Ends { mut inputs, mut outputs, .. } = ends;
    let input = inputs.pop().ok_or(io::ErrorKind::InvalidInput)?;
    let Some(output) = outputs.pop() else { return Ok(Box::new(move || discard(&input))) };
    match task.method {
        Method::Kernel => {
            let object = object(judged)?;
            let mut sockmap = Sockmap::load(&object, BOUND).map_err(io::Error::other)?;
            sockmap.connect(&input, &output).map_err(io::Error::other)?;
            Ok(forever((sockmap, input, output)))
        }
        Method::Streams => {
            let handler = BpfHandler::new(&object(judged)?, Arc::<Place>::default());
            let builder = StreamBuilder::default()
                .input(Object::stream("source", input.into())?, Framing::Fixed(RECORD))
                .output(Object::stream("sink", output.into())?)
                .finish_outputs();
            run(builder.handler(Handler::Peek(Box::new(handler))).build())
        }
        _ => Ok(Box::new(move || judge_all(input, output))),
    }
}

fn of_datagrams(task: &Task, judged: &Judged, receivers: &[SocketAddr], ends: Ends) -> io::Result<Prepared> {
    let socket = ends.datagrams.ok_or(io::ErrorKind::InvalidInput)?;
    if sockopt::set_socket_recv_buffer_size_force(&socket, ROOM).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, ROOM)?; // without privileges, up to net.core.rmem_max
    }
    let outputs = datagrams::connected(receivers)?;
    if outputs.is_empty() {
        return Ok(forever(socket));
    }
    if task.method == Method::ReadWrite {
        return Ok(Box::new(move || judge_datagrams(&socket, &outputs)));
    }
    let (object, place) = (object(judged)?, Arc::<Place>::default());
    let mirrors = judged.mirrors && task.method == Method::Kernel;
    if mirrors {
        place.enter_kernel(InKernel::Mirror(mirror(&object, &socket, &outputs)?));
    } else if task.method == Method::Kernel {
        let devices: Vec<String> = judged.device.iter().cloned().collect();
        let select = Select::attach(&object, address(&socket)?, &devices).map_err(io::Error::other)?;
        place.enter_kernel(InKernel::Select(select));
    }
    let handler = BpfHandler::new(&object, Arc::clone(&place));
    let input = Object::datagrams("source", socket.into(), None, None)?;
    input.take_joined_datagrams(!mirrors)?;
    let mut builder = StreamBuilder::default().input(input, Framing::Whole).pattern(OutputPattern::Mirror);
    for output in outputs {
        builder = builder.output(Object::datagrams("receiver", output.into(), None, Some(RECORD))?);
    }
    let stream = builder.handler(Handler::Peek(Box::new(handler))).build();
    if mirrors { run_beside_mirror(stream, place) } else { run(stream) }
}

/// Mirror of datagrams in the kernel, which has learned the way to each receiver from an empty datagram, which sinks
/// do not count.
fn mirror(object: &HandlerObject, input: &UdpSocket, outputs: &[UdpSocket]) -> io::Result<Mirror> {
    let receiver = |output: &UdpSocket| {
        let destination = match output.peer_addr()? {
            SocketAddr::V4(destination) => destination,
            SocketAddr::V6(_) => return Err(io::ErrorKind::AddrNotAvailable.into()),
        };
        Ok(Receiver { source: address(output)?, destination })
    };
    let receivers: Vec<Receiver> = outputs.iter().map(receiver).collect::<io::Result<_>>()?;
    let mirror = Mirror::attach(object, address(input)?, &receivers).map_err(io::Error::other)?;
    outputs.iter().try_for_each(|output| output.send(&[]).map(drop))?;
    Ok(mirror)
}

/// Starts a stream that sends what a mirror in the kernel leaves to it, and waits until the mirror has begun. Then
/// looks again and again whether the kernel can take over, as `wirepath relay` does.
fn run_beside_mirror(stream: Stream, place: Arc<Place>) -> io::Result<Prepared> {
    let engine = Engine::start(EngineOptions::default())?;
    let running = stream.start(&engine, StreamOptions::default());
    while is_left(&place) {
        hand_over(&running, &place);
        if let Some(end) = running.wait_for(HAND_OVER_INTERVAL) {
            end.result.map_err(io::Error::other)?;
            return Err(io::Error::other("the stream ended before the mirror began"));
        }
    }
    Ok(Box::new(move || {
        let _engine = engine;
        loop {
            if let Some(end) = running.wait_for(HAND_OVER_INTERVAL) {
                return end.result.map_err(io::Error::other);
            }
            if is_left(&place) {
                hand_over(&running, &place);
            }
        }
    }))
}

/// Returns whether records were left to user space that it is not known to have sent.
fn is_left(place: &Place) -> bool {
    place.with_mirror(|mirror| mirror.left().is_some()).unwrap_or(false)
}

/// Lets the kernel take over if the stream has sent all records that were left to it.
fn hand_over(running: &RunningStream, place: &Arc<Place>) {
    let place = Arc::clone(place);
    running.with(move |stream| {
        place.with_mirror(|mirror| {
            let Some(left) = mirror.left() else { return };
            if stream.is_drained() && mirror.left() == Some(left) && stream.is_drained() {
                mirror.set_sent_on(left).ok(); // if writing fails, the next call tries again
            }
        });
    });
}

fn object(judged: &Judged) -> io::Result<HandlerObject> {
    HandlerObject::from_file(&judged.object).map_err(io::Error::other)
}

/// Address of a socket of IPv4.
fn address(socket: &UdpSocket) -> io::Result<SocketAddrV4> {
    let address = socket.local_addr()?;
    match address.ip() {
        IpAddr::V4(ip) => Ok(SocketAddrV4::new(ip, address.port())),
        IpAddr::V6(_) => Err(io::ErrorKind::AddrNotAvailable.into()),
    }
}

/// Starts a stream, and waits for its end.
fn run(stream: Stream) -> io::Result<Prepared> {
    let engine = Engine::start(EngineOptions::default())?;
    let running = stream.start(&engine, StreamOptions::default());
    running.status(); // returns when the engine thread has accepted the stream
    Ok(Box::new(move || {
        let _engine = engine;
        running.wait().result.map_err(io::Error::other)
    }))
}

/// Keeps what the kernel uses until this process is ended.
fn forever(kept: impl Sized + 'static) -> Prepared {
    Box::new(move || {
        let _kept = kept;
        loop {
            std::thread::park();
        }
    })
}

/// Takes all bytes of a connection without a copy.
fn discard(input: &TcpStream) -> io::Result<()> {
    let mut room = vec![0; BUFFER];
    while recv(input, &mut room[..], RecvFlags::TRUNC)?.1 > 0 {}
    Ok(())
}

/// Sends the passed records of a connection on, several by one call.
fn judge_all(mut input: TcpStream, mut output: TcpStream) -> io::Result<()> {
    let (mut buffer, mut filled) = (vec![0; BUFFER], 0);
    loop {
        match input.read(&mut buffer[filled..])? {
            0 => return output.shutdown(std::net::Shutdown::Write),
            length => filled += length,
        }
        let whole = filled / RECORD * RECORD;
        let mut slices = [IoSlice::new(&[]); BUFFER / RECORD];
        let passed = passed(&buffer[..whole], &mut slices);
        let mut left = &mut slices[..passed];
        while !left.is_empty() {
            let written = output.write_vectored(left)?;
            IoSlice::advance_slices(&mut left, written);
        }
        buffer.copy_within(whole..filled, 0);
        filled -= whole;
    }
}

/// Finds the passed records, adjacent ones as one slice; returns the number of slices.
fn passed<'a>(records: &'a [u8], slices: &mut [IoSlice<'a>]) -> usize {
    let (mut number, mut begin) = (0, 0);
    let mut end = |begin: usize, end: usize| {
        if end > begin {
            slices[number] = IoSlice::new(&records[begin..end]);
            number += 1;
        }
    };
    for (place, record) in records.chunks(RECORD).enumerate() {
        if !is_passed(record) {
            end(begin, place * RECORD);
            begin = (place + 1) * RECORD;
        }
    }
    end(begin, records.len());
    number
}

/// Sends each passed datagram on to all outputs.
fn judge_datagrams(socket: &UdpSocket, outputs: &[UdpSocket]) -> io::Result<()> {
    let mut datagram = vec![0; 1 << 16];
    loop {
        let length = socket.recv(&mut datagram)?;
        if is_passed(&datagram[..length]) {
            outputs.iter().try_for_each(|output| output.send(&datagram[..length]).map(drop))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::pattern::Pattern;
    use crate::relay::records::Records;

    #[test]
    fn passed_records_are_found_in_as_few_slices_as_there_can_be() {
        let pattern = Pattern::new().unwrap();
        for (share, slices) in [(100, 1), (50, 20), (10, 4)] {
            let records = Records::new(&pattern, share);
            let mut found = [IoSlice::new(&[]); 40];
            let number = passed(records.some(0, 40), &mut found);
            assert_eq!(number, slices, "{share}");
            let bytes: Vec<u8> = found[..number].iter().flat_map(|slice| slice.to_vec()).collect();
            assert!(bytes == records.expected(40), "{share}");
        }
    }
}
