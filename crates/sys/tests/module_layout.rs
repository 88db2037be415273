//! The kernel module's structures and numbers are the same in Rust and in its header: a C compiler says so.

use std::fmt::Write;
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use wirepath_sys::module::layout::{NUMBERS, STRUCTURES};

/// Where the header is.
const UAPI: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernel/module/uapi");

fn main() -> ExitCode {
    let test = Trial::ignorable_test(
        "structures_and_numbers_are_those_of_the_header",
        structures_and_numbers_are_those_of_the_header,
    );
    libtest_mimic::run(&Arguments::from_args(), vec![test]).exit_code()
}

fn structures_and_numbers_are_those_of_the_header() -> Result<Completion, Failed> {
    if Command::new("cc").arg("--version").output().is_err() {
        let reason = "there is no C compiler (cc)";
        println!("SKIP structures_and_numbers_are_those_of_the_header: {reason}");
        return Ok(Completion::ignored_with(reason));
    }
    let (in_c, in_rust) = (said_by_c()?, said_by_rust()?);
    let differing = in_c.lines().zip(in_rust.lines()).find(|(c, rust)| c != rust);
    match differing {
        Some((c, rust)) => Err(format!("the header says {c:?}, layout.rs says {rust:?}").into()),
        None if in_c.lines().count() != in_rust.lines().count() => Err("not as many lines".into()),
        None => no_gaps().map(|()| Completion::Completed),
    }
}

/// A structure with a gap could hide a field that only C has.
fn no_gaps() -> Result<(), Failed> {
    for (name, size, fields) in STRUCTURES {
        let mut end = 0;
        for field in *fields {
            if field.offset != end {
                return Err(format!("struct {name} has a gap before {}", field.name).into());
            }
            end += field.size;
        }
        if end != *size {
            return Err(format!("struct {name} has a gap at its end").into());
        }
    }
    Ok(())
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

fn said_by_c() -> Result<String, Failed> {
    let folder = tempfile::tempdir()?;
    let (source, program) = (folder.path().join("layout.c"), folder.path().join("layout"));
    std::fs::write(&source, program_text()?)?;
    let flags = ["-std=gnu11", "-Wall", "-Wextra", "-Wno-type-limits", "-Werror", "-I", UAPI];
    let compiled = Command::new("cc").args(flags).arg(&source).arg("-o").arg(&program).output()?;
    if !compiled.status.success() {
        return Err(format!("cc: {}", String::from_utf8_lossy(&compiled.stderr)).into());
    }
    Ok(String::from_utf8(Command::new(&program).output()?.stdout)?)
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
