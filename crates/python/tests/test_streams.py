"""The package as a program in Python has it."""

import os
import runpy
import select
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import wirepath
from wirepath import Framing, Stream

EXAMPLE = Path(__file__).parent.parent / "examples" / "merge.py"


def through(handler, text=b"one\ntwo\nthree\n", framing=None, **options):
    """What comes out of a stream with this handler, and its status."""
    ours, theirs = socket.socketpair()
    stream = Stream()
    stream.input(text, framing or Framing.lines(100))
    stream.output(theirs)
    theirs.close()
    stream.handler(handler, **options)
    with ThreadPoolExecutor() as reader, ours, ours.makefile("rb") as file:
        received = reader.submit(file.read)
        stream.start()
        try:
            status = stream.wait(30)
        finally:
            del stream  # and with it the output
        return received.result(), status


def test_the_example_merges_handles_and_mirrors(tmp_path):
    paths = [tmp_path / name for name in ("first", "second", "copy", "other")]
    random = np.random.default_rng(7)
    inputs = [random.normal(0, 0.16, (500, 256)).astype("<f4") for _ in range(2)]
    for path, samples in zip(paths, inputs):
        samples.tofile(path)
    runpy.run_path(str(EXAMPLE))["main"](*map(str, paths))
    merged = np.stack(inputs, axis=1).reshape(-1, 256)
    expected = merged[np.abs(merged).max(axis=1) > 0.5]
    assert 0 < len(expected) < len(merged)
    for path in paths[2:]:
        assert path.read_bytes() == expected.tobytes()


def test_a_handler_sees_records_where_they_lie():
    kept, starts = [], []

    def look(record):
        array = np.frombuffer(record, dtype=np.uint8)
        assert record.readonly and not array.flags.owndata and not array.flags.writeable
        starts.append(array.__array_interface__["data"][0])
        kept.append(array)

    text = bytes(range(256)) * 16
    received, status = through(look, text, Framing.fixed(64))
    assert received == text and status.records_in == 64
    assert [start - starts[0] for start in starts] == list(range(0, 4096, 64))
    # They stay valid while they are kept, behind the end of the stream as well.
    assert b"".join(array.tobytes() for array in kept) == text


@pytest.mark.parametrize(
    "answer, expected",
    [
        (lambda line: None, b"one\ntwo\nthree\n"),
        (lambda line: True, b"one\ntwo\nthree\n"),
        (lambda line: line[:2] != b"tw", b"one\nthree\n"),
        (lambda line: np.frombuffer(line, np.uint8).max() < ord("u"), b"one\nthree\n"),
        (lambda line: bytes(line).upper(), b"ONE\nTWO\nTHREE\n"),
        (lambda line: np.frombuffer(line, np.uint8)[::-1], b"\neno\nowt\neerht"),
        (lambda line: np.frombuffer(line[:2], "<u2") + 1, b"pnuwuh"),
        (lambda line: line[1:], b"ne\nwo\nhree\n"),
        (lambda line: b"", b""),
    ],
)
def test_answers_of_handlers(answer, expected):
    assert through(answer)[0] == expected


def test_long_records_come_whole_or_in_pieces():
    text = os.urandom(3_000_000)
    lengths = []
    received, _ = through(lambda record: lengths.append(len(record)), text, Framing.fixed(750_000))
    assert received == text and lengths == [750_000] * 4
    lengths.clear()
    received, _ = through(lambda piece: lengths.append(len(piece)), text, Framing.whole(), whole=None)
    assert received == text and len(lengths) > 4 and sum(lengths) == len(text)


def test_an_exception_ends_its_stream_and_no_other():
    class Wrong(Exception):
        pass

    def fails(line):
        if line[:3] == b"two":
            raise Wrong("two is one too many")

    with pytest.raises(Wrong, match="two is one too many") as raised:
        through(fails)
    assert raised.traceback[-1].name == "fails"
    with pytest.raises(TypeError):
        through(lambda line: 42)
    assert through(lambda line: None)[0] == b"one\ntwo\nthree\n"


def test_a_handler_that_holds_its_stream_holds_nothing_else():
    entered, may_return = threading.Event(), threading.Event()

    def holds(line):
        entered.set()
        assert may_return.wait(30)

    waiting, _feeder = socket.socketpair()
    _receiver, sink = socket.socketpair()
    stream = Stream(order="arrival")
    stream.input(b"one\n", Framing.lines(100))
    stream.input(waiting, Framing.lines(100))
    stream.output(sink)
    stream.handler(holds)
    stream.start()
    assert entered.wait(30)
    with pytest.raises(TimeoutError):
        stream.status(timeout=0.01)
    with pytest.raises(TimeoutError):
        stream.wait(0.01)
    assert through(lambda line: None)[0] == b"one\ntwo\nthree\n"
    stream.stop()
    may_return.set()
    with pytest.raises(wirepath.StreamStopped):
        stream.wait(30)


def test_a_handler_may_stop_streams_and_not_wait_for_them():
    waiting, _feeder = socket.socketpair()
    _receiver, sink = socket.socketpair()
    stream = Stream(order="arrival")
    stream.input(b"one\n", Framing.lines(100))
    stream.input(waiting, Framing.lines(100))
    stream.output(sink)
    stream.handler(lambda line: stream.stop())
    stream.start()
    with pytest.raises(wirepath.StreamStopped):
        stream.wait(30)
    for wait in (lambda: stream.wait(), lambda: stream.status(), lambda: stream.output(sink)):
        with pytest.raises(RuntimeError, match="called from a handler"):
            through(lambda line: wait())


def test_the_descriptor_tells_of_events_and_the_end():
    ours, theirs = socket.socketpair()
    receiver, sink = socket.socketpair()
    stream = Stream(order="arrival", pattern="mirror")
    with pytest.raises(RuntimeError, match="start"):
        stream.fileno()
    stream.input(theirs, Framing.lines(100), name="socket")
    stream.output(sink)
    theirs.close()
    sink.close()
    stream.start()
    ours.sendall(b"one\n")
    assert receiver.recv(100) == b"one\n"
    assert stream.status().bytes_in == 4
    more = stream.input(b"two\n", Framing.lines(100), name="more")  # while it runs
    ours.close()
    kinds = []
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    while not stream.has_ended():
        assert poll.poll(30_000)
        kinds += [(event.kind, event.text, event.port) for event in stream.events()]
    kinds += [(event.kind, event.text, event.port) for event in stream.events()]
    assert ("input-gone", "more", more) in kinds and len(kinds) == 2
    assert stream.wait(0).bytes_out == 8


def test_datagrams_are_records():
    source, sender = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    source.bind(("127.0.0.1", 0))
    sender.connect(source.getsockname())
    receiver, sink = socket.socketpair()
    stream = Stream()
    stream.input(source)
    stream.output(sink)
    stream.handler(lambda datagram: bytes(datagram) + b"|")
    stream.start()
    for datagram in (b"one", b"two"):
        sender.send(datagram)
    received = b""
    while len(received) < 8:
        received += receiver.recv(100)
    assert received == b"one|two|"
    stream.stop()


@pytest.mark.parametrize(
    "wrong, error",
    [
        (lambda: Stream(order="sideways"), ValueError),
        (lambda: Stream(pattern="all"), ValueError),
        (lambda: Framing.lines(0), ValueError),
        (lambda: Framing.fixed(-1), OverflowError),
        (lambda: Stream().input(9999), OSError),
        (lambda: Stream().input(-1), ValueError),
        (lambda: Stream().input(None), TypeError),
        (lambda: Stream().output(b"memory"), TypeError),
        (lambda: Stream().handler("no function"), TypeError),
        (lambda: Stream().handler(len, name=""), ValueError),
        (lambda: Stream().wait(), RuntimeError),
        (lambda: Stream().stop(), RuntimeError),
    ],
)
def test_wrong_arguments_are_exceptions(wrong, error):
    with pytest.raises(error):
        wrong()
