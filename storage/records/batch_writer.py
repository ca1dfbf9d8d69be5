"""Fills batches one after the other: size bound, rolling over to the next batch, records that are larger than a batch.

    append, split, split_json → open batch → full, or `write` → sealed batch → `on_batch`: a log, a staged file

The bound is on the batch before compression, because its size after compression is not known while it fills. A record
above the usual size of a batch gets a batch of its own, up to what the topic takes. Guarantees: batches are handed over
in the order of their records; when a record is refused, those before it are still in the open batch.

Leaves to others: the bytes of a batch (batch_builder), offsets and durability (the owner of `on_batch`). The mount
lends the memory of its batches and waits for it, so it fills batch builders itself; the bound is the same function.
Follows KafkaProducer and the checks of UnifiedLog. Not for use by two threads at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from offsetfs.storage.errors import RecordTooLarge
from offsetfs.storage.records.batch_builder import BatchBuilder, Buffer, SealedBatch, record_size
from offsetfs.storage.records.compression import Compression
from offsetfs.storage.records.record_json import JsonSplit

_GROWTH_SHARE = 128
_GROWTH_BYTES = 64
"""Data that does not compress grows by less than this with every codec: one byte in 128, and 64."""


@dataclass(frozen=True, slots=True)
class BatchLimit:
    """How large a batch may be, in bytes before compression with its header, and how it is compressed."""

    bytes_max: int
    compression: Compression

    @classmethod
    def within(cls, compression: Compression, *sizes: int) -> BatchLimit:
        """Return the limit of a batch that must not exceed any of `sizes`, in bytes, after compression."""
        return cls(bytes_max_within(compression, *sizes), compression)


def bytes_max_within(compression: Compression, *sizes: int) -> int:
    """Return how large a batch may be before compression, so that it exceeds none of `sizes` after it, in bytes."""
    size = min(sizes)
    return size - size // _GROWTH_SHARE - _GROWTH_BYTES if compression.codec else size


class BatchWriter:
    """The open batch of one partition, and the way on to the next one."""

    def __init__(
        self,
        limit: Callable[[], BatchLimit],
        batch_bytes: int,
        on_batch: Callable[[SealedBatch], object],
        path: str,
    ) -> None:
        """`limit` is called when a batch begins, because settings may change; `path` is for errors.

        A batch is handed to `on_batch` when it has `batch_bytes` bytes, or as many as `limit` allows. Its data is
        valid until `on_batch` returns.
        """
        self._limit = limit
        self._batch_bytes = batch_bytes
        self._on_batch = on_batch
        self._path = path
        self._builder: BatchBuilder | None = None
        self._spare: BatchBuilder | None = None  # a used buffer: a new one costs more than a small record

    @property
    def builder(self) -> BatchBuilder:
        """The open batch; begun by this call if there is none. `RecordTooLarge` where no record fits in a batch."""
        if self._builder is None:
            limit = self._limit()
            capacity = min(self._batch_bytes, limit.bytes_max)
            if capacity < BatchBuilder.BYTES_MIN:
                raise RecordTooLarge(f"a batch of at most {capacity} bytes holds no record", path=self._path)
            self._builder = self._begin(capacity, limit.compression)
        return self._builder

    @property
    def count(self) -> int:
        """The records in the open batch."""
        return 0 if self._builder is None else self._builder.count

    def append(
        self, key: Buffer | None, value: Buffer | None, headers: Sequence[tuple[str, Buffer | None]], timestamp: int
    ) -> None:
        """Take one record. `RecordTooLarge` when it fits in no batch, and what `on_batch` raises."""
        while not self.builder.append(key, value, headers, timestamp):
            self.make_room(record_size(key, value, headers))

    def split(self, data: bytes | bytearray, position: int, timestamp: int) -> int:
        """Take lines as values, as many as fit in the open batch, from `position`; return where the rest begins.

        `data` ends with a newline. Errors as in `append`, for the line at `position`.
        """
        rest = self.builder.split(data, position, len(data), timestamp)
        if rest == position < len(data):
            line_end = data.index(b"\n", position)
            self.make_room(record_size(None, memoryview(data)[position:line_end]))
        return rest

    def split_json(
        self, data: bytes | bytearray, position: int, now_ms: int, *, needs_key: bool, values_as_text: bool
    ) -> JsonSplit:
        """Take lines of JSON, as many as fit in the open batch, as `BatchBuilder.split_json`. Errors as in `append`."""
        builder = self.builder
        split = builder.split_json(
            *(data, position, len(data), now_ms), needs_key=needs_key, values_as_text=values_as_text
        )
        if split.record_bytes:
            self.make_room(split.record_bytes)
        return split

    def make_room(self, record_bytes: int) -> None:
        """Begin a batch with room for a record of this size, which found none; hand over the open one if need be.

        `record_bytes` is the size of the record as the first of a batch. `RecordTooLarge` when it fits in no batch.
        """
        self.write()
        limit, size = self._limit(), BatchBuilder.OVERHEAD_BYTES + record_bytes
        if size > limit.bytes_max:
            raise RecordTooLarge(f"a record of {record_bytes} bytes", path=self._path)
        self._builder = self._begin(max(size, min(self._batch_bytes, limit.bytes_max)), limit.compression)

    def write(self) -> None:
        """Hand over the open batch, if it holds anything. What `on_batch` raises; its records are then lost."""
        builder, self._builder = self._builder, None
        if builder is None:
            return
        self._spare = builder
        if not builder.is_empty:
            self._on_batch(builder.seal())

    def _begin(self, capacity: int, compression: Compression) -> BatchBuilder:
        spare, self._spare = self._spare, None
        if spare is not None and (spare.bytes_max, spare.compression) == (capacity, compression):
            spare.reset()
            return spare
        return BatchBuilder(capacity, compression)
