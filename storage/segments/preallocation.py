"""Room on the disk behind the end of a log file that is appended to, set aside before it is needed.

A file system finds room for a write block by block, which takes a third of what writing to the page cache takes; for
many megabytes at once it costs next to nothing. The file gets no longer: readers, recovery and other programs see no
more than was appended.

Promises: never more is set aside than was appended since it was last given back, and never more than `STEP_BYTES_MAX`.
The log gives it back with each sync, roll and close, and when the disk is full; after a crash the next opening for
appends does. Who cannot have room goes on without: nothing here fails. Leaves to others: who may append now (log).
"""

from __future__ import annotations

import contextlib

from offsetfs.storage.files import File

STEP_BYTES_MIN = 1 << 20
"""Who appends less from sync to sync has none."""

STEP_BYTES_MAX = 64 << 20


class Preallocation:
    """What is set aside behind the end of one file."""

    __slots__ = ("_appended", "_end", "_is_refused")

    def __init__(self) -> None:
        self._end = 0  # where it ends
        self._appended = 0  # bytes since it was given back
        self._is_refused = False

    @property
    def is_set_aside(self) -> bool:
        """Whether there may be any."""
        return self._end > 0

    def provide(self, file: File, position: int, size: int) -> None:
        """See to it, if that pays, that there is room for `size` bytes at `position`, the end of the file, and more."""
        step = min(self._appended, STEP_BYTES_MAX)
        self._appended += size
        end = position + size
        if end <= self._end or step < STEP_BYTES_MIN or self._is_refused:
            return
        start = max(self._end, position)
        try:
            file.set_aside(start, end + step - start)
        except OSError:  # a full disk, or a file system that has no such thing
            self._is_refused = True
        else:
            self._end = end + step

    def give_back(self, file: File, size: int) -> None:
        """Let the disk have what is behind the end, at `size`."""
        if self._end > size:
            with contextlib.suppress(OSError):  # the next opening gives it back
                file.truncate(size)
        self._end = self._appended = 0


def give_back_left(file: File) -> None:
    """Let the disk have what a life that ended in a crash had set aside."""
    if file.has_room_behind(STEP_BYTES_MIN):
        with contextlib.suppress(OSError):
            file.truncate(file.size())
