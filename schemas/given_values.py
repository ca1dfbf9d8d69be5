"""Values of JSON that are encoded: how they are read, and the checks and forms that formats share.

Bytes are text, or `{"b64": …}`. Numbers keep all digits: those with a fraction are `Decimal`.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import json
import math
import re
import struct
from decimal import Decimal
from typing import Any, NoReturn, TypeVar

DEPTH_MAX = 200
"""Values within each other: protects the stack."""

UNITS = {"millis": 1000, "micros": 1_000_000, "nanos": 1_000_000_000}
_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?\Z", re.ASCII | re.IGNORECASE
)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NOT_FINITE = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}

_Kind = TypeVar("_Kind")


class DoesNotFit(ValueError):
    """A value does not fit its schema. `place` is the path of its field, empty for the whole value."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}" if place else reason)
        self.place = place


# --- JSON ------------------------------------------------------------------------------------------------------------


class RepeatedName(ValueError):
    """An object has a name twice: the message is this name."""


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        raise RepeatedName(json.dumps(next(name for name in members if names.count(name) > 1)))
    return members


def read_json(text: bytes) -> Any:
    """Return JSON with all digits of its numbers, and the sign of zero. ValueError; an object has no name twice."""
    return json.loads(
        text,
        parse_int=_whole_number,
        parse_float=Decimal,
        parse_constant=_no_number,
        object_pairs_hook=_without_repetition,
    )


def _whole_number(text: str) -> int | Decimal:
    return Decimal(text) if text == "-0" else int(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


# --- checks ----------------------------------------------------------------------------------------------------------


def checked_kind(kind: type[_Kind], value: object, what: str, place: str) -> _Kind:
    """Return a value of a type of Python. `what`: the name of the type. `DoesNotFit`."""
    if not isinstance(value, kind):
        raise DoesNotFit(place, f"{shown(value)} is not {what}")
    return value


def utf8(text: str, place: str) -> bytes:
    """Return text as UTF-8. `DoesNotFit`."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise DoesNotFit(place, "half of a surrogate pair is no character") from None


def within(place: str, name: str) -> str:
    """Return the path of a member."""
    return f"{place}.{name}" if place else name


def shown(value: object) -> str:
    """Return a value for a message, shortened."""
    text = repr(str(value)) if isinstance(value, str | Decimal) else repr(value)
    text = {"None": "null", "True": "true", "False": "false"}.get(text, text)
    return text if len(text) <= 40 else text[:40] + "…"


def bytes_of(value: object, place: str) -> bytes:
    """Return text as UTF-8, or the bytes of `{"b64": …}`. `DoesNotFit`."""
    if isinstance(value, str):
        return utf8(value, place)
    given = value.get("b64") if isinstance(value, dict) and len(value) == 1 else None
    if not isinstance(given, str):
        raise DoesNotFit(place, f'{shown(value)} is not text or {{"b64": "…"}}')
    try:
        return base64.b64decode(given, validate=True)
    except (binascii.Error, ValueError):
        raise DoesNotFit(place, "is not base64: standard alphabet, padded") from None


def real(name: str, value: object, place: str) -> bytes:
    """Return a number, or its name, as a `float` or `double`, little endian. `DoesNotFit`."""
    text = _NOT_FINITE.get(value) if isinstance(value, str) else None
    if text is None and (isinstance(value, bool) or not isinstance(value, int | float | Decimal)):
        raise DoesNotFit(place, f"{shown(value)} is not a number")
    try:
        number = float(text if text is not None else value)  # type: ignore[arg-type]
        if text is None and math.isinf(number):
            raise OverflowError
        return struct.pack("<f" if name == "float" else "<d", number)
    except OverflowError:
        raise DoesNotFit(place, f"{shown(value)} is out of the range of {name}") from None


# --- times -----------------------------------------------------------------------------------------------------------


def timestamp(text: str, unit: str, *, is_local: bool) -> int:
    """Return the time since 1970 in a unit. Text without a zone is in UTC; local text has none. ValueError."""
    match = _TIMESTAMP.match(text)
    if match is None or (is_local and match[4]):
        raise ValueError
    zone = "+00:00" if match[4] in (None, "Z", "z") else match[4]
    since = datetime.datetime.fromisoformat(f"{match[1]}T{match[2]}{zone}") - EPOCH
    return (since.days * 86_400 + since.seconds) * UNITS[unit] + fraction(match[3], unit)


def fraction(digits: str | None, unit: str) -> int:
    """Return the digits behind the seconds in a unit. ValueError where it cannot hold them."""
    nanos = int((digits or "0").ljust(9, "0"))
    step = UNITS["nanos"] // UNITS[unit]
    if nanos % step:
        raise ValueError
    return nanos // step
