"""Writing the segments that compaction puts in the place of others: as `.cleaned` files, as it goes.

A megabyte is gathered, written and forgotten; only the entries of the indexes are kept in mind, in no more bytes than
an index may have. A new segment begins where an offset or the file would pass what a segment can hold, which is where
a segment of the source had passed it. Follows the writing half of Kafka's Cleaner.cleanSegments.
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
from offsetfs.storage.records.batch_header import Buffer, parse_header
from offsetfs.storage.segments.segment import LOG_BYTES_MAX, Segment
from offsetfs.storage.segments.segment_files import RELATIVE_OFFSET_MAX, SUFFIXES
from offsetfs.storage.segments.transaction_index import AbortedTransaction

BUFFER_BYTES = 1 << 20
_OFFSET_ENTRY_SIZE, _TIME_ENTRY_SIZE = 8, 12


class SegmentWriter:
    """The new segments for one group of old ones. `buffer[:used]` is gathered and not yet written."""

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

    def make_room(self, size: int) -> None:
        """Write what is gathered, and have room for `size` bytes then."""
        self.write()
        if size > len(self.buffer):
            self.buffer = bytearray(size)

    def write(self) -> None:
        """Write what is gathered."""
        if self.used:
            with memoryview(self.buffer) as view:
                self._append(view[: self.used])
            self.used = 0

    def _append(self, data: memoryview) -> None:
        """Write whole batches; in parts, where one belongs into the next segment."""
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
        segment.size += len(data)
        self.bytes_written += len(data)
        self._throttle.take(len(data))

    def _cuts(self, data: memoryview) -> Iterable[tuple[int, int]]:
        """Yield (position, base offset) of each batch in `data` that cannot be in the segment of those before it."""
        if not self._may_overflow:
            return
        base, size, position = self._segments[-1].base_offset, self._segments[-1].size, 0
        while position < len(data):
            header = parse_header(data, position)
            if header.last_offset - base > RELATIVE_OFFSET_MAX or size + header.size > LOG_BYTES_MAX:
                base, size = header.base_offset, 0
                yield position, base
            position, size = position + header.size, size + header.size

    def expect(self, limit: int, size: int) -> None:
        """Say what is to come: offsets below `limit`, about `size` bytes. The rare segment that cannot hold them is
        looked at batch by batch."""
        room = LOG_BYTES_MAX // 2  # what is written anew may be longer than it was, not that much
        segment = self._segments[-1]
        self._may_overflow = limit - 1 - segment.base_offset > RELATIVE_OFFSET_MAX or segment.size + size > room

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
        """End the segment: what was written is on disk, its indexes too."""
        assert self._file is not None
        segment = self._segments[-1]
        self._file.sync()
        self._file.close()
        self._file = None
        self._indexer.finish()
        for suffix, content in ((".index", self._indexer.offsets), (".timeindex", self._indexer.times)):
            _write(segment.path(suffix), content)

    def finish(self, aborted: Iterable[AbortedTransaction], modified_ns: int) -> list[Segment]:
        """Write the rest, and the transactions that were aborted; return the segments, on disk with their names.

        The files get `modified_ns` as the time of their last change: that is how old the records are.
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
        """Remove what was written, as far as that goes, unless it has another name by now: then it is in use."""
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
