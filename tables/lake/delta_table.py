"""A table of Delta Lake, by deltalake.

Each commit has a `txn` action for each of its partitions: the id `offsetfs:orders-0`, with the next offset as version.
`offsetfs:orders-0:topic` has the beginning of the topic id. Delta keeps these actions in its checkpoints, and refuses
a commit if another one with the same ids came in between.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pa_fs
from deltalake import CommitProperties, Field, Schema, Transaction
from deltalake import DeltaTable as Delta
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from offsetfs.storage import TopicPartition
from offsetfs.tables.databases.layout import TableError
from offsetfs.tables.lake.data_files import DataFile, DataFiles
from offsetfs.tables.lake.lake_location import LakeLocation, LakeProgress, Overtaken, Progress, other_rows

_DESCRIPTION = "records of Kafka, by offsetfs table sync"
_DAY = "_day"
_STATISTICS = ("_partition", "_offset", "_timestamp")
"""The columns whose least and largest values are in the log of the table."""
_COLOR = re.compile(r"\s*(\x1b\[[0-9;]*m)+↳(\x1b\[[0-9;]*m)*|\x1b\[[0-9;]*m")
"""Colors in messages of deltalake; before a cause, with an arrow."""


class DeltaTable:
    """A table, and the columns that it has now."""

    def __init__(self, location: LakeLocation) -> None:
        """Note the place; nothing is opened."""
        self._place = location.directory or location.place
        self.name = f"delta:{location.place}"

    def open(self, columns: pa.Schema, topic: str | None, *, may_create: bool, is_by_day: bool) -> None:
        """Open the table, or create it. `topic`: whose decoded values it has. TableError."""
        with self._refused():
            if may_create:
                self._create(columns, topic, is_by_day=is_by_day)
            try:
                self._table = Delta(self._place, storage_options=_storage_options(self._place))
            except TableNotFoundError:
                raise TableError(f"{self.name}: there is no such table; --create creates it") from None
            self._files = _file_system(self._place)
        metadata = self._table.metadata()
        if metadata.description != _DESCRIPTION:
            raise TableError(f"{self.name} is a table of another program; choose another directory")
        if (metadata.name or "") != (topic or ""):
            raise other_rows(self.name, metadata.name or "")
        if metadata.partition_columns not in ([], [_DAY]):
            raise TableError(f"{self.name} has other partitions than by day; choose another directory")
        self.is_by_day = bool(metadata.partition_columns)

    def _create(self, columns: pa.Schema, topic: str | None, *, is_by_day: bool) -> None:
        if is_by_day:
            columns = columns.append(pa.field(_DAY, pa.date32()))
        Delta.create(
            self._place,
            Schema.from_arrow(columns),
            mode="ignore",
            partition_by=[_DAY] if is_by_day else None,
            name=topic,
            description=_DESCRIPTION,
            storage_options=_storage_options(self._place),
        )

    def grow(self, columns: pa.Schema) -> None:
        """Add columns that the table lacks; TableError for other types."""
        present = self.columns()
        for column in columns:
            if column.name in present.names and present.field(column.name).type != column.type:
                was = present.field(column.name).type
                raise TableError(
                    f"{self.name}: {column.name} is {column.type} now, and the column is {was}, which Delta Lake "
                    "cannot change; choose another directory"
                )
        added = [column for column in columns if column.name not in present.names]
        if added:
            with self._refused():
                try:
                    self._table.alter.add_columns([Field.from_arrow(field) for field in added])
                except CommitFailedError as error:
                    raise Overtaken(str(error)) from error
                self._table.update_incremental()

    def columns(self) -> pa.Schema:
        """Return the columns of the table, without that of its partitions."""
        schema = pa.schema(self._table.schema().to_arrow())
        return pa.schema([field for field in schema if not (self.is_by_day and field.name == _DAY)])

    def progress(self, partitions: Iterable[TopicPartition]) -> Progress:
        """Return the progress of partitions, as of now; TableError."""
        with self._refused():
            self._table.update_incremental()
            return self._progress(partitions)

    def _progress(self, partitions: Iterable[TopicPartition]) -> Progress:
        found = {}
        for partition in partitions:
            offset = self._table.transaction_version(_id(partition))
            if offset is not None:
                topic = self._table.transaction_version(f"{_id(partition)}:topic")
                found[partition] = LakeProgress(offset, topic)
        return found

    def data_files(self, file_bytes: int) -> DataFiles:
        """Return an empty set of files."""
        return DataFiles(self.columns(), self._new_file, self._remove, file_bytes, is_by_day=self.is_by_day)

    def _new_file(self, name: str) -> tuple[str, Any]:
        if folder := os.path.dirname(name):
            self._files.create_dir(folder, recursive=True)
        return name, self._files.open_output_stream(name)

    def _remove(self, path: str) -> None:
        self._files.delete_file(path)

    def commit(self, files: list[DataFile], before: Progress, after: Progress) -> None:
        """Add files and progress in one version, also behind commits of other writers.

        `before`: the progress that the files continue. `Overtaken` if it is another one by now.
        """
        marks = []
        for partition, progress in after.items():
            marks.append(Transaction(_id(partition), progress.next_offset))
            if progress.topic is not None:
                marks.append(Transaction(f"{_id(partition)}:topic", progress.topic))
        with self._refused():
            known = self._progress(after)
            if any(known.get(partition) != before.get(partition) for partition in after):
                raise Overtaken("another run has committed the same partitions")
            try:
                self._table.create_write_transaction(
                    [_action(file) for file in files],
                    "append",
                    self._table.schema(),
                    partition_by=[_DAY] if self.is_by_day else None,
                    commit_properties=CommitProperties(app_transactions=marks),
                )
            except CommitFailedError as error:
                raise Overtaken(str(error)) from error
            self._table.update_incremental()

    @contextlib.contextmanager
    def _refused(self) -> Iterator[None]:
        """Turn what the library or the storage refuses into a TableError."""
        try:
            yield
        except (DeltaError, OSError, ValueError, pa.ArrowException) as error:
            raise TableError(f"{self.name}: {' '.join(_COLOR.sub(':', str(error)).split())}") from error


def _storage_options(place: str) -> dict[str, str] | None:
    """Return what the library needs for a service of S3 without TLS, which archives take by the same variable."""
    is_plain = place.startswith("s3") and os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    return {"allow_http": "true"} if is_plain else None


def _id(partition: TopicPartition) -> str:
    return f"offsetfs:{partition}"


def _file_system(place: str) -> pa_fs.FileSystem:
    """Return the file system whose root is the directory of the table."""
    files, path = pa_fs.FileSystem.from_uri(place) if "://" in place else (pa_fs.LocalFileSystem(), place)
    return pa_fs.SubTreeFileSystem(path, files)


def _action(file: DataFile) -> AddAction:
    metadata = file.metadata
    least, largest, nulls = dict[str, object](), dict[str, object](), dict[str, int]()
    names = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
    for name in _STATISTICS:
        at = names.index(name)
        groups = [metadata.row_group(number).column(at).statistics for number in range(metadata.num_row_groups)]
        if groups and all(group is not None and group.has_min_max for group in groups):
            low, high = min(group.min for group in groups), max(group.max for group in groups)
            least[name], largest[name] = _of_json(low), _of_json(high)
            nulls[name] = 0
    statistics = {"numRecords": metadata.num_rows, "minValues": least, "maxValues": largest, "nullCount": nulls}
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values={} if file.day is None else {_DAY: str(np.datetime64(file.day, "D"))},
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=json.dumps(statistics),
    )


def _of_json(value: Any) -> object:
    return value if isinstance(value, int) else value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
