"""Descriptors of `.proto` files, as `protoc --descriptor_set_out` and registries store them: read without a library.

Field numbers are those of google/protobuf/descriptor.proto.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

from offsetfs.schemas.protobuf_declarations import (
    DECLARATIONS_MAX,
    DEPTH_MAX,
    FILE_BYTES_MAX,
    NUMBER_MAX,
    EnumDeclaration,
    Features,
    FieldDeclaration,
    FileDeclaration,
    InvalidProto,
    MessageDeclaration,
    has_presence,
    is_required,
)
from offsetfs.schemas.protobuf_wire import LENGTH, VARINT, Damaged, fields_of

_TYPES = (
    "", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "", "", "bytes",
    "uint32", "", "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip
_GROUP, _MESSAGE, _ENUM = 10, 11, 14
_REQUIRED, _REPEATED = 2, 3
_PRESENCE = {1: "EXPLICIT", 2: "IMPLICIT", 3: "LEGACY_REQUIRED"}
_ENCODING = {1: "LENGTH_PREFIXED", 2: "DELIMITED"}

_META, _META_TAGS = 1088, 3
"""The options `confluent.field_meta` and `message_meta`, and what they have."""

_Found = dict[int, list[int | bytes]]


def descriptor_bytes(text: str) -> bytes | None:
    """Return the bytes of a descriptor that is stored as base64; None if the text is something else."""
    if len(text) < 4 or len(text) > 2 * FILE_BYTES_MAX:
        return None
    try:
        return base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return None


def parsed_descriptors(data: bytes) -> list[FileDeclaration]:
    """Return the files of a FileDescriptorSet, or the one of a FileDescriptorProto. `InvalidProto`."""
    if len(data) > FILE_BYTES_MAX:
        raise InvalidProto(f"the descriptor has {len(data)} bytes; {FILE_BYTES_MAX} are read")
    try:
        found = _found(data)
        return [_file(inner) for inner in _set(found)] if _is_set(found) else [_file(data)]
    except Damaged as error:
        raise InvalidProto(f"the descriptor is damaged: {error}") from None


def _is_set(found: _Found) -> bool:
    """Return whether this is a set: a file has messages or a syntax, and its name is no message."""
    if set(found) != {1} or not all(isinstance(inner, bytes) for inner in found[1]):
        return False
    try:
        return all(_text(_found(inner), 1) for inner in _set(found))
    except (Damaged, InvalidProto):
        return False


def _set(found: _Found) -> Iterator[bytes]:
    return (inner for inner in found.get(1, ()) if isinstance(inner, bytes))


def _found(data: bytes) -> _Found:
    found: _Found = {}
    for number, wire, value in fields_of(data):
        if (wire == VARINT and isinstance(value, int)) or (wire == LENGTH and isinstance(value, bytes)):
            found.setdefault(number, []).append(value)
    return found


def _text(found: _Found, number: int) -> str:
    value = found.get(number, [b""])[-1]
    if not isinstance(value, bytes):
        raise InvalidProto("the descriptor has a number in place of a text")
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise InvalidProto("the descriptor has a text that is not UTF-8") from None


def _number(found: _Found, number: int, default: int = 0) -> int:
    value = found.get(number, [default])[-1]
    if not isinstance(value, int):
        raise InvalidProto("the descriptor has a text in place of a number")
    return value


def _messages(found: _Found, number: int) -> Iterator[_Found]:
    for value in found.get(number, ()):
        if isinstance(value, bytes):
            yield _found(value)


def _features(found: _Found, options: int, number: int, inherited: Features) -> Features:
    """Return the features of a declaration, whose options have them in field `number`."""
    made = dict(inherited)
    for given in _messages(found, options):
        for features in _messages(given, number):
            if (presence := _PRESENCE.get(_number(features, 1))) is not None:
                made["field_presence"] = presence
            if (encoding := _ENCODING.get(_number(features, 5))) is not None:
                made["message_encoding"] = encoding
    return made


def _tags(found: _Found, options: int) -> frozenset[str]:
    """Return the tags of a declaration."""
    metas = (meta for given in _messages(found, options) for meta in _messages(given, _META))
    tags = (tag for meta in metas for tag in meta.get(_META_TAGS, ()))
    return frozenset(tag.decode("utf-8", "replace") for tag in tags if isinstance(tag, bytes))


def _file(data: bytes) -> FileDeclaration:
    found = _found(data)
    reader = _Reader(_text(found, 12) or "proto2", _text(found, 1))
    features = _features(found, 8, 50, {})
    made = FileDeclaration(_text(found, 1), _text(found, 2), reader.syntax, is_text=False)
    made.imports = [value.decode("utf-8", "replace") for value in found.get(3, ()) if isinstance(value, bytes)]
    made.messages = [reader.message(message, features, 0) for message in _messages(found, 4)]
    made.enums = [reader.enum(enum) for enum in _messages(found, 5)]
    return made


class _Reader:
    def __init__(self, syntax: str, file: str) -> None:
        if syntax not in ("proto2", "proto3", "editions"):
            raise InvalidProto(f"{file} has the syntax {syntax!r}, which is not known")
        self.syntax = syntax
        self._count = 0

    def _counted(self) -> None:
        self._count += 1
        if self._count > DECLARATIONS_MAX:
            raise InvalidProto(f"the schema has more than {DECLARATIONS_MAX} declarations")

    def message(self, found: _Found, inherited: Features, depth: int) -> MessageDeclaration:
        self._counted()
        made = MessageDeclaration(_text(found, 1))
        if depth >= DEPTH_MAX:
            raise InvalidProto(f"{made.name} is nested too deeply")
        features = _features(found, 7, 12, inherited)
        made.tags = _tags(found, 7)
        made.is_map_entry = any(_number(options, 7) for options in _messages(found, 7))
        oneofs = [(_text(oneof, 1), _features(oneof, 2, 1, features)) for oneof in _messages(found, 8)]
        made.fields = [self._field(field, made, oneofs, features) for field in _messages(found, 2)]
        made.messages = [self.message(message, features, depth + 1) for message in _messages(found, 3)]
        made.enums = [self.enum(enum) for enum in _messages(found, 4)]
        return made

    def _field(
        self, found: _Found, message: MessageDeclaration, oneofs: list[tuple[str, Features]], inherited: Features
    ) -> FieldDeclaration:
        self._counted()
        name, number, kind = _text(found, 1), _number(found, 3), _number(found, 5)
        place = f"{message.name}.{name}"
        if not 1 <= number <= NUMBER_MAX:
            raise InvalidProto(f"{place} has the field number {number}; it is between 1 and {NUMBER_MAX}")
        oneof = ""
        if 9 in found and not _number(found, 17):  # an optional field of proto3 has a oneof of its own
            at = _number(found, 9)
            if not 0 <= at < len(oneofs):
                raise InvalidProto(f"{place} is in a oneof that does not exist")
            oneof, inherited = oneofs[at]
        features = _features(found, 8, 21, inherited)
        named = kind in (_GROUP, _MESSAGE, _ENUM)
        if not named and not (0 < kind < len(_TYPES) and _TYPES[kind]):
            raise InvalidProto(f"{place} has the type {kind}, which is not known")
        made = FieldDeclaration(name, number, _text(found, 6) if named else _TYPES[kind], place, oneof=oneof)
        made.tags = _tags(found, 8)
        label = _number(found, 4, 1)
        made.is_repeated = label == _REPEATED
        is_optional = bool(_number(found, 17)) or self.syntax == "proto2"
        made.has_presence = has_presence(self.syntax, "optional" if is_optional else "", oneof, features)
        word = "required" if label == _REQUIRED else ""
        made.is_required = not made.is_repeated and is_required(self.syntax, word, features)
        is_delimited = self.syntax == "editions" and features.get("message_encoding") == "DELIMITED"
        made.is_delimited = kind == _GROUP or (is_delimited and kind == _MESSAGE)
        return made

    def enum(self, found: _Found) -> EnumDeclaration:
        made = EnumDeclaration(_text(found, 1))
        for value in _messages(found, 2):
            self._counted()
            number = _number(value, 2) & 0xFFFFFFFF
            made.values.append((_text(value, 1), number - (number >> 31 << 32)))
        return made
