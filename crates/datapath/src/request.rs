//! Requests to data paths for trains.

use std::os::fd::BorrowedFd;

use wirepath_media::rtp::HEADER_LENGTH;
use wirepath_sys::gather::Datagram;

use crate::{Extent, Headers, MappedFile, SendContext, SendError, Train, UdpSink};

/// A train to send from a file, behind headers, to a sink.
pub(crate) struct TrainRequest<'a> {
    pub(crate) sink: &'a UdpSink,
    pub(crate) file: &'a MappedFile,
    pub(crate) train: Train,
    /// Trains that are stored behind it, which a path may send in the same call.
    pub(crate) behind: &'a [Train],
    pub(crate) headers: Headers,
    pub(crate) context: &'a mut SendContext,
}

impl<'a> TrainRequest<'a> {
    #[inline]
    pub(crate) fn socket(&self) -> BorrowedFd<'a> {
        self.sink.socket()
    }

    /// Header of packet `index`: the stored one is read, another one is made.
    #[inline]
    pub(crate) fn header(&self, index: u32) -> Result<[u8; HEADER_LENGTH], SendError> {
        if !self.train.is_as_stored(index, self.headers) {
            return Ok(self.train.header(index, self.headers));
        }
        let mut header = [0; HEADER_LENGTH];
        self.file.read(self.train.stored_packet(index).offset, &mut header)?;
        Ok(header)
    }

    /// Payload of packet `index`.
    #[inline]
    pub(crate) fn payload(&self, index: u32) -> Extent {
        self.train.payload(index, self.headers)
    }

    /// Number of packets of the train and of those behind it.
    #[inline]
    pub(crate) fn packets(&self) -> u32 {
        self.behind.iter().fold(self.train.packets(), |packets, train| packets + train.packets())
    }

    /// Bytes in the file of the train and of those behind it.
    #[inline]
    pub(crate) fn length(&self) -> u32 {
        self.behind.iter().fold(self.train.length, |length, train| length + train.length)
    }

    /// Packets of the train and of those behind it.
    #[inline]
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = Datagram> + use<'a> {
        let behind = self.headers.behind();
        self.train
            .datagrams(self.headers)
            .chain(self.behind.iter().flat_map(move |train| train.datagrams(behind)))
    }

    /// Returns whether the train is sent exactly as stored.
    #[inline]
    pub(crate) fn is_as_stored(&self) -> bool {
        self.headers == Headers::Stored && self.train.skip == 0
    }

    /// Calls `send` for one packet after another until it fails; returns how many were sent.
    #[inline]
    pub(crate) fn one_by_one(
        &mut self,
        mut send: impl FnMut(&mut Self, u32) -> Result<(), SendError>,
    ) -> Result<u32, SendError> {
        for index in 0..self.train.packets() {
            match send(self, index) {
                Ok(()) => {}
                Err(error) if index == 0 => return Err(error),
                // The caller tries the rest later, and gets the error then if it persists.
                Err(_) => return Ok(index),
            }
        }
        Ok(self.train.packets())
    }
}
