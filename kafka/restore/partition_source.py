"""The records of a partition as batches of a producer, in order, a chunk at a time. Synchronous, for a thread."""

from __future__ import annotations

from collections.abc import Iterator

from offsetfs.kafka.restore.limits import LimitCheck
from offsetfs.storage import I32_MAX, READ_COMMITTED, Log, LogReader
from offsetfs.storage.records import BatchProducer, ProducedBatch, produced_batch

CHUNK_BYTES = 1 << 20
"""What is read at once; more where a single batch is larger."""

_SEQUENCES = I32_MAX + 1
"""Sequences of a producer begin again after so many records."""


class PartitionSource:
    """The committed records of a range of a log. One thread at a time may use it."""

    def __init__(self, log: Log, start: int | None, stop: int | None) -> None:
        """`start`, `stop`: the first offset, and the one behind the last; None: the ends of the log."""
        self._reader = LogReader(log, start=start, stop=stop, isolation=READ_COMMITTED)
        self._batches: Iterator[ProducedBatch] | None = None

    def size_bytes(self) -> int:
        """Return about how many bytes there are."""
        return self._reader.size_bytes()

    def chunk(self, producer: BatchProducer) -> list[ProducedBatch]:
        """Return the next batches, about `CHUNK_BYTES`; none at the end. Errors as of `LogReader`."""
        if self._batches is None:
            self._batches = self._produced(producer)
        found: list[ProducedBatch] = []
        size = 0
        for each in self._batches:
            found.append(each)
            size += len(each.data)
            if size >= CHUNK_BYTES:
                break
        return found

    def check(self, check: LimitCheck) -> None:
        """Show all batches to a check of the limits of the cluster; for a source that is not sent."""
        for each in self._produced(BatchProducer(0, 0)):
            check.take(each)

    def _produced(self, producer: BatchProducer) -> Iterator[ProducedBatch]:
        sequence = 0
        for batch, first, stop in self._reader.slices():
            found = produced_batch(batch, first, stop, producer=producer, sequence=sequence)
            if found is not None:
                sequence = (sequence + len(found.offsets)) % _SEQUENCES
                yield found
