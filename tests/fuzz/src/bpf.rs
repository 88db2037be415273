//! Object files of handlers: no bytes make the reader or the handler in user space panic, run for ever or see more
//! of a record than the kernel shows it, and what a handler decides depends on the record alone.

use std::sync::Arc;

use wirepath_bpf::{BpfHandler, HandlerObject};
use wirepath_streams::{Common, Peek};

/// Takes an object file; or the length of a record, the record, and instructions, which an object is made of.
pub fn fuzz(data: &[u8]) {
    if data.starts_with(b"\x7fELF") {
        return check(data.to_vec(), &[0x80; 200]);
    }
    let [length, rest @ ..] = data else { return };
    let (record, instructions) = rest.split_at(rest.len().min((*length).into()));
    check(object(instructions), record);
}

fn check(object: Vec<u8>, record: &[u8]) {
    let object = match HandlerObject::parse(object) {
        Ok(object) => object,
        Err(why) => return assert!(!why.is_empty()),
    };
    let mut handler = BpfHandler::new(&object, Arc::default());
    let seen = &record[..record.len().min(handler.length())];
    let verdict = handler.peek(seen);
    assert_eq!(handler.peek(record), verdict, "of the same bytes");
    let counted: u64 = handler.report().iter().map(|(_, count)| count).sum();
    assert_eq!(counted, if verdict.is_ok() { 2 } else { 0 });
}

/// The smallest object with these instructions: a header, the instructions in a section `socket`, its name, and the
/// table of sections.
fn object(instructions: &[u8]) -> Vec<u8> {
    const HEADER: u64 = 64;
    const NAMES: &[u8] = b"\0socket\0.strtab\0";
    const BITS: u32 = 1;
    const STRINGS: u32 = 3;
    let section = |name: u32, kind: u32, at: u64, bytes: usize| {
        let head = [name, kind].map(u32::to_le_bytes).concat();
        let numbers = [0, 0, at, bytes as u64, 0, 1, 0].map(u64::to_le_bytes).concat();
        [head, numbers].concat()
    };
    let names_at = HEADER + instructions.len() as u64;
    let table_at = names_at + NAMES.len() as u64;
    // 64 bits, least significant byte first; relocatable, for eBPF.
    let mut object = b"\x7fELF\x02\x01\x01".to_vec();
    object.resize(16, 0);
    object.extend([1_u16, 247].map(u16::to_le_bytes).concat());
    object.extend(1_u32.to_le_bytes());
    object.extend([0, 0, table_at].map(u64::to_le_bytes).concat());
    object.extend([0_u16; 2].map(u16::to_le_bytes).concat());
    object.extend([HEADER as u16, 0, 0, 64, 3, 2].map(u16::to_le_bytes).concat());
    object.extend(instructions);
    object.extend(NAMES);
    object.extend(section(0, 0, 0, 0));
    object.extend(section(1, BITS, HEADER, instructions.len()));
    object.extend(section(8, STRINGS, names_at, NAMES.len()));
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_are_made_are_handlers() {
        // r0 = 1, exit
        let pass = [0xb7, 0, 0, 0, 1, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];
        assert!(HandlerObject::parse(object(&pass)).is_ok());
        assert!(HandlerObject::parse(object(&pass[..8])).unwrap_err().contains("leaves"));
    }
}
