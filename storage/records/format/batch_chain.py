"""Walks over the batches of a `.log` file: by headers, with content, or over damage to the next sound batch.

The walk is shallow, whatever the format: a compressed set of v0 or v1 is one batch, and formats may follow each other
in one file. With `runs`, loose messages of those formats come several at a time (`legacy`).

A log file is a plain chain: each batch says how long it is, and the next begins behind it (Kafka's
FileLogInputStream). Kafka ends a walk without error at a batch that does not fit before the end; here that raises
`MalformedBatch` like any header that cannot be true, because callers pass the end of what was once whole, and a
damaged length must not hide what follows.
"""

from __future__ import annotations

import heapq
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from offsetfs.storage.errors import (
    CorruptBatch,
    DecompressionLimit,
    MalformedBatch,
    StorageError,
    UnsupportedFormat,
    WouldBlock,
)
from offsetfs.storage.files import File
from offsetfs.storage.records.compression import inflation
from offsetfs.storage.records.format import chain
from offsetfs.storage.records.format.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_END,
    Batch,
    BatchHeader,
    check_header,
    parse_header,
)
from offsetfs.storage.records.format.batch_group import BatchGroup, GroupHeader
from offsetfs.storage.records.format.batch_header import (
    ATTRIBUTES_END,
    BATCH_SIZE_MIN,
    CRC_START,
    KEY_POSITIONS,
    Buffer,
)
from offsetfs.storage.records.format.checksum import crc32c
from offsetfs.storage.records.format.legacy import NO_RUNS, run_header
from offsetfs.storage.units import I64_MAX, Offset

BLOCK_BYTES = 1 << 20
"""The bytes of one read of a bulk reader."""

PROBE_BYTES = 32 << 10
"""The bytes of one read of a look-up: an index interval (4 KiB) and the batch behind it, in most logs."""

CHECK_BYTES = 64 << 10
"""The bytes of one read to verify a checksum: the memory that a large batch takes meanwhile."""

INLINE_INFLATE_BYTES_MAX = 1 << 20
"""The bytes that may be inflated where nothing may wait."""

UNFINISHED = "the file ends inside a batch"

_SIZE = struct.Struct(">i")

OnDamage = Callable[[StorageError, int], None]
"""Called with what is wrong and the position at which reading goes on (the end when nothing sound follows)."""

Joins = Callable[[BatchHeader, memoryview, int], BatchHeader]
"""Returns the header of the batches that begin with this one, in these bytes at a position of the file, as one; or it
itself."""


def headers(
    file: File,
    position: int,
    end: int,
    *,
    nowait: bool = False,
    block_bytes: int = PROBE_BYTES,
    runs: tuple[int, ...] = NO_RUNS,
    likely_end: int | None = None,
    joins: Joins | None = None,
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yield `(position, header, bytes from there)` of each batch in `[position, end)`; they must fill it exactly.

    The bytes reach to the end of the block that was read: the whole batch when it happens to lie inside, a run always.
    Checksums are not looked at. `likely_end`: a position up to which the caller probably reads; no block reaches from
    before it to behind it, unless a batch does. `joins`: see `batch_group.BatchJoining`.
    """
    block, start = memoryview(b""), position
    while position < end:
        if position + HEADER_SIZE > start + len(block):
            start = position
            size = min(block_bytes, end - position)
            if likely_end is not None:
                size = min(size, max(likely_end - position, HEADER_SIZE) if position < likely_end else PROBE_BYTES)
            block = memoryview(file.read(position, size, nowait=nowait))
            if len(block) < MAGIC_END:
                raise MalformedBatch(UNFINISHED, path=file.path, position=position)
        header = parse_header(block, position - start, path=file.path, file_position=position)
        if header.magic in runs and not header.is_wrapper:
            header = run_header(header, block[position - start :])
        elif joins is not None:
            header = joins(header, block[position - start :], position)
        # Kafka's FileLogInputStream ends here without an error. A damaged length would hide every batch after it.
        if header.size > end - position:
            raise MalformedBatch(UNFINISHED, path=file.path, position=position, offset=header.base_offset)
        yield position, header, block[position - start :]
        position += header.size


def header_at(
    file: File, position: int, end: int, block_bytes: int, *, nowait: bool = False
) -> tuple[BatchHeader, memoryview]:
    """Return the header of the batch at `position`, and at most `block_bytes` bytes from there, as `headers` does."""
    seen = memoryview(file.read(position, max(min(block_bytes, end - position), 0), nowait=nowait))
    header = parse_header(seen, path=file.path, file_position=position)
    if header.size > end - position:
        raise MalformedBatch(UNFINISHED, path=file.path, position=position, offset=header.base_offset)
    return header, seen


def walk(
    file: File,
    position: int,
    end: int,
    *,
    on_damage: Callable[[StorageError], object] = lambda error: None,
    nowait: bool = False,
    block_bytes: int = PROBE_BYTES,
    runs: tuple[int, ...] = NO_RUNS,
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yield as `headers` does, for searches: batches whose header cannot be true go to `on_damage` and are skipped."""
    while position < end:
        try:
            chain = headers(file, position, end, nowait=nowait, block_bytes=block_bytes, runs=runs)
            for batch_position, header, seen in chain:
                position = batch_position
                yield batch_position, header, seen
                position = batch_position + header.size
            return
        except (MalformedBatch, UnsupportedFormat) as error:
            if nowait:
                # A search for the next batch reads up to a whole segment, so never on the event loop.
                raise WouldBlock("looks for the next sound batch", path=file.path, position=position) from None
            on_damage(error)
            position = next_sound(file, position, end)


def load(file: File, position: int, header: BatchHeader, seen: memoryview, *, nowait: bool = False) -> Batch:
    """Return the batch at `position`, its checksum verified; `seen` is what was already read from there."""
    data = seen[: header.size]
    if header.is_run:
        return Batch(header, data, file.path, position)
    if isinstance(header, GroupHeader):
        return BatchGroup(header, data, file.path, position)
    if len(data) < header.size:
        inflation.claim(header.size)
        data = memoryview(file.read(position, header.size, nowait=nowait))
        if len(data) < header.size:
            raise MalformedBatch("the file ends inside the batch", path=file.path, position=position)
    batch = Batch(header, data, file.path, position)
    batch.check()
    if nowait and header.codec:
        _inflate_small(batch)
    return batch


@dataclass(frozen=True, slots=True)
class CheckedBatch:
    """A batch whose checksum was verified, without its bytes."""

    header: BatchHeader
    position: int
    """The byte of the log file where it begins."""
    base_offset: Offset


def check(file: File, position: int, header: BatchHeader, seen: memoryview, *, nowait: bool = False) -> CheckedBatch:
    """Verify the checksum of the batch at `position`, and keep none of its bytes. Arguments and errors as of `load`."""
    if header.magic < MAGIC:
        return CheckedBatch(header, position, load(file, position, header, seen, nowait=nowait).base_offset)
    data = seen[: header.size]
    checksum, done = crc32c(data[CRC_START:]), len(data)
    if done < header.size:
        buffer = memoryview(bytearray(min(header.size - done, CHECK_BYTES)))
        while done < header.size:
            count = file.read_into(buffer[: header.size - done], position + done, nowait=nowait)
            if not count:
                raise MalformedBatch("the file ends inside the batch", path=file.path, position=position)
            checksum = crc32c(buffer[:count], checksum)
            done += count
    try:
        check_header(header, checksum)
    except StorageError as error:
        raise Batch(header, data, file.path, position).placed(error) from None
    return CheckedBatch(header, position, header.base_offset)


def _inflate_small(batch: Batch) -> None:
    """Inflate what is small, so that an event loop may use the batch; more than that belongs into a thread."""
    if batch.header.size > INLINE_INFLATE_BYTES_MAX:  # many bytes may inflate to few, and take as long
        raise WouldBlock("a large compressed batch", path=batch.path, position=batch.position)
    try:
        batch.payload(INLINE_INFLATE_BYTES_MAX)
    except DecompressionLimit:
        raise WouldBlock("inflates to more than 1 MiB", path=batch.path, position=batch.position) from None


def batches(
    file: File,
    position: int,
    end: int,
    *,
    on_damage: OnDamage | None = None,
    block_bytes: int = BLOCK_BYTES,
    runs: tuple[int, ...] = NO_RUNS,
    likely_end: int | None = None,
    joins: Joins | None = None,
) -> Iterator[Batch]:
    """Yield each batch in `[position, end)`, checksums verified, in blocks of `block_bytes`.

    `likely_end` and `joins` as for `headers`.

    Damage raises, or with `on_damage` is reported and stepped over: nothing is left out in silence.
    """
    while position < end:
        try:
            walked = headers(
                file, position, end, block_bytes=block_bytes, runs=runs, likely_end=likely_end, joins=joins
            )
            for batch_position, header, seen in walked:
                position = batch_position
                yield load(file, batch_position, header, seen)
                position = batch_position + header.size
            return
        except (CorruptBatch, MalformedBatch, UnsupportedFormat) as error:
            if on_damage is None:
                raise
            position = next_sound(file, position, end)
            on_damage(error, position)


def next_sound(file: File, position: int, end: int, *, offset_min: int = 0, offset_max: int = I64_MAX) -> int:
    """Return the position of the first sound batch after the damaged one at `position`, or `end`.

    First the place that the damaged batch itself names, which is right when only its body is damaged; then every
    place that looks like a header and whose checksum holds. A checksum that holds by chance: 1 in 4 billion. What was
    a message inside a compressed set may hold, too, but with rubbish for an offset: `offset_max` rules it out.
    """
    named = _named_next(file, position, end)
    if named is not None and (named == end or _is_sound(file, named, end, offset_min, offset_max)):
        return named
    block_position = position + 1
    while block_position + BATCH_SIZE_MIN <= end:
        size = min(BLOCK_BYTES, end - block_position)
        block = file.read(block_position, size)
        for candidate in _candidates(block):
            if _is_sound(file, block_position + candidate, end, offset_min, offset_max):
                return block_position + candidate
        if len(block) < size or block_position + size == end:
            break
        block_position += size - HEADER_SIZE + 1
    return end


def _named_next(file: File, position: int, end: int) -> int | None:
    head = file.read(position + 8, 4)
    size = LOG_OVERHEAD + _SIZE.unpack(head)[0] if len(head) == 4 else 0
    return position + size if BATCH_SIZE_MIN <= size <= end - position else None


_LEGACY_HEAD = re.compile(
    rb"(?=[\0-\x7f].{7}"  # offset
    rb"(?!\0\0\0[\0-\x0d])[\0-\x7f].{3}"  # length: not below the smallest, which rules out a range of zeros
    rb".{4}[\0\x01][\0-\x03\x08-\x0b])",  # checksum, magic, attributes
    re.DOTALL,
)


_ZEROS = bytes(BLOCK_BYTES)


def _candidates(block: bytes | bytearray) -> Iterator[int]:
    """Yield the places in `block`, in order, where a batch may begin."""
    return heapq.merge(_current_candidates(block), _legacy_candidates(block))


def _current_candidates(block: bytes | bytearray) -> Iterator[int]:
    """Yield the places with the magic byte 2 and a possible size."""
    magic = block.find(b"\x02", 16)
    while 0 <= magic <= len(block) - (HEADER_SIZE - 16):
        start = magic - 16
        if _SIZE.unpack_from(block, start + 8)[0] >= HEADER_SIZE - LOG_OVERHEAD:
            yield start
        magic = block.find(b"\x02", magic + 1)


def _legacy_candidates(block: bytes | bytearray) -> Iterator[int]:
    if not _ZEROS.startswith(block):  # a hole is passed over as fast as it is read
        for match in _LEGACY_HEAD.finditer(block):
            yield match.start()


def _is_sound(file: File, position: int, end: int, offset_min: int, offset_max: int) -> bool:
    """Whether a batch begins at `position`. The whole of it is read only when its header looks like one."""
    try:
        for _, header, seen in headers(file, position, end, block_bytes=HEADER_SIZE):
            is_between = offset_min <= header.base_offset <= header.last_offset <= offset_max
            if not is_between or not _is_plausible(file, position, header):
                return False
            load(file, position, header, seen)
            return True
    except StorageError:
        pass
    return False


def _is_plausible(file: File, position: int, header: BatchHeader) -> bool:
    """Whether the header holds together: a size alone says little, and may ask for a gigabyte to be read."""
    if header.magic == MAGIC:
        numbers = (
            header.base_offset,
            header.leader_epoch,
            header.max_timestamp,
            header.producer_id,
            header.base_sequence,
        )
        is_small = 0 <= header.attributes < ATTRIBUTES_END and min(numbers) >= -1
        return is_small and 0 <= header.count <= header.last_offset_delta + 1
    field_position = position + KEY_POSITIONS[header.magic]
    for _ in ("key", "value"):
        field = file.read(field_position, _SIZE.size)
        if len(field) < _SIZE.size:
            return False
        field_position += _SIZE.size + max(_SIZE.unpack(field)[0], 0)
    return field_position == position + header.size


class LastBatch(NamedTuple):
    """The last whole batch of a Fetch response. `leader_epoch`: -1 in formats v0 and v1."""

    next_offset: int
    leader_epoch: int
    max_timestamp: int


def last_whole_batch(data: Buffer) -> LastBatch | None:
    """Return the last batch that `data`, a Fetch response, has as a whole; None if there is none.

    The next response begins behind it. Reads headers only, and verifies nothing.
    """
    view, position, latest = memoryview(data), 0, None
    while len(view) - position >= BATCH_SIZE_MIN:
        rows, end = chain.headers(view, position, len(view), len(view), 0)
        if rows:
            last = rows[-chain.COLUMNS :]
            next_offset = last[chain.BASE_OFFSET] + last[chain.LAST_OFFSET_DELTA] + 1
            latest = LastBatch(next_offset, last[chain.LEADER_EPOCH], last[chain.MAX_TIMESTAMP])
            position = end
            continue
        try:
            header = parse_header(view, position)
        except MalformedBatch:
            break
        if header.size > len(view) - position:
            break
        latest = LastBatch(header.next_offset, header.leader_epoch, header.max_timestamp)
        position += header.size
    return latest
