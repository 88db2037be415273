"""Merges the samples of two sensors, drops quiet records by NumPy, and mirrors the others to two files.

    python merge.py FIRST SECOND COPY OTHER_COPY

A record is 256 samples of four bytes (float32, little-endian). NumPy sees it where the stream has read it.
"""

import sys

import numpy as np
import wirepath

RECORD_BYTES = 256 * 4


def is_loud(record: memoryview) -> bool:
    samples = np.frombuffer(record, dtype="<f4")  # no copy
    return bool(np.abs(samples).max() > 0.5)


def main(first: str, second: str, copy: str, other: str) -> None:
    stream = wirepath.Stream(order="round-robin", pattern="mirror")
    stream.handler(is_loud)
    for path in (first, second):
        with open(path, "rb") as source:
            stream.input(source, wirepath.Framing.fixed(RECORD_BYTES), name=path)
    for path in (copy, other):
        with open(path, "wb") as sink:
            stream.output(sink, name=path)
    stream.start()
    print(stream.wait())


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit("usage: python merge.py FIRST SECOND COPY OTHER_COPY")
    main(*sys.argv[1:])
