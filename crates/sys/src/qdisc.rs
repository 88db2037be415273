//! Queueing disciplines of a device, queried by netlink (`linux/rtnetlink.h`, `linux/pkt_sched.h`).

use std::io;

use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// NETLINK_ROUTE, which is protocol 0.
const ROUTE: Option<Protocol> = None;

/// Message types.
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

/// NLM_F_REQUEST and NLM_F_DUMP.
const DUMP: u16 = 0x301;

/// Length of `struct nlmsghdr`, of `struct tcmsg` and of both.
const HEADER: usize = 16;
const TC: usize = 20;

/// TCA_KIND: name of the discipline.
const TCA_KIND: u16 = 1;

/// Names of the queueing disciplines of a device, each once, for example `mq` and `fq`; `noqueue` if there is
/// none. `device` is its index.
///
/// # Errors
/// Errors of netlink sockets; `InvalidData` for an invalid answer.
pub fn of_device(device: u32) -> io::Result<Vec<String>> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, ROUTE)?;
    send(&socket, &request(), SendFlags::empty())?;
    let (mut kinds, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        let (_, length) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        let part = buffer.get(..length).ok_or(io::ErrorKind::InvalidData)?;
        if read(part, device, &mut kinds)? {
            return Ok(kinds);
        }
    }
}

/// Request for the disciplines of all devices.
fn request() -> [u8; HEADER + TC] {
    let mut bytes = [0; HEADER + TC];
    bytes[..4].copy_from_slice(&((HEADER + TC) as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&RTM_GETQDISC.to_ne_bytes());
    bytes[6..8].copy_from_slice(&DUMP.to_ne_bytes());
    bytes
}

/// Parses the messages of a datagram; returns whether they were the last.
fn read(mut bytes: &[u8], device: u32, kinds: &mut Vec<String>) -> io::Result<bool> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    while !bytes.is_empty() {
        let length = word(bytes, 0).ok_or_else(invalid)? as usize;
        let message = bytes.get(..length).filter(|message| message.len() >= HEADER).ok_or_else(invalid)?;
        match half(message, 4).ok_or_else(invalid)? {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let errno = word(message, HEADER).ok_or_else(invalid)?.wrapping_neg();
                return Err(io::Error::from_raw_os_error(errno as i32));
            }
            RTM_NEWQDISC if word(message, HEADER + 4) == Some(device) => {
                let kind = kind(message.get(HEADER + TC..).unwrap_or_default());
                kinds.extend(kind.filter(|kind| !kinds.contains(kind)));
            }
            _ => {}
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// Name in a list of attributes.
fn kind(mut attributes: &[u8]) -> Option<String> {
    loop {
        let (length, kind) = (usize::from(half(attributes, 0)?), half(attributes, 2)?);
        let value = attributes.get(4..length)?;
        if kind == TCA_KIND {
            let text = value.split(|byte| *byte == 0).next()?;
            return Some(String::from_utf8_lossy(text).into_owned());
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Message about the discipline of a device, with an attribute of odd length before its name.
    fn message(device: u32, name: &str) -> Vec<u8> {
        let mut bytes = vec![0; HEADER + TC];
        bytes[4..6].copy_from_slice(&RTM_NEWQDISC.to_ne_bytes());
        bytes[HEADER + 4..HEADER + 8].copy_from_slice(&device.to_ne_bytes());
        for (kind, value) in [(12, &[1][..]), (TCA_KIND, name.as_bytes())] {
            bytes.extend((4 + value.len() as u16).to_ne_bytes());
            bytes.extend(u16::to_ne_bytes(kind));
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes
    }

    fn header(kind: u16, rest: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes[..4].copy_from_slice(&((HEADER + rest.len()) as u32).to_ne_bytes());
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes.extend(rest);
        bytes
    }

    #[test]
    fn names_of_one_device_are_found_once_each() {
        let all = [message(7, "mq\0"), message(8, "etf\0"), message(7, "fq\0"), message(7, "fq\0")].concat();
        let mut kinds = Vec::new();
        assert!(!read(&all, 7, &mut kinds).unwrap());
        assert!(read(&header(NLMSG_DONE, &[0; 4]), 7, &mut kinds).unwrap());
        assert_eq!(kinds, ["mq", "fq"]);
        let refused = read(&header(NLMSG_ERROR, &(-1_i32).to_ne_bytes()), 7, &mut kinds).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn no_bytes_are_too_odd() {
        let good = [message(7, "fq\0"), header(NLMSG_ERROR, &[])].concat();
        for end in 0..good.len() {
            for value in [0, 1, 255] {
                let mut bytes = good[..end].to_vec();
                let _ = read(&bytes, 7, &mut Vec::new());
                if let Some(last) = bytes.last_mut() {
                    *last = value;
                }
                let _ = read(&bytes, 7, &mut Vec::new());
            }
        }
    }

    #[test]
    fn the_loopback_device_has_one() {
        // The loopback device has index 1 in every network namespace.
        assert!(!of_device(1).unwrap().is_empty());
        assert!(of_device(u32::MAX).unwrap().is_empty());
    }
}
