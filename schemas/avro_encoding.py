"""JSON as people write it, into values of Avro: the other way of the decoder.

    encoded(parsed(schema), {"id": 7, "at": "2026-12-01T10:30:00Z", "note": None})     →     bytes

A value of a union is written without its branch: the first branch that fits is taken. Bytes are text, `{"b64": …}`, or
a member NAME_b64 of a record. Times are ISO 8601 or numbers in the unit of their type, decimals numbers or text. What
does not fit is `DoesNotFit`: nothing is rounded or cut. Follows BinaryEncoder of Avro 1.12 (Java).
"""

from __future__ import annotations

import base64
import datetime
import re
import struct
import uuid
from decimal import Decimal, InvalidOperation

from offsetfs.schemas.avro_schema import (
    ArrayType,
    AvroType,
    EnumType,
    FixedType,
    LogicalType,
    MapType,
    PrimitiveType,
    RecordType,
    UnionType,
)
from offsetfs.schemas.given_values import (
    DEPTH_MAX,
    EPOCH,
    UNITS,
    DoesNotFit,
    bytes_of,
    checked_kind,
    fraction,
    real,
    shown,
    timestamp,
    utf8,
    within,
)

TRIES_MAX = 10_000
"""Types of unions that did not fit, in one value: protects time from unions within each other."""

_REASONS_MAX, _REASON_MAX = 3, 100
_DIGITS_MAX = 2000
_BITS = {"int": 32, "long": 64}
_DURATION = re.compile(r"P(?:(\d{1,10})M)?(?:(\d{1,10})D)?(?:T(\d{1,10})(?:\.(\d{1,3}))?S)?\Z", re.ASCII)
_TIME = re.compile(r"(\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?\Z", re.ASCII)


def encoded(kind: AvroType, value: object) -> bytes:
    """Return a value of JSON as a value of a type. Numbers with a fraction may be `Decimal`. `DoesNotFit`."""
    writer = _Writer()
    writer.write(kind, value, "", 0)
    return bytes(writer.made)


class _Writer:
    """Appends values to `made`."""

    def __init__(self) -> None:
        self.made = bytearray()
        self._left = TRIES_MAX

    def write(self, kind: AvroType, value: object, place: str, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise DoesNotFit(place, "values are nested too deeply")
        match kind:
            case PrimitiveType():
                self.made += _primitive(kind, value, place)
            case RecordType():
                self._record(kind, value, place, depth)
            case UnionType():
                self._union(kind, value, place, depth)
            case ArrayType():
                items = checked_kind(list, value, "a list", place)
                self.made += _number(len(items)) if items else b""
                for number, item in enumerate(items):
                    self.write(kind.items, item, f"{place}[{number}]", depth + 1)
                self.made += b"\0"
            case MapType():
                members = checked_kind(dict, value, "an object", place)
                self.made += _number(len(members)) if members else b""
                for name, item in members.items():
                    self.made += _sized(utf8(name, place))
                    self.write(kind.values, item, within(place, name), depth + 1)
                self.made += b"\0"
            case EnumType():
                if value not in kind.symbols:
                    raise DoesNotFit(place, f"{shown(value)} is not one of {', '.join(kind.symbols)}")
                self.made += _number(kind.symbols.index(str(value)))
            case FixedType():
                self.made += _fixed(kind, value, place)

    def _record(self, kind: RecordType, value: object, place: str, depth: int) -> None:
        members = checked_kind(dict, value, "an object", place)
        for field in kind.fields:  # bytes that are no text, as the decoder shows them
            if field.name not in members and f"{field.name}_b64" in members:
                members = {**members, field.name: {"b64": members[f"{field.name}_b64"]}}
                del members[f"{field.name}_b64"]
        known = {field.name for field in kind.fields}
        unknown = next((name for name in members if name not in known), None)
        if unknown is not None:
            raise DoesNotFit(within(place, unknown), "the schema has no such field")
        for field in kind.fields:
            inner = within(place, field.name)
            if field.name in members:
                self.write(field.type, members[field.name], inner, depth + 1)
            elif field.has_default:
                self.write(field.type, _of_default(field.type, field.default), inner, depth + 1)
            else:
                raise DoesNotFit(inner, "is missing, and has no default")

    def _union(self, kind: UnionType, value: object, place: str, depth: int) -> None:
        errors, mark = [], len(self.made)
        for number, branch in enumerate(kind.branches):
            self.made += _number(number)
            try:
                self.write(branch, value, place, depth + 1)
            except DoesNotFit as error:
                del self.made[mark:]
                self._left -= 1
                if self._left < 0:
                    raise DoesNotFit(place, "too many types of unions do not fit") from None
                if not _is_null(branch):
                    errors.append(error)
            else:
                return
        if len(errors) == 1:
            raise errors[0]
        reasons = "; ".join(str(error)[:_REASON_MAX] for error in errors[:_REASONS_MAX])
        raise DoesNotFit(place, f"{shown(value)} fits no type of the union" + (f": {reasons}" if reasons else ""))


def _of_default(kind: AvroType, default: object) -> object:
    """Return a default of a schema as JSON of people: there, bytes are text whose characters are the bytes."""
    match kind, default:
        case (PrimitiveType(name="bytes") | FixedType(), str()):
            return {"b64": base64.b64encode(default.encode("latin-1", "replace")).decode()}
        case (RecordType(), dict()):
            kinds = {field.name: field.type for field in kind.fields}
            return {name: _of_default(kinds[name], item) if name in kinds else item for name, item in default.items()}
        case (ArrayType(), list()):
            return [_of_default(kind.items, item) for item in default]
        case (MapType(), dict()):
            return {name: _of_default(kind.values, item) for name, item in default.items()}
        case (UnionType(), _) if kind.branches:
            return _of_default(kind.branches[0], default)
    return default


def _is_null(kind: AvroType) -> bool:
    return isinstance(kind, PrimitiveType) and kind.name == "null"


# --- values without parts --------------------------------------------------------------------------------------------


def _primitive(kind: PrimitiveType, value: object, place: str) -> bytes:
    match kind.name:
        case "null":
            if value is not None:
                raise DoesNotFit(place, f"{shown(value)} is not null")
            return b""
        case "boolean":
            return b"\1" if checked_kind(bool, value, "true or false", place) else b"\0"
        case "int" | "long":
            return _number(_whole(kind, value, place))
        case "float" | "double":
            return real(kind.name, value, place)
        case "bytes":
            return _sized(_bytes(kind.logical, value, None, place))
    text = checked_kind(str, value, "text", place)
    if kind.logical is not None:
        text = str(_uuid(text, place))
    return _sized(utf8(text, place))


def _whole(kind: PrimitiveType, value: object, place: str) -> int:
    if isinstance(value, str) and kind.logical is not None:
        value = _time(kind.logical.name, value, place)
    if isinstance(value, Decimal) and value.is_signed() and not value:
        return 0  # -0
    if not isinstance(value, int) or isinstance(value, bool):
        what = "a whole number" if kind.logical is None else "a time or a whole number"
        raise DoesNotFit(place, f"{shown(value)} is not {what}")
    limit = 1 << _BITS[kind.name] - 1
    if not -limit <= value < limit:
        raise DoesNotFit(place, f"{shown(value)} is out of the range of {kind.name}")
    return value


def _fixed(kind: FixedType, value: object, place: str) -> bytes:
    logical = kind.logical
    if logical is not None and logical.name == "uuid":
        return _uuid(checked_kind(str, value, "a UUID", place), place).bytes
    if logical is not None and logical.name == "duration" and isinstance(value, str):
        return _duration(value, place)
    data = _bytes(logical, value, kind.size, place)
    if len(data) != kind.size:
        raise DoesNotFit(place, f"has {len(data)} bytes, and the type {kind.size}")
    return data


def _duration(text: str, place: str) -> bytes:
    match = _DURATION.match(text)
    if match is None or text.endswith(("P", "T")):
        raise DoesNotFit(place, f"{shown(text)} is not a duration in ISO 8601, such as P1M2DT3.5S")
    months, days, seconds, fraction = match.groups()
    numbers = int(months or 0), int(days or 0), int(seconds or 0) * 1000 + int((fraction or "").ljust(3, "0"))
    if max(numbers) >= 1 << 32:
        raise DoesNotFit(place, f"{shown(text)} has a part of more than 32 bits")
    return struct.pack("<III", *numbers)


def _bytes(logical: LogicalType | None, value: object, size: int | None, place: str) -> bytes:
    if logical is not None and logical.name == "decimal" and not isinstance(value, dict):
        return _decimal(logical, value, size, place)
    return bytes_of(value, place)


def _decimal(logical: LogicalType, value: object, size: int | None, place: str) -> bytes:
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal | float):
        raise DoesNotFit(place, f"{shown(value)} is not a decimal")
    try:
        sign, digits, exponent = Decimal(str(value)).as_tuple()
    except InvalidOperation:
        raise DoesNotFit(place, f"{shown(value)} is not a decimal") from None
    if not isinstance(exponent, int):
        raise DoesNotFit(place, f"{shown(value)} is not a decimal")
    zeros = logical.scale + exponent
    if zeros > _DIGITS_MAX or len(digits) > _DIGITS_MAX:
        raise DoesNotFit(place, f"has more than {logical.precision} digits")
    if zeros < 0 and any(digits[zeros:]):
        raise DoesNotFit(place, f"{shown(value)} has more than {logical.scale} digits behind the point")
    kept = digits[:zeros] if zeros < 0 else (*digits, *([0] * zeros))
    number = int("".join(map(str, kept)) or "0")
    if len(str(number)) > logical.precision:
        raise DoesNotFit(place, f"{shown(value)} has more than {logical.precision} digits")
    number = -number if sign else number
    return number.to_bytes(size if size is not None else number.bit_length() // 8 + 1, "big", signed=True)


# --- times -----------------------------------------------------------------------------------------------------------


def _time(name: str, text: str, place: str) -> int:
    """Return a date, a time of day or a timestamp as a number of the type's unit."""
    try:
        if name == "date":
            return datetime.date.fromisoformat(text).toordinal() - EPOCH.toordinal()
        kind, _, unit = name.rpartition("-")
        return _of_day(text, unit) if kind == "time" else timestamp(text, unit, is_local=kind.startswith("local"))
    except ValueError:
        raise DoesNotFit(place, f"{shown(text)} is not a {name} in ISO 8601, or a number") from None


def _of_day(text: str, unit: str) -> int:
    match = _TIME.match(text)
    if match is None:
        raise ValueError
    time = datetime.time.fromisoformat(match[1])
    return ((time.hour * 60 + time.minute) * 60 + time.second) * UNITS[unit] + fraction(match[2], unit)


# --- parts -----------------------------------------------------------------------------------------------------------


def _uuid(text: str, place: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise DoesNotFit(place, f"{shown(text)} is not a UUID") from None


def _sized(data: bytes) -> bytes:
    return _number(len(data)) + data


def _number(number: int) -> bytes:
    """Return a long: zig-zag, seven bits a byte."""
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    made = bytearray()
    while rest > 0x7F:
        made.append(rest & 0x7F | 0x80)
        rest >>= 7
    made.append(rest)
    return bytes(made)
