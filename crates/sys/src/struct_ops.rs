//! `struct_ops` programs for a kernel module (Linux 6.9 and newer), by `bpf(2)`.

use std::ffi::{CStr, c_int};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use crate::bpf::{self, Kind, address, bpf, open};

/// Commands, types and flags of `linux/bpf.h`.
const MAP_CREATE: c_int = 0;
const MAP_UPDATE_ELEM: c_int = 2;
const BTF_LOAD: c_int = 18;
const OBJ_GET_INFO_BY_FD: c_int = 15;
const BTF_GET_FD_BY_ID: c_int = 19;
const BTF_GET_NEXT_ID: c_int = 23;
const LINK_CREATE: c_int = 28;
const MAP_TYPE_STRUCT_OPS: u32 = 26;
const PROG_TYPE_STRUCT_OPS: u32 = 27;
const ATTACH_STRUCT_OPS: u32 = 44;
const LINKED: u32 = 1 << 13;
const VALUE_OF_MODULE: u32 = 1 << 15;

/// Types of a module (BTF), as a kernel object.
#[derive(Debug)]
pub struct ModuleTypes(OwnedFd);

/// Program accepted by the verifier.
#[derive(Debug)]
pub struct Program(OwnedFd);

/// Attachment, which ends on drop.
#[derive(Debug)]
pub struct Attached {
    _link: OwnedFd,
}

/// Part of `union bpf_attr` of `BPF_MAP_CREATE`.
#[repr(C)]
#[derive(Default)]
struct Create {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
    unused: [u32; 7],
    own_types: u32,
    unused_ids: [u32; 2],
    value_type_id: u32,
    extra: u64,
    value_types: i32,
    token: i32,
}

/// Part of `union bpf_attr` of `BPF_BTF_LOAD`.
#[repr(C)]
#[derive(Default)]
struct LoadTypes {
    types: u64,
    log: u64,
    bytes: u32,
    log_size: u32,
    log_level: u32,
    unused: u32,
}

/// BTF with a single integer type: header, type and strings.
#[repr(C)]
struct OneInt {
    magic: u16,
    version: u8,
    flags: u8,
    parts: [u32; 5],
    int: [u32; 4],
    strings: [u8; 8],
}

const ONE_INT: OneInt = OneInt {
    magic: 0xeb9f,
    version: 1,
    flags: 0,
    // Length of the header, offset and length of types and of strings.
    parts: [24, 0, 16, 16, 8],
    // Name, kind, bytes, bits.
    int: [1, 1 << 24, 4, 32],
    strings: *b"\0number\0",
};

/// Part of `union bpf_attr` of `BPF_MAP_UPDATE_ELEM`.
#[repr(C)]
#[derive(Default)]
struct Update {
    map: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Part of `union bpf_attr` of `BPF_OBJ_GET_INFO_BY_FD`.
#[repr(C)]
struct Ask {
    object: u32,
    bytes: u32,
    info: u64,
}

/// `struct bpf_btf_info`.
#[repr(C)]
#[derive(Default)]
struct Info {
    types: u64,
    types_bytes: u32,
    id: u32,
    name: u64,
    name_bytes: u32,
    is_of_kernel: u32,
}

impl ModuleTypes {
    /// Types of the module with this name.
    ///
    /// # Errors
    /// `ENOENT` if there are none, `EPERM` without `CAP_SYS_ADMIN`.
    pub fn of(module: &CStr) -> io::Result<ModuleTypes> {
        let mut ids = [0_u32; 4];
        loop {
            // SAFETY: the command reads the first number and writes the second.
            unsafe { bpf(BTF_GET_NEXT_ID, &mut ids)? };
            let mut asked = [ids[1], 0, 0, 0];
            // SAFETY: the command reads a number.
            let types = unsafe { open(BTF_GET_FD_BY_ID, &mut asked)? };
            if name_of(types.as_fd())? == module.to_bytes() {
                return Ok(ModuleTypes(types));
            }
            ids[0] = ids[1];
        }
    }
}

fn name_of(types: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let mut name = vec![0_u8; 64];
    let mut info = Info { name_bytes: name.len() as u32, ..Info::default() };
    info.name = name.as_mut_ptr().expose_provenance() as u64;
    let mut ask = Ask {
        object: types.as_raw_fd() as u32,
        bytes: size_of::<Info>() as u32,
        info: (&raw mut info).expose_provenance() as u64,
    };
    // SAFETY: the kernel writes to the structure and to as many bytes of the name as it says.
    match unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut ask) } {
        // A longer name belongs to another module.
        Err(error) if crate::errno_of(&error) == Errno::NOSPC => return Ok(Vec::new()),
        other => other?,
    };
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    name.truncate(end);
    Ok(name)
}

impl Program {
    /// Loads the program of one `struct_ops` member, by the type's id and the member's index.
    ///
    /// # Errors
    /// Error of the kernel, with the verifier's log.
    pub fn load(
        types: &ModuleTypes,
        type_id: u32,
        member: u32,
        instructions: &[u8],
        license: &CStr,
    ) -> Result<Program, (io::Error, String)> {
        let kind = Kind {
            program_type: PROG_TYPE_STRUCT_OPS,
            expected_attach_type: member,
            attach_type_id: type_id,
            attach_types: types.0.as_raw_fd() as u32,
            ..Kind::default()
        };
        bpf::load(kind, instructions, license).map(Program)
    }

    /// Number by which a value refers to the program.
    pub fn number(&self) -> u32 {
        self.0.as_raw_fd() as u32
    }
}

impl Attached {
    /// Attaches a value of this type, which refers to its programs by number.
    ///
    /// # Errors
    /// Errors of the kernel and of the module, such as `EEXIST`.
    pub fn new(types: &ModuleTypes, type_id: u32, value: &[u8]) -> io::Result<Attached> {
        // A struct_ops map requires types of its creator, of any content.
        let bytes = size_of::<OneInt>() as u32;
        let mut load = LoadTypes { types: address(&ONE_INT), bytes, ..LoadTypes::default() };
        // SAFETY: the kernel reads as many bytes as the types have.
        let own_types = unsafe { open(BTF_LOAD, &mut load)? };
        let mut create = Create {
            kind: MAP_TYPE_STRUCT_OPS,
            key_bytes: 4,
            value_bytes: value.len() as u32,
            entries: 1,
            flags: LINKED | VALUE_OF_MODULE,
            own_types: own_types.as_raw_fd() as u32,
            value_type_id: type_id,
            value_types: types.0.as_raw_fd(),
            ..Create::default()
        };
        // SAFETY: the command reads the attribute only.
        let map = unsafe { open(MAP_CREATE, &mut create)? };
        let key = 0_u32;
        let mut update = Update {
            map: map.as_raw_fd() as u32,
            key: address(&key),
            value: address(value),
            ..Update::default()
        };
        // SAFETY: the kernel reads a key of four bytes and a value of as many as the map was made for.
        unsafe { bpf(MAP_UPDATE_ELEM, &mut update)? };
        let mut link = [map.as_raw_fd() as u32, 0, ATTACH_STRUCT_OPS, 0];
        // SAFETY: the command reads the attribute only.
        Ok(Attached { _link: unsafe { open(LINK_CREATE, &mut link)? } })
    }
}
