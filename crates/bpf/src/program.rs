//! Object files of handlers, and the program in them that user space runs.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use object::{Object, ObjectSection};

use crate::error::BpfError;

/// Longest object file.
const LONGEST_FILE: u64 = 1 << 20;

/// Section of the program for user space (`kernel/bpf/wirepath.bpf.h`).
const SECTION: &str = "socket";

/// Bytes of an instruction, and most of a program (RFC 9669, section 3; the kernel's limit for programs
/// without privileges).
const INSTRUCTION: usize = 8;
const MOST_INSTRUCTIONS: usize = 4096;

/// Classes of instructions that jump, and operations that are no jumps (RFC 9669, section 4.3).
const CLASS: u8 = 0x07;
const ALU: u8 = 0x04;
const ALU64: u8 = 0x07;
const JUMP: u8 = 0x05;
const JUMP32: u8 = 0x06;
const OPERATION: u8 = 0xf0;
const ALWAYS: u8 = 0x00;
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;

/// An instruction of 16 bytes: a constant of 64 bits.
const LOAD_CONSTANT: u8 = 0x18;

/// Object file with a handler.
#[derive(Clone, Debug)]
pub struct HandlerObject {
    pub(crate) bytes: Arc<[u8]>,
    program: Arc<[u8]>,
}

impl HandlerObject {
    /// Reads an object file.
    ///
    /// # Errors
    /// A file that cannot be read, is longer than 1 MiB, or has no handler; a handler with a loop or a call.
    pub fn from_file(path: &Path) -> Result<HandlerObject, BpfError> {
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|file| file.take(LONGEST_FILE + 1).read_to_end(&mut bytes));
        read.map_err(|error| BpfError::File(path.to_owned(), error))?;
        HandlerObject::parse(bytes).map_err(|why| BpfError::Object(path.to_owned(), why))
    }

    /// Reads the bytes of an object file.
    ///
    /// # Errors
    /// The reason why there is no handler in it, or none that can be used.
    pub fn parse(bytes: Vec<u8>) -> Result<HandlerObject, String> {
        if bytes.len() as u64 > LONGEST_FILE {
            return Err(format!("it is longer than {LONGEST_FILE} bytes"));
        }
        let file = object::File::parse(&*bytes).map_err(|error| format!("it is no object file: {error}"))?;
        if file.architecture() != object::Architecture::Bpf {
            return Err("it is for another processor than eBPF".to_owned());
        }
        let section = file.section_by_name(SECTION).ok_or_else(|| format!("it has no section {SECTION}"))?;
        if section.relocations().next().is_some() {
            return Err("the handler uses global data or another function".to_owned());
        }
        let program = section.data().map_err(|error| format!("its section {SECTION}: {error}"))?;
        check(program)?;
        let program = program.into();
        Ok(HandlerObject { bytes: bytes.into(), program })
    }

    /// An object of a program for user space alone.
    #[cfg(test)]
    pub(crate) fn of_program(program: &[u8]) -> Result<HandlerObject, String> {
        check(program)?;
        Ok(HandlerObject { bytes: Arc::default(), program: program.into() })
    }

    /// Instructions of the handler for user space.
    pub(crate) fn program(&self) -> &Arc<[u8]> {
        &self.program
    }
}

/// Checks that a program ends: it jumps forward only, and calls nothing.
fn check(program: &[u8]) -> Result<(), String> {
    let (instructions, rest) = program.as_chunks::<INSTRUCTION>();
    if !rest.is_empty() || instructions.is_empty() || instructions.len() > MOST_INSTRUCTIONS {
        return Err(format!("{} bytes of instructions", program.len()));
    }
    let mut place = 0;
    while let Some([opcode, _, low, high, immediate @ ..]) = instructions.get(place) {
        let offset = i16::from_le_bytes([*low, *high]);
        // Instructions of version 4 differ from those before by their offset, which the interpreter does not know.
        if [ALU, ALU64].contains(&(opcode & CLASS)) && offset != 0 {
            return Err("the handler has instructions of version 4 (build it with -mcpu=v3)".to_owned());
        }
        let is_jump = [JUMP, JUMP32].contains(&(opcode & CLASS));
        match opcode & OPERATION {
            CALL if is_jump => return Err("the handler calls a function".to_owned()),
            EXIT => {}
            // A jump of JUMP32 without condition has its distance in the constant.
            ALWAYS if opcode & CLASS == JUMP32 && i32::from_le_bytes(*immediate) < 0 => {
                return Err(LOOP.to_owned());
            }
            _ if is_jump && offset < 0 => return Err(LOOP.to_owned()),
            _ => {}
        }
        place += if *opcode == LOAD_CONSTANT { 2 } else { 1 };
    }
    Ok(())
}

const LOOP: &str = "the handler has a loop (write #pragma unroll)";

#[cfg(test)]
mod tests {
    use super::*;

    /// An instruction: opcode, registers, offset, constant.
    fn instruction(opcode: u8, offset: i16, constant: i32) -> Vec<u8> {
        let mut bytes = vec![opcode, 0];
        bytes.extend(offset.to_le_bytes());
        bytes.extend(constant.to_le_bytes());
        bytes
    }

    /// Promise: A handler in user space cannot run for ever: objects with loops or calls are refused.
    #[test]
    fn programs_that_may_not_end_are_refused() {
        let exit = instruction(0x95, 0, 0);
        assert_eq!(check(&exit), Ok(()));
        assert_eq!(check(&[instruction(0x55, 0, 1), exit.clone()].concat()), Ok(()));
        for (opcode, offset, constant) in [(0x55, -1, 1), (0x05, -2, 0), (0x56, -1, 0), (0x06, 0, -1)] {
            let program = [instruction(opcode, offset, constant), exit.clone()].concat();
            assert_eq!(check(&program), Err(LOOP.to_owned()), "{opcode:#x}");
        }
        let call = [instruction(0x85, 0, 1), exit.clone()].concat();
        assert!(check(&call).unwrap_err().contains("calls"));
        // The second half of a constant is no instruction.
        let constant = [instruction(LOAD_CONSTANT, 0, 5), instruction(0x05, -1, 0), exit].concat();
        assert_eq!(check(&constant), Ok(()));
        assert!(check(&instruction(0xbf, 8, 0)).unwrap_err().contains("version 4"));
        assert!(check(&[]).is_err() && check(&[0x95; 7]).is_err());
        assert!(check(&[0; INSTRUCTION * (MOST_INSTRUCTIONS + 1)]).is_err());
    }

    /// Promise: Files that are no objects with a handler are refused with the reason.
    #[test]
    fn other_files_are_refused() {
        assert!(HandlerObject::parse(Vec::new()).unwrap_err().contains("no object file"));
        assert!(HandlerObject::parse(b"#!/bin/sh".to_vec()).unwrap_err().contains("no object file"));
        let own = std::fs::read("/proc/self/exe").unwrap();
        let error = HandlerObject::parse(own[..own.len().min(1 << 20)].to_vec()).unwrap_err();
        assert!(error.contains("another processor") || error.contains("no object"), "{error}");
        let missing = HandlerObject::from_file(Path::new("/nowhere/a.bpf.o")).unwrap_err().to_string();
        assert!(missing.starts_with("cannot read /nowhere/a.bpf.o: "), "{missing}");
    }
}
