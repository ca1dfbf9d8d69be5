"""The line index of a segment: cumulative output bytes of a view by batch position.

A view has a line for each record (`view_format`). Its size is a sum over all records, and a read may start at any byte.
The line index answers both without reading records again. It has an entry for the first batch, and for each batch that
begins after 64 KiB of output (or 4 MiB of log) since the last entry; none per record. Control batches and unreadable
batches have no output; the latter are reported.

An index grows with its segment. That of a sealed segment is stored beside the log as `<base offset>.values-map` or
`.records-map`, names that Kafka ignores (docs/internals/format/values-map.md). A stored index that does not match the
log is dropped, so it can cost time but never causes a wrong byte. It stays with its segment: beside a removed one it is
usable until both are unlinked. An index that begins inside its segment is never stored. For read-only logs, indexes are
stored in a cache (`line_index_cache`). Kafka has no counterpart.

Threads: one extends, any number read; `size` and the entries below it are consistent.
"""

from __future__ import annotations

import contextlib
import errno
import struct
from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate

from offsetfs.storage import files
from offsetfs.storage.errors import MalformedBatch, StorageError, WouldBlock
from offsetfs.storage.records.columns import row_walk
from offsetfs.storage.records.columns.row_walk import Rows
from offsetfs.storage.records.format import chain
from offsetfs.storage.records.format.batch import HEADER_SIZE, Batch, parse_header
from offsetfs.storage.records.format.batch import MAGIC as BATCH_MAGIC
from offsetfs.storage.records.format.batch_header import Buffer
from offsetfs.storage.records.format.checksum import crc32c
from offsetfs.storage.segments import segment_files
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.time_search import VisibilityFilter, shows_data
from offsetfs.storage.views import line_index_file
from offsetfs.storage.views.line_index_file import ENTRY, LineIndexSummary, StoredLineIndex
from offsetfs.storage.views.view_blocks import OnDamage, ViewBlock, measure, measure_below, walk
from offsetfs.storage.views.view_format import VALUES, ViewFormat

OUTPUT_BYTES_STEP = 64 << 10
LOG_BYTES_STEP = 4 << 20
"""Limits the log bytes that a reader must read for one block if batches have little or no output."""

BATCHES_BEFORE_ROWS = 256
"""The number of batches that are processed one by one before rows are tried again."""

_OUTPUT = struct.Struct(">q")
_U32_MAX = 2**32 - 1

WINDOW_ENTRIES = 256
"""The number of entries read at once: a binary search ends with one such read, and a block begins with one."""

LineIndexPool = FilePool[StoredLineIndex]


class LineIndex:
    """The line index of one segment. `size`: bytes of output of the log from `begin` to `log_bytes`."""

    __slots__ = (
        "_batches",
        "_damage_outputs",
        "_damage_positions",
        "_entries",
        "_first_crc",
        "_header",
        "_key",
        "_last",
        "_pooled",
        "_shows",
        "base_offset",
        "begin",
        "count",
        "is_refuted",
        "reached",
        "stored_bytes",
        "view_format",
    )

    def __init__(
        self,
        base_offset: int,
        shows: VisibilityFilter = shows_data,
        *,
        view_format: ViewFormat = VALUES,
        begin: int = 0,
    ) -> None:
        """Create an empty index of the batches that `shows` accepts, from byte `begin` of the log on.

        Only an index of all data batches may be saved.
        """
        self.base_offset = base_offset
        self.begin = begin
        self.view_format = view_format
        self._shows = shows
        self.count = 0
        self.reached = (0, begin)  # (output bytes, log bytes), replaced together, because readers hold no lock
        self._damage_outputs = array("q")  # sorted: output positions of left-out batches, and their log positions
        self._damage_positions = array("q")
        self.is_refuted = False  # the stored index does not match its segment: a new one is needed
        self.stored_bytes = 0  # the size of the copy in the cache (`line_index_cache`)
        self._entries: bytearray | None = bytearray()
        self._key = object()  # a pool key that does not reference the index, which would keep it and its file forever
        self._pooled: tuple[LineIndexPool, Segment] | None = None  # the pool of the stored index, and its segment
        self._header = b""  # of the stored index
        self._batches = 0
        self._first_crc = 0
        self._last = (0, 0)  # position of the last batch, checksum of its header

    def __del__(self) -> None:
        if self._pooled is not None:
            self._pooled[0].evict(self._key)

    @property
    def size(self) -> int:
        return self.reached[0]

    @property
    def log_bytes(self) -> int:
        return self.reached[1]

    @property
    def has_damage(self) -> bool:
        """Whether a batch was left out because it cannot be read."""
        return bool(self._damage_outputs)

    def next_damage(self, byte: int) -> tuple[int, int] | None:
        """Return the first byte at or after `byte` before which output was left out, and its log position."""
        index = bisect_left(self._damage_outputs, byte)
        if index == len(self._damage_positions):  # the shorter list, while another thread appends to both
            return None
        return self._damage_outputs[index], self._damage_positions[index]

    @property
    def is_stored(self) -> bool:
        """Whether the entries are only on disk."""
        return self._entries is None

    # --- looking up ------------------------------------------------------------------------------------------------

    def block(self, byte: int, output_max: int = 0, *, nowait: bool = False) -> ViewBlock:
        """Return the block that holds byte `byte` of this segment's output, which must lie below `size`.

        A block extends from one entry to the next. With `output_max` it extends to the last entry within so much
        output, and twice as much log. If the stored index was cut or replaced, it is rebuilt from the log; with
        `nowait`, `WouldBlock`.
        """
        assert 0 <= byte < self.size
        try:
            return self._block(byte, output_max)
        except OSError:
            if self._pooled is None:
                raise
        # Entries are read with pread and not from a mapped file: another process may cut the file at any time, which is
        # SIGBUS for a mapping (decision 2).
        self._restore(nowait)
        return self._block(byte, output_max)

    def _block(self, byte: int, output_max: int) -> ViewBlock:
        (size, log_bytes), count = self.reached, self.count
        number = max(self._floor(0, byte, count), 0)
        window, first = self._read(number, min(WINDOW_ENTRIES, count - number)), number
        output, position, _ = ENTRY.unpack_from(window)
        output_end, position_end = size, log_bytes
        for following in range(number + 1, count):
            if following - first >= WINDOW_ENTRIES:
                window, first = self._read(following, min(WINDOW_ENTRIES, count - following)), following
            reached = ENTRY.unpack_from(window, (following - first) * ENTRY.size)
            if following > number + 1 and (reached[0] - output > output_max or reached[1] - position > 2 * output_max):
                break
            output_end, position_end, _ = reached
        # A checksum of the whole file is verified at loading only; an entry that was overwritten since must not cause a
        # wrong byte.
        if self.is_stored and not (output <= byte < output_end and position < position_end <= log_bytes):
            raise OSError(errno.ESTALE, "the line index was overwritten")
        return ViewBlock(output, output_end, position, position_end)

    def output_before(self, segment: Segment, offset: int) -> int:
        """Return the output bytes of the records below `offset`. Reads up to one block."""
        if not self.count:
            return 0
        try:
            output, position, _ = self._entry_before(offset)
        except OSError:
            if self._pooled is None:
                raise
            self._restore(nowait=False)
            output, position, _ = self._entry_before(offset)
        for batch in walk(segment, position, self.log_bytes, on_damage=_ignore):
            if batch.header.last_offset >= offset:
                return int(output) + measure_below(batch, offset, view_format=self.view_format, shows=self._shows)
            output += measure(batch, _ignore, view_format=self.view_format, shows=self._shows)
        return int(output)

    def _entry_before(self, offset: int) -> tuple[int, int, int]:
        # Start at the first entry at least: an entry of a compressed v0 or v1 set has its last offset.
        number = max(self._floor(2, offset - self.base_offset, self.count), 0)
        output, position, relative = ENTRY.unpack_from(self._read(number, 1))
        return output, position, relative

    def _floor(self, column: int, value: int, count: int) -> int:
        """Return the number of the last of `count` entries whose field `column` is at most `value`, or -1."""
        low, high = 0, count
        while high - low > WINDOW_ENTRIES:
            middle = (low + high) // 2
            if ENTRY.unpack_from(self._read(middle, 1))[column] <= value:
                low = middle
            else:
                high = middle
        window = self._read(low, high - low)

        def field(number: int) -> int:
            return int(ENTRY.unpack_from(window, number * ENTRY.size)[column])

        return low - 1 + bisect_right(range(high - low), value, key=field)

    def _read(self, first: int, count: int) -> bytearray:
        """Return `count` entries from number `first` on. OSError if the stored index no longer has them."""
        entries = self._entries  # another thread may save the index meanwhile
        if entries is None:
            return self.stored().entries(first, count)
        return entries[first * ENTRY.size : (first + count) * ENTRY.size]

    def stored(self) -> StoredLineIndex:
        """Return the open stored index. It stays readable while referenced."""
        assert self._pooled is not None
        pool, segment = self._pooled
        return pool.get(self._key, lambda: self._open(segment))

    def _open(self, segment: Segment) -> StoredLineIndex:
        """Reopen the file. ESTALE if it was removed with its segment, or replaced."""
        suffix = self.view_format.suffix
        for path in (segment.path(suffix), *segment_files.removed_paths(segment, suffix)):
            with contextlib.suppress(FileNotFoundError):
                opened = StoredLineIndex.open(path, self._header, self.count)
                if opened is not None:
                    return opened
        raise OSError(errno.ESTALE, "the segment's line index is gone", segment.path(self.view_format.suffix))

    def _restore(self, nowait: bool) -> None:
        """Rebuild the entries, because another process has cut or replaced the stored index.

        OSError ESTALE if the segment is gone, too, or its output differs from the index (`is_refuted`). Then the sizes
        and positions that readers got from this index are wrong.
        """
        assert self._pooled is not None
        pool, segment = self._pooled
        if self.is_refuted:
            raise self._refutation(segment)
        if nowait:
            raise WouldBlock("the line index must be rebuilt", path=segment.log_path)
        # Rebuilt once, and refuted for good if it differs. Before, an index with a correct checksum and a wrong size
        # measured the whole segment at each read.
        rebuilt = LineIndex(self.base_offset, view_format=self.view_format)
        rebuilt.extend(segment, self.log_bytes, on_damage=_ignore)
        if (rebuilt.reached, rebuilt.count) != (self.reached, self.count):
            self._refute(pool, segment)
            raise self._refutation(segment)
        self._damage_outputs, self._damage_positions = rebuilt._damage_outputs, rebuilt._damage_positions
        self._entries = rebuilt._entries
        pool.drop(self._key)

    def _refute(self, pool: LineIndexPool, segment: Segment) -> None:
        """Remove the stored index, so that later views do not load it. In a read-only log it stays."""
        self.is_refuted = True
        pool.drop(self._key)
        if not segment.read_only:
            with segment.names_lock, contextlib.suppress(OSError):
                if not segment.is_removed:
                    files.remove_file(segment.path(self.view_format.suffix))

    def _refutation(self, segment: Segment) -> OSError:
        path = segment.path(self.view_format.suffix)
        return OSError(errno.ESTALE, "the line index does not match its segment; open the view again", path)

    # --- growing ---------------------------------------------------------------------------------------------------

    def extend(
        self, segment: Segment, end: int, *, on_damage: OnDamage, nowait: bool = False, bytes_max: int | None = None
    ) -> None:
        """Add the batches from the end of the index to `end`; with `bytes_max`, stop after about that much of the log.

        With `nowait`, `WouldBlock` if that needs the disk or much decompression, or must skip damage; batches added
        until then stay.
        """
        assert self._entries is not None, "a sealed segment does not grow"
        limit = end if bytes_max is None else min(end, self.log_bytes + bytes_max)

        def damaged(error: StorageError) -> None:
            # One entry for each byte position: several damaged batches in a row are one gap for a reader.
            if not self._damage_outputs or self._damage_outputs[-1] < self.size:
                self._damage_outputs.append(self.size)
                self._damage_positions.append(self.log_bytes if error.position is None else error.position)
            on_damage(error)

        while self.log_bytes < limit:
            if self._takes_rows:
                # Whole blocks in compiled code; a batch at a time creates Python objects for each.
                self._extend_by_rows(segment, limit, nowait)
            if self.log_bytes < limit:
                self._extend_by_batches(segment, end, limit, damaged, nowait)

    @property
    def _takes_rows(self) -> bool:
        return self._shows is shows_data

    def _extend_by_batches(self, segment: Segment, end: int, limit: int, on_damage: OnDamage, nowait: bool) -> None:
        """Add batch by batch; stop at `limit`, or after the number of batches at which rows are tried again."""
        for count, batch in enumerate(walk(segment, self.log_bytes, end, on_damage=on_damage, nowait=nowait)):
            self._add(batch, measure(batch, on_damage, view_format=self.view_format, shows=self._shows, nowait=nowait))
            # Compressed batches end a block of rows at once; trying again after each of them would read every block
            # twice.
            is_plain = batch.header.magic == BATCH_MAGIC and not batch.header.codec
            if self.log_bytes >= limit or (is_plain and count >= BATCHES_BEFORE_ROWS and self._takes_rows):
                return
        self.reached = (self.size, end)

    def _extend_by_rows(self, segment: Segment, limit: int, nowait: bool) -> None:
        """Add blocks of batches (`row_walk`) up to the first that must be measured alone, or exceeds `limit`."""
        log = segment.open_files(nowait=nowait).log
        for rows in row_walk.block_rows(log, self.log_bytes, limit, nowait=nowait):
            sizes = rows.measure(self.view_format.measured_rows)
            count = sizes.index(-1) if min(sizes) < 0 else len(sizes)
            if count:
                self._add_rows(rows, sizes[:count], segment.log_path)
            if count < len(sizes):
                return

    def _add_rows(self, rows: Rows, sizes: array[int], segment_path: str) -> None:
        """Add the first batches of `rows`, whose output sizes are `sizes`, as `_add` does with each of them."""
        entries = self._entries
        assert entries is not None
        positions, bases = rows.column(chain.POSITION), rows.column(chain.BASE_OFFSET)
        outputs, index, count = list(accumulate(sizes, initial=self.size)), 0, len(sizes)
        while (index := self._next_due(outputs, positions, index, count)) < count:
            self._add_entry(entries, outputs[index], positions[index], bases[index], segment_path)
            index += 1
        if self._batches == 0:
            self._first_crc = _header_checksum(rows.batch(0)[2])
        self._batches += count
        last, header, seen = rows.batch(count - 1)
        self._last = (last, _header_checksum(seen))
        self.reached = (outputs[count], last + header.size)

    def _next_due(self, outputs: list[int], positions: array[int], index: int, count: int) -> int:
        """Return the first batch from `index` on that gets an entry, or `count`."""
        if self.count == 0:
            return index
        assert self._entries is not None
        output, position, _ = ENTRY.unpack_from(self._entries, (self.count - 1) * ENTRY.size)
        return min(
            bisect_left(outputs, output + OUTPUT_BYTES_STEP, index, count),
            bisect_left(positions, position + LOG_BYTES_STEP, index, count),
        )

    def _add(self, batch: Batch, measured: int) -> None:
        entries, header = self._entries, batch.header
        position = batch.position or 0
        assert entries is not None
        if self._is_due(position):
            self._add_entry(entries, self.size, position, header.base_offset, batch.path)
        checksum = _header_checksum(batch.data)
        if self._batches == 0:
            self._first_crc = checksum
        self._batches += 1
        self._last = (position, checksum)
        self.reached = (self.size + measured, position + header.size)

    def _add_entry(self, entries: bytearray, output: int, position: int, offset: int, path: str | None) -> None:
        # Positions have 32 bits, as in Kafka's offset index; `segment.bytes` allows 2 GiB.
        if position > _U32_MAX:
            raise MalformedBatch("a log file of more than 4 GiB", path=path, position=position)
        entries += ENTRY.pack(output, position, min(max(offset - self.base_offset, 0), _U32_MAX))
        self.count += 1

    def _is_due(self, position: int) -> bool:
        if self.count == 0:
            return True
        assert self._entries is not None
        output, last_position, _ = ENTRY.unpack_from(self._entries, (self.count - 1) * ENTRY.size)
        return self.size >= int(output) + OUTPUT_BYTES_STEP or position >= int(last_position) + LOG_BYTES_STEP

    # --- keeping ---------------------------------------------------------------------------------------------------

    def save(self, segment: Segment, pool: LineIndexPool) -> None:
        """Store the complete index of a sealed segment beside its log, and release the memory."""
        if self._entries is None:
            return
        assert self._shows is shows_data and not self.begin, "only indexes of all data lie beside a log"
        data = self.image(self.view_format.identity)
        files.replace_file(segment.path(self.view_format.suffix), data, sync_name=False)  # a lost file is rebuilt
        self._pooled, self._header, self._entries = (pool, segment), data[: line_index_file.HEADER_SIZE], None

    def image(self, identity: bytes) -> bytes:
        """Return the content of the index file; `identity`: what the index depends on besides the log."""
        assert self._entries is not None
        (size, log_bytes), (position, last_crc) = self.reached, self._last
        return line_index_file.packed(
            LineIndexSummary(
                self.base_offset, log_bytes, self._batches, position, size, self.count, self._first_crc, last_crc
            ),
            self._entries,
            identity,
        )

    @classmethod
    def load(cls, segment: Segment, pool: LineIndexPool, view_format: ViewFormat = VALUES) -> LineIndex | None:
        """Return the stored index of a sealed segment; None if there is none, or it does not match this log."""
        try:
            with files.open_file(segment.path(view_format.suffix)) as file:
                header, length = bytes(file.read(0, line_index_file.HEADER_SIZE)), file.size()
                checksum = line_index_file.checksum_of(file, length, view_format.identity)
        except OSError:
            return None
        loaded = cls._described(line_index_file.parsed(header, length, checksum), segment, view_format)
        # A stored index of a sealed segment covers all of it; otherwise the segment was truncated or recovered since.
        if loaded is None or loaded.log_bytes != segment.size:
            return None
        loaded._entries, loaded._pooled, loaded._header = None, (pool, segment), header
        return loaded

    @classmethod
    def from_image(cls, segment: Segment, image: bytes, view_format: ViewFormat, identity: bytes) -> LineIndex | None:
        """Return the index in `image`, in memory; it may end before the segment does, and can be extended.

        None if it does not match this log.
        """
        summary = line_index_file.parsed(image, len(image), line_index_file.checksum_in(image, identity))
        loaded = cls._described(summary, segment, view_format)
        if loaded is not None:
            loaded._entries, loaded.stored_bytes = bytearray(image[line_index_file.HEADER_SIZE :]), loaded.log_bytes
        return loaded

    @classmethod
    def _described(
        cls, summary: LineIndexSummary | None, segment: Segment, view_format: ViewFormat
    ) -> LineIndex | None:
        """Return an index without entries; None if the summary is not of this segment, or missing."""
        if summary is None or summary.base_offset != segment.base_offset or summary.log_bytes > segment.size:
            return None
        loaded = cls(summary.base_offset, view_format=view_format)
        loaded.count, loaded.reached = summary.entries, (summary.size, summary.log_bytes)
        loaded._batches, loaded._first_crc = summary.batches, summary.first_crc
        loaded._last = summary.last_position, summary.last_crc
        return loaded if loaded._describes(segment) else None

    def _describes(self, segment: Segment) -> bool:
        """Whether the first and the last batch are those from which the index was built."""
        if self._batches == 0:
            return segment.size == 0
        position, last_crc = self._last
        with segment.open_log() as log:
            last = log.read(position, HEADER_SIZE)
            # Compaction replaces a segment under the same name. Its first and last batch headers differ then, unless
            # the content is the same.
            if _header_checksum(log.read(0, HEADER_SIZE)) != self._first_crc or _header_checksum(last) != last_crc:
                return False
        return self.log_bytes == segment.size or position + parse_header(last).size == self.log_bytes


def _header_checksum(data: Buffer) -> int:
    """Return the checksum of a batch header; a v0 or v1 message may be shorter than a v2 header."""
    try:
        return crc32c(data[: min(parse_header(data).size, HEADER_SIZE)])
    except MalformedBatch:
        return -1


def _ignore(_error: StorageError) -> None:
    """Ignore damage that was reported when the index was built."""
