"""Line indexes of the segments that this mount writes, made in advance so that readers need not wait for them.

When a segment was rolled or replaced by compaction, a thread makes its line indexes of `values` and `records.ndjson`
and stores them beside it. The page cache still has the segment then: both take about a second for each gigabyte.
Appends have priority: line indexes are made in the pauses between them. Lines that an open growing view has measured
already are only written. Segments of other writers, and small segments, get their line indexes on demand
(`map_making`).

If a line index cannot be made, a later read takes longer; no failure is reported.
"""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import trio

from offsetfs.fs.partitions import Partition
from offsetfs.fs.shared import Shared
from offsetfs.fs.views.growing_file import GrowingFile
from offsetfs.storage.errors import StorageError
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_map import Segments
from offsetfs.storage.views.range_view import RangeView

SEGMENT_BYTES_MIN = 1 << 20
"""Below that a segment is measured as soon as its map is read."""

PAUSE_SECONDS = 0.5
"""How long appends must pause before line indexes are made."""

_STEP_BYTES = 32 << 20
_WAITING_MAX = 1000
"""How many segments wait for their turn at most; those beyond get their maps when they are asked for."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An open partition and its growing views."""

    partition: Partition
    growing: tuple[GrowingFile, ...]


class MapKeeper:
    """Keeps the maps of one mount, one segment at a time. On the event loop."""

    def __init__(self, shared: Shared, find: Callable[[TopicPartition], Kept | None]) -> None:
        """`find` returns what is known of a partition; None when no request has opened it yet."""
        self._shared = shared
        self._find = find
        self._seen: dict[TopicPartition, Segments] = {}
        self._waiting: deque[tuple[Kept, Segment]] = deque()
        self._is_running = False
        self._last_growth = 0.0
        self._is_idle_for_good = shared.is_read_only or shared.options.is_committed_only

    def look(self, name: TopicPartition) -> None:
        """Queue the segments of a partition that were sealed or replaced since the last call."""
        self._last_growth = trio.current_time()
        kept = None if self._is_idle_for_good else self._find(name)
        if kept is None:
            self._seen.pop(name, None)
            return
        snapshot, seen = kept.partition.log.snapshot(), self._seen.get(name)
        if snapshot is seen:
            return
        self._seen[name] = snapshot
        if seen is None:
            return
        known = {id(segment) for segment in seen if segment is not seen.active}
        new = (segment for segment in snapshot if id(segment) not in known and segment is not snapshot.active)
        self._waiting.extend((kept, segment) for segment in new if segment.size >= SEGMENT_BYTES_MIN)
        while len(self._waiting) > _WAITING_MAX:
            self._waiting.popleft()
        if self._waiting and not self._is_running:
            self._is_running = True
            self._shared.nursery.start_soon(self._work)

    async def _work(self) -> None:
        try:
            while self._waiting:
                kept, segment = self._waiting.popleft()
                for growing in kept.growing:
                    with contextlib.suppress(StorageError, OSError, MemoryError):
                        await self._keep(kept.partition, segment, growing)
        finally:
            self._is_running = False

    async def _keep(self, partition: Partition, segment: Segment, growing: GrowingFile) -> None:
        end = partition.log.snapshot().next_base_offset(segment)
        if segment.is_removed or end is None:
            return
        view = RangeView(
            partition.view,
            segment.base_offset,
            end,
            self._shared.maps,
            self._shared.damaged,
            form=growing.form,
            known=growing.known_map,
        )
        await self._pause()
        while not await self._shared.in_thread(functools.partial(view.refresh, bytes_max=_STEP_BYTES)):
            await self._pause()

    async def _pause(self) -> None:
        """Return when appends have paused for `PAUSE_SECONDS`."""
        while (passed := trio.current_time() - self._last_growth) < PAUSE_SECONDS:
            await trio.sleep(PAUSE_SECONDS - passed)
