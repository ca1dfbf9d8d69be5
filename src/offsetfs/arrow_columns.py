"""Ranges of partitions as one Arrow reader. pyarrow is loaded at the first call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from offsetfs.storage import LogReader, TopicPartition

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow

    Place = int | datetime | None


class RangeSource(Protocol):
    """What has readers of its ranges: a partition."""

    def range_reader(self, start: Place, stop: Place) -> tuple[TopicPartition, LogReader]: ...


def partitions_reader(
    partitions: Iterable[RangeSource], start: Place, stop: Place, columns: Sequence[str] | None
) -> pyarrow.RecordBatchReader:
    """Return a reader of the ranges of several partitions, one after the other; see `Partition.arrow`."""
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError("Arrow needs pyarrow and numpy: pip install 'offsetfs[arrow]'") from error
    from offsetfs.tables.arrow.record_batches import record_batches
    from offsetfs.tables.arrow.schema import schema_of

    schema = schema_of(columns)
    readers = [each.range_reader(start, stop) for each in partitions]
    batches = (batch for name, reader in readers for batch in record_batches(reader.slices(), name, schema))
    return pyarrow.RecordBatchReader.from_batches(schema, batches)
