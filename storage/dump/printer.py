"""The output of a dump: a buffer of lines, and its formats: the text of Kafka's tool, or JSON with one object per line.

An entry is a list of names, in Kafka's spelling, and values:

    offset: 33 position: 4103
    {"file": "orders-0/00000000000000000000.index", "offset": 33, "position": 4103}

In JSON the names are in `snake_case`, and text for human readers is omitted. `offsetfs.storage.reference.dump` has the
docstrings of `follow` and `format_records`, which are compiled or in Python.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from offsetfs.storage.native import select
from offsetfs.storage.records.format.record_row import COLUMNS
from offsetfs.storage.reference.dump import Buffer, LineStyle

if TYPE_CHECKING:
    from offsetfs.storage.reference import dump as _dump
else:
    _dump = select("dump")

follow = _dump.follow
format_records = _dump.format_records

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


_CAPITAL = re.compile(r"[A-Z]")


@dataclass(frozen=True, slots=True)
class OptionalLong:
    """An optional number, with Java's text for it."""

    value: int | None

    def __str__(self) -> str:
        return "OptionalLong.empty" if self.value is None else f"OptionalLong[{self.value}]"


class Printer(Protocol):
    """Prints the dumps of indexes and snapshots, and the titles of all files."""

    @property
    def lines(self) -> LineBuffer:
        """The buffer of the output."""
        ...

    def title(self, path: str) -> None:
        """Begin the dump of a file."""
        ...

    def remark(self, text: str) -> None:
        """Print text for human readers, which JSON omits."""
        ...

    def entry(self, fields: Mapping[str, object], end: str = "") -> None:
        """Write one entry; in text, `end` follows it."""
        ...


class TextPrinter:
    """The text of Kafka's tool."""

    def __init__(self, lines: LineBuffer) -> None:
        self.lines = lines

    def title(self, path: str) -> None:
        self.lines.line(f"Dumping {path}")

    def remark(self, text: str) -> None:
        self.lines.line(text)

    def entry(self, fields: Mapping[str, object], end: str = "") -> None:
        self.lines.line(" ".join(f"{name}: {value}" for name, value in fields.items()) + end)


class JsonPrinter:
    """One object a line, each with the file it is from."""

    def __init__(self, lines: LineBuffer) -> None:
        self.lines = lines
        self._path = ""

    def title(self, path: str) -> None:
        self._path = path

    def remark(self, text: str) -> None:
        pass

    def entry(self, fields: Mapping[str, object], end: str = "") -> None:
        named = {_snake_case(name): _plain(value) for name, value in fields.items()}
        self.lines.line(json.dumps({"file": self._path, **named}, ensure_ascii=False))


def _snake_case(name: str) -> str:
    return _CAPITAL.sub(lambda match: f"_{match[0].lower()}", name)


def _plain(value: object) -> object:
    return value.value if isinstance(value, OptionalLong) else value
