"""The grammar of names in the mounted tree: offsets, times, calendar directories, segment files.

Pure functions that parse names; none of them opens a log. All times are UTC: a time without a zone, and the directories
of `by-time`. A name outside the grammar does not exist (ENOENT): no signs, no spaces, no digits of other scripts.

    offset   42 | 00000000000000000042            without leading zeros, or with all twenty digits
    T        2026-11-21[T13:05[:07[.123]][Z|±hh:mm]] | @1795253676[.123] | -15m | -1h30m | now
             (a space may replace the T; units after a minus: s m h d w)
    part     <offset>.json | <offset>.key | <offset>.headers
    range    [A]..[B][.ndjson]                      A and B are offsets or T
    last     N[.ndjson]                             without leading zeros
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum

from offsetfs.fs.naming.tree_table import RECORD_PARTS
from offsetfs.storage import OFFSET_MAX
from offsetfs.storage.segments import parse_segment_name

SEGMENT_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
"""The files of a segment that `segments/` shows."""

NDJSON_SUFFIX = b".ndjson"
"""Ends the names of files with lines of JSON instead of values."""

TIMESTAMP_MAX = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z: the calendar of `by-time` ends here."""

_MINUTE_MS = 60_000
_UNIT_MS = {"s": 1000, "m": _MINUTE_MS, "h": 60 * _MINUTE_MS, "d": 24 * 60 * _MINUTE_MS, "w": 7 * 24 * 60 * _MINUTE_MS}
_DATE = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,3}))?)?(?:Z|([+-])(\d\d):(\d\d))?)?", re.ASCII
)
_EPOCH = re.compile(r"@(\d{1,15})(?:\.(\d{1,3}))?", re.ASCII)
_AGO = re.compile(r"-((?:\d{1,9}[smhdw]){1,5})", re.ASCII)
_AGO_PART = re.compile(r"(\d+)([smhdw])", re.ASCII)


def parse_offset(name: bytes) -> int | None:
    """Return the offset with this name, or None."""
    if not name.isdigit() or (name[0] == 48 and len(name) not in (1, 20)) or len(name) > 20:
        return None
    offset = int(name)
    return offset if offset <= OFFSET_MAX else None


def parse_record_part(name: bytes) -> tuple[int, bytes] | None:
    """Return the offset and the suffix, one of `RECORD_PARTS`, of a name such as `42.json`; or None."""
    number, dot, suffix = name.partition(b".")
    offset = parse_offset(number) if dot + suffix in RECORD_PARTS else None
    return None if offset is None else (offset, dot + suffix)


def parse_segment_file(name: bytes) -> tuple[int, int] | None:
    """Return the base offset and the index of the suffix in `SEGMENT_SUFFIXES`, or None."""
    parsed = parse_segment_name(name.decode("ascii", "replace"))
    if parsed is None or parsed[1] not in SEGMENT_SUFFIXES:
        return None
    return parsed[0], SEGMENT_SUFFIXES.index(parsed[1])


# --- points in time --------------------------------------------------------------------------------------------------


def parse_time(name: bytes, now: int) -> int | None:
    """Return the time of a time expression, in milliseconds since 1970, at least 0. None if the name is no time.

    `now` is the time that `now` and `-15m` start from, in milliseconds.
    """
    text = name.decode("ascii", "replace")
    if text == "now":
        return now
    if match := _DATE.fullmatch(text):
        return _date_ms(match)
    if match := _EPOCH.fullmatch(text):
        return int(match[1]) * 1000 + _fraction_ms(match[2])
    if match := _AGO.fullmatch(text):
        ago_ms = sum(int(number) * _UNIT_MS[unit] for number, unit in _AGO_PART.findall(match[1]))
        return max(now - ago_ms, 0)
    return None


def unreadable_time(name: bytes) -> OSError:
    """Return the error for a name that should be a time and is not."""
    shown = name.decode("utf-8", "backslashreplace")
    return OSError(
        errno.EINVAL, f"{shown!r} is not a time; write 2026-11-20T18:40:01, @1795253676, -15m, -1h30m, -1w or now"
    )


def _date_ms(match: re.Match[str]) -> int | None:
    year, month, day, hour, minute, second = (int(field or 0) for field in match.groups()[:6])
    zone_hours, zone_minutes = int(match[9] or 0), int(match[10] or 0)
    if zone_hours > 23 or zone_minutes > 59:
        return None
    try:
        instant = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    zone_ms = (zone_hours * 60 + zone_minutes) * _MINUTE_MS * (-1 if match[8] == "-" else 1)
    return max(_timestamp(instant) + _fraction_ms(match[7]) - zone_ms, 0)


def _fraction_ms(digits: str | None) -> int:
    return int(digits.ljust(3, "0")) if digits else 0


_EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)


def _timestamp(instant: datetime) -> int:
    return (instant - _EPOCH_START) // timedelta(milliseconds=1)


# --- ranges of a log -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Point:
    """A position in a log: an offset, or the first record at or after a time in milliseconds."""

    number: int
    is_time: bool = False


@dataclass(frozen=True, slots=True)
class RangeName:
    """The parsed name `A..B`. None: from the beginning, or to the end."""

    start: Point | None
    end: Point | None
    is_json: bool


def parse_point(name: bytes, now: int) -> Point | None:
    """Return the point that an offset or a time denotes, or None. `now` as for `parse_time`."""
    offset = parse_offset(name)
    if offset is not None:
        return Point(offset)
    timestamp = parse_time(name, now)
    return None if timestamp is None else Point(timestamp, is_time=True)


def parse_range(name: bytes, now: int) -> RangeName | None:
    """Parse `A..B` or `A..B.ndjson`; None if the name is no range."""
    endpoints, is_json = name.removesuffix(NDJSON_SUFFIX), name.endswith(NDJSON_SUFFIX)
    first, dots, last = endpoints.partition(b"..")
    start, end = parse_point(first, now), parse_point(last, now)
    if not dots or (first and start is None) or (last and end is None):
        return None
    return RangeName(start, end, is_json)


def unreadable_range(name: bytes) -> OSError:
    """Return the error for a name with two dots whose ends are neither offsets nor times."""
    shown = name.decode("utf-8", "backslashreplace")
    return OSError(
        errno.EINVAL, f"{shown!r} is not a range; write A..B, where A and B are offsets or times, such as -1h.."
    )


def parse_last(name: bytes) -> tuple[int, bool] | None:
    """Return how many records `last/N` or `last/N.ndjson` asks for, and whether as JSON; or None."""
    number = name.removesuffix(NDJSON_SUFFIX)
    if not number.isdigit() or len(number) > 19 or (number[0] == 48 and number != b"0"):
        return None
    return int(number), name.endswith(NDJSON_SUFFIX)


# --- calendar directories --------------------------------------------------------------------------------------------


class Level(IntEnum):
    """The depth of a name under `by-time`. A minute is a link, the others are directories."""

    ALL = 0
    YEAR = 1
    MONTH = 2
    DAY = 3
    HOUR = 4
    MINUTE = 5


@dataclass(frozen=True, slots=True)
class Span:
    """A year, month, day, hour or minute: `[start, end)` in milliseconds."""

    level: Level
    start: int

    @property
    def end(self) -> int:
        if self.level == Level.ALL:
            return TIMESTAMP_MAX + 1
        if self.level >= Level.DAY:
            return self.start + {Level.DAY: 1440, Level.HOUR: 60, Level.MINUTE: 1}[self.level] * _MINUTE_MS
        year, month = _fields(self.start)[:2]
        months = year * 12 + month - 1 + (12 if self.level == Level.YEAR else 1)
        if months >= 10_000 * 12:
            return TIMESTAMP_MAX + 1
        return _start_ms([months // 12, months % 12 + 1, 1, 0, 0])

    @property
    def name(self) -> bytes:
        """The last part of its path: 2026, 11, 21, 13 or 05."""
        return b"%02d" % _fields(self.start)[self.level - 1]

    def child_at(self, timestamp: int) -> Span:
        """Return the span of the next level that holds `timestamp`, which must lie in this one."""
        assert self.start <= timestamp < self.end and self.level < Level.MINUTE
        level = Level(self.level + 1)
        return Span(level, _start_ms([*_fields(timestamp)[:level], *_FIRST[level:]]))

    def child(self, name: bytes) -> Span | None:
        """Return the span of that name in this directory, or None."""
        width = 4 if self.level == Level.ALL else 2
        if self.level == Level.MINUTE or not (len(name) == width and name.isdigit()):
            return None
        fields = [*_fields(self.start)[: self.level], int(name), *_FIRST[self.level + 1 :]]
        try:
            start = _start_ms(fields)
        except ValueError:
            return None
        return Span(Level(self.level + 1), start) if start >= 0 else None


_FIRST = (1, 1, 1, 0, 0)  # the first year, month and day, and the first hour and minute


def _fields(timestamp: int) -> list[int]:
    instant = _EPOCH_START + timedelta(milliseconds=timestamp)
    return [instant.year, instant.month, instant.day, instant.hour, instant.minute]


def _start_ms(fields: list[int]) -> int:
    year, month, day, hour, minute = fields
    return _timestamp(datetime(year, month, day, hour, minute, tzinfo=UTC))


EVERYTHING = Span(Level.ALL, 0)

Find = Callable[[int], tuple[int, int] | None]
"""`Log.find_timestamp`: (offset, timestamp) of the first record, in offset order, at or after a time."""


def listed_children(span: Span, find: Find) -> Iterator[tuple[Span, int]]:
    """Yield the spans under `span` whose first record at or after their start lies before their end; and its offset.

    At most one look-up for each span listed, and one more: when the first record at or after t has the time u, it is
    also the first one at or after everything between t and u, so nothing in between is listed.
    """
    timestamp, end = span.start, span.end
    while timestamp < end and (found := find(timestamp)) is not None and found[1] < end:
        child = span.child_at(found[1])
        yield child, found[0]
        timestamp = child.end
