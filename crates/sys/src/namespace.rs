//! Namespaces of a thread's own.

use std::io;

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Gives the calling thread a network namespace of its own, for its later sockets and processes: empty but
/// for a loopback device that is down. The namespace ends with the last of them.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`, else those of `unshare`.
pub fn leave_network() -> io::Result<()> {
    // SAFETY: descriptors stay shared between threads; only CLONE_FILES would part them.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Gives the calling thread a mount namespace of its own, with the mounts that there are. To be told apart
/// from those of the host they have still to be made private.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`, else those of `unshare`.
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
