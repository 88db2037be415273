//! Private namespaces of a thread.

use std::io;

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Moves the calling thread to a new network namespace, for its later sockets and processes: empty except for
/// a loopback device that is down. The namespace ends with the last of them.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`, else errors of `unshare`.
pub fn leave_network() -> io::Result<()> {
    // SAFETY: descriptors stay shared between threads; only CLONE_FILES would part them.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Moves the calling thread to a new mount namespace, with the existing mounts. The mounts have to be made
/// private, or changes propagate to the host.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`, else errors of `unshare`.
pub fn leave_mounts() -> io::Result<()> {
    // SAFETY: descriptors stay shared. The thread's working folder and umask become its own, which no
    // borrowed value is about.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_leaves_alone() {
        let namespaces =
            || ["net", "mnt"].map(|kind| std::fs::read_link(format!("/proc/thread-self/ns/{kind}")).unwrap());
        let here = namespaces();
        let there = std::thread::spawn(move || {
            let left = leave_network().and_then(|()| leave_mounts());
            (left.map_err(|error| error.kind()), namespaces())
        });
        match there.join().unwrap() {
            (Ok(()), there) => assert!(here[0] != there[0] && here[1] != there[1], "{there:?}"),
            (Err(kind), there) => assert_eq!((kind, &there), (io::ErrorKind::PermissionDenied, &here)),
        }
        assert_eq!(here, namespaces());
    }
}
