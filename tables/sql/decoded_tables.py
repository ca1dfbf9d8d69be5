"""The decoded values of topics as tables of DuckDB, in its schema `decoded`: a column for each field.

The columns are those of the newest version of the topic's subject, or of a file that the user gave for the topic.
Beside them are the columns that a record has by itself, with `_` before their names, and `_error`: why a value is not
decoded. Fields that no statement names are not decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from offsetfs.schemas.decoding import DirectorySchemas
from offsetfs.tables.arrow import SCHEMA
from offsetfs.tables.sql.topic_table import ScanContext, TopicTable

DECODED = "decoded"
"""The schema of DuckDB that has the tables."""

_PREFIX = "_"
_OWN = ("partition", "offset", "timestamp", "key", "headers")
_ERROR = f"{_PREFIX}error"
_VALUE = "value"
"""The column of a topic whose values are not records."""


class DecodedTable(TopicTable):
    """The values of a topic, decoded; null where they cannot be."""

    prefix = _PREFIX
    shows_raw = False

    def __init__(self, topic: str, context: ScanContext, schemas: DirectorySchemas) -> None:
        """`NoSchema` if the topic has none."""
        self._schemas = schemas
        self._reader = reader = schemas.reader(topic)
        decoded = schemas.decoder(topic, reader).type
        own = [pa.field(_PREFIX + name, SCHEMA.field(name).type) for name in _OWN]
        self._is_record = is_record = reader.fields is not None
        fields = [decoded.field(at) for at in range(decoded.num_fields)] if is_record else [pa.field(_VALUE, decoded)]
        names = distinct([*(field.name for field in own), _ERROR, *(field.name for field in fields)])[len(own) + 1 :]
        self._fields = {name: field.name for name, field in zip(names, fields, strict=True)}
        shown = [field.with_name(name).with_nullable(True) for name, field in zip(names, fields, strict=True)]
        super().__init__(topic, context, pa.schema([*own, pa.field(_ERROR, pa.string()), *shown]))

    def columns(self) -> list[str]:
        """Return the names of the columns as a person reads them: the fields first."""
        own = [_PREFIX + name for name in _OWN]
        return [*self._fields, *own, _ERROR]

    def conversion(self, needed: Sequence[str]) -> tuple[pa.Schema, Callable[[pa.RecordBatch], pa.RecordBatch]]:
        own = [name for name in _OWN if _PREFIX + name in needed]
        fields = [name for name in needed if name in self._fields]
        wants_value = bool(fields) or _ERROR in needed
        raw = pa.schema([SCHEMA.field(name) for name in (*own, *([_VALUE] if wants_value else []))])
        schema = self._schema_of(needed)
        if not wants_value:
            return raw, lambda batch: batch.rename_columns([_PREFIX + name for name in own]).select(needed)
        # An error of a field that is not shown is one nevertheless: with `_error` alone the whole value is read.
        wanted = [self._fields[name] for name in fields] if self._is_record and fields else None
        assert self._topic is not None
        decoder = self._schemas.decoder(self._topic, self._reader, wanted)

        def converted(batch: pa.RecordBatch) -> pa.RecordBatch:
            column = decoder.decode(batch.column(_VALUE))
            made = {_ERROR: column.reasons.cast(pa.string())}
            made |= {_PREFIX + name: batch.column(name) for name in own}
            parts = column.values.flatten() if self._is_record and fields else [column.values]
            made |= dict(zip(fields, parts, strict=False))
            return pa.RecordBatch.from_arrays([made[name] for name in needed], schema=schema)

        return raw, converted


def distinct(names: Sequence[str]) -> list[str]:
    """Return names of which no two are equal, whatever their case: the second `key` is `key_1`, as DuckDB does it."""
    taken: set[str] = set()
    made = []
    for wanted in names:
        name, number = wanted, 0
        while name.lower() in taken:
            number += 1
            name = f"{wanted}_{number}"
        taken.add(name.lower())
        made.append(name)
    return made
