//! Sends the volume of one run: the loop that is measured.
//!
//! It does what a program does that has nothing else to do: hands trains or blocks to the path, waits by `poll` when the socket
//! is full, and counts. It looks at no clock and allocates nothing.

use wirepath_datapath::rtp::HEADER_LENGTH;
use wirepath_datapath::{Extent, Headers, Medium, Scratch, SendError};

use crate::error::Error;
use crate::outlet::{Outlet, Watch};
use crate::walk::{Stretch, Walk};
use crate::way::{Cell, Way};

/// What one run sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Payload in bytes, without RTP headers.
    pub(crate) bytes: u64,
    /// Packets, or blocks of a stream.
    pub(crate) packets: u64,
    /// Bytes with RTP headers: the payload of UDP or TCP.
    pub(crate) transport_bytes: u64,
    /// Most packets that one call of a path took.
    pub(crate) longest_train: u32,
    /// How often the socket was full and was waited for.
    pub(crate) waits: u64,
}

/// What is sent from, and where to.
pub(crate) struct Sending<'a> {
    pub(crate) cell: &'a Cell,
    pub(crate) medium: &'a Medium,
    pub(crate) outlet: &'a Outlet,
    pub(crate) scratch: &'a mut Scratch,
}

impl Sending<'_> {
    /// Sends all of `walk`.
    ///
    /// # Errors
    /// [`Error::Unable`] if the route cannot do what the path needs, [`Error::Faulty`] if packets are lost,
    /// [`Error::SinkStopped`].
    pub(crate) fn all(&mut self, walk: Walk, watch: &mut Watch) -> Result<Sent, Error> {
        let (headers, most) = (self.cell.headers(), self.cell.train_packets());
        let mut sent = Sent::default();
        for stretch in walk.stretches(most.into()) {
            self.stretch(stretch, 0, headers, &mut sent)?;
            watch.pace(sent.transport_bytes)?;
        }
        Ok(sent)
    }

    /// Sends one stretch of a medium whose payload begins at `start`.
    ///
    /// # Errors
    /// As [`Sending::all`].
    #[inline]
    pub(crate) fn stretch(
        &mut self,
        stretch: Stretch,
        start: u64,
        headers: Headers,
        sent: &mut Sent,
    ) -> Result<(), Error> {
        match (self.cell.way, self.outlet) {
            (Way::Stream(path), Outlet::Trains(sink)) => {
                let mut rest = Some(self.cell.train(stretch, start, headers));
                while let Some(train) = rest {
                    match path.send(sink, self.medium, &train, headers, self.scratch) {
                        Ok(packets) => {
                            sent.longest_train = sent.longest_train.max(packets);
                            rest = train.after(packets);
                        }
                        Err(error) => sent.waits += room(error, self.outlet)?,
                    }
                }
                sent.transport_bytes += stretch.packets * HEADER_LENGTH as u64;
            }
            (Way::Block(path), Outlet::Blocks(sink)) => {
                let mut offset = start + stretch.start;
                let end = offset + stretch.bytes;
                while offset < end {
                    let extent = Extent { offset, length: (end - offset) as usize };
                    match path.send(sink, self.medium, extent, self.scratch) {
                        Ok(bytes) => offset += bytes as u64,
                        Err(error) => sent.waits += room(error, self.outlet)?,
                    }
                }
                sent.longest_train = sent.longest_train.max(stretch.packets as u32);
            }
            _ => unreachable!("an outlet is made for its cell"),
        }
        sent.packets += stretch.packets;
        sent.bytes += stretch.bytes;
        sent.transport_bytes += stretch.bytes;
        Ok(())
    }
}

/// Waits for room if that is what is missing; answers the number of waits, which is one.
#[cold]
pub(crate) fn room(error: SendError, outlet: &Outlet) -> Result<u64, Error> {
    match error {
        SendError::Full { .. } => outlet.wait().map(|()| 1),
        SendError::Unsupported { .. } => Err(Error::Unable(error.to_string())),
        SendError::Refused { .. } => {
            Err(Error::SinkStopped { sink: "that is sent to".to_owned(), why: error.to_string() })
        }
        error => Err(Error::Faulty(error.to_string())),
    }
}
