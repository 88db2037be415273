//! Answers as pyarrow, pandas and DuckDB read them.

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::{python, trials};

use crate::TestBed;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        selections_are_those_of_pyarrow,
        forms_are_read_by_pyarrow,
        computed_fields_and_filters_are_those_of_pyarrow,
        a_caterer_asks_for_its_format_in_xml,
        lines_are_answered_with_streams,
        pandas_and_duckdb_read_answers,
    ]
}

/// Code that the scripts share: the folder, the server's URL, tables, and reading of answers.
const SHARED: &str = include_str!("shared.py");

/// Runs a script with these modules beside the server.
fn run(bed: &TestBed, modules: &[&str], script: &str) -> Result<()> {
    let arguments = [
        bed.folder.path().as_os_str().to_owned(),
        format!("http://{}/", bed.address).into(),
        bed.tcp.port().to_string().into(),
    ];
    let text = format!("{SHARED}\n{script}");
    let said = python::run(env!("CARGO_BIN_EXE_wirepath-records"), modules, &text, arguments)
        .with_context(|| bed.process.log())?;
    ensure!(said.trim_end().ends_with("done"), "the script did not end: {said}\n{}", bed.process.log());
    Ok(())
}

/// Promise: `wirepath-records` returns the columns that pyarrow selects, of all pyarrow types, compressed or
/// not.
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
# Columns that are too long to be sent with the metadata.
names = ["n", "carrier", "text", "view", "flag", "list", "points", "money", "end"]
long = pa.concat_tables([table.select(names)] * 50).combine_chunks()
for name, options in {"long.arrow": dict(), "long.arrows": dict(max_chunksize=6000)}.items():
    store(name, long, **options)
    for columns in [["n"], ["end", "list", "n"], ["text", "view", "points"], ["carrier", "flag", "money"]]:
        check(ask(name, select=",".join(columns)), long.select(columns), f"{name} {columns}")
    found = ask(name, select="list,twice=n*2,end")
    check(found.select(["list", "end"]), long.select(["list", "end"]), name)
    assert found["twice"].to_pylist() == [2 * n for n in long["n"].to_pylist()], name
"#,
    )
}

/// Promise: An answer is an Arrow file or stream, as the client requests, whichever is stored.
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

/// Promise: Computed fields and filters of `wirepath-records` have the values that pyarrow computes, also of compressed
/// records.
fn computed_fields_and_filters_are_those_of_pyarrow() -> Result<()> {
    run(
        &TestBed::new()?,
        &["pyarrow"],
        r#"
import pyarrow.compute as pc
table = everything()
text, number, small, half = (table.column(name) for name in ["carrier", "n", "small", "half"])
wide = lambda column: pc.cast(column, pa.int64())
for name, options in {
    "a.arrow": dict(max_chunksize=70), "b.arrows": dict(max_chunksize=110),
    "lz4.arrow": dict(compression="lz4"), "zstd.arrows": dict(compression="zstd", max_chunksize=110),
}.items():
    store(name, table, **options)
    found = ask(name, select="list,total=n+small*2,carrier,ratio=n/(half+1),big=n>100 and small is not null,end")
    check(found.select(["list", "carrier", "end"]), table.select(["list", "carrier", "end"]), "beside computed ones")
    same(found["total"], pc.add(wide(number), pc.multiply(wide(small), 2)))
    same(found["ratio"], pc.divide(pc.cast(number, pa.float64()), pc.add(half, 1)))
    same(found["big"], pc.and_(pc.greater(number, 100), pc.is_valid(small)))
    same(ask(name, select="one=1,n")["one"], pa.array([1] * len(table)))
    for where, mask in {
        "carrier = 'LH'": pc.equal(pc.cast(text, pa.string()), "LH"),
        "carrier in ('AF','KL') and n < 200": pc.and_(pc.is_in(pc.cast(text, pa.string()), pa.array(["AF", "KL"])), pc.less(number, 200)),
        "small between 10 and 20 or half is null": pc.or_kleene(pc.and_(pc.greater_equal(small, 10), pc.less_equal(small, 20)), pc.is_null(half)),
        "not flag": pc.invert(table["flag"]),
        "day >= '2026-03-01'": pc.greater_equal(table["day"], pa.scalar(datetime.date(2026, 3, 1))),
        "time < '2026-01-01T05:00:00Z'": pc.less(table["time"], pa.scalar(datetime.datetime(2026, 1, 1, 5), pa.timestamp("us", "UTC"))),
        "n % 7 = 3": pa.array([n % 7 == 3 for n in range(len(table))]),
        "-n > -10.5": pc.less(number, 11),
        "text = 'word '": pc.equal(table["text"], "word "),
        "view <> ''": pc.not_equal(pc.cast(table["view"], pa.string()), ""),
        "money > 290": pc.greater(table["money"], 290),
        "false": pa.array([False] * len(table)),
    }.items():
        found = ask(name, where=where)
        found.validate(full=True)
        keeps(found, table, mask, where)
        found = ask(name, select="carrier,twice=n*2,words", where=where)
        keeps(found.select(["carrier", "words"]), table.select(["carrier", "words"]), mask, where)
        same(found["twice"], pc.multiply(wide(number), 2).filter(mask))
for query, words in {
    "select=a=n%2Btext": "+ is not possible with Int32 and Utf8",
    "select=a=carrier%2B1": "+ is not possible with Utf8 and Int64",
    "select=a=9223372036854775807%2Bn": "cannot compute: Arithmetic overflow",
    "where=n": "where needs a condition",
    "where=flag=1": "a comparison is not possible with Boolean and Int64",
    "where=day=%27yesterday%27": "cannot compute: Cast error",
    "where=nobody=1": "the records have no column `nobody`",
    "where=point=1": "a comparison is not possible",
    "select=a=%27text%27%20AS%20b": "expected the end",
    "select=a=(%27text%27)": "computed fields are numbers or true and false, not Utf8",
    "select=a=n%25(n-n)": "Divide by zero",
}.items():
    status, text = refused("a.arrow?" + query)
    assert status == 400 and words in text, (query, status, text)
"#,
    )
}

/// Promise: A client posts a description of a record format, in XML or JSON, and gets records in that format.
fn a_caterer_asks_for_its_format_in_xml() -> Result<()> {
    run(
        &TestBed::new()?,
        &["pyarrow"],
        r#"
flights = pa.table({
    "carrier": pa.array(["LH", "LH", "AF"]).dictionary_encode(), "flight": [400, 454, 1018],
    "origin": ["FRA", "FRA", "CDG"], "first": [8, 8, 0], "business": [80, 78, 30], "economy": [272, None, 150],
    "crew": [18, 17, 6],
})
store("flights.arrow", flights)
xml = b"""<?xml version="1.0"?>
<format>
  <field name="carrier"/>
  <field name="number" value="flight"/>
  <field name="passengers" value="first + business + economy"/>
  <where>origin = 'FRA' and economy is not null</where>
  <form>stream</form>
</format>"""
json = b"""{"field": [{"name": "carrier"}, {"name": "number", "value": "flight"},
  {"name": "passengers", "value": "first + business + economy"}],
  "where": "origin = 'FRA' and economy is not null", "form": "stream"}"""
for description in [xml, json]:
    found = ask("flights.arrow", description)
    assert found.to_pydict() == {"carrier": ["LH"], "number": [400], "passengers": [360]}, found
status, text = refused("flights.arrow", b"<format><field nome='a'/></format>")
assert status == 400 and "invalid format description in XML" in text, text
status, text = refused("flights.arrow", b" " * 70000)
assert status == 413, status
"#,
    )
}

/// Promise: A line `PATH?QUERY` over TCP is answered with an Arrow stream, and an invalid line with the
/// reason.
fn lines_are_answered_with_streams() -> Result<()> {
    run(
        &TestBed::new()?,
        &["pyarrow"],
        r#"
import socket
table = everything()
store("a.arrow", table, max_chunksize=100)
def line(text):
    connection = socket.create_connection(("127.0.0.1", int(sys.argv[3])), timeout=20)
    connection.sendall(text)
    return connection.makefile("rb")
check(ipc.open_stream(line(b"a.arrow?select=n,list\n")).read_all(), table.select(["n", "list"]), "a line")
check(ipc.open_stream(line(b"/a.arrow\r\n")).read_all(), table, "a whole file")
found = ipc.open_stream(line(b"a.arrow?select=n&where=n%3C5\n")).read_all()
assert found["n"].to_pylist() == [0, 1, 2, 3, 4], found
for text, words in {
    b"a.arrow?select=nobody\n": b"error: the records have no column `nobody`",
    b"b.arrow\n": b"error: no such file", b"../a.arrow\n": b"error: ", b"\n": b"error: no such file",
    b"a.arrow?form=file\n": b"error: only streams", b"x" * 20000: b"error: expected a line", b"\xff\n": b"",
}.items():
    try:
        found = line(text).read()
    except ConnectionResetError:
        # More was sent than it reads.
        assert len(text) > 16384
        continue
    assert found.startswith(words), (text[:50], found)
"#,
    )
}

/// Promise: pandas and DuckDB read the answers of `wirepath-records` over HTTP and over TCP.
fn pandas_and_duckdb_read_answers() -> Result<()> {
    run(
        &TestBed::new()?,
        &["pyarrow", "pandas", "duckdb"],
        r#"
import duckdb, pandas
table = everything().select(["n", "carrier", "text", "half", "list", "point"])
store("a.feather", table)
frame = pandas.read_feather(f"{url}a.feather?select=n,carrier,text")
assert frame.equals(table.select(["n", "carrier", "text"]).to_pandas()), frame
answer = ipc.open_stream(urllib.request.urlopen(f"{url}a.feather?select=n,carrier,point&form=stream"))
found = duckdb.sql("select carrier, sum(n), sum(point.x) from answer group by carrier order by carrier").fetchall()
rows = table.to_pylist()
total = lambda carrier: sum(row["n"] for row in rows if row["carrier"] == carrier)
assert [(carrier, number) for carrier, number, _ in found] == [(c, total(c)) for c in ["AF", "KL", "LH"]], found
import socket
def over_tcp(line):
    connection = socket.create_connection(("127.0.0.1", int(sys.argv[3])), timeout=20)
    connection.sendall(line)
    return ipc.open_stream(connection.makefile("rb"))
frame = over_tcp(b"a.feather?select=n,carrier,text\n").read_pandas()
assert frame.equals(table.select(["n", "carrier", "text"]).to_pandas()), frame
answer = over_tcp(b"a.feather?select=n,carrier,point\n")
assert duckdb.sql("select carrier, sum(n), sum(point.x) from answer group by carrier order by carrier").fetchall() == found
"#,
    )
}
