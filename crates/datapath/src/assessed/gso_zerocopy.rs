//! `gso_zerocopy`: some packets by one `sendmsg` with UDP_SEGMENT and MSG_ZEROCOPY over headers and a
//! mapping.
//!
//! No copies, but a packet buffer takes 17 fragments (MAX_SKB_FRAGS), one for each header and for each page
//! of payload: room for 7 or 8 packets of 1,316 bytes, for 5 that cross a page each. A train with stored
//! headers needs no generated ones and is sent in one call. Generated headers are in blocks of the sink,
//! which are not written again before the kernel has released them. If no block is free, or the kernel
//! accepts no more loans, the train is copied, and counted as such.

use rustix::io::Errno;
use wirepath_sys::header_blocks::HeaderBlocks;

use crate::request::TrainRequest;
use crate::serving::gso_writev;
use crate::sink::HeaderLender;
use crate::{Headers, SendError, Train};

/// Fragments of one packet buffer, unless the kernel was built or configured differently.
pub(crate) const FRAGMENTS: usize = 17;

/// Sends the train's first packets, at least one; returns how many.
#[inline]
pub(crate) fn send(request: &mut TrainRequest<'_>) -> Result<u32, SendError> {
    let unprepared = SendError::Unsupported { call: "setsockopt(SO_ZEROCOPY)", errno: Errno::OPNOTSUPP };
    let mut lender = request.sink.lender.get().ok_or(unprepared)?.borrow_mut();
    match lend(request, &mut lender) {
        Ok(Some(packets)) => Ok(packets),
        Ok(None) => {
            let sent = gso_writev::send(request)?;
            lender.loans.copied();
            Ok(sent)
        }
        Err(errno) => Err(SendError::of_udp("sendmsg", errno)),
    }
}

/// Lends the train's first packets; returns how many, or nothing if it has to be copied.
fn lend(request: &mut TrainRequest<'_>, lender: &mut HeaderLender) -> Result<Option<u32>, Errno> {
    let (socket, mapping, train) = (request.socket(), &request.file.mapping, request.train);
    if request.is_as_stored() && train.length > 0 {
        let whole = train.extent().in_memory();
        let lend = || mapping.lend(socket, whole.clone()).map(|_| (train.packets(), None));
        return lender.loans.lend(socket, lend);
    }
    let first = fitting(&train, request.headers);
    if first.packets() == 0 {
        return Ok(None);
    }
    let HeaderLender { loans, blocks, next } = &mut *lender;
    let lent = loans.lend(socket, || {
        let packets = first.datagrams(request.headers);
        request.context.gather.lend_segmented(socket, mapping, blocks, *next, packets)?;
        Ok((first.packets(), Some(())))
    });
    if matches!(lent, Ok(Some(_))) {
        lender.advance();
    }
    lent
}

/// First packets of the train that fit a packet buffer, each with a header; none if a packet is too large.
fn fitting(train: &Train, headers: Headers) -> Train {
    let page = rustix::param::page_size();
    let mut fragments = 0;
    let fits = |index: &u32| {
        let payload = train.payload(*index, headers).in_memory();
        fragments += 1 + payload.end.div_ceil(page) - payload.start / page;
        fragments <= FRAGMENTS
    };
    let packets = (0..train.packets()).take(HeaderBlocks::HEADERS).take_while(fits).count();
    train.up_to(packets as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::tests::example;

    #[test]
    fn packets_fit_by_their_headers_and_pages() {
        if rustix::param::page_size() != 4096 {
            return; // larger pages have fewer ends
        }
        let train = Train { packet_size: 1316, ..example(40 * 1316) };
        let fitting_at = |offset| fitting(&Train { offset, ..train }, Headers::Generated).packets();
        let all: Vec<u32> = (0..2 * 4096).map(fitting_at).collect();
        assert_eq!((all.iter().min(), all.iter().max()), (Some(&7), Some(&8)));
        let pages = Train { packet_size: 4096, ..example(9 * 4096) };
        assert_eq!(fitting(&pages, Headers::Generated).packets(), 8);
        let across = Train { offset: 4000, ..pages };
        assert_eq!(fitting(&across, Headers::Generated).packets(), 5);
        let own = Headers::Own { sequence_offset: 0, timestamp_offset: 0, marker: false, stored: true };
        assert_eq!(fitting(&Train { offset: 4095, ..example(3 * 28) }, own).packets(), 3);
    }

    #[test]
    fn a_packet_of_too_many_pages_does_not_fit() {
        let train = Train { packet_size: 65_495, offset: 4095, ..example(65_495) };
        assert_eq!(fitting(&train, Headers::Generated).packets(), 0);
    }
}
