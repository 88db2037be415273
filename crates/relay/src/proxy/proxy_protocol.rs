//! PROXY protocol: a header with the client's address before the first byte (haproxy.org, proxy-protocol.txt,
//! 2020-03-05).

use std::io;
use std::net::SocketAddr;

use ppp::v2::{Builder, Command, Protocol, Version};
use ppp::{HeaderResult, PartialResult, v1, v2};

/// Maximum length of a header. Addresses take up to 232 bytes, the rest are TLVs.
pub(super) const MAX_HEADER: usize = 4096;

/// Maximum length of a version 1 header (section 2.1).
const MAX_HEADER_V1: usize = 107;

const TOO_LONG: &str = "header too long";

/// Source and destination of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
}

/// Result of parsing the beginning of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// More bytes are needed.
    Incomplete,
    /// Header and its length. Without an origin, the addresses of the connection itself apply (section 2.2:
    /// LOCAL, UNSPEC, Unix).
    Header { origin: Option<Origin>, bytes: usize },
}

pub(super) fn parse(bytes: &[u8]) -> Result<Parsed, String> {
    let is_text = bytes.first().is_some_and(|first| *first == b'P');
    if is_text && !bytes.contains(&b'\n') && bytes.len() < MAX_HEADER_V1 {
        // The library rejects some incomplete headers as invalid.
        return Ok(Parsed::Incomplete);
    }
    if is_local(bytes) {
        return match header_length(bytes) {
            Some(length) if length > MAX_HEADER => Err(TOO_LONG.to_owned()),
            Some(length) if length <= bytes.len() => Ok(Parsed::Header { origin: None, bytes: length }),
            _ => Ok(Parsed::Incomplete),
        };
    }
    let result = HeaderResult::parse(bytes);
    if result.is_incomplete() {
        let needed = header_length(bytes).unwrap_or(0);
        let is_too_long = needed > MAX_HEADER || is_text;
        return if is_too_long { Err(TOO_LONG.to_owned()) } else { Ok(Parsed::Incomplete) };
    }
    // The library has different types with the same fields for IPv4 and IPv6 addresses.
    macro_rules! origin {
        ($ip:ident) => {
            Some(Origin {
                source: ($ip.source_address, $ip.source_port).into(),
                destination: ($ip.destination_address, $ip.destination_port).into(),
            })
        };
    }
    let (origin, bytes) = match result {
        HeaderResult::V1(header) => {
            let header = header.map_err(|error| error.to_string())?;
            let origin = match header.addresses {
                v1::Addresses::Tcp4(ip) => origin!(ip),
                v1::Addresses::Tcp6(ip) => origin!(ip),
                v1::Addresses::Unknown => None,
            };
            (origin, header.header.len())
        }
        HeaderResult::V2(header) => {
            let header = header.map_err(|error| error.to_string())?;
            let origin = match header.addresses {
                _ if header.command == Command::Local => None,
                v2::Addresses::IPv4(ip) => origin!(ip),
                v2::Addresses::IPv6(ip) => origin!(ip),
                v2::Addresses::Unix(_) | v2::Addresses::Unspecified => None,
            };
            (origin, header.header.len())
        }
    };
    Ok(Parsed::Header { origin, bytes })
}

/// Writes a version 2 header for a client's connection; without an origin, for a connection of the proxy
/// itself (LOCAL).
pub(super) fn header(origin: Option<Origin>) -> io::Result<Vec<u8>> {
    let Some(Origin { source, destination }) = origin else {
        let none = v2::Addresses::Unspecified;
        return Builder::with_addresses(Version::Two | Command::Local, Protocol::Unspecified, none).build();
    };
    let addresses = match (source, destination) {
        (SocketAddr::V4(_), SocketAddr::V4(_)) => (source, destination),
        _ => (as_v6(source), as_v6(destination)),
    };
    Builder::with_addresses(Version::Two | Command::Proxy, Protocol::Stream, addresses).build()
}

/// Returns whether this is a LOCAL header of version 2. Its addresses must be ignored, even if they are
/// invalid (section 2.2).
fn is_local(bytes: &[u8]) -> bool {
    bytes.starts_with(v2::PROTOCOL_PREFIX) && bytes.get(12) == Some(&0x20)
}

/// Length of a version 2 header, if its length field is complete.
fn header_length(bytes: &[u8]) -> Option<usize> {
    let length = bytes.get(14..16)?;
    Some(16 + usize::from(u16::from_be_bytes([length[0], length[1]])))
}

/// Maps an IPv4 address to IPv6, since a header has addresses of one family.
fn as_v6(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) => (v4.ip().to_ipv6_mapped(), v4.port()).into(),
        SocketAddr::V6(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(source: &str, destination: &str) -> Origin {
        Origin { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
    }

    /// Checks that every prefix of the header is incomplete, and that bytes after the header belong to the
    /// connection.
    fn check(header: &[u8], expected: Option<Origin>) {
        for length in 0..header.len() {
            assert_eq!(parse(&header[..length]), Ok(Parsed::Incomplete), "{length} bytes");
        }
        let whole = Ok(Parsed::Header { origin: expected, bytes: header.len() });
        for rest in [&b""[..], b"\xff\r\nGET /"] {
            assert_eq!(parse(&[header, rest].concat()), whole);
        }
    }

    /// Promise: PROXY protocol headers are sent and read as specified; malformed ones are refused.
    #[test]
    fn headers_are_parsed_at_every_length() {
        let v4 = origin("192.0.2.1:5000", "198.51.100.2:80");
        let v6 = origin("[2001:db8::1]:5000", "[2001:db8::2]:80");
        check(b"PROXY TCP4 192.0.2.1 198.51.100.2 5000 80\r\n", Some(v4));
        check(b"PROXY TCP6 2001:db8::1 2001:db8::2 5000 80\r\n", Some(v6));
        check(b"PROXY UNKNOWN\r\n", None);
        for known in [Some(v4), Some(v6), None] {
            check(&header(known).unwrap(), known);
        }
    }

    /// Promise: PROXY protocol headers are sent and read as specified; malformed ones are refused.
    ///
    /// Covers every address family, and complete and incomplete addresses.
    #[test]
    fn addresses_of_a_local_header_are_ignored() {
        let signature = b"\r\n\r\n\0\r\nQUIT\n";
        for block in [&[0x20, 0xff, 0, 2, 1, 2][..], &[0x20, 0x11, 0, 3, 127, 0, 0], &[0x20, 0x31, 0, 0]] {
            check(&[&signature[..], block].concat(), None);
        }
    }

    /// Promise: PROXY protocol headers are sent and read as specified; malformed ones are refused.
    ///
    /// Expected bytes are from section 2.2 of the specification.
    #[test]
    fn headers_are_as_specified() {
        let signature = b"\r\n\r\n\0\r\nQUIT\n";
        let v4 = header(Some(origin("192.0.2.1:5000", "198.51.100.2:80"))).unwrap();
        let expected = [0x21, 0x11, 0, 12, 192, 0, 2, 1, 198, 51, 100, 2, 0x13, 0x88, 0, 80];
        assert_eq!(v4, [&signature[..], &expected].concat());
        assert_eq!(header(None).unwrap(), [&signature[..], &[0x20, 0, 0, 0]].concat());
        let mixed = header(Some(origin("[2001:db8::1]:5000", "198.51.100.2:80"))).unwrap();
        assert_eq!((mixed[13], mixed.len()), (0x21, 16 + 36));
    }

    /// Promise: PROXY protocol headers are sent and read as specified; malformed ones are refused.
    #[test]
    fn invalid_headers_are_refused() {
        let mut long = header(None).unwrap();
        long[14..16].copy_from_slice(&5000u16.to_be_bytes());
        let endless = [b'P'; MAX_HEADER_V1];
        for wrong in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"PROXY TCP4 a b c d\r\n",
            &long,
            &endless,
            b"\r\n\r\n1234567890123",
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    proptest::proptest! {
        /// Promise: PROXY protocol headers are sent and read as specified; malformed ones are refused.
        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300), version in 0..3) {
            let start: &[u8] = [&b""[..], b"PROXY ", b"\r\n\r\n\0\r\nQUIT\n\x21"][version as usize];
            let bytes = [start, &bytes].concat();
            if let Ok(Parsed::Header { bytes: length, .. }) = parse(&bytes) {
                assert!(length <= bytes.len() && length >= 15);
            }
        }
    }
}
