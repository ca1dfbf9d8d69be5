"""Where in a growing view each part of a segment begins: cumulative output bytes against batch positions.

A view shows a line for each record (`form`). Its size is a sum over all records, and a read may begin at any byte; a
view map answers both without looking at a record again. It holds an entry for the first batch, and for each batch that
begins when 64 KiB of output (or 4 MiB of log) have passed since the last entry: nothing per record. Control batches
count 0, and so do batches that cannot be read: they are reported, and the rest of the view closes up.

A map grows with its segment. That of a sealed segment is kept beside the log as `<base offset>.values-map`, or
`.records-map`, names that Kafka ignores (docs/internals/format/values-map.md). It describes what it was made from and
is dropped when that is not what the log holds: it may cost time, never a wrong byte. It goes where its segment goes:
beside one that was removed it is read on until both are unlinked. A map that begins inside of its segment is never
kept. Of a log that may not be written to, maps lie in a cache (`line_index_cache`). They have no counterpart in Kafka.

Threads: one extends, any number read; `size` and the entries a reader finds below it belong together.
"""

from __future__ import annotations

import contextlib
import errno
import struct
from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate

from crc32c import crc32c

from offsetfs.storage import files
from offsetfs.storage.errors import MalformedBatch, StorageError, WouldBlock
from offsetfs.storage.records import chain, row_walk
from offsetfs.storage.records.batch import HEADER_SIZE, Batch, parse_header
from offsetfs.storage.records.batch import MAGIC as BATCH_MAGIC
from offsetfs.storage.records.batch_header import Buffer
from offsetfs.storage.records.row_walk import Rows
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
"""Bounds what one block makes a reader read, where batches have little or no output."""

BATCHES_BEFORE_ROWS = 256
"""How many batches are taken one by one, where rows came to an end, before they are tried again."""

_OUTPUT = struct.Struct(">q")
_U32_MAX = 2**32 - 1

WINDOW_ENTRIES = 256
"""How many entries are read at once: a binary search ends with one such read, and a block begins with one."""

Maps = FilePool[StoredLineIndex]


class LineIndex:
    """The map of one segment. `size`: bytes of output so far, of the log from `begin` to `log_bytes`."""

    __slots__ = (
        "_batches",
        "_damage_outputs",
        "_damage_positions",
        "_entries",
        "_first_crc",
        "_header",
        "_key",
        "_last",
        "_place",
        "_shows",
        "base_offset",
        "begin",
        "count",
        "form",
        "is_refuted",
        "kept_bytes",
        "reached",
    )

    def __init__(
        self, base_offset: int, shows: VisibilityFilter = shows_data, *, form: ViewFormat = VALUES, begin: int = 0
    ) -> None:
        """Begin an empty map of the batches that `shows` lets through, from the one at byte `begin` of the log on.

        Only a map of all data may be saved.
        """
        self.base_offset = base_offset
        self.begin = begin
        self.form = form
        self._shows = shows
        self.count = 0
        self.reached = (0, begin)  # (output bytes, log bytes), put in place as one
        self._damage_outputs = array("q")  # sorted: where output was left out, and the byte of the log it stood at
        self._damage_positions = array("q")
        self.is_refuted = False  # the map on disk has another output than its segment: a new map is needed
        self.kept_bytes = 0  # how far a copy goes that lies elsewhere (`line_index_cache`)
        self._entries: bytearray | None = bytearray()
        self._key = object()  # in the pool: one that holds the map itself would keep it, and its file, for ever
        self._place: tuple[Maps, Segment] | None = None  # where the map on disk is opened, and of what it is
        self._header = b""  # of the map on disk
        self._batches = 0
        self._first_crc = 0
        self._last = (0, 0)  # position of the last batch, checksum of its header

    def __del__(self) -> None:
        if self._place is not None:
            self._place[0].evict(self._key)

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
        """Return the first byte at or after `byte` before which output was left out, and the log position of that."""
        place = bisect_left(self._damage_outputs, byte)
        if place == len(self._damage_positions):  # the shorter one, while a place is being added
            return None
        return self._damage_outputs[place], self._damage_positions[place]

    @property
    def is_kept(self) -> bool:
        """Whether the entries are on disk only."""
        return self._entries is None

    # --- looking up ------------------------------------------------------------------------------------------------

    def block(self, byte: int, output_max: int = 0, *, nowait: bool = False) -> ViewBlock:
        """Return the stretch that holds byte `byte` of this segment's output, which must lie below `size`.

        It goes from an entry to the next; with `output_max` to the last one that is no further than so much output,
        and twice as much log. If the map on disk was cut or replaced, it is made anew from the log; with `nowait`
        `WouldBlock` instead.
        """
        assert 0 <= byte < self.size
        try:
            return self._block(byte, output_max)
        except OSError:
            if self._place is None:
                raise
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
        if self.is_kept and not (output <= byte < output_end and position < position_end <= log_bytes):
            raise OSError(errno.ESTALE, "the view map was overwritten")
        return ViewBlock(output, output_end, position, position_end)

    def output_before(self, segment: Segment, offset: int) -> int:
        """Return how many bytes of output records below `offset` make. Reads up to one block."""
        if not self.count:
            return 0
        try:
            output, position, _ = self._entry_before(offset)
        except OSError:
            if self._place is None:
                raise
            self._restore(nowait=False)
            output, position, _ = self._entry_before(offset)
        for batch in walk(segment, position, self.log_bytes, on_damage=_passed_over):
            if batch.header.last_offset >= offset:
                return int(output) + measure_below(batch, offset, form=self.form, shows=self._shows)
            output += measure(batch, _passed_over, form=self.form, shows=self._shows)
        return int(output)

    def _entry_before(self, offset: int) -> tuple[int, int, int]:
        # Not below the first: an entry may be that of a compressed set of v0 or v1, which names its last offset.
        number = max(self._floor(2, offset - self.base_offset, self.count), 0)
        output, position, relative = ENTRY.unpack_from(self._read(number, 1))
        return output, position, relative

    def _floor(self, column: int, value: int, count: int) -> int:
        """Return the number of the last of `count` entries whose field `column` is at most `value`; -1 for none."""
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
        """Return `count` entries from number `first` on. OSError where the map on disk does not have them any more."""
        entries = self._entries  # another thread may save the map meanwhile
        if entries is None:
            return self.kept().entries(first, count)
        return entries[first * ENTRY.size : (first + count) * ENTRY.size]

    def kept(self) -> StoredLineIndex:
        """Return the open map on disk, which must be there; whoever holds it keeps it readable."""
        assert self._place is not None
        maps, segment = self._place
        return maps.get(self._key, lambda: self._open(segment))

    def _open(self, segment: Segment) -> StoredLineIndex:
        """Open the file anew. ESTALE where it was removed with its segment, or is another segment's by now."""
        for path in (segment.path(self.form.suffix), *segment_files.removed_paths(segment, self.form.suffix)):
            with contextlib.suppress(FileNotFoundError):
                opened = StoredLineIndex.open(path, self._header, self.count)
                if opened is not None:
                    return opened
        raise OSError(errno.ESTALE, "the segment's map is gone", segment.path(self.form.suffix))

    def _restore(self, nowait: bool) -> None:
        """Make the entries anew, because another process has cut or replaced the file that they were in.

        OSError ESTALE where the segment is gone, too, or has another output than the map (`is_refuted`): then the sizes
        and places that readers got from this map are wrong.
        """
        assert self._place is not None
        maps, segment = self._place
        if self.is_refuted:
            raise self._refutation(segment)
        if nowait:
            raise WouldBlock("the view map has to be made anew", path=segment.log_path)
        anew = LineIndex(self.base_offset, form=self.form)
        anew.extend(segment, self.log_bytes, on_damage=_passed_over)
        if (anew.reached, anew.count) != (self.reached, self.count):
            self._refute(maps, segment)
            raise self._refutation(segment)
        self._damage_outputs, self._damage_positions = anew._damage_outputs, anew._damage_positions
        self._entries = anew._entries
        maps.drop(self._key)

    def _refute(self, maps: Maps, segment: Segment) -> None:
        """Remove the map on disk, so that no later view loads it; in a log that is read only it stays."""
        self.is_refuted = True
        maps.drop(self._key)
        if not segment.read_only:
            with segment.names_lock, contextlib.suppress(OSError):
                if not segment.is_removed:
                    files.remove_file(segment.path(self.form.suffix))

    def _refutation(self, segment: Segment) -> OSError:
        path = segment.path(self.form.suffix)
        return OSError(errno.ESTALE, "the view map has another output than its segment; open the view again", path)

    # --- growing ---------------------------------------------------------------------------------------------------

    def extend(
        self, segment: Segment, end: int, *, on_damage: OnDamage, nowait: bool = False, bytes_max: int | None = None
    ) -> None:
        """Add the batches from where the map ends to `end`; with `bytes_max` stop after about that much of the log.

        With `nowait` `WouldBlock` when that needs the disk, much inflating, or steps over damage; what was added until
        then stays.
        """
        assert self._entries is not None, "a sealed segment does not grow"
        limit = end if bytes_max is None else min(end, self.log_bytes + bytes_max)

        def damaged(error: StorageError) -> None:
            if not self._damage_outputs or self._damage_outputs[-1] < self.size:
                self._damage_outputs.append(self.size)
                self._damage_positions.append(self.log_bytes if error.position is None else error.position)
            on_damage(error)

        while self.log_bytes < limit:
            if self._takes_rows:
                self._extend_by_rows(segment, limit, nowait)
            if self.log_bytes < limit:
                self._extend_by_batches(segment, end, limit, damaged, nowait)

    @property
    def _takes_rows(self) -> bool:
        return self._shows is shows_data

    def _extend_by_batches(self, segment: Segment, end: int, limit: int, on_damage: OnDamage, nowait: bool) -> None:
        """Add batch by batch; stop when `limit` is reached, or after so many that rows are worth another try."""
        for count, batch in enumerate(walk(segment, self.log_bytes, end, on_damage=on_damage, nowait=nowait)):
            self._add(batch, measure(batch, on_damage, form=self.form, shows=self._shows, nowait=nowait))
            is_plain = batch.header.magic == BATCH_MAGIC and not batch.header.codec
            if self.log_bytes >= limit or (is_plain and count >= BATCHES_BEFORE_ROWS and self._takes_rows):
                return
        self.reached = (self.size, end)

    def _extend_by_rows(self, segment: Segment, limit: int, nowait: bool) -> None:
        """Add blocks of batches (`row_walk`) up to the first that has to be asked itself, or goes beyond `limit`."""
        log = segment.open_files(nowait=nowait).log
        for rows in row_walk.block_rows(log, self.log_bytes, limit, nowait=nowait):
            sizes = rows.measure(self.form.measured_rows)
            count = sizes.index(-1) if min(sizes) < 0 else len(sizes)
            if count:
                self._add_rows(rows, sizes[:count], segment.log_path)
            if count < len(sizes):
                return

    def _add_rows(self, rows: Rows, sizes: array[int], segment_path: str) -> None:
        """Add the first batches of `rows`, whose output is `sizes`; as `_add` does with each of them."""
        entries = self._entries
        assert entries is not None
        positions, bases = rows.column(chain.POSITION), rows.column(chain.BASE_OFFSET)
        outputs, place, count = list(accumulate(sizes, initial=self.size)), 0, len(sizes)
        while (place := self._next_due(outputs, positions, place, count)) < count:
            self._add_entry(entries, outputs[place], positions[place], bases[place], segment_path)
            place += 1
        if self._batches == 0:
            self._first_crc = _header_checksum(rows.batch(0)[2])
        self._batches += count
        last, header, seen = rows.batch(count - 1)
        self._last = (last, _header_checksum(seen))
        self.reached = (outputs[count], last + header.size)

    def _next_due(self, outputs: list[int], positions: array[int], place: int, count: int) -> int:
        """Return the first batch from `place` on that gets an entry; `count` when none does."""
        if self.count == 0:
            return place
        assert self._entries is not None
        output, position, _ = ENTRY.unpack_from(self._entries, (self.count - 1) * ENTRY.size)
        return min(
            bisect_left(outputs, output + OUTPUT_BYTES_STEP, place, count),
            bisect_left(positions, position + LOG_BYTES_STEP, place, count),
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

    def save(self, segment: Segment, maps: Maps) -> None:
        """Put the finished map of a sealed segment beside its log, and let go of the memory."""
        if self._entries is None:
            return
        assert self._shows is shows_data and not self.begin, "only maps of all data lie beside a log"
        data = self.image(self.form.identity)
        files.replace_file(segment.path(self.form.suffix), data, sync_name=False)  # one that is lost is made anew
        self._place, self._header, self._entries = (maps, segment), data[: line_index_file.HEADER_SIZE], None

    @property
    def image_size(self) -> int:
        """Bytes of `image`."""
        return line_index_file.size_of(self.count)

    def image(self, identity: bytes) -> bytes:
        """Return the map as a file holds it; `identity`: what it depends on beside the log."""
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
    def load(cls, segment: Segment, maps: Maps, form: ViewFormat = VALUES) -> LineIndex | None:
        """Return the map kept beside a sealed segment; None when there is none, or it does not describe this log."""
        try:
            with files.opened(segment.path(form.suffix)) as file:
                header, length = bytes(file.read(0, line_index_file.HEADER_SIZE)), file.size()
                checksum = line_index_file.checksum_of(file, length, form.identity)
        except OSError:
            return None
        loaded = cls._described(line_index_file.parsed(header, length, checksum), segment, form)
        if loaded is None or loaded.log_bytes != segment.size:
            return None
        loaded._entries, loaded._place, loaded._header = None, (maps, segment), header
        return loaded

    @classmethod
    def from_image(cls, segment: Segment, image: bytes, form: ViewFormat, identity: bytes) -> LineIndex | None:
        """Return the map that `image` made, in memory; it may end before the segment does, and grows on.

        None when it does not describe this log.
        """
        summary = line_index_file.parsed(image, len(image), line_index_file.checksum_in(image, identity))
        loaded = cls._described(summary, segment, form)
        if loaded is not None:
            loaded._entries, loaded.kept_bytes = bytearray(image[line_index_file.HEADER_SIZE :]), loaded.log_bytes
        return loaded

    @classmethod
    def _described(cls, summary: LineIndexSummary | None, segment: Segment, form: ViewFormat) -> LineIndex | None:
        """Return a map without its entries; None where the summary is not of this segment, or there is none."""
        if summary is None or summary.base_offset != segment.base_offset or summary.log_bytes > segment.size:
            return None
        loaded = cls(summary.base_offset, form=form)
        loaded.count, loaded.reached = summary.entries, (summary.size, summary.log_bytes)
        loaded._batches, loaded._first_crc = summary.batches, summary.first_crc
        loaded._last = summary.last_position, summary.last_crc
        return loaded if loaded._describes(segment) else None

    def _describes(self, segment: Segment) -> bool:
        """Whether the first and the last batch are those that the map was made from."""
        if self._batches == 0:
            return segment.size == 0
        position, last_crc = self._last
        with segment.open_log() as log:
            last = log.read(position, HEADER_SIZE)
            if _header_checksum(log.read(0, HEADER_SIZE)) != self._first_crc or _header_checksum(last) != last_crc:
                return False
        return self.log_bytes == segment.size or position + parse_header(last).size == self.log_bytes


def _header_checksum(data: Buffer) -> int:
    """Return the checksum of what a batch begins with; a message of v0 or v1 may be shorter than a v2 header."""
    try:
        return int(crc32c(data[: min(parse_header(data).size, HEADER_SIZE)]))
    except MalformedBatch:
        return -1


def _passed_over(_error: StorageError) -> None:
    """Damage that was reported when the map was made."""
