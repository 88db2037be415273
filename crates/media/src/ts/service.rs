//! Names of services (ETSI EN 300 468 section 5.2.3).

use std::collections::BTreeMap;

use super::packet::Packet;
use super::programme::Descriptors;
use super::section::{Assembler, Section};

/// PID of the service description table.
pub const SERVICE_PID: u16 = 0x11;

/// Table id of the table with the services of the transport stream that carries it.
const ACTUAL_STREAM_TABLE: u8 = 0x42;

/// Tag of the service descriptor.
const SERVICE_DESCRIPTOR: u8 = 0x48;

/// Most services that are kept.
const MAX_SERVICES: usize = 256;

/// Service: a programme with a name.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Service {
    /// Name of the service.
    pub name: String,
    /// Name of the provider; empty if the table has none.
    pub provider: String,
}

/// Services of a transport stream, by programme number.
#[derive(Clone, Debug, Default)]
pub struct Services {
    assembler: Assembler,
    services: BTreeMap<u16, Service>,
}

impl Services {
    /// Reads a packet of PID [`SERVICE_PID`].
    pub fn push(&mut self, packet: Packet<'_>) {
        let Services { assembler, services } = self;
        assembler.push(packet, |section| read_section(section, services));
    }

    /// Returns the services described so far.
    pub fn into_services(self) -> BTreeMap<u16, Service> {
        self.services
    }
}

fn read_section(section: Section<'_>, services: &mut BTreeMap<u16, Service>) {
    if section.table != ACTUAL_STREAM_TABLE {
        return;
    }
    // original_network_id and a reserved byte precede the services.
    let mut rest = section.body.get(3..).unwrap_or_default();
    while let Some((head, after)) = rest.split_at_checked(5) {
        let length = usize::from(u16::from_be_bytes([head[3] & 0x0f, head[4]]));
        let Some((descriptors, after)) = after.split_at_checked(length) else { return };
        let service = Descriptors(descriptors).find_map(|(tag, body)| read_service(tag, body));
        let number = u16::from_be_bytes([head[0], head[1]]);
        if let Some(service) = service
            && (services.len() < MAX_SERVICES || services.contains_key(&number))
        {
            services.insert(number, service);
        }
        rest = after;
    }
}

/// Reads a service descriptor (section 6.2.33).
fn read_service(tag: u8, body: &[u8]) -> Option<Service> {
    let (length, rest) = body.get(1..)?.split_first()?;
    let (provider, rest) = rest.split_at_checked(usize::from(*length))?;
    let (length, rest) = rest.split_first()?;
    let name = rest.get(..usize::from(*length))?;
    (tag == SERVICE_DESCRIPTOR).then(|| Service { name: text(name), provider: text(provider) })
}

/// Decodes a text (annex A): UTF-8, UTF-16, ISO 8859-1 and 8859-9; of other character tables only ASCII.
fn text(bytes: &[u8]) -> String {
    const OTHER: char = char::REPLACEMENT_CHARACTER;
    let single = |bytes: &[u8], decode: fn(u8) -> char| bytes.iter().map(|byte| decode(*byte)).collect();
    let text: String = match bytes {
        [0x15, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        [0x11, rest @ ..] => {
            let units: Vec<u16> = rest.as_chunks().0.iter().map(|unit| u16::from_be_bytes(*unit)).collect();
            String::from_utf16_lossy(&units)
        }
        [0x05, rest @ ..] | [0x10, 0, 1 | 9, rest @ ..] => single(rest, char::from),
        [0x10, _, _, rest @ ..] | [0x01..0x20, rest @ ..] | rest => {
            single(rest, |byte| if byte.is_ascii() { char::from(byte) } else { OTHER })
        }
    };
    text.chars().filter(|character| !character.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(services: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = vec![0, 1, 0xff];
        for (number, name) in services {
            let descriptor =
                [&[SERVICE_DESCRIPTOR, 3 + 2 + name.len() as u8, 1, 2][..], b"Us", &[name.len() as u8], name];
            let descriptor = descriptor.concat();
            body.extend_from_slice(&number.to_be_bytes());
            body.extend_from_slice(&[0xfc, 0x80, descriptor.len() as u8]);
            body.extend_from_slice(&descriptor);
        }
        body
    }

    fn services(body: &[u8]) -> BTreeMap<u16, Service> {
        let mut services = BTreeMap::new();
        let section =
            Section { table: ACTUAL_STREAM_TABLE, extension: 1, version: 0, number: 0, body, crc: 0 };
        read_section(section, &mut services);
        services
    }

    /// Promise: Services of a transport stream are named from its service description table.
    #[test]
    fn services_have_names_and_providers() {
        let found =
            services(&section(&[(1, b"One"), (2, "\u{15}Zw\u{f6}lf".as_bytes()), (3, b"\x05Z\xfcrich")]));
        let names: Vec<&str> = found.values().map(|service| service.name.as_str()).collect();
        assert_eq!(names, ["One", "Zw\u{f6}lf", "Z\u{fc}rich"]);
        assert!(found.values().all(|service| service.provider == "Us"));
    }

    #[test]
    fn a_truncated_table_gives_what_is_whole() {
        let body = section(&[(1, b"One"), (2, b"Two")]);
        for length in 0..body.len() {
            assert!(services(&body[..length]).len() < 2);
        }
    }

    #[test]
    fn characters_of_other_tables_are_replaced() {
        assert_eq!(text(b"\x01A\xd0"), "A\u{fffd}");
        assert_eq!(text(b"\x11\x00A\x01"), "A");
        assert_eq!(text(b"a\x86b"), "a\u{fffd}b");
    }
}
