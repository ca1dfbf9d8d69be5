"""The newest keys or values of a topic, for readers whose columns depend on what the records are."""

from __future__ import annotations

from itertools import islice

import pyarrow as pa

from offsetfs.schemas.references import VALUE_FIELD
from offsetfs.storage import AnyLogDirectory, LogReader
from offsetfs.storage.errors import StorageError

PARTITIONS_MAX = 16
"""The partitions that are looked at."""

RECORDS_MAX = 100
"""The newest records of each."""

_HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


def newest_values(directory: AnyLogDirectory, topic: str, field: str) -> tuple[pa.BinaryArray, pa.ListArray]:
    """Return the newest keys or values of a topic, and the headers of their records; damaged batches are left out."""
    found = []
    partitions = (name for name in directory.partitions() if name.topic == topic)
    for name in islice(partitions, PARTITIONS_MAX):
        log = directory.log(name)
        start = max(log.log_start_offset, log.next_offset - RECORDS_MAX)
        for batch, first, stop in LogReader(log, start=start, on_damage=_ignore, on_lost=_ignore).slices():
            try:
                found += [record for record in batch.records() if first <= record.offset < stop]
            except StorageError:
                continue
    values = [record.value if field == VALUE_FIELD else record.key for record in found]
    headers = [[{"key": _text(key), "value": value} for key, value in record.headers] for record in found]
    return pa.array(values, pa.binary()), pa.array(headers, _HEADERS)


def _ignore(error: StorageError) -> None:
    """Damage is met again, and reported, when the topic is read."""


def _text(key: str) -> str:
    return key.encode("utf-8", "replace").decode()
