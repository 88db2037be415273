//! System calls by seccomp: by number, and some by argument.

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use libc::{
    AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, CLONE_THREAD, NETLINK_ROUTE, SOCK_DGRAM, SOCK_STREAM, TIOCLINUX,
    TIOCSTI,
};
use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

use super::{ConfinementError, Reach};

/// Confines this thread and its children to the listed calls. Other calls fail with ENOSYS, as on a kernel
/// without them, since libraries then use fallbacks. The kernel caches the decision for calls that are
/// allowed with any arguments (Linux 5.11), so the length of the list costs nothing.
pub(super) fn confine(reach: &Reach) -> Result<(), ConfinementError> {
    let mut rules: BTreeMap<i64, Vec<_>> =
        CALLS.iter().chain(OF_X86_64).map(|&call| (call, Vec::new())).collect();
    rules.extend(by_arguments(reach)?);
    let refuse = SeccompAction::Errno(libc::ENOSYS as u32);
    let filter = SeccompFilter::new(rules, refuse, SeccompAction::Allow, ARCH.try_into()?)?;
    let program: BpfProgram = filter.try_into()?;
    Ok(apply_filter(&program)?)
}

/// Calls that are allowed with some arguments only: if all conditions of one of the call's rules hold.
fn by_arguments(reach: &Reach) -> Result<[(i64, Vec<SeccompRule>); 6], BackendError> {
    let own = std::process::id();
    // Flags are in higher bits of the type.
    let socket = |family, kind| [on(0, Eq, family), on(1, MaskedEq(0xf), kind)];
    let mut sockets = vec![rule([on(0, Eq, AF_NETLINK as u32), on(2, Eq, NETLINK_ROUTE as u32)])?];
    for (family, kind) in
        [(AF_INET, SOCK_STREAM), (AF_INET, SOCK_DGRAM), (AF_INET6, SOCK_STREAM), (AF_INET6, SOCK_DGRAM)]
    {
        sockets.push(rule(socket(family as u32, kind as u32))?);
    }
    if reach.notify_socket.is_some() {
        sockets.push(rule(socket(AF_UNIX as u32, SOCK_DGRAM as u32))?);
    }
    Ok([
        (libc::SYS_socket, sockets),
        // A connected stream cannot be connected to another socket.
        (libc::SYS_socketpair, vec![rule(socket(AF_UNIX as u32, SOCK_STREAM as u32))?]),
        (libc::SYS_clone, vec![rule([on(0, MaskedEq(THREAD_FLAGS), CLONE_THREAD as u32)])?]),
        // Prevents input to the shell that shares the server's terminal.
        (libc::SYS_ioctl, vec![rule([on(1, Ne, TIOCSTI as u32), on(1, Ne, TIOCLINUX as u32)])?]),
        (libc::SYS_tgkill, vec![rule([on(0, Eq, own)])?]),
        (libc::SYS_prlimit64, vec![rule([on(0, Eq, 0)])?, rule([on(0, Eq, own)])?]),
    ])
}

/// Flags of `clone` that are checked: only threads of the process, in its namespaces, are allowed. `clone3`
/// is not in the list, because filters cannot see its flags; the C library then uses `clone`.
const THREAD_FLAGS: u64 = (CLONE_THREAD
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;

/// Condition on an argument, of which the kernel checks 32 bits.
fn on(argument: u8, operator: SeccompCmpOp, value: u32) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, Dword, operator, value.into())
}

fn rule<const N: usize>(
    conditions: [Result<SeccompCondition, BackendError>; N],
) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions.into_iter().collect::<Result<_, _>>()?)
}

/// Calls of a file server: none of them starts a program, mounts, traces, loads code into the kernel, changes
/// the user or the clock, or uses kernel keys.
const CALLS: &[i64] = &[
    // data paths
    libc::SYS_sendfile,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendto,
    libc::SYS_writev,
    libc::SYS_write,
    libc::SYS_splice,
    libc::SYS_tee,
    libc::SYS_vmsplice,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    // sockets
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_listen,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    // waiting
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_futex,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
    // clocks
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    // files
    libc::SYS_chdir,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_linkat,
    libc::SYS_lseek,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_pipe2,
    libc::SYS_readahead,
    libc::SYS_readlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_sync_file_range,
    libc::SYS_umask,
    libc::SYS_unlinkat,
    libc::SYS_utimensat,
    CACHESTAT,
    // memory
    libc::SYS_brk,
    libc::SYS_get_mempolicy,
    libc::SYS_madvise,
    libc::SYS_mbind,
    libc::SYS_membarrier,
    libc::SYS_memfd_create,
    libc::SYS_mincore,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_msync,
    libc::SYS_munlock,
    libc::SYS_munmap,
    // threads and the process itself
    libc::SYS_capget,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getpriority,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_prctl,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getattr,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_setpriority,
    libc::SYS_sigaltstack,
    libc::SYS_sysinfo,
    libc::SYS_uname,
];

/// `cachestat` (Linux 6.5), the same number on all architectures.
const CACHESTAT: i64 = 451;

/// Older calls that exist only on x86-64, where the C library uses them.
#[cfg(target_arch = "x86_64")]
const OF_X86_64: &[i64] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_dup2,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_link,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const OF_X86_64: &[i64] = &[];
