"""`range/A..B` and `last/N`: a range of a partition, cut out when its name is looked up, and as it was then.

    range/100..200            the values of the records with offsets from 100 to 199
    range/100..               … to the end, as it is now
    range/..2026-11-21T13     … up to the first record at or after a time; any time that `by-time` knows
    last/1000                 the newest thousand records
    range/-15m...ndjson       with .ndjson: lines as in records.ndjson

Two directories that list nothing: what would be in them is a question. (`..` alone never gets here: to the kernel it is
the directory above. All values are in `range/0..`, as in `values`.) A name means offsets, from the first record at
or after a time, of what is there; each look-up asks anew, and gets the inode of the range that it finds. That never
changes: size, bytes and mtime stay, whatever is appended, removed or compacted. Where retention took a part of it, and
`file.delete.delay.ms` is over, reading that part is ESTALE.

No whole map is needed (storage.views.range_view). What takes longer than ten seconds is EAGAIN, as for `values`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pyfuse3 import EntryAttributes, FUSEError

from offsetfs.fs.attributes import FOREVER_S, PREFERRED_READ_BYTES
from offsetfs.fs.inodes import Fixed, Kind
from offsetfs.fs.lookup_numbers import LookupNumbers
from offsetfs.fs.lru import Lru
from offsetfs.fs.nodes import Listing, Opened, Opening, ShortListing
from offsetfs.fs.partitions import Partition
from offsetfs.fs.shared import Shared
from offsetfs.fs.tree import JSON_SUFFIX, Point, parse_last, parse_range, unreadable_range
from offsetfs.fs.views.ends import newest_start
from offsetfs.fs.views.growing_file import GrowingFile, ViewHandle
from offsetfs.fs.views.map_making import MapMaking
from offsetfs.storage.views.range_view import RangeView

RECENT_MAX = 16
"""How many ranges are remembered although the kernel knows nothing of them: one that was EAGAIN is asked for again."""


@dataclass(frozen=True, slots=True)
class FrozenRange:
    """A range of offsets, fixed when its name was looked up. `source`: see `Partition.source`."""

    start: int
    end: int
    is_json: bool
    source: tuple[int, int]
    view: RangeView = field(compare=False)
    making: MapMaking = field(compare=False)
    mtime_ns: int = field(compare=False)


class RangeFiles:
    """The ranges of one partition that were asked for. `number`: from `lookup_numbers`."""

    def __init__(
        self,
        shared: Shared,
        partition: Partition,
        growing: tuple[GrowingFile, GrowingFile],
        now: Callable[[], float] = time.time,
    ) -> None:
        """`growing`: `values` and `records.ndjson`, whose maps are used as far as they go."""
        self._shared = shared
        self._partition = partition
        self._growing = growing
        self._now = now
        self._recent: Lru[FrozenRange] = Lru(RECENT_MAX)
        self.looked_up: LookupNumbers[FrozenRange] = LookupNumbers()

    # --- what names mean -------------------------------------------------------------------------------------------

    async def find_range(self, name: bytes) -> EntryAttributes | None:
        """Return the entry of `range/<name>`, None when that is no range."""
        parsed = parse_range(name, int(self._now() * 1000))
        if parsed is None:
            if b".." in name[1:] or name.endswith(JSON_SUFFIX):
                raise unreadable_range(name)
            return None
        first, end = await self._bounds()
        start = first if parsed.start is None else await self._offset(parsed.start, end)
        stop = end if parsed.end is None else await self._offset(parsed.end, end)
        start = min(max(start, first), end)
        path = f"{self._partition.name}/range/{name.decode()}"
        return await self._look_up(path, start, min(max(stop, start), end), parsed.is_json)

    async def find_last(self, name: bytes) -> EntryAttributes | None:
        """Return the entry of `last/<name>`, None when that is no number."""
        parsed = parse_last(name)
        if parsed is None:
            return None
        count, is_json = parsed
        _, end = await self._bounds()
        find = functools.partial(newest_start, self._partition.view, count, end=end)
        start = await self._shared.in_thread(find)
        return await self._look_up(f"{self._partition.name}/last/{name.decode()}", min(start, end), end, is_json)

    async def _bounds(self) -> tuple[int, int]:
        """Return where the records that are shown begin and end."""
        end = await self._shared.answer(self._partition.view.end_offset)
        return min(self._partition.log.log_start_offset, end), end

    async def _offset(self, point: Point, end: int) -> int:
        if not point.is_time:
            return point.number
        found = await self._shared.answer(self._partition.view.find_timestamp, point.number)
        return end if found is None else found[0]

    # --- the files -------------------------------------------------------------------------------------------------

    async def _look_up(self, path: str, start: int, end: int, is_json: bool) -> EntryAttributes:
        key = (start, end, is_json, self._partition.source)
        found = self._recent.get(key)
        if found is None:
            found = self._cut_out(path, *key)
            self._recent.put(key, found, 1)
        try:
            await found.making.complete(found.view)
        except FUSEError:
            raise  # EAGAIN: the build continues, so the range is kept
        except Exception:
            self._recent.drop(key)
            raise
        number = self.looked_up.look_up(found)
        return await self.attributes(number)

    def _cut_out(self, path: str, start: int, end: int, is_json: bool, source: tuple[int, int]) -> FrozenRange:
        growing = self._growing[is_json]
        view = RangeView(
            self._partition.view,
            start,
            end,
            self._shared.maps,
            self._shared.damaged,
            form=growing.form,
            known=growing.known_map,
            cache=self._partition.map_cache,
        )
        making = MapMaking(self._shared, path, lambda: view.total_bytes, ", or for less")
        return FrozenRange(start, end, is_json, source, view, making, self._partition.log.modified_ns)

    async def attributes(self, number: int) -> EntryAttributes:
        found = self.looked_up.at(number)
        entry = self._shared.attributes.file(
            self._partition.inode(Kind.RANGE, number), found.view.size, found.mtime_ns, attr_timeout_s=FOREVER_S
        )
        entry.st_blksize = PREFERRED_READ_BYTES
        return entry

    async def open(self, number: int, opening: Opening) -> Opened:
        view = self.looked_up.at(number).view
        return Opened(ViewHandle(self._shared, view, self._partition.inode(Kind.RANGE, number), _closed))


def _closed(_inode: int) -> None:
    """The kernel says by itself when it forgets a range."""


class RangeDirectory:
    """`range` or `last`, `which` of them says: everything in it by name, nothing listed."""

    def __init__(
        self,
        shared: Shared,
        partition: Partition,
        which: Fixed,
        find: Callable[[bytes], Awaitable[EntryAttributes | None]],
    ) -> None:
        self._shared = shared
        self._partition = partition
        self._which = which
        self._find = find

    def entry(self) -> EntryAttributes:
        return self._shared.attributes.directory(self._partition.inode(Kind.FIXED, self._which))

    async def attributes(self, number: int) -> EntryAttributes:
        return self.entry()

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        return await self._find(name)

    async def listing(self, number: int) -> Listing:
        return ShortListing([])
