//! Handlers of paced runs of the kernel module: programs of its `struct_ops` `wp_handler_ops`
//! (`kernel/bpf/wirepath_paced.bpf.h`).

use std::fs::File;
use std::io::Read;
use std::path::Path;

use object::{Object, ObjectSection};
use wirepath_sys::struct_ops::{Attached, ModuleTypes, Program};

use crate::error::BpfError;
use crate::types::StructOps;

/// Section of the program, the member that it becomes, and the member with the handler's name.
const SECTION: &str = "struct_ops/handle";
const HANDLE: &str = "handle";
const NAME: &str = "name";

/// The type, and the module that has it.
const OPS: &str = "wp_handler_ops";
const MODULE: &str = "wirepath";

/// Bytes of a name (`WIREPATH_HANDLER_NAME_BYTES`), with the zero at its end.
const NAME_BYTES: usize = 16;

/// Longest object file.
const LONGEST_FILE: u64 = 1 << 20;

/// Instructions of a handler of paced runs.
#[derive(Clone, Debug)]
pub struct PacedObject {
    instructions: Vec<u8>,
}

/// Handler that paced runs can name; it is detached when this is dropped, and runs that use it end.
#[derive(Debug)]
pub struct PacedHandler {
    _attached: Attached,
    name: String,
}

impl PacedObject {
    /// Reads an object file.
    ///
    /// # Errors
    /// A file that cannot be read, is longer than 1 MiB, or has no handler of paced runs.
    pub fn from_file(path: &Path) -> Result<PacedObject, BpfError> {
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|file| file.take(LONGEST_FILE + 1).read_to_end(&mut bytes));
        read.map_err(|error| BpfError::File(path.to_owned(), error))?;
        PacedObject::parse(&bytes).map_err(|why| BpfError::Paced(path.to_owned(), why))
    }

    /// Reads the bytes of an object file.
    ///
    /// # Errors
    /// The reason why there is no such handler in it.
    pub fn parse(bytes: &[u8]) -> Result<PacedObject, String> {
        if bytes.len() as u64 > LONGEST_FILE {
            return Err(format!("it is longer than {LONGEST_FILE} bytes"));
        }
        let file = object::File::parse(bytes).map_err(|error| format!("it is no object file: {error}"))?;
        if file.architecture() != object::Architecture::Bpf {
            return Err("it is for another processor than eBPF".to_owned());
        }
        let section = file.section_by_name(SECTION).ok_or_else(|| format!("it has no section {SECTION}"))?;
        if section.relocations().next().is_some() {
            return Err("the handler uses global data, a map or another function".to_owned());
        }
        let instructions = section.data().map_err(|error| format!("its section {SECTION}: {error}"))?;
        if instructions.is_empty() || instructions.len() % 8 != 0 {
            return Err(format!("{} bytes of instructions", instructions.len()));
        }
        Ok(PacedObject { instructions: instructions.to_owned() })
    }
}

impl PacedHandler {
    /// Has the kernel check the handler, and attaches it under a name, by which runs ask for it.
    ///
    /// # Errors
    /// A kernel or module without handlers (Linux before 6.12, a module built without BTF), missing rights
    /// (`CAP_BPF`, `CAP_PERFMON` and `CAP_SYS_ADMIN`), what the verifier refuses, or a name that is taken.
    pub fn attach(object: &PacedObject, name: &str) -> Result<PacedHandler, BpfError> {
        if name.is_empty() || name.len() >= NAME_BYTES || name.contains('\0') {
            return Err(BpfError::Kernel(format!(
                "invalid name {name:?}: expected 1 to {} bytes",
                NAME_BYTES - 1
            )));
        }
        let ops = struct_ops()?;
        let types =
            ModuleTypes::of(c"wirepath").map_err(|error| failed("finding the module's types", error))?;
        let place = |name| ops.members.iter().position(|(member, _)| member == name);
        let (Some(handle), Some(named)) = (place(HANDLE), place(NAME)) else {
            return Err(BpfError::Kernel(format!("{OPS} of this module has other members")));
        };
        let program =
            Program::load(&types, ops.type_id, handle as u32, &object.instructions, c"Dual MIT/GPL")
                .map_err(|(error, log)| {
                    // The verifier ends with what it objects to and a count of its work.
                    let why =
                        log.lines().rev().find(|line| !line.starts_with("processed ")).unwrap_or_default();
                    BpfError::Kernel(format!("the kernel refuses the handler: {error}: {why}"))
                })?;
        let mut value = vec![0; ops.value_bytes];
        for (at, bytes) in [
            (ops.members[handle].1, &program.number().to_ne_bytes()[..]),
            (ops.members[named].1, name.as_bytes()),
        ] {
            let room = value.get_mut(at..at + bytes.len());
            room.ok_or_else(|| BpfError::Kernel(format!("{OPS} of this module is shorter")))?
                .copy_from_slice(bytes);
        }
        let attached = Attached::new(&types, ops.value_type_id, &value)
            .map_err(|error| failed(&format!("attaching the handler as {name}"), error))?;
        Ok(PacedHandler { _attached: attached, name: name.to_owned() })
    }

    /// Name by which runs ask for it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn failed(doing: &str, error: std::io::Error) -> BpfError {
    BpfError::kernel(doing, error)
}

fn struct_ops() -> Result<StructOps, BpfError> {
    let read = |name: &str| std::fs::read(Path::new("/sys/kernel/btf").join(name));
    let (Ok(kernel), Ok(module)) = (read("vmlinux"), read(MODULE)) else {
        let why =
            "the kernel module is not loaded, or was built without BTF (pahole and the kernel's vmlinux)";
        return Err(BpfError::Kernel(why.to_owned()));
    };
    StructOps::find(&kernel, &module, OPS).ok_or_else(|| {
        BpfError::Kernel("the kernel module has no handlers here: they need Linux 6.12".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: Files that are not objects with a handler are refused with the reason.
    #[test]
    fn other_files_are_refused() {
        assert!(PacedObject::parse(b"#!/bin/sh").unwrap_err().contains("no object file"));
        let missing = PacedObject::from_file(Path::new("/nowhere/a.bpf.o")).unwrap_err().to_string();
        assert!(missing.starts_with("cannot read /nowhere/a.bpf.o: "), "{missing}");
    }

    #[test]
    fn names_have_a_length() {
        let object = PacedObject { instructions: vec![0; 8] };
        for name in ["", "sixteen letters!", "zero\0"] {
            let error = PacedHandler::attach(&object, name).unwrap_err().to_string();
            assert!(error.starts_with("invalid name"), "{error}");
        }
    }
}
