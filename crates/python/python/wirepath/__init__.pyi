"""Streams of records between sockets, pipes and files, with handlers that see them without a copy.

A stream reads records from its inputs in an order, has handlers see them, and gives them to its outputs by a
pattern. It runs on a thread of its own, without the interpreter but in handlers.
"""

from collections.abc import Buffer, Callable
from typing import Literal, Protocol, final, overload

__version__: str

class HasFileno(Protocol):
    def fileno(self) -> int: ...

class StreamError(Exception):
    """A stream ended with an error."""

class StreamStopped(StreamError):
    """A stream was stopped."""

class Refused(Exception):
    """A handler refuses a control message, which then has no effect, or a record.

    A refused record of a stream that takes datagrams is dropped, the first one with an event
    `record-refused`; in other streams it is an error.
    """

@final
class Framing:
    """Division of an input into records."""

    @staticmethod
    def whole() -> Framing:
        """None: all bytes are one record; each datagram is one."""

    @staticmethod
    def fixed(size: int) -> Framing:
        """Records of this many bytes; the last may be shorter."""

    @staticmethod
    def lines(limit: int) -> Framing:
        """Lines of at most this many bytes, with the line feed."""

    @staticmethod
    def length32(limit: int) -> Framing:
        """Records behind their length in four bytes, most significant first; at most this many bytes."""

    @staticmethod
    def rtp() -> Framing:
        """Packets behind their length in two bytes (RFC 4571)."""

    @staticmethod
    def transport_stream() -> Framing:
        """Packets of an MPEG transport stream."""

@final
class ByTag:
    """Order of inputs: records leave in the order of a number in each record.

    `tag` gets a record, copied, and returns its tag, or `None`: the record then stays behind the one before
    it. It is called on the thread of the stream, like a handler; an exception ends the stream. A record waits
    until every input has one or has ended, but at most `window` records of about `waiting_bytes` bytes wait.
    Records whose tag is smaller than one that has left are dropped, or leave at once (`late="pass"`).
    """

    def __init__(
        self,
        tag: Callable[[bytes], int | None],
        *,
        window: int = 1024,
        waiting_bytes: int = 1 << 20,
        late: Literal["drop", "pass"] = "drop",
    ) -> None: ...

@final
class JoinByKey:
    """Order of inputs: records with the same key, one of each input, become one, in the order of inputs.

    `key` is a function like that of `ByTag`. A record without a key is dropped, and so is one whose others do
    not come while it waits.
    """

    def __init__(
        self,
        key: Callable[[bytes], int | None],
        *,
        window: int = 1024,
        waiting_bytes: int = 1 << 20,
    ) -> None: ...

@final
class Option:
    """Option of a stream or of an output."""

    key: str
    value: str
    """A number, `none`, or a word."""
    unit: str
    """Unit of a number: `bytes/s`; or empty."""
    may_change: bool
    """False if the option is fixed."""

@final
class Status:
    """Status of a stream."""

    bytes_in: int
    records_in: int
    """Records that were begun; a stream of bytes without framing is one."""
    zero_copy_bytes: int
    bytes_out: int
    bytes_pending: int
    """Bytes that were read and not yet given to outputs."""
    bytes_dropped: int
    """Bytes that were read and lost."""
    inputs: int
    """Inputs that have not ended."""
    outputs: int
    """Outputs that are not gone."""

@final
class Event:
    """Event of a stream, which goes on."""

    kind: str
    """`input-gone`, `input-failed`, `output-gone`, `output-failed`, `record-refused`, …"""
    port: int | None
    """The input or output, if it is of one."""
    text: str
    """Its name, and what failed."""

@final
class Stream:
    """Records on their way from inputs through handlers to outputs.

    Inputs, outputs and handlers are added, and handlers and options changed, before the start or while the
    stream runs. A change of a running stream is made by its thread; if a handler holds that, the method
    raises `TimeoutError`, after 10 seconds if it has no `timeout`, and the change is still made later.
    `StreamError` says that the stream has ended, `ValueError` that there is no such port, handler or option.
    A stream in which the library panics has failed: from then on its methods raise `StreamError` with the
    message of the panic. Dropping a stream stops it.
    """

    def __init__(
        self,
        *,
        order: Literal["round-robin", "arrival"] | ByTag | JoinByKey = "round-robin",
        pattern: Literal["stripe", "mirror", "capacity"] = "stripe",
    ) -> None: ...
    def input(
        self, source: int | HasFileno | Buffer, framing: Framing = ..., *, name: str | None = None
    ) -> int:
        """Attaches an input, and returns its port: a descriptor (connected socket, pipe, terminal, or file
        from its offset on), or bytes in memory.

        The stream has a duplicate of the descriptor; close your own, or the end of a pipe or connection may
        never be seen. A socket is put into non-blocking mode.
        """

    def output(self, sink: int | HasFileno, *, name: str | None = None) -> int:
        """Attaches an output, and returns its port. What a file of Python has buffered is written first."""

    def detach(self, port: int, timeout: float = 10.0) -> None:
        """Detaches an input or output of a running stream, and waits until it is detached.

        That is behind the current record; for an output, when all that waits for it has left. Then its
        duplicate of the descriptor is closed. What was read from an input and not used is lost.
        """

    @overload
    def handler(
        self,
        function: Callable[[memoryview], Buffer | bool | None],
        *,
        name: str | None = None,
        whole: int | None = 1 << 20,
        control: Callable[[bytes], Buffer | None] | None = None,
        output: int | None = None,
        trust_below: int | None = None,
    ) -> int:
        """Adds a function that sees each record, behind the others, and returns the handler's number.

        The record is a read-only view of the memory in which it was read; it stays valid as long as it is
        kept, and so does the block that it lies in. The function returns `None` or `True` to pass the record,
        `False` to drop it, or bytes that go on in its place (`bytes` without a copy, other buffers with one).

        An exception ends the stream, and is raised again by `wait`. Records of up to `whole` bytes are given
        whole, longer ones are an error; with `whole=None` a long record is given in pieces as they come. A
        handler may call `stop`, and no method that waits for a stream.

        `control` gets the messages of the method `control`, and returns the answer; without it they are
        refused. With `output`, a port, the handler is one of this output; with `trust_below`, 1 to 100, it is
        in force while the trust in the output's peer is below that (`set_trust`).
        """

    @overload
    def handler(
        self,
        function: Callable[[bytes], bool | None],
        *,
        peek: int,
        name: str | None = None,
        control: Callable[[bytes], Buffer | None] | None = None,
        output: int | None = None,
        trust_below: int | None = None,
    ) -> int:
        """Adds a function that sees the first `peek` bytes (1 to 16384) of each record, copied, or all of a
        shorter one, and returns the handler's number.

        The function passes or drops the record. Where this is the only handler, the other bytes of large
        records move inside the kernel.
        """

    def remove_handler(self, handler: int, timeout: float = 10.0) -> None:
        """Removes a handler by its number, between two records; after that its function is not called."""

    def replace_handler(
        self,
        handler: int,
        function: Callable[..., Buffer | bool | None],
        timeout: float = 10.0,
        *,
        name: str | None = None,
        whole: int | None = 1 << 20,
        peek: int | None = None,
        control: Callable[[bytes], Buffer | None] | None = None,
    ) -> None:
        """Has a new handler, described as for `handler`, take the place and the number of another, between
        two records."""

    def control(self, handler: int, message: Buffer, timeout: float = 10.0) -> bytes:
        """Gives a message of at most 64 KiB to the `control` function of a handler, between two records, and
        returns its answer.

        Raises `Refused` if the handler refuses the message. Any other exception of the function ends the
        stream, and is raised again by `wait`; this method then raises `StreamError`.
        """

    def options(self) -> list[Option]:
        """Options of the stream: `rate` and `burst` of what it reads, `stall`, and others."""

    def set_option(self, key: str, value: str | int | None) -> None:
        """Sets an option at once; `None` is the value `none`. `RuntimeError` if the option is fixed."""

    def output_options(self, output: int) -> list[Option]:
        """Options of an output, by its port: `waiting-bytes`, `when-full` and `trust`."""

    def set_output_option(self, output: int, key: str, value: str | int | None) -> None:
        """Sets an option of an output, from the next record on."""

    def set_trust(self, output: int, trust: int) -> None:
        """Sets the trust in the peer of an output, 0 to 100; it begins with 100.

        Handlers that were added with a greater `trust_below` are in force from the next record on, those with
        a smaller or equal one up to the end of the current record.
        """

    def start(self) -> None:
        """Starts the stream on a thread of its own."""

    def stop(self) -> None:
        """Stops the stream: bytes that were read and have not left are lost."""

    def wait(self, timeout: float | None = None) -> Status:
        """Waits until the stream has ended well, and returns its last status.

        Raises the exception of a handler, `StreamError`, `StreamStopped`, or `TimeoutError` after `timeout`
        seconds.
        """

    def status(self, timeout: float = 10.0) -> Status:
        """Status so far. The stream's thread answers; `TimeoutError` if a handler holds it for so long."""

    def fileno(self) -> int:
        """Descriptor for `selectors`, `asyncio` or `select.poll`, from the start of the stream on: readable
        while an event waits, and from the end of the stream on. Nothing is to be read from it."""

    def events(self) -> list[Event]:
        """Takes the events that wait, at most 1,024; later ones are lost."""

    def has_ended(self) -> bool:
        """Returns whether the stream has ended."""
