"""The output formats of a dump: the text of Kafka's tool, or JSON with one object per line.

An entry is a list of names, in Kafka's spelling, and values:

    offset: 33 position: 4103
    {"file": "orders-0/00000000000000000000.index", "offset": 33, "position": 4103}

In JSON the names are in `snake_case`, and text for human readers is omitted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from offsetfs.storage.dump.lines import LineBuffer

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
