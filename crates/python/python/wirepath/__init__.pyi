"""Streams of records between sockets, pipes and files, with handlers that see them without a copy.

A stream reads records from its inputs in an order, has handlers see them, and gives them to its outputs by a
pattern. It runs on a thread of its own, without the interpreter but in handlers.
"""

from collections.abc import Buffer, Callable
from typing import Literal, Protocol, final

__version__: str

class HasFileno(Protocol):
    def fileno(self) -> int: ...

class StreamError(Exception):
    """A stream ended with an error."""

class StreamStopped(StreamError):
    """A stream was stopped."""

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

    Inputs, outputs and handlers are added before the start or while the stream runs. Dropping a stream stops
    it.
    """

    def __init__(
        self,
        *,
        order: Literal["round-robin", "arrival"] = "round-robin",
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

    def handler(
        self,
        function: Callable[[memoryview], Buffer | bool | None],
        *,
        name: str | None = None,
        whole: int | None = 1 << 20,
    ) -> None:
        """Adds a function that sees each record, behind the others.

        The record is a read-only view of the memory in which it was read; it stays valid as long as it is
        kept, and so does the block that it lies in. The function returns `None` or `True` to pass the record,
        `False` to drop it, or bytes that go on in its place (`bytes` without a copy, other buffers with one).

        An exception ends the stream, and is raised again by `wait`. Records of up to `whole` bytes are given
        whole, longer ones are an error; with `whole=None` a long record is given in pieces as they come. A
        handler may call `stop`, and no method that waits for a stream.
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
