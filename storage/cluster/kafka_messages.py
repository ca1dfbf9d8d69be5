"""Kafka's generated messages: a description of their fields, and a reader that uses it.

Kafka describes what its internal topics hold in schemas with versions and generates a reader for each. Here a schema is
a `Message` of `Field`s and one reader serves all. Two ways to write them exist:

    plain       strings i16 length, bytes i32 length, arrays i32 count; -1 is null
    flexible    all lengths as unsigned varint of length + 1, 0 is null; each struct ends with tagged fields:
                count, then tag, size, value; unknown tags are skipped

The JSON is that of Kafka's JsonConverters, character for character: declared order, tagged fields only when they are
not the default, bytes in base64, ids in URL-safe base64. Errors have Kafka's texts. Follows KIP-482.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from struct import Struct

from offsetfs.storage.cluster.java_text import decoded

VERSION_MAX = 2**15 - 1
Buffer = bytes | bytearray | memoryview

_NUMBERS = {
    "int8": Struct(">b"),
    "int16": Struct(">h"),
    "uint16": Struct(">H"),
    "int32": Struct(">i"),
    "int64": Struct(">q"),
    "float64": Struct(">d"),
    "bool": Struct(">?"),
}
_STRING_SIZE_MAX = 2**15 - 1
_UUID_SIZE = 16
_VARINT_SIZE_MAX = 5


class MalformedMessage(Exception):
    """Bytes that are no such message; the text is Kafka's."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: a number type, "string", "bytes", "uuid", or the fields of a struct; `many` of them for an array.

    It is there in versions `since` to `until`. With a `tag` only when it is not `default`.
    """

    name: str
    type: str | tuple[Field, ...]
    many: bool = False
    since: int = 0
    until: int = VERSION_MAX
    nullable: bool = False
    tag: int | None = None
    default: object = 0


@dataclass(frozen=True, slots=True)
class Message:
    """A schema: its fields, its last version, and the version from which it is flexible."""

    fields: tuple[Field, ...]
    last_version: int = 0
    flexible_since: int = VERSION_MAX


def read(message: Message, data: Buffer, version: int, position: int = 0) -> tuple[dict[str, object], int]:
    """Return the fields by name, in declared order, and the position behind them; `MalformedMessage`."""
    reader = _Reader(data, position, version, version >= message.flexible_since)
    return reader.struct(message.fields), reader.position


class _Reader:
    __slots__ = ("data", "is_flexible", "position", "version")

    def __init__(self, data: Buffer, position: int, version: int, is_flexible: bool) -> None:
        self.data = data
        self.position = position
        self.version = version
        self.is_flexible = is_flexible

    def struct(self, fields: tuple[Field, ...]) -> dict[str, object]:
        present = [field for field in fields if field.since <= self.version <= field.until]
        values = {field.name: self._value(field) for field in present if field.tag is None}
        tagged = self._tagged({field.tag: field for field in present if field.tag is not None})
        values.update((field.name, tagged[field.name]) for field in present if field.name in tagged)
        return {field.name: values[field.name] for field in present if field.name in values}

    def _tagged(self, fields: dict[int, Field]) -> dict[str, object]:
        found: dict[str, object] = {}
        for _ in range(self._unsigned() if self.is_flexible else 0):
            tag, size = self._unsigned(), self._unsigned()
            field = fields.get(tag)
            if field is None:
                self._take(size)
                continue
            value = self._value(field)
            if value != field.default:
                found[field.name] = value
        return found

    def _value(self, field: Field) -> object:
        if not field.many:
            return self._one(field, field.name)
        count = self._length(field, "int32")
        if count is None:
            return None
        if count > len(self.data) - self.position:
            left = len(self.data) - self.position
            raise MalformedMessage(
                f"Tried to allocate a collection of size {count}, but there are only {left} bytes remaining."
            )
        element = Field(field.name, field.type)
        return [self._one(element, f"{field.name} element") for _ in range(count)]

    def _one(self, field: Field, name: str) -> object:
        if isinstance(field.type, tuple):
            return None if field.nullable and self._is_null(field) else self.struct(field.type)
        if field.type == "string":
            size = self._length(Field(name, "string", nullable=field.nullable), "int16")
            if size is not None and size > _STRING_SIZE_MAX:
                raise MalformedMessage(f"string field {name} had invalid length {size}")
            return None if size is None else decoded(self._take(size))
        if field.type == "bytes":
            size = self._length(Field(name, "bytes", nullable=field.nullable), "int32")
            return None if size is None else bytes(self._take(size))
        if field.type == "uuid":
            return base64.urlsafe_b64encode(self._fixed(_UUID_SIZE)).decode().rstrip("=")
        return self._number(field.type)

    def _is_null(self, field: Field) -> bool:
        """Read the mark in front of a struct that may be missing."""
        return self._number("int8") < 0 if field.tag is None else self._unsigned() <= 0

    def _length(self, field: Field, plain_type: str) -> int | None:
        """Return a length or count, None for a null, which only a nullable field may be."""
        length = self._unsigned() - 1 if self.is_flexible else int(self._number(plain_type))
        if length >= 0:
            return length
        if not field.nullable:
            raise MalformedMessage(f"non-nullable field {field.name} was serialized as null")
        return None

    def _number(self, type_name: str) -> float:
        form = _NUMBERS[type_name]
        number: float = form.unpack(self._fixed(form.size))[0]
        return number

    def _fixed(self, size: int) -> Buffer:
        if size > len(self.data) - self.position:
            raise MalformedMessage("null")  # all that Java's BufferUnderflowException has to say
        return self._take(size)

    def _take(self, size: int) -> Buffer:
        left = len(self.data) - self.position
        if size < 0:
            raise MalformedMessage(f"{size}")  # Java's NegativeArraySizeException says no more
        if size > left:
            raise MalformedMessage(f"Error reading byte array of {size} byte(s): only {left} byte(s) available")
        self.position += size
        return self.data[self.position - size : self.position]

    def _unsigned(self) -> int:
        number, self.position = unsigned_at(self.data, self.position)
        return number


def unsigned_at(data: Buffer, position: int) -> tuple[int, int]:
    """Return the unsigned varint at `position`, as a Java int holds it, and the position behind it."""
    number = 0
    for count in range(_VARINT_SIZE_MAX):
        if position >= len(data):
            raise MalformedMessage("null")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            number &= 0xFFFFFFFF
            return number - (1 << 32 if number >> 31 else 0), position
    raise MalformedMessage(
        f"Varint is too long, the most significant bit in the 5th byte is set, converted value: {number & 0xFFFFFFFF:x}"
    )


# --- JSON, as Jackson writes it ------------------------------------------------------------------------------------

_ESCAPES = {number: f"\\u{number:04X}" for number in range(0x20)} | {
    ord(sign): f"\\{escape}" for sign, escape in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)
}
_PLAIN_MIN, _PLAIN_END = 1e-3, 1e7  # Java writes a double within without an exponent


def json_text(value: object) -> str:
    """Return `value`, made of what `read` returns, as one line of JSON without spaces."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(name)}:{json_text(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(json_text(each) for each in value) + "]"
    if isinstance(value, bytes):
        return f'"{base64.b64encode(value).decode()}"'
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return _java_double(value) if isinstance(value, float) else str(value)


def _java_double(value: float) -> str:
    """Return `value` as Double.toString does: 100.0, 1.0E7, 1.5E-4; what is no number, as Jackson quotes it."""
    if not isfinite(value):
        return {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}[str(value)]
    if value == 0 or _PLAIN_MIN <= abs(value) < _PLAIN_END:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).ljust(2, "0")
    return f"{'-' * sign}{text[0]}.{text[1:]}E{exponent + len(digits) - 1}"
