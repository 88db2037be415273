//! Measured loop: sends the volume of one run.
//!
//! The loop works as in a program without other tasks: hands trains or blocks to the path, waits by `poll`
//! when the socket is full, and counts. It reads no clock and allocates no memory.

use std::net::TcpStream;
use std::os::fd::AsFd;

use rustix::io::Errno;
use wirepath_datapath::interleaved::{FRAMING_LENGTH, FrameTrain, TakenFrames, channel_of, send_bytes};
use wirepath_datapath::rtp::HEADER_LENGTH;
use wirepath_datapath::{
    Extent, Headers, MappedFile, SendContext, SendError, SendOutcome, StoredTrains, Train,
};

use crate::case::Case;
use crate::error::Error;
use crate::packetization::PacketRange;
use crate::sent::Sent;
use crate::subject::PathKind;
use crate::test_socket::{PATIENCE, TestSink, TestSocket, Watch};

/// Source and destination of a run.
pub(crate) struct Sending<'a> {
    case: &'a Case,
    medium: &'a MappedFile,
    /// Offset of the payload in the medium.
    start: u64,
    headers: Headers,
    socket: &'a TestSocket,
    context: &'a mut SendContext,
    queue: Queue,
    /// Room for the rest of a frame that a connection accepted in part.
    rest: Vec<u8>,
    /// Number of ring sends that the kernel had copied before this run; `None` if the kernel does not report
    /// it.
    copied_before: Option<u64>,
}

/// Queued ranges of a path, in the order of their tokens.
struct Queue {
    stretches: Vec<PacketRange>,
    bytes: u64,
    /// Bytes at which the queue is flushed: the largest amount that a receiver has room for at a time.
    most_bytes: u64,
    /// Ranges that the socket had no room for.
    refused: Vec<PacketRange>,
}

/// Maximum number of queued trains; queues have this capacity.
const LONGEST_QUEUE: usize = 1024;

impl<'a> Sending<'a> {
    /// Sends from a medium whose payload begins at `start`; paths that queue may queue up to `most_bytes`.
    pub(crate) fn new(
        case: &'a Case,
        medium: &'a MappedFile,
        start: u64,
        socket: &'a TestSocket,
        context: &'a mut SendContext,
        most_bytes: u64,
    ) -> Sending<'a> {
        context.flush(|_, _| ()); // entries left by an earlier failed run
        let room = || Vec::with_capacity(LONGEST_QUEUE);
        let queue = Queue { stretches: room(), bytes: 0, most_bytes, refused: room() };
        let copied_before = context.copied_by_kernel();
        let rest = Vec::with_capacity(FRAMING_LENGTH + usize::from(case.packet_size()));
        Sending { case, medium, start, headers: case.headers(), socket, context, queue, rest, copied_before }
    }

    /// Sends all ranges, and waits for the return of all loans.
    ///
    /// # Errors
    /// [`Error::Unable`] if the route does not support the path, [`Error::Faulty`] if packets are lost,
    /// [`Error::SinkStopped`].
    pub(crate) fn all(
        &mut self,
        stretches: impl Iterator<Item = PacketRange>,
        watch: &mut Watch<'_>,
    ) -> Result<Sent, Error> {
        let sent = self.walk(stretches, watch)?;
        self.end(sent)
    }

    /// Sends all ranges, without waiting for their completion.
    pub(crate) fn walk(
        &mut self,
        stretches: impl Iterator<Item = PacketRange>,
        watch: &mut Watch<'_>,
    ) -> Result<Sent, Error> {
        let mut sent = Sent::default();
        for stretch in stretches {
            self.stretch(stretch, &mut sent)?;
            watch.pace(sent.transport_bytes - self.queue.bytes)?;
        }
        self.flush(&mut sent)?;
        Ok(sent)
    }

    /// Waits until the network is done with everything sent.
    pub(crate) fn end(&mut self, mut sent: Sent) -> Result<Sent, Error> {
        self.socket.finish()?;
        if !self.context.drain(PATIENCE) {
            return Err(Error::Faulty("sends of the ring did not complete".to_owned()));
        }
        sent.loans = self.case.path.lends().then(|| self.socket.loans());
        sent.copied = match (sent.loans, self.case.path) {
            (Some(loans), _) => Some(loans.copied_by_kernel),
            (None, path) if path.needs_ring() => self
                .context
                .copied_by_kernel()
                .zip(self.copied_before)
                .map(|(after, before)| after.saturating_sub(before)),
            _ => None,
        };
        Ok(sent)
    }

    /// Sends or queues one range.
    #[inline]
    pub(crate) fn stretch(&mut self, stretch: PacketRange, sent: &mut Sent) -> Result<(), Error> {
        let header_bytes = match (self.case.path, &self.socket.sink) {
            (PathKind::Stream(path), TestSink::Trains(sink)) => {
                let mut rest = Some(self.case.train(stretch, self.start, self.headers));
                while let Some(train) = rest {
                    let token = self.queue.stretches.len() as u64;
                    let path = path.for_train(&train, self.headers, self.medium, self.context);
                    let trains = StoredTrains { file: self.medium, trains: &[train], headers: self.headers };
                    match path.enqueue(sink, trains, self.context, token) {
                        Ok(SendOutcome::Sent(packets)) => {
                            sent.longest_train = sent.longest_train.max(packets);
                            rest = train.after(packets);
                        }
                        Ok(SendOutcome::Queued) => {
                            sent.longest_train = sent.longest_train.max(train.packets());
                            self.queue.add(stretch, train.length.into());
                            rest = None;
                        }
                        Err(error) => self.make_room(error, sent)?,
                    }
                }
                stretch.packets * HEADER_LENGTH as u64
            }
            (PathKind::Block(path), TestSink::Blocks(sink)) => {
                let mut offset = self.start + stretch.start;
                let end = offset + stretch.bytes;
                while offset < end {
                    let extent = Extent { offset, length: (end - offset) as usize };
                    let token = self.queue.stretches.len() as u64;
                    match path.enqueue(sink, self.medium, extent, self.context, token) {
                        Ok(SendOutcome::Sent(bytes)) => {
                            sent.takes += 1;
                            offset += bytes as u64;
                        }
                        Ok(SendOutcome::Queued) => {
                            self.queue.add(stretch, stretch.bytes);
                            offset = end;
                        }
                        Err(error) => self.make_room(error, sent)?,
                    }
                }
                sent.longest_train = sent.longest_train.max(stretch.packets as u32);
                0
            }
            (_, TestSink::Frames(socket)) => {
                let mut rest = Some(self.case.train(stretch, self.start, self.headers));
                while let Some(train) = rest {
                    match self.frames(train, socket) {
                        Ok(taken) => {
                            sent.longest_train = sent.longest_train.max(taken.packets);
                            rest = train.after(taken.packets + self.complete(train, taken, socket, sent)?);
                        }
                        Err(error) => self.make_room(error, sent)?,
                    }
                }
                stretch.packets * (FRAMING_LENGTH + HEADER_LENGTH) as u64
            }
            _ => unreachable!("a socket is made for its case"),
        };
        sent.packets += stretch.packets;
        sent.bytes += stretch.bytes;
        sent.transport_bytes += stretch.bytes + header_bytes;
        if self.queue.is_full() { self.flush(sent) } else { Ok(()) }
    }

    /// Sends a train in a connection, as much of it as the connection accepts.
    #[inline]
    fn frames(&mut self, train: Train, socket: &TcpStream) -> Result<TakenFrames, SendError> {
        let frames = self.frame_train(train);
        match self.case.path {
            PathKind::Stream(path) => frames.send_by(path, socket.as_fd(), self.context),
            _ => frames.send(socket.as_fd(), self.context),
        }
    }

    fn frame_train(&self, train: Train) -> FrameTrain<'a> {
        let channel = channel_of(train.run.stream);
        FrameTrain { channel, file: self.medium, train, headers: self.headers }
    }

    /// Completes a frame that the connection accepted in part, as servers do; returns how many frames that are: one,
    /// or none if none was cut.
    fn complete(
        &mut self,
        train: Train,
        taken: TakenFrames,
        socket: &TcpStream,
        sent: &mut Sent,
    ) -> Result<u32, Error> {
        if taken.bytes == 0 {
            return Ok(0);
        }
        let mut rest = std::mem::take(&mut self.rest);
        rest.clear();
        let read = self.frame_train(train).read_rest(taken, &mut rest);
        read.map_err(|error| Error::Faulty(error.to_string()))?;
        let mut left = &rest[..];
        while !left.is_empty() {
            sent.cuts += 1;
            match send_bytes(socket.as_fd(), left) {
                Ok(bytes) => left = &left[bytes..],
                Err(error) => self.make_room(error, sent)?,
            }
        }
        self.rest = rest;
        Ok(1)
    }

    /// Sends the queue, unless it is empty.
    pub(crate) fn flush(&mut self, sent: &mut Sent) -> Result<(), Error> {
        while !self.queue.stretches.is_empty() {
            let Queue { stretches, refused, .. } = &mut self.queue;
            let mut failed = None;
            sent.flushes += 1;
            self.context.flush(|token, result| match result {
                Ok(_) => {}
                Err(SendError::Full { .. }) => refused.push(stretches[token as usize]),
                Err(error) => failed = Some(error),
            });
            stretches.clear();
            self.queue.bytes = 0;
            if let Some(error) = failed {
                room(error, self.socket)?;
            }
            if !self.queue.refused.is_empty() {
                sent.waits += self.socket.wait().map(|()| 1)?;
                self.send_again(sent)?;
            }
        }
        Ok(())
    }

    /// Queues the refused ranges again. Their bytes have been counted already.
    #[cold]
    fn send_again(&mut self, sent: &mut Sent) -> Result<(), Error> {
        let refused = std::mem::replace(&mut self.queue.refused, Vec::with_capacity(LONGEST_QUEUE));
        let most_bytes = std::mem::replace(&mut self.queue.most_bytes, u64::MAX);
        let mut counted = Sent::default();
        let again = refused.into_iter().try_for_each(|stretch| self.stretch(stretch, &mut counted));
        sent.waits += counted.waits;
        sent.flushes += counted.flushes;
        self.queue.most_bytes = most_bytes;
        again
    }

    /// Recovers from a failed send: sends the queue, or if it is empty waits for room in the socket.
    #[cold]
    fn make_room(&mut self, error: SendError, sent: &mut Sent) -> Result<(), Error> {
        match error {
            SendError::Full { .. } if !self.queue.stretches.is_empty() => self.flush(sent),
            error => room(error, self.socket).map(|waits| sent.waits += waits),
        }
    }
}

impl Queue {
    fn add(&mut self, stretch: PacketRange, bytes: u64) {
        self.stretches.push(stretch);
        self.bytes += bytes;
    }

    fn is_full(&self) -> bool {
        self.bytes >= self.most_bytes || self.stretches.len() == LONGEST_QUEUE
    }
}

/// Waits for room if the socket is full; returns the number of waits, which is 1.
#[cold]
pub(crate) fn room(error: SendError, socket: &TestSocket) -> Result<u64, Error> {
    match error {
        SendError::Full { .. } => socket.wait().map(|()| 1),
        SendError::Unsupported { .. } => Err(Error::Unable(error.to_string())),
        SendError::Refused { .. } => Err(Error::SinkStopped { sink: socket.peer(), why: error.to_string() }),
        // Errors of a stream whose receiver ended or vanished, which is not a fault of the path.
        SendError::Other { errno: Errno::PIPE | Errno::CONNRESET | Errno::TIMEDOUT, .. } => {
            Err(Error::SinkStopped { sink: socket.peer(), why: error.to_string() })
        }
        error => Err(Error::Faulty(error.to_string())),
    }
}
