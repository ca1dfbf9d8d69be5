"""Arrow record batches as Parquet files of about one size, in the order of the records.

A file ends when it has reached the target size. With days, each day of `_timestamp` in UTC has files of its own. Memory
is bounded: each open file gathers one row group, all together `GATHERED_BYTES_MAX`.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROW_GROUP_BYTES = 32 << 20
"""About how many bytes of Arrow a row group has."""
GATHERED_BYTES_MAX = 128 << 20
"""The bytes of Arrow that all open files gather."""
OPEN_FILES_MAX = 32
"""The days that have an open file at a time: with more, the file that waits longest ends."""
_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class DataFile:
    """A complete file."""

    path: str
    """As the table has it."""
    size: int
    day: int | None
    """The days since 1970 of its records; None if the table has no partitions by day."""
    metadata: pq.FileMetaData


@dataclass(slots=True)
class _OpenFile:
    path: str
    stream: Any
    writer: pq.ParquetWriter
    batches: list[pa.RecordBatch] = field(default_factory=list)
    gathered: int = 0

    def write(self) -> None:
        if self.batches:
            table = pa.Table.from_batches(self.batches)
            self.writer.write_table(table, row_group_size=len(table))
            self.batches, self.gathered = [], 0


class DataFiles:
    """The files of one commit."""

    def __init__(
        self,
        schema: pa.Schema,
        create: Callable[[str], tuple[str, Any]],
        remove: Callable[[str], None],
        file_bytes: int,
        *,
        is_by_day: bool,
    ) -> None:
        """`create`: opens a new file for a name, and returns its path and stream. `remove`: removes one by its path."""
        self.schema = schema
        self._create, self._remove = create, remove
        self._file_bytes = file_bytes
        self._is_by_day = is_by_day
        self._open: dict[int | None, _OpenFile] = {}
        self._complete: list[DataFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Add records with the columns of the table."""
        for day, part in _days(batch) if self._is_by_day else [(None, batch)]:
            file = self._open.pop(day, None) or self._begun(day)
            self._open[day] = file  # the last one is the one that was used last
            file.batches.append(part)
            file.gathered += part.nbytes
            if file.gathered >= ROW_GROUP_BYTES:
                self._write(day, file)
        while sum(file.gathered for file in self._open.values()) > GATHERED_BYTES_MAX:
            self._write(*max(self._open.items(), key=lambda item: item[1].gathered))

    def finish(self) -> list[DataFile]:
        """Complete the open files, and return all."""
        for day in list(self._open):
            self._end(day)
        return self._complete

    def discard(self) -> None:
        """Remove all files."""
        opened, self._open = self._open, {}
        for file in opened.values():
            with contextlib.suppress(Exception):  # the file is removed, whatever its writer says
                file.writer.close()
                file.stream.close()
        for path in (*(file.path for file in opened.values()), *(complete.path for complete in self._complete)):
            with contextlib.suppress(OSError):  # it belongs to no table
                self._remove(path)
        self._complete = []

    def _begun(self, day: int | None) -> _OpenFile:
        if len(self._open) >= OPEN_FILES_MAX:
            self._end(next(iter(self._open)))
        folder = "" if day is None else f"_day={np.datetime64(day, 'D')}/"
        path, stream = self._create(f"{folder}{uuid.uuid4()}.parquet")
        return _OpenFile(path, stream, pq.ParquetWriter(stream, self.schema, compression="zstd", store_schema=False))

    def _write(self, day: int | None, file: _OpenFile) -> None:
        file.write()
        if file.stream.tell() >= self._file_bytes:
            self._end(day)

    def _end(self, day: int | None) -> None:
        file = self._open.pop(day)
        file.write()
        file.writer.close()
        size = file.stream.tell()
        file.stream.close()
        self._complete.append(DataFile(file.path, size, day, file.writer.writer.metadata))


def _days(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the days since 1970, and the records of each, in their order."""
    times = batch.column("_timestamp").cast(pa.int64()).to_numpy()
    days = times // _DAY_US
    for day in np.unique(days).tolist():
        is_of_day = days == day
        yield day, batch if is_of_day.all() else batch.filter(pa.array(is_of_day))
