"""Writes the segments that compaction swaps in, as `.cleaned` files.

A megabyte is buffered before each write. Only the index entries are kept in memory, in at most the size of an index. A
new segment begins if an offset or the file size would exceed the limits of a segment, at a batch where a source segment
began as well. Follows the writing half of Kafka's Cleaner.cleanSegments.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

from offsetfs.storage import files
from offsetfs.storage.compaction.offset_map import OutputIndexer
from offsetfs.storage.compaction.throttle import Throttle
from offsetfs.storage.files import File
from offsetfs.storage.names import segment_name
from offsetfs.storage.partition.swap import CLEANED
from offsetfs.storage.records.format.batch_header import Buffer, parse_header
from offsetfs.storage.segments.segment import LOG_BYTES_MAX, Segment
from offsetfs.storage.segments.segment_files import RELATIVE_OFFSET_MAX, SUFFIXES
from offsetfs.storage.segments.transaction_index import AbortedTransaction

BUFFER_BYTES = 1 << 20
_OFFSET_ENTRY_SIZE, _TIME_ENTRY_SIZE = 8, 12


class SegmentWriter:
    """The new segments for one group of old ones. `buffer[:used]` is not yet written."""

    def __init__(self, like: Segment, base_offset: int, throttle: Throttle, buffer: bytearray) -> None:
        """Begin with a segment at `base_offset`, in the directory and with the settings of the segment `like`."""
        self.buffer = buffer
        self.used = 0
        self.bytes_written = 0
        self._like = like
        self._throttle = throttle
        self._segments: list[Segment] = []
        self._file: File | None = None
        self._may_overflow = False
        self._begin(base_offset)

    def put(self, data: Buffer) -> None:
        """Add a whole batch."""
        if len(data) > len(self.buffer) - self.used:
            self.write()
        if len(data) > len(self.buffer):
            self._append(memoryview(data))
        else:
            self.buffer[self.used : self.used + len(data)] = data
            self.used += len(data)

    def make_space(self, size: int) -> None:
        """Write the buffer, and make `size` bytes available in it."""
        self.write()
        if size > len(self.buffer):
            self.buffer = bytearray(size)

    def write(self) -> None:
        """Write the buffer."""
        if self.used:
            with memoryview(self.buffer) as view:
                self._append(view[: self.used])
            self.used = 0

    def _append(self, data: memoryview) -> None:
        """Write whole batches; split them if some belong into the next segment."""
        start = 0
        for cut, base_offset in self._cuts(data):
            self._append_part(data[start:cut])
            self._seal()
            self._begin(base_offset)
            start = cut
        self._append_part(data[start:])

    def _append_part(self, data: memoryview) -> None:
        assert self._file is not None
        segment = self._segments[-1]
        self._file.write(segment.size, data)
        self._indexer.add(data, 0, len(data), segment.size)
        segment.end_at(segment.size + len(data))
        self.bytes_written += len(data)
        self._throttle.take(len(data))

    def _cuts(self, data: memoryview) -> Iterable[tuple[int, int]]:
        """Yield (position, base offset) of each batch in `data` that does not fit into the current segment."""
        if not self._may_overflow:
            return
        base, size, position = self._segments[-1].base_offset, self._segments[-1].size, 0
        while position < len(data):
            header = parse_header(data, position)
            if header.last_offset - base > RELATIVE_OFFSET_MAX or size + header.size > LOG_BYTES_MAX:
                base, size = header.base_offset, 0
                yield position, base
            position, size = position + header.size, size + header.size

    def set_bounds(self, limit: int, size: int) -> None:
        """Announce the following data: offsets below `limit`, about `size` bytes.

        Only if the segment may not hold them, which is rare, are batches checked one by one.
        """
        space = LOG_BYTES_MAX // 2  # a rewritten batch may be longer than before, but not twice as long
        segment = self._segments[-1]
        self._may_overflow = limit - 1 - segment.base_offset > RELATIVE_OFFSET_MAX or segment.size + size > space

    # --- files -------------------------------------------------------------------------------------------------------

    def _begin(self, base_offset: int) -> None:
        like = self._like
        segment = Segment.create(like.directory, base_offset, like.config, like.pool, clock=like.clock, ending=CLEANED)
        self._segments.append(segment)
        self._file = files.open_file(segment.log_path, writable=True)
        limit = like.config.segment_index_bytes
        entries_max = max(min(limit // _OFFSET_ENTRY_SIZE, limit // _TIME_ENTRY_SIZE - 1), 0)
        self._indexer = OutputIndexer(base_offset, like.config.index_interval_bytes, entries_max)

    def _seal(self) -> None:
        """End the segment, and sync it with its indexes."""
        assert self._file is not None
        segment = self._segments[-1]
        self._file.sync()
        self._file.close()
        self._file = None
        self._indexer.finish()
        for suffix, content in ((".index", self._indexer.offsets), (".timeindex", self._indexer.times)):
            _write(segment.path(suffix), content)

    def finish(self, aborted: Iterable[AbortedTransaction], modified_ns: int) -> list[Segment]:
        """Write the rest, and the aborted transactions; return the segments, durable with their names.

        The files get the modification time `modified_ns`, because that is the age of their records.
        """
        self.write()
        self._seal()
        entries = list(aborted)
        for segment, end in zip(self._segments, [s.base_offset for s in self._segments[1:]] + [None], strict=True):
            inside = [
                e for e in entries if e.last_offset >= segment.base_offset and (end is None or e.last_offset < end)
            ]
            if inside:
                _write(segment.path(".txnindex"), b"".join(entry.pack() for entry in inside))
            for suffix in SUFFIXES:
                if files.exists(segment.path(suffix)):
                    files.set_modified(segment.path(suffix), modified_ns)
        files.sync_directory(self._like.directory)
        return self._segments

    def discard(self) -> None:
        """Remove the written files as far as possible, except those that were already renamed, because they are in
        use.
        """
        if self._file is not None:
            self._file.close()
        for segment in self._segments:
            for suffix in SUFFIXES:
                with contextlib.suppress(OSError):
                    files.remove_file(
                        os.path.join(segment.directory, segment_name(segment.base_offset, suffix + CLEANED))
                    )


def _write(path: str, content: Buffer) -> None:
    with files.created(path) as file:
        file.write(0, content)
        file.sync()
