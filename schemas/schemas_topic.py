"""The topic `_schemas`, in which a schema registry stores its schemas, read into a `SchemaCatalog`.

Keys and values are JSON objects. A key has `keytype`; three of them change schemas:

    SCHEMA           key: subject, version. Value: id, schema, and if present guid, schemaType (without: AVRO),
                     references, deleted. A null value removes the version; Karapace writes an empty one
    DELETE_SUBJECT   value: subject, version, up to which all versions are deleted; of Redpanda without version: all
    CLEAR_SUBJECT    value: subject, whose deleted versions are removed

Others, such as CONFIG, MODE and NOOP, are counted. Unknown fields are ignored, so newer registries can be read.

Keys of Redpanda have `seq`, the offset that the writer expected. If writers collide, the first wins: a record with a
value at another offset changes no version that is known. Redpanda ignores unknown ones as well; but in a copy of its
topic all offsets may be others.

All records that segments hold are read, also those that the next compaction removes.

A record that cannot be used is never an error of the whole: it is counted by its reason, with the offset of the first.
Bounds: those of the catalog; a batch is inflated within the limits of the engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from offsetfs.schemas.catalog import TEXT_BYTES_MAX, VERSIONS_MAX, SchemaCatalog, SchemaVersion
from offsetfs.schemas.catalog import VersionState as State
from offsetfs.schemas.registry_json import (
    Json,
    UnusableJson,
    guid_of,
    number_of,
    parsed_object,
    references_of,
    short_text_of,
    tags_of,
    text_of,
    type_of,
)
from offsetfs.storage import I32_MAX, OFFSET_MAX, AnyLogDirectory, LogReader, TopicPartition
from offsetfs.storage.errors import StorageError, sentence

SCHEMAS_TOPIC = "_schemas"

DAMAGE_MAX = 100
"""The most damaged batches that are named one by one."""

USUAL_KEY_TYPES = frozenset(("CONFIG", "MODE", "CONTEXT", "NOOP", "DELETE_SUBJECT", "CLEAR_SUBJECT"))
"""Key types of records that concern no schema; deletions are among them when they end."""

KEY_TYPES_MAX = 100
"""The most key types that are counted by name."""

OUT_OF_SEQUENCE = "out of sequence"
"""In place of a key type: the losers of a collision in Redpanda."""


@dataclass(slots=True)
class Unusable:
    """Records that are left out for one reason."""

    count: int
    first: str
    """Partition and offset of the first."""


@dataclass
class SchemasTopic:
    """The result of reading the topic."""

    catalog: SchemaCatalog = field(default_factory=SchemaCatalog)
    records: int = 0
    others: Counter[str] = field(default_factory=Counter)
    """The number of records that concern no schema, by key type."""
    unusable: dict[str, Unusable] = field(default_factory=dict)
    """Records that are left out, by reason."""
    notes: list[str] = field(default_factory=list)
    """A sentence on each partition whose first records are only in remote storage."""
    damage: list[str] = field(default_factory=list)
    """A sentence on each damaged batch, which is left out."""
    damaged: int = 0
    """The number of damaged batches; `damage` names at most `DAMAGE_MAX`."""

    def take(self, key: bytes | None, value: bytes | None, partition: TopicPartition, offset: int) -> None:
        """Apply a record."""
        self.records += 1
        try:
            self._take(key, value, partition, offset)
        except UnusableJson as error:
            found = self.unusable.setdefault(str(error), Unusable(0, f"{partition} offset {offset}"))
            found.count += 1

    def take_damage(self, error: StorageError) -> None:
        """Count a damaged batch."""
        self.damaged += 1
        if len(self.damage) < DAMAGE_MAX:
            self.damage.append(sentence(error))

    def _take(self, key: bytes | None, value: bytes | None, partition: TopicPartition, offset: int) -> None:
        if key is None:
            raise UnusableJson("the key is null")
        named = parsed_object(key, "key")
        key_type = short_text_of(named, "keytype", "key")
        is_in_sequence = named.get("seq") is None or number_of(named, "seq", "key", 0, OFFSET_MAX) == offset
        if key_type == "SCHEMA":
            self._take_schema(named, value, is_in_sequence, f"{partition} offset {offset}")
        elif key_type in ("DELETE_SUBJECT", "CLEAR_SUBJECT") and value:  # without: the end of a deletion
            content = parsed_object(value, "value")
            subject = text_of(content, "subject", "value")
            if not is_in_sequence:
                self.others[OUT_OF_SEQUENCE] += 1
            elif key_type == "CLEAR_SUBJECT":
                self.catalog.clear_subject(subject)
            else:
                is_all = content.get("version") is None
                self.catalog.delete_subject(subject, I32_MAX if is_all else number_of(content, "version", "value", 0))
        elif key_type in self.others or len(self.others) < KEY_TYPES_MAX:
            self.others[key_type] += 1
        else:
            raise UnusableJson(f"the records before it have {KEY_TYPES_MAX} other keytypes")

    def _take_schema(self, named: Json, value: bytes | None, is_in_sequence: bool, origin: str) -> None:
        subject, number = text_of(named, "subject", "key"), number_of(named, "version", "key")
        if not value:
            self.catalog.remove(subject, number)
            return
        if not is_in_sequence and self.catalog.version((subject, number)) is not None:
            self.others[OUT_OF_SEQUENCE] += 1
            return
        content = parsed_object(value, "value")
        is_deleted = content.get("deleted", False)
        if not isinstance(is_deleted, bool):
            raise UnusableJson("deleted of the value is no boolean")
        version = SchemaVersion(
            subject,
            number,
            number_of(content, "id", "value", 0),
            guid_of(content),
            type_of(content),
            tuple(references_of(content)),
            text_of(content, "schema", "value"),
            origin,
            State.DELETED if is_deleted else State.ACTIVE,
            tuple(tags_of(content)),
        )
        if not self.catalog.add(version):
            limits = f"{VERSIONS_MAX} versions or {TEXT_BYTES_MAX >> 20} MiB"
            raise UnusableJson(f"the schemas before it have {limits}, the most that is kept")


def read_schemas_topic(
    directory: AnyLogDirectory, topic: str = SCHEMAS_TOPIC, on_batch: Callable[[int], None] | None = None
) -> SchemasTopic | None:
    """Read all that the segments of a topic still hold; None where the directory has no such topic.

    A registry uses one partition; of others, each is read. `on_batch` is called with the size of each batch in bytes.
    Raises what `LogDirectory.log` raises; OSError of the disk. Damaged batches are left out and counted.
    """
    partitions = sorted(partition for partition in directory.partitions() if partition.topic == topic)
    if not partitions:
        return None
    found = SchemasTopic()
    for partition in partitions:
        log = directory.log(partition)
        if log.remote_note is not None:
            found.notes.append(f"{partition}: {log.remote_note}")
        for batch in LogReader(log, on_damage=found.take_damage, on_lost=found.take_damage).batches():
            if on_batch is not None:
                on_batch(batch.header.size)
            try:
                records = batch.records()
            except StorageError as error:
                found.take_damage(error)
                continue
            for record in records:
                found.take(record.key, record.value, partition, record.offset)
    return found
