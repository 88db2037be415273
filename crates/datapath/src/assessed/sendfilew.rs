//! `sendfilew`: the papers' batched call of the same name. The packets of a train as one vector of generated
//! headers, which are copied, and ranges of the file, which are not: one call. Needs the kernel module.

use std::os::fd::AsFd;

use rustix::io::Errno;
use wirepath_media::rtp::HEADER_LENGTH;
use wirepath_sys::errno_of;
use wirepath_sys::module::{Part, Vector};

use crate::SendError;
use crate::request::TrainRequest;
use crate::serving::gso_writev;
use crate::serving::kernel_module::failed;

const CALL: &str = "ioctl(WIREPATH_SENDFILEW)";

/// Packets in a vector: as many as a train has.
pub(crate) const PACKETS: u32 = 64;

/// Sends the train's first packets, at least one; returns how many.
#[inline]
pub(crate) fn send(request: &mut TrainRequest<'_>) -> Result<u32, SendError> {
    if request.payload(0).length == 0 {
        return gso_writev::send_packet(request, 0).map(|()| 1);
    }
    let (socket, file) = (request.socket(), request.file);
    let packets = request.train.packets().min(PACKETS);
    let mut made = [[0; HEADER_LENGTH]; PACKETS as usize];
    let mut parts = [Part::EMPTY; 2 * PACKETS as usize];
    let mut count = 0;
    for (index, header) in (0..packets).zip(&mut made) {
        *header = request.header(index)?;
    }
    for ((index, header), pair) in (0..packets).zip(&made).zip(parts.as_chunks_mut().0) {
        let payload = request.payload(index);
        if payload.length == 0 {
            break; // a part has a byte at least; the caller comes back for this packet
        }
        let of_file = Part::of_file(file.file().as_fd(), payload.offset, payload.length as u64);
        *pair = [Part::of_bytes(header), of_file.at_end()];
        count += 2;
    }
    let mut vector = Vector::new(&parts[..count]).without_waiting();
    let result = request.context.module()?.sendfilew(socket, &mut vector);
    match (vector.packets() as u32, result) {
        (packets @ 1.., _) => Ok(packets), // the caller comes back for the rest, and hears the error then
        (0, Ok(())) => Err(SendError::Other { call: CALL, errno: Errno::INVAL }),
        (0, Err(error)) => {
            let errno = errno_of(&error);
            Err(failed(CALL, file, request.payload(0), errno, &mut request.context.buffer))
        }
    }
}
