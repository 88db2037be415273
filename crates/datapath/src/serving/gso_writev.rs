//! `gso_writev`: trains that are stored one after another by one `sendmsg` with UDP_SEGMENT over headers and a mapping.
//!
//! One call, one copy. Stored headers need no separate vector. Payload behind made headers is prefetched, since the
//! kernel copies it packet by packet.

use wirepath_sys::gather::Datagram;

use crate::request::TrainRequest;
use crate::{Extent, SendError};

const CALL: &str = "sendmsg";

/// Sends all of the train and of those behind it, or nothing.
#[inline]
pub(crate) fn send(request: &mut TrainRequest<'_>) -> Result<u32, SendError> {
    let (socket, mapping) = (request.socket(), &request.file.mapping);
    let (train, packets, datagrams) = (request.train, request.packets(), request.datagrams());
    let is_as_stored = request.is_as_stored();
    let payload = Extent { offset: train.offset, length: request.length() as usize };
    let gather = &mut request.context.gather;
    let sent = if is_as_stored {
        let whole = Datagram { header: None, payload: train.extent().in_memory() };
        gather.send_segmented(socket, mapping, std::iter::once(whole)).map(|_| train.packets())
    } else {
        gather.prefetch(mapping, payload.in_memory());
        gather.send_segmented(socket, mapping, datagrams).map(|_| packets)
    };
    sent.map_err(|error| SendError::of_udp_io(CALL, &error))
}

/// `mmap_writev`, the papers' path of the same name: sends the train's first packets, at least one, with a
/// call and a copy for each; returns how many.
#[inline]
pub(crate) fn send_each(request: &mut TrainRequest<'_>) -> Result<u32, SendError> {
    request.one_by_one(send_packet)
}

/// Sends packet `index` of the train by itself.
#[inline]
pub(crate) fn send_packet(request: &mut TrainRequest<'_>, index: u32) -> Result<(), SendError> {
    let packet = request.train.datagram(index, request.headers);
    let (socket, mapping) = (request.socket(), &request.file.mapping);
    let sent = request.context.gather.send_segmented(socket, mapping, std::iter::once(packet));
    sent.map(drop).map_err(|error| SendError::of_udp_io(CALL, &error))
}
