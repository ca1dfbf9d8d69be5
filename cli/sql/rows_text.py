"""Rows of a result as text: a table with aligned columns."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from offsetfs.common.formatting import printable
from offsetfs.storage.errors import counted

if TYPE_CHECKING:
    from offsetfs.tables.sql.session import QueryResult
    from offsetfs.tables.sql.topic_table import Scan

_MEASURED_ROWS = 500
"""So many rows decide the width of the columns; later ones may be wider."""

_NUMBERS = (int, float)


def table_lines(result: QueryResult) -> Iterator[str]:
    """Yield the lines of a result: a head, a line for each row, their number. Nothing for a statement without rows."""
    if not result.columns:
        return
    first = list(itertools.islice(result.rows, _MEASURED_ROWS))
    texts = [[cell_text(value) for value in row] for row in first]
    head = [printable(column) for column in result.columns]
    widths = [max(map(_width, column)) for column in zip(head, *texts, strict=True)]
    right = [all(isinstance(value, _NUMBERS) for value in column) for column in zip(*first, strict=True)]
    right = right or [False] * len(head)
    yield " | ".join(_padded(name, width) for name, width in zip(head, widths, strict=True)).rstrip()
    yield "-+-".join("-" * width for width in widths)
    count = 0
    for row in itertools.chain(texts, ([cell_text(value) for value in row] for row in result.rows)):
        count += 1
        cells = zip(row, widths, right, strict=True)
        yield " | ".join(text.rjust(width) if r else _padded(text, width) for text, width, r in cells).rstrip()
    yield f"({counted(count, 'row')})"


def _width(text: str) -> int:
    """Return how many cells of a terminal a text takes: two for a character of East Asia, none for a combining one."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def expanded_lines(result: QueryResult) -> Iterator[str]:
    """Yield a line for each column of each row, for values that are wider than a terminal."""
    if not result.columns:
        return
    width = max(map(_width, map(printable, result.columns)))
    count = 0
    for row in result.rows:
        count += 1
        yield f"-[ {count} ]-".ljust(width + 1, "-") + "+---"
        for name, value in zip(result.columns, row, strict=True):
            yield f"{_padded(printable(name), width)} | {cell_text(value)}".rstrip()
    yield f"({counted(count, 'row')})"


def plan_lines(result: QueryResult) -> Iterator[str]:
    """Yield the lines of an EXPLAIN: DuckDB's plan, and what each scan reads of the log directory."""
    for row in result.rows:
        yield str(row[-1]).rstrip("\n")
    for scan in result.scans:
        yield from _scan_lines(scan)


def _scan_lines(scan: Scan) -> Iterator[str]:
    read = sum(part.size_bytes for part in scan.ranges)
    partitions = len({part.partition for part in scan.ranges})
    yield (
        f"reads of {printable(scan.topic)}: {counted(partitions, 'partition')} of {scan.partitions}, about {read} of "
        f"{scan.size_bytes} bytes; columns {', '.join(scan.columns)}"
    )
    for part in scan.ranges:
        yield f"  {part.partition}  offsets {part.start} to {part.stop - 1}, about {part.size_bytes} bytes"


def cell_text(value: object) -> str:
    """Return a value as one line of text. Bytes are text where they are UTF-8, and hexadecimal with \\x otherwise."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        try:
            return printable(value.decode())
        except UnicodeDecodeError:
            return f"\\x{value.hex()}"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds" if value.microsecond % 1000 == 0 else "microseconds")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(cell_text(element) for element in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {cell_text(element)}" for name, element in value.items()) + "}"
    return printable(str(value))
