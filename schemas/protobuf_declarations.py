"""What a `.proto` file declares, before names are resolved: the common form of its text and of its descriptor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SCALARS = frozenset((
    "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32",
    "sfixed64", "bool", "string", "bytes",
))  # fmt: skip

FILE_BYTES_MAX = 4 << 20
"""The size of a file: protects memory and time."""

DEPTH_MAX = 32
"""Messages declared within each other, as protoc limits them."""

DECLARATIONS_MAX = 100_000
"""Messages, fields and values of enums of a file."""

NUMBER_MAX = (1 << 29) - 1
"""The largest number of a field."""


class InvalidProto(ValueError):
    """Not a `.proto` file, or not its descriptor. The message names the line or the declaration."""


@dataclass(slots=True)
class FieldDeclaration:
    """A field of a message. `place` is what an error names."""

    name: str
    number: int
    type: str
    """One of `SCALARS`, or a name; with a dot in front it is a full name."""
    place: str
    is_repeated: bool = False
    has_presence: bool = False
    """Of a scalar or an enum: whether an absent value differs from its default. Messages always have presence."""
    is_delimited: bool = False
    """A message between tags: a group."""
    oneof: str = ""
    is_required: bool = False
    tags: frozenset[str] = frozenset()
    """Those of Confluent, in the option `confluent.field_meta`."""


@dataclass(slots=True)
class EnumDeclaration:
    name: str
    values: list[tuple[str, int]] = field(default_factory=list)


@dataclass(slots=True)
class MessageDeclaration:
    """A message. `messages` are in the order of protoc: entries of maps and groups stand where their fields do."""

    name: str
    fields: list[FieldDeclaration] = field(default_factory=list)
    messages: list[MessageDeclaration] = field(default_factory=list)
    enums: list[EnumDeclaration] = field(default_factory=list)
    is_map_entry: bool = False
    is_group: bool = False
    tags: frozenset[str] = frozenset()
    """Those of the option `confluent.message_meta`."""


@dataclass(slots=True)
class FileDeclaration:
    """A file."""

    name: str
    package: str = ""
    syntax: str = "proto2"
    """proto2, proto3 or editions."""
    is_text: bool = True
    imports: list[str] = field(default_factory=list)
    messages: list[MessageDeclaration] = field(default_factory=list)
    enums: list[EnumDeclaration] = field(default_factory=list)


Features = Mapping[str, str]
"""The features of editions that change how a value is read: `field_presence`, `message_encoding`."""


def has_presence(syntax: str, label: str, oneof: str, features: Features) -> bool:
    """Return whether an absent scalar differs from its default."""
    if oneof:
        return True
    if syntax == "editions":
        return features.get("field_presence") != "IMPLICIT"
    return syntax == "proto2" or label == "optional"


def is_required(syntax: str, label: str, features: Features) -> bool:
    """Return whether a message without this field is not complete. `label`: empty where a field is repeated."""
    return label == "required" if syntax != "editions" else features.get("field_presence") == "LEGACY_REQUIRED"
