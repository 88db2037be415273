//! The functions that programs call.

use std::ffi::{c_int, c_void};

use libc::{iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};

use crate::sending::{self, Message};
use crate::{next, rule};

/// POSIX `send`.
///
/// # Safety
/// That of `send`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(socket: c_int, start: *const c_void, length: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the program has made sure of it.
    let copy = |start, length| unsafe { next::send(socket, start, length, flags) };
    if !rule::may_lend(socket, length, flags) {
        return copy(start, length);
    }
    // SAFETY: as above.
    unsafe { sending::send(socket, start, length, flags, copy) }
}

/// POSIX `sendto`.
///
/// # Safety
/// That of `sendto`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendto(
    socket: c_int,
    start: *const c_void,
    length: size_t,
    flags: c_int,
    address: *const sockaddr,
    address_length: socklen_t,
) -> ssize_t {
    if !rule::may_lend(socket, length, flags) {
        // SAFETY: the program has made sure of it.
        return unsafe { next::sendto(socket, start, length, flags, address, address_length) };
    }
    if address.is_null() {
        // SAFETY: as above; `sendto` without an address is `send`.
        return unsafe { send(socket, start, length, flags) };
    }
    let vector = iovec { iov_base: start.cast_mut(), iov_len: length };
    let mut message = Message::of(&[vector]);
    message.name(address, address_length);
    // SAFETY: as above.
    unsafe {
        sending::send_message(socket, message.header(), flags, |_| {
            next::sendto(socket, start, length, flags, address, address_length)
        })
    }
}

/// POSIX `sendmsg`.
///
/// # Safety
/// That of `sendmsg`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the program has made sure that the message can be read.
    let length = unsafe { sending::length(message) };
    if !rule::may_lend(socket, length, flags) {
        // SAFETY: as above.
        return unsafe { next::sendmsg(socket, message, flags) };
    }
    // SAFETY: as above.
    unsafe { sending::send_message(socket, message, flags, |rest| next::sendmsg(socket, rest, flags)) }
}

/// POSIX `write`.
///
/// # Safety
/// That of `write`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(descriptor: c_int, start: *const c_void, length: size_t) -> ssize_t {
    // SAFETY: the program has made sure of it.
    let copy = |start, length| unsafe { next::write(descriptor, start, length) };
    if !rule::may_lend(descriptor, length, 0) {
        return copy(start, length);
    }
    // SAFETY: as above.
    unsafe { sending::send(descriptor, start, length, 0, copy) }
}

/// POSIX `writev`.
///
/// # Safety
/// That of `writev`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(descriptor: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
    let few = usize::try_from(count).ok().filter(|_| !vectors.is_null()).unwrap_or(0);
    let message = (1..=sending::MOST_VECTORS).contains(&few).then(|| {
        // SAFETY: the program has made sure that there are so many vectors.
        Message::of(unsafe { std::slice::from_raw_parts(vectors, few) })
    });
    match message.filter(|message| rule::may_lend(descriptor, message.length(), 0)) {
        // SAFETY: the program has made sure of what the vectors point to.
        Some(mut message) => unsafe {
            sending::send_message(descriptor, message.header(), 0, |rest| {
                next::writev(descriptor, (*rest).msg_iov, (*rest).msg_iovlen as c_int)
            })
        },
        // SAFETY: the program has made sure of it.
        None => unsafe { next::writev(descriptor, vectors, count) },
    }
}
