//! Calls of the kernel module, which the papers call enhanced.
//!
//! In the module they are one mechanism: payload from a file or a mapping; a header that is given, made by
//! the kernel's RTP engine, or none; and one packet or a run of packets (`kernel/module/uapi/wirepath.h`).
//! Payload is sent by reference from Linux 6.5 on.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use wirepath_sys::errno_of;
use wirepath_sys::module::{Marker, Rtp, RtpTime, Run, Sent, Timestamps};

use super::{gso_writev, sendfile};
use crate::buffer::Buffer;
use crate::request::TrainRequest;
use crate::{Extent, Headers, MappedFile, SendContext, SendError, Train, rtp};

const CALL: &str = "ioctl(WIREPATH_SEND)";

/// Most packets in one call whose timestamps have no fixed step: the train that the kernel cuts.
const TABLE: usize = 64;

/// Source of payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The file.
    File,
    /// Its mapping.
    Mapping,
}

impl Source {
    /// An extent of a file as a run.
    #[inline]
    pub(crate) fn run(self, file: &MappedFile, extent: Extent) -> Result<Run<'_>, SendError> {
        match self {
            Source::File => Ok(Run::of_file(file.file().as_fd(), extent.offset, Some(extent.length as u64))),
            Source::Mapping => Run::of_mapping(&file.mapping, extent.in_memory())
                .map_err(|_| SendError::Other { call: CALL, errno: Errno::INVAL }),
        }
    }
}

/// Sends a run of an extent; returns how much was sent, at least a packet.
#[inline]
pub(crate) fn send_run(
    socket: BorrowedFd<'_>,
    file: &MappedFile,
    extent: Extent,
    run: Run<'_>,
    context: &mut SendContext,
) -> Result<Sent, SendError> {
    // A page that is not in memory is read asynchronously; the result is the same as for a full socket.
    let mut run = run.without_waiting();
    let result = context.module()?.send(socket, &mut run);
    match (run.sent(), result) {
        (sent, _) if sent.packets > 0 => Ok(sent), // the caller comes back for the rest, and hears the error then
        (_, Ok(())) => Err(SendError::Other { call: CALL, errno: Errno::INVAL }),
        (_, Err(error)) => {
            let errno = errno_of(&error);
            Err(failed(CALL, file, extent, errno, &mut context.buffer))
        }
    }
}

/// Classifies errors of the module when it sent nothing.
#[cold]
pub(crate) fn failed(
    call: &'static str,
    file: &MappedFile,
    extent: Extent,
    errno: Errno,
    buffer: &mut Buffer,
) -> SendError {
    match errno {
        Errno::INTR => SendError::Full { call },
        Errno::NODATA => SendError::Storage { call, errno },
        // The device's, or the storage's.
        Errno::IO => sendfile::of_nothing(call, file, extent, errno, buffer),
        errno => SendError::of_udp(call, errno),
    }
}

/// Sends the train's first packets, at least one, with a call for each; returns how many.
#[inline]
pub(crate) fn send_each(from: Source, request: &mut TrainRequest<'_>) -> Result<u32, SendError> {
    request.one_by_one(|request, index| send_packet(from, request, index))
}

/// Sends packet `index` of a train after the given header.
#[inline]
fn send_packet(from: Source, request: &mut TrainRequest<'_>, index: u32) -> Result<(), SendError> {
    let payload = request.payload(index);
    if payload.length == 0 {
        return gso_writev::send_packet(request, index);
    }
    let (socket, file, header) = (request.socket(), request.file, request.header(index)?);
    let run = from.run(file, payload)?.with_headers(&header, header.len());
    send_run(socket, file, payload, run, request.context).map(drop)
}

/// Sends the train's first packets with headers of the kernel's RTP engine, which skips stored ones. All
/// packets are sent in one call if their timestamps increase by whole ticks. Returns how many packets were
/// sent, at least one.
#[inline]
pub(crate) fn send_rtp(from: Source, request: &mut TrainRequest<'_>) -> Result<u32, SendError> {
    let (file, headers) = (request.file, request.headers);
    if request.is_as_stored() {
        return send_stored(from, request);
    }
    if request.train.run.padding > 0 {
        return gso_writev::send_each(request); // the engine makes no padding bit
    }
    let train = request.train.up_to(packets_a_call(&request.train));
    let (extent, stored) = match train.packets() {
        1 => (train.payload(0, headers), 0),
        _ => (train.extent(), headers.stored_length() as u32),
    };
    if extent.length == 0 {
        return gso_writev::send_packet(request, 0).map(|()| 1);
    }
    let first = train.header_fields(0, headers);
    let mut table = [RtpTime::default(); TABLE];
    let marker = marker(&train, headers);
    let rtp = Rtp {
        ssrc: first.ssrc,
        payload_type: first.payload_type,
        sequence: first.sequence,
        marker,
        timestamps: timestamps(&train, headers, marker, &mut table),
    };
    let run = from.run(file, extent)?.in_packets(u32::from(train.packet_size) - stored).passing_over(stored);
    let run = run.with_rtp(rtp).in_trains(request.sink.train_packets());
    send_run(request.socket(), file, extent, run, request.context).map(|sent| sent.packets as u32)
}

/// Sends the train's first packets with their stored headers; returns how many, at least one.
fn send_stored(from: Source, request: &mut TrainRequest<'_>) -> Result<u32, SendError> {
    let (file, train) = (request.file, request.train);
    let run = from.run(file, train.extent())?.in_packets(train.packet_size.into());
    let run = run.in_trains(request.sink.train_packets());
    send_run(request.socket(), file, train.extent(), run, request.context).map(|sent| sent.packets as u32)
}

/// Packets of a train that the RTP engine sends in one call. If the last packet has a marker and a timestamp
/// of its own, it is sent alone.
pub(crate) fn packets_a_call(train: &Train) -> u32 {
    let packets = if has_whole_ticks(train) { train.packets() } else { train.packets().min(TABLE as u32) };
    let ends_group = packets > 1 && train.run.step > 0 && train.run.marker == rtp::Marker::Last;
    if ends_group && train.run.is_marked(train.first + packets - 1) { packets - 1 } else { packets }
}

/// Packets with the marker in a train that is sent by one call. A session requests a marker on the first
/// packet only for trains that have none elsewhere.
fn marker(train: &Train, headers: Headers) -> Marker {
    let last = train.packets() - 1;
    match train.run.marker {
        rtp::Marker::Each => Marker::Always,
        rtp::Marker::Last if last > 0 && train.run.is_marked(train.first + last) => Marker::LastOfGroup,
        _ if train.header_fields(0, headers).marker => Marker::First,
        _ => Marker::Never,
    }
}

fn has_whole_ticks(train: &Train) -> bool {
    train.run.step & 0xffff == 0
}

/// The timestamps of a train; `table` has room for those that need a table.
fn timestamps<'a>(
    train: &Train,
    headers: Headers,
    marker: Marker,
    table: &'a mut [RtpTime; TABLE],
) -> Timestamps<'a> {
    let first = train.header_fields(0, headers).timestamp;
    if marker == Marker::LastOfGroup {
        table[0] = RtpTime { timestamp: first, packets: train.packets(), ..RtpTime::default() };
        return Timestamps::Table(&table[..1]);
    }
    if has_whole_ticks(train) || train.packets() == 1 {
        return Timestamps::Step { first, ticks: train.run.step >> 16, packets: 1 };
    }
    let count = TABLE.min(train.packets() as usize);
    for (index, time) in (0..).zip(&mut table[..count]) {
        let timestamp = train.header_fields(index, headers).timestamp;
        *time = RtpTime { timestamp, packets: 1, ..RtpTime::default() };
    }
    Timestamps::Table(&table[..count])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::tests::example;

    #[test]
    fn a_run_is_as_long_as_its_timestamps_go_up_evenly() {
        let train = example(1000 * 28);
        assert_eq!(packets_a_call(&train), 1000);
        let mut uneven = train;
        uneven.run.step += 1;
        assert_eq!(packets_a_call(&uneven), TABLE as u32);
    }

    #[test]
    fn timestamps_are_those_of_the_headers() {
        let mut train = example(10 * 28);
        let mut table = [RtpTime::default(); TABLE];
        let Timestamps::Step { first, ticks, packets } =
            timestamps(&train, Headers::Generated, Marker::Never, &mut table)
        else {
            panic!("whole ticks need no table")
        };
        assert_eq!((first, ticks, packets), (1000, 90, 1));
        train.run.step += 1 << 15;
        let Timestamps::Table(table) = timestamps(&train, Headers::Generated, Marker::Never, &mut table)
        else {
            panic!("uneven ticks need a table")
        };
        let made: Vec<u32> = table.iter().map(|time| time.timestamp).collect();
        let expected: Vec<u32> = (0..10).map(|index| train.run.header(index).timestamp).collect();
        assert_eq!(made, expected);
    }
}
