//! Groups to which a server may send.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use crate::sending::{Destination, Form};

/// Most groups.
const MOST_GROUPS: u128 = 65_536;

/// Groups to which a server may send: one for each asset that is being sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MulticastRange {
    /// The first group, and the parameters of all groups: port of the first track, time to live, interface.
    first: Destination,
    count: u32,
}

impl MulticastRange {
    /// The group with this number.
    pub(super) fn group(&self, number: u32) -> Destination {
        let ip = match self.first.address.ip() {
            IpAddr::V4(first) => IpAddr::V4(Ipv4Addr::from_bits(first.to_bits() + number)),
            IpAddr::V6(first) => IpAddr::V6(Ipv6Addr::from_bits(first.to_bits() + u128::from(number))),
        };
        Destination { address: SocketAddr::new(ip, self.first.address.port()), ..self.first.clone() }
    }

    /// Checks that there is the interface that packets are to leave by.
    ///
    /// # Errors
    /// The interface is missing, or is given by an address that no group can be sent from.
    pub(crate) fn check_interface(&self) -> io::Result<()> {
        self.first.check_interface()
    }

    /// Number of groups.
    pub(super) fn count(&self) -> u32 {
        self.count
    }
}

impl FromStr for MulticastRange {
    type Err = String;

    fn from_str(text: &str) -> Result<MulticastRange, String> {
        let (groups, options) = text.split_once('?').unwrap_or((text, ""));
        let (first, last) = groups.split_once('-').unwrap_or(("", groups));
        let last: Destination = format!("rtp://{last}?{options}").parse().map_err(|error: String| {
            format!("{error}; expected GROUP[-GROUP]:PORT, such as 239.255.42.1-239.255.42.99:5004?ttl=4")
        })?;
        let first = match first.trim_start_matches('[').trim_end_matches(']') {
            "" => last.address.ip(),
            first => first.parse().map_err(|_| format!("invalid group {first:?}: expected an IP address"))?,
        };
        let last_ip = last.address.ip();
        for ip in [first, last_ip] {
            if !ip.is_multicast() {
                return Err(format!(
                    "{ip} is not a multicast group: expected 224.0.1.0 to 239.255.255.255, or ff00::/8"
                ));
            }
            if matches!(ip, IpAddr::V4(ip) if ip.octets()[..3] == [224, 0, 0]) {
                return Err(format!("{ip} is for routing (RFC 5771 section 4): choose one of 239.0.0.0/8"));
            }
        }
        let distance = match (first, last_ip) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                last.to_bits().checked_sub(first.to_bits()).map(u128::from)
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => last.to_bits().checked_sub(first.to_bits()),
            _ => return Err(format!("{first} and {last_ip} have different address families")),
        };
        let distance = distance
            .ok_or_else(|| format!("the first group, {first}, is greater than the last, {last_ip}"))?;
        if distance >= MOST_GROUPS {
            return Err(format!("{first} to {last_ip} are too many groups: expected {MOST_GROUPS} at most"));
        }
        let address = SocketAddr::new(first, last.address.port());
        let first = Destination { address, form: Form::Rtp, ..last };
        Ok(MulticastRange { first, count: distance as u32 + 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Result<MulticastRange, String> {
        text.parse()
    }

    #[test]
    fn groups_are_counted_from_the_first() {
        let groups = range("239.1.1.250-239.1.2.3:5004?ttl=4").unwrap();
        assert_eq!((groups.count(), groups.first.ttl), (10, Some(4)));
        assert_eq!(groups.group(9).address, "239.1.2.3:5004".parse().unwrap());
        let one = range("239.1.1.1:5004?interface=a-b").unwrap();
        assert_eq!((one.count(), one.group(0).to_string()), (1, "rtp://239.1.1.1:5004".to_owned()));
        let six = range("[ff15::1]-[ff15::a]:6000").unwrap();
        assert_eq!((six.count(), six.group(1).address), (10, "[ff15::2]:6000".parse().unwrap()));
    }

    #[test]
    fn errors_say_what_is_expected() {
        for (text, words) in [
            ("", "expected GROUP[-GROUP]:PORT"),
            ("239.1.1.1", "expected GROUP[-GROUP]:PORT"),
            ("239.1.1.1:5005", "port 5005 is odd"),
            ("10.0.0.1:5004", "10.0.0.1 is not a multicast group"),
            ("239.1.1.1-10.0.0.1:5004", "10.0.0.1 is not a multicast group"),
            ("224.0.0.1-224.0.0.9:5004", "is for routing"),
            ("239.1.1.9-239.1.1.1:5004", "is greater than the last"),
            ("239.1.1.1-[ff15::1]:5004", "different address families"),
            ("239.0.0.0-239.1.0.0:5004", "too many groups"),
            ("x-239.1.1.1:5004", "invalid group \"x\""),
        ] {
            let error = range(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
