//! Shared by tests of several crates: a runner whose tests may be skipped, a small disk, UDP ports, KVM.
//!
//! Uses no other crate of the workspace, so that each of them can use it in its tests.

pub mod kvm;
mod small_disk;
pub mod trial;
pub mod udp;

pub use small_disk::SmallDisk;
