"""The schemas of Kafka's messages, which `scripts/protocol-schemas` extracts from Kafka's own files.

`schemas.json` has one or two layouts for each message: that of Kafka 4.4, and that of Kafka 2.8 for versions that
Kafka 4 removed, because clients of the last ten years send them. A field is there in versions `versions`, as a tagged
field (KIP-482) in versions `tagged`, and may be null in versions `nullable`; all of them are ranges with both ends.

The file has a message on each line, and only those that are used are parsed: all of them take 3 MiB of memory.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

_KEY = '{"key":'
"""The begin of each entry."""

NEVER = (0, -1)
"""The range of versions that is empty."""


@dataclass(frozen=True, slots=True)
class SchemaField:
    """One field of a message or struct. `type`: a primitive of Kafka's, or "struct" with `fields` and `struct`.

    The `default` of a struct that may be null is None, or {} for a struct with the defaults of its fields.
    """

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
    """A message. `key`: its API key; for headers -1, for records of internal topics the type of the record.

    `module`: the module of this package that has its class.
    """

    name: str
    key: int
    layouts: tuple[Layout, ...]
    module: str

    @property
    def versions(self) -> tuple[int, int]:
        """The first and the last version."""
        return min(layout.versions[0] for layout in self.layouts), max(layout.versions[1] for layout in self.layouts)

    def layout(self, version: int) -> Layout:
        """Return the layout of a version; KeyError if there is none."""
        for layout in self.layouts:
            if includes(layout.versions, version):
                return layout
        raise KeyError(f"{self.name} has no version {version}")


def includes(versions: tuple[int, int], version: int) -> bool:
    return versions[0] <= version <= versions[1]


class RecordSchemas(NamedTuple):
    """The names of the schemas of key and value of a record; the records of `__cluster_metadata` have no key."""

    key: str | None
    value: str


@functools.cache
def schema(name: str) -> Schema:
    """Return the schema of a message, such as `FetchRequest`; KeyError if there is none."""
    entry = json.loads(_entries()[name])
    layouts = tuple(_layout(layout) for layout in entry["layouts"])
    return Schema(name, entry["key"], layouts, entry.get("module", "messages"))


@functools.cache
def api_names() -> Mapping[int, str]:
    """Return the names of all APIs, such as `Fetch`, by key. Nothing is parsed."""
    requests = ((name, text) for name, text in _entries().items() if name.endswith("Request"))
    return {int(text[len(_KEY) : text.index(",")]): name.removesuffix("Request") for name, text in requests}


def schema_names() -> list[str]:
    """Return the names of all messages, sorted."""
    return sorted(_entries())


@functools.cache
def record_schemas(topic: str) -> Mapping[int, RecordSchemas]:
    """Return the schemas of the records of an internal topic by type, which is the number that their keys begin with.

    The records of `__cluster_metadata` have the type in the value.
    """
    of_topic = (name for name, text in _entries().items() if f'"topic":"{topic}"' in text)
    numbers = {name: int(json.loads(_entries()[name])["key"]) for name in of_topic}
    keys = {number: name for name, number in numbers.items() if name.endswith("Key")}
    values = {number: name for name, number in numbers.items() if not name.endswith("Key")}
    return {number: RecordSchemas(keys.get(number), name) for number, name in values.items()}


def known_version(name: str, version: int) -> int:
    """Return the version, or the next one to the known ones: so what is generated for any number of them is limited."""
    first, last = schema(name).versions
    return max(first, min(version, last + 1))


def camel(name: str) -> str:
    """Return the name of a field as Kafka's JSON has it, such as `leaderEpoch`."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


@functools.cache
def _entries() -> dict[str, str]:
    """Return the schema of each message as JSON, by name."""
    with open(os.path.join(os.path.dirname(__file__), "schemas.json"), encoding="utf-8") as file:
        lines = (line.partition(": ") for line in file)
        return {name.strip('"'): text.rstrip(",\n") for name, separator, text in lines if separator}


def _layout(entry: Sequence[Any]) -> Layout:
    (first, last), flexible, fields = entry
    return Layout((first, last), flexible, tuple(_field(field) for field in fields))


def _field(entry: Mapping[str, Any]) -> SchemaField:
    ranges = {name: tuple(entry[name]) for name in ("versions", "nullable", "tagged") if name in entry}
    return SchemaField(**{**entry, **ranges, "fields": tuple(_field(field) for field in entry.get("fields", ()))})
