"""Cuts an archived segment before an offset, for a take-over by a replica whose log begins inside of the segment.

    archived     [  part 0  |  part 1  |  part 2  ] side        offsets 0 to 99
    cut at 60    [  part 0  |  1'  ] side'                       offsets 0 to 59; 1' and side' are new objects
    replica                       [ 60 …

Nothing is replaced or deleted: parts before the cut are named again, the beginning of the one with the cut goes up as
an object of its own, and so does the side object with the indexes of what is left. Earlier states keep the whole
segment. The parts up to the cut are downloaded one after the other, and compared with their SHA-256.

It ends as after Kafka's LogSegment.truncateTo: batches are kept whole or not at all.
"""

from __future__ import annotations

import errno
import struct
from bisect import bisect_right
from collections import OrderedDict
from dataclasses import replace
from itertools import accumulate

from crc32c import crc32c

from offsetfs.archive.archived_objects import ArchivedObjects
from offsetfs.archive.manifest import ArchivedSegment, SideObject
from offsetfs.archive.object_store import ObjectStore
from offsetfs.archive.remote_file import ReadOnlyFile
from offsetfs.archive.segment_upload import CHECKSUM_BYTES
from offsetfs.storage.errors import StorageError
from offsetfs.storage.segments import TRANSACTION_ENTRY, measure_prefix

_PARTS_MAX = 2
"""Parts in memory: a batch may begin in a part and end in the next."""


def cut(
    objects: ArchivedObjects,
    partition: str,
    segment: ArchivedSegment,
    end: int,
    *,
    block_bytes: int,
    interval_bytes: int,
) -> ArchivedSegment | None:
    """Upload and return the beginning of a segment, offsets [base offset, `end`); None if it has no batch there.

    `block_bytes`: the unit of its checksums. `interval_bytes`: `index.interval.bytes`, for its new indexes. The objects
    are durable on return; readers see no change before a state names them. OSError EEXIST if a batch has offsets on
    both sides of `end` or cannot be read, EIO for an object that does not match its SHA-256, and those of the store.
    """
    log = _ArchivedLog(objects.store, segment, f"{objects.store.url}/{partition}")
    try:
        prefix = measure_prefix(log, segment.size, segment.base_offset, end, interval_bytes=interval_bytes)
    except StorageError as error:
        reason = f"segment {segment.base_offset} cannot end at offset {end}: {error.reason}: archive into another URL"
        raise OSError(errno.EEXIST, reason, log.path) from error
    if not prefix.size:
        return None
    stored = segment.side.stored
    sections, data = segment.side.sections(), objects.store.read_whole(stored.key, stored.size, stored.sha256)

    def section(suffix: str) -> bytes:
        start, stop = sections[suffix]
        return data[start:stop]

    number = log.part_at(prefix.size)
    begin, parts = log.starts[number], segment.parts[:number]
    if begin < prefix.size:
        name = f"{segment.base_offset:020d}-{begin:010d}-{{}}.part"
        piece = bytes(log.read(begin, prefix.size - begin))
        parts = (*parts, objects.put(partition, name, lambda: piece).result())
    whole = prefix.size // block_bytes
    checksums = section("crc")[: whole * CHECKSUM_BYTES]
    if rest := prefix.size % block_bytes:
        checksums += struct.pack("<I", crc32c(log.read(whole * block_bytes, rest)))
    aborted = [entry for entry in TRANSACTION_ENTRY.iter_unpack(section(".txnindex")) if entry[3] < end]
    transactions = b"".join(TRANSACTION_ENTRY.pack(*entry) for entry in aborted)
    # The snapshot is of the producers at the base offset, and stays.
    contents = [prefix.offset_index, prefix.time_index, transactions, section(".snapshot"), checksums]
    joined = b"".join(contents)
    side = objects.put(partition, f"{segment.base_offset:020d}-{{}}.side", lambda: joined).result()
    return replace(
        segment,
        end=end,
        size=prefix.size,
        max_time_ms=prefix.max_timestamp,
        is_sealed=True,
        parts=parts,
        side=SideObject(side, *map(len, contents)),
    )


class _ArchivedLog(ReadOnlyFile):
    """The log of an archived segment, read from its parts, each of them whole."""

    __slots__ = ("_loaded", "_segment", "_store", "starts")

    def __init__(self, store: ObjectStore, segment: ArchivedSegment, url: str) -> None:
        """`url`: of the partition, for errors."""
        super().__init__(url)
        self.starts = [0, *accumulate(part.size for part in segment.parts)]
        self._loaded: OrderedDict[int, bytes] = OrderedDict()
        self._store = store
        self._segment = segment

    def part_at(self, position: int) -> int:
        """Return the number of the part with a byte; the number of parts for the end of the log."""
        return bisect_right(self.starts, position) - 1

    def size(self) -> int:
        return self._segment.size

    def read_into(self, buffer: memoryview, position: int, *, nowait: bool = False) -> int:
        done = 0
        while done < len(buffer) and position + done < self._segment.size:
            number = self.part_at(position + done)
            start = position + done - self.starts[number]
            data = memoryview(self._part(number))[start : start + len(buffer) - done]
            buffer[done : done + len(data)] = data
            done += len(data)
        return done

    def _part(self, number: int) -> bytes:
        if number not in self._loaded:
            part = self._segment.parts[number]
            while len(self._loaded) >= _PARTS_MAX:
                self._loaded.popitem(last=False)
            self._loaded[number] = self._store.read_whole(part.key, part.size, part.sha256)
        return self._loaded[number]
