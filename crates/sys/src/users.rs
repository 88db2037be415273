//! Users and groups by their names, and the change of the process to a user.

use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use crate::checked;

/// First length of the buffer for the strings of an entry, in bytes. It grows as needed.
const BUFFER: usize = 1 << 10;

/// Longest buffer for the strings of an entry, in bytes.
const MAX_BUFFER: usize = 1 << 20;

/// Maximum number of groups of a user (`NGROUPS_MAX`).
const MAX_GROUPS: usize = 1 << 16;

/// ID that setresuid(2) leaves as it is.
const UNCHANGED: u32 = u32::MAX;

/// User ID and primary group ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserIds {
    /// User ID.
    pub user: u32,
    /// ID of the primary group.
    pub group: u32,
}

/// IDs of the user of a name, by getpwnam_r(3); `None` if there is no such user.
///
/// # Errors
/// The user database cannot be read.
pub fn user(name: &CStr) -> io::Result<Option<UserIds>> {
    let ids = |entry: &libc::passwd| UserIds { user: entry.pw_uid, group: entry.pw_gid };
    look_up(libc::getpwnam_r, name, ids)
}

/// ID of the group of a name, by getgrnam_r(3); `None` if there is no such group.
///
/// # Errors
/// The group database cannot be read.
pub fn group(name: &CStr) -> io::Result<Option<u32>> {
    look_up(libc::getgrnam_r, name, |entry: &libc::group| entry.gr_gid)
}

/// Function that looks up an entry `T` by its name, with a buffer for the strings of the entry.
type LookUp<T> = unsafe extern "C" fn(*const c_char, *mut T, *mut c_char, usize, *mut *mut T) -> c_int;

/// `call` must be getpwnam_r or getgrnam_r.
fn look_up<T, R>(call: LookUp<T>, name: &CStr, ids: impl Fn(&T) -> R) -> io::Result<Option<R>> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let (mut entry, mut found) = (MaybeUninit::<T>::uninit(), ptr::null_mut());
        // SAFETY: `call` is getpwnam_r or getgrnam_r. The name ends with a zero; the entry and the buffer, of this
        // length, may be written to.
        let error = unsafe {
            call(name.as_ptr(), entry.as_mut_ptr(), buffer.as_mut_ptr(), buffer.len(), &raw mut found)
        };
        return match error {
            0 if found.is_null() => Ok(None),
            // SAFETY: `found` points to `entry`, which the call has written. Its strings are in `buffer`.
            0 => Ok(Some(ids(unsafe { &*found }))),
            libc::ERANGE if buffer.len() < MAX_BUFFER => {
                buffer.resize(2 * buffer.len(), 0);
                continue;
            }
            // Some services answer so if there is no entry.
            libc::ENOENT | libc::ESRCH => Ok(None),
            error => Err(io::Error::from_raw_os_error(error)),
        };
    }
}

/// IDs of the groups that a user of this name and of this primary group is a member of, the primary group
/// included, by getgrouplist(3).
///
/// # Errors
/// `InvalidData` for more groups than Linux supports.
pub fn groups_of(name: &CStr, primary: u32) -> io::Result<Vec<u32>> {
    let mut groups = vec![0; 64];
    loop {
        let mut count = c_int::try_from(groups.len()).unwrap_or(c_int::MAX);
        // SAFETY: the name ends with a zero; `count` elements may be written to.
        let result =
            unsafe { libc::getgrouplist(name.as_ptr(), primary, groups.as_mut_ptr(), &raw mut count) };
        if result >= 0 {
            groups.truncate(count.max(0) as usize);
            return Ok(groups);
        }
        if groups.len() >= MAX_GROUPS {
            let why = format!("more than {MAX_GROUPS} groups");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        groups.resize(2 * groups.len(), 0);
    }
}

/// Call that failed when a process was to change its user.
#[derive(Debug, thiserror::Error)]
#[error("{call}: {source}")]
pub struct ChangeError {
    /// Name of the call.
    pub call: &'static str,
    /// Its error.
    pub source: io::Error,
}

/// Sets real, effective and saved user and group IDs and the supplementary groups of all threads. A change
/// from root to another user clears the effective, permitted and ambient capabilities, unless securebits
/// forbid it (capabilities(7)).
///
/// # Errors
/// `EPERM` without `CAP_SETUID` and `CAP_SETGID`; `EINVAL` for IDs that the user namespace does not map.
pub fn change_to(ids: UserIds, groups: &[u32]) -> Result<(), ChangeError> {
    let result = |call, result: c_int| {
        checked(result as isize).map(drop).map_err(|source| ChangeError { call, source })
    };
    let UserIds { user, group } = ids;
    // The user last, since the change takes the right to change groups.
    // SAFETY: the elements of the slice may be read.
    result("setgroups", unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })?;
    // SAFETY: the call has no pointers.
    result("setresgid", unsafe { libc::setresgid(group, group, group) })?;
    // SAFETY: the call has no pointers.
    result("setresuid", unsafe { libc::setresuid(user, user, user) })
}

/// Sets the effective user ID of all threads.
///
/// # Errors
/// `EPERM` if the user is neither the real nor the saved one, without `CAP_SETUID`.
pub fn set_effective_user(user: u32) -> io::Result<()> {
    // SAFETY: the call has no pointers.
    checked(unsafe { libc::setresuid(UNCHANGED, user, UNCHANGED) } as isize).map(drop)
}

/// Sets the effective group ID of all threads.
///
/// # Errors
/// `EPERM` if the group is neither the real nor the saved one, without `CAP_SETGID`.
pub fn set_effective_group(group: u32) -> io::Result<()> {
    // SAFETY: the call has no pointers.
    checked(unsafe { libc::setresgid(UNCHANGED, group, UNCHANGED) } as isize).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up() {
        assert_eq!(user(c"root").unwrap(), Some(UserIds { user: 0, group: 0 }));
        assert_eq!(group(c"root").unwrap(), Some(0));
        assert_eq!(user(c"no such user").unwrap(), None);
        assert_eq!(group(c"no such group").unwrap(), None);
    }

    /// The primary group is one of the groups, whether or not the group database lists the user as a member.
    #[test]
    fn the_primary_group_is_included() {
        for primary in [0, 4_000_000] {
            assert!(groups_of(c"root", primary).unwrap().contains(&primary));
        }
        assert_eq!(groups_of(c"no such user", 7).unwrap(), [7]);
    }

    #[test]
    fn an_entry_longer_than_the_buffer_is_read_with_a_longer_one() {
        unsafe extern "C" fn long(
            _: *const c_char,
            entry: *mut u32,
            _: *mut c_char,
            length: usize,
            found: *mut *mut u32,
        ) -> c_int {
            if length < 5 * BUFFER {
                return libc::ERANGE;
            }
            // SAFETY: both pointers are those of `look_up`.
            unsafe {
                *entry = 7;
                *found = entry;
            }
            0
        }
        assert_eq!(look_up(long, c"name", |entry| *entry).unwrap(), Some(7));
        unsafe extern "C" fn endless(
            _: *const c_char,
            _: *mut u32,
            _: *mut c_char,
            _: usize,
            _: *mut *mut u32,
        ) -> c_int {
            libc::ERANGE
        }
        let error = look_up(endless, c"name", |entry| *entry).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ERANGE));
    }
}
