//! Equality of the kernel module's structures and numbers in Rust and in its header, checked by a C compiler.

#![expect(clippy::unwrap_used, reason = "tests stop where they cannot go on")]

use std::fmt::Write;
use std::process::{Command, ExitCode};

use wirepath_sys::module::layout::{NUMBERS, STRUCTURES};
use wirepath_testkit::{trial, trials};

/// Path of the header.
const UAPI: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernel/module/uapi");

fn main() -> ExitCode {
    let compiler = Command::new("cc").arg("--version").output();
    let missing = compiler.err().map(|_| "there is no C compiler (cc)".to_owned());
    trial::run_needing(
        missing,
        trials![structures_and_numbers_are_those_of_the_header, structures_have_no_gaps_for_what_only_c_has],
    )
}

/// Promise: Rust structures and constants equal those of the module's C header.
fn structures_and_numbers_are_those_of_the_header() {
    let (in_c, in_rust) = (said_by_c(), said_by_rust().unwrap());
    for (c, rust) in in_c.lines().zip(in_rust.lines()) {
        assert_eq!(c, rust, "the header, and layout.rs");
    }
    assert_eq!(in_c.lines().count(), in_rust.lines().count());
}

fn structures_have_no_gaps_for_what_only_c_has() {
    for (name, size, fields) in STRUCTURES {
        let mut end = 0;
        for field in *fields {
            assert_eq!(field.offset, end, "a gap of struct {name} before {}", field.name);
            end += field.size;
        }
        assert_eq!(end, *size, "a gap at the end of struct {name}");
    }
}

fn said_by_rust() -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    for (name, size, fields) in STRUCTURES {
        writeln!(text, "{name} {size}")?;
        for field in *fields {
            let signed = u8::from(field.is_signed);
            writeln!(text, "{name}.{} {} {} {signed}", field.name, field.offset, field.size)?;
        }
    }
    for (name, value) in NUMBERS {
        writeln!(text, "{name} {value}")?;
    }
    Ok(text)
}

fn said_by_c() -> String {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("layout.c"), folder.path().join("layout"));
    std::fs::write(&source, program_text().unwrap()).unwrap();
    let flags = ["-std=gnu11", "-Wall", "-Wextra", "-Wno-type-limits", "-Werror", "-I", UAPI];
    let compiled = Command::new("cc").args(flags).arg(&source).arg("-o").arg(&program).output().unwrap();
    assert!(compiled.status.success(), "cc: {}", String::from_utf8_lossy(&compiled.stderr));
    String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap()
}

fn program_text() -> Result<String, std::fmt::Error> {
    let mut text = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include \"wirepath.h\"\n#include \"wirepath_calls.h\"\nint main(void)\n{\n",
    );
    for (name, _, fields) in STRUCTURES {
        writeln!(text, "printf(\"{name} %zu\\n\", sizeof(struct {name}));")?;
        for field in *fields {
            let field = field.name;
            let place = format!("((struct {name} *)0)->{field}");
            writeln!(text, "printf(\"{name}.{field} %zu %zu %d\\n\", offsetof(struct {name}, {field}),")?;
            writeln!(text, "sizeof({place}), (__typeof__({place}))-1 < 0);")?;
        }
    }
    for (name, _) in NUMBERS {
        writeln!(text, "printf(\"{name} %llu\\n\", (unsigned long long)({name}));")?;
    }
    text.push_str("return 0;\n}\n");
    Ok(text)
}
