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
    ]
}

fn a_file_that_exists_is_left_as_it_is() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path: PathBuf = folder.path().join("target");
    std::fs::write(&path, "before ")?;
    let to = |option: &str| {
        run(&["--in", "-", "--out", &at(folder.path(), "file", &format!("target{option}"))], b"after")
    };
    let refused = to("")?;
    ensure!(refused.status.code() == Some(1), "{refused:?}");
    ensure!(String::from_utf8(refused.stderr)?.contains("it exists; add ?append or ?overwrite"));
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

/// As `{ echo first; read line; relay; echo last; } < source > target`: each goes on where the one before it was.
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
