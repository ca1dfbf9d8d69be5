"""Columns as lines of JSON, in plain Python: the specification of `native/column_json.pyx`; tests compare both.

A line is the JSON of one row of the first column. The buffers of a column are those of Arrow. A column has its number
behind that of its parent, so that no column contains itself.

Bytes that are UTF-8 are text. Others are in base64: the field of a record as a member `name_b64`, others as an
object `{"b64": …}`. Times are ISO 8601; a time of day outside of the day is its number. What is no number in JSON (NaN,
Infinity) is text.
"""

from __future__ import annotations

import base64
import itertools
import json
import struct
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from offsetfs.storage.errors import DecompressionLimit
from offsetfs.storage.reference.codec import Buffer

(NOTHING, BITS, SIGNED, UNSIGNED, NUMBER, TEXT, BASE64, VERBATIM, DATE, TIME, TIMESTAMP, INSTANT, DECIMAL) = range(13)
"""Kinds of columns without children. NUMBER is the text of one; `param` of times: units a second, of DECIMAL: scale."""

STRUCT, UNION, LIST, MAP = range(13, 17)
"""Kinds with children. A UNION is the first child that is not null. A MAP has two: keys, which are TEXT, and items."""

KINDS = 17

COLUMNS_MAX = 100_000
DEPTH_MAX = 200
"""Columns within columns, at most: protects the stack."""

LINES_BYTES_MAX = 512 << 20
"""The bytes of the lines of one call, at most: as of `record_json`."""

SECOND_UNITS = (1, 1000, 1_000_000, 1_000_000_000)
SCALE_MAX = 1000
_WIDTHS = {SIGNED: 8, UNSIGNED: 8, DATE: 8, TIME: 8, TIMESTAMP: 8, INSTANT: 8, DECIMAL: 16}
_VARIABLE = frozenset((NUMBER, TEXT, BASE64, VERBATIM, LIST, MAP))
_DAY_S = 86_400
_NOT_FINITE = {b"nan": b'"NaN"', b"inf": b'"Infinity"', b"-inf": b'"-Infinity"'}


class JsonColumn(NamedTuple):
    """A column. `validity`: a bit a row, None: no nulls; `ends`: int32, of values of varying length and of lists."""

    kind: int
    rows: int
    name: bytes = b""
    """The JSON before a value of a struct, without the quote and the colon at its end, such as `"amount`."""
    is_omitted: bool = False
    """Whether a struct has no member for a null."""
    param: int = 0
    children: tuple[int, ...] = ()
    validity: Buffer | None = None
    ends: Buffer | None = None
    data: Buffer | None = None
    start: int = 0
    """The row of the buffers that is row 0 of the column. Children of a struct begin at their own start."""


def lines(
    columns: Sequence[JsonColumn], bytes_max: int = LINES_BYTES_MAX, newline: bytes = b"\n"
) -> tuple[bytes, array[int]]:
    """Return the lines of all rows of the first column, and where each ends, behind `newline`: one byte, or none.

    ValueError where the columns contradict each other or their buffers. `DecompressionLimit` where the lines take more
    than `bytes_max`.
    """
    check(columns)
    writer, made, ends = _Writer(columns), bytearray(), array("q")
    for row in range(columns[0].rows):
        made += writer.value(0, row) + newline
        if len(made) > bytes_max:
            raise DecompressionLimit(f"the values take more than {bytes_max} bytes as JSON")
        ends.append(len(made))
    return bytes(made), ends


def check(columns: Sequence[JsonColumn]) -> None:
    """Raise ValueError unless every row of every column can be read. Takes time for each list and text."""
    if not 1 <= len(columns) <= COLUMNS_MAX:
        raise ValueError(f"{len(columns)} columns")
    depths = [0] * len(columns)
    for number, column in enumerate(columns):
        _check_shape(columns, number, column)
        if depths[number] > DEPTH_MAX:
            raise ValueError(f"more than {DEPTH_MAX} columns within columns")
        for child in column.children:
            depths[child] = max(depths[child], depths[number] + 1)
        _check_buffers(columns, column)


def _check_shape(columns: Sequence[JsonColumn], number: int, column: JsonColumn) -> None:
    kind, least = column.kind, {LIST: 1, MAP: 2}.get(column.kind)
    if not 0 <= kind < KINDS or column.start < 0 or column.rows < 0 or column.start + column.rows > 1 << 40:
        raise ValueError("a column of no kind, or with no rows")
    if not all(number < child < len(columns) for child in column.children):
        raise ValueError("a child that is no column behind its parent")
    if (least is not None and len(column.children) != least) or (kind < STRUCT and column.children):
        raise ValueError("a column with children that it cannot have")
    if kind == MAP and columns[column.children[0]].kind != TEXT:
        raise ValueError("keys that are no text")
    if kind in (TIME, TIMESTAMP, INSTANT) and column.param not in SECOND_UNITS:
        raise ValueError("a time of unknown units")
    if kind == DECIMAL and not 0 <= column.param <= SCALE_MAX:
        raise ValueError("a decimal of an unknown scale")


def _check_buffers(columns: Sequence[JsonColumn], column: JsonColumn) -> None:
    end = column.start + column.rows
    if column.validity is not None and _size(column.validity) * 8 < end:
        raise ValueError("a column with too few bits of validity")
    if column.kind in _WIDTHS and _size(column.data) < _WIDTHS[column.kind] * end:
        raise ValueError("a column with too few values")
    if column.kind == BITS and _size(column.data) * 8 < end:
        raise ValueError("a column with too few values")
    if column.kind in (STRUCT, UNION) and any(columns[child].rows < column.rows for child in column.children):
        raise ValueError("a child with fewer rows than its parent")
    if column.kind not in _VARIABLE or not column.rows:
        return
    if _size(column.ends) < 4 * (end + 1):
        raise ValueError("a column with too few ends")
    ends = _ends(column)[column.start : end + 1]
    most = min(columns[child].rows for child in column.children) if column.children else _size(column.data)
    if ends[0] < 0 or ends[-1] > most or any(left > right for left, right in itertools.pairwise(ends)):
        raise ValueError("a column whose ends do not rise, or lie behind its values")


def _size(buffer: Buffer | None) -> int:
    return 0 if buffer is None else memoryview(buffer).nbytes


def _ends(column: JsonColumn) -> list[int]:
    assert column.ends is not None
    data = memoryview(column.ends).cast("B")
    return list(struct.unpack_from(f"={len(data) // 4}i", data))


class _Writer:
    """The JSON of rows."""

    def __init__(self, columns: Sequence[JsonColumn]) -> None:
        self._columns = columns
        self._ends = [_ends(column) if column.ends is not None else [] for column in columns]
        self._data = [b"" if column.data is None else bytes(column.data) for column in columns]

    def _is_null(self, number: int, row: int) -> bool:
        column = self._columns[number]
        at = column.start + row
        if column.kind == NOTHING:
            return True
        if column.validity is not None and not memoryview(column.validity).cast("B")[at >> 3] >> (at & 7) & 1:
            return True
        return column.kind == UNION and all(self._is_null(child, row) for child in column.children)

    def named(self, number: int, row: int) -> bytes:
        """Return a member of an object: the name, without the quote that begins it, and the value."""
        column = self._columns[number]
        if column.kind == UNION and not self._is_null(number, row):
            return self.named(self._branch(number, row), row)
        if column.kind in (TEXT, BASE64) and not self._is_null(number, row):
            data = self._bytes(number, row)
            text = _text(data) if column.kind == TEXT else None
            return b'_b64":"' + base64.b64encode(data) + b'"' if text is None else b'":' + text
        return b'":' + self.value(number, row)

    def value(self, number: int, row: int) -> bytes:
        if self._is_null(number, row):
            return b"null"
        column = self._columns[number]
        kind, at = column.kind, column.start + row
        if kind == BITS:
            return b"true" if self._data[number][at >> 3] >> (at & 7) & 1 else b"false"
        if kind in _WIDTHS:
            return self._fixed(column, self._data[number][at * _WIDTHS[kind] : (at + 1) * _WIDTHS[kind]])
        if kind in (NUMBER, VERBATIM):
            text = self._bytes(number, row)
            return _NOT_FINITE.get(text, text) if kind == NUMBER else text
        if kind in (TEXT, BASE64):
            data = self._bytes(number, row)
            found = _text(data) if kind == TEXT else None
            return b'{"b64":"' + base64.b64encode(data) + b'"}' if found is None else found
        return self._nested(number, row)

    def _bytes(self, number: int, row: int) -> bytes:
        at, ends = self._columns[number].start + row, self._ends[number]
        return self._data[number][ends[at] : ends[at + 1]]

    def _fixed(self, column: JsonColumn, data: bytes) -> bytes:
        is_signed = column.kind != UNSIGNED
        value = int.from_bytes(data, "little", signed=is_signed)
        if column.kind in (SIGNED, UNSIGNED):
            return b"%d" % value
        if column.kind == DECIMAL:
            return b'"%s"' % _decimal(value, column.param)
        if column.kind == DATE:
            return b'"%s"' % _date(value)
        return _time(column.kind, value, column.param)

    def _branch(self, number: int, row: int) -> int:
        return next(child for child in self._columns[number].children if not self._is_null(child, row))

    def _nested(self, number: int, row: int) -> bytes:
        column = self._columns[number]
        if column.kind == UNION:
            return self.value(self._branch(number, row), row)
        if column.kind == STRUCT:
            members = [
                self._columns[child].name + self.named(child, row)
                for child in column.children
                if not (self._columns[child].is_omitted and self._is_null(child, row))
            ]
            return b"{" + b",".join(members) + b"}"
        at, ends = column.start + row, self._ends[number]
        rows = range(ends[at], ends[at + 1])
        if column.kind == LIST:
            return b"[" + b",".join(self.value(column.children[0], row) for row in rows) + b"]"
        keys, items = column.children
        return b"{" + b",".join(self._key(keys, row) + b'":' + self.value(items, row) for row in rows) + b"}"

    def _key(self, number: int, row: int) -> bytes:
        data = b"" if self._is_null(number, row) else self._bytes(number, row)
        text = _text(data)
        return b'"' + base64.b64encode(data) if text is None else text[:-1]


def _text(data: bytes) -> bytes | None:
    try:
        return json.dumps(data.decode(), ensure_ascii=False).encode()
    except UnicodeDecodeError:
        return None


def _decimal(value: int, scale: int) -> bytes:
    digits = b"%0*d" % (scale + 1, abs(value))
    text = digits[:-scale] + b"." + digits[-scale:] if scale else digits
    return b"-" + text if value < 0 else text


def _date(days: int) -> bytes:
    """Return a day of the Gregorian calendar, also before its beginning. Years above 9999 have a sign, as ISO 8601."""
    # Howard Hinnant's days_from_civil, backwards: http://howardhinnant.github.io/date_algorithms.html
    era, day = divmod(days + 719_468, 146_097)
    year_of_era = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day_of_year = day - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = era * 400 + year_of_era + (month <= 2)
    sign = b"-" if year < 0 else b"+" if year > 9999 else b""
    return b"%s%04d-%02d-%02d" % (sign, abs(year), month, day_of_year - (153 * shifted + 2) // 5 + 1)


def _time(kind: int, value: int, units: int) -> bytes:
    days, rest = divmod(value, _DAY_S * units)
    if kind == TIME and days:
        return b"%d" % value
    seconds, fraction = divmod(rest, units)
    text = b"%02d:%02d:%02d" % (seconds // 3600, seconds // 60 % 60, seconds % 60)
    if units > 1:
        text += b".%0*d" % (len(str(units)) - 1, fraction)
    if kind == TIME:
        return b'"%s"' % text
    return b'"%sT%s%s"' % (_date(days), text, b"Z" if kind == INSTANT else b"")
