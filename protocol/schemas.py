"""The schemas of Kafka's messages, which `scripts/protocol-schemas` extracts from Kafka's own files.

`schemas.json` has one or two layouts for each message: that of Kafka 4.1, and that of Kafka 2.8 for versions that
Kafka 4 removed, because clients of the last ten years send them. A field is there in versions `versions`, as a tagged
field (KIP-482) in versions `tagged`, and may be null in versions `nullable`; all of them are ranges with both ends.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NEVER = (0, -1)
"""The range of versions that is empty."""


@dataclass(frozen=True, slots=True)
class SchemaField:
    """One field of a message or struct. `type`: a primitive of Kafka's, or "struct" with `fields` and `struct`."""

    name: str
    type: str
    versions: tuple[int, int]
    is_array: bool = False
    nullable: tuple[int, int] = NEVER
    tagged: tuple[int, int] = NEVER
    tag: int = -1
    default: object = None
    is_ignorable: bool = False
    is_flexible: bool = True
    struct: str = ""
    fields: tuple[SchemaField, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """The fields of a message in a range of versions; from `flexible` on, lengths are varints and structs have tags."""

    versions: tuple[int, int]
    flexible: int
    fields: tuple[SchemaField, ...]


@dataclass(frozen=True, slots=True)
class Schema:
    """A message. `key`: its API key; for headers -1, for records of internal topics the type of the record."""

    name: str
    key: int
    layouts: tuple[Layout, ...]
    is_record: bool = False

    @property
    def module(self) -> str:
        """The module of this package that has its class."""
        return "records" if self.is_record else "messages"

    @property
    def versions(self) -> tuple[int, int]:
        """The first and the last version."""
        return min(each.versions[0] for each in self.layouts), max(each.versions[1] for each in self.layouts)

    def layout(self, version: int) -> Layout:
        """Return the layout of a version; KeyError if there is none."""
        for each in self.layouts:
            if includes(each.versions, version):
                return each
        raise KeyError(f"{self.name} has no version {version}")


def includes(versions: tuple[int, int], version: int) -> bool:
    return versions[0] <= version <= versions[1]


@functools.cache
def schema(name: str) -> Schema:
    """Return the schema of a message, such as `FetchRequest`; KeyError if there is none."""
    entry = _entries()[name]
    layouts = tuple(_layout(layout) for layout in entry["layouts"])
    return Schema(name, entry["key"], layouts, entry.get("is_record", False))


def schema_names() -> list[str]:
    """Return the names of all messages, sorted."""
    return sorted(_entries())


@functools.cache
def _entries() -> dict[str, Any]:
    with open(os.path.join(os.path.dirname(__file__), "schemas.json"), encoding="utf-8") as file:
        entries: dict[str, Any] = json.load(file)
    return entries


def _layout(entry: Sequence[Any]) -> Layout:
    (first, last), flexible, fields = entry
    return Layout((first, last), flexible, tuple(_field(field) for field in fields))


def _field(entry: Mapping[str, Any]) -> SchemaField:
    ranges = {name: tuple(entry[name]) for name in ("versions", "nullable", "tagged") if name in entry}
    return SchemaField(**{**entry, **ranges, "fields": tuple(_field(field) for field in entry.get("fields", ()))})
