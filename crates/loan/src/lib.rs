//! `libwirepath-loan.so`: lends what an unchanged program sends, by `LD_PRELOAD`.
//!
//! `send`, `sendto`, `sendmsg`, `write` and `writev` of this library take the place of the C library's. Large
//! sends to TCP and UDP sockets (UDP only with a lower least size than the default) lend their pages
//! ([`wirepath_sys::lender`]), guarded, so the program may write and free its memory as after any send; all
//! others go on to the C library. The program sees the same results and errors, and the same readiness of its
//! sockets. In doubt a send is copied.
//!
//! The functions are `unsafe` as those of the C library are: callers promise that pointers and lengths fit.

mod boundary;
mod next;
mod rule;
mod sending;
mod start;
