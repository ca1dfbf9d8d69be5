"""Loads what a response needs into the page cache, and what its client will ask for next.

sendfile(2) waits for the disk, and with it every other client; so a range is loaded in a thread before it is sent. A
client that reads a file from its begin, or on from its last range, is sequential: up to `AHEAD_BYTES` behind its range
are loaded without waiting for them, at first beside that range, then each time half of them is sent. Of files that are
in the page cache nothing is noted, and nothing is loaded.
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass

import trio

from offsetfs.common.lru import Lru
from offsetfs.common.threads import in_thread
from offsetfs.storage import BatchRange

AHEAD_BYTES = 4 << 20
"""Bytes of a file that are loaded behind the last range of a sequential reader."""

FILES_MAX = 64
"""Files that one connection is known to read, at most: the partitions of a response take turns."""


@dataclass(slots=True)
class _Reader:
    """The progress of a client in one file."""

    position: int
    end: int
    """The end of the last range."""
    loaded_to: int
    """The position up to which the file was to be loaded."""
    is_sequential: bool


class ReadAhead:
    """The files that one connection reads and that had to be loaded."""

    def __init__(self) -> None:
        self._readers: Lru[_Reader] = Lru(FILES_MAX)

    @property
    def is_active(self) -> bool:
        """Whether something had to be loaded. If not, nothing needs to be noted."""
        return len(self._readers) > 0

    async def load(self, part: BatchRange, position: int, end: int) -> None:
        """Load a part of a range, and begin to load what is behind it; OSError."""
        if part.file.is_cached(position, end - position):
            return
        reader = self._reader(part)
        loaded_to = part.position + part.size + (AHEAD_BYTES if reader.is_sequential else 0)
        ahead = min(loaded_to - end, AHEAD_BYTES)
        reader.loaded_to = max(reader.loaded_to, end + ahead)
        with trio.CancelScope(shield=True):  # the file must stay open until the thread has ended
            await in_thread(functools.partial(part.file.load, position, end - position, ahead))

    async def sent(self, part: BatchRange) -> None:
        """Begin to load what is behind a range that was sent, if its client is sequential."""
        if part.file.path not in self._readers:
            return
        reader, end = self._reader(part), part.position + part.size
        if not reader.is_sequential or reader.loaded_to - end > AHEAD_BYTES // 2:
            return
        begin, reader.loaded_to = max(reader.loaded_to, end), end + AHEAD_BYTES
        if part.file.is_cached(reader.loaded_to - 1, 1):
            return
        with trio.CancelScope(shield=True), contextlib.suppress(OSError):  # nothing depends on it
            await in_thread(functools.partial(part.file.begin_load, begin, reader.loaded_to - begin))

    def _reader(self, part: BatchRange) -> _Reader:
        """Return the reader of a file, which has got to the range `part`."""
        path, end = part.file.path, part.position + part.size
        reader = self._readers.get(path)
        if reader is None:
            reader = _Reader(part.position, end, part.position, is_sequential=part.position == 0)
            self._readers.put(path, reader)
            return reader
        if part.position == reader.end:
            reader.is_sequential = True
        elif part.position != reader.position:
            reader.is_sequential, reader.loaded_to = False, part.position
        reader.position, reader.end = part.position, end
        return reader
