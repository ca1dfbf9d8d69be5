"""A table of Apache Iceberg, by pyiceberg.

The summary of each snapshot of a sync has the progress of all partitions in `offsetfs.progress`, a JSON object:

    {"orders-0": [42, 4611686018427387904]}      the next offset, and the beginning of the topic id or null

Snapshots of other writers have none: then that of the nearest ancestor counts. So a table that is rolled back is
continued where its rows end. The same text is a property of the table, for a table whose older snapshots have expired.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
    ValidationError,
    ValidationException,
)
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.transforms import DayTransform
from pyiceberg.typedef import Record
from sqlalchemy.exc import SQLAlchemyError

from offsetfs.storage import TopicPartition
from offsetfs.tables.databases.layout import TableError
from offsetfs.tables.databases.table_location import TableName
from offsetfs.tables.lake.data_files import DataFile, DataFiles
from offsetfs.tables.lake.lake_location import LakeLocation, LakeProgress, Overtaken, Progress, other_rows

_PROGRESS, _COMMIT, _TOPIC = "offsetfs.progress", "offsetfs.commit", "offsetfs.topic"
_CATALOG = "default"
"""The name of the catalog in a warehouse: that of the commands of pyiceberg."""
_DAY = "_day"
_NAMESPACE = "default"
_ERRORS = (RESTError, ValidationError, ValidationException)
_ATTEMPTS = 20
"""Commits of other writers in between, after which a commit is given up."""


class IcebergTable:
    """A table, and the columns that it has now."""

    def __init__(self, location: LakeLocation, table: TableName) -> None:
        """Note the place; nothing is opened."""
        self._location = location
        self._identifier = (table.schema or _NAMESPACE, table.name)
        self.name = f"iceberg:{location.place} {'.'.join(self._identifier)}"

    def open(self, columns: pa.Schema, topic: str | None, *, may_create: bool, is_by_day: bool) -> None:
        """Open the table, or create it. `topic`: whose decoded values it has. TableError."""
        with self._refused():
            self._catalog = _catalog(self._location, may_create=may_create)
            try:
                self._table = self._catalog.load_table(self._identifier)
            except (NoSuchTableError, NoSuchNamespaceError):
                if not may_create:
                    raise TableError(f"{self.name}: there is no such table; --create creates it") from None
                self._create(columns, topic, is_by_day=is_by_day)
        if _TOPIC not in self._table.properties:
            raise TableError(f"{self.name} is a table of another program; choose another --table")
        if self._table.properties[_TOPIC] != (topic or ""):
            raise other_rows(self.name, self._table.properties[_TOPIC])
        fields = self._table.spec().fields
        if fields and (len(fields) != 1 or fields[0].name != _DAY):
            raise TableError(f"{self.name} has other partitions than by day; choose another --table")
        self.is_by_day = bool(fields)
        self._progress()

    def _create(self, columns: pa.Schema, topic: str | None, *, is_by_day: bool) -> None:
        self._catalog.create_namespace_if_not_exists(self._identifier[:1])
        with contextlib.suppress(TableAlreadyExistsError):  # by another run
            creation = self._catalog.create_table_transaction(
                self._identifier, columns, properties={_TOPIC: topic or "", "format-version": "2"}
            )
            if is_by_day:
                with creation.update_spec() as spec:
                    spec.add_field("_timestamp", DayTransform(), _DAY)
            with contextlib.suppress(CommitFailedException):  # another run has created it: it is opened as it is
                creation.commit_transaction()
        self._table = self._catalog.load_table(self._identifier)

    def grow(self, columns: pa.Schema) -> None:
        """Add columns that the table lacks, and widen decimals; TableError for other types."""
        with self._refused():
            if _fit(self.columns(), columns):
                return
            try:
                with self._table.update_schema() as update:
                    update.union_by_name(columns)
            except CommitFailedException as error:
                self._table.refresh()
                raise Overtaken(str(error)) from error

    def columns(self) -> pa.Schema:
        """Return the columns of the table, with their ids."""
        return pa.schema([_small(field) for field in schema_to_pyarrow(self._table.schema())])

    def progress(self, partitions: Iterable[TopicPartition]) -> Progress:
        """Return the progress of partitions, as of now; TableError."""
        with self._refused():
            self._table.refresh()
            known = self._progress()
        return {partition: known[partition] for partition in partitions if partition in known}

    def _progress(self) -> Progress:
        snapshot = self._table.current_snapshot()
        while snapshot is not None:
            text = None if snapshot.summary is None else snapshot.summary.additional_properties.get(_PROGRESS)
            if text is not None:
                return self._parsed(text)
            parent = snapshot.parent_snapshot_id and self._table.snapshot_by_id(snapshot.parent_snapshot_id)
            if not parent and snapshot.sequence_number != 1:  # older snapshots have expired
                return self._parsed(self._table.properties.get(_PROGRESS, "{}"))
            snapshot = parent or None
        return {}

    def _parsed(self, text: str) -> Progress:
        try:
            found = {}
            for name, (offset, topic) in json.loads(text).items():
                topic_name, _, number = name.rpartition("-")
                found[TopicPartition(topic_name, int(number))] = LakeProgress(int(offset), topic)
        except (ValueError, TypeError, AttributeError):
            raise TableError(f"{self.name}: {_PROGRESS} of a snapshot was changed; choose another --table") from None
        return found

    def data_files(self, file_bytes: int) -> DataFiles:
        """Return an empty set of files."""
        return DataFiles(self.columns(), self._new_file, self._table.io.delete, file_bytes, is_by_day=self.is_by_day)

    def _new_file(self, name: str) -> tuple[str, Any]:
        path = self._table.location_provider().new_data_location(name)
        return path, self._table.io.new_output(path).create()

    def commit(self, files: list[DataFile], before: Progress, after: Progress) -> None:
        """Add files and progress in one snapshot, also behind commits of other writers.

        `before`: the progress that the files continue. `Overtaken` if it is another one by now.
        """
        with self._refused():
            schema, spec = self._table.metadata.current_schema_id, self._table.metadata.default_spec_id
            added = [self._described(file) for file in files]
            for _ in range(_ATTEMPTS):
                known, metadata = self._progress(), self._table.metadata
                if any(known.get(partition) != before.get(partition) for partition in after) or (schema, spec) != (
                    metadata.current_schema_id,
                    metadata.default_spec_id,
                ):
                    raise Overtaken("another run has committed the same partitions")
                if self._is_committed(added, {**known, **after}):
                    return
            raise TableError(f"{self.name}: other writers commit all the time; run the command again later")

    def _is_committed(self, files: list[IcebergFile], progress: Progress) -> bool:
        """Commit, and return whether nothing came in between. The table is as of now on return."""
        text = json.dumps({str(name): [reached.next_offset, reached.topic] for name, reached in progress.items()})
        mark = str(uuid.uuid4())
        metadata = self._table.metadata
        # pyiceberg commits again by itself, behind a commit that may have added the same records.
        self._table.metadata = metadata.model_copy(
            update={"properties": {**metadata.properties, "commit.retry.num-retries": "0"}}
        )
        transaction = self._table.transaction()
        transaction.set_properties({_PROGRESS: text})
        with transaction.update_snapshot(snapshot_properties={_PROGRESS: text, _COMMIT: mark}).fast_append() as append:
            for file in files:
                append.append_data_file(file)
        try:
            transaction.commit_transaction()
        except (CommitFailedException, ValidationException):
            self._table.refresh()
            return False
        except CommitStateUnknownException as error:
            self._table.refresh()
            if not any(
                snapshot.summary is not None and snapshot.summary.get(_COMMIT) == mark
                for snapshot in self._table.snapshots()
            ):
                raise TableError(f"{self.name}: it is unknown whether a commit was made: {error}; run again") from error
        return True

    def _described(self, file: DataFile) -> IcebergFile:
        schema, properties = self._table.schema(), self._table.properties
        statistics = data_file_statistics_from_parquet_metadata(
            parquet_metadata=file.metadata,
            stats_columns=compute_statistics_plan(schema, properties),
            parquet_column_mapping=parquet_path_to_id_mapping(schema),
        )
        return IcebergFile.from_args(
            content=DataFileContent.DATA,
            file_path=file.path,
            file_format=FileFormat.PARQUET,
            partition=Record() if file.day is None else Record(file.day),
            file_size_in_bytes=file.size,
            sort_order_id=None,
            spec_id=self._table.metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )

    @contextlib.contextmanager
    def _refused(self) -> Iterator[None]:
        """Turn what the catalog, the library or the storage refuses into a TableError."""
        try:
            yield
        except (*_ERRORS, SQLAlchemyError, OSError, ValueError, pa.ArrowException) as error:
            raise TableError(f"{self.name}: {' '.join(str(error).split())}") from error


def _catalog(location: LakeLocation, *, may_create: bool) -> Catalog:
    path = location.directory
    if not path:
        return load_catalog(location.place)
    file = os.path.join(path, "catalog.db")
    if may_create:
        os.makedirs(path, exist_ok=True)
    elif not os.path.exists(file):
        raise TableError(f"{path} has no catalog.db; --create creates it")
    return SqlCatalog(_CATALOG, uri=f"sqlite:///{file}", warehouse=f"file://{path}")


def _fit(present: pa.Schema, wanted: pa.Schema) -> bool:
    return all(field.name in present.names and present.field(field.name).type == field.type for field in wanted)


def _small(each: pa.Field) -> pa.Field:
    """Return a field with the types of Arrow that have 32-bit offsets; the ids stay."""
    kind, types = each.type, pa.types
    if types.is_large_string(kind):
        return each.with_type(pa.string())
    if types.is_large_binary(kind):
        return each.with_type(pa.binary())
    if types.is_large_list(kind):
        return each.with_type(pa.list_(_small(kind.value_field)))
    if types.is_struct(kind):
        return each.with_type(pa.struct([_small(inner) for inner in kind]))
    if types.is_map(kind):
        return each.with_type(pa.map_(_small(kind.key_field), _small(kind.item_field)))
    return each
