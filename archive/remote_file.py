"""Open files of an archive: the log of a segment, read by blocks, and short files whose bytes are in memory."""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from collections.abc import Callable
from typing import NoReturn

from offsetfs.archive.block_fetcher import REQUEST_BYTES_MAX, BlockFetcher, DamagedBlock
from offsetfs.archive.log_bytes import LogBytes
from offsetfs.storage.errors import WouldBlock
from offsetfs.storage.files import Buffer, File

AHEAD_BLOCKS_MAX = 16
"""Blocks that are fetched ahead of a sequential reader, at most."""

_STREAMS_MAX = 8  # readers of one open file whose positions are remembered


class ReadOnlyFile(File):
    """An open file that is on no disk. What changes a file raises OSError EROFS."""

    __slots__ = ()

    def __init__(self, path: str) -> None:
        super().__init__(path, -1)

    def write(self, position: int, data: Buffer) -> None:
        self._refuse()

    def truncate(self, size: int) -> None:
        self._refuse()

    def preallocate(self, position: int, size: int) -> None:
        self._refuse()

    def sync(self) -> None:
        self._refuse()

    def has_blocks_beyond_end(self, size: int) -> bool:
        return False

    def _refuse(self) -> NoReturn:
        raise OSError(errno.EROFS, "an archive is read-only", self.path)


class BytesFile(ReadOnlyFile):
    """A short file. Its bytes may be replaced by longer ones while it is open."""

    __slots__ = ("_content", "_status")

    def __init__(self, path: str, status: Callable[[], os.stat_result], content: Callable[[], bytes]) -> None:
        """`content` returns the bytes, and may fetch them; `status` does not wait."""
        super().__init__(path)
        self._status = status
        self._content = content

    def size(self) -> int:
        return self._status().st_size

    def stat(self) -> os.stat_result:
        return self._status()

    def read_into(self, buffer: memoryview, position: int, *, nowait: bool = False) -> int:
        data = self._content()[position : position + len(buffer)]
        buffer[: len(data)] = data
        return len(data)

    def send(self, socket: int, position: int, size: int) -> int:
        return os.write(socket, self._content()[position : position + size])

    def is_cached(self, position: int, size: int) -> bool:
        return True

    def load(self, position: int, size: int, ahead: int = 0) -> None:
        self._content()

    def begin_load(self, position: int, size: int) -> None:
        return


class RemoteLogFile(ReadOnlyFile):
    """The log of an archived segment. Its size grows with that of the archived segment."""

    __slots__ = ("_end", "_explained", "_fetcher", "_log", "_looked_up", "_status", "_streams")

    is_remote = True

    def __init__(
        self,
        path: str,
        status: Callable[[], os.stat_result],
        log: Callable[[bool], LogBytes],
        fetcher: BlockFetcher,
        explained: Callable[[DamagedBlock], OSError],
        looked_up: Callable[[int], tuple[int, int]],
        end: int | None = None,
    ) -> None:
        """`log` returns where the bytes are now, and fetches the checksums, or raises `WouldBlock` if that is True.

        `status` does not wait. `explained` returns the error for readers of the log. `looked_up` returns the bytes
        that a look-up needs which begins at a position; they contain that position or are empty. `end`: where the
        only reader of this object probably ends; it reads in order, and nothing behind `end` is fetched ahead.
        """
        super().__init__(path)
        self._status = status
        self._log = log
        self._fetcher = fetcher
        self._explained = explained
        self._looked_up = looked_up
        self._end = end
        self._streams: OrderedDict[int, int] = OrderedDict()  # last block of a reader: blocks ahead of it

    def size(self) -> int:
        return self._status().st_size

    def stat(self) -> os.stat_result:
        return self._status()

    def reading_to(self, end: int) -> RemoteLogFile:
        return RemoteLogFile(
            self.path, self._status, self._log, self._fetcher, self._explained, self._looked_up, max(end, 0)
        )

    def read_into(self, buffer: memoryview, position: int, *, nowait: bool = False) -> int:
        log = self._log(nowait)
        stop = min(position + len(buffer), log.size)
        if stop <= position:
            return 0
        first, last = position // log.block_bytes, (stop - 1) // log.block_bytes
        if not nowait:
            self._read_ahead(log, first, last)  # requested before the block that is waited for: in flight meanwhile
        missing = []
        is_in_place = False
        for block in range(first, last + 1):
            data = self._fetcher.in_memory(log, block)
            if data is not None:
                _copy(log, block, data, buffer, position, stop)
            elif self._is_read_in_place(log, block, buffer, position, stop, nowait=nowait):
                is_in_place = True
            else:
                missing.append(block)
        if missing and nowait:
            raise WouldBlock("not in memory", path=self.path, position=position)
        if missing:
            blocks = self._blocks(log, *self._needed(log, position, missing[0], missing[-1], last))
            for block in missing:
                _copy(log, block, blocks[block], buffer, position, stop)
        if nowait:
            self._read_ahead(log, first, last, nowait=True)
        elif is_in_place and last not in self._streams:
            self._remember(last, 0)  # a reader of blocks of the cache: those ahead of it are to be verified
        return stop - position

    def _is_read_in_place(
        self, log: LogBytes, block: int, buffer: memoryview, position: int, stop: int, *, nowait: bool
    ) -> bool:
        start, end = log.range_of(block)
        low, high = max(position, start), min(stop, end)
        wanted = buffer[low - position : high - position]
        cached = self._fetcher.cached
        return cached is not None and cached.read_in_place(log, block, low - start, wanted, nowait=nowait)

    def _blocks(self, log: LogBytes, first: int, last: int) -> dict[int, bytes]:
        try:
            return self._fetcher.blocks(log, first, last)
        except DamagedBlock as error:
            raise self._explained(error) from error

    def _needed(self, log: LogBytes, position: int, first: int, missing: int, last: int) -> tuple[int, int]:
        """Return the first and the last block to fetch for a read: of a reader at a new place, all that it reads next.

        The read misses the blocks `first` to `missing`, and reaches to `last`. One request for all of it, instead of
        one for each block. A reader that continues behind it is sequential.
        """
        if last in self._streams:
            return first, missing
        start, stop = self._looked_up(position)
        if start < stop <= start + REQUEST_BYTES_MAX:
            first, last = min(first, start // log.block_bytes), max(last, (min(stop, log.size) - 1) // log.block_bytes)
        self._remember(last, 0)
        return first, last

    def _read_ahead(self, log: LogBytes, first: int, last: int, *, nowait: bool = False) -> None:
        """Fetch blocks ahead of a reader that continues where it was; none for a read at another place.

        The only reader of a range is sequential from its first read on.
        """
        previous = next((block for block in (first, first - 1) if block in self._streams), None)
        if nowait and not self._streams.get(-1 if previous is None else previous):
            return  # only a read that may wait begins a stream: look-ups try without waiting first
        if previous is None:
            if self._end is None or self._streams:
                return
            previous = first - 1
        ahead = self._streams.pop(previous, 0)
        if last > previous and first == previous and not ahead and self._end is None:
            ahead = 1  # a look-up may read on from the block where it began; a sequential reader does so once more
        elif last > previous:
            ahead = min(AHEAD_BLOCKS_MAX, max(2, ahead * 2))
            stop = log.size if self._end is None else self._end
            last_ahead = min(last + ahead, (stop - 1) // log.block_bytes)
            if nowait:
                self._fetcher.begin_in_thread(log, last + 1, last_ahead)
            else:
                self._fetcher.begin(log, last + 1, last_ahead, in_place=True)
        self._remember(last, ahead)

    def _remember(self, last: int, ahead: int) -> None:
        self._streams[last] = ahead
        while len(self._streams) > _STREAMS_MAX:
            self._streams.popitem(last=False)

    def send(self, socket: int, position: int, size: int) -> int:
        """Send from one block. It waits for the archive unless the block was loaded."""
        log = self._log(False)
        if position >= log.size:
            return 0
        block = position // log.block_bytes
        data = self._blocks(log, block, block)[block]
        start = position - block * log.block_bytes
        return os.write(socket, memoryview(data)[start : start + size])

    def is_cached(self, position: int, size: int) -> bool:
        try:
            log = self._log(True)
        except WouldBlock:
            return False
        stop = min(position + size, log.size)
        blocks = range(position // log.block_bytes, -(-stop // log.block_bytes))
        return all(self._fetcher.in_memory(log, block) is not None for block in blocks)

    def load(self, position: int, size: int, ahead: int = 0) -> None:
        log = self._log(False)
        stop = min(position + size, log.size)
        if stop > position:
            last = (stop - 1) // log.block_bytes
            if ahead:
                self._fetcher.begin(log, last + 1, (stop + ahead - 1) // log.block_bytes)
            self._blocks(log, position // log.block_bytes, last)

    def begin_load(self, position: int, size: int) -> None:
        log = self._log(False)
        if size > 0:
            self._fetcher.begin(log, position // log.block_bytes, (position + size - 1) // log.block_bytes)


def _copy(log: LogBytes, block: int, data: bytes, buffer: memoryview, position: int, stop: int) -> None:
    """Copy what a buffer for the bytes [position, stop) of a log has of a block."""
    start = block * log.block_bytes
    low, high = max(position, start), min(stop, start + len(data))
    buffer[low - position : high - position] = memoryview(data)[low - start : high - start]
