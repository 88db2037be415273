//! The functions of the next library, mostly the C library, that those of this one replace.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use libc::{iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};

/// A function that is looked up once.
struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Next {
        Next { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    fn pointer(&self) -> *mut c_void {
        let mut found = self.found.load(Relaxed);
        if found.is_null() {
            // SAFETY: the name ends with a zero.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.found.store(found, Relaxed);
        }
        // Without it the program could not have been linked.
        assert!(!found.is_null(), "the C library has no such function");
        found
    }
}

macro_rules! next {
    ($name:ident: $static:ident = $text:literal, ($($argument:ident: $type:ty),*)) => {
        static $static: Next = Next::new($text);

        /// That of the next library.
        ///
        /// # Safety
        /// That of the function of this name.
        pub(crate) unsafe fn $name($($argument: $type),*) -> ssize_t {
            type Function = unsafe extern "C" fn($($type),*) -> ssize_t;
            let pointer = $static.pointer();
            // SAFETY: the symbol of this name has this type, by POSIX.
            let function: Function = unsafe { std::mem::transmute(pointer) };
            // SAFETY: the caller has made sure of it.
            unsafe { function($($argument),*) }
        }
    };
}

next!(send: SEND = c"send", (socket: c_int, start: *const c_void, length: size_t, flags: c_int));
next!(sendto: SENDTO = c"sendto", (socket: c_int, start: *const c_void, length: size_t, flags: c_int,
    address: *const sockaddr, address_length: socklen_t));
next!(sendmsg: SENDMSG = c"sendmsg", (socket: c_int, message: *const msghdr, flags: c_int));
next!(write: WRITE = c"write", (descriptor: c_int, start: *const c_void, length: size_t));
next!(writev: WRITEV = c"writev", (descriptor: c_int, vectors: *const iovec, count: c_int));

/// Looks all of them up, before a signal handler needs one.
pub(crate) fn find_all() {
    for next in [&SEND, &SENDTO, &SENDMSG, &WRITE, &WRITEV] {
        next.pointer();
    }
}
