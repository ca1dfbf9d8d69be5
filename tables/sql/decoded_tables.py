"""The decoded values of topics as tables of DuckDB, in its schema `decoded`: a column for each field.

The columns are those of the newest version of the topic's subject, or of a file that the user gave for the topic.
Beside them are the columns that a record has by itself, with `_` before their names, and `_error`: why a value or key
is not decoded. `_key` is decoded if there is a schema for it: of the subject `TOPIC-key`, or of a file. Fields that no
statement names are not decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from offsetfs.schemas.decoding import DirectorySchemas, TopicDecoder, joined_reasons
from offsetfs.schemas.references import KEY_FIELD
from offsetfs.tables.arrow import SCHEMA
from offsetfs.tables.sql.topic_table import ScanContext, TopicTable

DECODED = "decoded"
"""The schema of DuckDB that has the tables."""

_PREFIX = "_"
_KEY, _HEADERS = "key", "headers"
_OWN = ("partition", "offset", "timestamp", _KEY, _HEADERS)
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
        self._key_reader = schemas.key_reader(topic)
        decoded = reader.type
        own = [pa.field(_PREFIX + name, SCHEMA.field(name).type) for name in _OWN]
        if self._key_reader is not None:
            own[_OWN.index(_KEY)] = pa.field(_PREFIX + _KEY, self._key_reader.type)
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
        # An error of a field that is not shown is one nevertheless: with `_error` alone the whole value is read.
        sources = self._sources(fields, _ERROR in needed, _KEY in own)
        scanned = dict.fromkeys((*own, *(source.column for source in sources), *([_HEADERS] if sources else [])))
        schema = self._schema_of(needed)

        def converted(batch: pa.RecordBatch) -> pa.RecordBatch:
            made = {_PREFIX + name: batch.column(name) for name in own}
            reasons = dict[str, pa.Array]()
            for source in sources:
                column = source.decoder.decode(batch.column(source.column), batch.column(_HEADERS))
                reasons[source.column] = column.reasons
                parts = column.values.flatten() if source.is_flat else [column.values]
                made |= dict(zip(source.names, parts, strict=False))
            if _ERROR in needed:
                made[_ERROR] = joined_reasons(reasons.get(_VALUE), reasons.get(_KEY))
            return pa.RecordBatch.from_arrays([made[name] for name in needed], schema=schema)

        return pa.schema([SCHEMA.field(name) for name in scanned]), converted

    def _sources(self, fields: Sequence[str], wants_error: bool, wants_key: bool) -> list[_Source]:
        """Return what is decoded for some fields of the value, the reasons, and the key."""
        assert self._topic is not None
        found = []
        if fields or wants_error:
            is_flat = self._is_record and bool(fields)
            wanted = [self._fields[name] for name in fields] if is_flat else None
            found.append(_Source(_VALUE, self._schemas.decoder(self._topic, self._reader, wanted), fields, is_flat))
        if self._key_reader is not None and (wants_key or wants_error):
            decoder = self._schemas.decoder(self._topic, self._key_reader, field=KEY_FIELD)
            found.append(_Source(_KEY, decoder, [_PREFIX + _KEY], is_flat=False))
        return found


@dataclass(frozen=True, slots=True)
class _Source:
    """A column that is decoded."""

    column: str
    decoder: TopicDecoder
    names: Sequence[str]
    """Of the columns that are made of it."""
    is_flat: bool
    """The fields of a record are columns."""


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
