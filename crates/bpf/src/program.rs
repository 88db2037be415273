//! Object files of handlers, and the program in them that user space runs.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use aya::Ebpf;
use object::{Object, ObjectSection};

use crate::error::BpfError;
use crate::instructions::Program;

/// Longest object file.
const LONGEST_FILE: u64 = 1 << 20;

/// Section of the program for user space (`kernel/bpf/wirepath.bpf.h`).
const SECTION: &str = "socket";

/// Object file with a handler.
#[derive(Clone, Debug)]
pub struct HandlerObject {
    bytes: Arc<[u8]>,
    program: Program,
}

impl HandlerObject {
    /// Reads an object file.
    ///
    /// # Errors
    /// A file that cannot be read, is longer than 1 MiB, or has no handler; a handler with a loop or a call.
    pub fn from_file(path: &Path) -> Result<HandlerObject, BpfError> {
        let file = File::open(path).map_err(|error| BpfError::File(path.to_owned(), error))?;
        HandlerObject::read(file, path)
    }

    /// Reads an open object file. Errors call it by this path.
    ///
    /// # Errors
    /// Those of [`HandlerObject::from_file`].
    pub fn read(file: impl Read, path: &Path) -> Result<HandlerObject, BpfError> {
        let mut bytes = Vec::new();
        let read = file.take(LONGEST_FILE + 1).read_to_end(&mut bytes);
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
        let program = Program::read(program)?;
        Ok(HandlerObject { bytes: bytes.into(), program })
    }

    /// Handler of these instructions, for user space alone: the kernel has no program of it.
    ///
    /// # Errors
    /// The reason why they are not those of a handler.
    pub fn from_instructions(instructions: &[u8]) -> Result<HandlerObject, String> {
        Ok(HandlerObject { bytes: Arc::default(), program: Program::read(instructions)? })
    }

    /// Has the kernel make its maps.
    pub(crate) fn load(&self) -> Result<Ebpf, BpfError> {
        Ebpf::load(&self.bytes).map_err(|error| BpfError::kernel("loading the object", error))
    }

    /// Instructions of the handler for user space.
    pub(crate) fn program(&self) -> &Program {
        &self.program
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: Files that are not objects with a handler are refused with the reason.
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
