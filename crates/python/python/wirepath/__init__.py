"""Streams of records between sockets, pipes and files, with handlers that see them without a copy."""

from wirepath._wirepath import (
    Event,
    Framing,
    Status,
    Stream,
    StreamError,
    StreamStopped,
    __version__,
)

__all__ = ["Event", "Framing", "Status", "Stream", "StreamError", "StreamStopped", "__version__"]
