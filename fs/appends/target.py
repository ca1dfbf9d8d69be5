"""The partitions that one open file writes to: one, or those of a topic.

Records are distributed over the partitions of a topic as by Kafka's producer. A JSON line with a `partition` goes to
that partition. Any other record with a key goes to the partition of its key (storage.records.partitioner), so that
records of one key keep their order. Records without a key fill a batch of one partition, then of the next (`Sticky`),
which makes few and large batches. The number of partitions is read at open; a producer refreshes it periodically.
Corresponds to KafkaProducer, RecordAccumulator and BuiltInPartitioner; partitions are used in turn, while Kafka chooses
them at random.
"""

from __future__ import annotations

import random
from collections.abc import Coroutine, Sequence
from typing import Any

from offsetfs.fs.appends.accumulator import Accumulator, batch_size, check, sync_all
from offsetfs.fs.appends.json_batches import JsonAppend, Taken
from offsetfs.fs.appends.open_files import Writer
from offsetfs.fs.nodes import Buffer


class Sticky:
    """Selects the partition of records without a key, one per batch. Shared by all writers of a topic."""

    def __init__(self) -> None:
        self._number = random.randrange(1 << 16)  # random, or the first partition would get all single records
        self._accumulator: Accumulator | None = None
        self._batch = 0  # the number of the accumulator's batch to fill

    def choose(self, accumulators: Sequence[Accumulator]) -> int:
        """Return the number of the partition: the same one until its batch is sealed."""
        chosen = self._accumulator
        if chosen is not None and chosen.batches_begun + (chosen.open_batch is None) > self._batch:
            self._number += 1
        number = self._number % len(accumulators)
        if chosen is not accumulators[number]:
            self._accumulator = chosen = accumulators[number]
            self._batch = chosen.batches_begun + (chosen.open_batch is None)
        return number


class AppendTarget:
    """The partitions that one handle writes to; one object per open file."""

    def __init__(self, accumulators: Sequence[Accumulator], sticky: Sticky | None = None) -> None:
        """`sticky`: selects the partition of records without a key; None if there is one partition and no topic."""
        self.context = accumulators[0].context
        self.partitions = frozenset(accumulator.partition for accumulator in accumulators)
        self.is_topic = sticky is not None
        self._accumulators = accumulators
        self._sticky = sticky
        self._touched: set[Accumulator] = set() if self.is_topic else set(accumulators)
        self._full = 0  # the number of the partition without a free buffer
        self._refusal: OSError | None = None  # of the line at which `split` stopped
        self._kept: int | None = None  # the partition that has a buffer now, for the record that waited

    @property
    def batch_bytes_max(self) -> int:
        """The largest batch that can be appended; see `Accumulator`."""
        return self._accumulators[0].batch_bytes_max

    @property
    def has_space(self) -> bool:
        """Whether a record of any partition would be accepted now."""
        return all(accumulator.has_space for accumulator in self._accumulators)

    def check(self, size: int, *, has_key: bool) -> None:
        """Raise OSError as `split` for the first possible partition of the record that cannot accept it."""
        asked = self._accumulators if has_key else [self._accumulators[self._next()]]
        check(asked, size, has_key=has_key)

    def split(self, data: bytes | bytearray, start: int, end: int, timestamp: int, writer: Writer) -> int:
        """Append the complete lines of `data[start:end]`, as `Accumulator.split`.

        If another partition has accepted the lines before a refused line, `wait_for_space` raises the error.
        """
        first, self._refusal = start, None
        while start < end and writer.code is None:
            chosen = self._choose()
            try:
                rest = chosen.split(data, start, end, timestamp, writer, is_one_batch=self.is_topic)
            except OSError as error:
                if start == first:
                    raise
                self._refusal = error  # raised now, it would hide the accepted lines: the writer would repeat them
                return start
            if rest == start or not self.is_topic:
                return rest
            self._touched.add(chosen)
            start = rest
        return start

    def split_json(self, data: bytes | bytearray, start: int, end: int, timestamp: int, writer: Writer) -> Taken:
        """Append the lines of `data[start:end]`, each a JSON object, as `JsonAppend.split`. OSError as `split`."""
        self.check(end - start, has_key=True)
        self._choose()
        work = JsonAppend(self._accumulators, writer)
        taken = work.split(self._full, data, start, end, timestamp, honors_partition=self.is_topic)
        self._full = max(work.full, 0)
        self._touched.update(self._accumulators[number] for number in work.touched)
        return taken

    def append_value(self, value: Buffer, timestamp: int, writer: Writer) -> bool:
        """Append one record without a key. False if it is too large or if there is no free buffer. OSError as `split`.

        Too large: larger than `batch_bytes_max`.
        """
        chosen = self._choose()
        self._touched.add(chosen)
        if batch_size(None, value) > chosen.batch_bytes_max:
            return False
        return chosen.append(None, value, (), timestamp, writer)

    def _next(self) -> int:
        return 0 if self._sticky is None else self._sticky.choose(self._accumulators)

    def _choose(self) -> Accumulator:
        """Return the partition of records without a key: the one whose buffer a record waited for, else by `Sticky`."""
        kept, self._kept = self._kept, None
        self._full = self._next() if kept is None else kept
        return self._accumulators[self._full]

    def wait_for_space(self, writer: Writer, size: int = 0) -> Coroutine[Any, Any, None]:
        """Take a turn at the partition without a free buffer now; return a coroutine that waits for the buffer.

        Raises the OSError at which `split` stopped, if it did.
        """
        if self._refusal is not None:
            raise self._refusal
        return self._wait(self._full, self._accumulators[self._full].wait_for_space(writer, size))

    async def _wait(self, number: int, space: Coroutine[Any, Any, None]) -> None:
        await space
        self._kept = number

    async def drain(self) -> None:
        """Return when all accepted records are in the segment files, or were lost and reported to their writers."""
        for accumulator in self._touched:
            accumulator.seal()
        for accumulator in list(self._touched):
            await accumulator.drain()

    async def sync(self) -> None:
        """Return when all accepted records are on disk; syncs all partitions in parallel. OSError if a sync failed."""
        failures = await sync_all(self._touched)
        for error in failures.values():
            raise error

    def leave(self, writer: Writer) -> None:
        """Drop all references to a closed writer."""
        self.context.files.writers.discard(writer)
        for accumulator in self._accumulators:
            accumulator.shared_sync.writers.discard(writer)
