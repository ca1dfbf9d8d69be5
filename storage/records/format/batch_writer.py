"""Fills batches one after another: size limit, the next batch, records that are larger than a batch.

    append, split, split_json → open batch → full, or `write` → sealed batch → `on_batch`: a log, a staged file

The limit is on the batch before compression, because its compressed size is not known while it fills. A record above
the usual size of a batch gets a batch of its own, up to the limit of the topic. Guarantees: batches are passed on in
the order of their records; when a record is refused, the records before it are still in the open batch.

Other modules: the bytes of a batch (batch_builder), offsets and durability (the owner of `on_batch`). The mount has a
pool of buffers and waits for a free one, so it fills batch builders itself, with the same limit. Follows KafkaProducer
and the checks of UnifiedLog. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from offsetfs.storage.errors import RecordTooLarge
from offsetfs.storage.records.compression.compression import Compression
from offsetfs.storage.records.format.batch_builder import BatchBuilder, Buffer, SealedBatch, record_size
from offsetfs.storage.records.json.record_json import JsonSplit

_GROWTH_SHARE = 128
_GROWTH_BYTES = 64
"""Data that does not compress grows by less than this with every codec: one byte in 128, and 64."""


@dataclass(frozen=True, slots=True)
class BatchLimit:
    """The size limit of a batch, in bytes before compression with its header, and its compression."""

    bytes_max: int
    compression: Compression

    @classmethod
    def within(cls, compression: Compression, *sizes: int) -> BatchLimit:
        """Return the limit of a batch that must not exceed any of `sizes`, in bytes, after compression."""
        return cls(bytes_max_within(compression, *sizes), compression)


def bytes_max_within(compression: Compression, *sizes: int) -> int:
    """Return how large a batch may be before compression, so that it exceeds none of `sizes` after it, in bytes."""
    size = min(sizes)
    # Kafka compares the compressed batch with `max.message.bytes`. Data that does not compress becomes longer, and a
    # full batch would be refused.
    return size - size // _GROWTH_SHARE - _GROWTH_BYTES if compression.codec else size


class BatchWriter:
    """The open batch of one partition, and its successors."""

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
            self.next_batch(record_size(key, value, headers))

    def split(self, data: bytes | bytearray, position: int, timestamp: int) -> int:
        """Take lines as values, as many as fit in the open batch, from `position`; return where the rest begins.

        `data` ends with a newline. Errors as in `append`, for the line at `position`.
        """
        rest = self.builder.split(data, position, len(data), timestamp)
        if rest == position < len(data):
            line_end = data.index(b"\n", position)
            self.next_batch(record_size(None, memoryview(data)[position:line_end]))
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
            self.next_batch(split.record_bytes)
        return split

    def next_batch(self, record_bytes: int) -> None:
        """Write the open batch, and begin one with space for a record of this size, which did not fit.

        `record_bytes` is the size of the record as the first of a batch. `RecordTooLarge` if it fits in no batch.
        """
        self.write()
        # Asked again, because the settings of the topic may have changed since the batch began.
        limit, size = self._limit(), BatchBuilder.OVERHEAD_BYTES + record_bytes
        if size > limit.bytes_max:
            raise RecordTooLarge(f"a record of {record_bytes} bytes", path=self._path)
        self._builder = self._begin(max(size, min(self._batch_bytes, limit.bytes_max)), limit.compression)

    def write(self) -> None:
        """Pass the open batch to `on_batch`, unless it is empty. Raises as `on_batch`; the records are lost then."""
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
