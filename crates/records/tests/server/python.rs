//! Answers as pyarrow, pandas and DuckDB read them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::{require, trials};

use crate::TestBed;

pub(crate) fn trials() -> Vec<Trial> {
    trials![selections_are_those_of_pyarrow, forms_are_read_by_pyarrow]
}

/// What the scripts share: the folder, the server's URL, tables, and reading of answers.
const SHARED: &str = include_str!("shared.py");

/// The Python that `scripts/install.sh test` has prepared beside the build, or that of the system.
fn interpreter() -> PathBuf {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_wirepath-records"));
    let prepared = program.ancestors().nth(2).map(|target| target.join("python/bin/python"));
    prepared.filter(|path| path.exists()).unwrap_or_else(|| "python3".into())
}

/// Runs a script with these modules beside the server.
fn run(bed: &TestBed, modules: &[&str], script: &str) -> Result<()> {
    for module in modules {
        let import = format!("import {module}");
        let found = Command::new(interpreter()).args(["-c", &import]).stderr(Stdio::null()).status();
        let is_found = found.is_ok_and(|status| status.success());
        require!(is_found, "the Python module {module} is not installed; run: scripts/install.sh test");
    }
    let text = format!("{SHARED}\n{script}");
    let mut command = Command::new(interpreter());
    command.args(["-c", &text]).arg(bed.folder.path()).arg(format!("http://{}/", bed.address));
    let output = command.output().context("python")?;
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success() && said.trim_end().ends_with("done"), "{said}\n{errors}\n{}", bed.process.log());
    Ok(())
}

/// Promise: `wirepath-records` answers with the columns that pyarrow selects, of all its types, compressed or not.
fn selections_are_those_of_pyarrow() -> Result<()> {
    run(
        &TestBed::new()?,
        &["pyarrow"],
        r#"
table = everything()
stores = {
    "a.arrow": dict(), "small.arrow": dict(max_chunksize=70), "odd.arrow": dict(max_chunksize=251),
    "lz4.arrow": dict(compression="lz4"), "zstd.arrows": dict(compression="zstd", max_chunksize=100),
    "a.arrows": dict(), "small.arrows": dict(max_chunksize=110),
}
for name, options in stores.items():
    store(name, table, **options)
    for columns in selections(table):
        found = ask(name, select=",".join(columns))
        found.validate(full=True)
        check(found, table.select(columns), f"{name} {columns}")
    check(ask(name, select="*"), table, name)
    check(ask(name, select="who=carrier,n"), table.select(["carrier", "n"]).rename_columns(["who", "n"]), name)
    check(ask(name, select="n,n"), table.select(["n", "n"]), name)
"#,
    )
}

/// Promise: An answer is a file or a stream of Arrow, as the client asks, whichever is stored.
fn forms_are_read_by_pyarrow() -> Result<()> {
    run(
        &TestBed::new()?,
        &["pyarrow"],
        r#"
table = everything()
for stored in ["a.arrow", "a.arrows"]:
    store(stored, table, max_chunksize=100)
    for form in ["file", "stream"]:
        check(ask(stored, select="n,carrier,list", form=form), table.select(["n", "carrier", "list"]), form)
# Metadata of the schema stays; a table without rows has a schema.
marked = table.slice(0, 0).replace_schema_metadata({"made": "by hand"})
store("empty.arrow", marked)
found = ask("empty.arrow", select="carrier")
assert found.num_rows == 0 and found.schema.metadata == {b"made": b"by hand"}, found.schema
# A dictionary that grows on the way, and one that is replaced.
words = [pa.array(["a", "b"]).dictionary_encode(), pa.array(["a", "b", "c"]).dictionary_encode(), pa.array(["x", "c"]).dictionary_encode()]
batches = [pa.record_batch([word, pa.array(range(len(word)))], ["word", "n"]) for word in words]
with ipc.new_stream(folder / "grows.arrows", batches[0].schema, options=ipc.IpcWriteOptions(emit_dictionary_deltas=True)) as sink:
    for batch in batches:
        sink.write(batch)
expected = pa.Table.from_batches(batches)
found = ask("grows.arrows", select="n,word")
assert found.column("word").to_pylist() == expected.column("word").to_pylist(), found
assert ask("grows.arrows", select="n", form="file").column("n").to_pylist() == expected.column("n").to_pylist()
status, text = refused("grows.arrows", select="word", form="file")
assert status == 400 and "replaced" in text, (status, text)
"#,
    )
}
