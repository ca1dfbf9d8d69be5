"""Distributes records over the partitions of a topic, as Kafka's producer does.

A JSON line with a `partition` goes to that partition. Any other record with a key goes to the partition of its key
(storage.records.partitioner), so that records of one key keep their order. Records without a key fill a batch of one
partition, then of the next (`Sticky`), which makes few and large batches. The number of partitions is read at open; a
producer refreshes it periodically. Corresponds to KafkaProducer, RecordAccumulator and BuiltInPartitioner; partitions
are used in turn, while Kafka chooses them at random.
"""

from __future__ import annotations

import random
from collections.abc import Coroutine, Sequence
from typing import Any

import trio

from offsetfs.fs.appends import json_batches
from offsetfs.fs.appends.accumulator import Accumulator, Accumulators
from offsetfs.fs.appends.buffers import UnfinishedBytes
from offsetfs.fs.appends.closing import Closing
from offsetfs.fs.appends.framing import Taken
from offsetfs.fs.appends.shared_sync import Writer
from offsetfs.fs.nodes import Buffer
from offsetfs.storage import TopicPartition


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


class _PartWriter:
    """A handle as the writer of one partition: adds the partition's number to acknowledgments."""

    def __init__(self, handle: Writer, number: int) -> None:
        self._handle = handle
        self._number = number
        self.wants_offsets = handle.wants_offsets
        self.code: int | None = None

    def failed(self, code: int) -> None:
        self.code = self.code or code
        self._handle.failed(code)

    def acknowledged(self, offset: int, count: int, timestamp: int, partition: int | None = None) -> None:
        self._handle.acknowledged(offset, count, timestamp, self._number)

    async def release(self) -> None:
        """Return at once: the handle itself is released."""


class TopicTarget:
    """The partitions of a topic as the target of one handle."""

    def __init__(self, all_accumulators: Accumulators, partitions: Sequence[Accumulator], sticky: Sticky) -> None:
        assert partitions
        self._all = all_accumulators
        self._partitions = partitions
        self._sticky = sticky
        self._writers: list[Writer] = []
        self._touched: set[Accumulator] = set()
        self._full = 0  # the number of the partition without a free buffer
        self._kept: int | None = None  # the partition that has a buffer now, for the record that waited

    # --- as Accumulator ----------------------------------------------------------------------------------------------

    @property
    def batch_bytes_max(self) -> int:
        return self._partitions[0].batch_bytes_max

    @property
    def unfinished(self) -> UnfinishedBytes:
        return self._all.unfinished

    @property
    def closing(self) -> Closing:
        return self._all.closing

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        return frozenset(each.partition for each in self._partitions)

    @property
    def request_timeout_s(self) -> float | None:
        return self._partitions[0].request_timeout_s

    @property
    def has_space(self) -> bool:
        """Whether a record of any partition would be accepted now."""
        return all(each.has_space for each in self._partitions)

    def check(self, size: int, *, has_key: bool) -> None:
        """Raise as `Accumulator.check` for the first possible partition of the record that cannot accept it."""
        keyless = self._sticky.choose(self._partitions)
        asked = self._partitions if has_key else [self._partitions[keyless]]
        self._all.check(asked, size, has_key=has_key)

    def split(self, data: bytes | bytearray, start: int, end: int, timestamp: int, writer: Writer) -> int:
        while start < end and writer.code is None:
            number = self._choose()
            rest = self._partitions[number].split(data, start, end, timestamp, self._writers[number], is_one_batch=True)
            if rest == start:
                break
            self._touched.add(self._partitions[number])
            start = rest
        return start

    def split_json(self, data: bytes | bytearray, start: int, end: int, timestamp: int, writer: Writer) -> Taken:
        self.check(end - start, has_key=True)
        keyless = self._choose()
        split = json_batches.split(
            self._partitions, self._writers, keyless, data, start, end, timestamp, honors_partition=True
        )
        self._full = max(split.partition, 0)
        self._touched.update(self._partitions[number] for number in split.touched)
        return split.taken

    def append_value(self, value: Buffer, timestamp: int, writer: Writer) -> bool:
        number = self._choose()
        self._touched.add(self._partitions[number])
        return self._partitions[number].append_value(value, timestamp, self._writers[number])

    def _choose(self) -> int:
        """Return the partition of records without a key: the one whose buffer a record waited for, else by `Sticky`."""
        kept, self._kept = self._kept, None
        self._full = self._sticky.choose(self._partitions) if kept is None else kept
        return self._full

    def wait_for_space(self, writer: Writer, size: int = 0) -> Coroutine[Any, Any, None]:
        """Join the queue of the partition without a free buffer; return a coroutine that waits for a buffer."""
        number = self._full
        return self._wait(number, self._partitions[number].wait_for_space(self._writers[number], size))

    async def _wait(self, number: int, space: Coroutine[Any, Any, None]) -> None:
        await space
        self._kept = number

    async def drain(self) -> None:
        """Return when all accepted records are in the segment files, or were lost and reported to their writers."""
        for each in self._touched:
            each.seal()
        for each in list(self._touched):
            await each.drain()

    async def sync(self) -> None:
        """Return when all accepted records are on disk; syncs all partitions in parallel. OSError if a sync failed."""
        failures: list[OSError] = []

        async def sync(accumulator: Accumulator) -> None:
            try:
                await accumulator.sync()
            except OSError as error:
                failures.append(error)

        async with trio.open_nursery() as nursery:
            for each in self._touched:
                nursery.start_soon(sync, each)
        if failures:
            raise failures[0]

    def enter(self, writer: Writer) -> None:
        self._writers = [_PartWriter(writer, each.partition.partition) for each in self._partitions]
        self._all.writers.add(writer)

    def leave(self, writer: Writer) -> None:
        self._all.writers.discard(writer)
        for each, part in zip(self._partitions, self._writers, strict=True):
            each.leave(part)
