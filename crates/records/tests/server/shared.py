import atexit, datetime, decimal, pathlib, sys, urllib.error, urllib.parse, urllib.request
import pyarrow as pa
import pyarrow.ipc as ipc

folder, url = pathlib.Path(sys.argv[1]), sys.argv[2]


def everything(rows=300):
    """A table of many types, with nulls."""
    some = lambda value, every: [None if n % every == 0 else value(n) for n in range(rows)]
    point = lambda n: {"x": n, "name": None if n % 4 == 0 else f"point {n}", "tags": ["a", "b"][: n % 3]}
    columns = {
        "n": pa.array(range(rows), pa.int32()),
        "carrier": pa.array([["LH", "AF", "KL"][n % 3] for n in range(rows)]).dictionary_encode(),
        "text": pa.array(some(lambda n: "word " * (n % 5), 7)),
        "long_text": pa.array(some(str, 3), pa.large_string()),
        "view": pa.array(some(lambda n: "a text that is not short " * (n % 3), 5), pa.string_view()),
        "small": pa.array(some(lambda n: n % 100, 2), pa.uint8()),
        "half": pa.array(some(float, 4), pa.float64()),
        "flag": pa.array(some(lambda n: n % 2 == 1, 5)),
        "list": pa.array(some(lambda n: list(range(n % 6)), 9), pa.list_(pa.int64())),
        "point": pa.array(some(point, 11)),
        "points": pa.array(some(lambda n: [point(n)] * (n % 3), 13)),
        "map": pa.array(some(lambda n: [("k", n)], 6), pa.map_(pa.string(), pa.int16())),
        "fixed": pa.array(some(lambda n: [n, n + 1, n + 2], 5), pa.list_(pa.int32(), 3)),
        "bytes": pa.array(some(lambda n: bytes([n % 256]) * 4, 8), pa.binary(4)),
        "money": pa.array(some(lambda n: decimal.Decimal(n), 3), pa.decimal128(12, 2)),
        "day": pa.array(some(lambda n: datetime.date(2026, 1, 1) + datetime.timedelta(n % 300), 7)),
        "time": pa.array(some(lambda n: datetime.datetime(2026, 1, 1, n % 24), 6), pa.timestamp("us", "UTC")),
        "nothing": pa.nulls(rows),
        "words": pa.array(some(lambda n: {"w": ["x", "y"][n % 2]}, 10), pa.struct([("w", pa.dictionary(pa.int8(), pa.string()))])),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([rows // 2, rows], pa.int32()), pa.array([1, None])),
        "union": pa.UnionArray.from_sparse(pa.array([n % 2 for n in range(rows)], pa.int8()), [pa.array(range(rows)), pa.array(["u"] * rows)]),
        "end": pa.array(range(rows), pa.int64()),
    }
    return pa.table(columns)


def selections(table):
    names = table.column_names
    yield from ([name] for name in names)
    yield names[::2]
    yield names[::-1]
    yield ["end", "n", "carrier", "points"]
    yield ["words", "carrier"]


def store(name, table, max_chunksize=None, **options):
    new = ipc.new_stream if name.endswith(".arrows") else ipc.new_file
    with new(folder / name, table.schema, options=ipc.IpcWriteOptions(**options)) as sink:
        sink.write_table(table, max_chunksize=max_chunksize)


def read(stream, content_type):
    if content_type.endswith(".stream"):
        return ipc.open_stream(stream).read_all()
    return ipc.open_file(pa.BufferReader(stream.read())).read_all()


def ask(name, body=None, **query):
    text = urllib.parse.urlencode(query, quote_via=urllib.parse.quote)
    try:
        answer = urllib.request.urlopen(f"{url}{name}?{text}" if query else f"{url}{name}", body)
    except urllib.error.HTTPError as error:
        error.text = error.read().decode()
        error.add_note(error.text)
        raise
    with answer:
        expected = query.get("form") or ("stream" if ".arrows" in name else "file")
        assert body or answer.headers["content-type"].endswith(expected), answer.headers
        return read(answer, answer.headers["content-type"])


def refused(name, body=None, **query):
    try:
        ask(name, body, **query)
    except urllib.error.HTTPError as error:
        return error.code, error.text
    raise AssertionError(f"{name} {query} is answered")


def check(found, expected, words):
    """Equal values; which of its chunks a table has may differ."""
    assert found.schema.equals(expected.schema), f"{words}: {found.schema} is not {expected.schema}"
    for name, one, other in zip(expected.column_names, found.columns, expected.columns):
        # pyarrow cannot compare all types that it writes.
        same = one.to_pylist() == other.to_pylist()
        assert same, f"{words}: {name} is another: {one.slice(0, 20)} is not {other.slice(0, 20)}"


def keeps(found, table, mask, words):
    """The rows of a mask, of all types; pyarrow's own filter has not all of them."""
    assert found.schema.equals(table.schema), f"{words}: {found.schema}"
    mask = mask.to_pylist()
    for name in table.column_names:
        kept = [value for value, keep in zip(table[name].to_pylist(), mask) if keep]
        assert found[name].to_pylist() == kept, f"{words}: {name}: {found[name].slice(0, 20)} is not {kept[:20]}"


def same(found, expected):
    assert found.to_pylist() == expected.to_pylist(), f"{found} is not {expected}"


def failed(*error):
    sys.__excepthook__(*error)
    finished.clear()


# A script that ends without an error says so.
finished = [True]
sys.excepthook = failed
atexit.register(lambda: finished and print("done"))
