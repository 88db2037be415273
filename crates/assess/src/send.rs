//! Sends the volume of one run: the loop that is measured.
//!
//! It does what a program does that has nothing else to do: hands trains or blocks to the path, waits by
//! `poll` when the socket is full, and counts. It reads no clock and allocates nothing.

use rustix::io::Errno;
use wirepath_datapath::rtp::HEADER_LENGTH;
use wirepath_datapath::{Extent, Headers, MappedFile, SendContext, SendError, SendOutcome};

use crate::case::Case;
use crate::error::Error;
use crate::packetization::PacketRange;
use crate::sent::Sent;
use crate::subject::PathKind;
use crate::test_socket::{PATIENCE, TestSocket, Watch};

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
    /// Copies by the kernel of what rings sent, before this; nothing where it does not say.
    copied_before: Option<u64>,
}

/// Queued stretches of a path, in the order of its tokens.
struct Queue {
    stretches: Vec<PacketRange>,
    bytes: u64,
    /// Bytes from which on the queue is flushed: a receiver has room for no more at a time.
    most_bytes: u64,
    /// Stretches that the socket had no room for.
    refused: Vec<PacketRange>,
}

/// Trains that are queued at most, and that room is made for.
const LONGEST_QUEUE: usize = 1024;

impl<'a> Sending<'a> {
    /// Sending from a medium whose payload begins at `start`; paths that can queue may do so up to
    /// `most_bytes`.
    pub(crate) fn new(
        case: &'a Case,
        medium: &'a MappedFile,
        start: u64,
        socket: &'a TestSocket,
        context: &'a mut SendContext,
        most_bytes: u64,
    ) -> Sending<'a> {
        context.flush(|_, _| ()); // what one that failed before may have left
        let room = || Vec::with_capacity(LONGEST_QUEUE);
        let queue = Queue { stretches: room(), bytes: 0, most_bytes, refused: room() };
        let copied_before = context.copied_by_kernel();
        Sending { case, medium, start, headers: case.headers(), socket, context, queue, copied_before }
    }

    /// Sends all of these stretches, and waits for what was lent.
    ///
    /// # Errors
    /// [`Error::Unable`] if the route cannot do what the path needs, [`Error::Faulty`] if packets are lost,
    /// [`Error::SinkStopped`].
    pub(crate) fn all(
        &mut self,
        stretches: impl Iterator<Item = PacketRange>,
        watch: &mut Watch,
    ) -> Result<Sent, Error> {
        let sent = self.walk(stretches, watch)?;
        self.end(sent)
    }

    /// Sends all of these stretches, without waiting for their end.
    pub(crate) fn walk(
        &mut self,
        stretches: impl Iterator<Item = PacketRange>,
        watch: &mut Watch,
    ) -> Result<Sent, Error> {
        let mut sent = Sent::default();
        for stretch in stretches {
            self.stretch(stretch, &mut sent)?;
            watch.pace(sent.transport_bytes - self.queue.bytes)?;
        }
        self.flush(&mut sent)?;
        Ok(sent)
    }

    /// Waits until the network is done with what was sent.
    pub(crate) fn end(&mut self, mut sent: Sent) -> Result<Sent, Error> {
        self.socket.finish()?;
        if !self.context.drain(PATIENCE) {
            return Err(Error::Faulty("sends of the ring did not complete".to_owned()));
        }
        sent.loans = self.case.path.lends().then(|| self.socket.loans());
        sent.copied = match (sent.loans, self.case.path) {
            (Some(loans), _) => Some(loans.copied_by_kernel),
            (None, path) if path.needs_hot_memory() => self
                .context
                .copied_by_kernel()
                .zip(self.copied_before)
                .map(|(after, before)| after.saturating_sub(before)),
            _ => None,
        };
        Ok(sent)
    }

    /// Sends or queues one stretch.
    #[inline]
    pub(crate) fn stretch(&mut self, stretch: PacketRange, sent: &mut Sent) -> Result<(), Error> {
        let header_bytes = match (self.case.path, self.socket) {
            (PathKind::Stream(path), TestSocket::Trains(sink)) => {
                let mut rest = Some(self.case.train(stretch, self.start, self.headers));
                while let Some(train) = rest {
                    let token = self.queue.stretches.len() as u64;
                    let path = path.for_train(&train, self.headers, self.medium, self.context);
                    match path.enqueue(sink, self.medium, &train, self.headers, self.context, token) {
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
            (PathKind::Block(path), TestSocket::Blocks(sink)) => {
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
            _ => unreachable!("a socket is made for its case"),
        };
        sent.packets += stretch.packets;
        sent.bytes += stretch.bytes;
        sent.transport_bytes += stretch.bytes + header_bytes;
        if self.queue.is_full() { self.flush(sent) } else { Ok(()) }
    }

    /// Sends what is queued, if anything is.
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

    /// Queues once more what there was no room for. Its bytes are counted already.
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

    /// Recovers from a send that failed: sends what is queued, or else waits for room in the socket.
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

/// Waits for room if that is what is missing; answers the number of waits, which is one.
#[cold]
pub(crate) fn room(error: SendError, socket: &TestSocket) -> Result<u64, Error> {
    match error {
        SendError::Full { .. } => socket.wait().map(|()| 1),
        SendError::Unsupported { .. } => Err(Error::Unable(error.to_string())),
        SendError::Refused { .. } => Err(Error::SinkStopped { sink: socket.peer(), why: error.to_string() }),
        // Only a stream has these: its receiver ended or vanished, which is no fault of the path.
        SendError::Other { errno: Errno::PIPE | Errno::CONNRESET | Errno::TIMEDOUT, .. } => {
            Err(Error::SinkStopped { sink: socket.peer(), why: error.to_string() })
        }
        error => Err(Error::Faulty(error.to_string())),
    }
}
