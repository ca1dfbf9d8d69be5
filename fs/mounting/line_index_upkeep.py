"""Line indexes of the segments that this mount writes, built in advance so that readers need not wait for them.

When a segment was rolled or replaced by compaction, a thread builds its line indexes of `values` and `records.ndjson`
and stores them beside it. The page cache still has the segment then: both take about a second for each gigabyte.
Appends have priority: line indexes are built in the pauses between them. Lines that an open growing file has measured
already are only written. Segments of other writers, and small segments, get their line indexes on demand
(`files/line_index_building`).

If a line index cannot be built, a later read takes longer; no failure is reported.
"""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import trio

from offsetfs.fs.files.growing_file import GrowingFile
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.partitions import MountedPartition
from offsetfs.storage import TopicPartition
from offsetfs.storage.errors import StorageError
from offsetfs.storage.segments import Segment, Segments
from offsetfs.storage.views import RangeView

SEGMENT_BYTES_MIN = 1 << 20
"""A smaller segment is measured in milliseconds by the first look-up, without a file."""

PAUSE_SECONDS = 0.5
"""The pause of appends before line indexes are built."""

_STEP_BYTES = 32 << 20
_WAITING_MAX = 1000
"""The maximum number of waiting segments. Beyond that the oldest is dropped: a look-up builds its line indexes."""


@dataclass(frozen=True, slots=True)
class GrowingFiles:
    """An open partition with its `values` and `records.ndjson`."""

    partition: MountedPartition
    files: tuple[GrowingFile, ...]


class LineIndexUpkeep:
    """Builds the line indexes of one mount, one segment at a time. On the event loop.

    Does nothing in a read-only mount, nor with read_committed, whose line indexes are never stored.
    """

    def __init__(self, mount: MountContext, find: Callable[[TopicPartition], GrowingFiles | None]) -> None:
        """`find` returns the growing files of a partition; None if no request has opened it yet."""
        self._mount = mount
        self._find = find
        self._seen: dict[TopicPartition, Segments] = {}
        self._waiting: deque[tuple[GrowingFiles, Segment]] = deque()
        self._is_running = False
        self._last_growth = 0.0
        self._is_disabled = mount.directory.read_only or mount.options.is_committed_only

    def check(self, name: TopicPartition) -> None:
        """Queue the segments of a partition that were sealed or replaced since the last call. Called at each append."""
        self._last_growth = trio.current_time()
        growing = None if self._is_disabled else self._find(name)
        if growing is None:
            self._seen.pop(name, None)
            return
        snapshot, seen = growing.partition.log.snapshot(), self._seen.get(name)
        if snapshot is seen:
            return
        self._seen[name] = snapshot
        if seen is None:
            return
        known = {id(segment) for segment in seen if segment is not seen.active}
        new = (segment for segment in snapshot if id(segment) not in known and segment is not snapshot.active)
        self._waiting.extend((growing, segment) for segment in new if segment.size >= SEGMENT_BYTES_MIN)
        while len(self._waiting) > _WAITING_MAX:
            self._waiting.popleft()
        if self._waiting and not self._is_running:
            self._is_running = True
            self._mount.nursery.start_soon(self._build_waiting)

    async def _build_waiting(self) -> None:
        try:
            while self._waiting:
                growing, segment = self._waiting.popleft()
                for file in growing.files:
                    with contextlib.suppress(StorageError, OSError, MemoryError):
                        await self._build(growing.partition, segment, file)
        finally:
            self._is_running = False

    async def _build(self, partition: MountedPartition, segment: Segment, file: GrowingFile) -> None:
        end = partition.log.snapshot().next_base_offset(segment)
        if segment.is_removed or end is None:
            return
        view = RangeView(
            partition.view,
            segment.base_offset,
            end,
            self._mount.caches.line_indexes,
            self._mount.damage.report,
            view_format=file.view_format,
            known=file.known_index,
        )
        await self._pause()
        while not await self._mount.executor.in_thread(functools.partial(view.refresh, bytes_max=_STEP_BYTES)):
            await self._pause()

    async def _pause(self) -> None:
        """Return when appends have paused for `PAUSE_SECONDS`."""
        while (passed := trio.current_time() - self._last_growth) < PAUSE_SECONDS:
            await trio.sleep(PAUSE_SECONDS - passed)
