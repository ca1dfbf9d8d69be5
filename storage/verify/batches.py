"""Verifying batches: a walk over every byte of a log file, and what must hold inside one batch.

The walk reads blocks into one buffer that it uses again, verifies checksums, and steps over what is not sound to the
next batch that is (`batch_chain.next_sound`), so that one fault hides nothing behind it. Nothing is kept of a batch:
a segment of any length costs the same memory.

Inside, the whole structure is walked (`codec.scan`), whatever the codec, inflated under a bound. Rows are compared as
columns, so that a bulk batch makes no Python object per record. Follows what Kafka's DefaultRecordBatch and
LogValidator ask of a batch, with the freedom that its cleaner has: records may be missing from a batch.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from itertools import islice
from operator import lt

from crc32c import crc32c

from offsetfs.storage.errors import CorruptBatch, DecompressionLimit, MalformedBatch, StorageError, UnsupportedFormat
from offsetfs.storage.files import File
from offsetfs.storage.partition.producers import ABORT, COMMIT
from offsetfs.storage.records import batch_chain
from offsetfs.storage.records.batch import HEADER_SIZE, MAGIC, Batch, parse_header
from offsetfs.storage.records.batch_header import APPEND_TIME_FLAG, CRC_START, BatchHeader
from offsetfs.storage.records.codec import COLUMNS

BATCH_BYTES_MAX = 128 << 20
"""The largest batch that is held in memory: a damaged length may claim the rest of a gigabyte."""

Fault = tuple[str, str]
"""The kind of a finding, and what it means."""

OnBreak = Callable[[StorageError, int, int], None]
"""Called with what is wrong, where it begins, and where the next sound batch begins (the end when there is none)."""


class _Blocks:
    """A window on a file that moves forward."""

    __slots__ = ("_buffer", "_end", "_file", "_length", "_start")

    def __init__(self, file: File, end: int) -> None:
        self._file = file
        self._end = end
        self._buffer = memoryview(bytearray(min(4 * batch_chain.BLOCK_BYTES, max(end, 1))))
        self._start = self._length = 0

    def view(self, position: int, size: int) -> memoryview:
        """Return `size` bytes from `position`, fewer at the end; they stay until the next call."""
        size = min(size, self._end - position)
        if position < self._start or position + size > self._start + self._length:
            self._fill(position, size)
        return self._buffer[position - self._start : min(position - self._start + size, self._length)]

    def _fill(self, position: int, size: int) -> None:
        if size > len(self._buffer):
            self._buffer = memoryview(bytearray(size))
        wanted = min(len(self._buffer), self._end - position)
        self._length = self._file.read_into(self._buffer[:wanted], position)
        self._start = position


def sound_batches(
    file: File, end: int, on_break: OnBreak, *, start: int = 0, stop: int | None = None
) -> Iterator[Batch]:
    """Yield every batch in the first `end` bytes whose checksum holds; each is valid until the next is asked for.

    Or only those that begin in `[start, stop)`; a batch has to begin at `start`.
    """
    blocks, position = _Blocks(file, end), start
    while position < (end if stop is None else min(stop, end)):
        try:
            batch = _batch_at(file, blocks, position, end)
        except (CorruptBatch, MalformedBatch, UnsupportedFormat, DecompressionLimit) as error:
            following = batch_chain.next_sound(file, position, end)
            on_break(error, position, following)
            position = following
            continue
        yield batch
        position += batch.header.size


def _batch_at(file: File, blocks: _Blocks, position: int, end: int) -> Batch:
    header = parse_header(blocks.view(position, HEADER_SIZE), path=file.path, file_position=position)
    if header.size > end - position:
        raise MalformedBatch(batch_chain.UNFINISHED, path=file.path, position=position, offset=header.base_offset)
    if header.size > BATCH_BYTES_MAX:
        _check_giant(file, header, position)
        reason = f"a batch of {header.size} bytes, at most {BATCH_BYTES_MAX} are looked into"
        raise DecompressionLimit(reason, path=file.path, position=position, offset=header.base_offset)
    data = blocks.view(position, header.size)
    if len(data) < header.size:  # cut by another process meanwhile
        raise MalformedBatch(batch_chain.UNFINISHED, path=file.path, position=position, offset=header.base_offset)
    batch = Batch(header, data, file.path, position)
    batch.check()
    return batch


def _check_giant(file: File, header: BatchHeader, position: int) -> None:
    """Raise `CorruptBatch` for a length that is a lie, without holding what it claims."""
    place, checksum = position + CRC_START, 0
    while header.magic == MAGIC and place < position + header.size:
        block = file.read(place, min(batch_chain.BLOCK_BYTES, position + header.size - place))
        if not block:
            break
        checksum, place = crc32c(block, checksum), place + len(block)
    if header.magic != MAGIC or checksum != header.crc:
        reason = f"a length of {header.size} bytes that the checksum does not confirm"
        raise CorruptBatch(reason, path=file.path, position=position, offset=header.base_offset)


# --- inside a batch --------------------------------------------------------------------------------------------------


def faults(batch: Batch, inflated_bytes_max: int) -> tuple[list[Fault], int]:
    """Return what is wrong inside a batch whose checksum holds, and the number of records in it."""
    try:
        batch.payload(inflated_bytes_max)
        rows = batch.rows()
    except DecompressionLimit as error:
        return [("inflates-too-far", f"{error.reason}: nobody who keeps that limit can read it")], 0
    except StorageError as error:
        return [("malformed-records", f"the checksum holds, but not the structure: {error.reason}")], 0
    count = len(rows) // COLUMNS
    checks = [_times(batch, rows), *_header(batch)]
    checks += [_current_offsets(batch.header, rows) if batch.header.magic == MAGIC else _old_offsets(batch, rows)]
    if batch.header.is_control:
        checks.append(_control(batch, count))
    return [fault for fault in checks if fault is not None], count


_COUNTED = array("q", range(1 << 16))


def _current_offsets(header: BatchHeader, rows: array[int]) -> Fault | None:
    """Offsets rise, and end with the last one: only compaction takes some away."""
    deltas, span = rows[::COLUMNS], header.last_offset_delta + 1
    if header.count > span:
        return "record-count", f"{header.count} records in {span} offsets"
    if not deltas or (len(deltas) == span <= len(_COUNTED) and deltas == _COUNTED[:span]):
        return None
    if not _rises(deltas) or deltas[0] < 0 or deltas[-1] > header.last_offset_delta:
        return "record-offsets", f"the offsets of its {len(deltas)} records do not rise within the batch"
    return None


def _old_offsets(batch: Batch, rows: array[int]) -> Fault | None:
    deltas = rows[::COLUMNS]
    if not _rises(deltas) or (deltas[-1] and batch.header.base_offset):  # offset 0: old librdkafka, see legacy
        return "record-offsets", "the offsets inside the compressed set do not rise to that of the set"
    return None


def _rises(numbers: array[int]) -> bool:
    return all(map(lt, numbers, islice(numbers, 1, None)))


def _times(batch: Batch, rows: array[int]) -> Fault | None:
    """The header's largest timestamp is that of a record: searches by time and retention go by it."""
    header = batch.header
    if header.magic == 0 or header.attributes & APPEND_TIME_FLAG or not rows:
        return None
    largest = batch.timestamp_of(max(rows[1::COLUMNS]))
    if largest == header.max_timestamp:
        return None
    return "max-timestamp", f"the largest timestamp of its records is {largest}, the header says {header.max_timestamp}"


def _header(batch: Batch) -> list[Fault | None]:
    header = batch.header
    if header.producer_id < 0:
        return [("producer", "a transaction without a producer id")] if header.is_transactional else []
    if header.producer_epoch < 0 or (header.base_sequence < 0 and not header.is_control):
        missing = f"epoch {header.producer_epoch} and sequence {header.base_sequence}"
        return [("producer", f"producer {header.producer_id} with {missing}")]
    return []


def _control(batch: Batch, count: int) -> Fault | None:
    if count > 1:
        return "control-record", f"{count} records in a control batch"
    try:
        marker(batch)
    except StorageError as error:
        return "control-record", error.reason
    return None


def marker(batch: Batch) -> tuple[int, int] | None:
    """Return (type, coordinator epoch) of a control batch; None when it was emptied, epoch -1 for other types.

    Raises `MalformedBatch`.
    """
    records = batch.records()
    if not records:
        return None
    key, value = records[0].key or b"", records[0].value or b""
    if len(key) < 4:
        raise MalformedBatch(f"a control record with a key of {len(key)} bytes")
    kind = int.from_bytes(key[2:4], "big", signed=True)
    if kind not in (ABORT, COMMIT):
        return kind, -1
    if len(value) < 6:
        raise MalformedBatch(f"the end of a transaction in {len(value)} bytes")
    return kind, int.from_bytes(value[2:6], "big", signed=True)
