//! The library as a program in C has it: compiled by the host's compiler with all its warnings.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use anyhow::{Context, Result, ensure};
use wirepath_testkit::{trial, trials};

/// This package's folder.
const HERE: &str = env!("CARGO_MANIFEST_DIR");

fn main() -> ExitCode {
    let compiler = Command::new("cc").arg("--version").output();
    let missing = compiler.err().map(|_| "there is no C compiler (cc)".to_owned());
    trial::run_needing(
        missing,
        trials![
            the_example_merges_and_mirrors,
            the_installed_library_is_found_by_pkg_config,
            the_static_library_is_linked_by_pkg_config,
            wrong_arguments_and_handlers_are_answered,
            the_static_library_does_the_same,
            the_header_is_c_plus_plus,
            functions_are_those_of_the_header
        ],
    )
}

/// Promise: A C program merges two inputs, reads each record in a callback, and mirrors it to two outputs.
fn the_example_merges_and_mirrors() -> Result<()> {
    let folder = Folder::new()?;
    let program = folder.compile("examples/merge.c", &Folder::SHARED)?;
    let line =
        |name: &str, number: u32| format!("{}{name} {number}\n", if number % 7 == 3 { "#" } else { "" });
    let text = |name: &str| (0..20_000).map(|number| line(name, number)).collect::<String>();
    let names = ["first", "second", "copy", "other-copy"].map(|name| folder.path(name));
    for name in &names[..2] {
        let stem = name.file_name().context("a file has a name")?.to_string_lossy();
        std::fs::write(name, text(&stem))?;
    }
    let output = run(Command::new(program).args(&names).env("LD_LIBRARY_PATH", folder.path("")))?;
    // A line from each in turn, and comments do not take part.
    let merged: String =
        (0..20_000).flat_map(|number| [line("first", number), line("second", number)]).collect();
    let expected: String = merged.split_inclusive('\n').filter(|line| !line.starts_with('#')).collect();
    for name in &names[2..] {
        ensure!(std::fs::read_to_string(name)? == expected, "{} has other bytes", name.display());
    }
    let dropped = merged.lines().filter(|line| line.starts_with('#')).count();
    let said = format!("{} lines passed, {dropped} dropped; {} bytes in\n", 40_000 - dropped, merged.len());
    ensure!(output.stdout == said.as_bytes(), "{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

/// Promise: `make install` installs the header and the library so that pkg-config finds them.
fn the_installed_library_is_found_by_pkg_config() -> Result<()> {
    let folder = Folder::new()?;
    let prefix = install(&folder)?;
    let flags = flags(&prefix, &["--cflags", "--libs"])?;
    let program = folder.compile_with("installed", &flags)?;
    let output = Command::new(program).env("LD_LIBRARY_PATH", prefix.join("lib")).output()?;
    ensure!(output.status.code() == Some(64) && output.stderr.starts_with(b"usage"), "{output:?}");
    Ok(())
}

/// Promise: `pkg-config --static` names all that a C program with the static library needs.
fn the_static_library_is_linked_by_pkg_config() -> Result<()> {
    let folder = Folder::new()?;
    let prefix = install(&folder)?;
    let reader = Command::new("readelf").arg("--version").output();
    wirepath_testkit::require!(reader.is_ok(), "there is no readelf");
    let place = run(Command::new("cc").arg("-print-file-name=libc.a"))?;
    // Of a file that it does not find, the compiler prints the bare name.
    wirepath_testkit::require!(place.stdout.starts_with(b"/"), "there is no static C library");
    let flags = flags(&prefix, &["--static", "--cflags", "--libs"])?;
    let mixed = flags.iter().map(|flag| flag.replace("-lwirepath", "-l:libwirepath.a")).collect::<Vec<_>>();
    let whole = [&["-static".to_owned()][..], &flags[..]].concat();
    for (name, flags) in [("mixed", mixed), ("whole", whole)] {
        let program = folder.compile_with(name, &flags)?;
        let needed = run(Command::new("readelf").arg("-d").arg(&program))?;
        let needed = String::from_utf8(needed.stdout)?;
        ensure!(
            !needed.contains("libwirepath") && needed.contains("NEEDED") == (name == "mixed"),
            "{needed}"
        );
        let output = Command::new(program).output()?;
        ensure!(output.status.code() == Some(64) && output.stderr.starts_with(b"usage"), "{output:?}");
    }
    Ok(())
}

/// Installs the library in a folder, and returns the prefix.
fn install(folder: &Folder) -> Result<PathBuf> {
    let finder = Command::new("pkg-config").arg("--version").output();
    wirepath_testkit::require!(finder.is_ok(), "there is no pkg-config");
    wirepath_testkit::require!(Command::new("make").arg("--version").output().is_ok(), "there is no make");
    let prefix = folder.path("usr");
    let library = built("libwirepath.so")?;
    let mut make = Command::new("make");
    make.args(["-C", "../..", "--no-print-directory", "install-library"]).current_dir(HERE);
    make.arg(format!("LIBRARIES={}", library.parent().context("a library is in a folder")?.display()));
    run(make.arg(format!("PREFIX={}", prefix.display())))?;
    Ok(prefix)
}

/// Flags that pkg-config prints for the library that is installed at a prefix.
fn flags(prefix: &Path, options: &[&str]) -> Result<Vec<String>> {
    let mut finder = Command::new("pkg-config");
    finder.args(options).arg("wirepath").env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let flags = String::from_utf8(run(&mut finder)?.stdout)?;
    Ok(flags.split_whitespace().map(str::to_owned).collect())
}

/// Promise: Wrong arguments and failing handlers in C give an error code and a reason.
///
/// Promise: A C handler that never returns blocks only its own stream, if the stream has its own thread.
///
/// Promise: C programs detach inputs and outputs, and change handlers and options, while a stream runs.
fn wrong_arguments_and_handlers_are_answered() -> Result<()> {
    let folder = Folder::new()?;
    let program = folder.compile("tests/interface.c", &Folder::SHARED)?;
    run(Command::new(program).env("LD_LIBRARY_PATH", folder.path("")))?;
    Ok(())
}

fn the_static_library_does_the_same() -> Result<()> {
    let folder = Folder::new()?;
    let program = folder.compile("tests/interface.c", &Folder::STATIC)?;
    run(&mut Command::new(program))?;
    Ok(())
}

fn the_header_is_c_plus_plus() -> Result<()> {
    let folder = Folder::new()?;
    let source = folder.path("header.cc");
    std::fs::write(&source, "#include <wirepath.h>\nint main() { return wp_version() == nullptr; }\n")?;
    let mut compiler = Command::new("cc");
    compiler.args(["-x", "c++", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I"]);
    let compiled = compiler.arg(Path::new(HERE).join("include")).arg(source).output()?;
    let without = String::from_utf8_lossy(&compiled.stderr).contains("cc1plus");
    wirepath_testkit::require!(!without, "there is no C++ compiler");
    succeeded(compiled)?;
    Ok(())
}

/// The library defines what the header declares, and neither has anything else.
fn functions_are_those_of_the_header() -> Result<()> {
    let header = std::fs::read_to_string(Path::new(HERE).join("include/wirepath.h"))?;
    let words =
        header.split(|character: char| !character.is_ascii_alphanumeric() && !"_(".contains(character));
    let mut declared = BTreeSet::new();
    for word in words {
        if let Some((name, _)) = word.split_once('(').filter(|(name, _)| name.starts_with("wp_")) {
            declared.insert(name.to_owned());
        }
    }
    let symbols = run(Command::new("nm").args(["-D", "--defined-only"]).arg(built("libwirepath.so")?))?;
    let symbols = String::from_utf8(symbols.stdout)?;
    let defined = symbols.lines().filter_map(|line| line.split(' ').next_back());
    let defined: BTreeSet<String> =
        defined.filter(|name| name.starts_with("wp_")).map(str::to_owned).collect();
    ensure!(declared == defined, "declared {declared:?}, defined {defined:?}");
    Ok(())
}

/// A folder with a compiled program, and the library as it is installed.
struct Folder(tempfile::TempDir);

impl Folder {
    const SHARED: [&'static str; 1] = ["-lwirepath"];
    /// The static library, and the system libraries that it needs: `pkg-config --static` says the same.
    const STATIC: [&'static str; 5] = ["-l:libwirepath.a", "-lutil", "-lpthread", "-lm", "-ldl"];

    fn new() -> Result<Folder> {
        let folder = Folder(tempfile::tempdir()?);
        for name in ["libwirepath.so", "libwirepath.so.0"] {
            symlink(built("libwirepath.so")?, folder.path(name))?;
        }
        symlink(built("libwirepath.a")?, folder.path("libwirepath.a"))?;
        Ok(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Compiles the example with these flags.
    fn compile_with(&self, name: &str, flags: &[String]) -> Result<PathBuf> {
        let program = self.path(name);
        let mut compiler = Command::new("cc");
        compiler.arg("-o").arg(&program).arg(Path::new(HERE).join("examples/merge.c")).args(flags);
        run(&mut compiler)?;
        Ok(program)
    }

    fn compile(&self, source: &str, libraries: &[&str]) -> Result<PathBuf> {
        let program = self.path("program");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror"]);
        compiler.arg(format!("-DVERSION=\"{}\"", env!("CARGO_PKG_VERSION")));
        compiler.arg("-I").arg(Path::new(HERE).join("include")).arg("-o").arg(&program);
        compiler.arg(Path::new(HERE).join(source)).arg("-L").arg(self.path("")).args(libraries);
        run(&mut compiler)?;
        Ok(program)
    }
}

/// A library that cargo built for this test: beside its folder.
fn built(name: &str) -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program.parent().context("a program is in a folder")?;
    let places = [folder.join(name), folder.with_file_name(name)];
    places.into_iter().find(|path| path.exists()).with_context(|| format!("{name} was not built"))
}

fn run(command: &mut Command) -> Result<Output> {
    let output = command.output().with_context(|| format!("{:?}", command.get_program()))?;
    succeeded(output).with_context(|| format!("{:?}", command.get_program()))
}

fn succeeded(output: Output) -> Result<Output> {
    ensure!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    Ok(output)
}
