//! Types of the kernel and of a module (BTF, `Documentation/bpf/btf.rst`): as much as attaching a `struct_ops`
//! takes.

/// Kinds of types.
const INT: u32 = 1;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const FUNC_PROTO: u32 = 13;
const VAR: u32 = 14;
const DATASEC: u32 = 15;
const DECL_TAG: u32 = 17;
const ENUM64: u32 = 19;

const MAGIC: u16 = 0xeb9f;

/// Bytes of a type and of a member of a structure.
const TYPE: usize = 12;
const MEMBER: usize = 12;

/// A `struct_ops`: ids of its types, and places in the value that is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StructOps {
    pub(crate) type_id: u32,
    pub(crate) value_type_id: u32,
    pub(crate) value_bytes: usize,
    /// Name and offset of each member; programs are named by their number among these.
    pub(crate) members: Vec<(String, usize)>,
}

impl StructOps {
    /// Finds it by name in the module's types, whose ids and strings go on behind those of the kernel.
    pub(crate) fn find(kernel: &[u8], module: &[u8], name: &str) -> Option<StructOps> {
        let kernel = Types::read(kernel)?;
        let module = Types::read(module)?;
        let types = Split { first_id: kernel.types().count() as u32 + 1, kernel, module };
        let (type_id, ops) = types.structure(name)?;
        let (value_type_id, value) = types.structure(&format!("bpf_struct_ops_{name}"))?;
        let data = types.members(&value).into_iter().find(|(name, _)| name == "data")?.1;
        let members = types.members(&ops).into_iter().map(|(name, at)| (name, data + at)).collect();
        Some(StructOps { type_id, value_type_id, value_bytes: value.size as usize, members })
    }
}

/// A type with its members.
#[derive(Clone, Copy)]
struct Type<'a> {
    name: u32,
    kind: u32,
    size: u32,
    members: &'a [u8],
}

/// Types and strings of one object.
#[derive(Clone, Copy)]
struct Types<'a> {
    types: &'a [u8],
    strings: &'a [u8],
}

struct Split<'a> {
    kernel: Types<'a>,
    module: Types<'a>,
    first_id: u32,
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

impl<'a> Types<'a> {
    fn read(bytes: &'a [u8]) -> Option<Types<'a>> {
        if bytes.get(..2)? != MAGIC.to_ne_bytes() {
            return None;
        }
        let header = number(bytes, 4)? as usize;
        let part = |at: usize| {
            let start = header.checked_add(number(bytes, at)? as usize)?;
            bytes.get(start..start.checked_add(number(bytes, at + 4)? as usize)?)
        };
        Some(Types { types: part(8)?, strings: part(16)? })
    }

    /// All types in order, up to the first that is cut or unknown.
    fn types(self) -> impl Iterator<Item = Type<'a>> {
        let mut rest = self.types;
        std::iter::from_fn(move || {
            let [name, info, size] = [number(rest, 0)?, number(rest, 4)?, number(rest, 8)?];
            let (kind, count) = (info >> 24 & 0x1f, info as usize & 0xffff);
            let more = match kind {
                INT | VAR | DECL_TAG => 4,
                ARRAY => 12,
                STRUCT | UNION | DATASEC | ENUM64 => count * MEMBER,
                ENUM | FUNC_PROTO => count * 8,
                _ => 0,
            };
            let members = rest.get(TYPE..TYPE + more)?;
            rest = &rest[TYPE + more..];
            Some(Type { name, kind, size, members })
        })
    }
}

impl Split<'_> {
    fn string(&self, offset: u32) -> &str {
        let offset = offset as usize;
        let bytes = match offset.checked_sub(self.kernel.strings.len()) {
            Some(offset) => self.module.strings.get(offset..),
            None => self.kernel.strings.get(offset..),
        };
        let bytes = bytes.and_then(|bytes| bytes.split(|byte| *byte == 0).next());
        bytes.and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    fn structure(&self, name: &str) -> Option<(u32, Type<'_>)> {
        let mut types = (self.first_id..).zip(self.module.types());
        types.find(|(_, found)| found.kind == STRUCT && self.string(found.name) == name)
    }

    fn members(&self, of: &Type<'_>) -> Vec<(String, usize)> {
        let members = of.members.chunks_exact(MEMBER);
        let read = |member: &[u8]| {
            let (name, bits) = (number(member, 0)?, number(member, 8)?);
            Some((self.string(name).to_owned(), bits as usize / 8))
        };
        members.filter_map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An object of these types and strings, with a header as of the kernel.
    fn object(types: &[u32], strings: &[u8]) -> Vec<u8> {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        let (types, count) = (words(types), types.len() as u32 * 4);
        bytes.extend(words(&[24, 0, count, count, strings.len() as u32]));
        bytes.extend(types);
        bytes.extend(strings);
        bytes
    }

    /// Promise: The types of the module's handlers are found by name, and truncated objects are refused.
    #[test]
    fn a_struct_ops_is_found_behind_the_kernel_types() {
        // Two types of the kernel: an int and a function of one argument.
        let kernel = object(&[1, INT << 24, 4, 32, 0, FUNC_PROTO << 24 | 1, 1, 0, 1], b"\0int\0");
        let strings = b"ops\0handle\0name\0bpf_struct_ops_ops\0common\0data\0";
        let module = object(
            &[
                5,
                STRUCT << 24 | 2,
                24,
                9,
                1,
                0,
                16,
                1,
                64, // ops: handle, name
                21,
                STRUCT << 24 | 2,
                128,
                40,
                1,
                0,
                47,
                3,
                512, // its value: common, data
            ],
            strings,
        );
        let found = StructOps::find(&kernel, &module, "ops").unwrap();
        assert_eq!((found.type_id, found.value_type_id, found.value_bytes), (3, 4, 128));
        assert_eq!(found.members, [("handle".to_owned(), 64), ("name".to_owned(), 72)]);
        assert_eq!(StructOps::find(&kernel, &module, "other"), None);
        for length in 0..module.len() {
            assert_eq!(StructOps::find(&kernel, &module[..length], "ops"), None, "{length} bytes");
        }
    }
}
