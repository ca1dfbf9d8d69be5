"""A topic of an open directory: all of its partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from offsetfs.arrow_columns import partitions_reader
from offsetfs.partition import Partition, Place

if TYPE_CHECKING:
    import pyarrow


class Topic:
    """A topic, with the partitions that it had when it was asked for. Use `Directory.topic`."""

    def __init__(self, name: str, partitions: Sequence[Partition]) -> None:
        self.name = name
        self.partitions = tuple(partitions)
        """Sorted by number."""

    def __repr__(self) -> str:
        return f"<Topic {self.name}, {len(self.partitions)} partitions>"

    def arrow(
        self, start: Place = None, stop: Place = None, *, columns: Sequence[str] | None = None
    ) -> pyarrow.RecordBatchReader:
        """Return a reader of all partitions, one after the other, as Arrow record batches; see `Partition.arrow`.

        `start` and `stop` count in each partition: a time, or -10 for its last ten records.
        """
        return partitions_reader(self.partitions, start, stop, columns)
