"""Checks of the arguments of the Python API: one line that names the argument, what was given, and what to give.

TypeError for a value of another type, ValueError for a value out of range. Without these checks a wrong type fails
somewhere in the engine, or is taken for something else: the text "ab" for a header with the value "b".
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from offsetfs.common.quantities import BEFORE_1970, EXAMPLE_TIMES, is_before_1970, parse_time, timestamp_ms
from offsetfs.storage import I64_MAX, Clock

if TYPE_CHECKING:
    from offsetfs.appending import Appendable

Place = int | datetime | str | None
"""A position in a log: an offset, a count from the end, a time, or the beginning or end."""

_PLACE = f"an offset, a negative count from the end, a datetime with a zone, a text such as {EXAMPLE_TIMES}, or None"
_TIME = f"a datetime with a zone, or a text such as {EXAMPLE_TIMES}"
_TIMESTAMP = "milliseconds since 1970 as an int, a datetime with a zone, or None"
_ENCODED = "a text becomes bytes by .encode()"
_HEADERS = 'a list of pairs such as [("name", b"value")]; of a dict list(headers.items())'


def wrong_type(name: str, value: object, expected: str) -> NoReturn:
    """Raise the TypeError for an argument. `expected`: what to give."""
    raise TypeError(f"{name} is {_shown(value)}; give {expected}")


def _shown(value: object) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})" if value is not None else "None"


# --- texts, numbers ---------------------------------------------------------------------------------------------------


def path_text(name: str, value: str | bytes | os.PathLike[str]) -> str:
    """Return the path as text."""
    try:
        return os.fsdecode(value)
    except TypeError:
        wrong_type(name, value, "a path: text, or a pathlib.Path")


def text(name: str, value: object, example: str) -> str:
    """Return `value`, which must be text."""
    return value if isinstance(value, str) else wrong_type(name, value, f"text such as {example!r}")


def number(name: str, value: object, expected: str) -> int:
    """Return `value` as an int; integers of other packages, such as numpy, are accepted."""
    if not isinstance(value, bool):
        try:
            return operator.index(value)  # type: ignore[arg-type]  # what it is for
        except TypeError:
            pass
    wrong_type(name, value, expected)


def seconds(name: str, value: object) -> float | None:
    """Return a duration in seconds; None stands for no limit."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        wrong_type(name, value, "seconds as a number, or None for no limit")
    if math.isnan(value):
        raise ValueError(f"{name} is nan; give seconds, or None for no limit")
    return value


def flag(name: str, value: object) -> bool:
    """Return `value`, which must be True or False: the text "no" is true for Python."""
    return value if isinstance(value, bool) else wrong_type(name, value, "True or False")


def topic_settings(value: object) -> Mapping[str, str]:
    """Return settings of topics: texts by Kafka's names."""
    settings = _mapping("settings", value, "retention.ms")
    for name, setting in settings.items():
        text(f"settings[{name!r}]", setting, "-1")
    return settings


def broker_settings(value: object) -> Mapping[str, str | int | bool]:
    """Return settings of a broker: texts, integers and booleans by Kafka's names."""
    settings = _mapping("settings", value, "num.partitions")
    for name, setting in settings.items():
        if not isinstance(setting, (str, int)):
            wrong_type(f"settings[{name!r}]", setting, "text, an int, True or False")
    return settings


def _mapping(name: str, value: object, example: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        wrong_type(name, value, f"a dict such as {{{example!r}: '1'}}")
    for key in value:
        text(f"a name in {name}", key, example)
    return value


def columns(value: object) -> Sequence[str] | None:
    """Return names of columns; None stands for all."""
    if value is None:
        return None
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        wrong_type("columns", value, "a list of names such as ['key', 'value'], or None for all")
    for name in value:
        text("a name in columns", name, "key")
    return value


def schema_words(value: object) -> Sequence[str]:
    """Return where schemas are: `NAME=FILE`, or folders."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        wrong_type("schemas", value, "a list such as ['orders=orders.avsc'], or of folders")
    for word in value:
        text("a word in schemas", word, "orders=orders.avsc")
    return value


def mask_words(value: object) -> Sequence[str]:
    """Return masks: `TOPIC:FIELD[,FIELD]`."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        wrong_type("mask", value, "a list such as ['orders:customer.email']")
    for word in value:
        text("a word in mask", word, "orders:customer.email")
    return value


# --- places in a log --------------------------------------------------------------------------------------------------


def offset_or_time(name: str, value: object, clock: Clock) -> tuple[int, bool] | None:
    """Return an offset or a count, or the milliseconds of a time, and whether it is a time; None for None."""
    if value is None:
        return None
    if isinstance(value, (str, datetime)):
        return time_ms(name, value, clock, _PLACE), True
    return number(name, value, _PLACE), False


def time_ms(name: str, value: object, clock: Clock, expected: str = _TIME) -> int:
    """Return the milliseconds since 1970 of a time. ValueError for a text that is no time, and without a zone."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{name}: {value} has no zone; write datetime.now(UTC), or datetime(…, tzinfo=UTC)")
        return _since_1970(name, value)
    if not isinstance(value, str):
        wrong_type(name, value, expected)
    found = parse_time(value.encode("utf-8", "replace"), clock.now_ms())
    if found is None:
        if is_before_1970(value.encode("utf-8", "replace")):
            raise ValueError(f"{name}: {value} {BEFORE_1970}")
        raise ValueError(f"{name} is {value!r}, which is no time; give {expected}")
    return found


def _since_1970(name: str, value: datetime) -> int:
    """Return the milliseconds of a time with a zone; ValueError before 1970, where -1 would be no time."""
    milliseconds = timestamp_ms(value)
    if milliseconds < 0:
        raise ValueError(f"{name}: {value} {BEFORE_1970}")
    return milliseconds


# --- records ----------------------------------------------------------------------------------------------------------


def lines(value: object) -> bytes | bytearray:
    """Return the bytes of lines."""
    if isinstance(value, memoryview):
        return bytes(value)
    return value if isinstance(value, (bytes, bytearray)) else wrong_type("data", value, f"bytes; {_ENCODED}")


def timestamp(value: object) -> int | None:
    """Return the timestamp of a record; None stands for now, -1 for a record without one."""
    if value is None:
        return None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"timestamp: {value} has no zone; write datetime.now(UTC), or datetime(…, tzinfo=UTC)")
        return _since_1970("timestamp", value)
    milliseconds = number("timestamp", value, _TIMESTAMP)
    if not -1 <= milliseconds <= I64_MAX:
        raise ValueError(f"timestamp is {milliseconds}; give milliseconds since 1970, from -1 (none) to 2^63-1")
    return milliseconds


def records(value: object) -> Iterator[Appendable]:
    """Return an iterator of records, which are checked when they are appended."""
    if isinstance(value, (str, bytes, bytearray, memoryview)) or not isinstance(value, Iterable):
        wrong_type("records", value, "a list or another iterable of offsetfs.NewRecord; append takes one value")
    return iter(value)


Parts = tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes | None]], int | None]


def parts(record: Appendable) -> Parts:
    """Return key, value, headers and timestamp of a record."""
    try:
        key, value, headers, when = record.key, record.value, record.headers, record.timestamp
    except AttributeError:
        wrong_type("a record", record, "an offsetfs.NewRecord(value, key=…), or a Record that was read")
    if not (value is None or type(value) is bytes):
        value = _data("value", value)
    if not (key is None or type(key) is bytes):
        key = _data("key", key)
    if headers != () and not _are_plain(headers):
        headers = _headers(headers)
    if type(when) is not int or when < -1 or when > I64_MAX:
        when = timestamp(when)
    return key, value, headers, when


def _data(name: str, value: object) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    wrong_type(name, value, f"bytes or None; {_ENCODED}")


def _are_plain(headers: object) -> bool:
    """Whether headers need no conversion and no closer look, as nearly always: this takes a quarter of the time."""
    if type(headers) is not tuple and type(headers) is not list:
        return False
    for header in headers:
        if type(header) is not tuple or len(header) != 2:
            return False
        name, content = header
        if type(name) is not str or not name.isascii() or not (content is None or type(content) is bytes):
            return False
    return True


def _headers(value: object) -> list[tuple[str, bytes | None]]:
    if isinstance(value, (str, bytes, bytearray, Mapping)) or not isinstance(value, Iterable):
        wrong_type("headers", value, _HEADERS)
    headers = []
    for header in value:
        if not isinstance(header, (tuple, list)) or len(header) != 2:
            wrong_type("a header", header, 'a pair such as ("name", b"value")')
        name, content = header
        try:
            text("the name of a header", name, "name").encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise ValueError(f"the name of a header is {name!r}, which is no valid text; give UTF-8") from None
        headers.append((name, None if content is None else _data(f"header {name!r}", content)))
    return headers
