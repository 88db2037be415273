"""Streams of records between sockets, pipes and files, with handlers that see them without a copy."""

from wirepath._wirepath import (
    ByTag,
    Event,
    Framing,
    JoinByKey,
    Option,
    Refused,
    Status,
    Stream,
    StreamError,
    StreamStopped,
    __version__,
)

__all__ = [
    "ByTag",
    "Event",
    "Framing",
    "JoinByKey",
    "Option",
    "Refused",
    "Status",
    "Stream",
    "StreamError",
    "StreamStopped",
    "__version__",
]
