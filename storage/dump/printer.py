"""How a dump is written down: as the text of Kafka's tool, or as JSON, one object a line.

An entry is a list of names, in Kafka's spelling, and values:

    offset: 33 position: 4103
    {"file": "orders-0/00000000000000000000.index", "offset": 33, "position": 4103}

In JSON the names are spelled `like_this`, and what is only there for the eye is left out.
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
    """A number that may be missing; Java's text for it."""

    value: int | None

    def __str__(self) -> str:
        return "OptionalLong.empty" if self.value is None else f"OptionalLong[{self.value}]"


class Printer(Protocol):
    """Takes what the dumps of indexes and snapshots have to print, and the titles of all."""

    @property
    def lines(self) -> LineBuffer:
        """Where everything ends up."""
        ...

    def title(self, path: str) -> None:
        """Begin the dump of a file."""
        ...

    def remark(self, text: str) -> None:
        """Say something that a program would not miss."""
        ...

    def entry(self, fields: Mapping[str, object], end: str = "") -> None:
        """Write one entry; `end` stands behind the text of it."""
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
