"""Counts of records by the schema that they name, of keys and values, and the schemas that are known by these names.

Records are counted in whole batches, without an object for each (`count_patterns` of the engine). Records of aborted
transactions count, control batches do not. Of a topic, `NAMES_MAX` names are told apart, and further ones counted
together.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from offsetfs.schemas.avro_fingerprint import fingerprint_of
from offsetfs.schemas.catalog import SchemaCatalog, SchemaVersion, VersionState
from offsetfs.schemas.references import KEY_FIELD, PATTERNS, VALUE_FIELD, NamedSchema, ReferenceForm, named_schema
from offsetfs.schemas.schema_files import FileSchema
from offsetfs.storage import Batch, Log, LogReader, TopicPartition
from offsetfs.storage.errors import StorageError
from offsetfs.storage.records import BEYOND, COLUMNS, KEY, NULL, OFFSET_DELTA, OTHER, VALUE, count_patterns

if TYPE_CHECKING:
    from offsetfs.schemas.background_registry import BackgroundRegistry
    from offsetfs.schemas.registry_schemas import RegistrySchemas

    Registry = RegistrySchemas | BackgroundRegistry

NAMES_MAX = 1000
"""The most names that keys, or values, of a topic are counted by."""

_FIELDS = {KEY_FIELD: KEY, VALUE_FIELD: VALUE}

Known = SchemaVersion | FileSchema


@dataclass(slots=True)
class NameCount:
    """The records of a topic with one name."""

    count: int
    partition: TopicPartition
    first: int
    """The offset of the first record, in this partition."""


@dataclass
class FieldUsage:
    """The records of a topic by what their keys, or values, name."""

    names: dict[NamedSchema, NameCount] = field(default_factory=dict)
    unnamed: int = 0
    """Records that name no schema."""
    nulls: int = 0
    beyond: int = 0
    """Records that name a schema, after `NAMES_MAX` others."""


@dataclass
class TopicUsage:
    """The records of a topic that were counted."""

    records: int = 0
    fields: dict[str, FieldUsage] = field(default_factory=lambda: {name: FieldUsage() for name in _FIELDS})

    def count(
        self,
        log: Log,
        newest: int | None,
        on_damage: Callable[[StorageError], object],
        on_batch: Callable[[int], None] | None = None,
    ) -> None:
        """Count the records of a partition, of its last `newest` offsets if that is given.

        Damaged batches, and records that a deletion removes meanwhile, are reported and left out. OSError of the disk.
        """
        start = None if newest is None else max(log.log_start_offset, log.next_offset - newest)
        for batch, first, stop in LogReader(log, start=start, on_damage=on_damage, on_lost=on_damage).slices():
            if on_batch is not None:
                on_batch(batch.header.size)
            try:
                rows = _rows_between(batch, first, stop)
                payload = batch.payload()
            except StorageError as error:
                on_damage(error)
                continue
            self.records += len(rows) // COLUMNS
            for name, column in _FIELDS.items():
                for group in count_patterns(payload, rows, column, PATTERNS[name], NAMES_MAX):
                    offset = batch.header.base_offset + rows[group.first * COLUMNS + OFFSET_DELTA]
                    self._add(name, group.pattern, group.data, NameCount(group.rows, log.partition, offset))

    def _add(self, name: str, pattern: int, data: bytes, counted: NameCount) -> None:
        usage = self.fields[name]
        named = named_schema(name, pattern, data) if pattern >= 0 else None
        if pattern == NULL:
            usage.nulls += counted.count
        elif pattern == BEYOND:
            usage.beyond += counted.count
        elif pattern == OTHER or named is None:
            usage.unnamed += counted.count
        elif named in usage.names:
            usage.names[named].count += counted.count
        elif len(usage.names) >= NAMES_MAX:
            usage.beyond += counted.count
        else:
            usage.names[named] = counted


def _rows_between(batch: Batch, first: int, stop: int) -> array[int]:
    rows, base = batch.rows(), batch.header.base_offset
    if first <= batch.base_offset and batch.header.next_offset <= stop:
        return rows
    deltas = rows[OFFSET_DELTA::COLUMNS]
    begin, end = bisect_left(deltas, first - base), bisect_left(deltas, stop - base)
    return rows[begin * COLUMNS : end * COLUMNS]


def name_of_unnamed(topic: str, field_name: str) -> str:
    """Return the name with which the user gives a schema for keys or values of a topic that name none."""
    return topic if field_name == VALUE_FIELD else f"{topic}:{field_name}"


class KnownSchemas:
    """The schemas of a catalog and of files, by what records name. Not thread-safe."""

    def __init__(
        self, catalog: SchemaCatalog, files: Mapping[str, FileSchema], registry: Registry | None = None
    ) -> None:
        """`registry` is asked for schemas that neither the files nor the catalog has."""
        self._catalog = catalog
        self._files = files
        self._registry = registry
        self._fingerprints: Mapping[str, Sequence[Known]] | None = None
        self.unparsed: list[tuple[Known, str]] = []
        """Avro schemas that have no fingerprint, with the reason; filled when the first fingerprint is looked up."""

    def unnamed(self, topic: str, field_name: str) -> FileSchema | None:
        """Return the schema that the user gave for keys or values of a topic that name none."""
        return self._files.get(name_of_unnamed(topic, field_name).lower())

    def find(self, named: NamedSchema, topic: str, field_name: str, *, asks_registry: bool = True) -> Sequence[Known]:
        """Return the schemas that a record of a topic may mean: files, then the subject of the topic, then others.

        Others, because a subject need not have the name of its topic. `RegistryError`.
        """
        given = self._files.get(named.name.lower())
        found: list[Known] = [] if given is None else [given]
        if named.form == ReferenceForm.AVRO_FINGERPRINT:
            return [*found, *self._by_fingerprint().get(named.name, ())]
        versions: Sequence[SchemaVersion] = ()
        if named.form in (ReferenceForm.CONFLUENT, ReferenceForm.CONFLUENT_HEADER):
            versions = self._catalog.with_guid(named.name) if named.id is None else self._catalog.with_id(named.id)
        subject = f"{topic}-{field_name}"
        is_replaced = VersionState.REPLACED
        ordered = sorted(versions, key=lambda version: (version.state == is_replaced, version.subject != subject))
        return [*found, *ordered] or (self._in_registry(named) if asks_registry else [])

    def reader(self, topic: str, field_name: str) -> Known | None:
        """Return the schema by which a topic is read: of its file, or the newest of its subject. `RegistryError`."""
        subject = f"{topic}-{field_name}"
        found = self.unnamed(topic, field_name) or self._catalog.latest(subject)
        return self._registry.latest(subject) if found is None and self._registry is not None else found

    def catalog_of(self, known: Known) -> SchemaCatalog:
        """Return the catalog that has the schemas to which one refers."""
        is_fetched = self._registry is not None and isinstance(known, SchemaVersion) and self._registry.has(known)
        return self._registry.catalog if self._registry is not None and is_fetched else self._catalog

    def _in_registry(self, named: NamedSchema) -> Sequence[Known]:
        if self._registry is None or named.form not in (ReferenceForm.CONFLUENT, ReferenceForm.CONFLUENT_HEADER):
            return []
        number = named.id
        found = self._registry.with_guid(named.name) if number is None else self._registry.with_id(number)
        return [] if found is None else [found]

    def _by_fingerprint(self) -> Mapping[str, Sequence[Known]]:
        if self._fingerprints is None:
            found = defaultdict[str, list[Known]](list)
            for version in (*self._files.values(), *self._catalog):
                if version.type == "AVRO":
                    try:
                        found[fingerprint_of(version.text)].append(version)
                    except ValueError as error:
                        self.unparsed.append((version, str(error)))
            self._fingerprints = found
        return self._fingerprints
