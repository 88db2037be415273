//! Control messages of `sendmsg` and `recvmsg`.

use std::mem::size_of;

/// Buffer for control messages, which begin with numbers of pointer size.
#[repr(C, align(8))]
pub(crate) struct Control<const LENGTH: usize>([u8; LENGTH]);

/// Bytes of a control message with a value of this type.
pub(crate) const fn space<T>() -> usize {
    // SAFETY: a computation on the length only.
    unsafe { libc::CMSG_SPACE(size_of::<T>() as u32) as usize }
}

impl<const LENGTH: usize> Control<LENGTH> {
    pub(crate) fn new() -> Control<LENGTH> {
        Control([0; LENGTH])
    }

    /// Makes `message` use the first `length` bytes of this buffer; valid while the buffer stays in place.
    pub(crate) fn attach(&mut self, message: &mut libc::msghdr, length: usize) {
        message.msg_control = self.0[..length].as_mut_ptr().cast();
        message.msg_controllen = length as _;
    }
}

/// Message without name, vectors and control messages.
pub(crate) fn empty_message() -> libc::msghdr {
    // SAFETY: all zeros is a valid `msghdr`.
    unsafe { std::mem::zeroed() }
}

/// Value of the first control message with one of these levels and types.
///
/// # Safety
/// `recvmsg` has just filled in the message, whose control buffer still lives. Control messages of these
/// kinds begin with a `T`, of which any bytes are a value.
pub(crate) unsafe fn find<T>(message: &libc::msghdr, kinds: &[(libc::c_int, libc::c_int)]) -> Option<T> {
    // SAFETY: the kernel has filled the control buffer that `message` describes.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: null, or a header that the kernel wrote to the control buffer.
    while let Some(header) = unsafe { next.as_ref() } {
        if kinds.contains(&(header.cmsg_level, header.cmsg_type)) {
            // SAFETY: the caller says that a `T` follows, which need not be aligned.
            return Some(unsafe { libc::CMSG_DATA(header).cast::<T>().read_unaligned() });
        }
        // SAFETY: both are of the same call of `recvmsg`.
        next = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    None
}
