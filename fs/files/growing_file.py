"""`values` and `records.ndjson`: the whole partition as one growing file, a line for each record.

The size is a sum over all records, which line indexes know (storage.views.partition_view). Missing line indexes are
built in threads (`line_index_building`); the file is listed only when all of them exist.

The inode carries a generation. When retention removes the head, or compaction replaces segments, the name gets the next
generation. A reader of the old one keeps its positions and reads on as long as the files of the segments exist, which
is `file.delete.delay.ms`; the segment that it reads at that time, to its end. Then it reads ESTALE. While such a reader
remains, stat(2) of the name shows the inode number of the old generation: `tail -F` takes a new number for a new file
and would begin again (decision 0019).

The number that stat(2) shows is made of the topic id, the first offset, and how far the log was compacted. So it is the
same after the next mount if the file still begins with the same bytes, and differs if its beginning was removed
while nothing was mounted: programs that remember a file by its inode would continue at a byte of other records.

Growing files bypass the page cache, which would show zeros in place of new records (decision 0023).
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from offsetfs.fs.attributes import PREFERRED_READ_BYTES
from offsetfs.fs.files.line_index_building import AT_ONCE_BYTES, LineIndexBuilding
from offsetfs.fs.files.view_handle import ViewHandle, ViewPolls
from offsetfs.fs.fuse_types import EntryAttributes, FUSEError
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.inodes import unpack
from offsetfs.fs.naming.tree_table import KIND_SHIFT, Kind
from offsetfs.fs.nodes import Opened, Opening
from offsetfs.fs.options import BASE64, EIO, MountOptions
from offsetfs.fs.partitions import MountedPartition
from offsetfs.fs.reporting.error_log import Fault
from offsetfs.storage import TopicPartition
from offsetfs.storage.segments import Segment
from offsetfs.storage.views import Base64JsonFormat, JsonFormat, LineIndex, PartitionView, SkippedBatch, ViewFormat

LISTING_BYTES_MAX = {
    Kind.VALUES: AT_ONCE_BYTES,
    Kind.RECORDS: AT_ONCE_BYTES // 2,
    Kind.DECODED_VALUES: AT_ONCE_BYTES // 32,
    Kind.DECODED_RECORDS: AT_ONCE_BYTES // 32,
}
"""Bytes of log that a listing reads to complete line indexes: some milliseconds. Lines of JSON take twice as long to
measure as values. A segment with more bytes to read is not begun."""


_LASTING_MASK = (2 << KIND_SHIFT) - 1
"""One bit more than kinds leave: the numbers stay those of the versions in which kinds had five bits."""


@dataclass(frozen=True, slots=True)
class FrozenFile:
    """The first `size` bytes of one generation of a growing file, which never change."""

    inode: int
    size: int
    view: PartitionView = field(compare=False)
    mtime_ns: int = field(compare=False)
    damage_at_end: SkippedBatch | None = field(compare=False)
    """The batch that was left out directly behind the last byte, when there is one."""


def json_format(options: MountOptions, partition: TopicPartition) -> ViewFormat:
    """Return the format of the lines of JSON of a partition."""
    return Base64JsonFormat(partition) if options.json_bytes == BASE64 else JsonFormat(partition)


class GrowingFile:
    """`values` or `records.ndjson` of one partition. `number`: the generation."""

    def __init__(
        self,
        mount: MountContext,
        partition: MountedPartition,
        kind: Kind,
        view_format: ViewFormat,
        renewed: Callable[[], Awaitable[ViewFormat]] | None = None,
    ) -> None:
        """`renewed` returns the format for a new look-up; another one begins a new generation. None: it stays."""
        self._mount = mount
        self._partition = partition
        self._kind = kind
        self.view_format = view_format
        self._renewed = renewed
        self._is_head_reported = False
        self._generation = 0
        self._views: dict[int, PartitionView] = {}
        self._readers: dict[int, int] = {}
        self._stat_generations: dict[int, int] = {}  # the generation whose inode stat(2) returns, if it is another
        self._stat_inodes: dict[int, int] = {}
        self._building = LineIndexBuilding(
            mount,
            f"{partition.name}/{view_format.name}",
            lambda: partition.log.size_bytes,
            ", or use last/, range/ or follow, which need no whole index",
        )

    # --- names and sizes -------------------------------------------------------------------------------------------

    async def renew(self) -> ViewFormat:
        """Return the format, which look-ups have from now on."""
        if self._renewed is not None:
            self.view_format = await self._renewed()
        return self.view_format

    async def lookup(self) -> EntryAttributes:
        await self.renew()
        generation = self._current()
        await self._building.complete(self._views[generation])
        return self._attributes(generation)

    async def frozen(self) -> FrozenFile:
        """Return the file as it is now; EAGAIN as for a look-up."""
        await self.renew()
        generation = self._current()
        view = self._views[generation]
        await self._building.complete(view)
        size, inode = view.size, self._partition.inode(self._kind, generation)
        return FrozenFile(inode, size, view, self._partition.log.modified_ns, view.next_damage(size, size))

    async def listed(self) -> EntryAttributes | None:
        """Return the attributes if all line indexes exist, or can be completed from `LISTING_BYTES_MAX`; else None."""
        await self.renew()
        generation = self._current()
        view, bytes_max = self._views[generation], LISTING_BYTES_MAX[self._kind]
        is_complete = not self._building.is_running and await self._mount.executor.answer(
            _refresh_whole_segments, view, bytes_max
        )
        if not is_complete and view.lacks_own_appends_only:
            self._building.begin(view)  # takes a second at most; the next listing returns the file
        return self._attributes(generation) if is_complete else None

    async def attributes(self, number: int) -> EntryAttributes:
        await self._building.complete(self._view(number))
        entry = self._attributes(number)
        # The kernel identifies the file by the inode of the look-up; this number only reaches stat(2), where `tail -F`
        # compares it (decision 19).
        entry.st_ino = self._stat_inodes[self._stat_generation(number)]
        return entry

    def _attributes(self, generation: int) -> EntryAttributes:
        entry = self._mount.attributes.file(
            self._partition.inode(self._kind, generation),
            self._views[generation].size,
            self._partition.log.modified_ns,
        )
        entry.st_blksize = PREFERRED_READ_BYTES
        return entry

    def _current(self) -> int:
        """Return the current generation of the name; begin the next one if the head of the log was cut."""
        view = self._views.get(self._generation)
        if view is None:
            view = self._begun()
            self._views[self._generation] = view
            self._stat_inodes[self._generation] = self._lasting_inode(view)
        elif not view.is_current or view.view_format is not self.view_format:
            in_stat = self._stat_generation(self._generation)
            self._generation += 1
            has_format = view.view_format is self.view_format
            self._views[self._generation] = view.successor() if has_format else self._begun()
            self._stat_inodes[self._generation] = self._lasting_inode(self._views[self._generation])
            if any(self._stat_generation(generation) == in_stat for generation in self._readers):
                self._stat_generations[self._generation] = in_stat
            self._forget_unread()
        return self._generation

    def _begun(self) -> PartitionView:
        return PartitionView(
            self._partition.log,
            self._mount.caches.line_indexes,
            self._mount.damage.report,
            view_format=self.view_format,
            is_committed_only=self._mount.options.is_committed_only,
            cache=self._partition.line_index_cache,
        )

    def _lasting_inode(self, view: PartitionView) -> int:
        """Return a number that is the same in each mount, for a file that begins with the same bytes."""
        topic_id, name = self._partition.topic_id, self._partition.name
        if topic_id is None:
            return self._partition.inode(self._kind, self._generation)
        cleaned = self._mount.directory.directory_of(name).cleaner_offset(name)
        is_committed_only = self._mount.options.is_committed_only
        # Compaction moves the checkpoint only after it has replaced the segments, and may replace them twice.
        attempt = 0
        while True:
            beginning = (topic_id, name.partition, is_committed_only, view.start_offset, cleaned, attempt)
            digest = hashlib.blake2b(repr(beginning).encode(), digest_size=8).digest()
            inode = self._kind | int.from_bytes(digest, "big") & _LASTING_MASK
            if inode not in self._stat_inodes.values():
                return inode
            attempt += 1

    def _stat_generation(self, generation: int) -> int:
        return self._stat_generations.get(generation, generation)

    def _view(self, number: int) -> PartitionView:
        view = self._views.get(number)
        if view is None:
            raise FUSEError(errno.ESTALE)
        return view

    def _forget_unread(self) -> None:
        for generation in list(self._views):
            if generation != self._generation and not self._readers.get(generation):
                del self._views[generation]
                self._stat_generations.pop(generation, None)
        shown = {self._stat_generation(generation) for generation in self._views}
        self._stat_inodes = {
            generation: inode for generation, inode in self._stat_inodes.items() if generation in shown
        }

    def known_index(self, segment: Segment) -> LineIndex | None:
        """Return the line index of a segment as far as it was built, for reading only."""
        view = self._views.get(self._generation)
        return None if view is None or view.view_format is not self.view_format else view.known_index(segment)

    # --- reading ---------------------------------------------------------------------------------------------------

    async def open(self, number: int, opening: Opening) -> Opened:
        view = self._view(number)
        self._report_remote_head()
        self._readers[number] = self._readers.get(number, 0) + 1
        fails = self._mount.options.damage == EIO
        inode = self._partition.inode(self._kind, number)
        polls = ViewPolls(self._mount, self._partition, view)
        handle = ViewHandle(self._mount, view, inode, self._closed, fails_at_damage=fails, polls=polls)
        # Past the page cache: readers got zeros in place of records that had just come (decision 23).
        return Opened(handle, direct=True)

    def _report_remote_head(self) -> None:
        """Report records that the view does not have, once: a reader of the whole log would take it for complete."""
        note = self._partition.log.remote_note
        if note is not None and not self._is_head_reported:
            self._is_head_reported = True
            path = f"{self._partition.name}/{self.view_format.name}"
            self._mount.error_log.report(Fault(None, "open", path, note, "a consumer of the cluster reads them"))

    def _closed(self, inode: int) -> None:
        number = unpack(inode).number
        self._readers[number] -= 1
        if not self._readers[number]:
            del self._readers[number]
            self._forget_unread()


def _refresh_whole_segments(view: PartitionView, bytes_max: int, *, nowait: bool) -> bool:
    return view.refresh(nowait=nowait, bytes_max=bytes_max, whole_segments_only=True)
