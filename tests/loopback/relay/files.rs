//! Files that `wirepath relay` makes, leaves alone and goes on with.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use wirepath_tests::process::Process;
use wirepath_tests::{Deadline, trials};

use super::{at, random_bytes, relay, run};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_file_that_exists_is_left_as_it_is,
        a_file_that_nothing_was_written_to_is_not_left,
        files_of_a_shell_keep_their_place,
        a_report_replaces_nothing_that_the_run_uses,
        a_file_takes_what_comes_at_once,
    ]
}

/// Promise: Errors name wrong addresses and words and list the valid ones; an existing file is not
/// overwritten.
fn a_file_that_exists_is_left_as_it_is() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path: PathBuf = folder.path().join("target");
    std::fs::write(&path, "before ")?;
    let to = |option: &str| {
        run(&["--in", "-", "--out", &at(folder.path(), "file", &format!("target{option}"))], b"after")
    };
    let refused = to("")?;
    ensure!(refused.status.code() == Some(1), "{refused:?}");
    ensure!(String::from_utf8(refused.stderr)?.contains("file exists; add ?append or ?overwrite"));
    ensure!(std::fs::read(&path)? == b"before ");
    ensure!(to("?append")?.status.success() && std::fs::read(&path)? == b"before after");
    ensure!(to("?overwrite")?.status.success() && std::fs::read(&path)? == b"after");
    let target = at(folder.path(), "file", "target?overwrite");
    let missing = run(&["--in", "file:/does/not/exist", "--out", &target], b"")?;
    ensure!(!missing.status.success() && std::fs::read(&path)? == b"after", "overwritten for nothing");
    // A file is opened behind a connection, wherever it stands.
    let nowhere = at(folder.path(), "unix", "nowhere");
    let missing = run(&["--in", "-", "--out", &target, "--out", &nowhere], b"")?;
    ensure!(!missing.status.success() && std::fs::read(&path)? == b"after", "overwritten for nothing");
    let itself = run(&["--in", &at(folder.path(), "file", "target"), "--out", &target], b"")?;
    ensure!(
        String::from_utf8(itself.stderr)?.contains("is the same file as")
            && std::fs::read(&path)? == b"after"
    );
    Ok(())
}

/// Promise: An empty output file that a relay created is removed if the relay is stopped or fails.
///
/// The next start would be refused for it.
fn a_file_that_nothing_was_written_to_is_not_left() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("target");
    let (inlet, target) = (at(folder.path(), "unix", "inlet?listen"), at(folder.path(), "file", "target"));
    let nothing = || run(&["--in", "-", "--out", &target], b"");

    // Nobody connects, or somebody does and sends nothing. The file is there meanwhile.
    for connects in [false, true] {
        let mut waiting = Process::start(&relay(&["--in", &inlet, "--out", &target])?, true)?;
        Deadline::seconds(10.0).wait_for("a line that says where it waits", || {
            Ok(waiting.log().contains("waiting for a connection").then_some(()))
        })?;
        ensure!(path.exists(), "no file: {}", waiting.log());
        let _client = connects.then(|| UnixStream::connect(folder.path().join("inlet"))).transpose()?;
        waiting.signal(Signal::INT)?;
        let status = waiting.wait(Deadline::seconds(10.0))?;
        ensure!(status.code() == Some(130) && !path.exists(), "{status}: {}", waiting.log());
    }

    // Another output, or the beginning of the stream, fails.
    let taken = at(folder.path(), "file", "taken");
    std::fs::write(folder.path().join("taken"), "")?;
    let missing = at(folder.path(), "unix", "missing");
    for more in [["--out", &taken], ["--out", &missing], ["--framing", "ts"]] {
        let failed = run(&[&["--in", "-", "--out", &target], &more[..]].concat(), &[0x78; 1000])?;
        ensure!(failed.status.code() == Some(1) && !path.exists(), "{more:?}: {failed:?}");
    }
    ensure!(std::fs::read(folder.path().join("taken"))?.is_empty(), "what was there stays");

    // An input that ends well with no bytes is a file with no bytes.
    ensure!(nothing()?.status.success() && std::fs::read(&path)?.is_empty());
    ensure!(nothing()?.status.code() == Some(1) && path.exists(), "the file of before");
    Ok(())
}

/// Promise: Standard input and output that are files keep their position for the next process.
///
/// As `{ echo first; read line; relay; echo last; } < source > target`: each goes on where the one before it
/// was.
fn files_of_a_shell_keep_their_place() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let bytes = random_bytes(3_000_000);
    std::fs::write(folder.path().join("source"), &bytes)?;
    for framing in ["whole", "fixed:1000"] {
        let mut source = File::open(folder.path().join("source"))?;
        let mut target = File::create(folder.path().join("target"))?;
        source.seek(SeekFrom::Start(1000))?;
        target.write_all(b"first")?;
        let arguments = ["--in", "-", "--out", "-", "--framing", framing];
        let output = relay(&arguments)?.stdin(source.try_clone()?).stdout(target.try_clone()?).output()?;
        ensure!(output.status.success(), "{output:?}");
        target.write_all(b"last")?;
        ensure!(source.stream_position()? == 3_000_000, "{framing}");
        let written = std::fs::read(folder.path().join("target"))?;
        ensure!(
            written == [b"first", &bytes[1000..], b"last"].concat(),
            "{framing}: {} bytes",
            written.len()
        );
    }
    Ok(())
}

/// Promise: A report file cannot overwrite an input, output, key or configuration file of its run.
///
/// It is written at the end, over what has its name.
fn a_report_replaces_nothing_that_the_run_uses() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    let key = random_bytes(32);
    std::fs::write(path("source"), "content")?;
    std::fs::write(path("key"), &key)?;
    let configuration = "[[stream]]\nname = \"a\"\nin = [\"file:source\"]\nout = [\"file:copy\"]\n";
    std::fs::write(path("relay.toml"), configuration)?;
    std::fs::hard_link(path("source"), path("source too"))?;
    std::os::unix::fs::symlink(folder.path(), path("folder"))?;
    let wires = ["--in", "file:source", "--out", "file:copy", "--handler", "seal:key"];
    let standard = ["--in", "-", "--out", "-"];
    let from_file = ["--config", "relay.toml"];
    let checked = ["--config", "relay.toml", "--check"];
    for (arguments, report, user) in [
        (&wires[..], "copy", "the output file:copy"),
        (&wires, "folder/copy", "the output file:copy"),
        (&wires, "source too", "the input file:source"),
        (&wires, "key", "the key key"),
        (&standard, "-", "an output: standard output (-)"),
        (&standard, "source", "the input -"),
        (&standard, "shell", "the output -"),
        (&from_file, "copy", "the output file:copy"),
        (&from_file, "relay.toml", "the configuration file relay.toml"),
        (&checked, "relay.toml", "the configuration file relay.toml"),
    ] {
        let mut command = relay(&[arguments, &["--json", report]].concat())?;
        command
            .current_dir(folder.path())
            .stdin(File::open(path("source"))?)
            .stdout(File::create(path("shell"))?);
        let output = command.stderr(std::process::Stdio::piped()).output()?;
        let said = String::from_utf8(output.stderr)?;
        let expected = format!("--json {report} is also {user}; write the report to another file");
        ensure!(output.status.code() == Some(1) && said.contains(&expected), "{arguments:?}: {said}");
        ensure!(
            !path("copy").exists() && std::fs::read(path("shell"))?.is_empty(),
            "it did something: {said}"
        );
    }
    ensure!(std::fs::read(path("source"))? == b"content" && std::fs::read(path("key"))? == key);
    ensure!(std::fs::read_to_string(path("relay.toml"))? == configuration);
    // The report of another run is replaced, and of a device each may have a part.
    for _ in 0..2 {
        let mut command =
            relay(&["--in", "file:source", "--out", "file:/dev/null?append", "--json", "report"])?;
        ensure!(command.current_dir(folder.path()).output()?.status.success());
    }
    let nowhere = relay(&["--in", "-", "--out", "-", "--json", "/dev/null"])?
        .stdin(std::process::Stdio::null())
        .output()?;
    ensure!(nowhere.status.success(), "{nowhere:?}");
    Ok(())
}

/// Promise: A file output accepts 16 MiB at once, whatever `--when-full` says.
///
/// Less than may wait for it, so that nothing is lost however slow the disk is.
fn a_file_takes_what_comes_at_once() -> Result<()> {
    for rule in ["drop-oldest", "drop-newest", "disconnect"] {
        let folder = tempfile::tempdir()?;
        let bytes = random_bytes(12_000_000);
        std::fs::write(folder.path().join("source"), &bytes)?;
        let (source, target) = (at(folder.path(), "file", "source"), at(folder.path(), "file", "target"));
        let output =
            run(&["--in", &source, "--out", &target, "--framing", "fixed:1000", "--when-full", rule], b"")?;
        ensure!(output.status.success(), "{rule}: {output:?}");
        ensure!(std::fs::read(folder.path().join("target"))? == bytes, "{rule}: other bytes came");
    }
    Ok(())
}
