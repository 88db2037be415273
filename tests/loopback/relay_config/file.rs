//! The configuration file: what is wrong in it, what it is checked for, and a stream of the command line
//! beside it.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::{server, trials};

use super::{COPY, Folder};

pub(super) fn trials() -> Vec<Trial> {
    trials![
        wrong_files_are_named_with_their_line,
        a_file_is_checked_and_nothing_is_opened,
        keys_are_checked_with_the_file_that_names_them,
        a_stream_of_the_command_line_has_a_class_of_the_file,
    ]
}

/// Promise: An invalid configuration file is refused with the line, before anything is opened.
fn wrong_files_are_named_with_their_line() -> Result<()> {
    for (configuration, said) in [
        ("[[class]]\nname = \"a\"\n".to_owned(), "relay.toml has no [[stream]]"),
        (
            format!("{COPY}frame = \"ts\"\n"),
            "relay.toml, line 5: unknown key `frame`: did you mean `framing`?",
        ),
        (format!("{COPY}class = \"live\"\n"), "relay.toml, line 5: unknown class live; declare it"),
        (
            format!("{COPY}rate = \"100M/s\"\n"),
            "relay.toml, line 5: invalid rate 100M/s: expected bits such as",
        ),
        (format!("{COPY}{COPY}"), "relay.toml, line 6: duplicate stream name copy"),
        (format!("{COPY}order ="), "relay.toml, line 5: "),
        (
            format!("{COPY}handlers = \"meter\"\n"),
            "relay.toml, line 5: handlers: expected a list: write handlers = [\"meter\"]",
        ),
        (
            format!("{COPY}[[stream]]\nname = \"b\"\n"),
            "relay.toml, line 5: missing key in; a [[stream]] needs",
        ),
        (
            "[[class]]\nname = \"a\"\npriority = 300\n".to_owned(),
            "relay.toml, line 3: priority is 300: expected a whole number from 0 to 255",
        ),
        ("[stream]\nname = \"b\"\n".to_owned(), "relay.toml, line 1: expected a list: write [[stream]]"),
    ] {
        let folder = Folder::new(&configuration)?;
        std::fs::write(folder.path("source"), "bytes")?;
        for arguments in [&["--check"][..], &[]] {
            let output = folder.output(arguments)?;
            let error = String::from_utf8(output.stderr)?;
            ensure!(output.status.code() == Some(1) && error.contains(said), "{configuration}: {error}");
            ensure!(
                output.stdout.is_empty() && !folder.path("target").exists(),
                "it did something: {configuration}"
            );
        }
    }
    let missing = Command::new(server::binary()?).args(["relay", "--config", "/does/not/exist"]).output()?;
    let error = String::from_utf8(missing.stderr)?;
    ensure!(error.contains("cannot read the configuration file /does/not/exist: No such file"), "{error}");
    for (arguments, said) in [
        (&["--check"][..], "not provided:\n  --config <FILE>\n"),
        (&["--check", "--in", "-", "--out", "-"], "not provided:\n  --config <FILE>\n"),
        (&["--framing", "ts", "--config", "/dev/null"], "--in <ADDRESS>"),
        (
            &["--threads", "2", "--in", "-", "--out", "-"],
            "error: --threads needs --config, --to or --cache: one stream (--in, --out) runs on one thread",
        ),
        (&["--threads", "2"], "required arguments were not provided"),
        (
            &["--in", "-", "--out", "-", "--rate", "fast"],
            "invalid rate fast: expected bits such as 100Mbit/s",
        ),
    ] {
        let output = Command::new(server::binary()?).arg("relay").args(arguments).output()?;
        let error = String::from_utf8(output.stderr)?;
        ensure!(output.status.code() == Some(2) && error.contains(said), "{arguments:?}: {error}");
    }
    Ok(())
}

/// Promise: `--check` validates the file and its keys without opening inputs or outputs.
fn a_file_is_checked_and_nothing_is_opened() -> Result<()> {
    let folder = Folder::new(&format!("[[class]]\nname = \"a\"\n{COPY}"))?;
    let output = folder.output(&["--check"])?;
    let said = String::from_utf8(output.stdout)?;
    ensure!(
        output.status.success() && said.ends_with("relay.toml: OK, 1 stream in 1 class, best effort\n"),
        "{said}"
    );
    ensure!(output.stderr.is_empty() && !folder.path("target").exists(), "it did something");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/relay.toml");
    let output =
        Command::new(server::binary()?).args(["relay", "--check", "--config"]).arg(example).output()?;
    let said = String::from_utf8(output.stdout)?;
    ensure!(
        output.status.success()
            && said
                .ends_with("relay.toml: OK, 2 streams in 2 classes, sharing volume in rounds of 4.0 MiB\n"),
        "{said}"
    );
    Ok(())
}

/// Promise: `--check` validates the file and its keys without opening inputs or outputs.
///
/// When the stream starts it is late.
fn keys_are_checked_with_the_file_that_names_them() -> Result<()> {
    let folder = Folder::new(&format!("{COPY}handlers = [\"meter\", \"seal:key\"]\n"))?;
    let check = |code: i32, said: &str| -> Result<()> {
        let output = folder.output(&["--check"])?;
        let words = String::from_utf8([output.stdout, output.stderr].concat())?;
        ensure!(output.status.code() == Some(code) && words.contains(said), "{words}");
        Ok(())
    };
    let key = folder.path("key");
    let (place, key_name) = ("relay.toml, stream copy: ", key.display());
    check(1, &format!("{place}cannot read the key {key_name}: No such file"))?;
    std::fs::write(&key, [7; 31])?;
    check(1, &format!("{place}invalid key {key_name}: expected a file of 32 random bytes, found 31"))?;
    std::fs::write(&key, [7; 32])?;
    check(0, "relay.toml: OK, 1 stream")
}

/// Promise: `--in` and `--out` add a stream to those of the file, in one of the file's classes.
fn a_stream_of_the_command_line_has_a_class_of_the_file() -> Result<()> {
    let folder = Folder::new(&format!("[[class]]\nname = \"a\"\n[[class]]\nname = \"b\"\n{COPY}"))?;
    std::fs::write(folder.path("source"), "bytes")?;
    let [source, second, report] =
        ["source", "second", "report.json"].map(|name| folder.path(name).display().to_string());
    let (source, second) = (format!("file:{source}"), format!("file:{second}"));
    let wires = ["--in", &source, "--out", &second, "--rate", "1MB/s"];
    let unknown = folder.output(&[&wires[..], &["--class", "c"]].concat())?;
    let error = String::from_utf8(unknown.stderr)?;
    ensure!(
        unknown.status.code() == Some(1) && error.contains("--class: unknown class c; expected one of a, b"),
        "{error}"
    );
    let output = folder.output(&[&wires[..], &["--class", "b", "--json", &report]].concat())?;
    ensure!(output.status.success(), "{output:?}");
    let json = folder.json("report.json")?;
    let of = |place: usize| (&json["streams"][place]["name"], &json["streams"][place]["class"]);
    ensure!(
        of(0) == (&"copy".into(), &"a".into()) && of(1) == (&"command line".into(), &"b".into()),
        "{json}"
    );
    ensure!(
        std::fs::read(folder.path("second"))? == b"bytes"
            && std::fs::read(folder.path("target"))? == b"bytes"
    );

    // Alone, its class is a name, and its JSON is what it always was.
    std::fs::remove_file(folder.path("second"))?;
    let mut alone = Command::new(server::binary()?);
    let output = alone.arg("relay").args(wires).args(["--class", "c", "--json", &report]).output()?;
    let json = folder.json("report.json")?;
    ensure!(
        output.status.success() && json["schema"] == "wirepath-relay/1" && json["class"] == "c",
        "{json}"
    );
    ensure!(json["bytes_in"] == 5 && json["outputs"][0]["bytes"] == 5 && json["state"] == "ended", "{json}");
    Ok(())
}
