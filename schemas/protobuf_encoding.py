"""JSON as people write it, into values of Protobuf: the other way of the decoder.

    ProtobufEncoder(message).encoded({"id": 7, "at": "2026-12-01T10:30:00Z", "before": None})     →     bytes

Each value has the form in which the decoder shows it (`protobuf_arrow`): an enum is its name or its number, a time
ISO 8601, a wrapper its value, a Struct an object or JSON text, a message within itself bytes or an object. A null, and
a field that is missing, are absent. What does not fit is `DoesNotFit`: nothing is rounded or cut. Repeated numbers are
packed, which parsers of all versions since 2.3 read.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from decimal import Decimal

from offsetfs.schemas.given_values import (
    DoesNotFit,
    bytes_of,
    checked_kind,
    read_json,
    real,
    shown,
    timestamp,
    utf8,
    within,
)
from offsetfs.schemas.protobuf_arrow import is_leaf, well_known
from offsetfs.schemas.protobuf_program import Form, ProtobufShape, compiled
from offsetfs.schemas.protobuf_schema import FieldType, MessageType, ProtobufEnum, ProtoField
from offsetfs.schemas.protobuf_wire import FIXED32, FIXED64, LENGTH, VARINT, Damaged, check_message, varint_bytes

DEPTH_MAX = 100
"""Messages within each other, as Google's libraries read them."""

_GROUP_START, _GROUP_END = 3, 4
_INTEGERS = {
    "int32": (32, True), "sint32": (32, True), "sfixed32": (32, True), "uint32": (32, False), "fixed32": (32, False),
    "int64": (64, True), "sint64": (64, True), "sfixed64": (64, True), "uint64": (64, False), "fixed64": (64, False),
}  # fmt: skip
_FIXED = {"fixed32": "<I", "sfixed32": "<i", "fixed64": "<Q", "sfixed64": "<q"}
_WIRES = {
    **dict.fromkeys(("fixed32", "sfixed32", "float"), FIXED32),
    **dict.fromkeys(("fixed64", "sfixed64", "double"), FIXED64),
    **dict.fromkeys(("string", "bytes"), LENGTH),
}
_DIGITS = re.compile(r"-?(?:0|[1-9]\d{0,19})\Z", re.ASCII)
_DURATION = re.compile(r"(?:PT)?(-?)(\d{1,12})(?:\.(\d{1,9}))?[Ss]\Z", re.ASCII)
_DURATION_MAX = 315_576_000_000
_SECOND = 1_000_000_000


class ProtobufEncoder:
    """Encodes messages of one type."""

    def __init__(self, message: MessageType) -> None:
        """`SchemasDiffer` if the decoder does not read the type."""
        self._shape = compiled(message, message).shape
        self._raw: dict[str, ProtobufShape] = {}

    def encoded(self, value: object) -> bytes:
        """Return an object of JSON as a message. `DoesNotFit`."""
        return self._message(self._shape, value, "", 0)

    def _message(self, shape: ProtobufShape, value: object, place: str, depth: int) -> bytes:
        if depth > DEPTH_MAX:
            raise DoesNotFit(place, "messages are nested too deeply")
        assert isinstance(shape.type, MessageType)
        members = _named(shape.type, checked_kind(dict, value, "an object", place), place)
        made, chosen = bytearray(), dict[str, str]()
        for field, child in zip(shape.type.fields, shape.children, strict=True):
            inner, given = within(place, field.name), members.get(field.name)
            if given is None:
                if field.is_required:
                    raise DoesNotFit(inner, "is missing, and the schema requires it")
                continue
            if field.oneof and chosen.setdefault(field.oneof, field.name) != field.name:
                raise DoesNotFit(inner, f"{chosen[field.oneof]} is there, too: of {field.oneof}, one can be")
            made += self._field(field, child, given, inner, depth)
        return bytes(made)

    def _field(self, field: ProtoField, shape: ProtobufShape, value: object, place: str, depth: int) -> bytes:
        if field.is_map:
            members = checked_kind(dict, value, "an object", place)
            entry = shape.children[0]
            return b"".join(
                _in_field(field, self._entry(entry, name, item, within(place, name), depth))
                for name, item in members.items()
            )
        if field.is_repeated:
            items = checked_kind(list, value, "a list", place)
            return self._items(field, shape.children[0], items, place, depth)
        content = self._value(shape, value, place, depth)
        return _in_field(field, content) if field.has_presence or any(content) else b""

    def _items(self, field: ProtoField, shape: ProtobufShape, items: list[object], place: str, depth: int) -> bytes:
        made = [self._value(shape, item, f"{place}[{at}]", depth) for at, item in enumerate(items)]
        if not made or _wire(field.type) == LENGTH:
            return b"".join(_in_field(field, content) for content in made)
        return _tag(field.number, LENGTH) + _sized(b"".join(made))

    def _entry(self, shape: ProtobufShape, name: str, value: object, place: str, depth: int) -> bytes:
        """Return the entry of a map."""
        assert isinstance(shape.type, MessageType)
        key, item = shape.type.fields
        made = _in_field(key, _scalar(key.type, _key(key.type, name, place), place))
        return made + _in_field(item, self._value(shape.children[1], value, place, depth + 1))

    def _value(self, shape: ProtobufShape, value: object, place: str, depth: int) -> bytes:
        """Return a value without its tag, and without its size if it is a message."""
        kind = shape.type
        if not isinstance(kind, MessageType):
            return _scalar(kind, value, place)
        if shape.form == Form.JSON:
            return _of_json(kind.name, value, place, depth + 1)
        if shape.form == Form.RAW:
            return self._of_raw(kind, value, place, depth)
        if not is_leaf(shape):
            return self._message(shape, value, place, depth + 1)
        if well_known(shape) in _MOMENTS:
            return _moment(*_MOMENTS[well_known(shape)](value, place))
        (inner,) = kind.fields
        content = _scalar(inner.type, value, place)
        return _in_field(inner, content) if any(content) else b""

    def _of_raw(self, kind: MessageType, value: object, place: str, depth: int) -> bytes:
        """Return a message that the decoder shows as bytes; it may be an object as well."""
        if isinstance(value, dict) and not (len(value) == 1 and isinstance(value.get("b64"), str)):
            shape = self._raw.get(kind.name)
            if shape is None:
                shape = self._raw[kind.name] = compiled(kind, kind).shape
            return self._message(shape, value, place, depth + 1)
        data = bytes_of(value, place)
        try:
            check_message(data)
        except Damaged as error:
            raise DoesNotFit(place, f"the bytes are no message: {error}") from None
        return data


def _named(kind: MessageType, members: Mapping[str, object], place: str) -> Mapping[str, object]:
    """Return the members by the names of fields: bytes that are no text have `_b64` behind theirs."""
    names = {field.name for field in kind.fields}
    made = dict[str, object]()
    for name, value in members.items():
        plain = name.removesuffix("_b64")
        if name in names:
            made[name] = value
        elif plain in names and plain not in members:
            made[plain] = {"b64": value}
        else:
            raise DoesNotFit(within(place, name), "the schema has no such field")
    return made


# --- the wire format -------------------------------------------------------------------------------------------------


def _wire(kind: FieldType) -> int:
    if isinstance(kind, MessageType):
        return LENGTH
    return VARINT if isinstance(kind, ProtobufEnum) else _WIRES.get(kind, VARINT)


def _tag(number: int, wire: int) -> bytes:
    return varint_bytes(number << 3 | wire)


def _sized(data: bytes) -> bytes:
    return varint_bytes(len(data)) + data


def _in_field(field: ProtoField, content: bytes) -> bytes:
    if field.is_delimited:
        return _tag(field.number, _GROUP_START) + content + _tag(field.number, _GROUP_END)
    is_message = isinstance(field.type, MessageType)
    return _tag(field.number, _wire(field.type)) + (_sized(content) if is_message else content)


def _moment(seconds: int, nanos: int) -> bytes:
    """Return a Timestamp or a Duration."""
    made = b"\x08" + varint_bytes(seconds & 0xFFFFFFFFFFFFFFFF) if seconds else b""
    return made + (b"\x10" + varint_bytes(nanos & 0xFFFFFFFFFFFFFFFF) if nanos else b"")


# --- values without parts --------------------------------------------------------------------------------------------


def _scalar(kind: FieldType, value: object, place: str) -> bytes:
    """Return a value as it stands behind its tag."""
    if isinstance(kind, ProtobufEnum):
        return varint_bytes(_symbol(kind, value, place) & 0xFFFFFFFFFFFFFFFF)
    assert isinstance(kind, str)
    if kind == "bool":
        return b"\1" if checked_kind(bool, value, "true or false", place) else b"\0"
    if kind in ("float", "double"):
        return real(kind, value, place)
    if kind == "string":
        return _sized(utf8(checked_kind(str, value, "text", place), place))
    if kind == "bytes":
        return _sized(bytes_of(value, place))
    number = _whole(kind, value, place)
    if kind in _FIXED:
        return struct.pack(_FIXED[kind], number)
    if kind.startswith("s"):
        number = number << 1 if number >= 0 else (-number << 1) - 1
    return varint_bytes(number & 0xFFFFFFFFFFFFFFFF)


def _whole(kind: str, value: object, place: str) -> int:
    if isinstance(value, Decimal) and value.is_signed() and not value:
        return 0  # -0
    if not isinstance(value, int) or isinstance(value, bool):
        raise DoesNotFit(place, f"{shown(value)} is not a whole number")
    bits, is_signed = _INTEGERS[kind]
    if not (-1 << bits - 1 if is_signed else 0) <= value < 1 << bits - is_signed:
        raise DoesNotFit(place, f"{shown(value)} is out of the range of {kind}")
    return value


def _symbol(kind: ProtobufEnum, value: object, place: str) -> int:
    number = kind.numbers.get(value) if isinstance(value, str) else value
    if number is None and isinstance(value, str) and _DIGITS.match(value):
        number = int(value)
    if not isinstance(number, int) or isinstance(number, bool):
        names = ", ".join(list(kind.numbers)[:20])
        raise DoesNotFit(place, f"{shown(value)} is not one of {names}, or a number")
    return _whole("int32", number, place)


def _key(kind: FieldType, name: str, place: str) -> object:
    """Return the key of a map, which JSON has as text."""
    if kind == "string":
        return name
    if kind == "bool":
        if name not in ("true", "false"):
            raise DoesNotFit(place, f"the key {shown(name)} is not true or false")
        return name == "true"
    if not _DIGITS.match(name) or name == "-0":
        raise DoesNotFit(place, f"the key {shown(name)} is not a whole number")
    return int(name)


# --- well-known types ------------------------------------------------------------------------------------------------


def _timestamp(value: object, place: str) -> tuple[int, int]:
    text = checked_kind(str, value, "a time in ISO 8601", place)
    try:
        return divmod(timestamp(text, "nanos", is_local=False), _SECOND)
    except ValueError:
        raise DoesNotFit(place, f"{shown(value)} is not a time in ISO 8601") from None


def _duration(value: object, place: str) -> tuple[int, int]:
    match = _DURATION.match(value) if isinstance(value, str) else None
    if match is None:
        raise DoesNotFit(place, f"{shown(value)} is not a duration, such as PT3.5S")
    sign = -1 if match[1] else 1
    seconds, nanos = int(match[2]), int((match[3] or "0").ljust(9, "0"))
    if seconds > _DURATION_MAX:
        raise DoesNotFit(place, f"{shown(value)} is longer than 10000 years")
    return sign * seconds, sign * nanos


_MOMENTS = {"google.protobuf.Timestamp": _timestamp, "google.protobuf.Duration": _duration}


def _of_json(name: str, value: object, place: str, depth: int) -> bytes:
    """Return a Struct, a Value or a ListValue of JSON text, or of JSON but text."""
    if isinstance(value, str):
        try:
            value = read_json(value.encode())
        except (ValueError, RecursionError):
            raise DoesNotFit(place, f"{shown(value)} is not JSON") from None
    if name.endswith(".Struct"):
        return _struct(checked_kind(dict, value, "an object", place), place, depth)
    if name.endswith(".ListValue"):
        return _list(checked_kind(list, value, "a list", place), place, depth)
    return _json_value(value, place, depth)


def _struct(members: Mapping[str, object], place: str, depth: int) -> bytes:
    entries = (
        b"\x0a" + _sized(utf8(name, place)) + b"\x12" + _sized(_json_value(value, within(place, name), depth + 2))
        for name, value in members.items()
    )
    return b"".join(b"\x0a" + _sized(entry) for entry in entries)


def _list(items: list[object], place: str, depth: int) -> bytes:
    values = (_json_value(item, f"{place}[{at}]", depth + 1) for at, item in enumerate(items))
    return b"".join(b"\x0a" + _sized(value) for value in values)


def _json_value(value: object, place: str, depth: int) -> bytes:
    if depth > DEPTH_MAX:
        raise DoesNotFit(place, "values are nested too deeply")
    match value:
        case None:
            return b"\x08\0"
        case bool():
            return b"\x20\1" if value else b"\x20\0"
        case str():
            return b"\x1a" + _sized(utf8(value, place))
        case dict():
            return b"\x2a" + _sized(_struct(value, place, depth + 1))
        case list():
            return b"\x32" + _sized(_list(value, place, depth + 1))
    return b"\x11" + real("double", value, place)
