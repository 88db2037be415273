//! Network devices: list, owner of a local address, flags and MTU (`netdevice(7)`), and in `ethtool` requests
//! of `linux/ethtool.h`. `ioctl`s apply to the network namespace of their socket.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::BorrowedFd;

use crate::{checked, ioctl};

mod ethtool;
pub use ethtool::{
    Feature, Rings, driver, features, gathers, offloads_checksums, rings, set_checksum_offload, speed_mbps,
};

/// Name of a network device, as shown by `ip link`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeviceName([libc::c_char; libc::IFNAMSIZ]);

impl DeviceName {
    /// Device name, cut to the maximum length.
    pub fn new(text: &CStr) -> DeviceName {
        let mut bytes = [0; libc::IFNAMSIZ];
        for (to, from) in bytes[..libc::IFNAMSIZ - 1].iter_mut().zip(text.to_bytes()) {
            *to = *from as libc::c_char;
        }
        DeviceName(bytes)
    }

    /// Request about this device.
    fn request(&self) -> libc::ifreq {
        libc::ifreq { ifr_name: self.0, ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_map: NO_MAP } }
    }
}

/// Largest member of a request's union, with all bytes zero.
const NO_MAP: libc::__c_anonymous_ifru_map =
    libc::__c_anonymous_ifru_map { mem_start: 0, mem_end: 0, base_addr: 0, irq: 0, dma: 0, port: 0 };

impl std::fmt::Display for DeviceName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name: Vec<u8> = self.0.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
        formatter.write_str(&String::from_utf8_lossy(&name))
    }
}

/// Devices of this network namespace and their addresses, as of one reading. A reading asks the kernel for all of
/// them, which takes longer than to set up a socket.
#[derive(Clone, Debug)]
pub struct Addresses(Vec<(DeviceName, Option<IpAddr>)>);

impl Addresses {
    /// Reads them.
    ///
    /// # Errors
    /// Failure of `getifaddrs`.
    pub fn read() -> io::Result<Addresses> {
        interfaces().map(Addresses)
    }

    /// Device that has `address`, if there is one.
    pub fn device(&self, address: IpAddr) -> Option<&DeviceName> {
        self.0.iter().find(|(_, known)| *known == Some(address)).map(|(name, _)| name)
    }
}

/// Device that has `address`, if there is one.
pub fn with_address(address: IpAddr) -> io::Result<Option<DeviceName>> {
    Ok(Addresses::read()?.device(address).cloned())
}

/// All devices that have `address`.
pub fn all_with_address(address: IpAddr) -> io::Result<Vec<DeviceName>> {
    let with_it = interfaces()?.into_iter().filter(|(_, known)| *known == Some(address));
    Ok(once_each(with_it.map(|(name, _)| name)))
}

/// All devices of this network namespace, including those that are down.
pub fn all() -> io::Result<Vec<DeviceName>> {
    Ok(once_each(interfaces()?.into_iter().map(|(name, _)| name)))
}

fn once_each(names: impl Iterator<Item = DeviceName>) -> Vec<DeviceName> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// Devices and their IP addresses: each device at least once, since its link has an entry, too.
fn interfaces() -> io::Result<Vec<(DeviceName, Option<IpAddr>)>> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: on success the call stores a list in `list`, which is freed below and not used after.
    checked(unsafe { libc::getifaddrs(&mut list) } as isize)?;
    let (mut found, mut next) = (Vec::new(), list);
    // SAFETY: null, or an element of the list that is not freed before the loop is over.
    while let Some(item) = unsafe { next.as_ref() } {
        // SAFETY: `ifa_name` is a string that ends with a zero and lives as long as the list; `ifa_addr` is
        // null or points to an address of the family it names.
        found.push(unsafe { (DeviceName::new(CStr::from_ptr(item.ifa_name)), ip_address(item.ifa_addr)) });
        next = item.ifa_next;
    }
    // SAFETY: `list` came from `getifaddrs` and nothing refers to it any more.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// MTU of the device in bytes.
///
/// # Errors
/// `ENODEV` if the device does not exist.
pub fn mtu(socket: BorrowedFd<'_>, device: &DeviceName) -> io::Result<u32> {
    let mut request = device.request();
    // SAFETY: the kernel reads the name in `request` and writes the MTU into its union.
    unsafe { ioctl(socket, libc::SIOCGIFMTU as u32, &raw mut request)? };
    // SAFETY: the call succeeded, so this member of the union is what the kernel wrote.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    Ok(u32::try_from(mtu).unwrap_or(0))
}

/// Returns whether the device is up.
pub fn is_up(socket: BorrowedFd<'_>, device: &DeviceName) -> io::Result<bool> {
    Ok(libc::c_int::from(flags(socket, device)?) & libc::IFF_UP != 0)
}

/// Sets the device up.
///
/// # Errors
/// See [`mtu`]; `EPERM` without `CAP_NET_ADMIN`.
pub fn set_up(socket: BorrowedFd<'_>, device: &DeviceName) -> io::Result<()> {
    let ifru_flags = flags(socket, device)? | libc::IFF_UP as libc::c_short;
    let mut request =
        libc::ifreq { ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags }, ..device.request() };
    // SAFETY: the kernel reads the name and the flags in `request`.
    unsafe { ioctl(socket, libc::SIOCSIFFLAGS as u32, &raw mut request) }.map(drop)
}

fn flags(socket: BorrowedFd<'_>, device: &DeviceName) -> io::Result<libc::c_short> {
    let mut request = device.request();
    // SAFETY: the kernel reads the name in `request` and writes the flags into its union.
    unsafe { ioctl(socket, libc::SIOCGIFFLAGS as u32, &raw mut request)? };
    // SAFETY: the call succeeded, so this member of the union is what the kernel wrote.
    Ok(unsafe { request.ifr_ifru.ifru_flags })
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
        assert_eq!(all_with_address(Ipv4Addr::LOCALHOST.into()).unwrap(), std::slice::from_ref(&device));
        assert_eq!(all_with_address(Ipv4Addr::new(203, 0, 113, 77).into()).unwrap(), []);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(offloads_checksums(socket.as_fd(), &device).unwrap());
        assert!(gathers(socket.as_fd(), &device).unwrap());
    }

    #[test]
    fn loopback_says_what_it_is() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let names = all().unwrap();
        let loopback = names.iter().find(|name| name.to_string() == "lo").expect("every host has lo");
        assert!(mtu(socket.as_fd(), loopback).unwrap() >= 1280);
        assert!(is_up(socket.as_fd(), loopback).unwrap());
        let features = features(socket.as_fd(), loopback).unwrap();
        let feature =
            |name| features.iter().find(|feature| feature.name == name).expect("the kernel names it");
        let scatter_gather = feature("tx-scatter-gather");
        assert!(scatter_gather.on && !scatter_gather.changeable, "{scatter_gather:?}");
        assert!(feature("tx-tcp-segmentation").changeable);
        assert!(!feature("tx-nocache-copy").on);
    }

    #[test]
    fn a_device_that_is_gone_is_an_error() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let gone = DeviceName::new(c"no-such-device0");
        for result in [mtu(socket.as_fd(), &gone).map(drop), features(socket.as_fd(), &gone).map(drop)] {
            assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::ENODEV));
        }
    }

    #[test]
    fn an_address_of_nobody_is_not_found() {
        assert_eq!(with_address("192.0.2.1".parse().unwrap()).unwrap(), None);
    }
}
