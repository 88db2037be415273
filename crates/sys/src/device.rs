//! Network devices: which one owns a local address, and what it offloads.

use std::ffi::CStr;
use std::io;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::checked;

/// Name of a network device, as `ip link` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeviceName([libc::c_char; libc::IFNAMSIZ]);

impl std::fmt::Display for DeviceName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name: Vec<u8> = self.0.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
        formatter.write_str(&String::from_utf8_lossy(&name))
    }
}

impl DeviceName {
    /// A name, cut to the length that names of devices have.
    pub fn new(text: &CStr) -> DeviceName {
        name(text)
    }
}

/// The device that has `address`, if one does.
///
/// # Errors
/// What `getifaddrs` says.
pub fn with_address(address: IpAddr) -> io::Result<Option<DeviceName>> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: on success the call stores a list in `list`, which is freed below and not used after.
    checked(unsafe { libc::getifaddrs(&mut list) } as isize)?;
    let mut found = None;
    let mut entry = list;
    while !entry.is_null() && found.is_none() {
        // SAFETY: `entry` is an element of the list that is not freed before the loop is over.
        let item = unsafe { &*entry };
        // SAFETY: `ifa_addr` is null or points to an address of the family it names.
        if unsafe { ip_address(item.ifa_addr) } == Some(address) {
            // SAFETY: `ifa_name` is a string that ends with a zero and lives as long as the list.
            found = Some(name(unsafe { CStr::from_ptr(item.ifa_name) }));
        }
        entry = item.ifa_next;
    }
    // SAFETY: `list` came from `getifaddrs` and nothing refers to it any more.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// Whether the device computes transport checksums on transmission (`ETHTOOL_GTXCSUM`). Without that, a payload sent
/// by reference is read by the CPU after all, which is slower than a copy.
///
/// # Errors
/// `EOPNOTSUPP` for devices that do not say, else what `ioctl` says.
pub fn offloads_checksums(socket: BorrowedFd<'_>, device: &DeviceName) -> io::Result<bool> {
    const ETHTOOL_GTXCSUM: u32 = 0x16; // linux/ethtool.h
    ask(socket, device, ETHTOOL_GTXCSUM)
}

/// Whether the device gathers a packet from several places of memory (`ETHTOOL_GSG`). Without that, the kernel copies.
///
/// # Errors
/// As [`offloads_checksums`].
pub fn gathers(socket: BorrowedFd<'_>, device: &DeviceName) -> io::Result<bool> {
    const ETHTOOL_GSG: u32 = 0x18; // linux/ethtool.h
    ask(socket, device, ETHTOOL_GSG)
}

/// Lets the device compute transport checksums on transmission, or not (`ETHTOOL_STXCSUM`). Without them it is given no
/// segmentation of TCP and UDP to do either: segments need checksums of their own.
///
/// # Errors
/// `EPERM` without `CAP_NET_ADMIN`, `EOPNOTSUPP` for devices that cannot change it, else what `ioctl` says.
pub fn set_checksum_offload(socket: BorrowedFd<'_>, device: &DeviceName, on: bool) -> io::Result<()> {
    const ETHTOOL_STXCSUM: u32 = 0x17; // linux/ethtool.h
    ethtool(socket, device, &mut EthtoolValue { command: ETHTOOL_STXCSUM, data: on.into() })
}

/// Asks the device for a value of `struct ethtool_value` that is 0 or 1.
fn ask(socket: BorrowedFd<'_>, device: &DeviceName, command: u32) -> io::Result<bool> {
    let mut value = EthtoolValue { command, data: 0 };
    ethtool(socket, device, &mut value)?;
    Ok(value.data != 0)
}

/// Any socket of the device's network namespace will do.
fn ethtool(socket: BorrowedFd<'_>, device: &DeviceName, value: &mut EthtoolValue) -> io::Result<()> {
    const SIOCETHTOOL: libc::c_ulong = 0x8946; // linux/sockios.h
    let mut request = InterfaceRequest {
        name: device.0,
        data: std::ptr::from_mut(value).cast(),
        padding: [0; InterfaceRequest::PADDING],
    };
    // SAFETY: the kernel reads `request`, which has the size and layout of `struct ifreq`, and reads and writes the eight bytes
    // of `value`, to which its data pointer points; both outlive the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as libc::Ioctl, &raw mut request) };
    checked(result as isize).map(drop)
}

/// `struct ethtool_value` of `linux/ethtool.h`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// `struct ifreq` of `linux/if.h` with its union read as a pointer.
#[repr(C)]
struct InterfaceRequest {
    name: [libc::c_char; libc::IFNAMSIZ],
    data: *mut libc::c_void,
    padding: [u8; Self::PADDING],
}

impl InterfaceRequest {
    /// What is left of the union, whose largest member is `struct ifmap`.
    const PADDING: usize = size_of::<libc::ifreq>() - libc::IFNAMSIZ - size_of::<*mut libc::c_void>();
}

fn name(text: &CStr) -> DeviceName {
    let mut bytes = [0; libc::IFNAMSIZ];
    for (to, from) in bytes[..libc::IFNAMSIZ - 1].iter_mut().zip(text.to_bytes()) {
        *to = *from as libc::c_char;
    }
    DeviceName(bytes)
}

/// # Safety
/// `address` is null or points to a socket address of the length that its family has.
unsafe fn ip_address(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: every socket address begins with its family.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the family says that it is a `sockaddr_in`.
            let address = unsafe { &*address.cast::<libc::sockaddr_in>() };
            Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that it is a `sockaddr_in6`.
            let address = unsafe { &*address.cast::<libc::sockaddr_in6>() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn loopback_is_found_by_its_address_and_offloads() {
        let device = with_address(Ipv4Addr::LOCALHOST.into()).unwrap().expect("every host has 127.0.0.1");
        assert_eq!(device.to_string(), "lo");
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(offloads_checksums(socket.as_fd(), &device).unwrap());
        assert!(gathers(socket.as_fd(), &device).unwrap());
    }

    #[test]
    fn an_address_of_nobody_is_not_found() {
        assert_eq!(with_address("192.0.2.1".parse().unwrap()).unwrap(), None);
    }
}
