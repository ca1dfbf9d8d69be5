"""The grammar of names in the mounted tree: offsets, times, calendar directories, segment files, groups, keys.

Pure functions that parse names; none of them opens a log. All times are UTC: a time without a zone, and the directories
of `by-time`. A name outside the grammar does not exist (ENOENT): no signs, no spaces, no digits of other scripts.

    offset   42 | 00000000000000000042            without leading zeros, or with all twenty digits
    T        2026-11-21T13:05 | -1h30m | now        a time, as `common.quantities.parse_time` reads it
    part     <offset>.json | <offset>.key | <offset>.headers
    range    [A]..[B][.ndjson]                      A and B are offsets or T
    last     N[.ndjson]                             without leading zeros

Names of groups and keys encode any bytes (`encoded`, `decoded`). Bytes that no file name can contain are
percent-encoded: `/`, control characters, and `%` itself. `.` and `..` become `%2E` and `%2E%2E`, and the empty string
becomes `%`. The encoding is canonical: a name that encodes a byte without need is not valid. If a key is too long for a
file name, its name is a digest: `%sha256-` and 64 hexadecimal digits in lower case. This is no valid percent-encoding,
so it cannot collide with the name of another key.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import TypeVar

from offsetfs.common.quantities import EPOCH, MINUTE_MS, is_before_1970, parse_time, timestamp_ms, unreadable_time
from offsetfs.fs.naming.tree_table import RECORD_PARTS
from offsetfs.storage import OFFSET_MAX
from offsetfs.storage.segments import parse_segment_name
from offsetfs.storage.views import KeyDigest

SEGMENT_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
"""The files of a segment that `segments/` shows."""

NDJSON_SUFFIX = b".ndjson"
"""Ends the names of files with lines of JSON instead of values."""

TIMESTAMP_MAX = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z: the calendar of `by-time` ends here."""

NAME_BYTES_MAX = 255

_NEWEST = re.compile(rb"-([0-9]{1,19})(?![0-9]*[a-z])")
_UNSAFE = re.compile(rb"[\x00-\x1f/%\x7f]")
_ENCODED = re.compile(rb"%([0-9A-F]{2})")
_ENCODED_HIGH = re.compile(rb"%([89A-F][0-9A-F])")
_DIGEST = re.compile(rb"%sha256-([0-9a-f]{64})")
_RESERVED = {b"": b"%", b".": b"%2E", b"..": b"%2E%2E"}  # a file cannot have these names


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
    newest = _NEWEST.match(name)
    if newest is not None:
        return OSError(errno.EINVAL, f"{shown!r} is not a range; {newest_records(int(newest[1]))}")
    for end in name.removesuffix(NDJSON_SUFFIX).split(b".."):
        if is_before_1970(end):
            return unreadable_time(end)
    return OSError(
        errno.EINVAL, f"{shown!r} is not a range; write A..B, where A and B are offsets or times, such as -1h.."
    )


def parse_newest(name: bytes) -> int | None:
    """Return N of a name `-N`, which is none of the tree; None for another name."""
    match = _NEWEST.fullmatch(name)
    return None if match is None else int(match[1])


def newest_records(count: int) -> str:
    """Return the advice for a name that counts records from the end."""
    return f"last/{count} has the newest {count} records" if count != 1 else "last/1 has the newest record"


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
            return self.start + {Level.DAY: 1440, Level.HOUR: 60, Level.MINUTE: 1}[self.level] * MINUTE_MS
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
    instant = EPOCH + timedelta(milliseconds=timestamp)
    return [instant.year, instant.month, instant.day, instant.hour, instant.minute]


def _start_ms(fields: list[int]) -> int:
    year, month, day, hour, minute = fields
    return timestamp_ms(datetime(year, month, day, hour, minute, tzinfo=UTC))


EVERYTHING = Span(Level.ALL, 0)

R = TypeVar("R")


def listed_children(span: Span, find: Callable[[int], tuple[R, int] | None]) -> Iterator[tuple[Span, R]]:
    """Yield the spans under `span` whose first record at or after their start lies before their end; and that record.

    `find`: as `Log.find_timestamp`, the first record (its offset, in one partition) at or after a time, and its time.

    At most one look-up for each span listed, and one more: when the first record at or after t has the time u, it is
    also the first one at or after everything between t and u, so nothing in between is listed.
    """
    timestamp, end = span.start, span.end
    while timestamp < end and (first := find(timestamp)) is not None and first[1] < end:
        child = span.child_at(first[1])
        yield child, first[0]
        timestamp = child.end


def encoded(data: bytes) -> bytes | None:
    """Return the name of `data`. None if the name would be too long."""
    name = _RESERVED.get(data) or _UNSAFE.sub(lambda match: b"%%%02X" % match[0][0], data)
    return name if len(name) <= NAME_BYTES_MAX else None


def decoded_key(name: bytes) -> bytes | KeyDigest | None:
    """Return the key, or the digest of a long key, with this name. None if the name is not valid.

    Unlike `decoded`, this accepts bytes from 128 on also percent-encoded (`%FF`), for shells and scripts.
    """
    if digest := _DIGEST.fullmatch(name):
        return KeyDigest(bytes.fromhex(digest[1].decode()))
    return decoded(_ENCODED_HIGH.sub(lambda match: bytes([int(match[1], 16)]), name))


def decoded(name: bytes) -> bytes | None:
    """Return the bytes with this name. None if the name is not valid."""
    data = b"" if name == _RESERVED[b""] else _ENCODED.sub(lambda match: bytes([int(match[1], 16)]), name)
    return data if encoded(data) == name else None
