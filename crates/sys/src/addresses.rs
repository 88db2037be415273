//! Addresses of network devices.

use std::ffi::CStr;
use std::io;
use std::net::Ipv4Addr;
use std::ptr;

use crate::checked;

/// Names of the devices that have this address.
///
/// # Errors
/// Those of `getifaddrs`.
pub fn devices_of(address: Ipv4Addr) -> io::Result<Vec<String>> {
    let mut first = ptr::null_mut();
    // SAFETY: it writes one pointer to `first`.
    checked(unsafe { libc::getifaddrs(&mut first) } as isize)?;
    let mut names = Vec::new();
    let mut next: *const libc::ifaddrs = first;
    // SAFETY: the list lives until it is freed below; each element is the next of one before, up to null.
    while let Some(element) = unsafe { next.as_ref() } {
        next = element.ifa_next;
        let socket_address: *const libc::sockaddr = element.ifa_addr;
        // SAFETY: an element's address is null, or a `sockaddr` of its family that lives as long as the list.
        let family = unsafe { socket_address.as_ref() }.map(|address| address.sa_family);
        if family != Some(libc::AF_INET as libc::sa_family_t) {
            continue;
        }
        // SAFETY: an address of AF_INET is a `sockaddr_in`; the list may not be aligned for it, and it is copied.
        let found = unsafe { socket_address.cast::<libc::sockaddr_in>().read_unaligned() };
        if Ipv4Addr::from(u32::from_be(found.sin_addr.s_addr)) == address {
            // SAFETY: the name is a string of C that lives as long as the list.
            names.push(unsafe { CStr::from_ptr(element.ifa_name) }.to_string_lossy().into_owned());
        }
    }
    // SAFETY: the list is `getifaddrs`', and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_device_has_its_address() {
        assert_eq!(devices_of(Ipv4Addr::LOCALHOST).unwrap(), ["lo"]);
        assert_eq!(devices_of(Ipv4Addr::new(203, 0, 113, 77)).unwrap(), [""; 0]);
    }
}
