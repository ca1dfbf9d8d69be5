"""The output buffer of a dump, and the functions that format its lines, compiled or in Python.

`offsetfs.storage.reference.dump` has the docstrings.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING

from offsetfs.storage.native import select
from offsetfs.storage.records.format.record_row import COLUMNS
from offsetfs.storage.reference.dump import Buffer, LineStyle

if TYPE_CHECKING:
    from offsetfs.storage.reference import dump as _dump
else:
    _dump = select("dump")

follow = _dump.follow
format_records = _dump.format_records

__all__ = ["LineBuffer", "LineStyle", "follow", "format_records"]

Write = Callable[[memoryview], object]
"""Writes all the given bytes before it returns; they are overwritten afterwards."""


class LineBuffer:
    """Collects lines and writes them in large pieces. It holds one piece, or one line if that is longer."""

    __slots__ = ("_buffer", "_used", "_write")

    def __init__(self, write: Write, size: int = 1 << 20) -> None:
        self._write = write
        self._buffer = bytearray(size)
        self._used = 0

    def put(self, data: Buffer) -> None:
        """Add bytes: whole lines, or parts of one."""
        if len(data) > len(self._buffer) - self._used:
            self.flush()
        if len(data) > len(self._buffer):
            self._write(memoryview(data))
            return
        self._buffer[self._used : self._used + len(data)] = data
        self._used += len(data)

    def line(self, text: str) -> None:
        """Add a line of text, and a newline."""
        self.put(f"{text}\n".encode("utf-8", "surrogateescape"))

    def records(self, payload: Buffer, rows: array[int], style: LineStyle) -> None:
        """Add the lines of all records in `rows`, the result of `codec.scan` for `payload`."""
        done, count = 0, len(rows) // COLUMNS
        while True:
            done, self._used = format_records(payload, rows, done, style, self._buffer, self._used)
            if done == count:
                return
            if self._used:
                self.flush()
            else:
                self._buffer = bytearray(2 * len(self._buffer))

    def flush(self) -> None:
        """Write the buffered bytes."""
        if self._used:
            used, self._used = self._used, 0
            self._write(memoryview(self._buffer)[:used])
