"""`range/A..B` and `last/N`: a range of a partition, fixed when its name is looked up.

    range/100..200            the values of the records with offsets from 100 to 199
    range/100..               … to the current end
    range/..2026-11-21T13     … up to the first record at or after a time; any time that `by-time` accepts
    last/1000                 the newest thousand records
    range/-15m...ndjson       with .ndjson: lines as in records.ndjson

Both directories list nothing, because any pair of numbers is a name. (`range/..` never arrives here: to the kernel it
is the parent directory. `range/0..` has all values.) Each look-up translates the name to offsets and returns the
inode of that range. The range never changes: size, bytes and mtime stay, whatever is appended, removed or compacted. If
retention removed a part of it, reading that part is ESTALE after `file.delete.delay.ms`.

A range needs the line indexes of its own segments only (storage.views.range_view). If building them takes longer than
ten seconds, the look-up fails with EAGAIN, as for `values`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from offsetfs.common.lru import Lru
from offsetfs.fs.attributes import FOREVER_S, PREFERRED_READ_BYTES
from offsetfs.fs.files.growing_file import GrowingFile
from offsetfs.fs.files.line_index_building import LineIndexBuilding
from offsetfs.fs.files.view_handle import ViewHandle
from offsetfs.fs.fuse_types import EntryAttributes, FUSEError
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.grammar import NDJSON_SUFFIX, Point, RangeName, parse_last, parse_range, unreadable_range
from offsetfs.fs.naming.inodes import LookupNumbers
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Listing, Opened, Opening, ShortListing
from offsetfs.fs.partitions import MountedPartition
from offsetfs.fs.reporting.error_log import Fault
from offsetfs.storage.views import RangeView, ViewFormat, newest_start

RECENT_MAX = 16
"""The number of ranges that are kept and unknown to the kernel: a look-up that failed with EAGAIN is repeated."""


@dataclass(frozen=True, slots=True)
class FrozenRange:
    """A range of offsets, fixed when its name was looked up. `source`: see `MountedPartition.source`."""

    start: int
    end: int
    view_format: ViewFormat
    source: tuple[int, int]
    view: RangeView = field(compare=False)
    building: LineIndexBuilding = field(compare=False)
    mtime_ns: int = field(compare=False)


class RangeFiles:
    """The ranges of one partition that were looked up. `number`: from `LookupNumbers`."""

    def __init__(
        self,
        mount: MountContext,
        partition: MountedPartition,
        growing: tuple[GrowingFile, GrowingFile],
        now: Callable[[], float] = time.time,
        *,
        kind: Kind = Kind.RANGE,
    ) -> None:
        """`growing`: `values` and `records.ndjson`, whose line indexes are used as far as they are built."""
        self._kind = kind
        self._mount = mount
        self._partition = partition
        self._growing = growing
        self._now = now
        self._recent: Lru[FrozenRange] = Lru(RECENT_MAX)
        self.lookups: LookupNumbers[FrozenRange] = LookupNumbers()

    @property
    def partition(self) -> MountedPartition:
        return self._partition

    # --- names -----------------------------------------------------------------------------------------------------

    async def find_range(self, name: bytes) -> EntryAttributes | None:
        """Return the entry of `range/<name>`. None if the name is no range."""
        parsed = parse_range(name, int(self._now() * 1000))
        if parsed is None:
            if b".." in name[1:] or name.endswith(NDJSON_SUFFIX):
                raise unreadable_range(name)
            return None
        path = f"{self._partition.name}/range/{name.decode()}"
        return await self._look_up(path, *await self.clipped(parsed, path), parsed.is_json)

    async def clipped(self, parsed: RangeName, path: str | None = None) -> tuple[int, int]:
        """Return the offsets `[start, end)` of the records in a range; report for `path` if no offset of it exists."""
        first, end = await self.bounds()
        start = first if parsed.start is None else await self._offset(parsed.start, end)
        stop = end if parsed.end is None else await self._offset(parsed.end, end)
        if path is not None and (start > end or start == end < stop or start < stop <= first):
            self._report_outside(path, first, end)
        start = min(max(start, first), end)
        return start, min(max(stop, start), end)

    def _report_outside(self, path: str, first: int, end: int) -> None:
        """Report that none of the offsets of a range exists: its file is empty, which alone would not show that."""
        name = self._partition.name
        cause = f"{name} has offsets {first} to {end - 1}" if first < end else f"{name} has no records"
        cure = f"the next record gets offset {end}; last/10 has the newest ten"
        self._mount.error_log.report(Fault(None, "lookup", path, cause, cure))

    async def find_last(self, name: bytes) -> EntryAttributes | None:
        """Return the entry of `last/<name>`. None if the name is not a number."""
        parsed = parse_last(name)
        if parsed is None:
            return None
        count, is_json = parsed
        _, end = await self.bounds()
        find = functools.partial(newest_start, self._partition.view, count, end=end)
        start = await self._mount.executor.in_thread(find)
        return await self._look_up(f"{self._partition.name}/last/{name.decode()}", min(start, end), end, is_json)

    async def bounds(self) -> tuple[int, int]:
        """Return the first offset of the range and the offset after its last."""
        end = await self._mount.executor.answer(self._partition.view.end_offset)
        return min(self._partition.log.log_start_offset, end), end

    async def _offset(self, point: Point, end: int) -> int:
        if not point.is_time:
            return point.number
        first = await self._mount.executor.answer(self._partition.view.find_timestamp, point.number)
        return end if first is None else first[0]

    # --- the files -------------------------------------------------------------------------------------------------

    async def _look_up(self, path: str, start: int, end: int, is_json: bool) -> EntryAttributes:
        number = self.lookups.look_up(await self.frozen(path, start, end, is_json))
        return await self.attributes(number)

    async def frozen(self, path: str, start: int, end: int, is_json: bool) -> FrozenRange:
        """Return a range, measured. EAGAIN if that takes longer than ten seconds; `path` is for the report of it."""
        growing = self._growing[is_json]
        key = (start, end, await growing.renew(), self._partition.source)
        frozen = self._recent.get(key)
        if frozen is None:
            frozen = self._cut_out(path, growing, *key)
            self._recent.put(key, frozen, 1)
        try:
            await frozen.building.complete(frozen.view)
        except FUSEError:
            raise  # EAGAIN: the build continues, so the range is kept
        except Exception:
            self._recent.drop(key)
            raise
        return frozen

    def _cut_out(
        self,
        path: str,
        growing: GrowingFile,
        start: int,
        end: int,
        view_format: ViewFormat,
        source: tuple[int, int],
    ) -> FrozenRange:
        view = RangeView(
            self._partition.view,
            start,
            end,
            self._mount.caches.line_indexes,
            self._mount.damage.report,
            view_format=view_format,
            known=growing.known_index,
            cache=self._partition.line_index_cache,
        )
        building = LineIndexBuilding(self._mount, path, lambda: view.total_bytes, ", or for less")
        return FrozenRange(start, end, view_format, source, view, building, self._partition.log.modified_ns)

    async def attributes(self, number: int) -> EntryAttributes:
        frozen = self.lookups.at(number)
        entry = self._mount.attributes.file(
            self._partition.inode(self._kind, number), frozen.view.size, frozen.mtime_ns, attr_timeout_s=FOREVER_S
        )
        entry.st_blksize = PREFERRED_READ_BYTES
        return entry

    async def open(self, number: int, opening: Opening) -> Opened:
        view = self.lookups.at(number).view
        return Opened(ViewHandle(self._mount, view, self._partition.inode(self._kind, number), _closed))


def _closed(_inode: int) -> None:
    """Do nothing: a range is dropped when the kernel forgets its inode."""


class RangeDirectory:
    """`range` or `last`, as `which` says. Files are found by name only; listings are empty."""

    def __init__(
        self,
        mount: MountContext,
        partition: MountedPartition,
        which: Kind,
        find: Callable[[bytes], Awaitable[EntryAttributes | None]],
    ) -> None:
        self._mount = mount
        self._partition = partition
        self._which = which
        self._find = find

    def entry(self) -> EntryAttributes:
        return self._mount.attributes.directory(self._partition.inode(self._which))

    async def attributes(self, number: int) -> EntryAttributes:
        return self.entry()

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        return await self._find(name)

    async def listing(self, number: int) -> Listing:
        return ShortListing([])
