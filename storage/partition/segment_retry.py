"""Retries of a reader when the file of a segment is gone: it lists the directory again, and reads on or gives up.

A segment answers ESTALE when its file was removed or replaced before it was opened. The reader holds a map of segments
from before that; the map of now has the replacement, or begins behind what was removed. While a swap renames file by
file neither is there, so the reader waits for it.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from offsetfs.storage.segments.segment_map import Segments

if TYPE_CHECKING:
    from offsetfs.storage.partition.log import Log

_Answer = TypeVar("_Answer")

REPLACEMENT_WAIT_S = 1.0
"""The seconds a reader waits for the replacement of a removed segment: longer than a broker's renames take."""

_PAUSE_S = 0.005


class SegmentRetry:
    """The attempts of one reader of a log. Waits for the disk and for other processes: not for an event loop."""

    __slots__ = ("_deadline", "_log", "_offset")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._offset = -1  # at which a segment was not found last
        self._deadline = 0.0

    def again(self, error: OSError, segments: Segments, offset: int) -> bool:
        """Bring the log up to date; return whether to read on from `offset`, False where the partition is gone.

        `segments`: the map in which the segment was. The log start may lie above `offset` after return. Raises `error`
        where it is not ESTALE, and where nothing was found at the same offset for `REPLACEMENT_WAIT_S`.
        """
        if error.errno != errno.ESTALE:
            raise error
        now, log = time.monotonic(), self._log
        if offset != self._offset:
            self._offset, self._deadline = offset, now + REPLACEMENT_WAIT_S
        log.refresh(is_forced=True)
        if log.is_gone:
            return False
        if now >= self._deadline:
            raise error
        if log.snapshot() is segments:  # between the renames of a swap
            time.sleep(_PAUSE_S)
        return True


def with_retry(log: Log, offset: int, look_up: Callable[[Segments], _Answer], *, nowait: bool = False) -> _Answer:
    """Return what `look_up` returns for the segments of the log; ask again with those of now while a file is gone.

    `offset`: what is looked up. With `nowait` it asks once. Raises OSError ESTALE as `SegmentRetry`, and where the
    partition is gone.
    """
    retry: SegmentRetry | None = None
    while True:
        segments = log.snapshot()
        try:
            return look_up(segments)
        except OSError as error:
            retry = retry or SegmentRetry(log)
            if nowait or not retry.again(error, segments, offset):
                raise
