"""Rows of CSV files as staged batches: what one task of a CSV import does, a whole file at a time.

The first row names the columns. Each row after it becomes a value: a JSON object of the columns as text, null where a
field is empty. Fields may be quoted, and a quoted field may hold commas, newlines and doubled quotes (RFC 4180). Only a
reader that begins at the start of a file knows which newlines are quoted, therefore a file is not cut into ranges.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from offsetfs.pipeline.jobs.lines import LINE_BYTES_MAX, Found, TakeLines, taking_texts
from offsetfs.pipeline.jobs.workers import JobFailed
from offsetfs.pipeline.staging import StagingFile, Target
from offsetfs.storage import files

BLOCK_ROWS = 10_000
READ_BYTES = 1 << 20


@dataclass(slots=True)
class _Rows:
    """The rows of one file as lines of JSON, with the line of the file where each begins."""

    path: str
    rejects_max: int
    rejected: int = 0
    rejects: list[tuple[int, str]] = field(default_factory=list)

    def blocks(self) -> Iterator[tuple[bytes, list[int]]]:
        """Yield values, a line each, and where they begin. `JobFailed` for a header that names no columns."""
        csv.field_size_limit(LINE_BYTES_MAX)
        reader = csv.reader(_lines(self.path), strict=True)
        header: list[str] | None = None
        values: list[bytes] = []
        starts: list[int] = []
        for start, row in self._rows(reader):
            if header is None:
                header = _checked(row, self.path)
            elif (value := self._value(header, row, start)) is not None:
                values.append(value)
                starts.append(start)
            if len(values) >= BLOCK_ROWS:
                yield b"".join(values), starts
                values, starts = [], []
        if values:
            yield b"".join(values), starts

    def reject(self, line: int, reason: str) -> None:
        """Count an invalid row, and keep the first rows."""
        self.rejected += 1
        if len(self.rejects) <= self.rejects_max:
            self.rejects.append((line, reason))

    def _rows(self, reader: Any) -> Iterator[tuple[int, list[str]]]:
        """Yield each row that is not blank, with the number of its first line; unreadable rows are rejected."""
        while True:
            start = reader.line_num + 1
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                self.reject(start, f"no row of CSV ({error})")
                continue
            if row:
                yield start, row

    def _value(self, header: list[str], row: list[str], start: int) -> bytes | None:
        if len(row) != len(header):
            self.reject(start, f"{_fields(len(row))}, but the header names {_fields(len(header))}")
            return None
        text = json.dumps(dict(zip(header, (cell or None for cell in row), strict=True)), ensure_ascii=False)
        try:
            return text.encode() + b"\n"
        except UnicodeEncodeError:
            self.reject(start, "these bytes are not UTF-8")
            return None


def stage_csv(path: str, target: Target, split: int, attempt: int, *, rejects_max: int) -> Found:
    """Stage the rows of a file; on disk after return. More than `rejects_max` faults are only counted.

    Raises `JobFailed` for a file without column names, `RecordTooLarge` and OSError; then no file is left behind.
    """
    assert target.topic is not None
    staging = StagingFile(target, split, attempt)
    take = taking_texts(staging, target.topics[target.topic], target.topic, split)
    rows = _Rows(path, rejects_max)
    try:
        for block, starts in rows.blocks():
            _take(take, block, starts, rows)
        return Found(staging.finish(), rows.rejected, rows.rejects)
    except BaseException:
        staging.abandon()
        raise


def _take(take: TakeLines, block: bytes, starts: list[int], rows: _Rows) -> None:
    position = 0
    while position < len(block):
        position, fault = take(block, position)
        if fault is not None:
            rows.reject(starts[block.count(b"\n", 0, position)], fault)
            position = block.index(b"\n", position) + 1


def _lines(path: str) -> Iterator[str]:
    """Yield the lines of a file with their ends, as the reader of CSV wants them; bytes that are no text as escapes."""
    rest = b""
    with files.open_file(path) as file:
        position, size = 0, file.size()
        while position < size:
            block = rest + bytes(file.read(position, min(READ_BYTES, size - position)))
            position += len(block) - len(rest)
            if not position:
                return
            *lines, rest = block.split(b"\n")
            yield from (_text(line + b"\n") for line in lines)
            if len(rest) > LINE_BYTES_MAX:
                raise JobFailed(f"{path}: a line of more than {LINE_BYTES_MAX} bytes")
    if rest:
        yield _text(rest)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape").removeprefix("\ufeff")


def _checked(header: list[str], path: str) -> list[str]:
    repeated = [name for number, name in enumerate(header) if name in header[:number]]
    if repeated:
        raise JobFailed(f"{path}: the header names column {repeated[0]!r} twice")
    return header


def _fields(count: int) -> str:
    return f"{count} field" if count == 1 else f"{count} fields"
