"""The package as a program in Python has it."""

import importlib.metadata
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
from wirepath import ByTag, Framing, JoinByKey, Refused, Stream

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


class Running:
    """A running stream from a socket to a socket, with one handler."""

    def __init__(self, handler, framing=None, **options):
        self.sender, source = socket.socketpair()
        self.receiver, sink = socket.socketpair()
        self.receiver.settimeout(30)
        self.stream = Stream(pattern="mirror")
        self.handler = self.stream.handler(handler, **options)
        self.input = self.stream.input(source, framing or Framing.lines(100))
        self.output = self.stream.output(sink)
        source.close()
        sink.close()
        self.stream.start()

    def sends(self, text):
        self.sender.sendall(text)

    def receives(self, expected, receiver=None):
        received = b""
        while len(received) < len(expected):
            received += (receiver or self.receiver).recv(len(expected) - len(received))
        assert received == expected


class Letter:
    """Passes lines that begin with a letter; a message of one byte is the next letter."""

    def __init__(self, letter):
        self.letter = letter

    def passes(self, line):
        return line[:1] == self.letter

    def change(self, message):
        if not message:
            raise KeyError("a message without a letter")
        if len(message) > 1:
            raise Refused("a letter has one byte")
        before, self.letter = self.letter, message
        return before


def test_handlers_of_a_running_stream_get_messages_and_are_replaced_and_removed():
    first, second = Letter(b"a"), Letter(b"b")
    running = Running(first.passes, control=first.change, name="letter")
    stream, number = running.stream, running.handler
    running.sends(b"a1\nb1\n")
    running.receives(b"a1\n")
    assert stream.control(number, b"c") == b"a"
    assert stream.control(number, bytearray(b"b")) == b"c"
    running.sends(b"a2\nb2\n")
    running.receives(b"b2\n")
    with pytest.raises(Refused, match="a letter has one byte"):
        stream.control(number, b"xy")
    with pytest.raises(ValueError, match=f"no handler {number + 1}"):
        stream.control(number + 1, b"c")
    with pytest.raises(ValueError, match="at most 65536"):
        stream.control(number, bytes(65537))
    silent = stream.handler(lambda line: None, name="silent")
    assert silent > number
    with pytest.raises(Refused, match="silent takes no control messages"):
        stream.control(silent, b"c")

    stream.replace_handler(number, second.passes, control=second.change)
    running.sends(b"a3\nb3\n")
    running.receives(b"b3\n")
    assert stream.control(number, b"d") == b"b"
    stream.remove_handler(number)
    running.sends(b"a4\n")
    running.receives(b"a4\n")
    for gone in (lambda: stream.remove_handler(number), lambda: stream.replace_handler(number, len)):
        with pytest.raises(ValueError, match="it has been removed or never existed"):
            gone()

    number = stream.handler(second.passes, control=second.change)
    with pytest.raises(wirepath.StreamError, match="a message without a letter"):
        stream.control(number, b"")
    with pytest.raises(KeyError, match="a message without a letter"):
        stream.wait(30)
    with pytest.raises(wirepath.StreamError, match="the stream has ended"):
        stream.remove_handler(number)


def test_handlers_change_before_the_start_as_well():
    letter = Letter(b"a")
    stream = Stream()
    errors = []

    class Released:
        """Uses the stream when it is released."""

        def __call__(self, line):
            return None

        def __del__(self):
            with pytest.raises(RuntimeError, match="start") as error:
                stream.stop()
            errors.append(error)

    number = stream.handler(letter.passes, control=letter.change)
    other = stream.handler(Released())
    assert stream.control(number, b"b") == b"a" and letter.letter == b"b"
    stream.replace_handler(other, Released())
    assert len(errors) == 1
    stream.remove_handler(other)
    assert len(errors) == 2
    with pytest.raises(ValueError, match="no handler"):
        stream.replace_handler(other, Released())
    assert len(errors) == 3


def panic_exception():
    """The exception by which a panic in Rust passes through Python: PyO3 makes a panic of it again."""
    with pytest.raises(TypeError):
        Stream().input(None)  # the class is made when the first exception is seen
    return next(kind for kind in BaseException.__subclasses__() if kind.__name__ == "PanicException")


def test_a_panic_in_a_change_fails_its_stream_and_no_other():
    def panics(_):
        raise panic_exception()("no more letters")

    stream = Stream()
    number = stream.handler(lambda line: None, control=panics)
    for use in (
        lambda: stream.control(number, b"a"),
        lambda: stream.control(number, b"a"),
        lambda: stream.remove_handler(number),
        lambda: stream.handler(len),
        stream.start,
        stream.status,
        stream.wait,
        stream.stop,
    ):
        with pytest.raises(wirepath.StreamError, match="has failed, panic in a change of it: no more letters"):
            use()
    assert stream.has_ended()

    running = Running(lambda line: None, control=panics)
    with pytest.raises(wirepath.StreamError, match="the stream has ended"):
        running.stream.control(running.handler, b"a")
    with pytest.raises(wirepath.StreamError, match="panicked: no more letters"):
        running.stream.wait(30)
    # This thread may wait, and change other streams.
    assert through(lambda line: None)[0] == b"one\ntwo\nthree\n"


def test_a_failed_change_leaves_a_stream_that_was_not_started():
    stream = Stream()
    number = stream.handler(len, control=Letter(b"a").change)
    with pytest.raises(Refused, match="one byte"):
        stream.control(number, b"xy")
    for wrong in (lambda: stream.replace_handler(number + 1, len), lambda: stream.remove_handler(number + 1)):
        with pytest.raises(ValueError, match="no handler"):
            wrong()
    stream.replace_handler(number, lambda line: None)
    assert not stream.has_ended()
    with pytest.raises(Refused, match="takes no control messages"):
        stream.control(number, b"x")


def test_a_handler_is_removed_behind_the_record():
    running = Running(lambda piece: None, Framing.fixed(2), whole=None)
    running.sends(b"x")
    running.receives(b"x")
    with pytest.raises(TimeoutError, match="the end of a record"):
        running.stream.remove_handler(running.handler, timeout=0.001)
    running.sends(b"y")
    running.receives(b"y")
    with pytest.raises((ValueError, wirepath.StreamError), match="removed"):
        running.stream.remove_handler(running.handler)


def test_handlers_that_call_for_a_change_get_an_exception():
    for change in (
        lambda stream: stream.control(0, b"a"),
        lambda stream: stream.remove_handler(0),
        lambda stream: stream.replace_handler(0, len),
        lambda stream: stream.set_option("rate", None),
        lambda stream: stream.detach(0),
    ):
        running = Running(lambda line: change(running.stream))
        running.sends(b"one\n")
        with pytest.raises(RuntimeError, match="called from a handler"):
            running.stream.wait(30)


def test_inputs_and_outputs_are_detached():
    running = Running(lambda line: None)
    stream = running.stream
    receiver, sink = socket.socketpair()
    receiver.settimeout(30)
    second = stream.output(sink)
    sink.close()
    running.sends(b"one\n")
    running.receives(b"one\n")
    running.receives(b"one\n", receiver)
    stream.detach(second)
    assert receiver.recv(1) == b""
    running.sends(b"two\n")
    running.receives(b"two\n")
    with pytest.raises(ValueError, match=f"no input or output with port {second}"):
        stream.detach(second)
    with pytest.raises(RuntimeError, match="start"):
        Stream().detach(0)
    stream.detach(running.input)
    assert running.sender.recv(1) == b""
    assert stream.wait(30).bytes_in == 8  # it was the last input
    with pytest.raises(wirepath.StreamError, match="the stream has ended"):
        stream.detach(running.output)


def values(options):
    return {option.key: option.value for option in options}


def test_options_are_listed_and_set():
    stream = Stream()
    rate = stream.options()[0]
    assert (rate.key, rate.value, rate.unit, rate.may_change) == ("rate", "none", "bytes/s", True)
    stream.set_option("rate", 1_000_000)
    waiting, _feeder = socket.socketpair()
    receiver, sink = socket.socketpair()
    stream.input(waiting, Framing.lines(100))
    output = stream.output(sink)
    stream.start()
    assert values(stream.options())["rate"] == "1000000"
    stream.set_option("rate", None)
    assert values(stream.options())["rate"] == "none"
    for key, value, words in (
        ("colour", "red", "no option colour: expected one of rate, "),
        ("rate", "fast", "invalid value fast of option rate: expected a number from 1, or none"),
    ):
        with pytest.raises(ValueError, match=words):
            stream.set_option(key, value)
    with pytest.raises(RuntimeError, match="is fixed when the stream is built"):
        stream.set_option("finish-outputs", "true")
    assert values(stream.output_options(output))["when-full"] == "block"
    stream.set_output_option(output, "when-full", "drop-newest")
    assert values(stream.output_options(output))["when-full"] == "drop-newest"
    with pytest.raises(ValueError, match="expected block, drop-newest"):
        stream.set_output_option(output, "when-full", "wait")
    for missing in (lambda: stream.output_options(777), lambda: stream.set_output_option(777, "trust", 7)):
        with pytest.raises(ValueError, match="no output with port 777"):
            missing()
    stream.stop()
    with pytest.raises(wirepath.StreamStopped):
        stream.wait(30)
    with pytest.raises(wirepath.StreamError, match="the stream has ended"):
        stream.options()


def test_a_handler_of_an_output_is_in_force_while_its_trust_is_low():
    running = Running(lambda line: None)
    stream, output = running.stream, running.output
    number = stream.handler(lambda line: bytes(line).upper(), output=output, trust_below=50)
    running.sends(b"one\n")
    running.receives(b"one\n")
    stream.set_trust(output, 49)
    running.sends(b"two\n")
    running.receives(b"TWO\n")
    for wrong in (lambda: stream.set_trust(output, 101), lambda: stream.set_trust(running.input, 5)):
        with pytest.raises(ValueError, match="expected 0 to 100|no output with port"):
            wrong()
    stream.remove_handler(number)
    running.sends(b"three\n")
    running.receives(b"three\n")
    stream.handler(lambda line: bytes(line).upper(), output=output)
    running.sends(b"four\n")
    running.receives(b"FOUR\n")


def test_a_handler_peeks_at_the_first_bytes():
    heads = []

    def keeps(head):
        heads.append(head)
        return head == b"keep"

    received, _ = through(keeps, b"keep one.drop two", Framing.fixed(8), peek=4)
    assert (received, heads) == (b"keep one", [b"keep", b".dro", b"o"])
    with pytest.raises(TypeError):
        through(lambda head: b"bytes", peek=4)


def test_a_refused_record_is_dropped_among_datagrams_and_an_error_among_others():
    def refuses(record):
        if record[:1] == b"x":
            raise Refused("it begins with x")

    with pytest.raises(wirepath.StreamError, match="handler refuses: it begins with x"):
        through(refuses, b"x\n")
    source, sender = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    source.bind(("127.0.0.1", 0))
    sender.connect(source.getsockname())
    receiver, sink = socket.socketpair()
    receiver.settimeout(30)
    stream = Stream()
    stream.input(source)
    stream.output(sink)
    stream.handler(refuses)
    stream.start()
    sender.send(b"x1")
    sender.send(b"a2")
    assert receiver.recv(100) == b"a2"
    [event] = stream.events()
    assert event.kind == "record-refused" and "it begins with x" in event.text
    stream.stop()


def number_of(line):
    if line[:1] == b"x":
        raise KeyError("no number")
    return int(line[:1]) if line[:1].isdigit() else None


@pytest.mark.parametrize(
    "order, other, expected",
    [
        (ByTag(number_of), b"1 b\n- b\n3 b\n", b"1 a\n1 b\n- b\n3 a\n3 b\n"),
        (ByTag(number_of, window=5, waiting_bytes=9, late="pass"), b"2 b\n", b"1 a\n2 b\n3 a\n"),
        (JoinByKey(number_of), b"1 b\n- b\n3 b\n", b"1 a\n1 b\n3 a\n3 b\n"),
        (ByTag(number_of), b"x\n", KeyError),
        (JoinByKey(number_of), b"x\n", KeyError),
    ],
)
def test_records_leave_by_their_tags_or_joined_by_their_keys(order, other, expected):
    receiver, sink = socket.socketpair()
    stream = Stream(order=order)
    for text in (b"1 a\n3 a\n", other):
        stream.input(text, Framing.lines(100))
    stream.output(sink)
    stream.start()
    if expected is KeyError:
        with pytest.raises(KeyError, match="no number"):
            stream.wait(30)
    else:
        assert stream.wait(30).bytes_out == len(expected)
        assert receiver.recv(100) == expected


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
        (lambda: Stream(order=7), TypeError),
        (lambda: Stream(order=ByTag("no function")), TypeError),
        (lambda: ByTag(len, window=0), ValueError),
        (lambda: ByTag(len, late="never"), ValueError),
        (lambda: JoinByKey(len, waiting_bytes=0), ValueError),
        (lambda: Stream().handler(len, peek=0), ValueError),
        (lambda: Stream().handler(len, peek=16385), ValueError),
        (lambda: Stream().handler(len, control="no function"), TypeError),
        (lambda: Stream().handler(len, output=7), ValueError),
        (lambda: Stream().handler(len, trust_below=7), ValueError),
        (lambda: Stream().handler(len, output=7, trust_below=0), ValueError),
        (lambda: Stream().handler(len, output=7, trust_below=101), ValueError),
        (lambda: Stream().set_trust(7, 50), ValueError),
        (lambda: Stream().set_trust(-1, 50), OverflowError),
        (lambda: Stream().remove_handler(0), ValueError),
        (lambda: Stream().remove_handler(0, timeout=-1.0), ValueError),
        (lambda: Stream().control(0, None), TypeError),
    ],
)
def test_wrong_arguments_are_exceptions(wrong, error):
    with pytest.raises(error):
        wrong()


def test_the_wheel_has_the_licences():
    try:
        wheel = importlib.metadata.distribution("wirepath")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package is not installed from a wheel")
    if Path(wheel.locate_file("wirepath/__init__.py")) != Path(wirepath.__file__):
        pytest.skip("the tested package is not the installed one")
    names = {file.name for file in wheel.files}
    assert {"LICENSE-MIT", "LICENSE-APACHE"} <= names
