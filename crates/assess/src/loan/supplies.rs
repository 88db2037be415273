//! File to send, and the send context.

use wirepath_datapath::SendContext;

use super::sends::{How, MOST_OF_DATAGRAM, Made, Sends};
use super::verify::verify;
use crate::case::Content;
use crate::error::Error;
use crate::media::Media;
use crate::result::Transport;
use crate::test_bed::TestBed;

/// File in the page cache, and the send context.
pub(super) struct Supplies {
    media: Media,
    scratch: SendContext,
}

impl Supplies {
    pub(super) fn of(media: Media) -> Supplies {
        Supplies { media, scratch: SendContext::default() }
    }

    /// Bytes of the file that is sent.
    pub(super) fn length(&self) -> u64 {
        self.media.length()
    }

    pub(super) fn run(&mut self, sends: &Sends, volume: u64, test_bed: &TestBed) -> Result<Made, Error> {
        let file = self.media.length();
        sends.run(volume, file, self.media.prepared(Content::Payload)?, test_bed, &mut self.scratch)
    }

    /// Maps every page once: a page that a loan is the first to touch costs a page fault.
    pub(super) fn touch(&mut self, test_bed: &TestBed) -> Result<(), Error> {
        let size = (rustix::param::page_size() as u32).min(MOST_OF_DATAGRAM);
        let segment = Sends::segment(test_bed.mtu);
        let pages = Sends { how: How::Copied, transport: Transport::Udp, size, segment, aligned: true };
        self.run(&pages, self.media.length(), test_bed).map(drop)
    }

    pub(super) fn verify(&mut self, sends: &Sends, test_bed: &TestBed) -> Result<(), Error> {
        let file = self.media.length();
        verify(sends, file, self.media.prepared(Content::Payload)?, test_bed, &mut self.scratch)
    }
}
